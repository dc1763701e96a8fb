#include "client/report/data/run_temperature.h"

#include "base/json.h"
#include "db/trained_temperature.h"

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
  return db::TrainedTemperature(variant.model.attention_json);
}

}  // namespace varifocal::report
