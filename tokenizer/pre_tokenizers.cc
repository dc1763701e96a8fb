#include "tokenizer/pre_tokenizers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/split_behavior.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"
#include "tokenizer/word_scanner.h"

namespace varifocal {
namespace {

class ScanWords : public PreTokenizer {
 public:
  explicit ScanWords(WordScanner scanner) : scanner_(scanner) {}
  absl::Status Apply(Words& words) const override {
    std::vector<absl::string_view> out;
    for (absl::string_view text : words.words) {
      out.reserve(out.size() + text.size() / 4 + 1);
      while (!text.empty()) {
        const size_t size = scanner_(text);
        out.push_back(text.substr(0, size));
        text.remove_prefix(size);
      }
    }
    words.words = std::move(out);
    return absl::OkStatus();
  }

 private:
  const WordScanner scanner_;
};

class AddPrefixSpace : public PreTokenizer {
 public:
  absl::Status Apply(Words& words) const override {
    for (absl::string_view& word : words.words) {
      if (word[0] == ' ') continue;
      const TextRange* of_word = words.AlignmentOf(word);
      const size_t size = word.size();
      word = words.changed.emplace_back(absl::StrCat(" ", word));
      if (of_word == nullptr) continue;
      Alignment alignment = {of_word[0]};
      alignment.insert(alignment.end(), of_word, of_word + size);
      words.alignments[word.data()] = std::move(alignment);
    }
    return absl::OkStatus();
  }
};

class WriteBytesAsCharacters : public PreTokenizer {
 public:
  absl::Status Apply(Words& words) const override {
    for (absl::string_view& word : words.words) {
      std::string& text = words.changed.emplace_back();
      AppendByteLevel(word, text);
      if (const TextRange* of_word = words.AlignmentOf(word); of_word != nullptr) {
        words.alignments[text.data()] = AlignByteLevel(word, of_word);
      }
      word = text;
    }
    return absl::OkStatus();
  }
};

class CutDigits : public PreTokenizer {
 public:
  explicit CutDigits(bool individual) : individual_(individual) {}
  absl::Status Apply(Words& words) const override {
    std::vector<absl::string_view> out;
    for (absl::string_view text : words.words) {
      size_t begin = 0, at = 0;
      bool previous = false;
      while (at < text.size()) {
        uint32_t point = 0;
        const int length = ReadValidUtf8(text.data() + at, &point);
        const bool numeric = (UnicodeClasses()[point] & kNumeric) != 0;
        if (at > begin && (numeric != previous || (numeric && individual_))) {
          out.push_back(text.substr(begin, at - begin));
          begin = at;
        }
        previous = numeric;
        at += length;
      }
      out.push_back(text.substr(begin));
    }
    words.words = std::move(out);
    return absl::OkStatus();
  }

 private:
  const bool individual_;
};

// Splits every text at its matches, which `find` appends: (text, segments).
template <typename Find>
absl::Status SplitAtMatches(Words& words, SplitBehavior behavior, Find find) {
  std::vector<absl::string_view> out;
  for (absl::string_view text : words.words) {
    std::vector<Segment> segments;
    RETURN_IF_ERROR(find(text, segments));
    for (const Segment& s : JoinSegments(std::move(segments), behavior))
      out.push_back(text.substr(s.begin, s.end - s.begin));
  }
  words.begins_at_start =
      words.begins_at_start && !out.empty() && !words.words.empty() && out[0].data() == words.words[0].data();
  words.words = std::move(out);
  return absl::OkStatus();
}

// Appends the match and the text between it and the one before.
void AppendMatch(size_t begin, size_t end, bool is_match, std::vector<Segment>& segments) {
  const size_t done = segments.empty() ? 0 : segments.back().end;
  if (begin > done) segments.push_back({done, begin, !is_match});
  if (end > begin) segments.push_back({begin, end, is_match});
}

class Split : public PreTokenizer {
 public:
  Split(std::shared_ptr<const Regex> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  absl::Status Apply(Words& words) const override {
    return SplitAtMatches(words, behavior_,
                          [&](absl::string_view text, std::vector<Segment>& segments) -> absl::Status {
                            ASSIGN_OR_RETURN(std::vector<TextRange> found, pattern_->FindAll(text));
                            for (const TextRange& range : found)
                              AppendMatch(range.begin, range.end, !invert_, segments);
                            AppendMatch(text.size(), text.size(), !invert_, segments);
                            return absl::OkStatus();
                          });
  }

 private:
  const std::shared_ptr<const Regex> pattern_;
  const SplitBehavior behavior_;
  const bool invert_;
};

// Splits at every character of a class.
class SplitAtClass : public PreTokenizer {
 public:
  SplitAtClass(uint16_t classes, SplitBehavior behavior) : classes_(classes), behavior_(behavior) {}
  absl::Status Apply(Words& words) const override {
    return SplitAtMatches(words, behavior_, [&](absl::string_view text, std::vector<Segment>& segments) {
      for (size_t at = 0; at < text.size();) {
        uint32_t point = 0;
        const int length = ReadValidUtf8(text.data() + at, &point);
        if ((UnicodeClasses()[point] & classes_) != 0) AppendMatch(at, at + length, true, segments);
        at += length;
      }
      AppendMatch(text.size(), text.size(), true, segments);
      return absl::OkStatus();
    });
  }

