// Focus: keys in the row's window, and keys whose token shares a learned group with the row's (docs/focus.md).
//
//   "focus_attention": {"group_count": 8, "top_k": 2, "window": 128, "bias": "calibrated"}
//
// and optionally "routing_dim" (16), "assignment_temperature" (0.1), "layers" (every layer without a window),
// "trained_context_length" and "regime". Tensors of each of these layers: focus.projection.weight [R, M],
// focus.centroids [K, R] and, where calibrated, focus.group_bias [K]. The run-time overrides are `focus-top-k` and
// `focus-window`; the ranking of groups of a token is unchanged, so no learned value is replaced.
// Source: arXiv 2604.03260; docs/decisions/0035 lists what the paper leaves open.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/model/attention/override_values.h"
#include "server/model/attention/variants.h"
#include "server/model/kernel_status.h"

namespace varifocal {
namespace {

using kernels::GroupBias;

constexpr char kFocusKey[] = "focus_attention";
constexpr IntRange kGroupCounts = {1, kernels::kGroupCountMax};
constexpr IntRange kWindows = {0, INT32_MAX};
constexpr IntRange kRoutingDims = {1, 1024};
constexpr IntRange kContextLengths = {1, int64_t{1} << 30};

struct NamedBias {
  const char* name;
  GroupBias bias;
};
constexpr std::array<NamedBias, 3> kBiases = {
    {{"calibrated", GroupBias::kStored}, {"paged", GroupBias::kPaged}, {"prompt", GroupBias::kPrompt}}};

// How the groups were trained; for reports.
constexpr std::array<const char*, 3> kRegimes = {"frozen", "full", "scratch"};

struct FocusParams {
  int group_count = 0;
  int top_k = 0;
  int32_t window = 0;
  int routing_dim = 0;
  double temperature = 0;
  const NamedBias* bias = nullptr;
  std::vector<int64_t> layers;  // ascending
  std::optional<int64_t> trained_context_length;
  std::string regime;            // empty: unknown
  std::vector<int64_t> windows;  // of the model's layers
};

class Focus : public AttentionVariant {
 public:
  explicit Focus(FocusParams params) : params_(std::move(params)) {}

  Json ToJson() const override {
    Json json = {{"group_count", params_.group_count},
                 {"top_k", params_.top_k},
                 {"window", params_.window},
                 {"routing_dim", params_.routing_dim},
                 {"assignment_temperature", params_.temperature},
                 {"bias", params_.bias->name},
                 {"layers", params_.layers}};
    if (params_.trained_context_length) json["trained_context_length"] = *params_.trained_context_length;
    if (!params_.regime.empty()) json["regime"] = params_.regime;
    return json;
  }
  std::string Label() const override {
    return absl::StrCat("focus ", params_.top_k, "/", params_.group_count, " w=", params_.window,
                        bias() == GroupBias::kStored ? "" : absl::StrCat(" ", params_.bias->name));
  }

  std::vector<AttentionTensor> Tensors(const AttentionModel& model, int64_t layer) const override {
    const bool stored = IsListed(layer);
    return {
        {.name = "focus.projection.weight", .shape = {params_.routing_dim, model.width}, .stored = stored},
        {.name = "focus.centroids", .shape = {params_.group_count, params_.routing_dim}, .stored = stored},
        {.name = "focus.group_bias", .shape = {params_.group_count}, .stored = stored && bias() == GroupBias::kStored}};
  }
  int64_t AnnotationBytes() const override { return kernels::GroupAnnotationBytes(bias(), params_.group_count); }
  bool ReadsAllPages(int64_t layer) const override { return bias() != GroupBias::kStored && IsListed(layer); }
  // Depends on the checkpoint's own setting: where reading single keys is not faster, pages keep the dense layout.
  bool RowKeys(int64_t layer) const override {
    return IsListed(layer) && kernels::DecodeListsKeys(params_.group_count, params_.top_k);
  }
  int GatherTopKMax() const override { return std::max(1, kernels::GatherTopKMax(params_.group_count)); }
  std::optional<kernels::GroupTest> Groups(int64_t layer) const override {
    if (!IsListed(layer)) return std::nullopt;
    return kernels::GroupTest{.group_count = params_.group_count, .top_k = params_.top_k, .window = params_.window};
  }
  std::optional<int64_t> TrainedContextLength() const override { return params_.trained_context_length; }
  std::string WholePromptReason() const override {
    if (bias() != GroupBias::kPrompt) return "";
    return "the bias of focus_attention is prompt: the prompt ran in one step, without chunks and without prefix reuse";
  }

  absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const override {
    if (!IsListed(step.layer) || kernels::AllGroupSetsIntersect(params_.group_count, params_.top_k))
      return absl::OkStatus();
    terms.groups = Groups(step.layer);
    terms.groups->annotation_offset = step.annotation_offset;
    if (params_.windows[step.layer] == 0) {
      terms.groups->gather_from =
          kernels::GatherFrom(params_.group_count, params_.top_k, params_.window, step.backend.info().gather_costs);
    }
    return ToStatus(step.backend.RouteGroups(step.workspace, {.x = step.x,
                                                              .projection = {step.tensors[0].buffer.get(), 0},
                                                              .centroids = {step.tensors[1].buffer.get(), 0},
                                                              .group_bias = {step.tensors[2].buffer.get(), 0},
                                                              .group_count = params_.group_count,
                                                              .routing_dim = params_.routing_dim,
                                                              .top_k = params_.top_k,
                                                              .temperature = static_cast<float>(params_.temperature),
                                                              .bias = bias(),
                                                              .pool = step.pool,
                                                              .page_group = step.page_group,
                                                              .layer = step.pool_layer,
                                                              .annotation_offset = step.annotation_offset}));
  }

