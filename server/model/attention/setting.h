// The attention setting of a model or a request: the active variants, in table order. None is the baseline.
//
// Errors: INVALID_ARGUMENT naming the key, its value and the limit; UNIMPLEMENTED for unknown keys.
// Threads: immutable; copies share the variants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/model/attention/variant.h"

namespace varifocal {

using AttentionOverrides = std::vector<AttentionOverride>;

// The override `t`: one number for all layers or one per layer; empty: no override.
AttentionOverrides RunTimeTemperature(absl::Span<const double> temperatures);  // for tests

class AttentionSetting {
 public:
  struct Part {
    const AttentionVariantRow* row;
    AttentionVariantPtr variant;
    size_t first_tensor = 0;  // of Tensors()
    size_t tensor_count = 0;
    int annotation_offset = 0;
  };

  // The baseline.
  AttentionSetting() : AttentionSetting(std::vector<Part>()) {}

  // Parses the attention keys of config.json; `defaults`, an object, has those of missing ones.
  static absl::StatusOr<AttentionSetting> Read(ConfigReader& reader, const AttentionModel& model,
                                               absl::string_view defaults = "{}");
  // `json` has attention keys only, as returned by json().
  static absl::StatusOr<AttentionSetting> FromJson(const Json& json, const AttentionModel& model);

  // Applies run-time overrides in order. An override replaces or edits the variant of the same config key; a learned one
  // cannot be replaced, and two cannot replace the same one. Errors have reason and field.
  absl::StatusOr<AttentionSetting> With(const AttentionOverrides& overrides, const AttentionModel& model) const;

  // The attention keys of config.json in canonical form; "{}" for the baseline. Equal settings have equal JSON: it is
  // the setting's identity in prefix cache keys, records and on the wire.
  const std::string& json() const { return json_; }
  // "baseline", "focal t=0.4", "focal t=0.4 + log-n 4096"
  std::string Label() const;

  bool NeedsWholePrompt() const { return !WholePromptReason().empty(); }
  std::string WholePromptReason() const;
  bool ReadsPreviousPage() const;
  bool ReadsAllPages(int64_t layer) const;
  bool RowKeys(int64_t layer) const;
  int GatherTopKMax() const;
  std::optional<kernels::GroupTest> Groups(int64_t layer) const;  // where RouteGroups writes included
  std::optional<int64_t> TrainedContextLength() const;
  bool CountsBounds() const;
  int64_t AnnotationBytes() const;

  // Of a layer: those of each part, concatenated.
  std::vector<AttentionTensor> Tensors(const AttentionModel& model, int64_t layer) const;
  // The terms of `step`'s layer. step.tensors is parallel to Tensors().
  absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const;

 private:
  absl::StatusOr<AttentionSetting> Replaced(const AttentionOverrideRow& row, const Json& value,
                                            const AttentionModel& model) const;
  template <typename Trait>
  bool Any(const Trait& trait) const;
  explicit AttentionSetting(std::vector<Part> parts);

  std::vector<Part> parts_;
  std::string json_;
};

}  // namespace varifocal
