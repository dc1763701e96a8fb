// A task builds a Sample, one prompt and its gold answer, from (seed, index, context length,
// tokenizer).
//
// Questions are in groups that share one context byte for byte, so that a prefix cache prefills the context once; the
// native tasks have four questions per context (`index / 4` is the group). The question's text, answer, depth and id
// depend on (seed, task, index) only; the filler also depends on the length (eval_tasks/seeds.h). So one question can be
// compared across lengths, models and tokenizers.
//
// Length: prompt tokens (specials included) + max_new_tokens <= context_length; where the task states its answers' tokens
// (AnswerSpec), prompt tokens <= context_length. Of the questions of one group, the
// longest is at most 16 below; the others are shorter only by the difference of their own question lines.
//
// Errors:  INVALID_ARGUMENT for a length too short for the task; OUT_OF_RANGE for a user's row that does not fit.
// Threads: a Task is immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "eval_tasks/token_counter.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/thinking.h"

namespace varifocal {

// A span of the prompt, such as one with evidence for the answer: bytes [byte_begin, byte_end) of Sample::prompt and the tokens that
// overlap them, [token_begin, token_end) of Sample::token_ids.
struct PromptSpan {
  int64_t byte_begin = 0;
  int64_t byte_end = 0;
  int64_t token_begin = 0;
  int64_t token_end = 0;
};

// Truncation of a user's row (`truncate:` of a task over JSON lines, or HELMET's own rule); without truncation no token is cut
// and gold_survived is true.
struct Truncation {
  int64_t cut_token_count = 0;  // removed tokens of the context
  bool gold_survived = true;    // a gold answer in the context is still in it after truncation
};

// The thinking blocks of an answer (tokenizer/thinking.h).
struct SampleThinking {
  ThinkingRule rule;
  std::vector<int32_t> forced_ids;  // at thinking_max_tokens; empty: none are forced
};

struct Sample {
  // Identity: the same for every length (all but context_length) and every tokenizer (all but tokenizer_sha256).
  std::string task;  // TaskSpec::name
  int context_length = 0;
  int index = 0;            // 0-based among the task's questions; of several epochs, among its answers
  int epoch = 0;            // which of several answers to the question
  std::string row_id;       // a user's row id; the index for native tasks
  std::string question_id;  // identifies the question independent of the length
  std::string cluster;      // questions that share one context, independent of the length
  std::string tokenizer_sha256;

  // The request.
  std::string prompt;
  std::vector<ChatTurn> turns;            // not empty: the messages of a conversation, which `prompt` shows as one text
  std::vector<int32_t> token_ids;         // the whole prompt, specials included
  int64_t shared_prefix_bytes = 0;        // of the prompt: byte for byte the same in the whole group
  std::vector<std::string> stop_strings;  // for generation: the answer ends before the first of these
  int max_new_tokens = 0;                 // of the answer
  int thinking_max_tokens = 0;            // of the thinking blocks before it; 0: they are the answer's
  std::optional<SampleThinking> thinking;  // the answer may have blocks, which are found
  std::vector<std::string> continuations;  // not empty: score these by log-likelihood instead of generating
  // Empty, or for each continuation the bytes of its start that are given with the prompt and not scored: it then has its
  // own context, whose ids are in context_token_ids (token_ids are the longest of them).
  std::vector<size_t> given_bytes;
  std::vector<std::vector<int32_t>> context_token_ids;
  // Not empty: what is scored after each of context_token_ids, instead of the continuations' texts.
  std::vector<std::vector<int32_t>> continuation_token_ids;
  // Empty, or of a generated answer: the gold answer's ids, to be scored beside it (gold_answer.h).
  std::vector<int32_t> gold_token_ids;
  uint64_t sampling_seed = 0;  // for a sampling temperature above zero

  // Scoring.
  std::vector<std::string> gold;               // any of these is right
  std::vector<int> gold_continuation_indices;  // of continuations: any of these is right
  std::vector<std::string> metrics;            // the first is the primary one
  std::string answer_prefix;   // part of the answer in the prompt; prepended to the output for metrics that use it
  std::string reference_json;  // structured gold answers, for those metrics

  // Provenance.
  double depth =
      0;  // relative position of the first evidence in the context, 0 start, 1 end: as requested by a generated task
  std::vector<PromptSpan> evidence;  // in prompt order; empty when unknown for a user's row
  // Where the request asks for them: text of the evidence's form that does not answer this question, in prompt order,
  // and the question itself, to the prompt's end. Empty where the task has none or does not locate them.
  std::vector<PromptSpan> distractors;
  std::vector<PromptSpan> question;
  int shortfall_tokens = 0;  // context_length - prompt tokens - max_new_tokens (without these beside a stated answer)
  Truncation truncation;

