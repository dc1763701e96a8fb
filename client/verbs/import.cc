// varifocal import: imports answers of another engine, or judgments of stored answers.
#include <algorithm>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/daemon.h"
#include "client/embedded.h"
#include "client/files.h"
#include "client/job_flags.h"
#include "client/jobs.h"
#include "client/judgments.h"
#include "client/rows.h"
#include "client/tokenizers.h"
#include "client/verb.h"
#include "db/judgments.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::client {
namespace {

constexpr size_t kAnswerBytesMax = 16 << 20;  // scoring takes about a second a megabyte

class Import : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add(
        "db", &db_, "PATH",
        "the results database, which no daemon has open; created if missing. Without it, judgments go to the daemon");
    flags.Section("Answers to a suite");
    suite_.AddTo(flags, /*is_required=*/false);
    flags.Add(
        "predictions", &predictions_, "PATH",
        "one answer a line: {\"token_ids_sha256\", \"prediction\"}, with --epochs also \"epoch\" (0 unless given); - is "
        "standard input");
    flags.Add("name", &name_, "NAME", "the variant name of the answers in results");
    flags.Add("tokenizer", &tokenizer_, "DIR", "directory with the tokenizer.json that was used for the prompts");
    tokenizer_flags_.AddTo(flags);
    flags.Section("Judgments of stored answers");
    flags.Add("judgments", &judgments_.paths, "PATH",
              "one judgment a line: {\"token_ids_sha256\", \"scores\": {\"NAME\": 1}}; or a .json that HELMET's "
              "judging scripts wrote; may be repeated");
    flags.Add("job", &job_, "JOB", "this job instead of the one named in the file, or the newest one");
    flags.Add("variant", &judgments_.variant, "NAME", "the variant that was judged");
    flags.Add("score-max", &judgments_.score_max, "N", "the best score, where 0 is the worst (default 1)").AtMost(1e9);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    const bool has_predictions = !absl::StrCat(suite_.suite, predictions_, name_, tokenizer_).empty();
    const bool has_judgments = !judgments_.paths.empty() || !job_.empty() || judgments_.variant.has_value();
    if (has_predictions == has_judgments) {
      return UsageError("import takes SUITE with --predictions, or --judgments, and not both.");
    }
    if (has_judgments) return ImportJudgmentFiles(global, console);
    if (db_.empty()) return UsageError("Answers need --db=PATH; a daemon takes judgments alone.");
    if (suite_.suite.empty() || predictions_.empty() || name_.empty() || tokenizer_.empty()) {
      return UsageError("Answers need SUITE, --predictions, --name and --tokenizer.");
    }
    return ImportPredictions(console);
  }

 private:
  absl::StatusOr<ExitCode> ImportJudgmentFiles(const GlobalFlags& global, Console& console) {
    if (judgments_.paths.empty()) return UsageError("--job and --variant are for --judgments.");
    if (!(judgments_.score_max > 0)) return UsageError("--score-max must be above 0.");
    judgments_.database_path = db_;
    if (!job_.empty()) {
      ASSIGN_OR_RETURN(judgments_.job_id, JobNumber(job_));
    }
    if (!db_.empty() && global.daemon_given) return UsageError("Give --db or --daemon, not both.");
    absl::StatusOr<std::vector<JudgmentResult>> imported;
    if (db_.empty()) {
      ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
      imported = SendJudgments(*daemon, judgments_);
    } else {
      imported = ImportJudgments(judgments_);
    }
    if (HasReason(imported.status(), ErrorReason::kDatabaseInUse)) {
      return FailedPrecondition(imported.status().message(),
                                ". If that is a daemon, leave out --db, or give --daemon=ADDRESS: it stores them.");
    }
    ASSIGN_OR_RETURN(const std::vector<JudgmentResult> results, std::move(imported));
    ExitCode code = ExitCode::kDone;
    for (const JudgmentResult& result : results) {
      for (const std::string& sentence : result.left_out) console.err << "varifocal: " << sentence << "\n";
      if (result.unscored_count > 0) {
        console.err << "varifocal: " << result.path << ": " << result.unscored_count
                    << Plural(result.unscored_count, " answer has", " answers have") << " no score from the judge.\n";
      }
      if (result.unknown_count > 0) {
        console.err << "varifocal: " << result.path << ": " << result.unknown_count
                    << Plural(result.unknown_count, " judgment belongs", " judgments belong") << " to no answer in job "
                    << result.job_id << ".\n";
      }
      if (result.unknown_count > 0 || !result.left_out.empty()) code = ExitCode::kFailed;
      if (console.format != Format::kText) {
        RETURN_IF_ERROR(PrintJson(console, {{"file", result.path},
                                            {"job", absl::StrCat("jobs/", result.job_id)},
                                            {"metrics", result.metrics},
                                            {"value_count", result.value_count},
                                            {"unknown_count", result.unknown_count},
                                            {"unscored_count", result.unscored_count}}));
      } else {
        console.out << "jobs/" << result.job_id << ": " << result.value_count
                    << Plural(result.value_count, " score of ", " scores of ") << absl::StrJoin(result.metrics, ", ")
                    << " from " << result.path << "\n";
      }
    }
    return code;
  }

  absl::StatusOr<ExitCode> ImportPredictions(Console& console) {
    JobSpec job;
    ASSIGN_OR_RETURN(job.suite, suite_.Read());
    const absl::StatusOr<Variant> variant = ParseVariant(name_);
    if (!variant.ok()) return AsUsageError(variant.status());
    job.variants = {*variant};
    job.limit = std::min<int64_t>(suite_.limit, kSampleCountMax);
    AnswerImport import;
    import.database_path = db_;
    ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, tokenizer_flags_.Load(tokenizer_, console));
    const std::optional<bool> thinking = ThinkingOf(variant->overrides);
    ASSIGN_OR_RETURN(const std::shared_ptr<const ChatFormat> format, ReadChatFormat(tokenizer_));
    if (thinking.has_value() && (format == nullptr || !format->thinking_switch.has_value())) {
      return FailedPrecondition(name_, ": ", tokenizer_, " has no chat_format.json with a \"thinking_switch\".");
    }
    import.tokenizer = import.chat_tokenizer = MakeVariantCounter(tokenizer, format, /*is_chat=*/false, thinking);
    const bool any_chat =
        std::any_of(job.suite.tasks.begin(), job.suite.tasks.end(), [](const TaskSpec& task) { return task.chat; });
    if (any_chat) {
      if (format == nullptr) return FailedPrecondition(tokenizer_, " has no chat_format.json, which chat tasks need.");
      import.chat_tokenizer = MakeVariantCounter(tokenizer, format, /*is_chat=*/true, thinking);
      job.chat_templates[variant->model] = format->Identity();
    }
    Sha256Stream hash;
    RETURN_IF_ERROR(ForEachJsonLine(predictions_, [&](const Json& line) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string digest, GetString(line, "token_ids_sha256"));
      RETURN_IF_ERROR(db::CheckPromptDigest(digest));
      ASSIGN_OR_RETURN(const std::string prediction, GetString(line, "prediction"));
      if (prediction.size() > kAnswerBytesMax) {
        return InvalidArgument("\"prediction\" has ", prediction.size(), " bytes; an answer has at most ",
                               kAnswerBytesMax, ".");
      }
      ASSIGN_OR_RETURN(const std::optional<int64_t> epoch, FindInt(line, "epoch"));
      const std::string key = ImportedAnswerKey(digest, epoch.value_or(0));
      hash.Update(absl::StrCat(key, "\n", prediction, "\n"));
      const auto [earlier, is_new] = import.answers.emplace(key, prediction);
      if (is_new || earlier->second == prediction) return absl::OkStatus();
      return InvalidArgument("\"token_ids_sha256\" is ", digest, ", which has another answer already.");
    }));
    if (import.answers.empty()) return InvalidArgument(predictions_, ": has no answers.");
    import.answers_sha256 = ToHex(hash.Finish());
    import.source = absl::StrCat("answers imported from ", predictions_);
    import.spec = std::move(job);
    ASSIGN_OR_RETURN(const AnswerImportResult result, ImportAnswersHere(std::move(import)));
    if (result.unused_count > 0) {
      console.err << "varifocal: " << result.unused_count
                  << Plural(result.unused_count, " answer belongs", " answers belong")
                  << " to no prompt of the suite.\n";
    }
    if (console.format != Format::kText) {
      RETURN_IF_ERROR(PrintJson(console, {{"job", absl::StrCat("jobs/", result.job_id)},
                                          {"answered_count", result.answered_count},
                                          {"failed_count", result.failed_count},
                                          {"unused_count", result.unused_count}}));
    } else {
      console.out << "jobs/" << result.job_id << ": " << result.answered_count
                  << Plural(result.answered_count, " answer judged, ", " answers judged, ") << result.failed_count
                  << Plural(result.failed_count, " prompt without one\n", " prompts without one\n");
    }
    return result.failed_count == 0 ? ExitCode::kDone : ExitCode::kFailed;
  }

  SuiteFlags suite_;
  std::string predictions_, name_, tokenizer_, db_, job_;
  TokenizerFlags tokenizer_flags_;
  JudgmentImport judgments_;
};

}  // namespace

