#include "tokenizer/decoders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

// All tokens become one text. A token with a character outside the alphabet decodes to its own bytes.
class ByteLevelDecoder : public Decoder {
 public:
  absl::Status Apply(std::vector<std::string>& tokens) const override {
    std::string bytes, text;
    for (const std::string& token : tokens) bytes += FromByteLevel(token).value_or(token);
    AppendRepairedUtf8(bytes, text);
    tokens.assign(1, text);
    return absl::OkStatus();
  }
};

class FuseDecoder : public Decoder {
 public:
  absl::Status Apply(std::vector<std::string>& tokens) const override {
    tokens.assign(1, absl::StrJoin(tokens, ""));
    return absl::OkStatus();
  }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(std::shared_ptr<const Regex> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  absl::Status Apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      ASSIGN_OR_RETURN(std::vector<TextRange> found, pattern_->FindAll(token));
      for (auto range = found.rbegin(); range != found.rend(); ++range) {
        token.replace(range->begin, range->end - range->begin, content_);
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const Regex> pattern_;
  const std::string content_;
};

// Runs of <0xNN> become the text they encode, or one U+FFFD per byte when it is not valid UTF-8.
class ByteFallbackDecoder : public Decoder {
 public:
  absl::Status Apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    auto flush = [&] {
      if (ValidUtf8Prefix(bytes) == bytes.size()) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      int byte = 0;
      const absl::string_view view = token;
      if (view.size() == 6 && view.substr(0, 3) == "<0x" && view[5] == '>' &&
          absl::SimpleHexAtoi(view.substr(3, 2), &byte)) {
        bytes.push_back(byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
    return absl::OkStatus();
  }
};

// Removes at most `start` and `stop` copies of a character from the ends of each token.
class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  absl::Status Apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      absl::string_view rest = token;
      for (int64_t i = 0; i < start_ && rest.substr(0, content_.size()) == content_; ++i) {
        rest.remove_prefix(content_.size());
      }
      for (int64_t i = 0;
           i < stop_ && rest.size() >= content_.size() && rest.substr(rest.size() - content_.size()) == content_; ++i) {
        rest.remove_suffix(content_.size());
      }
      token = std::string(rest);
    }
    return absl::OkStatus();
  }

 private:
  const std::string content_;
  const int64_t start_, stop_;
};

void ReplaceAll(absl::string_view from, absl::string_view to, std::string& text) {
  if (from.empty() || text.find(from.data(), 0, from.size()) == std::string::npos) return;
  std::string out;
  for (size_t at = 0; at <= text.size();) {
    const size_t next = std::min(text.find(from.data(), at, from.size()), text.size());
    out.append(text, at, next - at);
    if (next == text.size()) break;
    absl::StrAppend(&out, to);
    at = next + from.size();
  }
  text = std::move(out);
}

// Removes the spaces that splitting at punctuation inserted into English text.
void CleanUpEnglish(std::string& text) {
  constexpr std::pair<absl::string_view, absl::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kRules) ReplaceAll(from, to, text);
}

// A token that begins with the prefix continues a word; every other one but the first begins with a space.
class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleans_up) : prefix_(std::move(prefix)), cleans_up_(cleans_up) {}
  absl::Status Apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && absl::StartsWith(tokens[i], prefix_)) {
        tokens[i].erase(0, prefix_.size());
      } else if (i > 0) {
        tokens[i] = absl::StrCat(" ", tokens[i]);
      }
      if (cleans_up_) CleanUpEnglish(tokens[i]);
    }
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
  const bool cleans_up_;
};

// The suffix of a token that ends a word becomes a space, in the last token nothing.
class WordEndDecoder : public Decoder {
 public:
  explicit WordEndDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  absl::Status Apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) ReplaceAll(suffix_, i + 1 < tokens.size() ? " " : "", tokens[i]);
    return absl::OkStatus();
  }

 private:
  const std::string suffix_;
};

MadeDecoder MakeByteLevelDecoder(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "ByteLevel", {"add_prefix_space", "trim_offsets", "use_regex"}));
  return std::make_unique<ByteLevelDecoder>();
}

