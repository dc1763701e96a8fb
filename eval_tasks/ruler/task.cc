#include "eval_tasks/ruler/task.h"

#include <climits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/ruler/generate.h"
#include "eval_tasks/ruler/inputs.h"
#include "eval_tasks/ruler/rows.h"
#include "eval_tasks/ruler/sample.h"

namespace varifocal {
namespace ruler {
namespace {

SampleForm FormOf(const TaskSpec& spec) {
  const std::string& model_template = GetText(spec.parameters, "model_template");
  return {GetText(spec.parameters, "answer_prefix") != "left_out", !model_template.empty() && model_template != "base"};
}

class GeneratedTask : public SingleQuestionTask {
 public:
  GeneratedTask(TaskSpec spec, const RulerTaskInfo& info, std::shared_ptr<const Inputs> inputs)
      : spec_(std::move(spec)), info_(info), inputs_(std::move(inputs)) {
    std::string digests;
    for (const auto& [name, sha256] : inputs_->sha256) absl::StrAppend(&digests, name, " ", sha256, "\n");
    data_sha256_ = Sha256Hex(digests);
  }

  const std::string& name() const override { return spec_.name; }
  int question_count() const override {
    return info_.script == Script::kQuestions ? std::ssize(inputs_->questions) : INT_MAX;
  }
  std::string data_sha256() const override { return data_sha256_; }
  bool draws_from_seed() const override { return true; }
  std::string Note() const override {
    return inputs_->note.empty() ? "" : absl::StrCat(spec_.name, ": ", inputs_->note);
  }

  Sample Identify(const SampleRequest& request) const override {
    Sample sample = StartSample(spec_, info_, request);
    const std::string seed = absl::StrCat(spec_.name, "/s", request.seed);
    if (info_.script != Script::kQuestions) {
      // The draws before a row depend on the length, so that no two lengths ask the same question.
      sample.question_id = absl::StrCat(seed, "/", request.context_length, "/", request.index);
      sample.cluster = sample.question_id;
      return sample;
    }
    sample.question_id = absl::StrCat(seed, "/", request.index);
    const bool is_known = request.index < std::ssize(inputs_->questions);
    sample.cluster = absl::StrCat(spec_.name, "/",
                                  info_.is_hotpot || !is_known
                                      ? absl::StrCat(request.index)
                                      : absl::StrCat("paragraph ", inputs_->questions[request.index].documents[0]));
    return sample;
  }

 private:
  absl::StatusOr<Sample> Make(const SampleRequest& request, const TokenCounter& tokenizer) const override {
    if (request.index >= question_count()) {
      return OutOfRange("RULER's ", info_.name, " has ", question_count(), " questions in its data, none with index ",
                        request.index);
    }
    Sample sample = Identify(request);
    ASSIGN_OR_RETURN(const RulerRow row, RowOf(request, tokenizer));
    RETURN_IF_ERROR(FillSample(spec_, info_, row, FormOf(spec_), tokenizer, sample));
    return sample;
  }

  // Rows are generated in order, whatever the order in which they are asked for.
  absl::StatusOr<RulerRow> RowOf(const SampleRequest& request, const TokenCounter& tokenizer) const {
    const MutexLock lock(mutex_);
    const auto key = std::make_pair(std::make_pair(tokenizer.sha256(), request.seed), request.context_length);
    auto found = generators_.find(key);
    if (found == generators_.end()) {
      if (request.seed < 0 || request.seed > UINT32_MAX) {
        return InvalidArgument("the data seed is ", request.seed, "; RULER's generators take 0 to ", UINT32_MAX);
      }
      GenerateSettings settings;
      settings.seed = static_cast<uint32_t>(request.seed);
      settings.context_length = request.context_length;
      settings.template_tokens = GetInteger(spec_.parameters, "template_tokens");
      found = generators_.emplace(key, RowGenerator(info_, *inputs_, settings)).first;
    }
    return found->second.Row(request.index, tokenizer);
  }

  const TaskSpec spec_;
  const RulerTaskInfo& info_;
  const std::shared_ptr<const Inputs> inputs_;
  std::string data_sha256_;
  mutable Mutex mutex_;
  mutable std::map<std::pair<std::pair<std::string, int64_t>, int>, RowGenerator> generators_ VF_GUARDED_BY(mutex_);
};

class ImportedTask : public SingleQuestionTask {
 public:
  ImportedTask(TaskSpec spec, const RulerTaskInfo& info, std::unique_ptr<const RowFiles> files)
      : spec_(std::move(spec)), info_(info), files_(std::move(files)) {}

