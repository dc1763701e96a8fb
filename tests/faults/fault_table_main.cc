// fault_table [quick|full] [--rows=1,7] [--seed=TEXT] [--trials=N] [--minutes=M] [--check]: runs the tests of the table of
// faults and prints for each row how often the fault was tried, how often an invariant was violated, and the bound 3/N
// that no violation in N independent trials puts on the rate (95 % confidence). Exit 1 on a violation. Run it from the
// root of the repository. --check: only whether every row has tests and every test exists.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/faults/fault_table.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

constexpr int kRowCount = 46;

struct Options {
  std::string size = "quick";
  std::set<int> rows;  // empty: all
  std::string seed = "1";
  int minutes = 10;  // time limit of one test program; at the limit it counts as a hang
  bool check_only = false;
};

// What one row's tests reported.
struct Tally {
  int64_t case_count = 0;
  int64_t violation_count = 0;
  std::map<std::string, int64_t> trials;  // by unit
  std::vector<std::string> measured;
  std::string output;  // of what failed
};

std::string FilterFlag(const FaultTests& tests) { return absl::StrCat("--gtest_filter=", tests.filter); }

// The complaint about a row, or "".
std::string CheckTests(const FaultTests& tests) {
  if (tests.other_build) return "";
  const ProcessResult listed = RunProcess(tests.program, {FilterFlag(tests), "--gtest_list_tests"});
  if (listed.exit_code != 0) return absl::StrCat(tests.program, " does not run; is it built?");
  // Suites begin a line, cases are indented.
  return absl::StrContains(listed.out, "\n  ") ? "" : absl::StrCat("no test ", tests.filter, " in ", tests.program);
}

int Check() {
  int complaint_count = 0;
  const auto complain = [&](const std::string& text) {
    std::printf("error: %s\n", text.c_str());
    ++complaint_count;
  };
  int expected = 1;
  for (const FaultRow& row : FaultRows()) {
    if (row.number != expected++) complain(absl::StrCat("row ", row.number, " is out of order"));
    if (row.tests.empty()) complain(absl::StrCat("row ", row.number, " has no test"));
    for (const FaultTests& tests : row.tests) {
      const std::string complaint = CheckTests(tests);
      if (!complaint.empty()) complain(absl::StrCat("row ", row.number, ": ", complaint));
    }
  }
  if (expected != kRowCount + 1) complain(absl::StrCat("the table has ", expected - 1, " rows"));
  if (complaint_count == 0) std::printf("%d rows, every test exists\n", kRowCount);
  return complaint_count == 0 ? 0 : 1;
}

void ReadLine(const std::string& line, Tally& tally) {
  // "[trials] 30 kills, 0 violations, seed 1"
  absl::string_view rest = line;
  if (absl::ConsumePrefix(&rest, "[trials] ")) {
    const std::vector<absl::string_view> parts = absl::StrSplit(rest, ", ");
    const std::vector<absl::string_view> counted = absl::StrSplit(parts[0], absl::MaxSplits(' ', 1));
    int64_t count = 0, violation_count = 0;
    if (parts.size() >= 2 && counted.size() == 2 && absl::SimpleAtoi(counted[0], &count) &&
        absl::SimpleAtoi(parts[1].substr(0, parts[1].find(' ')), &violation_count)) {
      tally.trials[std::string(counted[1])] += count;
      tally.violation_count += violation_count;
    }
  } else if (absl::ConsumePrefix(&rest, "[measured] ")) {
    tally.measured.emplace_back(rest);
  } else if (absl::ConsumePrefix(&rest, "[==========] ") && absl::StrContains(rest, " ran.")) {
    int64_t count = 0;
    if (absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &count)) tally.case_count += count;
  }
}