MadeDecoder MakeFuseDecoder(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "Fuse", {}));
  return std::make_unique<FuseDecoder>();
}

MadeDecoder MakeReplaceDecoder(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "Replace", {"pattern", "content"}));
  ASSIGN_OR_RETURN(TextPattern pattern, GetPattern(json, "pattern"));
  ASSIGN_OR_RETURN(std::shared_ptr<const Regex> regex, CompilePattern(pattern));
  ASSIGN_OR_RETURN(std::string content, GetString(json, "content"));
  return std::make_unique<ReplaceDecoder>(std::move(regex), std::move(content));
}

MadeDecoder MakeByteFallbackDecoder(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "ByteFallback", {}));
  return std::make_unique<ByteFallbackDecoder>();
}

MadeDecoder MakeStripDecoder(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "Strip", {"content", "start", "stop"}));
  ASSIGN_OR_RETURN(std::string content, GetString(json, "content"));
  ASSIGN_OR_RETURN(int64_t start, GetInt(json, "start"));
  ASSIGN_OR_RETURN(int64_t stop, GetInt(json, "stop"));
  if (content.empty()) return InvalidArgument("\"content\" is empty");
  return std::make_unique<StripDecoder>(std::move(content), start, stop);
}

MadeDecoder MakeWordPieceDecoder(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "WordPiece", {"prefix", "cleanup"}));
  ASSIGN_OR_RETURN(std::string prefix, GetString(json, "prefix"));
  ASSIGN_OR_RETURN(bool cleans_up, GetBool(json, "cleanup"));
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleans_up);
}

MadeDecoder MakeBpeDecoder(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "BPEDecoder", {"suffix"}));
  ASSIGN_OR_RETURN(std::string suffix, GetString(json, "suffix"));
  if (suffix.empty()) return InvalidArgument("\"suffix\" is empty");
  return std::make_unique<WordEndDecoder>(std::move(suffix));
}

struct DecoderRow {
  absl::string_view type;
  MadeDecoder (*make)(const Json&);
};

constexpr DecoderRow kDecoders[] = {
    {"ByteLevel", MakeByteLevelDecoder}, {"ByteFallback", MakeByteFallbackDecoder},
    {"Fuse", MakeFuseDecoder},           {"Replace", MakeReplaceDecoder},
    {"Strip", MakeStripDecoder},         {"Metaspace", MakeMetaspaceDecoder},
    {"WordPiece", MakeWordPieceDecoder}, {"BPEDecoder", MakeBpeDecoder},
};

absl::Status Add(const Json& json, Decoders& out) {
  ASSIGN_OR_RETURN(absl::string_view type, GetComponentType(json, "decoder"));
  if (type == "Sequence") {
    RETURN_IF_ERROR(CheckKeys(json, "decoder", {"decoders"}));
    ASSIGN_OR_RETURN(const Json* parts, GetMember(json, "decoders"));
    if (!parts->is_array()) return InvalidArgument("\"decoders\" must be a list");
    for (const Json& part : *parts) RETURN_IF_ERROR(Add(part, out));
    return absl::OkStatus();
  }
  std::string supported;
  for (const DecoderRow& row : kDecoders) {
    if (type == row.type) {
      ASSIGN_OR_RETURN(auto made, Annotate(row.make(json), absl::StrCat("decoder ", type)));
      out.steps.push_back(std::move(made));
      return absl::OkStatus();
    }
    absl::StrAppend(&supported, row.type, ", ");
  }
  return UnsupportedType("decoder", type, absl::StrCat(supported, "Sequence"));
}

}  // namespace

absl::StatusOr<Decoders> MakeDecoders(const Json& decoder) {
  Decoders out;
  out.joins_with_spaces = decoder.is_null();
  if (!decoder.is_null()) RETURN_IF_ERROR(Add(decoder, out));
  return out;
}

absl::StatusOr<std::string> DecodeTokens(const Decoders& decoders, std::vector<std::string> tokens) {
  for (const auto& step : decoders.steps) RETURN_IF_ERROR(step->Apply(tokens));
  return absl::StrJoin(tokens, decoders.joins_with_spaces ? " " : "");
}

}  // namespace varifocal
