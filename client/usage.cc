#include "client/usage.h"

#include "absl/strings/cord.h"

namespace varifocal::client {
namespace {

constexpr char kUsagePayload[] = "varifocal/usage";

}  // namespace

absl::Status AsUsageError(const absl::Status& status) {
  absl::Status marked = status;
  if (!marked.ok()) marked.SetPayload(kUsagePayload, absl::Cord("1"));
  return marked;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kDone;
  return status.GetPayload(kUsagePayload).has_value() ? ExitCode::kWrongUsage : ExitCode::kFailed;
}

}  // namespace varifocal::client
