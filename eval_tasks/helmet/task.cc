#include "eval_tasks/helmet/task.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/helmet/rows.h"
#include "eval_tasks/json_scan.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/seeds.h"

namespace varifocal {
namespace helmet {
namespace {

bool HoldsAny(absl::string_view text, const std::vector<std::string>& needles) {
  return std::any_of(needles.begin(), needles.end(), [&](const std::string& needle) {
    return !needle.empty() && text.find(needle) != absl::string_view::npos;
  });
}

// The rows of one length, opened on first use.
struct LoadedRows {
  std::unique_ptr<JsonRowFile> file;
  struct Identity {
    std::string id, question, cluster;
  };
  std::vector<Identity> identities;
};

class HelmetTask : public SingleQuestionTask {
 public:
  HelmetTask(TaskSpec spec, std::string folder, TaskIndex index, std::string index_sha256, Template prompt,
             Template answer_prefix)
      : spec_(std::move(spec)),
        folder_(std::move(folder)),
        index_(std::move(index)),
        index_sha256_(std::move(index_sha256)),
        prompt_(std::move(prompt)),
        answer_prefix_(std::move(answer_prefix)) {}

  const std::string& name() const override { return spec_.name; }
  std::string data_sha256() const override { return index_sha256_; }
  std::optional<std::string> system_message() const override {
    return spec_.chat ? index_.system_message : std::nullopt;
  }

  int question_count() const override {
    int count = 0;
    for (const auto& [length, entry] : index_.lengths) count = std::max(count, entry.row_count);
    return count;
  }

  absl::StatusOr<int> QuestionCountAt(int context_length) const override {
    const auto entry = index_.lengths.find(context_length);
    if (entry == index_.lengths.end()) {
      return InvalidArgument(
          "the task \"", spec_.name, "\" was imported for the lengths ",
          absl::StrJoin(index_.lengths, ", ", [](std::string* out, const auto& e) { absl::StrAppend(out, e.first); }),
          ", not for ", context_length);
    }
    if (entry->second.missing.empty()) RETURN_IF_ERROR(RowsOf(context_length).status());
    return entry->second.row_count;
  }

  std::string WhyNoQuestionsAt(int context_length) const override {
    const auto entry = index_.lengths.find(context_length);
    return entry == index_.lengths.end() ? "" : entry->second.missing;
  }

  Sample Identify(const SampleRequest& request) const override {
    Sample sample = AskedSample(spec_, request);
    sample.row_id = absl::StrCat(request.index);
    const absl::StatusOr<const LoadedRows*> rows = RowsOf(request.context_length);
    if (rows.ok() && static_cast<size_t>(request.index) < (*rows)->identities.size()) {
      const LoadedRows::Identity& identity = (*rows)->identities[request.index];
      sample.row_id = identity.id;
      sample.question_id = absl::StrCat(spec_.name, "/", identity.question);
      sample.cluster = absl::StrCat(spec_.name, "/", identity.cluster);
    } else {
      sample.question_id = sample.cluster = absl::StrCat(spec_.name, "/", request.index);
    }
    sample.stop_strings = index_.stop_strings;
    const auto entry = index_.lengths.find(request.context_length);
    if (entry != index_.lengths.end()) sample.max_new_tokens = AnswerTokens(spec_, entry->second.max_new_tokens);
    sample.thinking_max_tokens = spec_.answer.thinking_max_tokens;
    sample.sampling_seed = SamplingSeed(ItemSeed(request.seed, spec_.name, request.index));
    return sample;
  }

 private:
  absl::StatusOr<const LoadedRows*> RowsOf(int context_length) const {
    const auto entry = index_.lengths.find(context_length);
    if (entry == index_.lengths.end() || !entry->second.missing.empty()) {
      return InvalidArgument("the task \"", spec_.name, "\" has no rows for ", context_length);
    }
    const MutexLock lock(mutex_);
    const auto loaded = rows_.find(context_length);
    if (loaded != rows_.end()) return &loaded->second;
    ASSIGN_OR_RETURN(LoadedRows rows, Load(entry->second));
    return &rows_.emplace(context_length, std::move(rows)).first->second;
  }

  absl::StatusOr<LoadedRows> Load(const LengthEntry& entry) const {
    LoadedRows rows;
    ASSIGN_OR_RETURN(rows.file, JsonRowFile::Open((std::filesystem::path(folder_) / entry.rows_file).string()));
    RETURN_IF_ERROR(rows.file->Scan([&](int64_t, absl::string_view text) -> absl::Status {
      ASSIGN_OR_RETURN(const Json fields, FieldsOf(text, {"id", "question", "cluster"}));
      LoadedRows::Identity identity;
      ASSIGN_OR_RETURN(identity.id, GetString(fields, "id"));
      ASSIGN_OR_RETURN(identity.question, GetString(fields, "question"));
      ASSIGN_OR_RETURN(identity.cluster, GetString(fields, "cluster"));
      rows.identities.push_back(std::move(identity));
      return absl::OkStatus();
    }));
    if (rows.file->sha256() != entry.rows_sha256) {
      return FailedPrecondition(rows.file->path(), ": the SHA-256 of the file is not ", entry.rows_sha256,
                                " as when it was imported");
    }
    if (std::ssize(rows.identities) != entry.row_count) {
      return FailedPrecondition(rows.file->path(), ": has ", rows.identities.size(), " rows, not ", entry.row_count);
    }
    return rows;
  }

