// Mutants of kernels: each must change the bits of some case, or be a fault that the emulator reports, with one of a few orders of
// threads.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "kernels/cuda/emulator/fibers.h"
#include "kernels/cuda/emulator/hopper.h"

namespace varifocal::kernels::cuda {

inline constexpr uint64_t kMutantSeeds = 8;

// How a mutant that is set shows itself in a process of its own, since it may read anywhere or end the program. Empty: it does not.
std::string SeenApart(uint64_t seed, const std::function<bool()>& differs);

// Of an sm90 kernel: steps [first, last) of the table (sm90_steps.h). `differs` runs case `index` and returns whether
// its bits differ from those without a mutant. `is_invisible`: what no test on the emulator can see.
inline std::string CheckMutantsOf(size_t first, size_t last, size_t case_count,
                                  const std::function<bool(size_t index, Sm90Step step)>& differs,
                                  const std::function<bool(Sm90Step)>& is_invisible) {
  std::string fault;
  const auto sees = [&](size_t index, uint64_t seed, Sm90Step step) {
    fault.clear();
    emulator::SetScheduleSeed(seed);
    emulator::CatchFaults(&fault);
    const bool other = differs(index, step);
    emulator::CatchFaults(nullptr);
    emulator::SetScheduleSeed(0);
    if (other && fault.empty()) fault = "other numbers";
    return !fault.empty();
  };
  for (size_t i = 0; i < case_count; ++i) {
    for (uint64_t seed = 1; seed <= kMutantSeeds; ++seed) {
      if (sees(i, seed, static_cast<Sm90Step>(first)))
        return "without a mutant, seed " + std::to_string(seed) + ": " + fault;
    }
  }
  std::string survivors;
  int count = 0;
  for (size_t s = first; s < last; ++s) {
    for (const char* kind = kSm90Steps[s].faults; *kind != 0; ++kind) {
      const auto step = static_cast<Sm90Step>(s);
      bool seen = false;
      emulator::SetMutant({step, *kind});
      for (uint64_t seed = 0; seed <= kMutantSeeds && !seen; ++seed) {
        for (size_t i = 0; i < case_count && !seen; ++i) seen = sees(i, seed, step);
      }
      emulator::SetMutant({});
      ++count;
      if (std::getenv("VARIFOCAL_MUTANTS") != nullptr)
        std::printf("%s %c: %s\n", kSm90Steps[s].name, *kind, seen ? fault.c_str() : "SURVIVES");
      if (seen == is_invisible(step)) survivors += std::string(" ") + kSm90Steps[s].name + ":" + *kind;
    }
  }
  return survivors.empty() ? "" : "of " + std::to_string(count) + " mutants not as expected:" + survivors;
}

}  // namespace varifocal::kernels::cuda