  const std::string& name() const override { return spec_.name; }
  int question_count() const override {
    int count = 0;
    for (const int length : files_->Lengths()) count = std::max(count, files_->RowCount(length));
    return count;
  }
  absl::StatusOr<int> QuestionCountAt(int context_length) const override {
    const int count = files_->RowCount(context_length);
    if (count > 0) return count;
    return InvalidArgument("the task \"", spec_.name, "\" has rows for the lengths ",
                           absl::StrJoin(files_->Lengths(), ", "), ", not for ", context_length);
  }
  std::string data_sha256() const override { return files_->sha256(); }
  std::string Note() const override { return files_->Note(); }

  Sample Identify(const SampleRequest& request) const override {
    Sample sample = StartSample(spec_, info_, request);
    sample.question_id = info_.script == Script::kQuestions
                             ? absl::StrCat(spec_.name, "/", request.index)
                             : absl::StrCat(spec_.name, "/", request.context_length, "/", request.index);
    sample.cluster = sample.question_id;
    return sample;
  }

 private:
  absl::StatusOr<Sample> Make(const SampleRequest& request, const TokenCounter& tokenizer) const override {
    ASSIGN_OR_RETURN(const int count, QuestionCountAt(request.context_length));
    if (request.index >= count) {
      return OutOfRange("the task \"", spec_.name, "\" has ", count, " rows at ", request.context_length,
                        ", none with index ", request.index);
    }
    Sample sample = Identify(request);
    ASSIGN_OR_RETURN(const RulerRow row, files_->Row(request.context_length, request.index));
    if (GetText(spec_.parameters, "tokens") == "own") RETURN_IF_ERROR(CheckLength(request, row, tokenizer));
    RETURN_IF_ERROR(FillSample(spec_, info_, row, FormOf(spec_), tokenizer, sample));
    return sample;
  }

  absl::Status CheckLength(const SampleRequest& request, const RulerRow& row, const TokenCounter& tokenizer) const {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                     tokenizer.EncodeMarker(absl::StrCat(row.input, row.answer_prefix)));
    const int64_t own = std::ssize(ids) + info_.max_new_tokens;
    if (row.length == own) return absl::OkStatus();
    return InvalidArgument("row ", request.index + 1, " of task \"", spec_.name, "\" at ", request.context_length,
                           " has the length ", row.length, " in its file and ", own,
                           " by this model's tokenizer: it was made with another one");
  }

  const TaskSpec spec_;
  const RulerTaskInfo& info_;
  const std::unique_ptr<const RowFiles> files_;
};

}  // namespace
}  // namespace ruler

absl::StatusOr<std::unique_ptr<Task>> MakeRulerTask(const TaskSpec& spec) {
  const ruler::RulerTaskInfo& info = *ruler::FindRulerTask(GetText(spec.parameters, "task"));
  ruler::InputRequest request;
  request.folder = GetText(spec.parameters, "data");
  request.model_template = GetText(spec.parameters, "model_template");
  request.quotes = GetText(spec.parameters, "curly_quotes") == "closing" ? ruler::CurlyQuotes::kClosing
                                                                         : ruler::CurlyQuotes::kLetters;
  ASSIGN_OR_RETURN(std::shared_ptr<const ruler::Inputs> inputs, ruler::LoadInputs(info, request));
  auto task = std::make_unique<ruler::GeneratedTask>(spec, info, std::move(inputs));
  RETURN_IF_ERROR(CheckRecordedSha256(
      spec.parameters, request.folder.empty() ? ruler::DefaultRulerDirectory() : request.folder, task->data_sha256()));
  return task;
}

absl::StatusOr<std::unique_ptr<Task>> MakeRulerRowsTask(const TaskSpec& spec) {
  const ruler::RulerTaskInfo& info = *ruler::FindRulerTask(GetText(spec.parameters, "task"));
  ruler::RowFilesRequest request;
  request.folder = GetText(spec.parameters, "path");
  request.subset = GetText(spec.parameters, "subset");
  request.stated_length = GetInteger(spec.parameters, "rows_length");
  request.expected_rows = GetInteger(spec.parameters, "expected_rows");
  ASSIGN_OR_RETURN(std::unique_ptr<ruler::RowFiles> files, ruler::RowFiles::Open(info, request));
  RETURN_IF_ERROR(CheckRecordedSha256(spec.parameters, request.folder, files->sha256()));
  return std::make_unique<ruler::ImportedTask>(spec, info, std::move(files));
}

std::vector<std::string> RulerMetrics(const std::map<std::string, std::string>& parameters) {
  const ruler::RulerTaskInfo* info = ruler::FindRulerTask(GetText(parameters, "task"));
  if (info != nullptr && info->scores_any()) return {"ruler/string_match_part", "ruler/string_match_all"};
  return {"ruler/string_match_all", "ruler/string_match_part"};
}

}  // namespace varifocal
