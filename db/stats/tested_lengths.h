// Which lengths a job tested, by the tokens of its prompts.
//
// Rows of a file are not padded, so a length of the suite may be one that no prompt has. A task's cells with the same
// prompts are one test, that of the shortest such length; the others are repeated and left out. A cell reaches its length
// when half of its prompts, with the tokens to generate, are at least kReachedShare of it; tests that do not are named by
// the tokens of their prompts. The rule is docs/decisions/0144.
//
// Rows of db/stats have the `length` below as their context_length. Where no prompt is there yet it is the suite's.
//
// Errors:  those of db::Reader.
// Cost:    counts the samples of the job; reads the hashes of prompts where two lengths of a task may have the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"

namespace varifocal::stats {

// Between the length and its half: a tokenizer that needs a fifth fewer tokens than the one that the rows were made for
// still reaches it.
inline constexpr double kReachedShare = 0.75;

// Of tasks with RULER's scorers: their lengths are labels of upstream's, whose rows may fall far below them by its own rule
// (docs/ruler.md), and published scores are by label. They count as reached.
inline constexpr absl::string_view kRulerMetricPrefix = "ruler/";

struct TestedLength {
  // The shortest length of the suite with these prompts; where they do not reach it, that of the longest prompt of all tasks
  // that do not reach it either, or the next number that no other length has.
  int64_t length = 0;
  bool is_reached = true;
  int64_t tokens_min = 0, tokens_max = 0;  // of the prompts; 0 without any
  int64_t new_tokens = 0;                  // to generate, after the longest prompt
  std::vector<int64_t> nominal;            // lengths of the suite that asked these prompts, ascending

  int64_t Tokens() const { return is_reached ? length : tokens_max; }  // the place on an axis
  bool HasReaching() const;  // the longest prompt reaches the length, as few others may
  bool IsFilled() const;     // every prompt reaches the length, and no other length repeats it
};

class TestedLengths {
 public:
  static absl::StatusOr<TestedLengths> Read(db::Reader& reader, int64_t job_id);

  // Those of another job for tasks and lengths that this one does not have.
  void AddMissing(const TestedLengths& other);

  // Of a length of the suite; none where it repeats a shorter one.
  std::optional<int64_t> Of(const std::string& task, int64_t nominal) const;
  // By `length`; an empty task: over all that have it.
  TestedLength At(const std::string& task, int64_t length) const;
  // By task and length, those where some prompt does not reach the length, or that several lengths of the suite have.
  std::vector<std::pair<std::string, TestedLength>> NotFilled() const;

 private:
  std::map<std::pair<std::string, int64_t>, TestedLength> tested_;  // by task and shortest length of the suite
  std::map<std::pair<std::string, int64_t>, int64_t> first_;        // likewise: the shortest, by each
};

}  // namespace varifocal::stats
