#include "server/rpc/status.h"

#include <optional>
#include <string>

#include "base/reason.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace varifocal {
namespace {

constexpr size_t kStatusBytesMax = 1000;
constexpr size_t kValueBytesMax = 256;
constexpr size_t kValueCountMax = 8;

// Proto strings are UTF-8; user input may not be.
std::string Clean(absl::string_view text, size_t bytes_max) {
  std::string clean;
  for (unsigned char c : text.substr(0, bytes_max))
    clean += c == '\n' || (c >= 0x20 && c < 0x7f) ? static_cast<char>(c) : '?';
  if (text.size() > bytes_max) clean += "...";
  return clean;
}

std::optional<ErrorReason> FindReason(absl::string_view name) {
#define VF_FIND(reason, text) \
  if (name == text) return ErrorReason::reason;
  VF_ERROR_REASONS(VF_FIND)
#undef VF_FIND
  return std::nullopt;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Clean(status.message(), kStatusBytesMax);
  const Reason reason = ReasonOf(status);

  google::rpc::ErrorInfo info;
  info.set_reason(reason.name);
  info.set_domain(kErrorDomain);
  size_t value_count = 0;
  for (const auto& [key, value] : reason.metadata) {
    if (value_count++ == kValueCountMax) break;
    (*info.mutable_metadata())[key] = Clean(value, kValueBytesMax);
  }
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(message);
  details.add_details()->PackFrom(info);
  const auto field = reason.metadata.find("field");
  if (field != reason.metadata.end()) {
    google::rpc::BadRequest bad_request;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(Clean(field->second, kValueBytesMax));
    violation->set_description(message);
    details.add_details()->PackFrom(bad_request);
  }
  // The canonical codes have the same numbers in both libraries.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message, details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status converted(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return converted;
  for (const auto& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (!detail.UnpackTo(&info) || info.domain() != kErrorDomain) continue;
    const std::optional<ErrorReason> reason = FindReason(info.reason());
    if (!reason.has_value()) continue;
    return WithReason(converted, *reason, {info.metadata().begin(), info.metadata().end()});
  }
  return converted;
}

}  // namespace varifocal