  int prompt_token_count() const { return token_ids.size(); }
  // The most tokens that may follow the prompt, forced ones included.
  int later_tokens_max() const {
    return max_new_tokens + thinking_max_tokens +
           (thinking.has_value() ? static_cast<int>(thinking->forced_ids.size()) : 0);
  }
  // Of a continuation: the given part and the scored part.
  absl::string_view Given(size_t index) const;
  absl::string_view Scored(size_t index) const;
  // Of the JSON array "[1,2,3]" without spaces; of "[[1,2],[3]]" where continuations have contexts of their own.
  std::string TokenIdsSha256() const;
};

struct SampleRequest {
  int64_t seed = 0;
  int context_length = 0;
  int index = 0;
  bool locates_all = false;  // Sample::distractors and Sample::question too
};

// A run of indices that share one context.
struct GroupRange {
  int first_index = 0;
  int count = 0;
};

class Task {
 public:
  virtual ~Task() = default;

  virtual const std::string& name() const = 0;
  // Number of questions: INT_MAX for tasks that generate them, the number of rows for a user's data.
  virtual int question_count() const = 0;
  // The same at one context length, for data that differ by length; an error for an unsupported length.
  virtual absl::StatusOr<int> QuestionCountAt(int /*context_length*/) const { return question_count(); }
  // Why there are no questions at that length; empty where there are some.
  virtual std::string WhyNoQuestionsAt(int /*context_length*/) const { return ""; }
  // The group that `index` belongs to; index < question_count().
  virtual GroupRange GroupOf(int index) const = 0;
  // Identity only, without prompt or tokens: available even when the sample cannot be built.
  virtual Sample Identify(const SampleRequest& request) const = 0;
  // All samples of the group of request.index, in index order, or an error each.
  virtual std::vector<absl::StatusOr<Sample>> MakeGroup(const SampleRequest& request,
                                                        const TokenCounter& tokenizer) const = 0;
  // The system message of every prompt in a chat format.
  virtual std::optional<std::string> system_message() const { return std::nullopt; }
  // The roles that rows' messages have besides the user: what a chat format must have texts for.
  struct TurnRoles {
    bool system = false, assistant = false;
  };
  virtual TurnRoles turn_roles() const { return {}; }
  // What is unusual about the prompts, one sentence without its full stop; empty where nothing is.
  virtual std::string Note() const { return ""; }
  // Hex digest of the data a user's rows came from; empty for native tasks.
  virtual std::string data_sha256() const { return ""; }
  // Whether a generated task's questions differ between seeds.
  virtual bool draws_from_seed() const { return data_sha256().empty(); }

  // One sample of its group. Builds the whole group each time; for several samples call MakeGroup.
  absl::StatusOr<Sample> MakeSample(const SampleRequest& request, const TokenCounter& tokenizer) const;
};

// A task whose questions each have a context of their own.
class SingleQuestionTask : public Task {
 public:
  GroupRange GroupOf(int index) const final { return {index, 1}; }
  std::vector<absl::StatusOr<Sample>> MakeGroup(const SampleRequest& request,
                                                const TokenCounter& tokenizer) const final;

 private:
  virtual absl::StatusOr<Sample> Make(const SampleRequest& request, const TokenCounter& tokenizer) const = 0;
};

// One setting of a task, for validation, `varifocal tasks` and docs/formats.md. Values are texts.
enum class ParameterType {
  kInteger,
  kNumber,
  kText,
  kPath,  // in a suite file relative to the file's folder
  kChoice,
  kTextList,  // one text, or a JSON array of them
};

struct ParameterInfo {
  std::string name;
  ParameterType type = ParameterType::kText;
  std::string default_value;  // empty: no default (the parameter is optional, or required)
  bool required = false;
  double low = 0;  // closed limits of numbers
  double high = 0;
  std::vector<std::string> choices;  // of kChoice
  std::string help;
};

struct TaskSpec;

// A row of the table in tasks.cc.
struct TaskKind {
  std::string name;
  std::string summary;
  std::vector<ParameterInfo> parameters;
  bool native = true;  // generates its questions (the number of samples must be given)
  // Default metrics of the task with these (complete) parameters.
  std::vector<std::string> (*default_metrics)(const std::map<std::string, std::string>& parameters) = nullptr;
  bool (*scores_continuations)(const std::map<std::string, std::string>& parameters) = nullptr;
  // `spec` has passed ValidateTaskSpec: complete parameters, known metrics.
  absl::StatusOr<std::unique_ptr<Task>> (*make)(const TaskSpec& spec) = nullptr;
  bool has_chat_form = true;  // where it writes answers
  // What the table cannot say of complete parameters, and what they mean for the rest of the spec. Errors have the parameter
  // as their field.
  absl::Status (*check)(TaskSpec& spec) = nullptr;
};

absl::Span<const TaskKind> TaskKinds();
const TaskKind* FindTaskKind(absl::string_view name);  // null when unknown
// The task a validated spec names; reads a user's file when there is one.
absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TaskSpec& spec);
// What a sample of any task has: task, length, index and metrics.
Sample AskedSample(const TaskSpec& spec, const SampleRequest& request);

}  // namespace varifocal
