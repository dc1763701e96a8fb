#include "tests/support/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace varifocal {
namespace {

constexpr char kPath[] = "tests/testdata/goldens/messages.txt";

// "program: Suite.Test" -> its messages in order. "- " begins a message, two blanks continue it.
using Goldens = std::map<std::string, std::vector<std::string>>;

Goldens ReadGoldens() {
  Goldens goldens;
  std::ifstream file(kPath);
  std::vector<std::string>* messages = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "- ")) {
      messages->push_back(line.substr(2));
    } else if (absl::StartsWith(line, "  ")) {
      absl::StrAppend(&messages->back(), "\n", line.substr(2));
    } else if (!line.empty()) {
      messages = &goldens[line];
    }
  }
  return goldens;
}

std::string ToText(const Goldens& goldens) {
  std::string text;
  for (const auto& [test, messages] : goldens) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", test, "\n");
    for (const std::string& message : messages) {
      absl::StrAppend(&text, "- ", absl::StrReplaceAll(message, {{"\n", "\n  "}}), "\n");
    }
  }
  return text;
}

// Rewrites the messages of one test. Tests run at the same time in several processes, so the file is locked meanwhile.
void Rewrite(const std::string& test, const std::vector<std::string>& messages) {
  const int lock = open(kPath, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(lock, 0) << kPath << ": " << strerror(errno);
  ASSERT_EQ(flock(lock, LOCK_EX), 0) << strerror(errno);
  Goldens goldens = ReadGoldens();
  goldens[test] = messages;
  std::ofstream(kPath, std::ios::trunc) << ToText(goldens);
  close(lock);
}

bool IsUpdating() { return std::getenv("VARIFOCAL_UPDATE_GOLDENS") != nullptr; }

// Counts the messages of the running test, and asks at its end whether all of the file were matched.
class Places : public testing::EmptyTestEventListener {
 public:
  // Never destroyed by us: gtest owns its listeners.
  static Places& Get() {
    static auto* const places = [] {
      auto* made = new Places;
      testing::UnitTest::GetInstance()->listeners().Append(made);
      return made;
    }();
    return *places;
  }

  std::string Compare(const std::string& message) {
    const std::string test = CurrentTest();
    if (test != test_) {
      test_ = test;
      seen_.clear();
    }
    seen_.push_back(message);
    if (IsUpdating()) return "";
    const auto found = goldens_.find(test);
    const size_t place = seen_.size() - 1;
    const std::string hint = absl::StrCat("; VARIFOCAL_UPDATE_GOLDENS=1 rewrites ", kPath);
    if (found == goldens_.end() || place >= found->second.size())
      return absl::StrCat("which is a new message, \"", message, "\"", hint);
    if (found->second[place] == message) return "";
    return absl::StrCat("which is \"", message, "\", and the golden message is \"", found->second[place], "\"", hint);
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    if (test_.empty() || info.result()->Failed() || info.result()->Skipped()) {
      test_.clear();
      return;
    }
    const std::string test = std::exchange(test_, "");
    if (IsUpdating()) {
      Rewrite(test, seen_);
    } else {
      EXPECT_GE(seen_.size(), goldens_[test].size()) << kPath << " has more messages of " << test;
    }
  }

 private:
  static std::string CurrentTest() {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    return absl::StrCat(program_invocation_short_name, ": ", info->test_suite_name(), ".", info->name());
  }

  Goldens goldens_ = ReadGoldens();
  std::string test_;
  std::vector<std::string> seen_;
};

}  // namespace

std::string CompareWithGoldenMessage(absl::string_view text, const std::vector<std::string>& varying) {
  std::string message(text);
  for (size_t i = 0; i < varying.size(); ++i) {
    message = absl::StrReplaceAll(message, {{varying[i], absl::StrCat("<", i + 1, ">")}});
  }
  static const auto* const temporary = new std::regex(absl::StrCat(testing::TempDir(), R"(/*[^\s/":,;)']+)"));
  static const auto* const port = new std::regex(R"((127\.0\.0\.1|localhost|\[::1\]):\d+)");
  message = std::regex_replace(message, *temporary, "<tmp>");
  message = std::regex_replace(message, *port, "$1:<port>");
  static const auto* const time = new std::regex(R"(\d{4}-\d\d-\d\dT[\d:.]+Z)");
  static const auto* const duration = new std::regex(R"(\bin \d+\.\d s\b)");
  message = std::regex_replace(message, *time, "<time>");
  message = std::regex_replace(message, *duration, "in <duration>");
  message = absl::StrReplaceAll(message, {{std::filesystem::current_path().string(), "<source>"}});
  // Bytes that an editor would not keep.
  message = absl::StrReplaceAll(message, {{"\r", "\\r"}, {absl::string_view("\0", 1), "\\0"}});
  return Places::Get().Compare(message);
}

bool MessageMatcher::MatchAndExplain(absl::string_view text, testing::MatchResultListener* listener) const {
  if (failure_.empty() || text != failed_text_) {
    failed_text_ = std::string(text);
    failure_ = CompareWithGoldenMessage(text, varying_);
    const auto missing = absl::c_find_if(values_, [&](const std::string& v) { return !absl::StrContains(text, v); });
    if (missing != values_.end()) failure_ = absl::StrCat("which lacks \"", *missing, "\": \"", text, "\"");
  }
  *listener << failure_;
  return failure_.empty();
}

void MessageMatcher::DescribeTo(std::ostream* os) const {
  *os << "is the golden message of this place";
  if (!values_.empty()) *os << " and contains " << absl::StrJoin(values_, ", ");
}

}  // namespace varifocal
