#include "kernels/cpu/cpu_features.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace varifocal::kernels::cpu {
namespace {

struct IsaRow {
  const char* name;
  const KernelTable* (*kernels)(DType dtype);
  bool (*supported)();
};

bool Always() { return true; }

// The compiler's check includes whether the OS saves the wider registers.
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

bool HasAvx512Bf16() {
#if defined(__x86_64__)
  return HasAvx512() && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// Worst first.
const IsaRow kIsas[] = {
    {"portable", PortableKernels, Always},
    {"avx2", Avx2Kernels, HasAvx2},
    {"avx512", Avx512Kernels, HasAvx512},
    {"avx512bf16", Avx512Bf16Kernels, HasAvx512Bf16},
};

}  // namespace

Result<const KernelTable*> ChooseKernels(const std::string& isa, DType dtype) {
  const KernelTable* best = nullptr;
  bool known = isa == "auto", lacking = false;
  for (const IsaRow& row : kIsas) {
    if (isa != "auto" && isa != row.name) continue;
    known = true;
    lacking = !row.supported();
    if (!lacking && row.kernels(dtype) != nullptr) best = row.kernels(dtype);
  }
  if (best != nullptr) return best;
  if (!known) {
    return Error{ErrorCode::kInvalidArgument,
                 "unknown instruction set \"" + isa + "\"; it must be auto, portable, avx2, avx512 or avx512bf16"};
  }
  if (lacking) {
    std::string has;
    for (const std::string& name : AvailableIsas(dtype)) has += (has.empty() ? "" : ", ") + name;
    return Error{ErrorCode::kUnsupported, "this CPU lacks the instruction set \"" + isa + "\"; it has " + has};
  }
  return Error{ErrorCode::kUnsupported,
               "the instruction set \"" + isa + "\" has no kernels for the number format " + DTypeName(dtype)};
}

std::vector<std::string> AvailableIsas(DType dtype) {
  std::vector<std::string> names;
  for (const IsaRow& row : kIsas) {
    if (row.supported() && row.kernels(dtype) != nullptr) names.push_back(row.name);
  }
  return names;
}

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace varifocal::kernels::cpu