 private:
  const uint16_t classes_;
  const SplitBehavior behavior_;
};

// Runs of word characters, and runs of what is neither that nor a space.
class CutWords : public PreTokenizer {
 public:
  absl::Status Apply(Words& words) const override {
    return SplitAtMatches(words, SplitBehavior::kRemoved, [](absl::string_view text, std::vector<Segment>& segments) {
      const auto kind = [](uint32_t point) {
        const uint16_t classes = UnicodeClasses()[point];
        return (classes & kWord) != 0 ? 2 : (classes & kSpace) != 0 ? 0 : 1;
      };
      int previous = -1;
      for (size_t at = 0; at < text.size();) {
        uint32_t point = 0;
        const int length = ReadValidUtf8(text.data() + at, &point);
        if (kind(point) == previous) {
          segments.back().end += length;
        } else {
          segments.push_back({at, at + length, kind(point) == 0});
        }
        previous = kind(point);
        at += length;
      }
      return absl::OkStatus();
    });
  }
};

// Each row appends its steps; the flag is set when the last one is WriteBytesAsCharacters.
struct Steps {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  bool ends_with_bytes = false;
};

absl::Status AddByteLevel(const Json& json, Steps& out) {
  RETURN_IF_ERROR(CheckKeys(json, "ByteLevel", {"add_prefix_space", "trim_offsets", "use_regex"}));
  ASSIGN_OR_RETURN(bool add_prefix_space, GetBool(json, "add_prefix_space"));
  ASSIGN_OR_RETURN(std::optional<bool> use_regex, FindBool(json, "use_regex"));
  if (add_prefix_space) out.steps.push_back(std::make_unique<AddPrefixSpace>());
  if (use_regex.value_or(true)) out.steps.push_back(std::make_unique<ScanWords>(ScanGpt2Word));
  out.steps.push_back(std::make_unique<WriteBytesAsCharacters>());
  out.ends_with_bytes = true;
  return absl::OkStatus();
}

absl::Status AddDigits(const Json& json, Steps& out) {
  RETURN_IF_ERROR(CheckKeys(json, "Digits", {"individual_digits"}));
  ASSIGN_OR_RETURN(bool individual, GetBool(json, "individual_digits"));
  out.steps.push_back(std::make_unique<CutDigits>(individual));
  return absl::OkStatus();
}

absl::Status AddSplit(const Json& json, Steps& out) {
  RETURN_IF_ERROR(CheckKeys(json, "Split", {"pattern", "behavior", "invert"}));
  ASSIGN_OR_RETURN(TextPattern pattern, GetPattern(json, "pattern"));
  ASSIGN_OR_RETURN(SplitBehavior behavior, GetSplitBehavior(json));
  ASSIGN_OR_RETURN(std::optional<bool> invert, FindBool(json, "invert"));
  const bool covers =
      behavior == SplitBehavior::kIsolated;  // a scanner's words have no gaps, so `invert` has no effect
  if (WordScanner scanner = covers && pattern.is_regex ? FindWordScanner(pattern.text) : nullptr; scanner != nullptr) {
    out.steps.push_back(std::make_unique<ScanWords>(scanner));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Regex> regex, CompilePattern(pattern));
  out.steps.push_back(std::make_unique<Split>(std::move(regex), behavior, invert.value_or(false)));
  return absl::OkStatus();
}

absl::Status AddMetaspace(const Json& json, Steps& out) {
  ASSIGN_OR_RETURN(std::unique_ptr<const PreTokenizer> made, MakeMetaspacePreTokenizer(json));
  out.steps.push_back(std::move(made));
  return absl::OkStatus();
}

absl::Status AddWhitespace(const Json& json, Steps& out) {
  RETURN_IF_ERROR(CheckKeys(json, "Whitespace", {}));
  out.steps.push_back(std::make_unique<CutWords>());
  return absl::OkStatus();
}

absl::Status AddWhitespaceSplit(const Json& json, Steps& out) {
  RETURN_IF_ERROR(CheckKeys(json, "WhitespaceSplit", {}));
  out.steps.push_back(std::make_unique<SplitAtClass>(kSpace, SplitBehavior::kRemoved));
  return absl::OkStatus();
}

absl::Status AddPunctuation(const Json& json, Steps& out) {
  RETURN_IF_ERROR(CheckKeys(json, "Punctuation", {"behavior"}));
  SplitBehavior behavior = SplitBehavior::kIsolated;
  if (json.contains("behavior")) {
    ASSIGN_OR_RETURN(behavior, GetSplitBehavior(json));
  }
  out.steps.push_back(std::make_unique<SplitAtClass>(kPunctuation, behavior));
  return absl::OkStatus();
}

absl::Status AddBert(const Json& json, Steps& out) {
  RETURN_IF_ERROR(CheckKeys(json, "BertPreTokenizer", {}));
  out.steps.push_back(std::make_unique<SplitAtClass>(kSpace, SplitBehavior::kRemoved));
  out.steps.push_back(std::make_unique<SplitAtClass>(kPunctuation, SplitBehavior::kIsolated));
  return absl::OkStatus();
}

absl::Status AddDelimiter(const Json& json, Steps& out) {
  RETURN_IF_ERROR(CheckKeys(json, "CharDelimiterSplit", {"delimiter"}));
  ASSIGN_OR_RETURN(std::string delimiter, GetString(json, "delimiter"));
  if (delimiter.empty()) return InvalidArgument("\"delimiter\" is empty");
  ASSIGN_OR_RETURN(std::shared_ptr<const Regex> pattern, Regex::CompileLiteral(delimiter));
  out.steps.push_back(std::make_unique<Split>(std::move(pattern), SplitBehavior::kRemoved, /*invert=*/false));
  return absl::OkStatus();
}

struct PreTokenizerRow {
  absl::string_view type;
  absl::Status (*add)(const Json&, Steps&);
};

constexpr PreTokenizerRow kPreTokenizers[] = {
    {"ByteLevel", AddByteLevel},     {"Digits", AddDigits},         {"Split", AddSplit},
    {"Metaspace", AddMetaspace},     {"Whitespace", AddWhitespace}, {"WhitespaceSplit", AddWhitespaceSplit},
    {"Punctuation", AddPunctuation}, {"BertPreTokenizer", AddBert}, {"CharDelimiterSplit", AddDelimiter},
};

absl::Status Add(const Json& json, Steps& out) {
  ASSIGN_OR_RETURN(absl::string_view type, GetComponentType(json, "pre_tokenizer"));
  if (type == "Sequence") {
    RETURN_IF_ERROR(CheckKeys(json, "pre_tokenizer", {"pretokenizers"}));
    ASSIGN_OR_RETURN(const Json* parts, GetMember(json, "pretokenizers"));
    if (!parts->is_array()) return InvalidArgument("\"pretokenizers\" must be a list");
    for (const Json& part : *parts) RETURN_IF_ERROR(Add(part, out));
    return absl::OkStatus();
  }
  std::string supported;
  for (const PreTokenizerRow& row : kPreTokenizers) {
    if (type == row.type) {
      out.ends_with_bytes = false;
      return Annotate(row.add(json, out), absl::StrCat("pre_tokenizer ", type));
    }
    absl::StrAppend(&supported, row.type, ", ");
  }
  return UnsupportedType("pre_tokenizer", type, absl::StrCat(supported, "Sequence"));
}

}  // namespace

absl::StatusOr<PreTokenizers> MakePreTokenizers(const Json& pre_tokenizer) {
  Steps steps;
  if (!pre_tokenizer.is_null()) RETURN_IF_ERROR(Add(pre_tokenizer, steps));
  if (steps.ends_with_bytes) steps.steps.pop_back();
  return PreTokenizers{std::move(steps.steps), steps.ends_with_bytes};
}

absl::Status PreTokenize(const PreTokenizers& pre_tokenizers, Words& words) {
  for (const auto& step : pre_tokenizers.steps) RETURN_IF_ERROR(step->Apply(words));
  return absl::OkStatus();
}

}  // namespace varifocal
