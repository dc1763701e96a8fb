#include "kernels/cpu/cpu_features.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace varifocal::kernels::cpu {
namespace {

struct IsaRow {
  const char* name;
  const KernelTable* (*kernels)();
  bool (*supported)();
};

bool Always() { return true; }

// The compiler's check includes whether the system saves the wider registers.
bool HasAvx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool HasAvx512() {
#if defined(__x86_64__)
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

// Worst first.
const IsaRow kIsas[] = {
    {"portable", PortableKernels, Always},
    {"avx2", Avx2Kernels, HasAvx2},
    {"avx512", Avx512Kernels, HasAvx512},
};

}  // namespace

Result<const KernelTable*> ChooseKernels(const std::string& isa) {
  const KernelTable* best = nullptr;
  bool known = isa == "auto";
  for (const IsaRow& row : kIsas) {
    known = known || isa == row.name;
    if ((isa == "auto" || isa == row.name) && row.supported() && row.kernels() != nullptr) best = row.kernels();
  }
  if (!known) {
    return Error{ErrorCode::kInvalidArgument, "\"" + isa + "\" is no instruction set: auto, portable, avx2 or avx512"};
  }
  if (best == nullptr) return Error{ErrorCode::kUnsupported, "this CPU lacks the instruction set \"" + isa + "\""};
  return best;
}

std::vector<std::string> AvailableIsas() {
  std::vector<std::string> names;
  for (const IsaRow& row : kIsas) {
    if (row.supported() && row.kernels() != nullptr) names.push_back(row.name);
  }
  return names;
}

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace varifocal::kernels::cpu
