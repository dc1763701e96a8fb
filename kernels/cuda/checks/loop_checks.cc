// SASS of the sm90 kernels: instructions of their main loops against a committed table, by cuobjdump where it is.
//
// The loop is the smallest that holds the wait for all but one group of products (WARPGROUP.DEPBAR with one group left): a block of
// keys, or a stage of K. "Always" are its instructions without those that a conditional jump passes over: what a block takes that
// needs no mask, has no sharp rows, does not rescale, takes no turns and never waits.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "kernels/cuda/checks/checks.h"

namespace varifocal::kernels::cuda {
namespace {

enum Class {
  kProducts,
  kExponentials,
  kFloats,
  kPacks,
  kUniform,
  kSynchronisation,
  kLanes,
  kShared,
  kOthers,
  kClassCount
};
// By the opcode before its first dot; the first row that fits. An opcode that ends with * begins so.
constexpr struct {
  Class kind;
  const char* name;
  const char* opcodes;
} kClasses[] = {{kProducts, "HGMMA", " HGMMA "},
                {kExponentials, "MUFU", " MUFU "},
                {kFloats, "f32", " FADD FMUL FFMA FMNMX FSEL FSETP "},
                {kPacks, "F2FP", " F2FP "},
                {kUniform, "uniform", " U* R2UR S2UR "},
                {kSynchronisation, "barriers", " SYNCS BAR WARPGROUP BSSY BSYNC "},
                {kLanes, "lanes", " SHFL VOTE "},
                {kShared, "LDS", " LDS STS "},
                {kOthers, "integers", ""}};

struct Instruction {
  int at = 0;
  std::string text, opcode;
  bool conditional = false;
  int target = -1;  // of a jump
};

struct Loop {
  int registers = 0, local = 0;  // of the function
  int instructions = 0, always = 0;
  std::array<int, kClassCount> all_of = {}, always_of = {};
};

// What a loop may take. `designed`: of the prototype that the design was made with, 0 where it was not counted.
struct LoopRow {
  const char* kernel;  // as in the mangled name
  int designed, instructions, always, products;
};
// docs/gpu/kernels.md has the reasons for what differs from the prototype's.
constexpr LoopRow kLoops[] = {
    {"AttendSm90KernelILi64ENS0_12IntervalMaskE", 472, 703, 450, 12},
    {"AttendSm90KernelILi80ENS0_12IntervalMaskE", 0, 747, 486, 21},
    {"AttendSm90KernelILi96ENS0_12IntervalMaskE", 530, 759, 490, 22},
    {"AttendSm90KernelILi112ENS0_12IntervalMaskE", 0, 803, 526, 31},
    {"AttendSm90KernelILi128ENS0_12IntervalMaskE", 503, 748, 463, 16},
    {"AttendSm90KernelILi192ENS0_12IntervalMaskE", 0, 568, 321, 16},
    {"AttendSm90KernelILi256ENS0_12IntervalMaskE", 394, 653, 367, 20},
    {"AttendSm90KernelILi64ENS0_17WindowOrGroupMaskE", 0, 993, 449, 12},
    {"AttendSm90KernelILi80ENS0_17WindowOrGroupMaskE", 0, 1038, 487, 21},
    {"AttendSm90KernelILi96ENS0_17WindowOrGroupMaskE", 0, 1049, 490, 22},
    {"AttendSm90KernelILi112ENS0_17WindowOrGroupMaskE", 0, 1094, 526, 31},
    {"AttendSm90KernelILi128ENS0_17WindowOrGroupMaskE", 0, 1038, 462, 16},
    {"AttendSm90KernelILi192ENS0_17WindowOrGroupMaskE", 0, 730, 320, 16},
    // Of gathered keys: the first pass, then the others.
    {"GatherSm90KernelILi64ENS0_12IntervalMaskE", 0, 708, 438, 12},
    {"GatherSm90KernelILi80ENS0_12IntervalMaskE", 0, 754, 476, 21},
    {"GatherSm90KernelILi96ENS0_12IntervalMaskE", 0, 772, 483, 22},
    {"GatherSm90KernelILi112ENS0_12IntervalMaskE", 0, 819, 519, 31},
    {"GatherSm90KernelILi128ENS0_12IntervalMaskE", 0, 757, 455, 16},
    {"GatherSm90KernelILi192ENS0_12IntervalMaskE", 0, 576, 313, 16},
    {"GatherSm90KernelILi256ENS0_12IntervalMaskE", 0, 691, 391, 20},
    {"GatherSm90KernelILi64ENS0_12DisjointMaskE", 0, 901, 719, 12},
    {"GatherSm90KernelILi80ENS0_12DisjointMaskE", 0, 954, 761, 21},
    {"GatherSm90KernelILi96ENS0_12DisjointMaskE", 0, 963, 762, 22},
    {"GatherSm90KernelILi112ENS0_12DisjointMaskE", 0, 1003, 797, 31},
    {"GatherSm90KernelILi128ENS0_12DisjointMaskE", 0, 959, 740, 16},
    {"GatherSm90KernelILi192ENS0_12DisjointMaskE", 0, 694, 473, 16},
    {"GatherSm90KernelILi256ENS0_12DisjointMaskE", 0, 832, 581, 20},
    {"ProductSm90KernelILi128E", 0, 64, 56, 4},
    {"ProductSm90KernelILi192E", 0, 64, 56, 4},
    {"ProductSm90KernelILi256E", 0, 66, 58, 4},
};
constexpr double kTolerance = 0.05;

Class ClassOf(const std::string& opcode) {
  const std::string name = opcode.substr(0, opcode.find('.'));
  for (const auto& row : kClasses) {
    const std::string known = row.opcodes;
    if (known.find(" " + name + " ") != known.npos || known.find(std::string(" ") + name[0] + "* ") != known.npos)
      return row.kind;
  }
  return kOthers;
}

// A line of a listing: /*0040*/ @P0 BRA 0x120 ; /* its code */
bool ParseInstruction(const std::string& line, Instruction* to) {
  const size_t begin = line.find("/*"), close = line.find("*/"), end = line.find(';');
  if (begin == line.npos || close == line.npos || end == line.npos || end < close) return false;
  const std::string address = line.substr(begin + 2, close - begin - 2);
  if (address.empty() || address.find_first_not_of("0123456789abcdef") != address.npos) return false;
  *to = {.at = static_cast<int>(std::strtol(address.c_str(), nullptr, 16)),
         .text = line.substr(close + 2, end - close - 2)};
  std::istringstream words(to->text);
  words >> to->opcode;
  if (to->opcode[0] == '@') {
    to->conditional = true;
    words >> to->opcode;
  }
  if (to->opcode.rfind("BRA", 0) == 0) {
    std::string word;
    while (words >> word) {
      if (word.rfind("0x", 0) == 0) to->target = static_cast<int>(std::strtol(word.c_str(), nullptr, 16));
      to->conditional |= word.find('P') != word.npos;
    }
  }
  return true;
}

// The functions of a listing by their mangled names.
std::map<std::string, std::vector<Instruction>> ParseListing(std::istream& listing) {
  std::map<std::string, std::vector<Instruction>> functions;
  std::vector<Instruction>* code = nullptr;
  Instruction instruction;
  for (std::string line; std::getline(listing, line);) {
    if (const size_t at = line.find("Function : "); at != line.npos) {
      code = &functions[line.substr(at + 11)];
    } else if (code != nullptr && ParseInstruction(line, &instruction)) {
      code->push_back(instruction);
    }
  }
  return functions;
}

int RegistersOf(const std::string& text) {
  int most = 0;
  for (size_t at = text.find('R'); at != text.npos; at = text.find('R', at + 1)) {
    if (at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1]))) continue;
    most = std::max(most, std::isdigit(static_cast<unsigned char>(text[at + 1])) ? std::atoi(&text[at + 1]) + 1 : 0);
  }
  return most;
}

