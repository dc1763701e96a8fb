#include "eval_tasks/helmet/parse.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_replace.h"
#include "eval_tasks/python/text.h"

namespace varifocal::helmet {
namespace {

PythonText LineFrom(const PythonText& text, size_t begin) {
  return PythonText(text.begin() + begin, std::find(text.begin() + begin, text.end(), '\n'));
}

size_t SkipDecimals(const PythonText& text, size_t at) {
  while (at < text.size() && IsPythonDecimal(text[at])) ++at;
  return at;
}

size_t SkipSpaces(const PythonText& text, size_t at) {
  while (at < text.size() && IsPythonSpace(text[at])) ++at;
  return at;
}

struct Chain {
  size_t begin = 0;
  size_t end = 0;
  std::vector<std::string> numbers;
};

// The chain of numbers and ">" that begins at the decimal `begin`.
Chain ReadChain(const PythonText& text, size_t begin) {
  Chain chain{begin, SkipDecimals(text, begin), {}};
  chain.numbers.push_back(ToUtf8(text, begin, chain.end));
  for (;;) {
    size_t at = SkipSpaces(text, chain.end);
    if (at == text.size() || text[at] != '>') return chain;
    at = SkipSpaces(text, at + 1);
    const size_t end = SkipDecimals(text, at);
    if (end == at) return chain;
    chain.numbers.push_back(ToUtf8(text, at, end));
    chain.end = end;
  }
}

// `text` without every "[" and digits after it; `with_space` requires a space before it.
PythonText WithoutOpenings(const PythonText& text, bool with_space) {
  const size_t lead = with_space ? 2 : 1;
  PythonText kept;
  for (size_t i = 0; i < text.size();) {
    const bool opens = i + lead < text.size() && (!with_space || text[i] == ' ') && text[i + lead - 1] == '[' &&
                       IsPythonDecimal(text[i + lead]);
    if (opens) {
      i = SkipDecimals(text, i + lead);
    } else {
      kept.push_back(text[i++]);
    }
  }
  return kept;
}

}  // namespace

std::string ParseOutput(absl::string_view output, absl::string_view prefix) {
  const PythonText text = ToPythonText(output);
  const PythonText mark = ToPythonText(prefix);
  size_t begin = 0;
  for (size_t i = 0; i + mark.size() <= text.size(); ++i) {
    if (!MatchesIgnoringCase(text, i, mark)) continue;
    begin = i + mark.size();
    break;
  }
  PythonText answer = PythonStrip(LineFrom(text, begin));
  if (MatchesIgnoringCase(answer, 0, mark)) answer.erase(answer.begin(), answer.begin() + mark.size());
  return ToUtf8(PythonStrip(answer));
}

std::vector<std::pair<std::string, int>> ParseRankings(absl::string_view output) {
  std::string plain;
  for (char c : output) {
    if (c != '[' && c != ']' && c != ':') plain += c;
  }
  plain = absl::StrReplaceAll(PythonLower(plain), {{"id", ""}});
  const PythonText text = ToPythonText(plain);
  Chain longest;
  for (size_t i = 0; i < text.size();) {
    if (!IsPythonDecimal(text[i])) {
      ++i;
      continue;
    }
    Chain chain = ReadChain(text, i);
    i = chain.end;
    if (chain.end - chain.begin > longest.end - longest.begin) longest = std::move(chain);
  }
  if (longest.numbers.empty()) return {{plain, 1}};
  std::vector<std::pair<std::string, int>> rankings;
  std::set<std::string> seen;
  for (size_t i = 0; i < longest.numbers.size(); ++i) {
    if (!seen.insert(longest.numbers[i]).second) continue;
    rankings.emplace_back(longest.numbers[i], static_cast<int>(longest.numbers.size() - i));
  }
  return rankings;
}

std::string WithoutCitations(absl::string_view output) {
  std::string flat;
  for (size_t i = 0; i < output.size(); ++i) {
    if (output[i] != '\n') {
      flat += output[i];
    } else if (i == 0 || output[i - 1] != '\n') {
      flat += ' ';
    }
  }
  flat = absl::StrReplaceAll(flat, {{"<|im_end|>", ""}});
  const PythonText text = WithoutOpenings(WithoutOpenings(ToPythonText(flat), true), false);
  return absl::StrReplaceAll(absl::StrReplaceAll(ToUtf8(text), {{" |", ""}}), {{"]", ""}});
}

}  // namespace varifocal::helmet
