#include "wire/resource_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/job_spec.h"

namespace varifocal {
namespace {

constexpr absl::string_view kModels = "models/";
constexpr absl::string_view kJobs = "jobs/";

absl::Status BadName(absl::string_view name, absl::string_view wanted, absl::string_view field) {
  return WithReason(InvalidArgument(field, " \"", name.substr(0, 128), "\" is not ", wanted),
                    ErrorReason::kBadResourceName, {{"field", std::string(field)}});
}

}  // namespace

std::string ModelResource(absl::string_view model) { return absl::StrCat(kModels, model); }

std::string JobResource(int64_t job_id) { return absl::StrCat(kJobs, job_id); }

absl::StatusOr<std::string> ParseModelResource(absl::string_view name, absl::string_view field) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, kModels) || !CheckName("model", rest).ok())
    return BadName(name, "\"models/NAME\"", field);
  return std::string(rest);
}

absl::StatusOr<int64_t> ParseJobResource(absl::string_view name, absl::string_view field) {
  absl::string_view rest = name;
  int64_t id = 0;
  if (!absl::ConsumePrefix(&rest, kJobs) || !absl::SimpleAtoi(rest, &id) || id < 1 || absl::StrCat(id) != rest) {
    return BadName(name, "\"jobs/ID\" with a number above 0", field);
  }
  return id;
}

}  // namespace varifocal
