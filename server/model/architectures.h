// The table of architectures: what each model type says in its config.json, and where its tensors are.
//
// There is one forward pass (forward.h); a row states its differences as data. Adding an architecture is a row here,
// and a block option there when it has one that nobody had before.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/model/config.h"
#include "server/model/config_reader.h"

namespace varifocal {

// Tensor names of a checkpoint. In names of a layer, "{}" stands for its number.
struct TensorNames {
  const char* embedding;
  const char* input_norm;
  const char* query;  // these four and the three below are followed by ".weight" and, where there is one, ".bias"
  const char* key;
  const char* value;
  const char* attention_output;
  const char* post_attention_norm;
  const char* gate;
  const char* up;
  const char* down;
  const char* final_norm;
  const char* head;        // absent when embeddings are tied
  const char* tau;         // + ".weight" [M] and optional ".bias" [1]; learned focal models only
  const char* skipped[2];  // tensors that carry nothing: computed tables that old exports stored
};

struct Architecture {
  const char* model_type;  // config.json's "model_type"
  const char* class_name;  // its "architectures" entry
  TensorNames names;
  // Reads the keys of this architecture beyond those every model has (config.cc).
  absl::Status (*read_config)(ConfigReader& reader, ModelConfig& config);
};

absl::Span<const Architecture> Architectures();
// Null when there is no such row.
const Architecture* FindArchitecture(absl::string_view model_type);

std::string LayerTensorName(const char* pattern, int64_t layer, absl::string_view suffix);

}  // namespace varifocal
