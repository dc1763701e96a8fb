// Rows of the database as plain structs, one per table of db/migrations.
//
// Text named *_json is JSON with sorted keys (base/json.h). Times are microseconds since 1970-01-01 UTC, durations are
// microseconds, hashes are 64 lower-case hexadecimal characters. An empty optional is an SQL NULL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varifocal::db {

enum class JobState { kQueued, kRunning, kCancelling, kSucceeded, kFailed, kCancelled };

const char* JobStateName(JobState state);  // "queued", "running", ... as the column jobs.state spells it
inline bool IsSettled(JobState state) { return state >= JobState::kSucceeded; }

// One start of a daemon (or of `varifocal run`). Results of two executions may be mixed in one job only when code
// version, backend and instruction set agree.
struct ExecutionRecord {
  std::string code_version;     // version and commit, e.g. "0.1.0+dd17e1e"
  std::string backend;          // "cpu", "cuda", "reference"
  std::string instruction_set;  // "avx2", "sm_90a", ...
  std::string device;           // name of the processor or GPU
  std::string host;
  int64_t thread_count = 0;
  std::string command_line;  // command line of the process
};

// A loaded checkpoint. Rows are shared by all variants and jobs that use it.
struct ModelRecord {
  std::string name;          // as served, e.g. "baseline"
  std::string architecture;  // "llama", ...
  std::string weights_sha256;
  std::string tokenizer_sha256;  // of tokenizer.json's bytes; the hash of "" for a model without a tokenizer
  std::string dtype;             // "f32" or "bf16"
  std::string
      attention_json;  // the attention the checkpoint was trained with: the config's focal/focus keys, {} for baseline
  int64_t context_length_max = 0;                 // max_position_embeddings (times the factor for dynamic RoPE)
  std::optional<int64_t> trained_context_length;  // results beyond it are labelled extrapolated
  std::optional<int64_t> parameter_count;         // of the tensors; none in rows from before schema version 9
  // As the checkpoint's config states them: runs of one arm differ in their seed.
  std::optional<std::string> training_arm;
  std::optional<int64_t> training_seed, training_tokens;
  // Everything besides weights and tokenizer that its answers depend on (server/model/function_json.h). None in rows from
  // before schema version 12: such a model is equal to nothing.
  std::optional<std::string> function_json;
};

// A model with run-time settings: the unit that is submitted, compared and plotted.
struct VariantRecord {
  std::string name;  // "baseline", "focal@t=0.7"
  ModelRecord model;
  std::optional<std::string>
      focal_temperature_json;  // run-time temperature, "0.7" or "[0.7,0.8,...]"; none: as trained
};

// A metric of a task. The first one of a task (metric_index 0) is its primary metric.
struct TaskMetricRecord {
  std::string task;
  std::string metric;
  int64_t metric_index = 0;
  bool is_binary = false;             // values are 0 or 1
  std::optional<double> worst_value;  // counted for a failed sample; none for an unbounded metric
  std::optional<double> best_value;

  bool LowerIsBetter() const { return worst_value.has_value() && best_value.has_value() && *best_value < *worst_value; }
};

// One point of the grid.
struct CellRecord {
  std::string variant;
  std::string task;
  int64_t context_length = 0;
  int64_t planned_count = 0;  // sample indices 0 .. planned_count - 1
};

// A stored cell with its progress.
struct CellRow {
  int64_t cell_id = 0;
  int64_t job_id = 0;
  CellRecord cell;
  int64_t answered_count = 0;
  int64_t failed_count = 0;
};

// The jobs in one state.
struct JobStateCount {
  JobState state = JobState::kQueued;
  int64_t job_count = 0;
  int64_t oldest_create_us = 0;
};

// A model loaded by a call, to be loaded again at the next start.
struct CalledModel {
  std::string name;
  std::string directory;  // absolute; "DIR@bf16" names the number format too
};

struct NewJob {
  std::string suite;      // name of the suite or its path; informational
  std::string spec_json;  // canonical; its SHA-256 is computed here
  int64_t data_seed = 0;
  std::optional<std::string> request_id;  // same id and same body: the earlier job; same id, other body: an error
  std::string body_sha256;                // of the request as the caller sent it; needed with request_id
  std::vector<VariantRecord> variants;    // in the order they are shown
  std::vector<TaskMetricRecord> metrics;
  std::vector<CellRecord> cells;  // in the order they run
};

