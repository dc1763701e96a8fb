#include "db/question_rows.h"

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "db/rows.h"

namespace varifocal::db {
namespace {

using sqlite::Database;
using sqlite::Statement;

constexpr char kSelectEpochs[] =
    "SELECT coalesce(max(1, spec_json ->> '$.suite.epochs'), 1) FROM jobs WHERE job_id = ?";
// The epochs of a question follow each other.
constexpr char kSelectEpochAnswers[] =
    "SELECT s.task, s.metric, s.context_length, s.sample_index, s.question_id, s.cluster, s.value, s.error_code, s.answer,"
    " m.worst_value, m.best_value FROM v_samples AS s"
    " JOIN task_metrics AS m ON m.job_id = s.job_id AND m.task = s.task AND m.metric = s.metric"
    " WHERE s.job_id = ? AND s.variant = ? ORDER BY s.task, s.metric, s.context_length, s.sample_index";

// Gathers the answers of one question and metric.
class QuestionGatherer {
 public:
  QuestionGatherer(const JobEpochs& epochs, const std::function<absl::Status(SampleRow)>& use)
      : epochs_(epochs), use_(use) {}

  absl::Status Add(const Statement& row) {
    const int64_t index = row.Int(3) / epochs_.count;
    const bool is_same = !answers_.empty() && row_.sample_index == index && row_.context_length == row.Int(2) &&
                         row_.metric == row.Text(1) && row_.task == row.Text(0);
    if (!is_same) {
      RETURN_IF_ERROR(Finish());
      row_ = {row.Text(0), row.Text(1), row.Int(2), index, row.Text(4), row.Text(5), std::nullopt, std::nullopt, false};
      worst_value_ = row.OptionalReal(9);
      best_value_ = row.OptionalReal(10);
    }
    const std::optional<std::string> error = row.OptionalText(7);
    if (error.has_value() && !row_.error_code.has_value()) row_.error_code = error;
    EpochValue& answer = answers_.emplace_back();
    answer.is_failed = error.has_value();
    answer.value = row.OptionalReal(6);
    if (epochs_.statistic.kind == EpochStatistic::Kind::kMajority) answer.form = MajorityForm(row.Text(8));
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (answers_.empty()) return absl::OkStatus();
    row_.is_partial = std::ssize(answers_) < epochs_.count;
    const ReducedQuestion question =
        ReduceQuestion(epochs_.statistic, std::exchange(answers_, {}), row_.is_partial, worst_value_, best_value_);
    row_.value = question.value;
    if (!question.keeps_error) row_.error_code.reset();
    return use_(std::move(row_));
  }

 private:
  const JobEpochs& epochs_;
  const std::function<absl::Status(SampleRow)>& use_;
  SampleRow row_;
  std::optional<double> worst_value_, best_value_;
  std::vector<EpochValue> answers_;
};

}  // namespace

absl::StatusOr<int64_t> ReadEpochCount(Database& database, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> count, database.QueryInt(kSelectEpochs, job_id));
  return count.value_or(1);
}

absl::StatusOr<int64_t> ReadEpochCount(Database& database, int64_t job_id, const EpochStatistic& statistic) {
  ASSIGN_OR_RETURN(const int64_t count, ReadEpochCount(database, job_id));
  if (statistic.kind != EpochStatistic::Kind::kPass || statistic.k <= count) return count;
  return InvalidArgument(statistic.Name(), " needs ", statistic.k, " answers to each question, and job ", job_id,
                         " has ", count);
}

absl::Status EachQuestionRow(Database& database, int64_t job_id, const std::string& variant, const JobEpochs& epochs,
                             const std::function<absl::Status(SampleRow)>& use) {
  QuestionGatherer question(epochs, use);
  const auto add = [&](const Statement& row) { return question.Add(row); };
  RETURN_IF_ERROR(EachRow(database, kSelectEpochAnswers, add, job_id, variant));
  return question.Finish();
}

absl::Status EachQuestionPair(Database& database, int64_t job_id, const std::string& baseline,
                              const std::string& candidate, const JobEpochs& epochs,
                              const std::function<absl::Status(PairRow)>& use) {
  using Key = std::tuple<std::string, std::string, int64_t, std::string, int64_t>;  // the order of the pairs
  const auto key_of = [](const SampleRow& row) {
    return Key(row.task, row.metric, row.context_length, row.question_id, row.sample_index);
  };
  std::map<Key, SampleRow> of_baseline;
  RETURN_IF_ERROR(EachQuestionRow(database, job_id, baseline, epochs, [&](SampleRow row) {
    Key key = key_of(row);
    of_baseline.emplace(std::move(key), std::move(row));
    return absl::OkStatus();
  }));
  std::map<Key, PairRow> pairs;
  RETURN_IF_ERROR(EachQuestionRow(database, job_id, candidate, epochs, [&](const SampleRow& row) {
    const auto found = of_baseline.find(key_of(row));
    if (found == of_baseline.end()) return absl::OkStatus();
    const SampleRow& first = found->second;
    PairRow& pair = pairs[found->first];
    pair = {.job_id = job_id,
            .task = row.task,
            .metric = row.metric,
            .context_length = row.context_length,
            .question_id = row.question_id,
            .cluster = first.cluster,
            .baseline_variant = baseline,
            .candidate_variant = candidate,
            .baseline_value = first.value,
            .candidate_value = row.value,
            .difference = std::nullopt,
            .baseline_error = first.error_code,
            .candidate_error = row.error_code,
            .is_partial = first.is_partial || row.is_partial};
    if (first.value.has_value() && row.value.has_value()) pair.difference = *row.value - *first.value;
    return absl::OkStatus();
  }));
  for (auto& [key, pair] : pairs) RETURN_IF_ERROR(use(std::move(pair)));
  return absl::OkStatus();
}

}  // namespace varifocal::db
