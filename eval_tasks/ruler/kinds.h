// The 13 tasks of RULER with the arguments of upstream's synthetic.yaml, and one row of any of them.
//
// Source: NVIDIA/RULER, scripts/synthetic.yaml and scripts/data/synthetic/constants.py, commit c3f5e3b.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace varifocal::ruler {

enum class Script { kNiah, kVariableTracking, kCommonWords, kFrequentWords, kQuestions };
enum class HaystackKind { kNoise, kEssay, kNeedles };
enum class NeedleKind { kNumbers, kWords, kUuids };

struct RulerTaskInfo {
  absl::string_view name;
  Script script = Script::kNiah;
  int max_new_tokens = 0;
  HaystackKind haystack = HaystackKind::kNoise;  // of kNiah, as are the following
  NeedleKind keys = NeedleKind::kWords;
  NeedleKind values = NeedleKind::kNumbers;
  int key_count = 1;
  int value_count = 1;
  int query_count = 1;
  bool is_hotpot = false;  // of kQuestions

  bool scores_any() const { return script == Script::kQuestions; }  // otherwise the share of all references
};

absl::Span<const RulerTaskInfo> RulerTasks();
const RulerTaskInfo* FindRulerTask(absl::string_view name);  // null when unknown
std::vector<std::string> RulerTaskNames();

// A prompt is `input` followed by `answer_prefix`.
struct RulerRow {
  std::string input;
  std::string answer_prefix;
  std::vector<std::string> outputs;
  int length = 0;  // tokens of the prompt without special tokens, and of the answer
};

}  // namespace varifocal::ruler