// No instructions: there is no such loop.
Loop LoopOf(const std::vector<Instruction>& code) {
  Loop loop;
  int wait = -1;
  for (const Instruction& i : code) {
    loop.registers = std::max(loop.registers, RegistersOf(i.text));
    loop.local += i.opcode.rfind("LDL", 0) == 0 || i.opcode.rfind("STL", 0) == 0;
    if (wait < 0 && i.opcode.rfind("WARPGROUP.DEPBAR", 0) == 0 && i.text.find(", 0x1 ") != i.text.npos) wait = i.at;
  }
  int first = -1, last = -1;
  for (const Instruction& i : code) {
    if (wait < 0 || i.target < 0 || i.target > wait || i.at < wait) continue;
    if (first < 0 || i.at - i.target < last - first) first = i.target, last = i.at;
  }
  int passed = 0;  // instructions before it are passed over
  for (const Instruction& i : code) {
    if (first < 0 || i.at < first || i.at > last) continue;
    const Class kind = ClassOf(i.opcode);
    ++loop.instructions;
    ++loop.all_of[kind];
    if (i.at < passed) continue;
    ++loop.always;
    ++loop.always_of[kind];
    if (i.conditional && i.target > i.at && i.target <= last) passed = i.target;
  }
  return loop;
}

std::string CheckLoop(const LoopRow& row, const Loop& loop) {
  if (loop.instructions == 0) return "has no loop of products";
  if (loop.local != 0) return "has " + std::to_string(loop.local) + " instructions of local memory";
  if (loop.all_of[kProducts] != row.products)
    return "has " + std::to_string(loop.all_of[kProducts]) + " products instead of " + std::to_string(row.products);
  const struct {
    const char* name;
    int got, want;
  } counts[] = {{"instructions", loop.instructions, row.instructions},
                {"instructions that no jump passes over", loop.always, row.always}};
  for (const auto& [name, got, want] : counts) {
    if (std::abs(got - want) > kTolerance * want)
      return "has " + std::to_string(got) + " " + name + ", which is not within 5 % of " + std::to_string(want);
  }
  return "";
}

