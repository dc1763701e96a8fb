#include "server/jobs/answer_import.h"

#include <set>
#include <utility>

#include "base/code_version.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "db/writer.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/runner.h"
#include "server/jobs/database_sink.h"
#include "server/jobs/job_records.h"

namespace varifocal {
namespace {

std::string EpochOf(const Sample& sample) { return sample.epoch == 0 ? "" : absl::StrCat(" in epoch ", sample.epoch); }

class ReadyAnswers : public Generator {
 public:
  explicit ReadyAnswers(const std::map<std::string, std::string>& answers) : answers_(answers) {}

  Id Start(const GenerationRequest& request, Done done) override {
    const std::string digest = request.sample->TokenIdsSha256();
    const auto answer = answers_.find(ImportedAnswerKey(digest, request.sample->epoch));
    if (!request.sample->continuations.empty()) {
      done(Unimplemented("choices are judged by log-likelihoods, which imported answers do not have"));
    } else if (answer == answers_.end()) {
      done(NotFound("no answer was given for the prompt with token ids ", digest, EpochOf(*request.sample)));
    } else {
      used_.insert(answer->first);
      Generation generation;
      generation.text = answer->second;
      generation.finish_reason = FinishReason::kEos;
      generation.prompt_token_count = request.sample->prompt_token_count();
      done(std::move(generation));
    }
    return 1;
  }
  void Cancel(Id) override {}

  int64_t unused_count() const { return answers_.size() - used_.size(); }

 private:
  const std::map<std::string, std::string>& answers_;
  std::set<std::string> used_;
};

}  // namespace

absl::StatusOr<AnswerImportResult> ImportAnswers(AnswerImport import) {
  ASSIGN_OR_RETURN(JobSpec spec, ValidateJobSpec(std::move(import.spec)));
  if (spec.variants.size() != 1) return InvalidArgument("imported answers have one name");
  ASSIGN_OR_RETURN(const Grid grid, MakeGrid(spec));
  PinData(grid, spec);
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Writer> writer, db::Writer::Open(import.database_path));
  db::VariantRecord variant;
  variant.name = spec.variants[0].Name();
  variant.model.name = spec.variants[0].model;
  variant.model.architecture = "imported";
  variant.model.weights_sha256 = import.answers_sha256;
  variant.model.tokenizer_sha256 = import.tokenizer->sha256();
  variant.model.dtype = "f32";
  variant.model.attention_json = "{}";
  variant.model.function_json = R"({"architecture":"imported"})";
  variant.model.context_length_max = spec.suite.lengths.back();
  db::ExecutionRecord execution;
  execution.code_version = CodeVersion();
  execution.backend = "imported";
  execution.instruction_set = "imported";
  execution.device = "imported";
  execution.command_line = import.source;
  ASSIGN_OR_RETURN(const int64_t execution_id, writer->AddExecution(execution));
  db::NewJob job;
  job.suite = spec.suite.name;
  job.spec_json = ToCanonicalJson(spec);
  job.data_seed = spec.suite.seed;
  job.variants = {variant};
  job.metrics = ToTaskMetrics(spec);
  job.cells = ToCells(grid);
  ASSIGN_OR_RETURN(const db::AddedJob added, writer->AddJob(job));
  AnswerImportResult result;
  result.job_id = added.job_id;
  RETURN_IF_ERROR(writer->SetJobState(added.job_id, db::JobState::kRunning));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<DatabaseSink> sink,
      DatabaseSink::Create(writer.get(), {added.job_id, spec.keep_prompts, {{variant.name, execution_id}}}));
  ReadyAnswers answers(import.answers);
  RunnerHooks hooks;
  hooks.on_progress = [&](const RunProgress& progress) {
    result.answered_count = progress.done_count - progress.failed_count;
    result.failed_count = progress.failed_count;
  };
  Runner runner(spec, {{&answers, import.tokenizer, import.chat_tokenizer}}, sink.get(), std::move(hooks));
  const absl::StatusOr<RunOutcome> outcome = runner.Run();
  RETURN_IF_ERROR(writer->SetJobState(added.job_id, outcome.ok() ? db::JobState::kSucceeded : db::JobState::kFailed,
                                      outcome.ok() ? "" : std::string(outcome.status().message())));
  RETURN_IF_ERROR(outcome.status());
  result.unused_count = answers.unused_count();
  return result;
}

}  // namespace varifocal
