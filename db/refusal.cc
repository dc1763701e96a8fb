#include "db/refusal.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace varifocal::db {
namespace {

constexpr char kApostrophe[] = "\u2019";

// In lower case, without % and _, which are wildcards in SQL.
constexpr const char* kBeginnings[] = {"as an ai",
                                       "i am not able",
                                       "i am sorry",
                                       "i am unable",
                                       "i can not",
                                       "i can't",
                                       "i cannot",
                                       "i could not find",
                                       "i couldn't find",
                                       "i do not have",
                                       "i do not know",
                                       "i don't have",
                                       "i don't know",
                                       "i'm not able",
                                       "i'm not sure",
                                       "i'm sorry",
                                       "i'm unable",
                                       "it is not mentioned",
                                       "it is not possible",
                                       "no information",
                                       "not enough info",
                                       "not mentioned",
                                       "sorry,",
                                       "the context does not",
                                       "the document does not",
                                       "the documents do",
                                       "the passage does",
                                       "the provided context",
                                       "the text does not",
                                       "there is no information",
                                       "there is not",
                                       "unable to",
                                       "unanswerable"};

}  // namespace

bool IsRefusal(absl::string_view answer) {
  const std::string text =
      absl::AsciiStrToLower(absl::StrReplaceAll(absl::StripLeadingAsciiWhitespace(answer), {{kApostrophe, "'"}}));
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](const char* beginning) { return absl::StartsWith(text, beginning); });
}

std::string RefusalSql(absl::string_view column) {
  const std::string text =
      absl::StrCat("lower(replace(ltrim(", column, ", char(9, 10, 11, 12, 13, 32)), '", kApostrophe, "', ''''))");
  std::vector<std::string> tests;
  for (const char* beginning : kBeginnings)
    tests.push_back(absl::StrCat(text, " LIKE '", absl::StrReplaceAll(beginning, {{"'", "''"}}), "%'"));
  return absl::StrCat("(", absl::StrJoin(tests, " OR "), ")");
}

}  // namespace varifocal::db