 private:
  GroupBias bias() const { return params_.bias->bias; }
  bool IsListed(int64_t layer) const { return std::binary_search(params_.layers.begin(), params_.layers.end(), layer); }

  const FocusParams params_;
};

absl::StatusOr<std::vector<int64_t>> ReadLayers(ConfigReader& reader, const AttentionModel& model) {
  std::vector<int64_t> layers;
  const Json* value = reader.Take("layers");
  const std::string name = reader.Name("layers");
  if (value == nullptr) {
    for (size_t layer = 0; layer < model.windows.size(); ++layer) {
      if (model.windows[layer] == 0) layers.push_back(layer);
    }
    if (!layers.empty()) return layers;
    return InvalidArgument(name, " is missing, and all ", model.layer_count,
                           " layers of the model have a window; name those with groups");
  }
  if (!value->is_array() || value->empty())
    return InvalidArgument(name, " is ", ShownValue(*value), "; it must be a list of at least one layer");
  for (const Json& item : *value) {
    if (!item.is_number_integer() || item < 0 || item >= model.layer_count)
      return InvalidArgument(name, " has ", ShownValue(item), "; layers are 0..", model.layer_count - 1);
    if (!layers.empty() && item.get<int64_t>() <= layers.back()) {
      return InvalidArgument(name, " has ", item.get<int64_t>(), " after ", layers.back(),
                             "; layers must be in ascending order without duplicates");
    }
    layers.push_back(item.get<int64_t>());
  }
  return layers;
}

// One of the names of a table.
template <typename Table, typename NameOf>
absl::StatusOr<size_t> ReadName(const std::string& key, const std::string& value, const Table& table,
                                const NameOf& name_of) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (value == name_of(table[i])) return i;
  }
  return InvalidArgument(key, " is \"", value,
                         "\"; it must be one of: ", absl::StrJoin(table, ", ", [&](std::string* out, const auto& row) {
                           out->append(name_of(row));
                         }));
}

absl::StatusOr<AttentionVariantPtr> ReadFocus(ConfigReader& reader, const AttentionModel& model) {
  if (model.shares_keys) {  // a page holds the groups of one layer
    return Unimplemented("\"", kFocusKey, "\" is set; it is not supported where layers read the keys of another");
  }
  FocusParams params{.windows = model.windows};
  ASSIGN_OR_RETURN(params.group_count, reader.Int("group_count", kGroupCounts));
  ASSIGN_OR_RETURN(params.top_k, reader.Int("top_k", {1, params.group_count}));
  ASSIGN_OR_RETURN(params.window, reader.Int("window", kWindows));
  ASSIGN_OR_RETURN(params.routing_dim, reader.Int("routing_dim", kRoutingDims, 16));
  ASSIGN_OR_RETURN(params.temperature, reader.Positive("assignment_temperature", 0.1));
  ASSIGN_OR_RETURN(const std::string bias, reader.String("bias"));
  ASSIGN_OR_RETURN(const size_t index,
                   ReadName(reader.Name("bias"), bias, kBiases, [](const NamedBias& row) { return row.name; }));
  params.bias = &kBiases[index];
  ASSIGN_OR_RETURN(params.layers, ReadLayers(reader, model));
  if (reader.Has("trained_context_length")) {
    ASSIGN_OR_RETURN(params.trained_context_length, reader.Int("trained_context_length", kContextLengths));
  }
  ASSIGN_OR_RETURN(params.regime, reader.String("regime", ""));
  if (!params.regime.empty()) {
    RETURN_IF_ERROR(
        ReadName(reader.Name("regime"), params.regime, kRegimes, [](const char* row) { return row; }).status());
  }
  return std::make_shared<Focus>(std::move(params));
}

// The checkpoint's setting with one key replaced.
absl::StatusOr<Json> Edited(const char* name, const Json& current, const char* key, const Json& value, IntRange range) {
  if (current.is_null())
    return InvalidArgument("\"", name, "\" is set, but the model has no \"", kFocusKey, "\": it has no learned groups");
  Json edited = current;
  ASSIGN_OR_RETURN(edited[key], WholeNumber(name, value, range));
  return edited;
}

absl::StatusOr<Json> OverrideTopK(const Json& current, const Json& value, const AttentionModel&) {
  const int64_t groups = current.is_null() ? kGroupCounts.high : current["group_count"].get<int64_t>();
  return Edited(kFocusTopKOverride.name, current, "top_k", value, {1, groups});
}

absl::StatusOr<Json> OverrideWindow(const Json& current, const Json& value, const AttentionModel&) {
  return Edited(kFocusWindowOverride.name, current, "window", value, kWindows);
}

}  // namespace

const AttentionVariantRow kFocus = {kFocusKey, nullptr, ReadFocus};
const AttentionOverrideRow kFocusTopKOverride = {"focus-top-k", kFocusKey, ErrorReason::kBadAttentionOverride, true,
                                                 OverrideTopK};
const AttentionOverrideRow kFocusWindowOverride = {"focus-window", kFocusKey, ErrorReason::kBadAttentionOverride, true,
                                                   OverrideWindow};

}  // namespace varifocal
