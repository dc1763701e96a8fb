#include "server/hosting/generation_defaults.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr const char* kSamplingKeys[] = {
    "do_sample", "temperature",        "top_k",     "top_p",          "min_p",
    "typical_p", "repetition_penalty", "num_beams", "length_penalty", "no_repeat_ngram_size",
};
constexpr const char* kIdKeys[] = {"pad_token_id", "bos_token_id"};

std::string Shown(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); }

absl::StatusOr<std::string> Parse(absl::string_view text, int64_t vocabulary_size) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  if (!json.is_object()) return InvalidArgument("the file holds ", json.type_name(), ", not an object");
  for (const char* key : kIdKeys) {
    const auto value = json.find(key);
    if (value == json.end() || value->is_null()) continue;
    if (!value->is_number_integer() || value->get<int64_t>() < 0 || value->get<int64_t>() >= vocabulary_size)
      return InvalidArgument("\"", key, "\" is ", Shown(*value), "; a token id must be in 0..", vocabulary_size - 1);
  }
  std::vector<std::string> settings;
  for (const char* key : kSamplingKeys) {
    const auto value = json.find(key);
    if (value != json.end() && !value->is_null()) settings.push_back(absl::StrCat(key, "=", Shown(*value)));
  }
  return absl::StrJoin(settings, " ");
}

}  // namespace

absl::StatusOr<std::string> ReadSamplingDefaults(const std::string& directory, int64_t vocabulary_size) {
  const std::string path = absl::StrCat(directory, "/generation_config.json");
  if (!FileExists(path, FileUse::kModel)) return std::string();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kConfigFile));
  return Annotate(Parse(text, vocabulary_size), path);
}

}  // namespace varifocal