  absl::StatusOr<Sample> Make(const SampleRequest& request, const TokenCounter& tokenizer) const override {
    ASSIGN_OR_RETURN(const LoadedRows* rows, RowsOf(request.context_length));
    if (request.index < 0 || request.index >= std::ssize(rows->identities)) {
      return OutOfRange("the task \"", spec_.name, "\" has ", rows->identities.size(), " rows at ",
                        request.context_length, ", none with index ", request.index);
    }
    ASSIGN_OR_RETURN(const Json object, rows->file->Read(request.index));
    ASSIGN_OR_RETURN(ImportedRow row, Annotate(RowFromJson(object), rows->file->PlaceOf(request.index)));
    Sample sample = Identify(request);
    sample.tokenizer_sha256 = tokenizer.sha256();
    sample.gold = row.gold;
    sample.depth = row.depth;
    ASSIGN_OR_RETURN(sample.reference_json, DumpJson(row.reference));
    sample.truncation.cut_token_count = row.length_cut_tokens;
    sample.truncation.gold_survived = row.gold_survived_length_cut;
    if (!spec_.chat) {
      ASSIGN_OR_RETURN(sample.answer_prefix, answer_prefix_.Render(row.values));
    }
    RETURN_IF_ERROR(Render(row, row.context, tokenizer, sample));
    if (sample.shortfall_tokens >= 0) return sample;
    const int cut = -sample.shortfall_tokens;
    absl::StatusOr<std::string> kept = WithoutLastTokens(row.context, cut, tokenizer);
    if (!kept.ok()) {
      return Annotate(kept.status(),
                      absl::StrCat("row ", sample.row_id, " of task \"", spec_.name, "\" at ", sample.context_length));
    }
    RETURN_IF_ERROR(Render(row, *kept, tokenizer, sample));
    sample.truncation.cut_token_count += cut;
    sample.truncation.gold_survived =
        sample.truncation.gold_survived && (!HoldsAny(row.context, row.gold) || HoldsAny(*kept, row.gold));
    return sample;
  }

  absl::Status Render(const ImportedRow& row, const std::string& context, const TokenCounter& tokenizer,
                      Sample& sample) const {
    ASSIGN_OR_RETURN(sample.prompt, prompt_.Render({{"context", context}}, row.values));
    const std::optional<std::string> system = system_message();
    ASSIGN_OR_RETURN(sample.token_ids, system.has_value() ? tokenizer.EncodeConversation(*system, sample.prompt)
                                                          : tokenizer.EncodePrompt(sample.prompt));
    // Upstream's prompts leave space for upstream's number of tokens, whatever the answer may have.
    sample.shortfall_tokens =
        sample.context_length - sample.prompt_token_count() - index_.lengths.at(sample.context_length).max_new_tokens;
    return absl::OkStatus();
  }

  const TaskSpec spec_;
  const std::string folder_;
  const TaskIndex index_;
  const std::string index_sha256_;
  const Template prompt_;
  const Template answer_prefix_;
  mutable Mutex mutex_;
  mutable std::map<int, LoadedRows> rows_ VF_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::string> WithoutLastTokens(absl::string_view context, int64_t cut, const TokenCounter& tokenizer) {
  ASSIGN_OR_RETURN(const std::vector<TextRange> offsets, tokenizer.TokenOffsets(context));
  const auto count = std::ssize(offsets);
  if (cut > count) {
    return OutOfRange("the prompt is ", cut, " tokens too long; its context, the only part that may be truncated, has ",
                      count);
  }
  return std::string(context.substr(0, offsets[count - cut].begin));
}

}  // namespace helmet

absl::StatusOr<std::unique_ptr<Task>> MakeHelmetTask(const TaskSpec& spec) {
  const std::string& path = GetText(spec.parameters, "path");
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kDataFile));
  const std::string digest = Sha256Hex(bytes);
  RETURN_IF_ERROR(CheckRecordedSha256(spec.parameters, path, digest));
  ASSIGN_OR_RETURN(helmet::TaskIndex index, Annotate(helmet::ParseTaskIndex(bytes), path));
  const std::string prompt =
      spec.chat ? index.user_template : absl::StrCat(index.user_template, index.separator, index.system_template);
  ASSIGN_OR_RETURN(helmet::Template prompt_template, helmet::Template::Parse(prompt));
  ASSIGN_OR_RETURN(helmet::Template answer_prefix, helmet::Template::Parse(index.system_template));
  return std::make_unique<helmet::HelmetTask>(spec, std::filesystem::path(path).parent_path().string(),
                                              std::move(index), digest, std::move(prompt_template),
                                              std::move(answer_prefix));
}

}  // namespace varifocal
