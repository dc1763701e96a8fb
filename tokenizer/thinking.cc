#include "tokenizer/thinking.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr size_t kNoMarker = absl::string_view::npos;

class Splitter {
 public:
  Splitter(absl::string_view text, const ThinkingRule& rule, absl::Span<const std::string> stops)
      : text_(text), rule_(rule), stops_(stops) {}

  ThinkingSplit Run() {
    if (rule_.is_opened) Open(0);
    while (split_.is_inside ? Inside() : Outside()) {
    }
    if (split_.is_inside) split_.answer.clear();
    split_.thinking = std::string(absl::StripAsciiWhitespace(split_.thinking));
    split_.state = State();
    return std::move(split_);
  }

 private:
  void Open(size_t at) {
    split_.is_inside = true;
    ++split_.block_count;
    at_ = at;
  }
  void AddThinking(absl::string_view text) {
    absl::StrAppend(&split_.thinking, split_.thinking.empty() ? "" : "\n", absl::StripAsciiWhitespace(text));
  }
  void Close(size_t end) {
    at_ = end + rule_.markers.end.size();
    split_.is_inside = false;
    split_.answer.clear();
  }

  // Both return false at the end of the text that counts.
  bool Inside() {
    const size_t end = text_.find(rule_.markers.end, at_);
    is_nested_ = is_nested_ || text_.find(rule_.markers.begin, at_) < end;
    AddThinking(text_.substr(at_, end == kNoMarker ? end : end - at_));
    split_.end = text_.size();
    if (end == kNoMarker) return false;
    Close(end);
    return true;
  }

  bool Outside() {
    size_t first = at_;  // of the answer's text
    while (first < text_.size() && absl::ascii_isspace(text_[first])) ++first;
    if (split_.block_count > 0 && !rule_.forced_answer.empty()) {
      const absl::string_view forced = absl::StripAsciiWhitespace(rule_.forced_answer);
      if (absl::StartsWith(text_.substr(first), forced)) {
        at_ = first += forced.size();
        while (first < text_.size() && absl::ascii_isspace(text_[first])) ++first;
      }
    }
    const size_t begin = text_.find(rule_.markers.begin, at_);
    const size_t end = text_.find(rule_.markers.end, at_);
    size_t stop = kNoMarker;
    split_.is_undecided = absl::StartsWith(rule_.markers.begin, text_.substr(first));
    for (const std::string& string : stops_) {
      if (string.empty() || split_.is_undecided) continue;
      const size_t at = text_.find(string, std::min(first, text_.size()));
      if (at >= stop) continue;
      stop = at;
      split_.matched_stop = string;
    }
    if (end < begin && end < stop) {
      // Opened out of sight.
      const absl::string_view before = text_.substr(at_, end - at_);
      const bool is_first = split_.block_count == 0;
      if (!is_first || !absl::StripAsciiWhitespace(before).empty()) ++split_.block_count;
      is_nested_ = is_nested_ && !is_first;
      AddThinking(before);
      Close(end);
      split_.matched_stop.clear();
      return true;
    }
    // At its start the text waits until a marker is complete or none.
    if (begin != kNoMarker && (begin < stop || begin == first)) {
      absl::StrAppend(&split_.answer, text_.substr(at_, begin - at_));
      Open(begin + rule_.markers.begin.size());
      split_.matched_stop.clear();
      return true;
    }
    split_.end = std::min(stop, text_.size());
    absl::StrAppend(&split_.answer, text_.substr(at_, split_.end - at_));
    return false;
  }

  ThinkingState State() const {
    if (split_.is_inside) return ThinkingState::kUnfinished;
    if (is_nested_) return ThinkingState::kNested;
    if (split_.block_count > 1) return ThinkingState::kRepeated;
    if (split_.block_count == 0) return ThinkingState::kNone;
    return split_.thinking.empty() ? ThinkingState::kEmpty : ThinkingState::kClosed;
  }

  const absl::string_view text_;
  const ThinkingRule& rule_;
  const absl::Span<const std::string> stops_;
  ThinkingSplit split_;
  size_t at_ = 0;
  bool is_nested_ = false;
};

}  // namespace

absl::Status CheckThinkingMarkers(const ThinkingMarkers& markers) {
  for (const auto& [name, text] : {std::pair("begin", &markers.begin), std::pair("end", &markers.end)}) {
    if (!absl::StripAsciiWhitespace(*text).empty() && text->size() <= kThinkingMarkerBytesMax) continue;
    return InvalidArgument("the ", name, " marker of thinking has ", text->size(), " bytes; it must have 1 to ",
                           kThinkingMarkerBytesMax, ", not all of them white space");
  }
  if (markers.begin != markers.end) return absl::OkStatus();
  return InvalidArgument("both markers of thinking are \"", markers.begin, "\"; they must differ");
}

const char* ThinkingStateName(ThinkingState state) {
  switch (state) {
    case ThinkingState::kNone:
      return "none";
    case ThinkingState::kClosed:
      return "closed";
    case ThinkingState::kUnfinished:
      return "unfinished";
    case ThinkingState::kEmpty:
      return "empty";
    case ThinkingState::kNested:
      return "nested";
    case ThinkingState::kRepeated:
      return "repeated";
  }
  return "";
}

ThinkingSplit SplitThinking(absl::string_view text, const ThinkingRule& rule,
                            absl::Span<const std::string> stop_strings) {
  return Splitter(text, rule, stop_strings).Run();
}

bool OpensThinking(absl::string_view tail, const ThinkingMarkers& markers) {
  return absl::EndsWith(absl::StripTrailingAsciiWhitespace(tail), markers.begin);
}

}  // namespace varifocal
