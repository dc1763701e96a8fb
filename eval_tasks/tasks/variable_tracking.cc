// variable_tracking: chains of boxes, RULER's multi-hop family in our own wording (docs/tasks.md).
//
// A chain begins with a box that contains a number; each further box refers to the one before it. The question asks for
// all boxes of one chain by its number. Other chains have other numbers.
//
// Source: Hsieh et al. 2024, arXiv:2404.06654, section 3 and appendix B.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/distinct_words.h"
#include "eval_tasks/tasks/haystack.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {
namespace {

constexpr int kBoxesMaxNewTokens = 30;  // upstream's
constexpr int kNameLength = 5;

std::string DrawName(Random& random) {
  std::string name;
  for (int i = 0; i < kNameLength; ++i) name.push_back('A' + random.Below(26));
  return name;
}

class VariableTrackingPlan : public HaystackPlan {
 public:
  VariableTrackingPlan(const TaskSpec& spec, const GroupSeeds& seeds, const Haystack& haystack) {
    haystack_ = haystack;
    const int chain_count = GetInteger(spec.parameters, "chains");
    const int hop_count = GetInteger(spec.parameters, "hops");
    const std::optional<double> depth = FindNumber(spec.parameters, "depth");
    Random random(seeds.items[0]);
    std::set<std::string> used;
    PlannedQuestion question;
    std::string asked_value;
    std::vector<int> evidence;
    for (int chain = 0; chain < chain_count; ++chain) {
      std::string value = DrawUnused(used, [&] { return absl::StrCat(10'000 + random.Below(90'000)); });
      std::vector<double> depths;
      for (int i = 0; i <= hop_count; ++i) depths.push_back(random.Uniform());
      std::sort(depths.begin(), depths.end());
      std::string before;
      for (int i = 0; i <= hop_count; ++i) {
        std::string name = DrawUnused(used, [&] { return DrawName(random); });
        const std::string what = i == 0 ? value : absl::StrCat("what box ", before, " holds");
        if (chain == 0) {
          question.gold.push_back(name);
          evidence.push_back(hidden_.size());
        }
        hidden_.push_back({absl::StrCat("Box ", name, " holds ", what, "."), depth.value_or(depths[i])});
        before = std::move(name);
      }
      if (chain == 0) asked_value = std::move(value);
    }
    header_ =
        "The following text says, here and there, what some boxes hold. Keep track of them.\n\n"
        "Example: Box QRS holds 704. The rain had stopped. Box TUV holds what box QRS holds.\n"
        "Question: Which boxes hold 704?\nAnswer: These 2 boxes hold 704: QRS, TUV\n\n"
        "Text: ";
    question.line = absl::StrCat("Question: Which boxes hold ", asked_value, "?\nAnswer: These ", hop_count + 1,
                                 " boxes hold ", asked_value, ":");
    question.depth = hidden_[0].depth;
    questions_.push_back(std::move(question));
    evidence_.push_back(std::move(evidence));
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeVariableTracking(const TaskSpec& spec) {
  ASSIGN_OR_RETURN(Haystack haystack, MakeHaystack(spec));
  NativeFamily family;
  family.stop_strings = {"\n"};
  // Upstream's, plus space for more boxes than its five.
  family.max_new_tokens = std::max(kBoxesMaxNewTokens, 6 * (GetInteger(spec.parameters, "hops") + 1));
  family.questions_per_context = 1;
  family.answer_words = "the names of the boxes, separated by commas";
  family.make_plan = [haystack = std::move(haystack)](const TaskSpec& task,
                                                      const GroupSeeds& seeds) -> std::unique_ptr<ContextPlan> {
    return std::make_unique<VariableTrackingPlan>(task, seeds, haystack);
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace varifocal
