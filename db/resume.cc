#include "db/resume.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "db/rows.h"

namespace varifocal::db {
namespace {

constexpr char kAnsweredSamples[] =
    "SELECT samples.sample_index FROM generations JOIN samples ON samples.sample_id = generations.sample_id"
    " WHERE generations.cell_id = ? AND generations.error_code IS NULL ORDER BY samples.sample_index";
constexpr char kOtherExecution[] =
    "SELECT earlier.code_version, earlier.backend, earlier.instruction_set, now.code_version, now.backend,"
    " now.instruction_set"
    " FROM executions AS now, executions AS earlier"
    " WHERE now.execution_id = ? AND (earlier.code_version, earlier.backend, earlier.instruction_set)"
    " IS NOT (now.code_version, now.backend, now.instruction_set)"
    // A server elsewhere is an engine of its own beside those of this program.
    " AND (earlier.backend = 'endpoint') = (now.backend = 'endpoint')"
    " AND EXISTS (SELECT 1 FROM generations JOIN cells ON cells.cell_id = generations.cell_id"
    " JOIN variants ON variants.variant_id = cells.variant_id"
    " WHERE variants.job_id = ? AND generations.execution_id = earlier.execution_id AND generations.error_code IS NULL)"
    " ORDER BY earlier.execution_id LIMIT 1";

}  // namespace

std::optional<ModelDifference> FindModelDifference(const VariantRecord& before, const VariantRecord& after,
                                                   bool allow_unrecorded) {
  const std::array<ModelDifference, 5> facts = {{
      {"weights", before.model.weights_sha256, after.model.weights_sha256},
      {"tokenizer", before.model.tokenizer_sha256, after.model.tokenizer_sha256},
      {"attention", before.model.attention_json, after.model.attention_json},
      {"number format", before.model.dtype, after.model.dtype},
      {"focal temperature", before.focal_temperature_json.value_or("as trained"),
       after.focal_temperature_json.value_or("as trained")},
  }};
  for (const ModelDifference& fact : facts) {
    if (fact.before != fact.after) return fact;
  }
  const std::optional<std::string>&a = before.model.function_json, &b = after.model.function_json;
  if (a.has_value() && b.has_value()) {
    if (const auto other = FirstTextDifference(*a, *b); other.has_value())
      return ModelDifference{absl::StrCat("configuration (", other->place, ")"), other->before, other->after};
    return std::nullopt;
  }
  if (before.model.architecture != after.model.architecture)
    return ModelDifference{"architecture", before.model.architecture, after.model.architecture};
  if (before.model.context_length_max != after.model.context_length_max) {
    return ModelDifference{"context length", absl::StrCat(before.model.context_length_max),
                           absl::StrCat(after.model.context_length_max)};
  }
  if (allow_unrecorded) return std::nullopt;
  const auto shown = [](const std::optional<std::string>& json) {
    return json.has_value() ? Sha256Hex(*json) : "not recorded (by an earlier version; --allow-mixed accepts it)";
  };
  return ModelDifference{"configuration", shown(a), shown(b)};
}

absl::StatusOr<std::vector<int64_t>> ReadPendingSamples(sqlite::Database& database, int64_t cell_id,
                                                        int64_t planned_count) {
  ASSIGN_OR_RETURN(sqlite::Statement statement, database.Prepare(kAnsweredSamples));
  statement.BindAll(cell_id);
  std::vector<int64_t> unanswered;
  for (int64_t next = 0;;) {
    ASSIGN_OR_RETURN(const bool row, statement.Step());
    const int64_t answered = row ? statement.Int(0) : planned_count;
    for (; next < answered; ++next) unanswered.push_back(next);
    next = answered + 1;
    if (!row) return unanswered;
  }
}

absl::Status CheckMayResume(sqlite::Database& database, int64_t job_id, int64_t execution_id,
                            const std::vector<VariantRecord>& variants, bool allow_mixed) {
  ASSIGN_OR_RETURN(std::vector<VariantRecord> recorded, ReadVariants(database, job_id));
  for (const VariantRecord& now : variants) {
    auto then = std::find_if(recorded.begin(), recorded.end(), [&](const auto& v) { return v.name == now.name; });
    if (then == recorded.end()) return NotFound("job ", job_id, " has no variant ", now.name);
    if (const std::optional<ModelDifference> fact = FindModelDifference(*then, now, allow_mixed); fact.has_value()) {
      return FailedPrecondition("variant ", then->name, " has another ", fact->what,
                                " than when the job began: ", fact->after, ", recorded ", fact->before);
    }
  }
  if (allow_mixed) return absl::OkStatus();
  ASSIGN_OR_RETURN(sqlite::Statement other, database.Prepare(kOtherExecution));
  ASSIGN_OR_RETURN(bool differs, other.BindAll(execution_id, job_id).Step());
  if (!differs) return absl::OkStatus();
  return FailedPrecondition("job ", job_id, " has answers from code ", other.Text(0), " on ", other.Text(1), "/",
                            other.Text(2), " and would continue with code ", other.Text(3), " on ", other.Text(4), "/",
                            other.Text(5),
                            "; allow mixed executions to continue, and the results will be labelled mixed");
}

}  // namespace varifocal::db
