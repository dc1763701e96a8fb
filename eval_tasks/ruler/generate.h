// Rows of one task, length, seed and tokenizer, equal to those that upstream's script writes in the same order.
//
// The number of units is found as upstream finds it: one probe, a binary search whose probes draw too, and for each row a
// build that gives up a step of units while it does not fit. Where upstream's script would repeat the smallest build without
// end, the task is refused.
//
// Rows are planned in order, each with the state of the generators before it; a plan has 5 KB, a row the size of its
// prompt. The row that was planned last is there already, an earlier one is built again.
//
// Errors:  INVALID_ARGUMENT (IMPOSSIBLE_LENGTH) for a length that the task's smallest prompt does not fit;
//          FAILED_PRECONDITION without a file that this length needs; errors of the tokenizer.
// Threads: one at a time.
// Source:  NVIDIA/RULER, scripts/data/synthetic, commit c3f5e3b.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/ruler/builder.h"
#include "eval_tasks/ruler/inputs.h"
#include "eval_tasks/ruler/kinds.h"
#include "eval_tasks/token_counter.h"

namespace varifocal::ruler {

struct GenerateSettings {
  uint32_t seed = 42;
  int context_length = 0;
  int template_tokens = 0;  // taken from the length, as upstream does for NeMo-Skills
};

class RowGenerator {
 public:
  // The references outlive it.
  RowGenerator(const RulerTaskInfo& task, const Inputs& inputs, const GenerateSettings& settings);

  // `tokenizer`: the same definition at every call.
  absl::StatusOr<RulerRow> Row(int index, const TokenCounter& tokenizer);

 private:
  struct Plan {
    Streams streams;
    int64_t units = 0;
    int length = 0;
  };

  absl::StatusOr<int> Count(absl::string_view text) const;
  absl::StatusOr<std::optional<Built>> Build(int64_t units, int64_t index, Streams& streams) const;
  // The most units that fit, `step` where none do; `tokens_beside` are of the answer, and of an example.
  absl::StatusOr<int64_t> Search(const Builder& builder, int64_t step, int limit, int tokens_beside);
  absl::Status Start();
  absl::Status StartExample(const Builder& builder);
  absl::Status StartFrequentWords();
  absl::StatusOr<Built> PlanNext();
  absl::StatusOr<Built> PlanFrequentWords();
  absl::StatusOr<Built> BuildPlanned(int index) const;
  absl::StatusOr<RulerRow> Split(Built built, int length) const;
  absl::Status Failed(const absl::Status& status);
  absl::Status NeverFits(int64_t units, int tokens) const;

  const RulerTaskInfo& task_;
  const Inputs& inputs_;
  const GenerateSettings settings_;
  const int limit_;  // of prompt and answer
  int64_t step_ = 0;
  const TokenCounter* tokenizer_ = nullptr;  // during a call
  std::unique_ptr<const Builder> builder_;   // none for frequent words
  std::string example_;                      // of variable tracking, with the names that every row replaces
  Streams streams_;
  std::optional<int64_t> units_;
  std::vector<Plan> plans_;
  absl::Status failed_;
};

}  // namespace varifocal::ruler