const LoopRow* RowOf(const std::string& kernel) {
  for (const LoopRow& row : kLoops) {
    if (kernel.find(row.kernel) != kernel.npos) return &row;
  }
  return nullptr;
}

void Print(const std::string& kernel, const LoopRow* row, const Loop& loop) {
  const size_t at = row == nullptr ? 0 : kernel.find(row->kernel);
  std::printf("%s: %d registers, %d instructions (prototype %d), %d always;",
              kernel.substr(at, kernel.find("EEv", at) - at).c_str(), loop.registers, loop.instructions,
              row == nullptr ? 0 : row->designed, loop.always);
  for (const auto& c : kClasses) std::printf(" %s %d of %d", c.name, loop.always_of[c.kind], loop.all_of[c.kind]);
  std::printf("\n");
}

// Negative control: each kind of violation, in a loop of ten instructions of which a jump passes over two.
std::string CheckControl() {
  const auto listing = [](const std::string& more) {
    return "Function : _ZN1a9k\n"
           "        /*0000*/                   MOV R1, R255 ;   /* 0x1 */\n"
           "        /*0010*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24 ;\n"
           "        /*0020*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;\n"
           "        /*0030*/              @!P0 BRA 0x60 ;\n"
           "        /*0040*/                   FMUL R4, R4, R7 ;\n"
           "        /*0050*/                   FMUL R5, R5, R7 ;\n"
           "        /*0060*/                   MUFU.EX2 R4, R4 ;\n" +
           more +
           "        /*0090*/               @P1 BRA 0x10 ;\n"
           "        /*00a0*/              @!P1 BRA 0x0 ;\n"
           "        /*00b0*/                   EXIT ;\n";
  };
  const auto verdict = [&](const LoopRow& row, const std::string& more) {
    std::istringstream stream(listing(more));
    return CheckLoop(row, LoopOf(ParseListing(stream)["_ZN1a9k"]));
  };
  const std::string add = "        /*0070*/                   UIADD3 UR4, UR4, 0x2, URZ ;\n";
  const LoopRow row{"", 0, 8, 6, 1};
  if (const std::string v = verdict(row, add); !v.empty()) return "a loop as in the table is refused: it " + v;
  const std::pair<LoopRow, std::string> wrong[] = {{row, add + add},
                                                   {row, ""},
                                                   {row, "        /*0070*/      HGMMA.64x64x16 R24, R4, R24 ;\n"},
                                                   {row, "        /*0070*/      STL [R1], R4 ;\n"},
                                                   {{"", 0, 8, 7, 1}, add},
                                                   {{"", 0, 9, 6, 1}, add}};
  for (size_t i = 0; i < std::size(wrong); ++i) {
    if (verdict(wrong[i].first, wrong[i].second).empty()) return "violation " + std::to_string(i) + " passes";
  }
  std::istringstream stream(listing(add));
  const Loop loop = LoopOf(ParseListing(stream)["_ZN1a9k"]);
  if (loop.registers != 256 || loop.all_of[kUniform] != 1 || loop.all_of[kFloats] != 2 || loop.always_of[kFloats] != 0)
    return "a loop's registers and classes";
  return CheckLoop(row, {}).empty() ? "a function without a loop passes" : "";
}

