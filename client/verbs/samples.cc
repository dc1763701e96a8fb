// varifocal samples: prints the exact prompts of a suite, without any model.
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/job_flags.h"
#include "client/progress.h"
#include "client/rows.h"
#include "client/sampling_flags.h"
#include "client/tokenizers.h"
#include "client/usage.h"
#include "client/verb.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/filters.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/overrides.h"
#include "eval_tasks/token_counter.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::client {
namespace {

Json SampleJson(const Sample& sample, bool with_epoch, const TaskSpec& task, const DecodeSettings& decode,
                const std::optional<std::string>& system_message) {
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
  if (sample.continuations.empty()) {
    row["max_new_tokens"] = sample.max_new_tokens;
    row["stop"] = sample.stop_strings;
    row["sampling_seed"] = sample.sampling_seed;
    row.update(ToJson(decode));
  }
  if (with_epoch) row["epoch"] = sample.epoch;
  if (sample.thinking_max_tokens > 0) row["thinking_max_tokens"] = sample.thinking_max_tokens;
  if (sample.thinking.has_value()) {
    const ThinkingRule& rule = sample.thinking->rule;
    row["thinking"] = {{"begin", rule.markers.begin}, {"end", rule.markers.end}, {"is_opened", rule.is_opened}};
    if (!sample.thinking->forced_ids.empty()) row["thinking"]["forced_answer"] = rule.forced_answer;
  }
  if (task.chat) row["chat"] = true;
  for (const ChatTurn& turn : sample.turns) row["turns"].push_back({{"role", turn.role}, {"content", turn.content}});
  if (task.is_chat_form()) row["form"] = task.form;
  for (const FilterSpec& filter : task.filters) row["filters"].push_back(ToJson(filter));
  if (system_message.has_value()) row["system_message"] = *system_message;
  return row;
}

void PrintSample(const Sample& sample, const TaskSpec& task, Console& console) {
  const std::string heading =
      absl::StrCat("--- ", sample.task, " ", sample.context_length, " #", sample.index, ": ",
                   sample.prompt_token_count(), " prompt tokens + ", sample.later_tokens_max(),
                   " to generate, cluster ", sample.cluster, ", gold ", absl::StrJoin(sample.gold, " | "));
  console.out << Styled(console, Style::kBold, heading) << "\n" << sample.prompt << "\n";
  if (!task.filters.empty()) {
    console.out << Styled(console, Style::kDim, "  scored:") << " " << FiltersText(task.filters) << "\n";
  }
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
    flags.Add("thinking", &thinking_, "on|off", "sets the switch of the chat template");
    sampling_.AddTo(flags);
    flags
        .Add("index", &index_, "N",
             "print only question N (from 0) of each task and length; of several epochs, answer N")
        .AtLeast(0);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    JobSpec job;
    ASSIGN_OR_RETURN(job.suite, suite_.Read());
    job.variants = {{.model = "any"}};  // prompts do not depend on the models
    if (thinking_.has_value()) {
      if (*thinking_ != "on" && *thinking_ != "off")
        return UsageError("--thinking=", *thinking_, ": must be on or off.");
      job.variants[0].overrides[kThinking] = {*thinking_ == "on" ? 1.0 : 0.0};
    }
    job.limit = std::min<int64_t>(suite_.limit, kSampleCountMax);
    ASSIGN_OR_RETURN(job.decode, sampling_.Read());
    absl::StatusOr<JobSpec> valid = ValidateJobSpec(std::move(job));
    if (!valid.ok()) return AsUsageError(valid.status());
    ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, tokenizer_flags_.Load(tokenizer_, console));
    ASSIGN_OR_RETURN(const std::shared_ptr<const ChatFormat> chat_format, ReadChatFormat(tokenizer_));
    const std::optional<bool> thinking = ThinkingOf(valid->variants[0].overrides);
    if (thinking.has_value() && (chat_format == nullptr || !chat_format->thinking_switch.has_value())) {
      return FailedPrecondition("--thinking: ", tokenizer_, " has no chat_format.json with a \"thinking_switch\".");
    }
    const auto counter = MakeVariantCounter(tokenizer, chat_format, /*is_chat=*/false, thinking);
    const auto chat_counter = MakeVariantCounter(tokenizer, chat_format, /*is_chat=*/true, thinking);
    ASSIGN_OR_RETURN(const Grid grid, MakeGrid(*valid));
    for (const std::string& missing : grid.missing) console.err << "varifocal: " << missing << "\n";
    for (const std::string& note : grid.notes) console.err << "varifocal: " << note << "\n";

