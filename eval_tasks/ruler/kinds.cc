#include "eval_tasks/ruler/kinds.h"
#include "base/suggest.h"

#include <array>

namespace varifocal::ruler {

absl::Span<const RulerTaskInfo> RulerTasks() {
  using H = HaystackKind;
  using N = NeedleKind;
  static constexpr int kNiahTokens = 128;
  static constexpr std::array<RulerTaskInfo, 13> tasks = {{
      {"niah_single_1", Script::kNiah, kNiahTokens, H::kNoise, N::kWords, N::kNumbers},
      {"niah_single_2", Script::kNiah, kNiahTokens, H::kEssay, N::kWords, N::kNumbers},
      {"niah_single_3", Script::kNiah, kNiahTokens, H::kEssay, N::kWords, N::kUuids},
      {"niah_multikey_1", Script::kNiah, kNiahTokens, H::kEssay, N::kWords, N::kNumbers, 4},
      {"niah_multikey_2", Script::kNiah, kNiahTokens, H::kNeedles, N::kWords, N::kNumbers},
      {"niah_multikey_3", Script::kNiah, kNiahTokens, H::kNeedles, N::kUuids, N::kUuids},
      {"niah_multivalue", Script::kNiah, kNiahTokens, H::kEssay, N::kWords, N::kNumbers, 1, 4},
      // Upstream has one key, and raises it to the number of queries.
      {"niah_multiquery", Script::kNiah, kNiahTokens, H::kEssay, N::kWords, N::kNumbers, 4, 1, 4},
      {"vt", Script::kVariableTracking, 30},
      {"cwe", Script::kCommonWords, 120},
      {"fwe", Script::kFrequentWords, 50},
      {"qa_1", Script::kQuestions, 32},
      {.name = "qa_2", .script = Script::kQuestions, .max_new_tokens = 32, .is_hotpot = true},
  }};
  return tasks;
}

const RulerTaskInfo* FindRulerTask(absl::string_view name) {
  for (const RulerTaskInfo& task : RulerTasks()) {
    if (task.name == name) return &task;
  }
  return nullptr;
}

std::vector<std::string> RulerTaskNames() { return NamesOf(RulerTasks()); }

}  // namespace varifocal::ruler
