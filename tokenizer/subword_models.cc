#include "tokenizer/subword_models.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/bpe.h"
#include "tokenizer/component.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_lookup.h"

namespace varifocal {
namespace {

using MadeModel = absl::StatusOr<std::unique_ptr<const SubwordModel>>;

struct ModelRow {
  absl::string_view type;
  MadeModel (*make)(const Json&, bool words_are_bytes);
};

constexpr ModelRow kModels[] = {
    {"BPE", MakeBpe},
    {"Unigram", MakeUnigram},
    {"WordPiece", MakeWordPiece},
    {"WordLevel", MakeWordLevel},
};

// Old files do not name the type; it follows from their other keys.
absl::StatusOr<absl::string_view> ModelType(const Json& model) {
  if (model.is_object() && !model.contains("type")) {
    if (model.contains("merges")) return "BPE";
    if (model.contains("vocab") && model["vocab"].is_array()) return "Unigram";
  }
  return GetComponentType(model, "model");
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeSubwordModel(const Json& model, bool words_are_bytes) {
  ASSIGN_OR_RETURN(absl::string_view type, ModelType(model));
  std::string supported;
  for (const ModelRow& row : kModels) {
    if (type == row.type) {
      return Annotate(row.make(model, words_are_bytes), absl::StrCat("model ", type));
    }
    absl::StrAppend(&supported, supported.empty() ? "" : ", ", row.type);
  }
  return UnsupportedType("model", type, supported);
}

}  // namespace varifocal
