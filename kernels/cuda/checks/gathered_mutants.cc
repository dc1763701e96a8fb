// Mutants of attention by groups with gathered keys (gathered_scene.h).

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/checks/gathered_scene.h"
#include "kernels/cuda/checks/mutants.h"
#include "kernels/cuda/emulator/fibers.h"
#include "kernels/cuda/gather_steps.h"

namespace varifocal::kernels::cuda {
namespace {

bool Differs(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  for (size_t s = 0; s < a.size(); ++s) {
    if (std::memcmp(a[s].data(), b[s].data(), a[s].size() * sizeof(float)) != 0) return true;
  }
  return false;
}
bool Differs(const SceneRun& a, const SceneRun& b) {
  return Differs(a.outs, b.outs) || Differs(a.log_sum_exps, b.log_sum_exps);
}

bool IsSeen(const Scene& scene, const SceneRun& base, uint64_t seed) {
  return !SeenApart(seed, [&] { return Differs(base, RunScene(scene)); }).empty();
}

// What keeps copies of mma apart; those of sm90 are in the table of its steps, below.
bool IsOfMma(GatherStep step) { return step >= GatherStep::kCommitPlaces && step <= GatherStep::kSyncKeys; }

}  // namespace

std::string CheckGatherMutants(bool sm90) {
  // Lists of several blocks and tiles; one list is empty, and the last entries of the last one are no places.
  std::vector<Scene> scenes(2, SmallScene(64));
  scenes[0].sequences = {{30, 400, 0}, {100, 90, 1}};
  scenes[0].group_count = 4;
  scenes[1].kind = Scene::Kind::kOneEmpty;
  scenes[1].sequences = {{0, 260, 0}};
  scenes[1].window = 90;
  for (Scene& scene : scenes) scene.sm90 = sm90;
  std::string survivors;
  std::vector<SceneRun> bases;
  for (const Scene& scene : scenes) bases.push_back(RunScene(scene));
  for (int step = 0; step < static_cast<int>(GatherStep::kCount); ++step) {
    bool seen = false;
    emulator::OmitStep(step);
    for (uint64_t seed = 0; seed <= 4 && !seen; ++seed) {
      for (size_t i = 0; i < scenes.size() && !seen; ++i) seen = IsSeen(scenes[i], bases[i], seed);
    }
    emulator::OmitStep(0);
    if (std::getenv("VARIFOCAL_MUTANTS") != nullptr) std::printf("step %d: %s\n", step, seen ? "seen" : "not seen");
    // Step 0 leaves nothing out. Window states of rows below, which step kWindowRowsBelow would add, are never read.
    const auto is = static_cast<GatherStep>(step);
    const bool is_visible = is != GatherStep::kNone && is != GatherStep::kWindowRowsBelow && !(sm90 && IsOfMma(is));
    if (seen != is_visible) survivors += " " + std::to_string(step);
  }
  return survivors.empty() ? "" : "mutants not as expected:" + survivors;
}

// Of passes over gathered keys: several tiles of several blocks, and one buffer of queries.
std::string CheckGatherSm90Mutants() {
  std::vector<Scene> scenes(3, {.sequences = {{700, 100, 0}}, .head_dim = 128, .group_count = 4, .sm90 = true});
  scenes[1].sequences = {{350, 60, 0}};
  scenes[1].head_dim = 256;
  scenes[2].sequences = {{150, 200, 0}};
  std::vector<SceneRun> bases;
  for (const Scene& scene : scenes) bases.push_back(RunScene(scene));
  const auto differs = [&](size_t index, Sm90Step) { return Differs(bases[index], RunScene(scenes[index])); };
  // Pages are not copied, values have no tail of their own, and queries no fence.
  const auto is_invisible = [](Sm90Step step) {
    return step == Sm90Step::kPublishBarriers || step == Sm90Step::kFenceQueries || step == Sm90Step::kExpectKeys ||
           step == Sm90Step::kCopyKeys || step == Sm90Step::kCopyGroups || step == Sm90Step::kZeroTail ||
           step == Sm90Step::kFenceTail || step == Sm90Step::kExpectValues || step == Sm90Step::kCopyValues;
  };
  return CheckMutantsOf(0, kFirstProductStep, scenes.size(), differs, is_invisible);
}

}  // namespace varifocal::kernels::cuda
