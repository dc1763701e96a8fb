#include "db/fakes/fake_arms.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "db/fakes/fake_results.h"
#include "db/writer.h"

namespace varifocal::db {

void WriteFakeArms(const std::string& path, const FakeArmsOptions& options) {
  std::vector<std::string> names;
  for (int64_t seed = 1; seed <= options.seed_count; ++seed) {
    for (const int64_t tokens : options.tokens) {
      for (const char* arm : {"plain", "focal"}) names.push_back(absl::StrCat(arm, "-s", seed, "-", tokens));
    }
  }
  NewJob job = FakeJob({.variants = names, .planned_count = options.question_count});
  job.metrics[1] = {"recall", "gold/log_likelihood", 1, false, std::nullopt, std::nullopt};
  std::vector<double> shifts;
  size_t next = 0;
  for (int64_t seed = 1; seed <= options.seed_count; ++seed) {
    for (const int64_t tokens : options.tokens) {
      for (const char* arm : {"plain", "focal"}) {
        ModelRecord& model = job.variants[next++].model;
        model.training_arm = arm;
        model.training_seed = seed;
        model.training_tokens = tokens;
        model.parameter_count = 100'000;
        const double gain = *arm == 'f' ? 0.4 + 0.1 * (seed - 1) : 0;
        shifts.push_back(std::log2(tokens / 1000.0) - 4 + 0.1 * seed + gain);
      }
    }
  }
  const auto writer = Writer::Open(path);
  VF_CHECK(writer.ok());
  const int64_t execution = *(*writer)->AddExecution(FakeExecution());
  const std::vector<CellRow> cells = *(*writer)->Cells((*writer)->AddJob(job)->job_id);
  for (size_t v = 0; v < cells.size(); ++v) {
    const bool is_focal = absl::StartsWith(cells[v].cell.variant, "focal");
    const int64_t seed = *job.variants[v].model.training_seed;
    for (int64_t q = 0; q < options.answered_count; ++q) {
      Outcome outcome = FakeOutcome(cells[v], job, execution, q);
      // 7 has no factor in common with the number of questions: every one is hit once, and contexts are alike.
      const bool is_right = q * 7 % options.question_count < options.question_count / 2 + (is_focal ? 3 * seed : 0);
      // Questions differ alike in every run; their effects add up to zero.
      const double effect = q % 2 == 0 ? 0.25 : -0.25;
      outcome.scores = {{"exact_match", is_right ? 1.0 : 0.0}, {"gold/log_likelihood", shifts[v] + effect}};
      VF_CHECK((*writer)->RecordSample(outcome).ok());
    }
  }
}

}  // namespace varifocal::db
