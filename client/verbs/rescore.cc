// varifocal rescore: scores stored answers by a command of the user's.
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "base/temporary_file.h"
#include "client/score_command.h"
#include "client/stored_answers.h"
#include "client/verb.h"
#include "db/judgments.h"
#include "wire/message_limits.h"

namespace varifocal::client {
namespace {

// What the command reads of an answer.
absl::StatusOr<Json> InputOf(const StoredAnswer& answer) {
  const db::SampleRecord& sample = answer.detail.sample;
  Json line = answer.Identity();
  line["question_id"] = sample.question_id;
  line["cluster"] = sample.cluster;
  if (!sample.row_id.empty()) line["row_id"] = sample.row_id;
  ASSIGN_OR_RETURN(line["gold"], ParseJson(sample.gold_json));
  line["answer"] = *answer.detail.generation.answer;
  if (answer.detail.generation.answer_raw.has_value()) line["answer_raw"] = *answer.detail.generation.answer_raw;
  line["finish_reason"] = answer.detail.generation.finish_reason;
  if (sample.excerpt.has_value()) line["excerpt"] = *sample.excerpt;
  if (sample.prompt.has_value()) line["prompt"] = *sample.prompt;
  return line;
}

class Rescore : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    answers_.AddTo(flags);
    flags.Add("command", &command_, "COMMAND", "run by the shell; reads answers, writes scores").Required();
    flags.Add("metric", &metric_, "NAME", "the scores become the metric imported/NAME").Required();
    flags.Add("score-max", &score_max_, "N", "the best score, where 0 is the worst (default 1)").AtMost(1e9);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    if (!(score_max_ > 0)) return UsageError("--score-max must be above 0.");
    const absl::Status named = db::CheckScoreName(metric_);
    if (!named.ok()) return UsageError("--metric: ", named.message(), ".");
    ASSIGN_OR_RETURN(const std::string source, DescribeCommand(command_));
    if (source.size() > kImportSourceBytesMax) {
      return UsageError("--command with the hashes of its files has ", source.size(), " bytes, and the limit is ",
                        kImportSourceBytesMax, "; put it into a script.");
    }
    const std::string folder = std::filesystem::temp_directory_path().string();
    ASSIGN_OR_RETURN(const TemporaryFile input, TemporaryFile::Make(absl::StrCat(folder, "/varifocal_answers_")));
    ASSIGN_OR_RETURN(const TemporaryFile output, TemporaryFile::Make(absl::StrCat(folder, "/varifocal_scores_")));
    std::vector<Json> identities;
    std::ofstream lines(input.path(), std::ios::binary);
    ASSIGN_OR_RETURN(const int64_t job_id, EachStoredAnswer(answers_, [&](const StoredAnswer& answer) -> absl::Status {
                       identities.push_back(answer.Identity());
                       ASSIGN_OR_RETURN(const Json line, InputOf(answer));
                       ASSIGN_OR_RETURN(const std::string text, DumpJson(line));
                       lines << text << "\n";
                       return absl::OkStatus();
                     }));
    lines.close();
    if (!lines) return ResourceExhausted("cannot write ", input.path(), ".");
    ASSIGN_OR_RETURN(const std::vector<std::optional<double>> scores,
                     RunScoreCommand(command_, input.path(), std::ssize(identities), score_max_));
    std::ofstream judgments(output.path(), std::ios::binary);
    int64_t unscored_count = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (!scores[i].has_value()) {
        ++unscored_count;
        continue;
      }
      identities[i]["scores"] = {{metric_, *scores[i] / score_max_}};
      ASSIGN_OR_RETURN(const std::string text, DumpJson(identities[i]));
      judgments << text << "\n";
    }
    judgments.close();
    if (!judgments) return ResourceExhausted("cannot write ", output.path(), ".");
    if (unscored_count == std::ssize(scores)) return NotFound("the command gave no answer a score.");
    if (unscored_count > 0) {
      console.err << "varifocal: " << unscored_count << Plural(unscored_count, " answer has", " answers have")
                  << " no score from the command.\n";
    }
    answers_.out = output.path();
    RETURN_IF_ERROR(StoreScores(answers_, job_id, source, global, console));
    return unscored_count == 0 ? ExitCode::kDone : ExitCode::kFailed;
  }

 private:
  StoredAnswerFlags answers_;
  std::string command_, metric_;
  double score_max_ = 1;
};

}  // namespace

constinit const Verb kRescoreVerb = {
    .name = "rescore",
    .group = "Results",
    .summary = "score stored answers by a command of your own",
    .about =
        R"(The command reads one JSON object a line: {"token_ids_sha256", "variant", "task", "context_length", "sample_index",
"question_id", "cluster", "row_id" (of a user's row), "gold": [..], "answer", "answer_raw", "finish_reason", "excerpt"
(text around the evidence), "prompt" (with --keep-prompts)}. It writes one score a line in the same order: a number from
0 to --score-max, or null where there is none; the exit code is then 1. The scores become the metric imported/NAME of the
job, recorded with the command and the SHA-256 of every file that it names. Scoring again replaces them.
Choices, which are scored by log-likelihoods, have no text and are left out.)",
    .examples =
        "varifocal rescore --db=results.db --command='python my_metric.py' --metric=my_metric\n"
        "varifocal rescore jobs/4 --db=results.db --command=\"jq '.answer | length'\" --score-max=1000 --metric=length\n"
        "varifocal compare --db=results.db --baseline=baseline --candidate=focal --metric=imported/my_metric",
    .make = &Make<Rescore>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
