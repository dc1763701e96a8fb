#include "tokenizer/post_processors.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/component.h"

namespace varifocal {
namespace {

// {"ids": [..], ..} of special_tokens[name], appended.
absl::Status AppendSpecial(const Json& specials, const std::string& name, std::vector<int32_t>& out) {
  auto found = specials.find(name);
  if (found == specials.end()) {
    return InvalidArgument("\"special_tokens\" lacks \"", name, "\", which \"single\" needs");
  }
  RETURN_IF_ERROR(CheckKeys(*found, name, {"id", "ids", "tokens"}));
  ASSIGN_OR_RETURN(const Json* ids, GetMember(*found, "ids"));
  if (!ids->is_array()) return InvalidArgument("\"ids\" must be a list");
  for (const Json& id : *ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= 1 << 24) {
      return InvalidArgument("\"ids\" holds ", id.dump(), ", which is not a token id");
    }
    out.push_back(id.get<int32_t>());
  }
  return absl::OkStatus();
}

absl::Status AddTemplate(const Json& json, PostProcessor& out) {
  RETURN_IF_ERROR(CheckKeys(json, "TemplateProcessing", {"single", "pair", "special_tokens"}));
  ASSIGN_OR_RETURN(const Json* single, GetMember(json, "single"));
  ASSIGN_OR_RETURN(const Json* specials, GetMember(json, "special_tokens"));
  if (!single->is_array()) return InvalidArgument("\"single\" must be a list");
  if (!specials->is_object()) return InvalidArgument("\"special_tokens\" must be an object");
  std::vector<int32_t> before, behind;
  bool seen = false;
  for (const Json& part : *single) {
    RETURN_IF_ERROR(CheckKeys(part, "single", {"SpecialToken", "Sequence"}));
    if (part.contains("Sequence") == part.contains("SpecialToken")) {
      return InvalidArgument("a part of \"single\" must have either \"Sequence\" or \"SpecialToken\"");
    }
    if (part.contains("SpecialToken")) {
      ASSIGN_OR_RETURN(std::string name, GetString(part["SpecialToken"], "id"));
      RETURN_IF_ERROR(AppendSpecial(*specials, name, seen ? behind : before));
      continue;
    }
    ASSIGN_OR_RETURN(std::string name, GetString(part["Sequence"], "id"));
    if (seen || name != "A") return InvalidArgument("\"single\" must hold the sequence \"A\" once and no other");
    seen = true;
  }
  if (!seen) return InvalidArgument("\"single\" must hold the sequence \"A\" once and no other");
  out.before.insert(out.before.begin(), before.begin(), before.end());  // a later processor wraps an earlier one
  out.behind.insert(out.behind.end(), behind.begin(), behind.end());
  return absl::OkStatus();
}

absl::Status AddTrim(const Json& json, PostProcessor& out) {
  ASSIGN_OR_RETURN(const std::optional<bool> trims, FindBool(json, "trim_offsets"));
  ASSIGN_OR_RETURN(const std::optional<bool> has_prefix_space, FindBool(json, "add_prefix_space"));
  if (trims.value_or(true)) out.trims.push_back(has_prefix_space.value_or(true));
  return absl::OkStatus();
}

// ["</s>", 2]
absl::StatusOr<int32_t> GetTokenAndId(const Json& json, absl::string_view key) {
  ASSIGN_OR_RETURN(const Json* value, GetMember(json, key));
  const bool is_pair = value->is_array() && value->size() == 2 && (*value)[0].is_string() &&
                       (*value)[1].is_number_unsigned() && (*value)[1].get<uint64_t>() < 1 << 24;
  if (!is_pair) return InvalidArgument("\"", key, "\" is ", value->dump(), ", not [\"token\", id]");
  return (*value)[1].get<int32_t>();
}

// One token before the text and one after it.
absl::Status AddClsSep(const Json& json, PostProcessor& out) {
  RETURN_IF_ERROR(CheckKeys(json, "post_processor", {"sep", "cls", "trim_offsets", "add_prefix_space"}));
  ASSIGN_OR_RETURN(int32_t cls, GetTokenAndId(json, "cls"));
  ASSIGN_OR_RETURN(int32_t sep, GetTokenAndId(json, "sep"));
  out.before.insert(out.before.begin(), cls);
  out.behind.push_back(sep);
  return absl::OkStatus();
}

absl::Status AddRoberta(const Json& json, PostProcessor& out) {
  RETURN_IF_ERROR(AddClsSep(json, out));
  return AddTrim(json, out);
}

// Changes offsets only.
absl::Status AddByteLevel(const Json& json, PostProcessor& out) {
  RETURN_IF_ERROR(CheckKeys(json, "ByteLevel", {"add_prefix_space", "trim_offsets", "use_regex"}));
  return AddTrim(json, out);
}

struct PostProcessorRow {
  absl::string_view type;
  absl::Status (*add)(const Json&, PostProcessor&);
};

constexpr PostProcessorRow kPostProcessors[] = {
    {"TemplateProcessing", AddTemplate},
    {"ByteLevel", AddByteLevel},
    {"RobertaProcessing", AddRoberta},
    {"BertProcessing", AddClsSep},
};

absl::Status Add(const Json& json, PostProcessor& out) {
  ASSIGN_OR_RETURN(absl::string_view type, GetComponentType(json, "post_processor"));
  if (type == "Sequence") {
    RETURN_IF_ERROR(CheckKeys(json, "post_processor", {"processors"}));
    ASSIGN_OR_RETURN(const Json* parts, GetMember(json, "processors"));
    if (!parts->is_array()) return InvalidArgument("\"processors\" must be a list");
    for (const Json& part : *parts) RETURN_IF_ERROR(Add(part, out));
    return absl::OkStatus();
  }
  std::string supported;
  for (const PostProcessorRow& row : kPostProcessors) {
    if (type == row.type) return Annotate(row.add(json, out), absl::StrCat("post_processor ", type));
    absl::StrAppend(&supported, row.type, ", ");
  }
  return UnsupportedType("post_processor", type, absl::StrCat(supported, "Sequence"));
}

}  // namespace

absl::StatusOr<PostProcessor> MakePostProcessor(const Json& post_processor) {
  PostProcessor out;
  if (!post_processor.is_null()) RETURN_IF_ERROR(Add(post_processor, out));
  return out;
}

}  // namespace varifocal
