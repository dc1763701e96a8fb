#include "tests/support/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

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
  if (messages.empty()) {
    goldens.erase(test);
  } else {
    goldens[test] = messages;
  }
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
    const std::string test = CurrentTest();
    if (std::exchange(test_, "") != test) seen_.clear();  // it has matched none
    if (info.result()->Failed() || info.result()->Skipped()) return;
    const auto found = goldens_.find(test);
    const size_t expected = found == goldens_.end() ? 0 : found->second.size();
    if (!IsUpdating()) {
      EXPECT_GE(seen_.size(), expected) << kPath << " has more messages of " << test;
    } else if (expected + seen_.size() > 0) {
      Rewrite(test, seen_);
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

// Before the first test, so that one that matches no message is compared too.
[[maybe_unused]] const Places& kInstalled = Places::Get();

bool HasAll(absl::string_view text, const std::vector<std::string>& values) {
  return absl::c_all_of(values, [&](const std::string& value) { return absl::StrContains(text, value); });
}

// Blanks for white space and no-break spaces, one for several.
std::string WithPlainBlanks(const std::string& text) {
  std::string plain = absl::StrReplaceAll(text, {{"\u00A0", " "}});
  absl::RemoveExtraAsciiWhitespace(&plain);
  return plain;
}

// What the elements of a page have between them; an inline tag leaves nothing behind, <br> and <small> a blank.
std::vector<std::string> HtmlBlocks(absl::string_view page) {
  static const auto* const block_tags = new std::set<std::string, std::less<>>(
      {"body",   "button",  "caption", "dd",      "details", "div",   "dl",    "dt",     "figcaption",
       "figure", "footer",  "form",    "g",       "h1",      "h2",    "h3",    "h4",     "head",
       "header", "html",    "label",   "li",      "main",    "nav",   "ol",    "option", "p",
       "pre",    "section", "select",  "summary", "svg",     "table", "tbody", "td",     "text",
       "th",     "thead",   "title",   "tr",      "ul"});
  std::vector<std::string> blocks(1);
  while (!page.empty()) {
    const size_t tag = page.find('<');
    absl::StrAppend(&blocks.back(), page.substr(0, tag));
    if (tag == absl::string_view::npos) break;
    page.remove_prefix(tag + 1);
    const bool is_end = absl::ConsumePrefix(&page, "/");
    const size_t name_end = std::min(page.find_first_of(" />\n"), page.size());
    const absl::string_view name = page.substr(0, name_end);
    const bool is_hidden = !is_end && (name == "script" || name == "style");
    const std::string end = is_hidden ? absl::StrCat("</", name, ">") : ">";
    if (block_tags->contains(name)) {
      blocks.emplace_back();
    } else if (!is_end && (name == "br" || name == "small")) {
      absl::StrAppend(&blocks.back(), " ");
    }
    page.remove_prefix(std::min(page.find(end), page.size() - end.size()) + end.size());
  }
  for (std::string& block : blocks) {
    block =
        absl::StrReplaceAll(block, {{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}});
  }
  return blocks;
}

}  // namespace

std::vector<std::string> BlocksOf(absl::string_view text) {
  const bool is_html = absl::StrContains(text, "</") && absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "<");
  std::vector<std::string> blocks = is_html ? HtmlBlocks(text) : absl::StrSplit(text, '\n');
  for (std::string& block : blocks) block = WithPlainBlanks(block);
  std::erase(blocks, "");
  return blocks;
}

std::string CompareWithGoldenMessage(absl::string_view text, const std::vector<std::string>& varying) {
  std::string message(text);
  for (size_t i = 0; i < varying.size(); ++i) {
    message = absl::StrReplaceAll(message, {{varying[i], absl::StrCat("<", i + 1, ">")}});
  }
  const std::string directory =
      std::filesystem::temp_directory_path().string();  // $TMPDIR or /tmp, as testing::TempDir()
  static const auto* const temporary =
      new std::regex(absl::StrCat(absl::StrReplaceAll(directory, {{".", "\\."}, {"+", "\\+"}}), R"(/+[^\s/":,;)']+)"));
  static const auto* const port = new std::regex(R"((127\.0\.0\.1|localhost|\[::1\]):\d+)");
  // The inner one of the two first: a checkout may be a temporary directory, and $TMPDIR may be in the checkout.
  const std::string here = std::filesystem::current_path().string();
  const bool is_inside = here.size() > 1 && absl::StartsWith(here, directory);
  if (is_inside) message = absl::StrReplaceAll(message, {{here, "<cwd>"}});
  message = std::regex_replace(message, *temporary, "<tmp>");
  if (!is_inside && here.size() > 1) message = absl::StrReplaceAll(message, {{here, "<cwd>"}});
  message = std::regex_replace(message, *port, "$1:<port>");
  static const auto* const time = new std::regex(R"(\d{4}-\d\d-\d\dT[\d:.]+Z)");
  static const auto* const duration = new std::regex(R"(\bin \d+\.\d+ s\b)");
  message = std::regex_replace(message, *time, "<time>");
  message = std::regex_replace(message, *duration, "in <duration>");
  // Bytes that an editor would not keep.
  message = absl::StrReplaceAll(message, {{"\r", "\\r"}, {absl::string_view("\0", 1), "\\0"}});
  return Places::Get().Compare(message);
}

std::string MessageMatcher::Compare(absl::string_view text) const {
  std::string message(text), absence;
  if (extent_ == Extent::kBlock) {
    const std::vector<std::string> blocks = BlocksOf(text);
    const auto found = absl::c_find_if(blocks, [&](const std::string& block) { return HasAll(block, values_); });
    if (found == blocks.end()) absence = absl::StrCat("which has no block with ", absl::StrJoin(values_, ", "));
    message = found == blocks.end() ? absence : *found;
  }
  // Counts the place of a failure too, so that later messages of the test keep theirs.
  const std::string difference = CompareWithGoldenMessage(message, varying_);
  if (!absence.empty()) return absence;
  const auto missing = absl::c_find_if(values_, [&](const std::string& v) { return !absl::StrContains(message, v); });
  return missing == values_.end() ? difference : absl::StrCat("which lacks \"", *missing, "\": \"", message, "\"");
}

bool MessageMatcher::MatchAndExplain(absl::string_view text, testing::MatchResultListener* listener) const {
  if (failure_.empty() || text != failed_text_) {
    failed_text_ = std::string(text);
    failure_ = Compare(text);
  }
  *listener << failure_;
  return failure_.empty();
}

void MessageMatcher::DescribeTo(std::ostream* os) const {
  *os << (extent_ == Extent::kBlock ? "has a block that " : "") << "is the golden message of this place";
  if (!values_.empty()) *os << " and contains " << absl::StrJoin(values_, ", ");
}

}  // namespace varifocal
