#include "client/score_command.h"

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/report/data/text_format.h"
#include "eval_tasks/parameters.h"

namespace varifocal::client {
namespace {

absl::StatusOr<std::optional<double>> ReadScore(absl::string_view line, int64_t number, double score_max) {
  const absl::string_view text = absl::StripAsciiWhitespace(line);
  if (text == "null") return std::optional<double>();
  const absl::StatusOr<double> value = ParseNumber(text);
  if (value.ok() && *value >= 0 && *value <= score_max) return *value;
  return InvalidArgument("line ", number, " of the command's output is \"", text.substr(0, 80),
                         "\"; a score is a number from 0 to ", score_max, " (--score-max), or null.");
}

}  // namespace

absl::StatusOr<std::vector<std::optional<double>>> RunScoreCommand(const std::string& command,
                                                                   const std::string& input_path, int64_t answer_count,
                                                                   double score_max) {
  std::FILE* output = popen(absl::StrCat("(", command, "\n) <", report::ShellQuoted(input_path)).c_str(), "re");
  if (output == nullptr) return ResourceExhausted("no process could be started for the command.");
  std::string text;
  char buffer[1 << 16];
  for (size_t count = 0; (count = std::fread(buffer, 1, sizeof(buffer), output)) > 0;) text.append(buffer, count);
  const int status = pclose(output);
  if (status != 0) {
    const std::string end =
        WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status)) : absl::StrCat("status ", WEXITSTATUS(status));
    return FailedPrecondition("the command ended with ", end, ": ", command);
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  std::vector<std::optional<double>> scores;
  if (!text.empty()) {
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      ASSIGN_OR_RETURN(const std::optional<double> score, ReadScore(line, std::ssize(scores) + 1, score_max));
      scores.push_back(score);
    }
  }
  if (std::ssize(scores) == answer_count) return scores;
  return InvalidArgument("the command wrote ", scores.size(), Plural(scores.size(), " line for ", " lines for "),
                         answer_count, " answers; it must write one score for each, in their order.");
}

absl::StatusOr<std::string> DescribeCommand(const std::string& command) {
  std::vector<std::string> files;
  for (const absl::string_view word : absl::StrSplit(command, absl::ByAnyChar(" \t\n'\""), absl::SkipEmpty())) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(std::filesystem::path(std::string(word)), error)) continue;
    ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(std::string(word)));
    files.push_back(absl::StrCat(word, " sha256 ", Sha256Hex(bytes)));
  }
  return files.empty() ? command : absl::StrCat(command, " (", absl::StrJoin(files, ", "), ")");
}

}  // namespace varifocal::client