constinit const Verb kImportVerb = {
    .name = "import",
    .group = "Results",
    .summary = "answers of another engine, or a judge's scores of stored ones",
    .about =
        R"(Answers are one JSON object per line: {"token_ids_sha256", "prediction"}. The hash identifies the prompt, as
printed by `varifocal samples` for the same suite and tokenizer; the prediction is the generated text. Answers are
scored and stored as a separate job, marked as imported. Prompts without an answer are failed samples, and the exit
code is then 1. Choices, which are scored by log-likelihoods, cannot be imported. `varifocal compare` and `report`
compare imported answers with another job's answers to the same prompts.
Judgments are external scores, for example by a judge model: {"token_ids_sha256", "scores": {"NAME": 1}}, with
"variant", "task", "context_length" and "sample_index" where the hash is ambiguous. They become the metric
imported/NAME, from 0 to 1. They go to the daemon, also while jobs run, or with --db into a database that no daemon has
open.
HELMET's judged files (*-gpt4eval_o.json) are read too, if made from files written by `varifocal export`.)",
    .examples =
        "varifocal samples helmet/helmet_rag.yaml --tokenizer=MODEL --format=jsonl > prompts.jsonl\n"
        "varifocal import helmet/helmet_rag.yaml --predictions=answers.jsonl --name=other --tokenizer=MODEL "
        "--db=results.db\n"
        "varifocal compare --db=results.db --baseline=baseline --candidate=other\n"
        "varifocal import --judgments=judged.jsonl --score-max=3 --job=4",
    .make = &Make<Import>,
    .daemon = DaemonUse::kAlways,
};

}  // namespace varifocal::client
