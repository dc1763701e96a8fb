#include "db/trained_temperature.h"

#include "base/json.h"

namespace varifocal::db {

std::optional<double> TrainedTemperature(const std::string& attention_json) {
  const auto trained = ParseJson(attention_json);
  if (!trained.ok() || !trained->is_object()) return std::nullopt;
  if (trained->empty()) return 1.0;
  if (trained->size() != 1 || !trained->contains("focal_attention")) return std::nullopt;
  const Json& focal = trained->at("focal_attention");
  if (!focal.is_object() || !focal.contains("temperature") || !focal["temperature"].is_number()) return std::nullopt;
  return focal.value("mode", Json()) == "constant" ? std::optional(focal["temperature"].get<double>()) : std::nullopt;
}

}  // namespace varifocal::db
