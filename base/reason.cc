#include "base/reason.h"

#include <utility>

#include "absl/strings/cord.h"
#include "base/check.h"
#include "base/json.h"

namespace varifocal {
namespace {

constexpr char kPayloadUrl[] = "varifocal/reason";

absl::Status Attach(absl::Status status, const Reason& reason) {
  const Json payload = {{"name", reason.name}, {"metadata", reason.metadata}};
  // Values may quote user input, so invalid UTF-8 is replaced instead of rejected.
  status.SetPayload(kPayloadUrl, absl::Cord(payload.dump(-1, ' ', false, Json::error_handler_t::replace)));
  return status;
}

}  // namespace

absl::string_view ErrorReasonName(ErrorReason reason) {
  static constexpr const char* kNames[] = {
#define VF_TEXT(name, text) text,
      VF_ERROR_REASONS(VF_TEXT)
#undef VF_TEXT
  };
  return kNames[static_cast<size_t>(reason)];
}

absl::Status WithReason(absl::Status status, ErrorReason reason, std::map<std::string, std::string> metadata) {
  if (status.ok()) return status;
  return Attach(std::move(status), {std::string(ErrorReasonName(reason)), std::move(metadata)});
}

absl::Status WithMetadata(const absl::Status& status, const std::string& key, const std::string& value) {
  if (status.ok()) return status;
  Reason reason = ReasonOf(status);
  reason.metadata[key] = value;
  return Attach(status, reason);
}

std::string FieldOf(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  const auto field = reason.metadata.find("field");
  return field == reason.metadata.end() ? "" : field->second;
}

Reason ReasonOf(const absl::Status& status) {
  VF_CHECK(!status.ok());
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return {.name = absl::StatusCodeToString(status.code()), .metadata = {}};
  const auto json = ParseJson(std::string(*payload));
  VF_CHECK(json.ok());
  return {.name = (*json)["name"].get<std::string>(),
          .metadata = (*json)["metadata"].get<std::map<std::string, std::string>>()};
}

bool HasReason(const absl::Status& status, ErrorReason reason) {
  return !status.ok() && ReasonOf(status).name == ErrorReasonName(reason);
}

}  // namespace varifocal