struct ScoreRecord {
  std::string metric;
  double value = 0;  // finite
};

// The question: the same for every variant with the same tokenizer. A sample whose prompt could not be built (it does
// not fit) has no token_ids_sha256 and no prompt_token_count.
struct SampleRecord {
  std::string task;
  int64_t context_length = 0;
  int64_t sample_index = 0;  // in a job of several epochs those of a question follow each other
  int64_t epoch = 0;         // which of several answers to the question
  std::string tokenizer_sha256;
  std::string question_id;
  std::string cluster;
  std::string row_id;                             // a user's own row name; else ""
  std::optional<std::string> token_ids_sha256;    // of "[1,2,3]"
  std::optional<int64_t> prompt_token_count;      // specials included
  int64_t new_token_count_max = 0;                // tokens to generate
  std::string gold_json;                          // array of strings
  std::optional<std::string> continuations_json;  // array of strings, for samples judged by log-likelihood
  std::optional<std::string> evidence_json;       // spans of the gold evidence
  std::optional<std::string> truncation_json;  // what was cut and whether the evidence was kept; none: nothing was cut
  std::optional<std::string> excerpt;          // at most 4 KB around the evidence
  std::optional<std::string> prompt;           // whole, only with --keep-prompts
};

// The answer of a variant. Either error_code is empty and the generation counts, or error_code is the reason for the
// missing answer and there are no scores.
struct GenerationRecord {
  std::string finish_reason;              // "eos", "length", "stop"; "scored" for log-likelihoods; "" when failed
  std::optional<std::string> answer_raw;  // as generated
  std::optional<std::string> answer;      // as scored
  std::optional<std::string>
      log_likelihoods_json;  // one {"is_greedy", "log_likelihood", "token_count"} per continuation
  int64_t new_token_count = 0;
  int64_t cached_token_count = 0;  // prompt tokens that came from the prefix cache
  int64_t queue_us = 0;
  int64_t prefill_us = 0;
  int64_t decode_us = 0;
  std::optional<double> tau_low_share;        // learned focal: share of query rows at tau_min
  std::optional<double> tau_high_share;       // and at tau_max
  std::optional<double> pairs_visible_share;  // learned groups: of pairs of prompt tokens, the mean over layers
  std::optional<double> largest_group_share;  // and the largest share of prompt tokens that hold one group
  bool is_extrapolated = false;               // beyond trained_context_length
  std::string error_code;                     // "" when answered; else UPPER_SNAKE, e.g. "RESOURCE_EXHAUSTED"
  std::string error_message;
  // Of answers that may have thinking blocks (tokenizer/thinking.h): "closed", "unfinished", ..
  std::optional<std::string> thinking_state = {};
  std::optional<int64_t> thinking_token_count = {};  // of new_token_count, those in blocks
  std::optional<bool> is_thinking_forced = {};       // the end of a block was forced
};

// Attention of the prompt's last row, in one head; columns of attention_heads.
struct AttentionHeadRecord {
  int64_t layer = 0, head = 0;
  double scale = 0, entropy = 0, largest_weight = 0, first_mass = 0;
  std::optional<double> evidence_mass, distractor_mass, question_mass;
  std::string strip;
};

// Imported scores of stored answers: the values of one metric for one variant, from one file. Values are from 0 (worst)
// to 1 (best), and the metric's name begins with kImportedPrefix.
inline constexpr char kImportedPrefix[] = "imported/";

struct ScoreImport {
  struct Value {
    int64_t generation_id = 0;
    double value = 0;
  };
  std::string variant;
  std::string metric;
  std::string source;  // informational: where the values were read
  std::string source_sha256;
  std::vector<Value> values;
  // Replaces the scores of the metric in every cell that `values` has an answer of, but for those of an import with this id,
  // if it was the cell's last one.
  std::string import_id = {};
};

// One unit of durable work: written as a whole or not at all.
struct Outcome {
  int64_t cell_id = 0;
  int64_t execution_id = 0;
  SampleRecord sample;
  GenerationRecord generation;
  std::vector<ScoreRecord> scores;                  // one per metric of the task; empty when failed
  std::vector<AttentionHeadRecord> attention = {};  // of jobs that inspect; empty when failed
  int64_t attempt_count = 1;                        // requests in this run; those of replaced failures are added
};

}  // namespace varifocal::db
