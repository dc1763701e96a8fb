// varifocal import: answers of another engine, judged and stored like our own.
#include <algorithm>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/embedded.h"
#include "client/files.h"
#include "client/job_flags.h"
#include "client/rows.h"
#include "client/verb.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::client {
namespace {

class ImportPredictions : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    suite_.AddTo(flags);
    flags
        .Add("predictions", &predictions_, "PATH",
             "one answer a line: {\"token_ids_sha256\", \"prediction\"}; - is standard input")
        .Required();
    flags.Add("name", &name_, "NAME", "what the answers are filed under, like a model's name").Required();
    flags.Add("tokenizer", &tokenizer_, "DIR", "directory with the tokenizer.json that the prompts were made with")
        .Required();
    flags.Add("db", &db_, "PATH", "the results database; made when missing").Required();
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    JobSpec job;
    ASSIGN_OR_RETURN(job.suite, suite_.Read());
    const absl::StatusOr<Variant> variant = ParseVariant(name_);
    if (!variant.ok()) return AsUsageError(variant.status());
    job.variants = {*variant};
    job.limit = static_cast<int>(std::min<int64_t>(suite_.limit, kSampleCountMax));
    AnswerImport import;
    import.database_path = db_;
    ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::Load(tokenizer_));
    import.tokenizer = import.chat_tokenizer = MakeTokenCounter(tokenizer);
    const bool any_chat =
        std::any_of(job.suite.tasks.begin(), job.suite.tasks.end(), [](const TaskSpec& task) { return task.chat; });
    if (any_chat) {
      ASSIGN_OR_RETURN(const std::shared_ptr<const ChatFormat> format, ReadChatFormat(tokenizer_));
      if (format == nullptr) {
        return absl::FailedPreconditionError(
            absl::StrCat(tokenizer_, " has no chat_format.json, which chat tasks need."));
      }
      import.chat_tokenizer = MakeTokenCounter(tokenizer, format);
      job.chat_templates[variant->model] = format->template_sha256;
    }
    Sha256Stream hash;
    RETURN_IF_ERROR(ForEachJsonLine(predictions_, [&](const Json& line) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string digest, GetString(line, "token_ids_sha256"));
      ASSIGN_OR_RETURN(const std::string prediction, GetString(line, "prediction"));
      hash.Update(absl::StrCat(digest, "\n", prediction, "\n"));
      const auto [earlier, is_new] = import.answers.emplace(digest, prediction);
      if (is_new || earlier->second == prediction) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("\"token_ids_sha256\" is ", digest, ", which has another answer already."));
    }));
    import.answers_sha256 = ToHex(hash.Finish());
    import.source = absl::StrCat("answers imported from ", predictions_);
    import.spec = std::move(job);
    ASSIGN_OR_RETURN(const AnswerImportResult result, ImportAnswersHere(std::move(import)));
    if (result.unused_count > 0) {
      console.err << "varifocal: " << result.unused_count << " answers belong to no prompt of the suite.\n";
    }
    if (console.format != Format::kText) {
      RETURN_IF_ERROR(PrintJson(console, {{"job", absl::StrCat("jobs/", result.job_id)},
                                          {"answered_count", result.answered_count},
                                          {"failed_count", result.failed_count},
                                          {"unused_count", result.unused_count}}));
    } else {
      console.out << "jobs/" << result.job_id << ": " << result.answered_count << " answers judged, "
                  << result.failed_count << " prompts without one\n";
    }
    return result.failed_count == 0 ? ExitCode::kDone : ExitCode::kFailed;
  }

 private:
  SuiteFlags suite_;
  std::string predictions_, name_, tokenizer_, db_;
};

}  // namespace

extern const Verb kImportVerb;
constinit const Verb kImportVerb = {
    .name = "import",
    .group = "Results",
    .summary = "answers of another engine, with our scores, statistics and report",
    .about =
        "Takes one JSON object a line: {\"token_ids_sha256\", \"prediction\"}. The hash names the prompt, as "
        "`varifocal "
        "samples`\n"
        "prints it for the same suite and tokenizer; the prediction is what was written after it. The answers are "
        "judged "
        "and\n"
        "stored as a job of their own, marked as imported. Prompts without an answer are failed samples, and the exit "
        "code is\n"
        "then 1. Choices, which are judged by log-likelihoods, cannot be imported.",
    .examples =
        "varifocal samples helmet/helmet_rag.yaml --tokenizer=MODEL --format=jsonl > prompts.jsonl\n"
        "varifocal import helmet/helmet_rag.yaml --predictions=answers.jsonl --name=other --tokenizer=MODEL "
        "--db=results.db",
    .formats = "text json jsonl",
    .make = &Make<ImportPredictions>,
};

}  // namespace varifocal::client
