// Focal attention in full layers only: softmax(q.k * scale / t) in layers that see all keys, the baseline in layers with
// a sliding window. Window layers see few keys at every context length, so a temperature for long contexts concerns the
// full layers only.
//
//   "focal_attention": {"mode": "full_layers_only", "temperature": 0.4}
//
// The run-time override is `full-t`.
#include <algorithm>
#include <memory>

#include "base/status_macros.h"
#include "server/model/attention/override_values.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

class FocalFullLayers : public AttentionVariant {
 public:
  FocalFullLayers(double temperature, std::vector<int64_t> windows)
      : temperature_(temperature), windows_(std::move(windows)) {}

  Json ToJson() const override { return {{"mode", kFocalFullLayers.mode}, {"temperature", temperature_}}; }
  std::string Label() const override { return absl::StrCat("focal full-t=", ShortNumber(temperature_)); }

  absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const override {
    if (windows_[step.layer] == 0) terms.temperature = temperature_;
    return absl::OkStatus();
  }

 private:
  const double temperature_;
  const std::vector<int64_t> windows_;
};

absl::Status CheckHasFullLayer(const AttentionModel& model) {
  if (std::count(model.windows.begin(), model.windows.end(), 0) > 0) return absl::OkStatus();
  return InvalidArgument("a temperature of full layers is set, but all ", model.layer_count,
                         " layers of the model have a window");
}

absl::StatusOr<AttentionVariantPtr> ReadFullLayers(ConfigReader& reader, const AttentionModel& model) {
  ASSIGN_OR_RETURN(const double temperature, reader.Positive("temperature"));
  RETURN_IF_ERROR(CheckHasFullLayer(model));
  return std::make_shared<FocalFullLayers>(temperature, model.windows);
}

absl::StatusOr<Json> OverrideFullLayers(const Json&, const Json& value, const AttentionModel&) {
  ASSIGN_OR_RETURN(const std::vector<double> temperature, ReadTemperatures(value, 1, "the temperature of full layers"));
  return Json{{"mode", kFocalFullLayers.mode}, {"temperature", temperature[0]}};
}

}  // namespace

const AttentionVariantRow kFocalFullLayers = {"focal_attention", "full_layers_only", ReadFullLayers};
const AttentionOverrideRow kFullLayersTemperatureOverride = {
    "full-t", "focal_attention", ErrorReason::kBadAttentionOverride, false, OverrideFullLayers};

}  // namespace varifocal
