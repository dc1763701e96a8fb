// The tests of the CUDA backend as a table, for GoogleTest (checks_test.cc) and for a bare machine (selfcheck.cc).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/conformance/cases.h"

namespace varifocal::kernels::cuda {

struct NamedCheck {
  std::string name;
  // Empty on success; otherwise one sentence. A sentence that starts with kSkipped is the reason why it could not run.
  std::function<std::string()> run;
  bool is_slow = false;  // outside the covering design; its test has the label `slow`
};
inline constexpr char kSkipped[] = "skipped: ";

std::vector<NamedCheck> LayoutChecks();        // pages, staged blocks, fragments
std::vector<NamedCheck> ScheduleChecks();      // tiles, blocks, splits
std::vector<NamedCheck> TileChecks();          // the emulator itself, and attention on it against float64
std::vector<NamedCheck> EmulatedChecks();      // the conformance table on the emulated device
std::vector<NamedCheck> HopperChecks();        // the emulator's model of compute capability 9.0
std::vector<NamedCheck> Sm90Checks();          // the sm90 attention kernel, and its mutants
std::vector<NamedCheck> Sm90ProductChecks();   // the sm90 product kernel, tensor maps, and its mutants
std::vector<NamedCheck> Sm90HeadsChecks();     // q, k, v that it rotates and writes
std::vector<NamedCheck> PlanChecks();          // which of the product library's algorithms are recorded
std::vector<NamedCheck> GatheredChecks();      // attention by groups with gathered keys, and its mutants
std::vector<NamedCheck> DecodeChecks();        // decode steps of a few rows, by fused kernels
std::vector<NamedCheck> DecodeMutantChecks();  // their mutants
std::vector<NamedCheck> AheadChecks();         // weights that decode steps ask for ahead
std::vector<NamedCheck> WaitingNormChecks();   // norms that wait for the product that reads them
std::vector<NamedCheck> FaultChecks();         // refusals, exhausted memory, failing devices
std::vector<NamedCheck> GateChecks();          // the ptxas report of every kernel
std::vector<NamedCheck> LoopChecks();          // instructions of the sm90 kernels' loops
std::vector<NamedCheck> DeviceChecks();        // the conformance table on a real device, as one check
std::vector<NamedCheck> AllChecks();

// The conformance table's cases of gathered keys, for devices (gathered_checks.cc).
std::vector<ConformanceCase> GatheredCases();
// At the head dims of models against float64 and the same bits (wide_bits_checks.cc), and the attention of which.
std::vector<ConformanceCase> WideBitsCases();
std::vector<ConformanceCase> WideGatheredCases();  // with gathered keys
AttentionCase WideBitsCase(int dim, bool windowed, bool groups);

// The conformance table, a check for each case, on "cuda:0" or "emulated": for deploy/gpu_check.sh, which runs each in a
// process of its own.
enum class CaseSet {
  kAll,
  kSameBits,
  kWideAttention,       // attention at head dims from 64, its same bits among it: what the kernel sm90 must pass
  kProducts,            // what multiplies, the same bits among it: what the kernel sm90 of products must pass
  kGathered,            // of a backend that gathers keys by groups
  kDecode,              // decode steps by fused kernels and by separate ones
  kGatheredSanitizers,  // gathered keys at each head dim
  kSanitizers,          // small ones that pass through every kernel and head dim: compute-sanitizer is slow
  kSanitizersShort,     // a dozen of the smallest, for racecheck and synccheck, which are slower still
};
// q, k, v in steps of every kind, and in one kernel sm90 or two on "cuda:0" or "emulated" (sm90_heads_checks.cc).
std::vector<ConformanceCase> HeadsCases();
std::vector<NamedCheck> HeadsApartChecks(const std::string& device);
// Both kinds of decode kernels on "cuda:0" or "emulated": the same bits.
std::vector<NamedCheck> DecodeBitsChecks(const std::string& device);
// A device by name, with options of the backend.
Result<std::unique_ptr<Backend>> OpenDevice(const std::string& device, BackendOptions options);

// Products of the 2.7B model's layer shapes, the same bits in steps of any size (layer_bits_checks.cc).
std::vector<ConformanceCase> LayerBitsCases(bool emulated);
std::vector<NamedCheck> ConformanceChecks(CaseSet set, const std::string& device,
                                          const std::string& attention_kernel = "auto",
                                          const std::string& product_kernel = "auto");

}  // namespace varifocal::kernels::cuda