    std::vector<Column> columns = {{.key = "task"},         {.key = "context_length"},     {.key = "index"},
                                   {.key = "row_id"},       {.key = "question_id"},        {.key = "cluster"},
                                   {.key = "prompt"},       {.key = "prompt_token_count"}, {.key = "token_ids_sha256"},
                                   {.key = "gold"},         {.key = "max_new_tokens"},     {.key = "stop"},
                                   {.key = "sampling_seed"}};
    if (grid.epochs > 1) columns.push_back({.key = "epoch"});
    Rows rows(console, std::move(columns));
    int64_t wanted_count = 0;
    for (const GridGroup& group : grid.groups) wanted_count += WantedCount(grid, group);
    if (index_.has_value() && wanted_count == 0) return NotFound("no task of the suite has a question ", *index_);
    Progress progress(console, "samples");
    int64_t done_count = 0;
    ExitCode code = ExitCode::kDone;
    for (const GridGroup& group : grid.groups) {
      if (WantedCount(grid, group) == 0) continue;
      const Task& task = *grid.tasks[group.task_index];
      const TaskSpec& task_spec = valid->suite.tasks[group.task_index];
      const bool chat = task_spec.chat;
      if (chat) RETURN_IF_ERROR(CheckHasChatFormat(chat_format.get(), tokenizer_));
      const TokenCounter& tokens = chat ? *chat_counter : *counter;
      std::vector<absl::StatusOr<Sample>> samples = grid.MakeSamples(group, tokens);
      for (absl::StatusOr<Sample>& sample : samples) {
        if (!sample.ok()) continue;
        RETURN_IF_ERROR(AddThinking(valid->suite, task_spec, tokens, *sample));
        if (sample->thinking.has_value())
          RETURN_IF_ERROR(CheckCanWrite(*tokenizer, sample->thinking->rule.markers, tokenizer_));
      }
      for (int place = 0; place < group.count * grid.epochs; ++place) {
        const int index = grid.Index(group.first_index, place);
        if (index_.has_value() && index != *index_) continue;
        const absl::StatusOr<Sample>& made = samples[place / grid.epochs];
        if (!made.ok()) {
          code = ExitCode::kFailed;
          console.err << "varifocal: " << task.name() << " " << group.context_length << " #" << index << ": "
                      << made.status().message() << "\n";
          continue;
        }
        Sample sample = *made;
        SetEpoch(place % grid.epochs, sample);
        if (console.format == Format::kText) {
          PrintSample(sample, task_spec, console);
        } else {
          RETURN_IF_ERROR(
              rows.Add(SampleJson(sample, grid.epochs > 1, task_spec, valid->decode, task.system_message())));
        }
      }
      done_count += WantedCount(grid, group);
      if (!console.out_is_terminal) progress.Update({.done_count = done_count, .total_count = wanted_count});
      if (!console.out) break;  // the reader closed the pipe
    }
    progress.Clear();
    if (console.format != Format::kText) RETURN_IF_ERROR(rows.Finish());
    return code;
  }

 private:
  int64_t WantedCount(const Grid& grid, const GridGroup& group) const {
    if (!index_.has_value()) return int64_t{group.count} * grid.epochs;
    const int begin = grid.Index(group.first_index, 0), end = grid.Index(group.first_index + group.count, 0);
    return *index_ >= begin && *index_ < end ? 1 : 0;
  }

  SuiteFlags suite_;
  std::string tokenizer_;
  TokenizerFlags tokenizer_flags_;
  std::optional<int64_t> index_;
  std::optional<std::string> thinking_;
  SamplingFlags sampling_;
};

}  // namespace

constinit const Verb kSamplesVerb = {
    .name = "samples",
    .group = "Tasks",
    .summary = "print the exact prompts of a suite, without any model",
    .about =
        R"(Builds the samples of a suite exactly as a job does and prints them with their gold answers. Prompt lengths depend
on the tokenizer, so one is needed; weights are not. Check a few before a long run.
A sample that cannot be built (a row too long for its context) is reported on standard error, and the exit code is 1.
JSON output: {"task", "context_length", "index", "row_id", "question_id", "cluster", "prompt",
"prompt_token_count", "token_ids_sha256" (of "[1,2,3]"), "gold"}, and of an answer to be written
"max_new_tokens", "stop" and "sampling_seed", and of flags that are given "sampling_temperature",
"top_k", "top_p" and "min_p". Where models think also "thinking_max_tokens" and
"thinking" ({"begin", "end", "is_opened" by the prompt, "forced_answer"}); stop strings then apply after
the block. For a task with `chat: true`, "chat" is true: the ids are of the prompt inside the
chat_format.json beside the tokenizer, after the task's
"system_message" if it has one. "turns" are the messages ({"role", "content"}) of a conversation, which
"prompt" shows as one text. "form" is "chat" in chat form, and "filters" are what the scored answer is
taken out of a reply with. A choice has its "continuations"; "given_bytes" of each are in its context
and are not scored, and the hash is of all contexts ("[[1,2],[3]]"). With --epochs there is a row for every
answer, with its "epoch" and "sampling_seed"; all other fields but the index are the same.)",
    .examples =
        "varifocal samples quick --tokenizer=models/baseline --lengths=1024 --limit=1\n"
        "varifocal samples quick --tokenizer=models/baseline --tasks=rag_facts --lengths=8K --index=17\n"
        "varifocal samples quick --form=chat --tokenizer=CHAT_MODEL --tasks=rag_facts --lengths=1K --index=0\n"
        "varifocal samples standard --tokenizer=models/baseline --format=jsonl > prompts.jsonl",
    .formats = "text json jsonl csv",
    .make = &Make<MakeSamples>,
};

}  // namespace varifocal::client
