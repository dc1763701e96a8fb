// A job specification: variants, tasks, lengths, data seeds, epochs, limits; validated, with a canonical JSON form.
//
// A suite (suites/*.yaml, docs/formats.md) defines the questions; a job adds the variants. Validation fills in all
// defaults, so that equal jobs have equal canonical JSON and equal digests, and so that the meaning of a stored job does
// not change with a default.
//
// Errors: INVALID_ARGUMENT, one sentence that names the key, the value and the limit, with a suggestion for a near
//         miss. Those of a suite have its path as their field (base/reason.h): "tasks[0].parameters.depth".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "eval_tasks/filters.h"
#include "eval_tasks/generator.h"
#include "eval_tasks/overrides.h"

namespace varifocal {

inline constexpr int kContextLengthMax = 1 << 20;
inline constexpr size_t kDescriptionBytesMax = 4096;      // of a suite: a sentence or a few
inline constexpr int kSampleCountMax = 100'000;           // questions per task and length
inline constexpr int64_t kJobCellCountMax = 16'384;       // variants x tasks x lengths of a job
inline constexpr int64_t kJobSampleCountMax = 2'000'000;  // samples over all cells of a job
inline constexpr int kInFlightMax = 1024;
inline constexpr int kDefaultSampleCount = 48;  // 12 contexts of 4 questions

// A model with run-time overrides of its attention (eval_tasks/overrides.h): "NAME", "NAME@t=0.7", one temperature a layer
// "NAME@t=0.5,0.6", several settings "NAME@t=0.8@log-n=4096".
struct Variant {
  std::string model;
  OverrideMap overrides = {};

  std::string Name() const;  // canonical: shortest numbers that read back the same
  friend bool operator==(const Variant&, const Variant&) = default;
};

// Names of suites, tasks and models: a letter, then at most 62 letters, digits, "_", "-" and ".". `what` is for the
// message.
absl::Status CheckName(absl::string_view what, absl::string_view name);

absl::StatusOr<Variant> ParseVariant(absl::string_view text);
// "a,b@t=0.5,0.6,c": a number after a comma continues the previous setting (a model name starts with a letter).
absl::StatusOr<std::vector<Variant>> ParseVariantList(absl::string_view text);
// Every variant, followed, where it has no temperature of all layers, by the variant with each override of `names` at each
// of `temperatures`.
std::vector<Variant> WithTemperatures(const std::vector<Variant>& variants, const std::vector<double>& temperatures,
                                      const std::vector<std::string>& names = {kFocalTemperature});

// How many tokens an answer may have; 0: not given. A task with either has prompts of the whole context length, and the answer's
// tokens beside it. Without, the length is that of the prompt and of the kind's own number of tokens together.
struct AnswerSpec {
  int max_new_tokens = 0;       // of the answer; 0: the kind's own
  int thinking_max_tokens = 0;  // of the thinking blocks before it; 0: the model is not asked to think

  bool is_given() const { return max_new_tokens > 0 || thinking_max_tokens > 0; }
  friend bool operator==(const AnswerSpec&, const AnswerSpec&) = default;
};
inline constexpr int kAnswerTokensMax = 65'536;

// The thinking blocks of the models (tokenizer/thinking.h), where they are not as the models' chat formats say.
struct ThinkingSpec {
  std::string begin, end;  // markers; "": the model's own
  bool force = false;      // at thinking_max_tokens the end marker and answer_prefix are forced
  std::string answer_prefix;

  friend bool operator==(const ThinkingSpec&, const ThinkingSpec&) = default;
};

// The form of a task's questions. A completion ends where the answer begins, and a stop string ends the answer. In a chat form
// the whole prompt is the user's turn of a chat format, its end asks for the answer on the last line of the reply, and filters
// take the answer from there.
inline constexpr char kChatForm[] = "chat", kCompletionForm[] = "completion";
inline constexpr int kChatAnswerTokens = 256;  // of an answer in chat form, unless stated

struct TaskSpec {
  std::string name;                               // unique in the suite; default: `kind`
  std::string kind;                               // a row of tasks.cc
  std::map<std::string, std::string> parameters;  // of the kind; values as text
  std::vector<std::string> metrics;               // default: the kind's; the first is the primary one
  int samples = 0;                                // questions per length; 0: the suite's (jsonl: every row)
  std::map<int, int> samples_at;                  // by length, in place of `samples`
  bool chat = false;                              // prompts are wrapped in the model's chat format
  AnswerSpec answer = {};                         // of a task that writes answers
  std::string form;                               // kChatForm; "": a completion
  std::vector<FilterSpec> filters;                // how the scored answer is taken out of the written one

