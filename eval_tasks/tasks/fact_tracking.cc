// fact_tracking: facts about people and things, in order of their events and scattered over a long text (docs/tasks.md).
//
// The four questions of a context are about one world. The facts are at random depths, in chronological order; a given
// depth places all of them there.
//
// Source: Kuratov et al. 2024, arXiv:2406.10149 (the idea; worlds and wording are our own,
// eval_tasks/tasks/fact_world.h).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/tasks/fact_world.h"
#include "eval_tasks/tasks/haystack.h"
#include "eval_tasks/tasks/native_task.h"

namespace varifocal {
namespace {

const FactKind& KindOf(const TaskSpec& spec) {
  for (const FactKind& kind : FactKinds()) {
    if (kind.name == GetText(spec.parameters, "ask")) return kind;
  }
  VF_CHECK(false, "the table of parameters names the same kinds");
}

class FactTrackingPlan : public HaystackPlan {
 public:
  FactTrackingPlan(const TaskSpec& spec, const GroupSeeds& seeds, const Haystack& haystack) {
    haystack_ = haystack;
    const FactKind& kind = KindOf(spec);
    Random group(seeds.group);
    FactWorld world = kind.make(GetInteger(spec.parameters, "facts"), group);
    std::vector<double> depths;
    for (size_t i = 0; i < world.facts.size(); ++i) depths.push_back(group.Uniform());
    std::sort(depths.begin(), depths.end());
    for (size_t i = 0; i < world.facts.size(); ++i) {
      hidden_.push_back({std::move(world.facts[i]), FindNumber(spec.parameters, "depth").value_or(depths[i])});
    }
    header_ = absl::StrCat(
        "Facts about people, places and things are scattered over the following text. They are told in the order in "
        "which they happened.\n\nExample: ",
        kind.example, "\n\nText: ");
    for (const Sha256Digest& seed : seeds.items) {
      Random item(seed);
      const size_t chosen = item.Below(world.candidates.size());
      FactQuestion asked = std::move(world.candidates[chosen]);
      world.candidates.erase(world.candidates.begin() + chosen);
      PlannedQuestion question;
      question.line = std::move(asked.line);
      question.gold = {std::move(asked.answer)};
      question.depth = hidden_[asked.evidence[0]].depth;
      questions_.push_back(std::move(question));
      evidence_.push_back(std::move(asked.evidence));
    }
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeFactTracking(const TaskSpec& spec) {
  const FactKind& kind = KindOf(spec);
  if (const int facts = GetInteger(spec.parameters, "facts"); facts > kind.fact_count_max) {
    return InvalidArgument("task \"", spec.name, "\": facts is \"", facts, "\"; ", kind.name, " has from ",
                           kFactCountMin, " to ", kind.fact_count_max);
  }
  ASSIGN_OR_RETURN(Haystack haystack, MakeHaystack(spec));
  NativeFamily family;
  family.stop_strings = {".", "\n"};
  family.max_new_tokens = 8;
  family.make_plan = [haystack = std::move(haystack)](const TaskSpec& task,
                                                      const GroupSeeds& seeds) -> std::unique_ptr<ContextPlan> {
    return std::make_unique<FactTrackingPlan>(task, seeds, haystack);
  };
  return std::make_unique<NativeTask>(spec, std::move(family));
}

}  // namespace varifocal
