// The thinking blocks of an answer: their markers, and the text outside of them, which is the answer.
//
// A model that thinks writes a block before its answer, "<think>\nParis or Rome? ..\n</think>\n\nParis", or its chat template
// has opened the block, so that the text begins inside. Scores are of the text outside; stop strings apply there alone,
// from its first character on that is no white space.
//
// A block ends at its first end marker. Text before an end marker that no block has opened was thinking too: a server may
// leave out the opening marker, and a nested block has an end marker of its own.
//
// The split of a text that grows token by token finds a stop string where that of the whole text does, so an engine that
// stops early and a server that sends the whole text give one answer.
//
// Errors:  INVALID_ARGUMENT for markers that are none, with the text and the limit.
// Threads: pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace varifocal {

struct ThinkingMarkers {
  std::string begin;
  std::string end;
  friend bool operator==(const ThinkingMarkers&, const ThinkingMarkers&) = default;
};

inline constexpr size_t kThinkingMarkerBytesMax = 256;
// INVALID_ARGUMENT unless both are texts of 1 to kThinkingMarkerBytesMax bytes, not of white space alone, and differ.
absl::Status CheckThinkingMarkers(const ThinkingMarkers& markers);

enum class ThinkingState {
  kNone,        // the answer has no block
  kClosed,      // one block, then the answer
  kUnfinished,  // the text ends inside a block: there is no answer
  kEmpty,       // a block of nothing but white space
  kNested,      // a block was opened inside a block
  kRepeated,    // several blocks
};
const char* ThinkingStateName(ThinkingState state);  // "none", "closed", "unfinished", "empty", "nested", "repeated"

// How a text is to be split.
struct ThinkingRule {
  ThinkingMarkers markers;
  bool is_opened = false;     // the prompt ends inside a block
  std::string forced_answer;  // text forced after the end marker, which is no part of the answer; usually empty
};

struct ThinkingSplit {
  ThinkingState state = ThinkingState::kNone;
  std::string thinking;  // of all blocks, without markers and white space at the ends
  std::string answer;    // before the first stop string; "" of an unfinished block
  size_t end = 0;        // of the text that counts: its size, or where a stop string begins
  std::string matched_stop;
  int block_count = 0;
  bool is_inside = false;     // the text ends inside a block
  bool is_undecided = false;  // it may yet begin with a block: nothing but white space and the start of a marker
};
ThinkingSplit SplitThinking(absl::string_view text, const ThinkingRule& rule,
                            absl::Span<const std::string> stop_strings);

// Whether a prompt that ends with `tail` has opened a block: nothing but white space follows its last opening marker.
bool OpensThinking(absl::string_view tail, const ThinkingMarkers& markers);

}  // namespace varifocal