Tally Run(const FaultRow& row, const Options& options) {
  Tally tally;
  for (const FaultTests& tests : row.tests) {
    if (tests.other_build) continue;
    const ProcessResult result = RunProcess(tests.program, {FilterFlag(tests)},
                                            {.input = "",
                                             .environment = {absl::StrCat("VARIFOCAL_FAULT_SIZE=", options.size),
                                                             absl::StrCat("VARIFOCAL_FAULT_SEED=", options.seed)},
                                             .seconds_max = options.minutes * 60});
    const int64_t before = tally.violation_count;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) ReadLine(line, tally);
    if (result.exit_code == 0) continue;
    // A crash, a hang, or a failure outside of counted trials is a violation too.
    if (tally.violation_count == before) ++tally.violation_count;
    absl::StrAppend(&tally.output, tests.program, " ", tests.filter, ": exit code ", result.exit_code,
                    result.exit_code == -1 ? " (time limit)" : "", "\n", result.out, result.err);
  }
  return tally;
}

std::string TrialsText(const Tally& tally) {
  if (tally.trials.empty()) return absl::StrCat(tally.case_count, " cases");
  std::vector<std::string> parts;
  for (const auto& [unit, count] : tally.trials) parts.push_back(absl::StrCat(count, " ", unit));
  return absl::StrJoin(parts, ", ");
}

// Of the rarest kind of trial; cases are not random trials, so they bound nothing.
std::string BoundText(const Tally& tally) {
  if (tally.violation_count > 0 || tally.trials.empty()) return "-";
  const auto fewest = std::min_element(tally.trials.begin(), tally.trials.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return fewest->second == 0 ? "-" : absl::StrFormat("%.3g %%", 300.0 / fewest->second);
}

int RunRows(const Options& options) {
  std::printf("fault table, size %s, seed %s\n\n", options.size.c_str(), options.seed.c_str());
  std::printf(
      "| # | Fault | Invariants | Trials | Violations | 3/N | How |\n| ---: | --- | --- | --- | ---: | ---: | --- |\n");
  int64_t violation_count = 0;
  std::string output;
  std::vector<std::string> measured;
  for (const FaultRow& row : FaultRows()) {
    if (!options.rows.empty() && !options.rows.contains(row.number)) continue;
    const Tally tally = Run(row, options);
    std::printf("| %d | %s | %s | %s | %d | %s | %s |\n", row.number, row.fault, row.invariants,
                TrialsText(tally).c_str(), static_cast<int>(tally.violation_count), BoundText(tally).c_str(), row.how);
    std::fflush(stdout);
    violation_count += tally.violation_count;
    absl::StrAppend(&output, tally.output);
    for (const std::string& text : tally.measured) measured.push_back(absl::StrCat(row.number, ": ", text));
  }
  std::printf("\n");
  for (const std::string& text : measured) std::printf("row %s\n", text.c_str());
  std::printf("%d violations\n", static_cast<int>(violation_count));
  if (!output.empty()) std::fprintf(stderr, "%s", output.c_str());
  return violation_count == 0 ? 0 : 1;
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    int64_t count = 0;
    if (argument == "quick" || argument == "full") {
      options.size = std::string(argument);
    } else if (argument == "--check") {
      options.check_only = true;
    } else if (absl::ConsumePrefix(&argument, "--rows=")) {
      for (const absl::string_view number : absl::StrSplit(argument, ',')) {
        int row = 0;
        if (!absl::SimpleAtoi(number, &row) || row < 1 || row > kRowCount) return false;
        options.rows.insert(row);
      }
    } else if (absl::ConsumePrefix(&argument, "--seed=")) {
      options.seed = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--trials=")) {
      if (!absl::SimpleAtoi(argument, &count) || count < 1) return false;
      options.size = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--minutes=")) {
      if (!absl::SimpleAtoi(argument, &options.minutes) || options.minutes < 1) return false;
    } else {
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: fault_table [quick|full] [--rows=1,7] [--seed=TEXT] [--trials=N] [--minutes=M] [--check]\n");
    return 2;
  }
  return options.check_only ? Check() : RunRows(options);
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) { return varifocal::Main(argc, argv); }