#if defined(VARIFOCAL_CUOBJDUMP)
std::string ListingOf(const std::filesystem::path& object) {
  const std::string command = std::string(VARIFOCAL_CUOBJDUMP) + " -sass '" + object.string() + "'";
  std::FILE* output = popen(command.c_str(), "re");
  if (output == nullptr) return "";
  std::string text;
  char buffer[1 << 16];
  for (size_t count; (count = std::fread(buffer, 1, sizeof buffer, output)) > 0;) text.append(buffer, count);
  return pclose(output) == 0 ? text : "";
}
#endif

std::string CheckLoops() {
#if !defined(VARIFOCAL_PTXAS_REPORTS)
  return std::string(kSkipped) + "this build has no nvcc";
#elif !defined(VARIFOCAL_CUOBJDUMP)
  return std::string(kSkipped) + "cuobjdump was neither beside nvcc nor on PATH, so no loop's instructions are counted";
#else
  std::map<std::string, int> seen;
  std::string faults;
  for (const auto& entry : std::filesystem::directory_iterator(VARIFOCAL_PTXAS_REPORTS)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".o" || name.find("_sm90") == name.npos) continue;
    std::istringstream listing(ListingOf(entry.path()));
    const auto functions = ParseListing(listing);
    if (functions.empty()) return std::string(VARIFOCAL_CUOBJDUMP) + " lists nothing of " + name;
    for (const auto& [kernel, code] : functions) {
      const Loop loop = LoopOf(code);
      const LoopRow* row = RowOf(kernel);
      if (row == nullptr && loop.instructions == 0) continue;
      if (std::getenv("VARIFOCAL_GATES") != nullptr) Print(kernel, row, loop);
      const std::string verdict =
          row == nullptr ? "has a loop of products and no row in the table" : CheckLoop(*row, loop);
      if (!verdict.empty()) faults += (faults.empty() ? "" : "; ") + kernel + " " + verdict;
      if (row != nullptr) ++seen[row->kernel];
    }
  }
  for (const LoopRow& row : kLoops) {
    if (seen.count(row.kernel) == 0)
      faults += (faults.empty() ? "" : "; ") + std::string(row.kernel) + " was not compiled";
  }
  return faults;
#endif
}

}  // namespace

std::vector<NamedCheck> LoopChecks() {
  return {{"gate_loops_detect_violations", CheckControl}, {"gate_loops", CheckLoops}};
}

}  // namespace varifocal::kernels::cuda
