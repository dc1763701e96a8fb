// Focal attention with constant temperatures: softmax(q.k * scale / t), one t for the model or one per layer.
//
//   "focal_attention": {"mode": "constant", "temperature": 0.4}        or a list of L numbers
//
// t = 1 gives the bits of the baseline. The run-time override is `t`.
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "server/model/attention/override_values.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

class FocalConstant : public AttentionVariant {
 public:
  explicit FocalConstant(std::vector<double> temperatures) : temperatures_(std::move(temperatures)) {}

  Json ToJson() const override {
    return {{"mode", kFocalConstant.mode}, {"temperature", TemperaturesToJson(temperatures_)}};
  }
  std::string Label() const override { return absl::StrCat("focal t=", TemperaturesLabel(temperatures_)); }

  absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const override {
    terms.temperature = temperatures_[step.layer];
    return absl::OkStatus();
  }

 private:
  const std::vector<double> temperatures_;
};

absl::StatusOr<AttentionVariantPtr> ReadFocalConstant(ConfigReader& reader, const AttentionModel& model) {
  const Json* value = reader.Take("temperature");
  if (value == nullptr) return InvalidArgument(reader.Name("temperature"), " is missing");
  ASSIGN_OR_RETURN(std::vector<double> temperatures,
                   ReadTemperatures(*value, model.layer_count, reader.Name("temperature")));
  return std::make_shared<FocalConstant>(std::move(temperatures));
}

absl::StatusOr<Json> OverrideTemperature(const Json&, const Json& value, const AttentionModel& model) {
  ASSIGN_OR_RETURN(const std::vector<double> temperatures,
                   ReadTemperatures(value, model.layer_count, "focal_temperature"));
  return Json{{"mode", kFocalConstant.mode}, {"temperature", TemperaturesToJson(temperatures)}};
}

}  // namespace

const AttentionVariantRow kFocalConstant = {"focal_attention", "constant", ReadFocalConstant};
const AttentionOverrideRow kTemperatureOverride = {"t", "focal_attention", ErrorReason::kBadFocalTemperature, false,
                                                   OverrideTemperature};

}  // namespace varifocal
