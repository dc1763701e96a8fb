#include "tokenizer/metaspace.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/component.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

enum class PrependScheme { kAlways, kFirst, kNever };  // kFirst: only at the start of the whole text

struct MetaspaceOptions {
  std::string replacement;  // one character
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

absl::StatusOr<PrependScheme> GetPrependScheme(const Json& json) {
  ASSIGN_OR_RETURN(std::optional<std::string> name, FindString(json, "prepend_scheme"));
  ASSIGN_OR_RETURN(std::optional<bool> legacy, FindBool(json, "add_prefix_space"));  // of files before 2024
  if (legacy == false) {
    if (name.has_value() && *name != "never") {
      return InvalidArgument("\"add_prefix_space\" is false, but \"prepend_scheme\" is \"", *name, "\"");
    }
    return PrependScheme::kNever;
  }
  if (!name.has_value() || *name == "always") return PrependScheme::kAlways;
  if (*name == "first") return PrependScheme::kFirst;
  if (*name == "never") return PrependScheme::kNever;
  return InvalidArgument("\"prepend_scheme\" is \"", *name, "\", not always, first or never");
}

absl::StatusOr<MetaspaceOptions> ReadOptions(const Json& json) {
  RETURN_IF_ERROR(
      CheckKeys(json, "Metaspace", {"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}));
  MetaspaceOptions options;
  ASSIGN_OR_RETURN(options.replacement, GetString(json, "replacement"));
  uint32_t point = 0;
  const int length = ReadUtf8(options.replacement, &point);
  if (length == 0 || length != std::ssize(options.replacement)) {
    return InvalidArgument("\"replacement\" is \"", options.replacement, "\", not one character");
  }
  ASSIGN_OR_RETURN(options.scheme, GetPrependScheme(json));
  ASSIGN_OR_RETURN(std::optional<bool> split, FindBool(json, "split"));
  options.split = split.value_or(true);
  return options;
}

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(MetaspaceOptions options) : options_(std::move(options)) {}

  absl::Status Apply(Words& words) const override {
    std::vector<absl::string_view> out;
    for (size_t i = 0; i < words.words.size(); ++i) {
      const bool is_start = i == 0 && words.begins_at_start;
      const TextRange* of_word = words.AlignmentOf(words.words[i]);
      Alignment alignment;
      const absl::string_view text = words.changed.emplace_back(
          Rewrite(words.words[i], is_start, of_word, of_word == nullptr ? nullptr : &alignment));
      if (of_word != nullptr) words.alignments[text.data()] = std::move(alignment);
      if (options_.split) {
        Cut(text, out);
      } else {
        out.push_back(text);
      }
    }
    words.words = std::move(out);
    return absl::OkStatus();
  }

 private:
  // Computes the new text's alignment when the old one's is given.
  std::string Rewrite(absl::string_view text, bool is_start, const TextRange* old_alignment,
                      Alignment* alignment) const {
    const std::string& space = options_.replacement;
    std::string out;
    out.reserve(text.size() + text.size() / 2 + space.size());
    const bool prepends =
        options_.scheme == PrependScheme::kAlways || (options_.scheme == PrependScheme::kFirst && is_start);
    if (prepends && text[0] != ' ' && !absl::StartsWith(text, space)) {
      out += space;
      if (alignment != nullptr) alignment->insert(alignment->end(), space.size(), old_alignment[0]);
    }
    for (size_t at = 0; at < text.size();) {
      const size_t next = std::min(text.find(' ', at), text.size());
      out.append(text.data() + at, next - at);
      if (alignment != nullptr) alignment->insert(alignment->end(), old_alignment + at, old_alignment + next);
      if (next < text.size()) {
        out += space;
        if (alignment != nullptr) alignment->insert(alignment->end(), space.size(), old_alignment[next]);
      }
      at = next + 1;
    }
    return out;
  }

  // Every replacement begins a word, including each one of a run.
  void Cut(absl::string_view text, std::vector<absl::string_view>& out) const {
    while (!text.empty()) {
      const size_t end = std::min(text.find(options_.replacement, 1), text.size());
      out.push_back(text.substr(0, end));
      text.remove_prefix(end);
    }
  }

  const MetaspaceOptions options_;
};

// Replacements become spaces; leading ones of the first token were inserted by encoding and are removed.
class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceOptions options) : options_(std::move(options)) {}
  absl::Status Apply(std::vector<std::string>& tokens) const override {
    const std::string& space = options_.replacement;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const absl::string_view with = i == 0 && options_.scheme != PrependScheme::kNever ? "" : " ";
      const std::string token = std::move(tokens[i]);
      std::string& out = tokens[i];
      out.clear();
      for (size_t at = 0; at < token.size();) {
        const size_t next = std::min(token.find(space, at), token.size());
        out.append(token, at, next - at);
        if (next < token.size()) absl::StrAppend(&out, with);
        at = next + space.size();
      }
    }
    return absl::OkStatus();
  }

 private:
  const MetaspaceOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const PreTokenizer>> MakeMetaspacePreTokenizer(const Json& json) {
  ASSIGN_OR_RETURN(MetaspaceOptions options, ReadOptions(json));
  return std::make_unique<MetaspacePreTokenizer>(std::move(options));
}

MadeDecoder MakeMetaspaceDecoder(const Json& json) {
  ASSIGN_OR_RETURN(MetaspaceOptions options, ReadOptions(json));
  return std::make_unique<MetaspaceDecoder>(std::move(options));
}

}  // namespace varifocal
