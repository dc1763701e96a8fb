// The one softmax temperature that a checkpoint was trained with, from its attention setting as JSON (ListModels, the
// database): 1 without any attention setting, its own for constant focal attention with one number. None for a learned
// temperature, one per layer or another setting.
#pragma once

#include <optional>
#include <string>

namespace varifocal::db {

std::optional<double> TrainedTemperature(const std::string& attention_json);

}  // namespace varifocal::db
