#include "tokenizer/version_rules.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

bool HasByteLevel(const Json& part) {
  if (!part.is_object()) return false;
  if (StringOf(part, "type") == "ByteLevel") return true;
  const auto inner = part.find("pretokenizers");
  return inner != part.end() && inner->is_array() && std::any_of(inner->begin(), inner->end(), HasByteLevel);
}

class VersionRules {
 public:
  VersionRules(bool is_4, const SideFiles& files, const Json& tokenizer, const Vocabulary& vocabulary,
               const PostProcessor& own)
      : is_4_(is_4), files_(files), tokenizer_(tokenizer), own_(own), file_tokens_(vocabulary), tokens_(vocabulary) {}

  absl::Status Apply() {
    for (const Json& entry : MemberOf(tokenizer_, "added_tokens")) {
      ASSIGN_OR_RETURN(FlaggedToken token, ReadFlaggedToken(entry, "added_tokens"));
      ASSIGN_OR_RETURN(const int64_t id, GetInt(entry, "id"));
      file_tokens_.Place(static_cast<int32_t>(id), std::move(token));
    }
    ASSIGN_OR_RETURN(row_, ChooseClass());
    RETURN_IF_ERROR(ReadListed());
    RETURN_IF_ERROR(ReadNamed());
    RETURN_IF_ERROR(ReadExtra());
    if (!row_->rebuilt) tokens_ = file_tokens_;
    AddTokens();
    RETURN_IF_ERROR(CheckOrder());
    RETURN_IF_ERROR(SetSpecials());
    return SetPrefixSpace();
  }

  VersionTokens Take() && {
    return {.row = row_,
            .tokens = std::move(tokens_),
            .file_tokens = std::move(file_tokens_),
            .before = std::move(before_),
            .behind = std::move(behind_),
            .add_prefix_space = add_prefix_space_};
  }

 private:
  absl::StatusOr<const TokenizerClass*> ChooseClass() const {
    std::string name = StringOf(files_.config, "tokenizer_class");
    if (name.empty()) name = StringOf(files_.model, "tokenizer_class");
    const std::string type = StringOf(files_.model, "model_type");
    const ClassHints hints = {name, type, HasByteLevel(MemberOf(tokenizer_, "pre_tokenizer"))};
    const TokenizerClass* const row = is_4_ ? ClassOfTransformers4(hints) : ClassOfTransformers5(hints);
    if (row != nullptr) return row;
    return InvalidArgument(kTokenizerConfigName,
                           ": no \"tokenizer_class\", and transformers 4.57 has none for "
                           "the model type ",
                           type);
  }

