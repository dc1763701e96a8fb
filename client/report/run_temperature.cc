#include "client/report/run_temperature.h"

#include "base/json.h"

namespace varifocal::report {

std::optional<double> RunTemperature(const db::VariantRecord& variant) {
  if (variant.focal_temperature_json.has_value()) {
    const auto run = ParseJson(*variant.focal_temperature_json);
    if (!run.ok()) return std::nullopt;
    if (run->is_number()) return run->get<double>();
    return run->is_array() && run->size() == 1 && run->front().is_number() ? std::optional(run->front().get<double>())
                                                                           : std::nullopt;
  }
  if (variant.name.find('@') != std::string::npos) return std::nullopt;
  const auto trained = ParseJson(variant.model.attention_json);
  if (!trained.ok() || !trained->is_object()) return std::nullopt;
  if (trained->empty()) return 1.0;
  if (trained->size() != 1 || !trained->contains("focal_attention")) return std::nullopt;
  const Json& focal = trained->at("focal_attention");
  if (!focal.is_object() || !focal.contains("temperature") || !focal["temperature"].is_number()) return std::nullopt;
  return focal.value("mode", Json()) == "constant" ? std::optional(focal["temperature"].get<double>()) : std::nullopt;
}

}  // namespace varifocal::report
