#include "tokenizer/token_changes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tokenizer/component.h"

namespace varifocal {
namespace {

constexpr char kConfigName[] = "tokenizer_config.json";
constexpr char kMapName[] = "special_tokens_map.json";
constexpr char kAddedName[] = "added_tokens.json";

// The attributes of special tokens, in the order in which they are added.
constexpr absl::string_view kNamedKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

// One version's class of tokenizer. Null: no default for the attribute.
struct ClassRow {
  absl::string_view name;                       // without "Fast"
  const char* defaults[std::size(kNamedKeys)];  // of kNamedKeys
  enum {
    kKept,
    kByFlags,
    kEmpty
  } specials = kKept;             // the post-processor is the file's, rebuilt from the flags, or nothing
  bool add_bos_default = false;   // of kByFlags
  bool rebuilt = false;           // from the vocabulary alone, without tokenizer.json's added tokens
  bool own_prefix_space = false;  // add_prefix_space is the config's, false by default
  bool wraps_names = false;       // named tokens are added with plain flags, whatever they had
};

constexpr ClassRow kGeneric4 = {.name = "", .defaults = {}, .own_prefix_space = true};
constexpr ClassRow kClasses4[] = {
    {.name = "LlamaTokenizer",
     .defaults = {"<s>", "</s>", "<unk>"},
     .specials = ClassRow::kByFlags,
     .add_bos_default = true},
    {.name = "CodeLlamaTokenizer",
     .defaults = {"<s>", "</s>", "<unk>"},
     .specials = ClassRow::kByFlags,
     .add_bos_default = true,
     .own_prefix_space = true},
    {.name = "GemmaTokenizer",
     .defaults = {"<bos>", "<eos>", "<unk>", nullptr, "<pad>"},
     .specials = ClassRow::kByFlags,
     .add_bos_default = true,
     .own_prefix_space = true},
    {.name = "CohereTokenizer",
     .defaults = {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>"},
     .specials = ClassRow::kByFlags,
     .add_bos_default = true,
     .own_prefix_space = true},
    {.name = "GPTNeoXTokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .specials = ClassRow::kByFlags,
     .own_prefix_space = true},
    {.name = "GPT2Tokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .own_prefix_space = true},
    {.name = "CodeGenTokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .own_prefix_space = true},
    {.name = "Qwen2Tokenizer",
     .defaults = {nullptr, "<|endoftext|>", "<|endoftext|>", nullptr, "<|endoftext|>"},
     .own_prefix_space = true,
     .wraps_names = true},
    {.name = "BloomTokenizer", .defaults = {"<s>", "</s>", "<unk>", nullptr, "<pad>"}, .own_prefix_space = true},
};

constexpr ClassRow kGeneric5 = {.name = "", .defaults = {}};
constexpr ClassRow kClasses5[] = {
    {.name = "LlamaTokenizer", .defaults = {"<s>", "</s>", "<unk>"}, .rebuilt = true},
    {.name = "CodeLlamaTokenizer", .defaults = {"<s>", "</s>", "<unk>"}, .rebuilt = true},
    {.name = "GemmaTokenizer",
     .defaults = {"<bos>", "<eos>", "<unk>", nullptr, "<pad>", nullptr, "<mask>"},
     .rebuilt = true},
    {.name = "CohereTokenizer",
     .defaults = {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"},
     .rebuilt = true},
    {.name = "GPTNeoXTokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", nullptr, "<|padding|>"},
     .specials = ClassRow::kEmpty,
     .rebuilt = true,
     .own_prefix_space = true},
    {.name = "GPT2Tokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .rebuilt = true,
     .own_prefix_space = true},
    {.name = "CodeGenTokenizer",
     .defaults = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
     .rebuilt = true,
     .own_prefix_space = true},
    {.name = "Qwen2Tokenizer",
     .defaults = {nullptr, "<|endoftext|>", "<|endoftext|>", nullptr, "<|endoftext|>"},
     .rebuilt = true,
     .wraps_names = true},
};

// The class of a model type, for directories that name none; null: the generic one.
struct ModelTypeRow {
  absl::string_view type;
  const char* class4;
  const char* class5;
  bool overrides5 = false;  // 5.24 takes its own class whatever the directory names
};
constexpr ModelTypeRow kModelTypes[] = {
    {"llama", "LlamaTokenizer", nullptr},
    {"mistral", "LlamaTokenizer", nullptr, true},
    {"qwen2", "Qwen2Tokenizer", "Qwen2Tokenizer", true},
    {"qwen3", "Qwen2Tokenizer", "Qwen2Tokenizer"},
    {"gemma3_text", "GemmaTokenizer", "GemmaTokenizer"},
    {"olmo2", "GPTNeoXTokenizer", nullptr, true},
    {"gpt2", "GPT2Tokenizer", "GPT2Tokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer", "GPTNeoXTokenizer"},
    {"phi3", "LlamaTokenizer", nullptr, true},
    {"granite", "GPT2Tokenizer", nullptr, true},
};

std::string StringOf(const Json& object, absl::string_view key) {
  if (!object.is_object()) return "";
  const auto found = object.find(std::string(key));
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const ClassRow& FindClass(absl::Span<const ClassRow> rows, absl::string_view name, const ClassRow& generic) {
  for (const ClassRow& row : rows) {
    if (row.name == name) return row;
  }
  return generic;
}

bool HasByteLevel(const Json& part) {
  if (!part.is_object()) return false;
  if (StringOf(part, "type") == "ByteLevel") return true;
  const auto inner = part.find("pretokenizers");
  return inner != part.end() && inner->is_array() && std::any_of(inner->begin(), inner->end(), HasByteLevel);
}

const Json& Member(const Json& object, absl::string_view key) {
  static const Json& null = *new Json;
  if (!object.is_object()) return null;
  const auto found = object.find(std::string(key));
  return found == object.end() ? null : *found;
}

struct Token {
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
  bool operator==(const Token&) const = default;
};

Token PlainSpecial(absl::string_view content) { return {.content = std::string(content), .special = true}; }

absl::StatusOr<Token> ReadToken(const Json& json, const std::string& place, bool is_special = false) {
  RETURN_IF_ERROR(
      CheckKeys(json, place, {"content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type", "id"}));
  const auto read = [&]() -> absl::StatusOr<Token> {
    Token token;
    ASSIGN_OR_RETURN(token.content, GetString(json, "content"));
    const auto flag = [&](const char* key, bool missing, bool& out) -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<bool> value, FindBool(json, key));
      out = value.value_or(missing);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(flag("special", false, token.special));
    token.special = token.special || is_special;
    RETURN_IF_ERROR(flag("single_word", false, token.single_word));
    RETURN_IF_ERROR(flag("lstrip", false, token.lstrip));
    RETURN_IF_ERROR(flag("rstrip", false, token.rstrip));
    RETURN_IF_ERROR(flag("normalized", !token.special, token.normalized));
    return token;
  };
  absl::StatusOr<Token> token = read();
  if (!token.ok()) return Annotate(token.status(), place);
  return token;
}

// A value of a special token: a string, or an object with flags.
struct Special {
  Token token;
  bool is_text = false;  // a string: flags are not stated
};

// `any_object`: of special_tokens_map.json; in tokenizer_config.json objects have "__type": "AddedToken".
absl::StatusOr<Special> ReadSpecial(const Json& json, const std::string& place, bool any_object) {
  if (json.is_string()) return Special{PlainSpecial(json.get<std::string>()), true};
  if (json.is_object() && (any_object || StringOf(json, "__type") == "AddedToken")) {
    ASSIGN_OR_RETURN(Token token, ReadToken(json, place, any_object));
    return Special{std::move(token), false};
  }
  return absl::InvalidArgumentError(absl::StrCat(place, " is ",
                                                 json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60),
                                                 "; it must be a string or an object with \"__type\": \"AddedToken\""));
}

// Added tokens as the library keeps them: a token is placed at its id in the vocabulary or behind all ids; one whose
// content is there already takes the new flags, and remains special.
class TokenList {
 public:
  explicit TokenList(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  // In one call of the library, until version 0.22 or newer. The older one leaves out tokens that are equal to one from
  // before the call, and still finds a special token in the text as it was, before normalization, where it once did.
  void AddAll(const std::vector<Token>& tokens, bool is_older) {
    std::vector<Token> added;
    for (const Token& token : tokens) {
      if (!is_older || !HoldsExactly(token)) added.push_back(token);
    }
    for (const Token& token : added) Add(token, is_older);
  }
  void Add(const Token& token, bool is_older) {
    if (token.content.empty()) return;
    if (const auto found = by_content_.find(token.content); found != by_content_.end()) {
      Token& other = tokens_[found->second].second;
      const Token before = std::exchange(other, token);
      other.special = token.special || before.special;
      if (is_older && before.special && !before.normalized) other.normalized = false;
      return;
    }
    int32_t id = std::max<int32_t>(vocabulary_->entry_count(), id_max_ + 1);
    if (const auto known = vocabulary_->Find(token.content)) id = *known;
    Place(id, token);
  }
  void Place(int32_t id, Token token) {
    id_max_ = std::max(id_max_, id);
    by_content_.emplace(token.content, tokens_.size());
    tokens_.emplace_back(id, std::move(token));
  }
  const std::pair<int32_t, Token>* Find(absl::string_view content) const {
    const auto found = by_content_.find(content);
    return found == by_content_.end() ? nullptr : &tokens_[found->second];
  }
  bool HoldsExactly(const Token& token) const {
    const std::pair<int32_t, Token>* found = Find(token.content);
    return found != nullptr && found->second == token;
  }
  std::optional<int32_t> IdOf(absl::string_view content) const {
    if (const auto* found = Find(content)) return found->first;
    return vocabulary_->Find(content);
  }
  const std::vector<std::pair<int32_t, Token>>& tokens() const { return tokens_; }

  Json ToJson() const {
    Json list = Json::array();
    for (const auto& [id, token] : tokens_) {
      list.push_back({{"id", id},
                      {"content", token.content},
                      {"single_word", token.single_word},
                      {"lstrip", token.lstrip},
                      {"rstrip", token.rstrip},
                      {"normalized", token.normalized},
                      {"special", token.special}});
    }
    return list;
  }

 private:
  const Vocabulary* vocabulary_;
  std::vector<std::pair<int32_t, Token>> tokens_;
  absl::flat_hash_map<std::string, size_t> by_content_;  // index into tokens_
  int32_t id_max_ = -1;
};

// The tokenizer that one version makes of the files.
class VersionRules {
 public:
  VersionRules(bool is_4, const SideFiles& files, const Json& tokenizer, const Vocabulary& vocabulary,
               const PostProcessor& own)
      : is_4_(is_4), files_(files), tokenizer_(tokenizer), own_(own), file_tokens_(vocabulary), tokens_(vocabulary) {}

  absl::Status Apply() {
    for (const Json& entry : Member(tokenizer_, "added_tokens")) {
      ASSIGN_OR_RETURN(Token token, ReadToken(entry, "added_tokens"));
      ASSIGN_OR_RETURN(const int64_t id, GetInt(entry, "id"));
      file_tokens_.Place(static_cast<int32_t>(id), std::move(token));
    }
    row_ = &ChooseClass();
    RETURN_IF_ERROR(ReadListed());
    RETURN_IF_ERROR(ReadNamed());
    RETURN_IF_ERROR(ReadExtra());
    if (!row_->rebuilt) tokens_ = file_tokens_;
    AddTokens();
    RETURN_IF_ERROR(CheckOrder());
    RETURN_IF_ERROR(SetSpecials());
    return SetPrefixSpace();
  }

  const ClassRow& row() const { return *row_; }
  const TokenList& tokens() const { return tokens_; }
  const TokenList& file_tokens() const { return file_tokens_; }
  const std::vector<int32_t>& before() const { return before_; }
  const std::vector<int32_t>& behind() const { return behind_; }
  const std::optional<bool>& add_prefix_space() const { return add_prefix_space_; }

 private:
  const ClassRow& ChooseClass() const {
    std::string name = StringOf(files_.config, "tokenizer_class");
    if (name.empty()) name = StringOf(files_.model, "tokenizer_class");
    name = std::string(absl::StripSuffix(name, "Fast"));
    const std::string type = StringOf(files_.model, "model_type");
    const auto model = std::find_if(std::begin(kModelTypes), std::end(kModelTypes),
                                    [&](const ModelTypeRow& row) { return row.type == type; });
    const bool is_known = model != std::end(kModelTypes);
    if (is_4_) {
      if (name.empty() && is_known) name = model->class4;
      return FindClass(kClasses4, name, kGeneric4);
    }
    const std::string of_type = is_known && model->class5 != nullptr ? model->class5 : "";
    // A Llama class over a byte-level file is a mistake of the directory; 5.24 takes the file as it is.
    const bool is_mistaken = name == "LlamaTokenizer" && HasByteLevel(Member(tokenizer_, "pre_tokenizer"));
    if (is_mistaken && !(is_known && model->overrides5)) return kGeneric5;
    if (name.empty() || (is_known && model->overrides5 && name != of_type)) name = of_type;
    return FindClass(kClasses5, name, kGeneric5);
  }

  // The list of tokens with their ids: added_tokens_decoder, or, without it, the older files and tokenizer.json's.
  absl::Status ReadListed() {
    const Json& decoder = Member(files_.config, "added_tokens_decoder");
    has_decoder_ = files_.config.is_object() && files_.config.contains("added_tokens_decoder");
    if (has_decoder_) {
      const std::string place = absl::StrCat(kConfigName, ": \"added_tokens_decoder\"");
      if (!decoder.is_object()) {
        return absl::InvalidArgumentError(absl::StrCat(place, " is ", decoder.type_name(), "; it must be an object"));
      }
      for (const auto& [key, value] : decoder.items()) {
        int32_t id = 0;
        if (!absl::SimpleAtoi(key, &id) || id < 0) {
          return absl::InvalidArgumentError(absl::StrCat(place, " has the key \"", key, "\"; it must be a token id"));
        }
        ASSIGN_OR_RETURN(Token token, ReadToken(value, absl::StrCat(place, "[", key, "]")));
        listed_by_content_[token.content] = token;
        listed_[id] = std::move(token);
      }
      return absl::OkStatus();
    }
    if (!files_.added_tokens.is_null() && !files_.added_tokens.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(kAddedName, " is ", files_.added_tokens.type_name(), "; it must be an object"));
    }
    const std::set<std::string> specials = NamedTexts();
    for (const auto& [content, id] : files_.added_tokens.items()) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= 1 << 24) {
        return absl::InvalidArgumentError(
            absl::StrCat(kAddedName, " gives \"", content, "\" the id ", id.dump(), "; ids lie in 0..", (1 << 24) - 1));
      }
      const bool is_special = specials.count(content) > 0;
      const Token token{.content = content, .normalized = !is_special, .special = is_special};
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
    return absl::StrCat(stated.in_map ? kMapName : kConfigName, ": \"", key, "\"");
  }

  // Contents of stated special tokens, as added_tokens.json compares them.
  std::set<std::string> NamedTexts() const {
    std::set<std::string> texts;
    const auto add = [&](const Json& value, bool in_map) {
      if (value.is_string()) texts.insert(value.get<std::string>());
      if (in_map && value.is_object()) texts.insert(StringOf(value, "content"));
    };
    for (absl::string_view key : kNamedKeys) {
      if (const Stated stated = Find(key); stated.value != nullptr) add(*stated.value, stated.in_map);
    }
    for (absl::string_view key : {"additional_special_tokens", "extra_special_tokens"}) {
      if (is_4_ && key == "extra_special_tokens") continue;
      for (const Json* from : {&files_.config, &files_.special_tokens_map}) {
        const Json& list = Member(*from, key);
        for (size_t i = 0; list.is_array() && i < list.size(); ++i) add(list[i], from != &files_.config);
      }
    }
    return texts;
  }

  absl::Status ReadNamed() {
    for (size_t i = 0; i < std::size(kNamedKeys); ++i) {
      const absl::string_view key = kNamedKeys[i];
      const Stated stated = Find(key);
      if (stated.value == nullptr) {
        if (row_->defaults[i] != nullptr) named_.emplace_back(key, Special{PlainSpecial(row_->defaults[i]), true});
        continue;
      }
      if (stated.value->is_null()) continue;
      ASSIGN_OR_RETURN(Special special, ReadSpecial(*stated.value, PlaceOf(stated, key), stated.in_map));
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
          ReadList("additional_special_tokens", {&Member(files_.config, "additional_special_tokens"), false}));
      if (additional.in_map) RETURN_IF_ERROR(ReadList("additional_special_tokens", additional));
      if (extra.value != nullptr && extra.value->is_array()) {
        return absl::InvalidArgumentError(
            absl::StrCat(PlaceOf(extra, "extra_special_tokens"), " is a list, which transformers 4.57 refuses"));
      }
      return ReadObject("extra_special_tokens", extra);
    }
    if (files_.config.is_object()) {
      for (const auto& [key, value] : files_.config.items()) {  // named by the model's own keys
        const bool is_known = std::find(std::begin(kNamedKeys), std::end(kNamedKeys), key) != std::end(kNamedKeys);
        if (is_known || !absl::EndsWith(key, "_token") || !value.is_string()) continue;
        named_.emplace_back(key, Special{PlainSpecial(value.get<std::string>()), true});
        unordered_.insert(value.get<std::string>());
      }
    }
    const Json& of_config = Member(files_.config, "extra_special_tokens");
    const bool has_extra = of_config.is_structured() && !of_config.empty();
    const Stated first =
        has_extra ? Stated{&of_config, false} : Stated{&Member(files_.config, "additional_special_tokens"), false};
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
      return absl::InvalidArgumentError(
          absl::StrCat(PlaceOf(stated, key), " is ", stated.value->type_name(), "; it must be a list"));
    }
    for (const Json& item : *stated.value) {
      ASSIGN_OR_RETURN(Special special, ReadSpecial(item, PlaceOf(stated, key), stated.in_map));
      extra_.push_back(std::move(special));
    }
    return absl::OkStatus();
  }
  absl::Status ReadObject(absl::string_view key, const Stated& stated) {
    if (stated.value == nullptr || stated.value->is_null()) return absl::OkStatus();
    if (!stated.value->is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(PlaceOf(stated, key), " is ", stated.value->type_name(), "; it must be an object"));
    }
    std::vector<std::pair<std::string, Special>>& target = is_4_ ? late_named_ : named_;
    for (const auto& [name, value] : stated.value->items()) {
      ASSIGN_OR_RETURN(Special special, ReadSpecial(value, PlaceOf(stated, key), false));
      unordered_.insert(special.token.content);
      target.emplace_back(name, std::move(special));
    }
    return absl::OkStatus();
  }

