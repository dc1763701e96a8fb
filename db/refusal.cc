#include "db/refusal.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "base/thinking_markers.h"

namespace varifocal::db {
namespace {

constexpr char kApostrophe[] = "\u2019";

// In lower case, of at most 40 characters.
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

bool BeginsWithThinking(absl::string_view answer) {
  answer = absl::StripLeadingAsciiWhitespace(answer);
  return std::any_of(std::begin(kKnownThinkingMarkers), std::end(kKnownThinkingMarkers),
                     [&](const KnownThinkingMarkers& markers) { return absl::StartsWith(answer, markers.begin); });
}

bool IsRefusal(absl::string_view answer) {
  const std::string text =
      absl::AsciiStrToLower(absl::StrReplaceAll(absl::StripLeadingAsciiWhitespace(answer), {{kApostrophe, "'"}}));
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](const char* beginning) { return absl::StartsWith(text, beginning); });
}

}  // namespace varifocal::db
