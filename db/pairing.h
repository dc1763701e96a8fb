// Pairs variants of different jobs: resolves variant names to jobs and matches equal questions.
//
// Two samples of different jobs are one question when task, context length, question id, gold answers, continuations
// and answer length agree, and then
//   - with one tokenizer: their prompts have the same token ids (token_ids_sha256);
//   - with two tokenizers, or where a prompt could not be built on one side: they have the same sample index, and both
//     jobs give the task the same settings and data (its entry in the specification, the data's hash included and its
//     path not) and the same data seed.
// Everything else is left out and counted. Pairs within one job come from v_pairs.
//
// Errors: those of Reader; NOT_FOUND when both sides have samples but no question in common.
// Cost:   reads every sample of both variants.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"

namespace varifocal::db {

// A variant of one job; job_id is 0 where the name alone was given.
struct JobVariant {
  int64_t job_id = 0;
  std::string name;
};

// "focal", "3/focal", "jobs/3/focal".
JobVariant ParseJobVariant(absl::string_view text);

// "focal" within the current job, "jobs/3/focal" in another one.
std::string JobVariantLabel(const JobVariant& variant, int64_t job_id_at_hand);

// Assigns a job to every variant that names none: `job_id` if given, else the newest job that has them all; if there is
// none, the newest job of the variant that the fewest jobs have, and for each other one the newest job with a question
// in common. NOT_FOUND lists the candidates and how to name them.
absl::StatusOr<std::vector<JobVariant>> FindJobVariants(Reader& reader, std::optional<int64_t> job_id,
                                                        std::vector<JobVariant> variants);

// The newest job before `job_id`, of the hundred before it, that has all these variants and is as asked for.
absl::StatusOr<std::optional<JobRow>> EarlierJob(Reader& reader, int64_t job_id,
                                                 const std::vector<std::string>& variants,
                                                 const std::function<bool(const JobRow&)>& is_wanted);
// The same of every planned answer, where `job` has not all of its own; else nothing.
absl::StatusOr<std::optional<JobRow>> CompleteJobBefore(Reader& reader, const JobRow& job,
                                                        const std::vector<std::string>& variants);

// Answers that another engine gave and `import` brought in.
bool IsImported(const VariantRecord& variant);
// Answers of a server that was asked over the network.
bool IsEndpoint(const VariantRecord& variant);

// One task and length of either job.
struct PairedCell {
  std::string task;
  int64_t context_length = 0;
  int64_t planned_count = 0;  // existing pairs and those that may still follow
  int64_t paired_count = 0;
  int64_t baseline_left_out_count = 0;  // questions of this side without a counterpart (yet) on the other
  int64_t candidate_left_out_count = 0;
};

struct CrossPairs {
  std::vector<TaskMetricRecord> metrics;  // metrics defined equally by both jobs, in the baseline's order
  std::vector<PairRow> pairs;             // ordered as Reader::Pairs orders them; variants by their labels
  std::vector<PairedCell> cells;
  std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> baseline_index;  // by task, length, candidate's index
  bool tokenizers_differ = false;
  std::vector<std::string> tasks_with_other_settings;  // paired nevertheless, by their prompts
};

absl::StatusOr<CrossPairs> PairAcrossJobs(Reader& reader, const JobVariant& baseline, const JobVariant& candidate);

}  // namespace varifocal::db
