// Read-only access to a results database; works while a writer is active.
//
// Each call sees one consistent snapshot. Rows of the documented views come as structs with the view's columns in the
// view's order (docs/formats.md, "The database"). Lists are paged by key, never by offset.
//
// Errors:  NOT_FOUND no such file, job, ...; FAILED_PRECONDITION empty file or newer version; INVALID_ARGUMENT not a
//          Varifocal database; DATA_LOSS damaged; PERMISSION_DENIED unreadable.
// Threads: any; calls are serialised by a mutex. Open one reader per thread to read in parallel.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/epochs.h"
#include "db/failures.h"
#include "db/job_rows.h"
#include "db/records.h"

namespace varifocal::db {

struct ExecutionRow {
  int64_t execution_id = 0;
  ExecutionRecord execution;
  int64_t start_us = 0;
  int64_t generation_count = 0;  // of the requested job
};

struct ScoreImportRow {  // without its values
  std::string variant, metric, source, source_sha256;
  int64_t value_count = 0, import_us = 0;
};

// The answers to each question of a job, and the statistic that reduces them to one value.
struct JobEpochs {
  int64_t count = 1;
  EpochStatistic statistic;
};

struct SampleRow {  // of v_samples, what estimates need; in a job of several epochs a question, by db/question_rows.h
  std::string task, metric;
  int64_t context_length = 0, sample_index = 0;  // of several epochs: the question's
  std::string question_id, cluster;
  std::optional<double> value;  // of several epochs also where some failed
  std::optional<std::string> error_code;
  bool is_partial = false;  // some epochs are not recorded yet

