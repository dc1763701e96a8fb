// The single softmax temperature that a variant ran with.
#pragma once

#include <optional>

#include "db/records.h"

namespace varifocal::report {

// That of the run, or the one it was trained with: 1 without focal attention. None for learned temperatures, those of
// single layers, and other run-time settings.
std::optional<double> RunTemperature(const db::VariantRecord& variant);

}  // namespace varifocal::report
