// varifocal samples: prints the exact prompts of a suite, without any model.
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/job_flags.h"
#include "client/progress.h"
#include "client/rows.h"
#include "client/tokenizers.h"
#include "client/verb.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/token_counter.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::client {
namespace {

Json SampleJson(const Sample& sample, bool chat, const std::optional<std::string>& system_message) {
  Json row = {{"task", sample.task},
              {"context_length", sample.context_length},
              {"index", sample.index},
              {"row_id", sample.row_id},
              {"question_id", sample.question_id},
              {"cluster", sample.cluster},
              {"prompt", sample.prompt},
              {"prompt_token_count", sample.prompt_token_count()},
              {"token_ids_sha256", sample.TokenIdsSha256()},
              {"gold", sample.gold}};
  if (!sample.continuations.empty()) row["continuations"] = sample.continuations;
  if (!sample.given_bytes.empty()) row["given_bytes"] = sample.given_bytes;
  if (chat) row["chat"] = true;
  if (system_message.has_value()) row["system_message"] = *system_message;
  return row;
}

void PrintSample(const Sample& sample, Console& console) {
  const std::string heading =
      absl::StrCat("--- ", sample.task, " ", sample.context_length, " #", sample.index, ": ",
                   sample.prompt_token_count(), " prompt tokens + ", sample.max_new_tokens, " to generate, cluster ",
                   sample.cluster, ", gold ", absl::StrJoin(sample.gold, " | "));
  console.out << Styled(console, Style::kBold, heading) << "\n" << sample.prompt << "\n";
  for (size_t i = 0; i < sample.continuations.size(); ++i) {
    if (!sample.given_bytes.empty()) console.out << Styled(console, Style::kDim, "  given:") << sample.Given(i);
    console.out << Styled(console, Style::kDim, "  continuation:") << sample.Scored(i) << "\n";
  }
}

class MakeSamples : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    suite_.AddTo(flags);
    flags.Add("tokenizer", &tokenizer_, "DIR", "directory with the tokenizer.json that determines prompt lengths")
        .Required();
    tokenizer_flags_.AddTo(flags);
    flags.Add("index", &index_, "N", "print only question N (from 0) of each task and length").AtLeast(0);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    JobSpec job;
    ASSIGN_OR_RETURN(job.suite, suite_.Read());
    job.variants = {{.model = "any"}};  // prompts do not depend on the models
    job.limit = std::min<int64_t>(suite_.limit, kSampleCountMax);
    absl::StatusOr<JobSpec> valid = ValidateJobSpec(std::move(job));
    if (!valid.ok()) return AsUsageError(valid.status());
    ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, tokenizer_flags_.Load(tokenizer_, console));
    ASSIGN_OR_RETURN(const std::shared_ptr<const ChatFormat> chat_format, ReadChatFormat(tokenizer_));
    const std::shared_ptr<const TokenCounter> counter = MakeTokenCounter(tokenizer);
    const std::shared_ptr<const TokenCounter> chat_counter = MakeTokenCounter(tokenizer, chat_format);
    ASSIGN_OR_RETURN(const Grid grid, MakeGrid(*valid));
    for (const std::string& missing : grid.missing) console.err << "varifocal: " << missing << "\n";
    for (const std::string& note : grid.notes) console.err << "varifocal: " << note << "\n";

    Rows rows(console, {{.key = "task"},
                        {.key = "context_length"},
                        {.key = "index"},
                        {.key = "row_id"},
                        {.key = "question_id"},
                        {.key = "cluster"},
                        {.key = "prompt"},
                        {.key = "prompt_token_count"},
                        {.key = "token_ids_sha256"},
                        {.key = "gold"}});
    int64_t wanted_count = 0;
    for (const GridGroup& group : grid.groups) wanted_count += WantedCount(group);
    if (index_.has_value() && wanted_count == 0)
      return absl::NotFoundError(absl::StrCat("no task of the suite has a question ", *index_));
    Progress progress(console, "samples");
    int64_t done_count = 0;
    ExitCode code = ExitCode::kDone;
    for (const GridGroup& group : grid.groups) {
      if (WantedCount(group) == 0) continue;
      const Task& task = *grid.tasks[group.task_index];
      const bool chat = valid->suite.tasks[group.task_index].chat;
      if (chat) RETURN_IF_ERROR(CheckHasChatFormat(chat_format.get(), tokenizer_));
      const std::vector<absl::StatusOr<Sample>> samples = grid.MakeSamples(group, chat ? *chat_counter : *counter);
      for (int i = 0; i < group.count; ++i) {
        if (index_.has_value() && group.first_index + i != *index_) continue;
        if (!samples[i].ok()) {
          code = ExitCode::kFailed;
          console.err << "varifocal: " << task.name() << " " << group.context_length << " #" << group.first_index + i
                      << ": " << samples[i].status().message() << "\n";
        } else if (console.format == Format::kText) {
          PrintSample(*samples[i], console);
        } else {
          RETURN_IF_ERROR(rows.Add(SampleJson(*samples[i], chat, task.system_message())));
        }
      }
      done_count += WantedCount(group);
      if (!console.out_is_terminal) progress.Update({.done_count = done_count, .total_count = wanted_count});
      if (!console.out) break;  // the reader closed the pipe
    }
    progress.Clear();
    if (console.format != Format::kText) RETURN_IF_ERROR(rows.Finish());
    return code;
  }

 private:
  int64_t WantedCount(const GridGroup& group) const {
    if (!index_.has_value()) return group.count;
    return *index_ >= group.first_index && *index_ < group.first_index + group.count ? 1 : 0;
  }

  SuiteFlags suite_;
  std::string tokenizer_;
  TokenizerFlags tokenizer_flags_;
  std::optional<int64_t> index_;
};

}  // namespace

extern const Verb kSamplesVerb;
constinit const Verb kSamplesVerb = {
    .name = "samples",
    .group = "Tasks",
    .summary = "print the exact prompts of a suite, without any model",
    .about =
        R"(Builds the samples of a suite exactly as a job does and prints them with their gold answers. Prompt lengths depend
on the tokenizer, so one is needed; weights are not. Check a few before a long run.
A sample that cannot be built (a row too long for its context) is reported on standard error, and the exit code is 1.
JSON output: {"task", "context_length", "index", "row_id", "question_id", "cluster", "prompt",
"prompt_token_count", "token_ids_sha256" (of "[1,2,3]"), "gold"}. For a task with `chat: true`, "chat" is
true: the ids are of the prompt inside the chat_format.json beside the tokenizer, after the task's
"system_message" if it has one. A choice has its "continuations"; "given_bytes" of each are in its context
and are not scored, and the hash is of all contexts ("[[1,2],[3]]").)",
    .examples =
        "varifocal samples quick --tokenizer=models/baseline --lengths=1024 --limit=1\n"
        "varifocal samples quick --tokenizer=models/baseline --tasks=rag_facts --lengths=8K --index=17\n"
        "varifocal samples standard --tokenizer=models/baseline --format=jsonl > prompts.jsonl",
    .formats = "text json jsonl csv",
    .make = &Make<MakeSamples>,
};

}  // namespace varifocal::client