  void AddTokens() {
    std::vector<Token> added;
    std::set<std::string, std::less<>> present;
    for (const auto& [id, token] : tokens_.tokens()) present.insert(token.content);
    for (const auto& [id, token] : listed_) {
      if (!tokens_.HoldsExactly(token)) added.push_back(token);
    }
    for (const Token& token : added) present.insert(token.content);

    std::vector<Special> specials;
    std::set<std::string> names, seen;
    const auto append = [&](const Special& special) {
      if (special.token.content.empty()) return;
      if (is_4_ && !seen.insert(special.token.content).second) return;
      specials.push_back(special);
    };
    for (const auto& [key, special] : named_) append(special);
    for (const auto& [key, special] : named_) names.insert(special.token.content);
    const std::set<std::string> seen_before_list = seen;  // repetitions inside the list are kept
    for (const Special& special : extra_) {
      if (seen_before_list.count(special.token.content) > 0) continue;
      seen.erase(special.token.content);
      append(special);
    }
    for (const auto& [key, special] : late_named_) append(special);
    if (is_4_) {
      for (const Special& special : specials) names.insert(special.token.content);
    }
    for (const Special& special : specials) {
      // 4.57 adds a token with flags also where its text is there: its flags may change.
      const bool compares_text = special.is_text || !is_4_;
      if (compares_text && present.count(special.token.content) > 0) continue;
      if (std::find(added.begin(), added.end(), special.token) != added.end()) continue;
      added.push_back(special.token);
    }
    for (Token& token : added) token.special = token.special || names.count(token.content) > 0;
    tokens_.AddAll(added, is_4_);
    if (is_4_ || !row_->wraps_names) return;
    for (const Special& special : specials) tokens_.Add(PlainSpecial(special.token.content), false);
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
    return absl::InvalidArgumentError(
        absl::StrCat(kConfigName, " names \"", placed[0], "\" and \"", placed[1],
                     "\", which tokenizer.json lacks; their ids depend on the order of the "
                     "members of an object, list them in \"added_tokens_decoder\""));
  }

