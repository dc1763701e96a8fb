#include "server/jobs/resolved_job.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/jobs/job_records.h"
#include "server/jobs/reason.h"

namespace varifocal {
namespace {

constexpr int64_t kPageTokens = 128;

absl::Status CheckVariant(const Variant& variant, const HostedModel& model) {
  if (model.tokenizer == nullptr) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat("model \"", model.name, "\" has no tokenizer")),
                      "MODEL_WITHOUT_TOKENIZER", {{"model", model.name}});
  }
  const absl::Status temperatures = CheckFocalTemperatures(model.config, variant.focal_temperatures);
  return WithReason(Annotate(temperatures, absl::StrCat("variant \"", variant.Name(), "\"")), "BAD_FOCAL_TEMPERATURE",
                    {{"variant", variant.Name()}, {"field", "spec.variants"}});
}

absl::Status CheckLengthFits(int length, const HostedModel& model) {
  if (length > model.config.max_position) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("context length ", length, " exceeds the limit of model \"", model.name,
                                                "\", ", model.config.max_position, " tokens")),
        "CONTEXT_TOO_LONG",
        {{"model", model.name}, {"limit", absl::StrCat(model.config.max_position)}, {"field", "spec.suite.lengths"}});
  }
  const EngineDescription engine = model.engine->Describe();
  const int64_t page_count = (length + kPageTokens - 1) / kPageTokens;
  if (engine.page_count > 0 && page_count > engine.page_count) {
    return WithReason(absl::ResourceExhaustedError(
                          absl::StrCat("context length ", length, " needs ", page_count * model.provenance.page_bytes,
                                       " bytes of keys and values for model \"", model.name, "\", the limit is ",
                                       engine.page_count * model.provenance.page_bytes)),
                      "CACHE_TOO_SMALL", {{"model", model.name}, {"limit", absl::StrCat(engine.kv_cache_bytes)}});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ResolvedJob> ResolveJob(JobSpec spec, const ModelHost& host, int in_flight) {
  if (spec.in_flight == 0) spec.in_flight = in_flight;
  ResolvedJob job;
  absl::StatusOr<JobSpec> valid = ValidateJobSpec(std::move(spec));
  if (!valid.ok()) return WithReason(valid.status(), "BAD_JOB_SPEC");
  job.spec = *std::move(valid);
  for (const Variant& variant : job.spec.variants) {
    ASSIGN_OR_RETURN(std::shared_ptr<HostedModel> model, host.Find(variant.model));
    RETURN_IF_ERROR(CheckVariant(variant, *model));
    for (int length : job.spec.suite.lengths) RETURN_IF_ERROR(CheckLengthFits(length, *model));
    job.variants.push_back(ToVariantRecord(variant, *model));
    job.models.push_back(std::move(model));
  }
  absl::StatusOr<Grid> grid = MakeGrid(job.spec);
  if (!grid.ok()) return WithReason(grid.status(), "BAD_JOB_SPEC");
  job.grid = *std::move(grid);
  PinData(job.grid, job.spec);  // what is stored names the data it was asked on
  return job;
}

absl::Status CheckLengthsArePossible(const ResolvedJob& job) {
  std::set<std::string> seen;  // variants share tokenizers
  for (const std::shared_ptr<HostedModel>& model : job.models) {
    const auto tokenizer = MakeTokenCounter(model->tokenizer);
    if (!seen.insert(tokenizer->sha256()).second) continue;
    for (const std::unique_ptr<Task>& task : job.grid.tasks) {
      if (!task->data_sha256().empty()) continue;
      for (const int length : job.spec.suite.lengths) {
        for (const absl::StatusOr<Sample>& made :
             task->MakeGroup({job.spec.suite.seed, length, /*index=*/0}, *tokenizer)) {
          if (absl::IsInvalidArgument(made.status())) {
            return WithReason(made.status(), "IMPOSSIBLE_LENGTH", {{"task", task->name()}, {"field", "spec.suite.lengths"}});
          }
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace varifocal
