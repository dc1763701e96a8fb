// The ptxas report of every kernel for every architecture: no spill, no stack, registers and static shared memory
// within the limits below. The limits are slightly above the values of the last change of a kernel: growth must be
// deliberate.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "kernels/cuda/checks/checks.h"

namespace varifocal::kernels::cuda {
namespace {

struct Cap {
  const char* kernel;  // as in the mangled name, including the template argument where it matters
  int registers_max;
  int shared_max;                      // static bytes
  const char* architecture = nullptr;  // the only one it is compiled for
};
// 255 registers are the most a thread can have: 128 threads of them let two blocks share an SM.
const Cap kCaps[] = {
    {"AttendPrefillKernelILi16ENS0_12IntervalMaskE", 160, 2048},
    {"AttendPrefillKernelILi32ENS0_12IntervalMaskE", 176, 2048},
    {"AttendPrefillKernelILi48ENS0_12IntervalMaskE", 208, 2048},
    {"AttendPrefillKernelILi64ENS0_12IntervalMaskE", 224, 2048},
    {"AttendPrefillKernelILi80ENS0_12IntervalMaskE", 255, 2048},
    {"AttendPrefillKernelILi96ENS0_12IntervalMaskE", 255, 2048},
    {"AttendPrefillKernelILi112ENS0_12IntervalMaskE", 255, 2048},
    {"AttendPrefillKernelILi128ENS0_12IntervalMaskE", 255, 2048},
    {"AttendPrefillKernelILi192ENS0_12IntervalMaskE", 216, 2048},
    {"AttendPrefillKernelILi256ENS0_12IntervalMaskE", 255, 2048},
    {"AttendWidePrefillKernelILi512ENS0_12IntervalMaskE", 255, 1024},
    {"AttendDecodeKernelILi16ENS0_12IntervalMaskE", 96, 0},
    {"AttendDecodeKernelILi32ENS0_12IntervalMaskE", 96, 0},
    {"AttendDecodeKernelILi48ENS0_12IntervalMaskE", 104, 0},
    {"AttendDecodeKernelILi64ENS0_12IntervalMaskE", 112, 0},
    {"AttendDecodeKernelILi80ENS0_12IntervalMaskE", 128, 0},
    {"AttendDecodeKernelILi96ENS0_12IntervalMaskE", 152, 0},
    {"AttendDecodeKernelILi112ENS0_12IntervalMaskE", 160, 0},
    {"AttendDecodeKernelILi128ENS0_12IntervalMaskE", 152, 0},
    {"AttendDecodeKernelILi192ENS0_12IntervalMaskE", 208, 0},
    {"AttendDecodeKernelILi256ENS0_12IntervalMaskE", 255, 0},
    {"AttendDecodeKernelILi512ENS0_12IntervalMaskE", 255, 0},
    {"AttendPrefillKernelILi16ENS0_17WindowOrGroupMaskE", 200, 3072},
    {"AttendPrefillKernelILi32ENS0_17WindowOrGroupMaskE", 216, 3072},
    {"AttendPrefillKernelILi48ENS0_17WindowOrGroupMaskE", 232, 3072},
    {"AttendPrefillKernelILi64ENS0_17WindowOrGroupMaskE", 248, 3072},
    {"AttendPrefillKernelILi80ENS0_17WindowOrGroupMaskE", 255, 3072},
    {"AttendPrefillKernelILi96ENS0_17WindowOrGroupMaskE", 184, 2048},
    {"AttendPrefillKernelILi112ENS0_17WindowOrGroupMaskE", 184, 2048},
    {"AttendPrefillKernelILi128ENS0_17WindowOrGroupMaskE", 192, 2048},
    {"AttendPrefillKernelILi192ENS0_17WindowOrGroupMaskE", 224, 2048},
    {"AttendPrefillKernelILi256ENS0_17WindowOrGroupMaskE", 255, 2048},
    {"AttendWidePrefillKernelILi512ENS0_17WindowOrGroupMaskE", 255, 2048},
    {"AttendDecodeKernelILi16ENS0_17WindowOrGroupMaskE", 80, 0},
    {"AttendDecodeKernelILi32ENS0_17WindowOrGroupMaskE", 96, 0},
    {"AttendDecodeKernelILi48ENS0_17WindowOrGroupMaskE", 104, 0},
    {"AttendDecodeKernelILi64ENS0_17WindowOrGroupMaskE", 120, 0},
    {"AttendDecodeKernelILi80ENS0_17WindowOrGroupMaskE", 136, 0},
    {"AttendDecodeKernelILi96ENS0_17WindowOrGroupMaskE", 144, 0},
    {"AttendDecodeKernelILi112ENS0_17WindowOrGroupMaskE", 160, 0},
    {"AttendDecodeKernelILi128ENS0_17WindowOrGroupMaskE", 160, 0},
    {"AttendDecodeKernelILi192ENS0_17WindowOrGroupMaskE", 208, 0},
    {"AttendDecodeKernelILi256ENS0_17WindowOrGroupMaskE", 248, 0},
    {"AttendDecodeKernelILi512ENS0_17WindowOrGroupMaskE", 255, 0},
    {"AttendWindowKernelILi16E", 128, 2048},
    {"AttendWindowKernelILi32E", 128, 2048},
    {"AttendWindowKernelILi48E", 128, 2048},
    {"AttendWindowKernelILi64E", 144, 2048},
    {"AttendWindowKernelILi80E", 144, 2048},
    {"AttendWindowKernelILi96E", 160, 2048},
    {"AttendWindowKernelILi112E", 168, 2048},
    {"AttendWindowKernelILi128E", 176, 2048},
    {"AttendWindowKernelILi192E", 208, 2048},
    {"AttendWindowKernelILi256E", 240, 2048},
    {"AttendGatheredKernelILi16ENS0_12IntervalMaskE", 80, 2048},
    {"AttendGatheredKernelILi32ENS0_12IntervalMaskE", 96, 2048},
    {"AttendGatheredKernelILi48ENS0_12IntervalMaskE", 112, 2048},
    {"AttendGatheredKernelILi64ENS0_12IntervalMaskE", 216, 2048},
    {"AttendGatheredKernelILi80ENS0_12IntervalMaskE", 248, 2048},
    {"AttendGatheredKernelILi96ENS0_12IntervalMaskE", 255, 2048},
    {"AttendGatheredKernelILi112ENS0_12IntervalMaskE", 160, 2048},
    {"AttendGatheredKernelILi128ENS0_12IntervalMaskE", 255, 2048},
    {"AttendGatheredKernelILi192ENS0_12IntervalMaskE", 200, 2048},
    {"AttendGatheredKernelILi256ENS0_12IntervalMaskE", 240, 2048},
    {"AttendGatheredKernelILi16ENS0_12DisjointMaskE", 128, 2048},
    {"AttendGatheredKernelILi32ENS0_12DisjointMaskE", 128, 2048},
    {"AttendGatheredKernelILi48ENS0_12DisjointMaskE", 128, 2048},
    {"AttendGatheredKernelILi64ENS0_12DisjointMaskE", 216, 3072},
    {"AttendGatheredKernelILi80ENS0_12DisjointMaskE", 240, 3072},
    {"AttendGatheredKernelILi96ENS0_12DisjointMaskE", 255, 3072},
    {"AttendGatheredKernelILi112ENS0_12DisjointMaskE", 168, 2048},
    {"AttendGatheredKernelILi128ENS0_12DisjointMaskE", 176, 2048},
    {"AttendGatheredKernelILi192ENS0_12DisjointMaskE", 216, 2048},
    {"AttendGatheredKernelILi256ENS0_12DisjointMaskE", 240, 2048},
    {"ListGroupsKernel", 56, 1280},
    {"PlanGatheredKernel", 40, 0},
    // Their registers are those of the launch: 65,536 of 384 threads, which then divide them.
    {"AttendSm90KernelILi64ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi80ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi96ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi112ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi128ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi192ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi256ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi64ENS0_17WindowOrGroupMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi80ENS0_17WindowOrGroupMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi96ENS0_17WindowOrGroupMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi112ENS0_17WindowOrGroupMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi128ENS0_17WindowOrGroupMaskE", 168, 0, "sm_90a"},
    {"AttendSm90KernelILi192ENS0_17WindowOrGroupMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi64ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi80ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi96ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi112ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi128ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi192ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi256ENS0_12IntervalMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi64ENS0_12DisjointMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi80ENS0_12DisjointMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi96ENS0_12DisjointMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi112ENS0_12DisjointMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi128ENS0_12DisjointMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi192ENS0_12DisjointMaskE", 168, 0, "sm_90a"},
    {"GatherSm90KernelILi256ENS0_12DisjointMaskE", 168, 0, "sm_90a"},
    {"ProductSm90KernelILi128E", 168, 0, "sm_90a"},
    {"ProductSm90KernelILi192E", 168, 0, "sm_90a"},
    {"ProductSm90KernelILi256E", 168, 0, "sm_90a"},
    {"MergeSplitsKernel", 128, 1024},
    {"MergeSegmentsKernel", 40, 0},
    {"MatmulPrefillKernelIf", 168, 0},
    {"MatmulPrefillKernelIt", 168, 0},
    {"MatmulNarrowKernel", 80, 0},
    {"MatmulWideKernel", 128, 0},
    // The dynamic memory's alignment of 1,024 bytes counts with the static bytes before it.
    {"FusedResidualKernel", 80, 1024},
    {"FusedFinishKernel", 88, 1024},
    {"FusedQkvKernel", 104, 1024},
    {"GroupedPrefillKernelIf", 168, 0},
    {"GroupedPrefillKernelIt", 168, 0},
    {"GroupedNarrowKernel", 88, 0},
    {"GroupedWideKernel", 128, 0},
    {"MixtureRouteKernel", 112, 0},
    {"MixtureListKernel", 40, 1024},
    {"MixtureSumKernel", 80, 64},
    {"EmbedKernel", 40, 0},
    {"NormKernel", 80, 64},
    {"ResidualKernel", 96, 64},
    {"FinishKernel", 96, 0},
    {"TauDotKernel", 64, 0},
    {"TauSumKernel", 64, 0},
    {"RouteScoresKernel", 80, 0},
    {"SinkhornKernel", 88, 4096},
    {"AssignGroupsKernel", 48, 0},
    {"QkvKernel", 120, 64},
    {"ScoresKernel", 48, 0},
    {"ConvolveKernel", 48, 0},
    {"RecurrenceGatesKernel", 64, 0},
    {"StepStatesKernelILi16ELb0E", 128, 21504},
    {"StepStatesKernelILi32ELb0E", 128, 20480},
    {"StepStatesKernelILi64ELb0E", 240, 20480},
    {"StepStatesKernelILi16ELb1E", 128, 21504},
    {"StepStatesKernelILi32ELb1E", 128, 20480},
    {"StepStatesKernelILi64ELb1E", 255, 20480},
    {"FinishStatesKernel", 64, 64},
    {"KeepTailsKernel", 48, 0},
    {"GateKernel", 32, 0},
    {"NormColumnsKernel", 32, 64},
    {"LayerInputsKernel", 40, 0},
    {"ClearKernel", 16, 0},
    {"MatchStreamsKernel", 56, 64},
    {"PredictStreamsKernel", 88, 18432},
    {"CorrectStreamsKernel", 112, 2048},
    {"AddToStreamsKernel", 32, 0},
    {"CutGatedKernel", 40, 64},
    {"HeadStatsKernel", 80, 256},
    {"HeadFoldKernel", 64, 0},
    {"DrawKernel", 80, 2112},
};

// __syncthreads and one a turn: a kernel that names barriers by registers takes all 16.
constexpr int kBarriersMax = 3;

struct Usage {
  std::string kernel, architecture;
  int registers = -1, shared = 0, stack = -1, spills = -1, barriers = 0;
};

// The line of a report with the reason why asynchronous products were serialised, or registers not reallocated: ptxas' messages
// C7500 to C7599. Empty: there is none.
std::string SerialisedIn(const std::string& text) {
  for (size_t at = text.find("(C75"); at != std::string::npos; at = text.find("(C75", at + 1)) {
    const auto is_digit = [&](size_t i) {
      return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
    };
    if (!is_digit(at + 4) || !is_digit(at + 5)) continue;
    const size_t begin = text.rfind('\n', at), first = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(first, text.find('\n', at) - first);
  }
  return "";
}

// The number before `unit` in a line, or `otherwise`.
int NumberBefore(const std::string& line, const std::string& unit, int otherwise) {
  const size_t at = line.find(unit);
  if (at == std::string::npos) return otherwise;
  size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  return begin == at ? otherwise : std::stoi(line.substr(begin, at - begin));
}

std::vector<Usage> ParseReport(const std::string& text) {
  std::vector<Usage> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const size_t entry = line.find("Compiling entry function '");
    if (entry != std::string::npos) {
      const size_t begin = entry + 26, end = line.find('\'', begin), target = line.find("for '", end) + 5;
      all.push_back({line.substr(begin, end - begin), line.substr(target, line.find('\'', target) - target)});
      continue;
    }
    if (all.empty()) continue;
    Usage& last = all.back();
    if (line.find("bytes stack frame") != std::string::npos) {
      last.stack = NumberBefore(line, " bytes stack frame", -1);
      last.spills = NumberBefore(line, " bytes spill stores", -1) + NumberBefore(line, " bytes spill loads", -1);
    }
    if (line.find("Used ") != std::string::npos && line.find(" registers") != std::string::npos) {
      last.registers = NumberBefore(line, " registers", -1);
      last.shared = NumberBefore(line, " bytes smem", 0);
      last.barriers = NumberBefore(line, " barriers", 0);
    }
  }
  return all;
}

// The cap of a mangled name.
const Cap* CapOf(const std::string& kernel) {
  for (const Cap& cap : kCaps) {
    const size_t at = kernel.find(cap.kernel);
    // A mangled name has its length before it.
    if (at != std::string::npos && at > 0 && std::isdigit(static_cast<unsigned char>(kernel[at - 1]))) return &cap;
  }
  return nullptr;
}

std::string CheckUsage(const Usage& usage) {
  const Cap* cap = CapOf(usage.kernel);
  const std::string who = usage.kernel + " for " + usage.architecture;
  if (cap == nullptr) return who + " has no cap";
  if (usage.registers < 0 || usage.stack < 0 || usage.spills < 0) return who + " has no report";
  if (usage.stack != 0 || usage.spills != 0)
    return who + " has " + std::to_string(usage.stack) + " bytes of stack and spills " + std::to_string(usage.spills);
  if (usage.registers > cap->registers_max) {
    return who + " takes " + std::to_string(usage.registers) + " registers, above " +
           std::to_string(cap->registers_max);
  }
  if (usage.barriers > kBarriersMax) return who + " takes " + std::to_string(usage.barriers) + " barriers";
  if (cap->architecture != nullptr && usage.architecture != cap->architecture) return who + " was compiled";
  if (usage.shared > cap->shared_max)
    return who + " takes " + std::to_string(usage.shared) + " shared bytes, above " + std::to_string(cap->shared_max);
  return "";
}

// Negative control: the parser must detect each kind of violation.
std::string CheckGate() {
  const std::string text =
      "ptxas info    : Compiling entry function '_ZN1a9QkvKernelE' for 'sm_80'\n"
      "ptxas info    : Function properties for _ZN1a9QkvKernelE\n"
      "    STACK bytes stack frame, SPILL bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used REGS registers, used 1 barriers, SHARED bytes smem, 536 bytes cmem[0]\n";
  const auto with = [&](const char* stack, const char* spill, const char* regs, const char* shared) {
    std::string filled = text;
    for (const auto& [word, value] :
         {std::pair{"STACK", stack}, {"SPILL", spill}, {"REGS", regs}, {"SHARED", shared}}) {
      filled.replace(filled.find(word), std::string(word).size(), value);
    }
    const std::vector<Usage> usage = ParseReport(filled);
    return usage.size() == 1 ? CheckUsage(usage[0]) : "not one kernel";
  };
  if (!with("0", "0", "120", "64").empty()) return "a kernel at its caps is refused: " + with("0", "0", "120", "64");
  for (const std::string& verdict : {with("8", "0", "120", "64"), with("0", "4", "120", "64"),
                                     with("0", "0", "121", "64"), with("0", "0", "120", "65")}) {
    if (verdict.empty()) return "a kernel over its caps passes";
  }
  if (CheckUsage({"_ZN1a16AttendSm90KernelILi64ENS0_12IntervalMaskEE", "sm_90a", 168, 0, 0, 0, 16}).empty())
    return "a kernel with all barriers passes";
  const std::string serialised =
      "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized";
  if (SerialisedIn("a\n" + serialised + "\nb") != serialised) return "serialised products pass";
  if (!SerialisedIn(text + "(C7x) (C6512)").empty()) return "another message is refused";
  return "";
}

std::string CheckReports() {
#if defined(VARIFOCAL_PTXAS_REPORTS)
  std::map<std::string, std::map<std::string, int>> seen;  // architecture, kernel
  for (const auto& entry : std::filesystem::directory_iterator(VARIFOCAL_PTXAS_REPORTS)) {
    if (entry.path().extension() != ".ptxas") continue;
    std::ifstream stream(entry.path());
    std::ostringstream text;
    text << stream.rdbuf();
    if (const std::string line = SerialisedIn(text.str()); !line.empty())
      return entry.path().filename().string() + ": " + line;
    for (const Usage& usage : ParseReport(text.str())) {
      RETURN_COMPLAINT(CheckUsage(usage));
      const Cap& cap = *CapOf(usage.kernel);
      ++seen[usage.architecture][cap.kernel];
      if (std::getenv("VARIFOCAL_GATES") != nullptr) {
        std::printf("%-6s %3d of %3d registers, %5d of %5d shared bytes  %s\n", usage.architecture.c_str(),
                    usage.registers, cap.registers_max, usage.shared, cap.shared_max, cap.kernel);
      }
    }
  }
  if (seen.empty()) return std::string("no report under ") + VARIFOCAL_PTXAS_REPORTS;
  for (const auto& [architecture, kernels] : seen) {
    for (const Cap& cap : kCaps) {
      const bool is_due = cap.architecture == nullptr || architecture == cap.architecture;
      if (is_due && kernels.count(cap.kernel) == 0)
        return std::string(cap.kernel) + " was not compiled for " + architecture;
    }
  }
  return "";
#else
  return std::string(kSkipped) + "this build has no nvcc";
#endif
}

}  // namespace

std::vector<NamedCheck> GateChecks() {
  return {{"gate_detects_violations", CheckGate}, {"gate_ptxas_reports", CheckReports}};
}

}  // namespace varifocal::kernels::cuda