  absl::StatusOr<std::vector<int32_t>> IdOfNamed(absl::string_view key, absl::string_view flag) const {
    for (const auto& [name, special] : named_) {
      if (name != key) continue;
      if (const auto id = tokens_.IdOf(special.token.content)) return std::vector<int32_t>{*id};
    }
    return absl::InvalidArgumentError(
        absl::StrCat(kConfigName, ": \"", flag, "\" is true, and there is no \"", key, "\""));
  }
  // True and false as Python sees them.
  static bool IsTruthy(const Json& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number()) return value.get<double>() != 0;
    return !value.is_null() && !(value.is_structured() && value.empty()) && value != "";
  }
  bool Flag(const char* key, bool missing) const {
    const bool is_stated = files_.config.is_object() && files_.config.contains(key);
    return is_stated ? IsTruthy(Member(files_.config, key)) : missing;
  }

  absl::Status SetSpecials() {
    before_ = own_.before;
    behind_ = own_.behind;
    if (row_->specials == ClassRow::kKept) return absl::OkStatus();
    before_.clear();
    behind_.clear();
    if (row_->specials == ClassRow::kEmpty) return absl::OkStatus();
    if (Flag("add_bos_token", row_->add_bos_default)) {
      ASSIGN_OR_RETURN(before_, IdOfNamed("bos_token", "add_bos_token"));
    }
    if (Flag("add_eos_token", false)) {
      ASSIGN_OR_RETURN(behind_, IdOfNamed("eos_token", "add_eos_token"));
    }
    return absl::OkStatus();
  }

  absl::Status SetPrefixSpace() {
    const Json& part = Member(tokenizer_, "pre_tokenizer");
    if (!row_->own_prefix_space || StringOf(part, "type") != "ByteLevel") return absl::OkStatus();
    const Json& stated = Member(files_.config, "add_prefix_space");
    if (!stated.is_boolean() && files_.config.is_object() && files_.config.contains("add_prefix_space")) {
      if (stated.is_null()) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(kConfigName, ": \"add_prefix_space\" must be true or false"));
    }
    const bool is_wanted = stated.is_boolean() && stated.get<bool>();
    if (Member(part, "add_prefix_space") != Json(is_wanted)) add_prefix_space_ = is_wanted;
    return absl::OkStatus();
  }

  const bool is_4_;
  const SideFiles& files_;
  const Json& tokenizer_;
  const PostProcessor& own_;
  const ClassRow* row_ = nullptr;
  bool has_decoder_ = false;
  std::map<int32_t, Token> listed_;
  std::map<std::string, Token> listed_by_content_;
  std::vector<std::pair<std::string, Special>> named_, late_named_;  // by key
  std::vector<Special> extra_;
  std::set<std::string> unordered_;  // contents of tokens that are members of an object
  TokenList file_tokens_, tokens_;
  std::vector<int32_t> before_, behind_;
  std::optional<bool> add_prefix_space_;
};