  // What is counted: a failed answer as the metric's worst value.
  std::optional<double> Counted(std::optional<double> worst_value) const {
    return value.has_value() || !error_code.has_value() ? value : worst_value;
  }
};

struct PairRow {  // v_pairs; a failed side counts as the metric's worst value, and has its error
  int64_t job_id = 0;
  std::string task, metric;
  int64_t context_length = 0;
  std::string question_id, cluster, baseline_variant, candidate_variant;
  std::optional<double> baseline_value, candidate_value, difference;
  std::optional<std::string> baseline_error, candidate_error;
  bool is_partial = false;      // of a job of several epochs: some of either side are not recorded yet
  uint32_t answer_kinds = 0;    // of either side (db/answer_kinds.h); set by db/stats, which joins EachMarkedAnswer
  std::optional<int64_t> seed;  // the data seed of its question, in a job of several; set by db/stats from DataSeeds
};

// Counts of one variant's answers in one cell.
struct AnswerCounts {
  std::string variant, task;
  int64_t context_length = 0;
  int64_t answered_count = 0;
  int64_t failed_count = 0;   // not included in the counts below
  int64_t empty_count = 0;    // generated answers that are empty: answers are stored without white space at the ends
  int64_t refused_count = 0;  // generated answers that begin like a refusal (db/refusal.h)
  int64_t cut_count = 0;      // ended by the limit on new tokens
  int64_t extrapolated_count = 0;  // prompt and answer longer than the model was trained with
  int64_t truncated_count = 0;     // the task truncated the prompt to the context length
  // Of answers whose thinking blocks were found (tokenizer/thinking.h); an unfinished one is neither empty nor cut.
  int64_t unfinished_count = 0, empty_block_count = 0, nested_count = 0, repeated_count = 0, forced_count = 0;
  int64_t unextracted_count = 0;  // has text of which the filters of its task left nothing; neither empty nor refused
  int64_t scored_thinking_count = 0;  // begins with a known marker, and its blocks were not to be found
};

// The mean over tasks of a variant at one length: of each task's primary metric, from 0 (worst) to 1 (best); of tasks whose
// metric has both ends, and that have answers.
struct LengthMeanRow {
  std::string variant;
  int64_t context_length = 0;
  std::optional<double> mean;
  int64_t recorded_count = 0, planned_count = 0;  // samples of these tasks
};

// An answer of some kind of db/answer_kinds.h.
struct MarkedAnswerRow {
  std::string task;
  int64_t context_length = 0;
  std::string question_id;
  int64_t generation_id = 0;
  uint32_t answer_kinds = 0;
};

// The prompts of one task at one length, over all tokenizers of the job.
struct PromptCountsRow {
  std::string task;
  int64_t context_length = 0;
  int64_t sample_count = 0, prompt_count = 0;  // the latter of samples whose prompt could be made
  int64_t tokens_min = 0, tokens_max = 0;      // of the prompts; 0 without any
  int64_t reach_max = 0;                       // the largest sum of prompt tokens and tokens to generate
  int64_t reached_count = 0;  // prompts whose sum is at least the share of the length that was asked for
};

// What the answers of one variant in one cell cost, of cells whose answers may have thinking blocks.
struct ThinkingCostRow {
  std::string variant, task;
  int64_t context_length = 0;
  int64_t answer_count = 0;
  double thinking_tokens = 0, answer_tokens = 0;  // means
  // The sum of `right`, the values of the primary metric as a share of its best one: an answer that is half right counts as a
  // half. New tokens, the two together, for each.
  double right_count = 0;
  std::optional<double> tokens_per_right;
};

// Means over the answers of one variant in one cell that have them (v_samples has the shares).
struct GroupSharesRow {
  std::string variant, task;
  int64_t context_length = 0;
  int64_t answer_count = 0;
  double pairs_visible = 0;
  std::optional<double> largest_group;
};

// One head over the inspected answers of one variant in one cell (v_attention): means, those of masses over the answers
// that have them.
struct AttentionMeansRow {
  std::string variant, task;
  int64_t context_length = 0, layer = 0, head = 0;
  int64_t answer_count = 0;
  double scale = 0, entropy = 0, largest_weight = 0, first_mass = 0;
  std::optional<double> evidence_mass, distractor_mass, question_mass;
  // Of the evidence, over answers whose primary metric has its best value, and over the others.
  std::optional<double> evidence_mass_right, evidence_mass_wrong;
};

// All stored fields of one answer, for browsing samples and for provenance.
struct SampleDetail {
  int64_t generation_id = 0;  // key for paging; ascending
  int64_t job_id = 0;
  std::string variant;
  SampleRecord sample;
  GenerationRecord generation;
  int64_t execution_id = 0;
  int64_t attempt_count = 1;
  int64_t record_us = 0;
  std::vector<ScoreRecord> scores;  // by metric_index
};

// An answer without its texts. Of the sample: identity, token_ids_sha256, prompt_token_count and evidence; of the generation:
// counts, times and error_code.
struct AnswerRow {
  int64_t generation_id = 0;
  SampleRecord sample;
  GenerationRecord generation;
  std::optional<double> value;  // of the primary metric
};

struct SampleQuery {
  int64_t job_id = 0;
  std::optional<std::string> variant, task;
  std::optional<int64_t> context_length;
  std::optional<int64_t> sample_index;
  bool only_failed = false;
  int64_t after_id = 0;  // last generation_id of the previous page
  int64_t limit = 100;
};

class Reader {
 public:
  static absl::StatusOr<std::unique_ptr<Reader>> Open(const std::string& path);
  ~Reader();

  // From now on every call sees the database as it is now. The write-ahead log grows until the reader is destroyed.
  absl::Status HoldSnapshot();

  // From now on this metric is the primary one (metric_index 0) of each task that has it, and the others have none, in every
  // call. NOT_FOUND when no job has it.
  absl::Status SetPrimaryMetric(const std::string& metric);

  // From now on the answers to a question of a job of several epochs become one value like this, in EachSampleRow, EachPair
  // and db/pairing.h. By their mean unless called.
  void SetEpochStatistic(const EpochStatistic& statistic);
  // INVALID_ARGUMENT where the statistic needs more answers than the job has to each question.
  absl::StatusOr<JobEpochs> Epochs(int64_t job_id);

