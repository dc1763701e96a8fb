// Focal attention with a learned temperature per layer and query row: softmax(q.k / tau),
//
//   tau = clip(mean(x.w + b), tau_min, tau_max), x the input of q_proj
//   "focal_attention": {"mode": "learned", "tau_min": 3.5, "tau_max": 8.0, "tau_mean": "causal"}
//
// `tau_mean` is causal (rows up to the query), token (the row alone) or sequence (the whole prompt; not causal).
// Tensors of each layer: tau_proj.weight [M] and optionally tau_proj.bias [1].
#include <array>
#include <memory>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/model/attention/variants.h"
#include "server/model/kernel_status.h"

namespace varifocal {
namespace {

using kernels::TauMean;

struct NamedMean {
  const char* name;
  TauMean mean;
};
constexpr std::array<NamedMean, 3> kMeans = {
    {{"causal", TauMean::kCausal}, {"token", TauMean::kToken}, {"sequence", TauMean::kSequence}}};

class FocalLearned : public AttentionVariant {
 public:
  FocalLearned(double tau_min, double tau_max, const NamedMean& mean)
      : tau_min_(tau_min), tau_max_(tau_max), mean_(mean) {}

  Json ToJson() const override {
    return {{"mode", kFocalLearned.mode}, {"tau_min", tau_min_}, {"tau_max", tau_max_}, {"tau_mean", mean_.name}};
  }
  std::string Label() const override {
    return absl::StrCat("focal tau=[", ShortNumber(tau_min_), ",", ShortNumber(tau_max_), "] ", mean_.name);
  }

  std::vector<AttentionTensor> Tensors(const AttentionModel& model, int64_t) const override {
    return {{.name = "tau_proj.weight", .shape = {model.width}},
            {.name = "tau_proj.bias", .shape = {1}, .required = false}};
  }
  int64_t AnnotationBytes() const override { return kernels::kTauAnnotationBytes; }
  bool ReadsPreviousPage() const override { return true; }
  bool CountsBounds() const override { return true; }
  bool SetsRowScales() const override { return true; }
  bool IsLearned() const override { return true; }
  std::string WholePromptReason() const override {
    if (mean_.mean != TauMean::kSequence) return "";
    return "tau_mean is sequence: the prompt ran in one step, without chunks and without prefix reuse";
  }

  absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const override {
    terms.row_scales = step.row_scales.OfLayer(step.layer);
    return ToStatus(step.backend.FocalTau(step.workspace, {.x = step.x,
                                                           .weight = {step.tensors[0].buffer.get(), 0},
                                                           .bias = step.tensors[1].first,
                                                           .tau_min = static_cast<float>(tau_min_),
                                                           .tau_max = static_cast<float>(tau_max_),
                                                           .mean = mean_.mean,
                                                           .pool = step.pool,
                                                           .page_group = step.page_group,
                                                           .layer = step.pool_layer,
                                                           .annotation_offset = step.annotation_offset,
                                                           .row_scales = terms.row_scales,
                                                           .bound_counts = step.bound_counts}));
  }

 private:
  const double tau_min_, tau_max_;
  const NamedMean& mean_;
};

absl::StatusOr<AttentionVariantPtr> ReadFocalLearned(ConfigReader& reader, const AttentionModel& model) {
  if (model.scales_queries) {
    return Unimplemented(reader.Name("mode"), " is \"", kFocalLearned.mode,
                         "\"; it is not supported where queries are scaled by their position");
  }
  if (model.shares_keys) {  // a page holds the sums of one layer
    return Unimplemented(reader.Name("mode"), " is \"", kFocalLearned.mode,
                         "\"; it is not supported where layers read the keys of another");
  }
  ASSIGN_OR_RETURN(const double tau_min, reader.Positive("tau_min"));
  ASSIGN_OR_RETURN(const double tau_max, reader.Positive("tau_max"));
  if (tau_min > tau_max)
    return InvalidArgument(reader.Name("tau_min"), " is ", tau_min, "; it must not exceed tau_max, ", tau_max);
  ASSIGN_OR_RETURN(const std::string name, reader.String("tau_mean", kMeans[0].name));
  for (const NamedMean& mean : kMeans) {
    if (name == mean.name) return std::make_shared<FocalLearned>(tau_min, tau_max, mean);
  }
  return InvalidArgument(
      reader.Name("tau_mean"), " is \"", name, "\"; it must be one of: ",
      absl::StrJoin(kMeans, ", ", [](std::string* out, const NamedMean& mean) { out->append(mean.name); }));
}

}  // namespace

const AttentionVariantRow kFocalLearned = {"focal_attention", "learned", ReadFocalLearned};

}  // namespace varifocal