// Where a token comes from, for messages.
std::string SourceOf(const SideFiles& files, absl::string_view content, const ClassRow& row) {
  const auto is_it = [&](const Json& value) { return value == Json(content) || StringOf(value, "content") == content; };
  for (const auto& [name, object] : {std::pair<const char*, const Json*>{kConfigName, &files.config},
                                     {kMapName, &files.special_tokens_map},
                                     {kAddedName, &files.added_tokens}}) {
    if (!object->is_object()) continue;
    for (const auto& [key, value] : object->items()) {
      const bool is_inside = value.is_structured() && std::any_of(value.begin(), value.end(), is_it);
      if (is_it(value) || is_inside) return absl::StrCat("\"", key, "\" of ", name);
      if (object == &files.added_tokens && key == content) return name;
    }
  }
  for (size_t i = 0; i < std::size(kNamedKeys); ++i) {
    if (row.defaults[i] != nullptr && content == row.defaults[i]) {
      return absl::StrCat("\"", kNamedKeys[i], "\" by default of the class ", row.name);
    }
  }
  return "tokenizer.json";
}

std::string InWords(const std::vector<int32_t>& ids) {
  return ids.empty() ? "nothing" : absl::StrCat(ids.size() == 1 ? "the token " : "the tokens ", Json(ids).dump());
}

