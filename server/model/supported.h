// What checkpoints are supported, from the tables of architectures: for `varifocal models --supported` and
// docs/checkpoints.md.
#pragma once

#include <string>
#include <vector>

namespace varifocal {

// One `model_type` of config.json.
struct SupportedCheckpoint {
  std::string model_type;
  std::string class_name;  // its "architectures" entry
  std::string text_types;  // of a multimodal one: the types of the text part that is evaluated; else empty
  std::string examples;    // public models
  std::string verified;    // golden checkpoints that hold its values against transformers in float64
  std::string refused;     // settings of its own that are refused by name
};

// In the order of the tables: texts, then multimodal ones.
std::vector<SupportedCheckpoint> SupportedCheckpoints();

}  // namespace varifocal
