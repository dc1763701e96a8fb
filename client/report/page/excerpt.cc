#include "client/report/page/excerpt.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

constexpr int64_t kInstructionBytesMax = 160;
constexpr int64_t kEvidenceBytesMax = 640;  // all evidence with its surroundings
constexpr int64_t kEvidenceBytesMin = 120;  // of one piece
constexpr int64_t kQuestionBytesMax = 320;

// A part of the prompt that the excerpt has.
struct Piece {
  int64_t begin = 0;
  absl::string_view text;
  int64_t end() const { return begin + std::ssize(text); }
};

std::vector<Piece> Pieces(absl::string_view excerpt) {
  constexpr absl::string_view kGap = "\n[... ", kGapEnd = " bytes ...]\n";
  std::vector<Piece> pieces;
  int64_t position = 0;
  while (true) {
    const size_t gap = excerpt.find(kGap), gap_end = excerpt.find(kGapEnd, gap == excerpt.npos ? gap : gap + 1);
    int64_t left_out = 0;
    const bool has_gap = gap_end != excerpt.npos &&
                         absl::SimpleAtoi(excerpt.substr(gap + kGap.size(), gap_end - gap - kGap.size()), &left_out) &&
                         left_out > 0;
    pieces.push_back({position, has_gap ? excerpt.substr(0, gap) : excerpt});
    if (!has_gap) return pieces;
    position = pieces.back().end() + left_out;
    excerpt.remove_prefix(gap_end + kGapEnd.size());
  }
}

void AddOccurrences(const Piece& piece, const std::string& answer, std::vector<ByteSpan>& found) {
  const auto is_word = [&](size_t at) { return at < piece.text.size() && absl::ascii_isalnum(piece.text[at]); };
  if (answer.empty()) return;
  for (size_t at = piece.text.find(answer); at != piece.text.npos; at = piece.text.find(answer, at + answer.size())) {
    const size_t end = at + answer.size();
    if (at > 0 && is_word(at - 1) && is_word(at)) continue;
    if (is_word(end - 1) && is_word(end)) continue;
    found.push_back({piece.begin + static_cast<int64_t>(at), piece.begin + static_cast<int64_t>(end)});
  }
}

bool Contains(const std::vector<ByteSpan>& spans, int64_t position) {
  return std::any_of(spans.begin(), spans.end(),
                     [&](const ByteSpan& span) { return span.begin <= position && position < span.end; });
}

// The nearest character border at or after `at`.
int64_t AtBorder(absl::string_view text, int64_t at) {
  while (at < std::ssize(text) && (text[at] & 0xC0) == 0x80) ++at;
  return at;
}

// What is shown of the prompt, ascending and disjoint.
std::vector<ByteSpan> ShownRanges(const std::vector<Piece>& pieces, std::vector<ByteSpan> centers) {
  const int64_t end = pieces.back().end();
  int64_t have = 0;
  for (const Piece& piece : pieces) have += std::ssize(piece.text);
  if (have <= kInstructionBytesMax + kEvidenceBytesMax + kQuestionBytesMax) return {{0, end}};
  if (centers.empty()) {
    const Piece& longest = *std::max_element(
        pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.text.size() < b.text.size(); });
    centers = {{(longest.begin + longest.end()) / 2, (longest.begin + longest.end()) / 2}};
  }
  std::vector<ByteSpan> ranges = {{0, kInstructionBytesMax}, {end - kQuestionBytesMax, end}};
  const int64_t share = std::max(kEvidenceBytesMin, kEvidenceBytesMax / std::ssize(centers));
  for (const ByteSpan& center : centers) {
    const int64_t length = std::min(center.end - center.begin, share);
    const int64_t begin = std::max<int64_t>(0, center.begin - (share - length) / 2);
    ranges.push_back({begin, begin + share});
  }
  std::sort(ranges.begin(), ranges.end(), [](const ByteSpan& a, const ByteSpan& b) { return a.begin < b.begin; });
  std::vector<ByteSpan> merged;
  for (const ByteSpan& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

// Bytes [begin, end) of the prompt, all of one piece.
std::string MarkedHtml(const Piece& piece, int64_t begin, int64_t end, const std::vector<ByteSpan>& evidence,
                       const std::vector<ByteSpan>& gold) {
  std::vector<int64_t> borders = {begin, end};
  for (const std::vector<ByteSpan>* spans : {&evidence, &gold}) {
    for (const ByteSpan& span : *spans) {
      for (const int64_t at : {span.begin, span.end}) {
        if (at > begin && at < end) borders.push_back(piece.begin + AtBorder(piece.text, at - piece.begin));
      }
    }
  }
  std::sort(borders.begin(), borders.end());
  std::string out;
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    if (borders[i] == borders[i + 1]) continue;
    std::string text = EscapeHtml(piece.text.substr(borders[i] - piece.begin, borders[i + 1] - borders[i]));
    if (Contains(gold, borders[i])) text = absl::StrCat("<mark>", text, "</mark>");
    if (Contains(evidence, borders[i])) text = absl::StrCat("<span class=\"evidence\">", text, "</span>");
    out += text;
  }
  return out;
}

}  // namespace

std::string ExcerptHtml(absl::string_view excerpt, const std::vector<ByteSpan>& evidence,
                        const std::vector<std::string>& gold) {
  const std::vector<Piece> pieces = Pieces(excerpt);
  std::vector<ByteSpan> answers;
  for (const Piece& piece : pieces) {
    for (const std::string& answer : gold) AddOccurrences(piece, answer, answers);
  }
  std::vector<ByteSpan> centers = evidence;
  if (centers.empty() && !answers.empty()) {
    centers = {*std::min_element(answers.begin(), answers.end(),
                                 [](const ByteSpan& a, const ByteSpan& b) { return a.begin < b.begin; })};
  }
  std::string out;
  int64_t shown = 0;
  for (const ByteSpan& range : ShownRanges(pieces, std::move(centers))) {
    for (const Piece& piece : pieces) {
      const int64_t begin = std::max(range.begin, piece.begin), end = std::min(range.end, piece.end());
      if (begin >= end) continue;
      const int64_t from = piece.begin + AtBorder(piece.text, begin - piece.begin);
      const int64_t to = piece.begin + AtBorder(piece.text, end - piece.begin);
      if (from > shown) out += out.empty() ? "\u2026" : "\u2026\n\u2026";
      out += MarkedHtml(piece, from, to, evidence, answers);
      shown = to;
    }
  }
  if (shown < pieces.back().end()) out += "\u2026";
  return out;
}

}  // namespace varifocal::report