// Whether the same texts are taken for the token, as far as it is certain: whether it is looked for before or after
// normalization makes no difference without any, or to plain characters when no spaces around them count.
bool MatchAlike(const std::pair<int32_t, Token>& a, const std::pair<int32_t, Token>& b, bool normalizes) {
  Token other = b.second;
  if (other.normalized != a.second.normalized) {
    const std::string& content = other.content;
    const bool is_plain = !other.lstrip && !other.rstrip && !other.single_word &&
                          std::all_of(content.begin(), content.end(), [](char c) { return c > ' ' && c < 127; });
    if (normalizes && !is_plain) return false;
    other.normalized = a.second.normalized;
  }
  return a.first == b.first && a.second == other;
}

// What the two versions disagree about; "" when nothing.
std::string Disagreement(const SideFiles& files, const VersionRules& four, const VersionRules& five, bool normalizes) {
  const auto stated = [&](const char* flag, const char* token) {
    const bool has_flag = files.config.is_object() && files.config.contains(flag);
    const std::string of_class = absl::StrCat(" of class ", four.row().name);
    if (!has_flag) return absl::StrCat("\"", flag, "\"", four.row().name.empty() ? "" : of_class, " by default");
    return absl::StrCat("\"", flag, "\" is ", Member(files.config, flag).dump(), " (\"", token, "\")");
  };
  const auto around = [&](const char* where, const std::vector<int32_t>& a, const std::vector<int32_t>& b,
                          const std::string& key) {
    return absl::StrCat(kConfigName, ": ", key, ": transformers 4.57 puts ", InWords(a), " ", where,
                        " a text, transformers 5.24 ", InWords(b));
  };
  if (four.before() != five.before()) {
    return around("before", four.before(), five.before(), stated("add_bos_token", "bos_token"));
  }
  if (four.behind() != five.behind()) {
    return around("behind", four.behind(), five.behind(), stated("add_eos_token", "eos_token"));
  }
  if (four.add_prefix_space() != five.add_prefix_space()) {
    return absl::StrCat(kConfigName, ": \"add_prefix_space\" differs from tokenizer.json's, which transformers ",
                        four.add_prefix_space().has_value() ? "5.24" : "4.57", " keeps");
  }
  for (const auto& [a, b, versions] :
       {std::tuple{&four, &five, std::pair{"4.57", "5.24"}}, {&five, &four, {"5.24", "4.57"}}}) {
    for (const auto& entry : a->tokens().tokens()) {
      const auto* other = b->tokens().Find(entry.second.content);
      if (other != nullptr && MatchAlike(entry, *other, normalizes)) continue;
      const std::string& content = entry.second.content;
      return absl::StrCat("the added token \"", content, "\", ", SourceOf(files, content, a->row()), ", is ",
                          other != nullptr ? "another with transformers " : "none with transformers ", versions.second,
                          " than with ", versions.first);
    }
  }
  return "";
}

