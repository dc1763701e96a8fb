#include "tokenizer/token_rules.h"

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/python_json.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

// Null where there is no such file.
absl::StatusOr<Json> ReadObject(const std::string& directory, const char* name) {
  const std::string path = absl::StrCat(directory, "/", name);
  if (!FileExists(path, FileUse::kModel)) return Json();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kConfigFile));
  absl::StatusOr<Json> json = ParsePythonJson(text);
  if (!json.ok()) return Annotate(json.status(), path);
  if (json->is_object()) return json;
  return InvalidArgument(path, " is ", json->type_name(), "; it must be an object");
}

}  // namespace

absl::StatusOr<TokenizerRules> ParseTokenizerRules(absl::string_view text) {
  if (text.empty()) return TokenizerRules::kAgreed;
  if (text == "4") return TokenizerRules::kTransformers4;
  if (text == "5") return TokenizerRules::kTransformers5;
  return InvalidArgument("tokenizer-rules is \"", text, "\"; it must be 4 or 5");
}

absl::StatusOr<SideFiles> ReadSideFiles(const std::string& directory) {
  SideFiles files;
  ASSIGN_OR_RETURN(files.config, ReadObject(directory, "tokenizer_config.json"));
  ASSIGN_OR_RETURN(files.special_tokens_map, ReadObject(directory, "special_tokens_map.json"));
  ASSIGN_OR_RETURN(files.added_tokens, ReadObject(directory, "added_tokens.json"));
  if (!files.empty()) {
    ASSIGN_OR_RETURN(files.model, ReadObject(directory, "config.json"));
  }
  return files;
}

}  // namespace varifocal
