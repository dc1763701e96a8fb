// The checks of the CUDA backend on a bare machine: needs only nvcc, CMake and a C++ compiler.
//
//   cmake -DVARIFOCAL_KERNELS_ONLY=ON -B build && cmake --build build && build/bin/cuda_selfcheck [NAME PART]
//
// Prints one line per check that fails or is skipped, and exits 1 when one fails. For deploy/gpu_check.sh:
//
//   cuda_selfcheck --list=NAME [--device=..]    names of cases, a line each, of conformance, same-bits, wide-attention, gathered,
//       products, decode, sanitizers, sanitizers-short or gathered-sanitizers
//   cuda_selfcheck --case=NAME [--device=cuda:0|emulated] [--attention-kernel=sm90] [--product-kernel=sm90]    one: its name at
//       once, then its result
//
// --inject=hang|crash|wrong makes a case do so instead, to rehearse what the script then leaves.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <string>

#include "kernels/cuda/checks/checks.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr std::pair<const char*, CaseSet> kSets[] = {{"conformance", CaseSet::kAll},
                                                     {"same-bits", CaseSet::kSameBits},
                                                     {"wide-attention", CaseSet::kWideAttention},
                                                     {"products", CaseSet::kProducts},
                                                     {"gathered", CaseSet::kGathered},
                                                     {"decode", CaseSet::kDecode},
                                                     {"sanitizers", CaseSet::kSanitizers},
                                                     {"sanitizers-short", CaseSet::kSanitizersShort},
                                                     {"gathered-sanitizers", CaseSet::kGatheredSanitizers}};

int List(const std::string& name, const std::string& device) {
  for (const auto& [known, set] : kSets) {
    if (name != known) continue;
    for (const NamedCheck& check : ConformanceChecks(set, device)) std::printf("%s\n", check.name.c_str());
    return 0;
  }
  std::fprintf(
      stderr,
      "error: no list \"%s\"; the lists are conformance, same-bits, wide-attention, gathered, products, decode, sanitizers, "
      "sanitizers-short, gathered-sanitizers\n",
      name.c_str());
  return 2;
}

int RunCase(const std::string& name, const std::string& device, const std::string& kernel, const std::string& products,
            const std::string& injected) {
  std::vector<NamedCheck> checks = ConformanceChecks(CaseSet::kAll, device, kernel, products);
  for (const CaseSet set : {CaseSet::kProducts, CaseSet::kWideAttention, CaseSet::kGathered, CaseSet::kDecode,
                            CaseSet::kGatheredSanitizers, CaseSet::kSanitizers}) {
    for (const NamedCheck& check : ConformanceChecks(set, device, kernel, products)) checks.push_back(check);
  }
  for (const NamedCheck& check : checks) {
    if (check.name != name) continue;
    std::printf("%s on %s\n", name.c_str(), device.c_str());
    std::fflush(stdout);
    if (injected == "hang") pause();
    if (injected == "crash") std::raise(SIGSEGV);
    const std::string verdict = injected == "wrong" ? "an injected wrong result" : check.run();
    const bool skip = verdict.rfind(kSkipped, 0) == 0;
    std::printf("%s\n", verdict.empty() ? "ok" : skip ? verdict.c_str() : ("FAILED: " + verdict).c_str());
    return verdict.empty() || skip ? 0 : 1;
  }
  std::fprintf(stderr, "error: no case \"%s\"; --list=conformance prints them\n", name.c_str());
  return 2;
}

int RunAll(const std::string& part) {
  int run = 0, failed = 0, skipped = 0;
  for (const NamedCheck& check : AllChecks()) {
    if (check.name.find(part) == std::string::npos) continue;
    ++run;
    const std::string verdict = check.run();
    if (verdict.empty()) continue;
    const bool skip = verdict.rfind(kSkipped, 0) == 0;
    (skip ? skipped : failed) += 1;
    std::printf("%s: %s\n", check.name.c_str(), verdict.c_str());
  }
  if (run == 0) {
    std::fprintf(stderr, "error: no check's name has \"%s\" in it\n", part.c_str());
    return 2;
  }
  std::printf("cuda: %d checks, %d failed, %d skipped\n", run, failed, skipped);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace varifocal::kernels::cuda

int main(int argc, char** argv) {
  using namespace varifocal::kernels::cuda;
  std::string part, name, device = "cuda:0", kernel = "auto", products = "auto", injected;
  std::optional<std::string> list;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&](const std::string& prefix, std::string& to) {
      if (flag.rfind(prefix, 0) != 0) return false;
      to = flag.substr(prefix.size());
      return true;
    };
    if (std::string set; value("--list=", set)) {
      list = set;
      continue;
    }
    if (value("--case=", name) || value("--device=", device) || value("--attention-kernel=", kernel) ||
        value("--product-kernel=", products) || value("--inject=", injected))
      continue;
    if (flag.rfind("--", 0) == 0) {
      std::fprintf(
          stderr,
          "error: unknown flag %s; the flags are --list= --case= --device= --attention-kernel= --product-kernel= --inject=\n",
          argv[i]);
      return 2;
    }
    part = flag;
  }
  if (list.has_value()) return List(*list, device);
  return name.empty() ? RunAll(part) : RunCase(name, device, kernel, products, injected);
}
