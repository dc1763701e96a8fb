// The conformance table on a real device, skipped with the reason where there is none, or case by case on a device that
// is named.

#include <algorithm>
#include <iterator>
#include <set>

#include "base/check.h"
#include "kernels/conformance/case_tools.h"
#include "kernels/conformance/cases.h"
#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"

namespace varifocal::kernels::cuda {
namespace {

Result<std::unique_ptr<Backend>> OpenDevice(const std::string& device, const std::string& attention_kernel,
                                            const std::string& product_kernel) {
  return cuda::OpenDevice(device, {.attention_kernel = attention_kernel, .product_kernel = product_kernel});
}

std::string CheckAllOnDevice() {
  auto tested = OpenDevice("cuda:0", "auto", "auto");
  if (!tested.ok()) return kSkipped + tested.error().message;
  auto oracle = MakeOracle(DType::kBF16);
  std::string failed;
  for (const ConformanceCase& c : AllCases()) {
    if (!IsSupportedBy(c, **tested)) continue;
    const std::string verdict = c.check(**tested, *oracle);
    if (!verdict.empty()) failed += c.name + ": " + verdict + "\n";
  }
  return failed;
}

// Products, rows, the LM head and drawing are small; attention is compiled for each head dim, and each mask of groups
// for each of those.
std::vector<ConformanceCase> SanitizerCases() {
  std::vector<ConformanceCase> cases = ProductCases();
  for (const auto& more : {ModelCases(), StepCases(), RecurrenceCases()})
    cases.insert(cases.end(), more.begin(), more.end());
  for (const ConformanceCase& c : AttentionCases()) {
    if (c.head_dim != 0) cases.push_back(c);
  }
  std::set<int> seen;
  for (const ConformanceCase& c : GroupCases()) {
    if (!c.gathers && seen.insert(c.head_dim).second) cases.push_back(c);
  }
  return cases;
}

// Of gathered keys: every kernel and head dim, by mma or sm90 as the flag asks.
std::vector<ConformanceCase> GatheredSanitizerCases() {
  std::vector<ConformanceCase> cases;
  for (const int dim : {16, 32, 48, 64, 80, 96, 112, 128, 192, 256}) {
    const AttentionCase c{.name = "sanitized_gathered_" + std::to_string(dim),
                          .head_dim = dim,
                          .query_heads = 2,
                          .kv_heads = 1,
                          .sequences = {{150, 1}, {40, 1}},
                          .groups = {.group_count = 4, .top_k = 2, .window = 20, .gather_from = 30}};
    cases.push_back({.name = c.name,
                     .check = [c](Backend& tested, Backend& oracle) { return CheckAgainstOracle(c, tested, oracle); },
                     .head_dim = dim,
                     .gathers = true});
  }
  return cases;
}

// Of each kind of kernel the smallest: shared memory and barriers are in products, attention by either kernel, its groups, splits of
// decode steps, norms and drawing. ConformanceChecks adds fused kernels.
constexpr const char* kShortNames[] = {"linear",
                                       "gated",
                                       "norm",
                                       "qkv_rope_write",
                                       "lm_head",
                                       "draw",
                                       "attention_head_dim_64",
                                       "attention_head_dim_128",
                                       "attention_head_dim_256",
                                       "attention_decode_at_a_split",
                                       "groups_2_of_8_near_20_d64_h2k1_columns_tested",
                                       "groups_2_of_8_near_20_d64_h2k1_gathered_from_150"};

std::vector<ConformanceCase> SanitizerCasesShort() {
  std::vector<ConformanceCase> cases;
  for (const auto& more : {SanitizerCases(), GatheredCases()}) {
    for (const ConformanceCase& c : more) {
      if (std::find(std::begin(kShortNames), std::end(kShortNames), c.name) != std::end(kShortNames))
        cases.push_back(c);
    }
  }
  VF_CHECK(cases.size() == std::size(kShortNames), "the names are those of cases");
  return cases;
}

std::vector<ConformanceCase> WideAttentionCases() {
  std::vector<ConformanceCase> cases = WideBitsCases();
  for (const auto& more : {AttentionCases(), GroupCases()}) {
    for (const ConformanceCase& c : more) {
      if (c.head_dim >= 64 && !c.gathers) cases.push_back(c);
    }
  }
  return cases;
}

// What multiplies: alone, in a layer's shapes, and in whole models, with the same bits.
std::vector<ConformanceCase> CasesOfProducts(bool emulated) {
  std::vector<ConformanceCase> cases = ProductCases();
  for (const auto& more : {HeadsCases(), LayerBitsCases(emulated), ModelCases()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

std::vector<ConformanceCase> CasesOf(CaseSet set, bool emulated) {
  if (set == CaseSet::kSanitizers) return SanitizerCases();
  if (set == CaseSet::kSanitizersShort) return SanitizerCasesShort();
  if (set == CaseSet::kProducts) return CasesOfProducts(emulated);
  if (set == CaseSet::kWideAttention) return WideAttentionCases();
  if (set == CaseSet::kGathered) return GatheredCases();
  if (set == CaseSet::kGatheredSanitizers) return GatheredSanitizerCases();
  std::vector<ConformanceCase> cases = LayerBitsCases(emulated);
  for (const ConformanceCase& c : AllCases()) {
    // A device has no number of threads to vary, and gathers keys where it is asked to (kGathered).
    if (c.gathers || c.name.find("_bits_threads") != c.name.npos) continue;
    const bool is_bits = c.name.find("same_bits") != c.name.npos || c.name.rfind("groups_bits", 0) == 0;
    if (set == CaseSet::kAll || is_bits) cases.push_back(c);
  }
  for (const ConformanceCase& c : WideBitsCases()) cases.push_back(c);
  return cases;
}

}  // namespace

Result<std::unique_ptr<Backend>> OpenDevice(const std::string& device, BackendOptions options) {
  options.dtype = DType::kBF16;
  options.device = device;
  if (device != "emulated") return CreateBackend(options);
  return CreateBackendOn(MakeEmulatedRuntime(std::make_shared<EmulatedMachine>()), 0, options);
}

std::vector<NamedCheck> ConformanceChecks(CaseSet set, const std::string& device, const std::string& attention_kernel,
                                          const std::string& product_kernel) {
  if (set == CaseSet::kDecode) return DecodeBitsChecks(device);
  std::vector<NamedCheck> checks;
  const auto add = [&](const std::string& prefix, const ConformanceCase& c, const std::string& products) {
    checks.push_back({prefix + c.name, [c, device, attention_kernel, products]() -> std::string {
                        auto tested = OpenDevice(device, attention_kernel, products);
                        if (!tested.ok())
                          return (tested.error().code == ErrorCode::kUnsupported ? kSkipped : "") +
                                 tested.error().message;
                        if (!IsSupportedBy(c, **tested)) return std::string(kSkipped) + "not supported by this device";
                        auto oracle = MakeOracle(DType::kBF16);
                        return c.check(**tested, *oracle);
                      }});
  };
  if (set == CaseSet::kSanitizers) {
    // Kernels that are off by default first: they have run least.
    for (const auto& more : {ProductCases(), HeadsCases()}) {
      for (const ConformanceCase& c : more) add("sm90_", c, "sm90");
    }
    for (const NamedCheck& check : DecodeBitsChecks(device)) checks.push_back(check);
  }
  for (const ConformanceCase& c : CasesOf(set, device == "emulated")) add("", c, product_kernel);
  if (set == CaseSet::kProducts) {
    for (const NamedCheck& check : HeadsApartChecks(device)) checks.push_back(check);
  }
  if (set == CaseSet::kSanitizersShort) checks.push_back(DecodeBitsChecks(device).front());
  return checks;
}

std::vector<NamedCheck> DeviceChecks() { return {{"device_conformance", CheckAllOnDevice}}; }

}  // namespace varifocal::kernels::cuda