TokenChanges ToChanges(const SideFiles& files, const VersionRules& rules, const PostProcessor& own) {
  TokenChanges changes;
  if (rules.tokens().tokens() != rules.file_tokens().tokens()) changes.added_tokens = rules.tokens().ToJson();
  if (rules.before() != own.before) changes.before = rules.before();
  if (rules.behind() != own.behind) changes.behind = rules.behind();
  changes.add_prefix_space = rules.add_prefix_space();
  const Json& splits = Member(files.config, "split_special_tokens");
  changes.splits_special_tokens = splits.is_boolean() && splits.get<bool>();
  return changes;
}

}  // namespace

std::string TokenChanges::Identity() const {
  Json changes = Json::object();
  if (added_tokens.has_value()) changes["added_tokens"] = *added_tokens;
  if (before.has_value()) changes["before"] = *before;
  if (behind.has_value()) changes["behind"] = *behind;
  if (add_prefix_space.has_value()) changes["add_prefix_space"] = *add_prefix_space;
  if (splits_special_tokens) changes["split_special_tokens"] = true;
  return changes.empty() ? "" : changes.dump();
}

absl::StatusOr<TokenChanges> ReadTokenChanges(const SideFiles& files, const Json& tokenizer,
                                              const Vocabulary& vocabulary, const PostProcessor& own,
                                              TokenizerRules rules) {
  if (files.empty()) return TokenChanges();
  VersionRules four(true, files, tokenizer, vocabulary, own), five(false, files, tokenizer, vocabulary, own);
  const absl::Status four_status = four.Apply(), five_status = five.Apply();
  if (rules == TokenizerRules::kTransformers4) {
    RETURN_IF_ERROR(four_status);
    return ToChanges(files, four, own);
  }
  if (rules == TokenizerRules::kTransformers5 || !four_status.ok()) {
    RETURN_IF_ERROR(five_status);  // what one version refuses, the other decides
    return ToChanges(files, five, own);
  }
  if (five_status.ok()) {
    if (const std::string what = Disagreement(files, four, five, !Member(tokenizer, "normalizer").is_null());
        !what.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "; --tokenizer-rules=4 or --tokenizer-rules=5 chooses between them"));
    }
  }
  return ToChanges(files, four, own);
}

}  // namespace varifocal
