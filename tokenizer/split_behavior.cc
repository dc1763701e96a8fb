#include "tokenizer/split_behavior.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/status_macros.h"

namespace varifocal {

absl::StatusOr<SplitBehavior> GetSplitBehavior(const Json& object) {
  ASSIGN_OR_RETURN(std::string name, GetString(object, "behavior"));
  constexpr const char* kNames[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    return InvalidArgument("\"behavior\" is \"", name,
                           "\", not Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  }
  return static_cast<SplitBehavior>(found - std::begin(kNames));
}

std::vector<Segment> JoinSegments(std::vector<Segment> segments, SplitBehavior behavior) {
  std::vector<Segment> out;
  bool previous_match = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return segments;
    case SplitBehavior::kRemoved:
      std::copy_if(segments.begin(), segments.end(), std::back_inserter(out),
                   [](const Segment& s) { return !s.is_match; });
      return out;
    case SplitBehavior::kContiguous:
      for (const Segment& s : segments) {
        if (!out.empty() && out.back().is_match == s.is_match) {
          out.back().end = s.end;
        } else {
          out.push_back(s);
        }
      }
      return out;
    case SplitBehavior::kMergedWithPrevious:
      for (const Segment& s : segments) {
        if (s.is_match && !previous_match && !out.empty()) {
          out.back().end = s.end;
        } else {
          out.push_back(s);
        }
        previous_match = s.is_match;
      }
      return out;
    case SplitBehavior::kMergedWithNext:
      for (auto s = segments.rbegin(); s != segments.rend(); ++s) {
        if (s->is_match && !previous_match && !out.empty()) {
          out.back().begin = s->begin;
        } else {
          out.push_back(*s);
        }
        previous_match = s->is_match;
      }
      std::reverse(out.begin(), out.end());
      return out;
  }
  return out;
}

}  // namespace varifocal