  // Newest first; before_id is the last job_id of the previous page, 0 for the first page.
  absl::StatusOr<std::vector<JobRow>> Jobs(int64_t before_id = 0, int64_t limit = 100);
  absl::StatusOr<JobRow> Job(int64_t job_id);
  absl::StatusOr<std::vector<FailureGroup>> Failures(int64_t job_id);
  absl::StatusOr<std::vector<JobStateCount>> CountJobs();  // states without a job are left out
  absl::StatusOr<int64_t> CountQueued(int64_t at_most);    // counts no further than at_most
  // A queued, running or cancelling job with a variant of this model.
  absl::StatusOr<std::optional<UnfinishedJob>> UnfinishedJobOf(const std::string& model);
  // The newest job that has all these variants (any job when empty). NOT_FOUND lists the existing variants.
  absl::StatusOr<JobRow> LatestJob(const std::vector<std::string>& variants = {});

  absl::StatusOr<std::vector<VariantRecord>> Variants(int64_t job_id);
  absl::StatusOr<std::vector<TaskMetricRecord>> Metrics(int64_t job_id);  // by task, metric_index
  absl::StatusOr<std::vector<CellRow>> Cells(int64_t job_id);             // in running order
  // The same, planned_count counting questions where several answers are planned to each; all other counts are of answers.
  absl::StatusOr<std::vector<CellRow>> QuestionCells(int64_t job_id);
  absl::StatusOr<std::vector<ExecutionRow>> Executions(int64_t job_id);  // those with generations in the job

  absl::StatusOr<std::vector<ScoreImportRow>> ScoreImports(int64_t job_id);  // in import order

  absl::StatusOr<std::vector<ThinkingCostRow>> ThinkingCosts(int64_t job_id);
  absl::StatusOr<std::vector<LengthMeanRow>> MeansByLength(int64_t job_id);  // by variant as in the job, length
  absl::StatusOr<std::vector<AnswerCounts>> CountAnswers(int64_t job_id);    // of cells with answers, in running order
  // By task and length; of tasks and lengths with a sample.
  absl::StatusOr<std::vector<PromptCountsRow>> CountPrompts(int64_t job_id, double reached_share);
  // Ascending, each once: token_ids_sha256 of the prompts of a task at a length.
  absl::StatusOr<std::vector<std::string>> PromptHashes(int64_t job_id, const std::string& task,
                                                        int64_t context_length);
  // Of cells whose answers were computed with learned groups, in running order; empty in a file from before version 5.
  absl::StatusOr<std::vector<GroupSharesRow>> GroupShares(int64_t job_id);
  // In running order, by layer and head; none in a file from before version 8.
  absl::StatusOr<std::vector<AttentionMeansRow>> AttentionMeans(int64_t job_id);
  absl::StatusOr<std::vector<AttentionHeadRecord>> AttentionHeads(int64_t generation_id);  // likewise
  // These call `use` with one row after the other, as a job may have millions; it must not call this reader. Its first error
  // ends the read and is returned.
  absl::Status EachSampleRow(int64_t job_id, const std::string& variant,  // by task, metric, length, index
                             const std::function<absl::Status(SampleRow)>& use);
  // The same of each answer, never reduced.
  absl::Status EachAnswerScore(int64_t job_id, const std::string& variant,
                               const std::function<absl::Status(SampleRow)>& use);
  absl::Status EachPair(int64_t job_id, const std::string& baseline, const std::string& candidate,
                        const std::function<absl::Status(PairRow)>& use);  // by task, metric, length, question
  absl::Status EachAnswer(int64_t job_id, const std::string& variant,      // by cell and question
                          const std::function<absl::Status(AnswerRow)>& use);
  absl::Status EachMarkedAnswer(int64_t job_id, const std::string& variant,  // by cell; answers of no kind are left out
                                const std::function<absl::Status(MarkedAnswerRow)>& use);
  // The data seed of each question of a job of several seeds, by task and question id; of questions that no seed changes,
  // such as rows of a user's file, there is none. Empty for a job of one seed.
  absl::StatusOr<std::map<std::pair<std::string, std::string>, int64_t>> DataSeeds(int64_t job_id);
  absl::StatusOr<std::vector<SampleDetail>> Samples(const SampleQuery& query);

  // Two variants of a job use different tokenizers: their pairs share the question, not the prompt.
  absl::StatusOr<bool> TokenizersDiffer(int64_t job_id, const std::string& baseline, const std::string& candidate);

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace varifocal::db