  bool is_chat_form() const { return form == kChatForm; }
};

inline constexpr int kSeedCountMax = 100;
inline constexpr int kEpochCountMax = 1000;

struct SuiteSpec {
  std::string name;
  std::string description;
  int64_t seed = 1;          // the first data seed
  int seeds = 0;             // 0: one; N: seeds seed .. seed + N - 1, each with all questions of generated tasks
  std::vector<int> lengths;  // context lengths in tokens
  int samples = kDefaultSampleCount;  // questions per task and length
  std::map<int, int> samples_at;      // by length, in place of `samples`; of tasks without numbers of their own
  std::vector<TaskSpec> tasks;
  AnswerSpec answer = {};  // of tasks that write answers and do not state their own
  ThinkingSpec thinking = {};
  int epochs = 0;    // answers to each question, sampled with seeds of their own; 0: one
  std::string form;  // of tasks that do not state their own
};

inline int EpochCount(const SuiteSpec& suite) { return suite.epochs > 1 ? suite.epochs : 1; }
inline int SeedCount(const SuiteSpec& suite) { return suite.seeds > 1 ? suite.seeds : 1; }

// A part of a job's contexts, for a database of its own (`varifocal merge` joins them): shard `index` of 1 .. count, or
// 0/0 for the whole job. Samples that share a context are in the same shard.
struct Shard {
  int index = 0;
  int count = 0;

  bool is_whole() const { return count == 0; }
  friend bool operator==(const Shard&, const Shard&) = default;
};
inline constexpr int kShardCountMax = 10'000;
absl::StatusOr<Shard> ParseShard(absl::string_view text);  // "2/8"

struct JobSpec {
  SuiteSpec suite;
  std::vector<Variant> variants;
  int limit = 0;               // at most this many questions per task and length; 0: no limit
  int in_flight = 8;           // concurrent requests
  bool keep_prompts = false;   // store whole prompts
  bool inspect = false;        // store what the last rows of each prompt attend to; changes no answer
  std::string inspected_rows;  // which (eval_tasks/attention_inspection.h); "": the last one. Needs `inspect`
  DecodeSettings decode;       // greedy unless set
  Shard shard;                 // the whole job unless set
  // By model: ChatFormat::Identity() of its chat format.
  // Filled in when the job is accepted, empty without chat tasks.
  std::map<std::string, std::string> chat_templates;
  // By variant: the markers of its thinking blocks, as a JSON array of two texts. Filled in likewise, of tasks that think.
  std::map<std::string, std::string> thinking_markers = {};
};

// Whether the answers of this task may have thinking blocks, which are then found and left out of the scores.
inline bool Thinks(const SuiteSpec& suite, const TaskSpec& task) {
  return task.answer.thinking_max_tokens > 0 || !suite.thinking.begin.empty();
}

// The same in canonical form: names, parameters, metrics and sample counts filled in, lengths sorted.
absl::StatusOr<SuiteSpec> ValidateSuiteSpec(SuiteSpec suite);
absl::StatusOr<JobSpec> ValidateJobSpec(JobSpec spec);
// Several epochs need answers that differ: sampled ones. Of a validated spec whose answers are still to be computed; those of
// another program may have been sampled there.
absl::Status CheckEpochs(const JobSpec& spec);
// Keeps only these tasks (by name) and lengths; empty keeps all. For --tasks and --lengths (which may name new
// lengths).
absl::StatusOr<SuiteSpec> SelectFromSuite(SuiteSpec suite, const std::vector<std::string>& tasks,
                                          const std::vector<int>& lengths);

// Keys sorted, no spaces; of a validated spec. Its Sha256Hex identifies the specification.
std::string ToCanonicalJson(const JobSpec& spec);
absl::StatusOr<JobSpec> FromCanonicalJson(absl::string_view json);
// Parts of it.
Json ToJson(const FilterSpec& filter);
Json ToJson(const DecodeSettings& decode);
absl::StatusOr<FilterSpec> FilterFromJson(const Json& json);

}  // namespace varifocal
