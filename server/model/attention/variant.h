// One attention variant: its keys in config.json, its tensors and annotations, and its terms for the kernels.
//
// A variant is a file here, a row in variants.cc with its declaration in variants.h, and the file's name in CMakeLists.txt.
// Config parsing, tensors, page annotations, the terms of a layer, labels and identities are derived from the table.
//
//   weights of a query row = softmax(cap(q.k * scale), sink) over the keys visible under its mask and the sink
//
// where `scale` is initially the layer's own (d^-1/2, or the architecture's), the cap the architecture's, if any, and no
// sink; each variant of a setting modifies the terms in table order. Temperatures divide the scale, so they act before the
// cap, and on the scores alone: the sink is a logit beside them.
//
// Threads: a variant is immutable; Prepare runs on the engine's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "base/reason.h"
#include "kernels/backend.h"
#include "server/model/attention/row_scales.h"
#include "server/model/config_reader.h"
#include "server/model/rope_keys.h"

namespace varifocal {

// Model properties that a variant may depend on besides its own keys.
struct AttentionModel {
  int64_t layer_count = 0;       // L
  int64_t head_count = 0;        // H, query heads
  int64_t width = 0;             // M
  std::vector<int64_t> windows;  // [L]; 0: a full layer
  bool scales_queries = false;   // by their position (RopeConfig::query_beta)
  bool shares_keys = false;      // a layer reads the pages of another (LayerConfig::source_layer)
};

// A tensor stored with a layer: name after the attention module's prefix, such as "tau_proj.weight", and shape.
struct AttentionTensor {
  std::string name;
  std::vector<int64_t> shape;  // of one or two dimensions, never transposed
  bool required = true;
  bool positive = false;  // all values must be above 0
  bool stored = true;     // false: absent in this layer
};

// One of Tensors(), loaded.
struct LoadedAttentionTensor {
  std::unique_ptr<kernels::Buffer> buffer;  // f32, row-major; null where it is absent
  float first = 0;                          // its first number, for the host; 0 where absent
};

// Terms for the kernels: softmax(q.k * scale / temperature), or row_scales in place of the scale, times head_scales.
struct AttentionTerms {
  double scale = 0;                     // of the layer, before any temperature
  double temperature = 1;               // divides it
  absl::Span<const float> row_factors;  // [T], multiply the scale, also where a variant sets row_scales; empty: 1
  // f32 [T], replaces scale / temperature * row_factors; none unless a variant sets it.
  kernels::Slice row_scales;
  kernels::Slice head_scales;                // f32 [H], multiplies; none unless a variant sets it
  double soft_cap = 0;                       // of scaled scores; 0: none
  float sink = kernels::kNoSink;             // a logit beside the scores, in place of which
  kernels::Slice sinks;                      // f32 [H] has one per head; none unless a variant sets them
  std::optional<kernels::GroupTest> groups;  // a mask by groups; none unless a variant sets it
};

// One layer of one step, the input of Prepare.
struct AttentionStep {
  kernels::Backend& backend;
  kernels::Workspace& workspace;
  const kernels::Batch& batch;
  int64_t layer = 0;
  kernels::Slice x;                 // operands [T, M]: the input of q_proj
  kernels::KvPool* pool = nullptr;  // of the layer's page group
  int page_group = 0;
  int pool_layer = 0;                               // the layer within the pool
  int annotation_offset = 0;                        // of the variant's annotation
  absl::Span<const LoadedAttentionTensor> tensors;  // parallel to Tensors() of the variant
  // Scratch that a variant may fill and reference in its terms.
  RowScales& row_scales;
  kernels::Slice bound_counts;  // uint32 [sequences, 2]: rows at the lower and at the upper bound, accumulated
};

class AttentionVariant {
 public:
  virtual ~AttentionVariant() = default;

  // The value of the row's key in config.json in canonical form: with defaults; equal settings have equal JSON.
  virtual Json ToJson() const = 0;
  // Short and unique among settings: "focal t=0.4".
  virtual std::string Label() const = 0;

  // The same tensors in the same order for every layer.
  virtual std::vector<AttentionTensor> Tensors(const AttentionModel&, int64_t /*layer*/) const { return {}; }
  // Bytes stored per token and layer in addition to keys and values; written by the kernels.
  virtual int64_t AnnotationBytes() const { return 0; }
  // Whether a page's annotations depend on those of the page before it, which is therefore kept.
  virtual bool ReadsPreviousPage() const { return false; }
  // Whether the annotations of all earlier pages of the layer are read, which are therefore kept, also in window layers.
  virtual bool ReadsAllPages(int64_t /*layer*/) const { return false; }
  // See KvShape::row_keys and StepShape::gather_top_k_max, the maximum, overrides included; above 0 where there are groups.
  virtual bool RowKeys(int64_t /*layer*/) const { return false; }
  virtual int GatherTopKMax() const { return 0; }
  // The mask by groups of a layer, its annotation at 0; none in a layer without groups.
  virtual std::optional<kernels::GroupTest> Groups(int64_t /*layer*/) const { return std::nullopt; }
  // Results beyond this length are marked extrapolated.
  virtual std::optional<int64_t> TrainedContextLength() const { return std::nullopt; }
  // Not empty when attention needs the whole prompt: no chunked prefill and no prefix reuse. The sentence is recorded with
  // every result.
  virtual std::string WholePromptReason() const { return ""; }
  // Whether Prepare counts rows at bounds.
  virtual bool CountsBounds() const { return false; }
  // Whether Prepare sets row_scales; at most one variant of a setting may.
  virtual bool SetsRowScales() const { return false; }
  // A learned variant cannot be replaced at run time; an override may change its application.
  virtual bool IsLearned() const { return false; }

  virtual absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const = 0;
};

using AttentionVariantPtr = std::shared_ptr<const AttentionVariant>;

// A row of the table of variants.
struct AttentionVariantRow {
  const char* config_key;  // of config.json; its value is an object
  const char* mode;        // its "mode"; null: none
  // Parses the keys other than "mode"; the caller rejects keys that were not read.
  absl::StatusOr<AttentionVariantPtr> (*read)(ConfigReader& reader, const AttentionModel& model);
};

// A setting of one request that overrides the checkpoint's: `NAME@t=0.7`.
struct AttentionOverride {
  std::string name;  // a row of AttentionOverrideRows()
  Json value;
};

// A row of the table of run-time overrides: replaces the value under `config_key` of the checkpoint's config.json.
// Errors have the row's reason and the request field "overrides".
struct AttentionOverrideRow {
  const char* name;
  const char* config_key;
  ErrorReason reason;
  // `current` is null where the checkpoint has none. Several overrides that edit the value of one key may be combined; at
  // most one may replace it.
  bool edits;
  absl::StatusOr<Json> (*make)(const Json& current, const Json& value, const AttentionModel& model);
  // Of a row that changes the rotation instead, whose `make` is null: the rope of full layers under the setting.
  absl::StatusOr<RopeConfig> (*rotate)(const RopeConfig& current, const Json& value, const RopeKeys& keys,
                                       const RopeSizes& sizes) = nullptr;
};

}  // namespace varifocal
