// What answers attended to, beside their scores: masses of the last prompt row, which gives the first token of the
// answer, or means over other rows, by context length, layer and head, for variants whose job inspected them
// (docs/attention.md).
//
// A number of a variant and length is the mean over heads and answers; tasks count by their answers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/report/data/attention_heads.h"
#include "db/reader.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

struct AttentionMasses {
  int64_t answer_count = 0;
  std::optional<double> evidence, distractors, question, evidence_right, evidence_wrong;
  double first = 0, largest_weight = 0, scale = 0;
  double effective_keys = 0;  // exp of the mean entropy
};

struct AttentionHead {
  int64_t layer = 0, head = 0;
};

class AttentionTable {
 public:
  // Of the job's variants that `labels` names; the label is what they are called here.
  absl::Status Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels,
                    const stats::TestedLengths& tested);

  bool IsEmpty() const { return rows_.empty(); }
  std::vector<int64_t> Lengths(const std::string& variant) const;  // rising
  std::set<std::string> Tasks(const std::string& variant) const;   // at any length
  // Over all heads, those of a layer, or one; none where nothing was inspected.
  std::optional<AttentionMasses> Of(const std::string& variant, int64_t length,
                                    std::optional<int64_t> layer = std::nullopt,
                                    std::optional<int64_t> head = std::nullopt) const;
  // The head with the largest mass on the evidence at the variant's shortest length: chosen there, followed to the others.
  std::optional<AttentionHead> StrongestHead(const std::string& variant) const;
  int64_t LayerCount(const std::string& variant) const;
  // Which rows of the prompts: "last", "question", or the number of last ones.
  std::string InspectedRows(const std::string& variant) const;

 private:
  std::map<std::string, std::vector<db::AttentionMeansRow>> rows_;  // by variant
  std::map<std::string, std::string> inspected_rows_;               // likewise
};

// A sample with its heads, for a strip.
struct InspectedSample {
  std::string variant, task;
  int64_t sample_index = 0, context_length = 0;
  std::optional<double> value;  // of the primary metric
  std::vector<StripRow> rows;   // by layer and head
  StripPlace place;
};

}  // namespace varifocal::report