  // The list of tokens with their ids: added_tokens_decoder, or, without it, the older files and tokenizer.json's.
  absl::Status ReadListed() {
    const Json& decoder = MemberOf(files_.config, "added_tokens_decoder");
    has_decoder_ = files_.config.is_object() && files_.config.contains("added_tokens_decoder");
    if (has_decoder_) {
      const std::string place = absl::StrCat(kTokenizerConfigName, ": \"added_tokens_decoder\"");
      if (!decoder.is_object()) return InvalidArgument(place, " is ", decoder.type_name(), "; it must be an object");
      for (const auto& [key, value] : decoder.items()) {
        int32_t id = 0;
        if (!absl::SimpleAtoi(key, &id) || id < 0) {
          return InvalidArgument(place, " has the key \"", key, "\"; it must be a token id");
        }
        ASSIGN_OR_RETURN(FlaggedToken token, ReadFlaggedToken(value, absl::StrCat(place, "[", key, "]")));
        listed_by_content_[token.content] = token;
        listed_[id] = std::move(token);
      }
      return absl::OkStatus();
    }
    if (!files_.added_tokens.is_null() && !files_.added_tokens.is_object()) {
      return InvalidArgument(kAddedTokensName, " is ", files_.added_tokens.type_name(), "; it must be an object");
    }
    const std::set<std::string> specials = NamedTexts();
    for (const auto& [content, id] : files_.added_tokens.items()) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= 1 << 24) {
        return InvalidArgument(kAddedTokensName, " gives \"", content, "\" the id ", id.dump(), "; ids lie in 0..",
                               (1 << 24) - 1);
      }
      const bool is_special = specials.count(content) > 0;
      const FlaggedToken token{.content = content, .normalized = !is_special, .special = is_special};
      listed_[id.get<int32_t>()] = token;
      if (!is_4_) listed_by_content_[content] = token;  // 4.57 loses these names
    }
    for (const auto& [id, token] : file_tokens_.tokens()) {
      listed_[id] = token;
      listed_by_content_[token.content] = token;
    }
    return absl::OkStatus();
  }

  // The value of an attribute: of special_tokens_map.json where that is read, else of tokenizer_config.json.
  struct Stated {
    const Json* value = nullptr;  // null: not stated
    bool in_map = false;
  };
  Stated Find(absl::string_view key) const {
    const auto in = [&](const Json& object) -> const Json* {
      return object.is_object() && object.contains(std::string(key)) ? &object[std::string(key)] : nullptr;
    };
    if (const Json* value = has_decoder_ ? nullptr : in(files_.special_tokens_map)) return {value, true};
    return {in(files_.config), false};
  }
  static std::string PlaceOf(const Stated& stated, absl::string_view key) {
    return absl::StrCat(stated.in_map ? kTokensMapName : kTokenizerConfigName, ": \"", key, "\"");
  }

  // Contents of stated special tokens, as added_tokens.json compares them.
  std::set<std::string> NamedTexts() const {
    std::set<std::string> texts;
    const auto add = [&](const Json& value, bool in_map) {
      if (value.is_string()) texts.insert(value.get<std::string>());
      if (in_map && value.is_object()) texts.insert(StringOf(value, "content"));
    };
    for (absl::string_view key : kNamedTokenKeys) {
      if (const Stated stated = Find(key); stated.value != nullptr) add(*stated.value, stated.in_map);
    }
    for (absl::string_view key : {"additional_special_tokens", "extra_special_tokens"}) {
      if (is_4_ && key == "extra_special_tokens") continue;
      for (const Json* from : {&files_.config, &files_.special_tokens_map}) {
        const Json& list = MemberOf(*from, key);
        for (size_t i = 0; list.is_array() && i < list.size(); ++i) add(list[i], from != &files_.config);
      }
    }
    return texts;
  }

  absl::Status ReadNamed() {
    for (size_t i = 0; i < std::size(kNamedTokenKeys); ++i) {
      const absl::string_view key = kNamedTokenKeys[i];
      const Stated stated = Find(key);
      if (stated.value == nullptr) {
        if (row_->defaults[i] != nullptr) named_.emplace_back(key, SpecialToken{PlainSpecial(row_->defaults[i]), true});
        continue;
      }
      if (stated.value->is_null()) continue;
      ASSIGN_OR_RETURN(SpecialToken special, ReadSpecialToken(*stated.value, PlaceOf(stated, key), stated.in_map));
      const auto listed = listed_by_content_.find(special.token.content);
      if (listed != listed_by_content_.end()) special = {listed->second, false};
      named_.emplace_back(key, std::move(special));
    }
    for (auto& [key, special] : named_) {
      if (is_4_ && row_->wraps_names) special.is_text = false;
    }
    return absl::OkStatus();
  }

  // A list of tokens, or of 5.24 an object of named ones.
  absl::Status ReadExtra() {
    const Stated additional = Find("additional_special_tokens"), extra = Find("extra_special_tokens");
    if (is_4_) {
      RETURN_IF_ERROR(
          ReadList("additional_special_tokens", {&MemberOf(files_.config, "additional_special_tokens"), false}));
      if (additional.in_map) RETURN_IF_ERROR(ReadList("additional_special_tokens", additional));
      if (extra.value != nullptr && extra.value->is_array()) {
        return InvalidArgument(PlaceOf(extra, "extra_special_tokens"), " is a list, which transformers 4.57 refuses");
      }
      return ReadObject("extra_special_tokens", extra);
    }
    if (files_.config.is_object()) {
      for (const auto& [key, value] : files_.config.items()) {  // named by the model's own keys
        const bool is_known =
            std::find(std::begin(kNamedTokenKeys), std::end(kNamedTokenKeys), key) != std::end(kNamedTokenKeys);
        if (is_known || !absl::EndsWith(key, "_token") || !value.is_string()) continue;
        named_.emplace_back(key, SpecialToken{PlainSpecial(value.get<std::string>()), true});
        unordered_.insert(value.get<std::string>());
      }
    }
    const Json& of_config = MemberOf(files_.config, "extra_special_tokens");
    const bool has_extra = of_config.is_structured() && !of_config.empty();
    const Stated first =
        has_extra ? Stated{&of_config, false} : Stated{&MemberOf(files_.config, "additional_special_tokens"), false};
    RETURN_IF_ERROR(ReadEither(has_extra ? "extra_special_tokens" : "additional_special_tokens", first));
    if (extra.in_map) RETURN_IF_ERROR(ReadEither("extra_special_tokens", extra));
    const bool config_has_any = has_extra || !first.value->is_null();
    if (additional.in_map && !config_has_any) {
      RETURN_IF_ERROR(ReadList("additional_special_tokens", {additional.value, false}));
    }
    return absl::OkStatus();
  }
  absl::Status ReadEither(absl::string_view key, const Stated& stated) {
    return stated.value->is_object() ? ReadObject(key, stated) : ReadList(key, stated);
  }
  absl::Status ReadList(absl::string_view key, const Stated& stated) {
    if (stated.value == nullptr || stated.value->is_null()) return absl::OkStatus();
    if (!stated.value->is_array()) {
      return InvalidArgument(PlaceOf(stated, key), " is ", stated.value->type_name(), "; it must be a list");
    }
    for (const Json& item : *stated.value) {
      ASSIGN_OR_RETURN(SpecialToken special, ReadSpecialToken(item, PlaceOf(stated, key), stated.in_map));
      extra_.push_back(std::move(special));
    }
    return absl::OkStatus();
  }
  absl::Status ReadObject(absl::string_view key, const Stated& stated) {
    if (stated.value == nullptr || stated.value->is_null()) return absl::OkStatus();
    if (!stated.value->is_object()) {
      return InvalidArgument(PlaceOf(stated, key), " is ", stated.value->type_name(), "; it must be an object");
    }
    std::vector<std::pair<std::string, SpecialToken>>& target = is_4_ ? late_named_ : named_;
    for (const auto& [name, value] : stated.value->items()) {
      ASSIGN_OR_RETURN(SpecialToken special, ReadSpecialToken(value, PlaceOf(stated, key), false));
      unordered_.insert(special.token.content);
      target.emplace_back(name, std::move(special));
    }
    return absl::OkStatus();
  }

  void AddTokens() {
    std::vector<FlaggedToken> added;
    std::set<std::string, std::less<>> present;
    for (const auto& [id, token] : tokens_.tokens()) present.insert(token.content);
    for (const auto& [id, token] : listed_) {
      if (!tokens_.HoldsExactly(token)) added.push_back(token);
    }
    for (const FlaggedToken& token : added) present.insert(token.content);

    std::vector<SpecialToken> specials;
    std::set<std::string> names, seen;
    const auto append = [&](const SpecialToken& special) {
      if (special.token.content.empty()) return;
      if (is_4_ && !seen.insert(special.token.content).second) return;
      specials.push_back(special);
    };
    for (const auto& [key, special] : named_) append(special);
    for (const auto& [key, special] : named_) names.insert(special.token.content);
    const std::set<std::string> seen_before_list = seen;  // repetitions inside the list are kept
    for (const SpecialToken& special : extra_) {
      if (seen_before_list.count(special.token.content) > 0) continue;
      seen.erase(special.token.content);
      append(special);
    }
    for (const auto& [key, special] : late_named_) append(special);
    if (is_4_) {
      for (const SpecialToken& special : specials) names.insert(special.token.content);
    }
    for (const SpecialToken& special : specials) {
      // 4.57 adds a token with flags also where its text is there: its flags may change.
      const bool compares_text = special.is_text || !is_4_;
      if (compares_text && present.count(special.token.content) > 0) continue;
      if (std::find(added.begin(), added.end(), special.token) != added.end()) continue;
      added.push_back(special.token);
    }
    for (FlaggedToken& token : added) token.special = token.special || names.count(token.content) > 0;
    tokens_.AddAll(added, is_4_);
    if (is_4_ || !row_->wraps_names) return;
    for (const SpecialToken& special : specials) tokens_.Add(PlainSpecial(special.token.content), false);
  }

  // Ids of new tokens depend on their order, which members of an object do not have.
  absl::Status CheckOrder() const {
    std::vector<std::string> placed;
    for (const auto& [id, token] : tokens_.tokens()) {
      if (unordered_.count(token.content) == 0 || file_tokens_.IdOf(token.content)) continue;
      const std::string& content = token.content;
      const auto is_it = [&content](const auto& entry) { return entry.second.content == content; };
      if (std::any_of(listed_.begin(), listed_.end(), is_it)) continue;
      placed.push_back(token.content);
    }
    if (placed.size() < 2) return absl::OkStatus();
    return InvalidArgument(kTokenizerConfigName, " names \"", placed[0], "\" and \"", placed[1],
                           "\", which tokenizer.json lacks; their ids depend on the order of the "
                           "members of an object, list them in \"added_tokens_decoder\"");
  }

  absl::StatusOr<std::vector<int32_t>> IdOfNamed(absl::string_view key, absl::string_view flag) const {
    for (const auto& [name, special] : named_) {
      if (name != key) continue;
      if (const auto id = tokens_.IdOf(special.token.content)) return std::vector<int32_t>{*id};
    }
    return InvalidArgument(kTokenizerConfigName, ": \"", flag, "\" is true, and there is no \"", key, "\"");
  }
  // True and false as Python sees them.
  static bool IsTruthy(const Json& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number()) return value.get<double>() != 0;
    return !value.is_null() && !(value.is_structured() && value.empty()) && value != "";
  }
  bool Flag(const char* key, bool missing) const {
    const bool is_stated = files_.config.is_object() && files_.config.contains(key);
    return is_stated ? IsTruthy(MemberOf(files_.config, key)) : missing;
  }

  absl::Status SetSpecials() {
    before_ = own_.before;
    behind_ = own_.behind;
    if (row_->specials == TokenizerClass::kKept) return absl::OkStatus();
    before_.clear();
    behind_.clear();
    if (row_->specials == TokenizerClass::kEmpty) return absl::OkStatus();
    if (Flag("add_bos_token", row_->add_bos_default)) {
      ASSIGN_OR_RETURN(before_, IdOfNamed("bos_token", "add_bos_token"));
    }
    if (Flag("add_eos_token", false)) {
      ASSIGN_OR_RETURN(behind_, IdOfNamed("eos_token", "add_eos_token"));
    }
    return absl::OkStatus();
  }

  absl::Status SetPrefixSpace() {
    const Json& part = MemberOf(tokenizer_, "pre_tokenizer");
    if (!row_->own_prefix_space || StringOf(part, "type") != "ByteLevel") return absl::OkStatus();
    const Json& stated = MemberOf(files_.config, "add_prefix_space");
    if (!stated.is_boolean() && files_.config.is_object() && files_.config.contains("add_prefix_space")) {
      if (stated.is_null()) return absl::OkStatus();
      return InvalidArgument(kTokenizerConfigName, ": \"add_prefix_space\" must be true or false");
    }
    const bool is_wanted = stated.is_boolean() && stated.get<bool>();
    if (MemberOf(part, "add_prefix_space") != Json(is_wanted)) add_prefix_space_ = is_wanted;
    return absl::OkStatus();
  }

  const bool is_4_;
  const SideFiles& files_;
  const Json& tokenizer_;
  const PostProcessor& own_;
  const TokenizerClass* row_ = nullptr;
  bool has_decoder_ = false;
  std::map<int32_t, FlaggedToken> listed_;
  std::map<std::string, FlaggedToken> listed_by_content_;
  std::vector<std::pair<std::string, SpecialToken>> named_, late_named_;  // by key
  std::vector<SpecialToken> extra_;
  std::set<std::string> unordered_;  // contents of tokens that are members of an object
  TokenList file_tokens_, tokens_;
  std::vector<int32_t> before_, behind_;
  std::optional<bool> add_prefix_space_;
};

}  // namespace

absl::StatusOr<VersionTokens> ApplyVersionRules(bool is_4, const SideFiles& files, const Json& tokenizer,
                                                const Vocabulary& vocabulary, const PostProcessor& own) {
  VersionRules rules(is_4, files, tokenizer, vocabulary, own);
  RETURN_IF_ERROR(rules.Apply());
  return std::move(rules).Take();
}

}  // namespace varifocal
