// Scales scores with the number of visible keys n, so that attention does not flatten over long contexts:
//
//   constant:  softmax(q.k * scale * ln n / ln N), N the trained length             (log-n scaling, Qwen v1)
//   learned:   softmax(q.k * scale * s_h * ln n), s_h a number per layer and head   (SSMax, arXiv 2501.19399)
//
//   "log_n_attention": {"mode": "constant", "trained_length": 4096}  or  {"mode": "learned"}
//
// n counts the keys of the row's mask (in a window layer, of the window). A temperature divides the scale as
// elsewhere. Tensor of each layer where learned: log_n_scale.weight [H]. The run-time override is `log-n`, its value
// the trained length.
#include <cmath>
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "server/model/attention/override_values.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

constexpr char kLogNKey[] = "log_n_attention";
constexpr IntRange kTrainedLengths = {2, int64_t{1} << 30};  // ln 1 = 0 cannot divide

// row_scales = scale / temperature * ln n * factor * row_factors
absl::Status SetRowScales(const AttentionStep& step, double factor, AttentionTerms& terms) {
  const std::span<const kernels::RowInterval> rows = step.batch.masks[step.page_group];
  std::vector<float> scales(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t visible = std::max(1, rows[i].end - rows[i].begin);
    const double of_row = terms.row_factors.empty() ? 1 : terms.row_factors[i];
    scales[i] = kernels::FocalScale(terms.scale * std::log(visible) * factor * of_row, terms.temperature);
  }
  ASSIGN_OR_RETURN(terms.row_scales, step.row_scales.Write(step.backend, step.layer, std::move(scales)));
  return absl::OkStatus();
}

class LogNConstant : public AttentionVariant {
 public:
  explicit LogNConstant(int64_t trained_length) : trained_length_(trained_length) {}

  Json ToJson() const override { return {{"mode", kLogNConstant.mode}, {"trained_length", trained_length_}}; }
  std::string Label() const override { return absl::StrCat("log-n=", trained_length_); }
  bool SetsRowScales() const override { return true; }

  absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const override {
    return SetRowScales(step, 1 / std::log(trained_length_), terms);
  }

 private:
  const int64_t trained_length_;
};

class LogNLearned : public AttentionVariant {
 public:
  Json ToJson() const override { return {{"mode", kLogNLearned.mode}}; }
  std::string Label() const override { return "log-n learned"; }
  bool SetsRowScales() const override { return true; }
  bool IsLearned() const override { return true; }
  std::vector<AttentionTensor> Tensors(const AttentionModel& model, int64_t) const override {
    return {{.name = "log_n_scale.weight", .shape = {model.head_count}, .positive = true}};
  }

  absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const override {
    terms.head_scales = {step.tensors[0].buffer.get(), 0};
    return SetRowScales(step, 1, terms);
  }
};

absl::StatusOr<AttentionVariantPtr> ReadConstant(ConfigReader& reader, const AttentionModel&) {
  ASSIGN_OR_RETURN(const int64_t trained_length, reader.Int("trained_length", kTrainedLengths));
  return std::make_shared<LogNConstant>(trained_length);
}

absl::StatusOr<AttentionVariantPtr> ReadLearned(ConfigReader&, const AttentionModel&) {
  return std::make_shared<LogNLearned>();
}

absl::StatusOr<Json> OverrideLogN(const Json&, const Json& value, const AttentionModel&) {
  ASSIGN_OR_RETURN(const int64_t length, WholeNumber("log-n", value, kTrainedLengths));
  return Json{{"mode", kLogNConstant.mode}, {"trained_length", length}};
}

}  // namespace

const AttentionVariantRow kLogNConstant = {kLogNKey, "constant", ReadConstant};
const AttentionVariantRow kLogNLearned = {kLogNKey, "learned", ReadLearned};
const AttentionOverrideRow kLogNOverride = {"log-n", kLogNKey, ErrorReason::kBadAttentionOverride, false, OverrideLogN};

}  // namespace varifocal
