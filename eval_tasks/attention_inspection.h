// What the last rows of a prompt attend to: per layer and head, the mean over these rows. The last row gives the first token
// of the answer.
//
// A backend returns the masses of segments between boundaries (kernels/attention_statistics.h); boundaries here are those
// of the sample's spans and of the bins of a strip, so that both are sums of segments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "eval_tasks/task.h"

namespace varifocal {

struct HeadInspection {
  int layer = 0;
  int head = 0;
  double scale = 0;    // q.k is multiplied with it; 1 / tau where tau is learned
  double entropy = 0;  // nats; exp of it is the effective number of keys
  double largest_weight = 0;
  // Shares of the head's weight; none where the sample does not have such spans.
  double first_mass = 0;  // on the first token
  std::optional<double> evidence_mass;
  std::optional<double> distractor_mass;
  std::optional<double> question_mass;
  std::string strip;  // EncodeStrip of equal parts of the prompt, from its start
};

inline constexpr int kStripBins = 256;  // of shorter prompts: a bin a token

// The rows that a job inspects, by JobSpec::inspected_rows: "" is the last one, a number that many of the last ones, and
// "question" all from the first token of the question on.
inline constexpr int64_t kInspectedRowsMax = 64;  // of more, the last so many
// The same in canonical form. INVALID_ARGUMENT, which names the values, unless it is one of them.
absl::StatusOr<std::string> ValidateInspectedRows(absl::string_view rows);
// Of a valid `rows`: at least 1, at most the prompt's length; 0 where the question's position is not known.
int64_t InspectedRowCount(const Sample& sample, absl::string_view rows);

// Rising positions from 0 to the prompt's length.
std::vector<int32_t> InspectionBoundaries(const Sample& sample);

// The shares and the strip of a head, from the masses between those boundaries.
HeadInspection SummarizeHead(const Sample& sample, absl::Span<const int32_t> boundaries,
                             absl::Span<const double> masses);

// Two hexadecimal digits a bin: 0 below 2^-15.875, else n for a mass of 2^((n - 255) / 16), to 2.2 % of it.
std::string EncodeStrip(absl::Span<const double> masses);
// INVALID_ARGUMENT for a text that EncodeStrip does not return.
absl::StatusOr<std::vector<double>> DecodeStrip(absl::string_view strip);

}  // namespace varifocal
