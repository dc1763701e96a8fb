// Text for people from a model's `function_json` (server/model/function_json.h).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "db/records.h"

namespace varifocal::report {

// Of a record without one, or with one that is damaged: an empty object.
Json FunctionOf(const db::ModelRecord& model);

// What weights were computed from: "from gptq 4 bit, read to f16", "LoRA of rank 8, alpha 16". None: as they are stored.
std::vector<std::string> WeightsFrom(const Json& function);

// Layers with a recurrent state or an MLP alone: "0 to 2 and 4". Empty: none.
std::string LayersWithoutAttention(const Json& function);
// What that means for settings, without a period. Empty: there are none.
std::string LayersWithoutAttentionNote(const Json& function);

}  // namespace varifocal::report
