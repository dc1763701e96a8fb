#include "tokenizer/token_changes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/version_rules.h"

namespace varifocal {
namespace {

// Where a token comes from, for messages.
std::string SourceOf(const SideFiles& files, absl::string_view content, const TokenizerClass& row) {
  const auto is_it = [&](const Json& value) { return value == Json(content) || StringOf(value, "content") == content; };
  for (const auto& [name, object] : {std::pair<const char*, const Json*>{kTokenizerConfigName, &files.config},
                                     {kTokensMapName, &files.special_tokens_map},
                                     {kAddedTokensName, &files.added_tokens}}) {
    if (!object->is_object()) continue;
    for (const auto& [key, value] : object->items()) {
      const bool is_inside = value.is_structured() && std::any_of(value.begin(), value.end(), is_it);
      if (is_it(value) || is_inside) return absl::StrCat("\"", key, "\" of ", name);
      if (object == &files.added_tokens && key == content) return name;
    }
  }
  for (size_t i = 0; i < std::size(kNamedTokenKeys); ++i) {
    if (row.defaults[i] != nullptr && content == row.defaults[i]) {
      return absl::StrCat("\"", kNamedTokenKeys[i], "\" by default of the class ", row.name);
    }
  }
  return "tokenizer.json";
}

std::string InWords(const std::vector<int32_t>& ids) {
  return ids.empty() ? "nothing" : absl::StrCat(ids.size() == 1 ? "the token " : "the tokens ", Json(ids).dump());
}

// Whether the same texts are taken for the token, as far as it is certain: whether it is looked for before or after
// normalization makes no difference without any, or to plain characters when no spaces around them count.
bool MatchAlike(const std::pair<int32_t, FlaggedToken>& a, const std::pair<int32_t, FlaggedToken>& b, bool normalizes) {
  FlaggedToken other = b.second;
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
std::string Disagreement(const SideFiles& files, const VersionTokens& four, const VersionTokens& five,
                         bool normalizes) {
  const auto stated = [&](const char* flag, const char* token) {
    const bool has_flag = files.config.is_object() && files.config.contains(flag);
    const std::string of_class = absl::StrCat(" of class ", four.row->name);
    if (!has_flag) return absl::StrCat("\"", flag, "\"", four.row->name.empty() ? "" : of_class, " by default");
    return absl::StrCat("\"", flag, "\" is ", MemberOf(files.config, flag).dump(), " (\"", token, "\")");
  };
  const auto around = [&](const char* where, const std::vector<int32_t>& a, const std::vector<int32_t>& b,
                          const std::string& key) {
    return absl::StrCat(kTokenizerConfigName, ": ", key, ": transformers 4.57 puts ", InWords(a), " ", where,
                        " a text, transformers 5.24 ", InWords(b));
  };
  if (four.before != five.before) {
    return around("before", four.before, five.before, stated("add_bos_token", "bos_token"));
  }
  if (four.behind != five.behind) {
    return around("behind", four.behind, five.behind, stated("add_eos_token", "eos_token"));
  }
  if (four.add_prefix_space != five.add_prefix_space) {
    return absl::StrCat(kTokenizerConfigName,
                        ": \"add_prefix_space\" differs from tokenizer.json's, which transformers ",
                        four.add_prefix_space.has_value() ? "5.24" : "4.57", " keeps");
  }
  for (const auto& [a, b, versions] :
       {std::tuple{&four, &five, std::pair{"4.57", "5.24"}}, {&five, &four, {"5.24", "4.57"}}}) {
    for (const auto& entry : a->tokens.tokens()) {
      const auto* other = b->tokens.Find(entry.second.content);
      if (other != nullptr && MatchAlike(entry, *other, normalizes)) continue;
      const std::string& content = entry.second.content;
      return absl::StrCat("the added token \"", content, "\", ", SourceOf(files, content, *a->row), ", is ",
                          other != nullptr ? "another with transformers " : "none with transformers ", versions.second,
                          " than with ", versions.first);
    }
  }
  return "";
}

TokenChanges ToChanges(const SideFiles& files, const VersionTokens& rules, const PostProcessor& own) {
  TokenChanges changes;
  if (rules.tokens.tokens() != rules.file_tokens.tokens()) changes.added_tokens = rules.tokens.ToJson();
  if (rules.before != own.before) changes.before = rules.before;
  if (rules.behind != own.behind) changes.behind = rules.behind;
  changes.add_prefix_space = rules.add_prefix_space;
  const Json& splits = MemberOf(files.config, "split_special_tokens");
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
  const auto four = ApplyVersionRules(true, files, tokenizer, vocabulary, own);
  const auto five = ApplyVersionRules(false, files, tokenizer, vocabulary, own);
  if (rules == TokenizerRules::kTransformers4) {
    RETURN_IF_ERROR(four.status());
    return ToChanges(files, *four, own);
  }
  if (rules == TokenizerRules::kTransformers5 || !four.ok()) {
    RETURN_IF_ERROR(five.status());  // what one version refuses, the other decides
    return ToChanges(files, *five, own);
  }
  if (five.ok()) {
    if (const std::string what = Disagreement(files, *four, *five, !MemberOf(tokenizer, "normalizer").is_null());
        !what.empty()) {
      return InvalidArgument(what, "; --tokenizer-rules=4 or --tokenizer-rules=5 chooses between them");
    }
  }
  return ToChanges(files, *four, own);
}

}  // namespace varifocal
