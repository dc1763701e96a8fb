#include "tokenizer/pre_tokenizers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
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
      if (word[0] != ' ') word = words.changed.emplace_back(absl::StrCat(" ", word));
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

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct Segment {
  size_t begin, end;
  bool is_match;
};

// Joins the segments, which cover a text, as `behavior` says.
std::vector<Segment> Join(const std::vector<Segment>& segments, SplitBehavior behavior) {
  std::vector<Segment> out;
  bool previous_match = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return segments;
    case SplitBehavior::kRemoved:
      for (const Segment& s : segments) {
        if (!s.is_match) out.push_back(s);
      }
      return out;
    case SplitBehavior::kContiguous:
      for (const Segment& s : segments) {
        if (!out.empty() && out.back().is_match == s.is_match) {
          out.back().end = s.end;
        } else {
          out.push_back(s);
        }
      }
      return out;
    case SplitBehavior::kMergedWithPrevious:
      for (const Segment& s : segments) {
        if (s.is_match && !previous_match && !out.empty()) {
          out.back().end = s.end;
        } else {
          out.push_back(s);
        }
        previous_match = s.is_match;
      }
      return out;
    case SplitBehavior::kMergedWithNext:
      for (auto s = segments.rbegin(); s != segments.rend(); ++s) {
        if (s->is_match && !previous_match && !out.empty()) {
          out.back().begin = s->begin;
        } else {
          out.push_back(*s);
        }
        previous_match = s->is_match;
      }
      std::reverse(out.begin(), out.end());
      return out;
  }
  return out;
}

class Split : public PreTokenizer {
 public:
  Split(std::shared_ptr<const Regex> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  absl::Status Apply(Words& words) const override {
    std::vector<absl::string_view> out;
    std::vector<Segment> segments;
    for (absl::string_view text : words.words) {
      ASSIGN_OR_RETURN(std::vector<TextRange> found, pattern_->FindAll(text));
      segments.clear();
      size_t at = 0;
      for (const TextRange& range : found) {
        if (range.begin > at) segments.push_back({at, range.begin, invert_});
        segments.push_back({range.begin, range.end, !invert_});
        at = range.end;
      }
      if (at < text.size()) segments.push_back({at, text.size(), invert_});
      for (const Segment& s : Join(segments, behavior_)) out.push_back(text.substr(s.begin, s.end - s.begin));
    }
    words.words = std::move(out);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const Regex> pattern_;
  const SplitBehavior behavior_;
  const bool invert_;
};

// Each row appends its steps; the last one may be WriteBytesAsCharacters, told by the flag.
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
  ASSIGN_OR_RETURN(std::string name, GetString(json, "behavior"));
  ASSIGN_OR_RETURN(std::optional<bool> invert, FindBool(json, "invert"));
  constexpr const char* kNames[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"behavior\" is \"", name, "\", not Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous"));
  }
  const auto behavior = static_cast<SplitBehavior>(found - std::begin(kNames));
  const bool covers = behavior == SplitBehavior::kIsolated;  // a scanner's words leave no gap, so `invert` is the same
  if (WordScanner scanner = covers && pattern.is_regex ? FindWordScanner(pattern.text) : nullptr; scanner != nullptr) {
    out.steps.push_back(std::make_unique<ScanWords>(scanner));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Regex> regex, CompilePattern(pattern));
  out.steps.push_back(std::make_unique<Split>(std::move(regex), behavior, invert.value_or(false)));
  return absl::OkStatus();
}

struct PreTokenizerRow {
  absl::string_view type;
  absl::Status (*add)(const Json&, Steps&);
};

constexpr PreTokenizerRow kPreTokenizers[] = {
    {"ByteLevel", AddByteLevel},
    {"Digits", AddDigits},
    {"Split", AddSplit},
};

absl::Status Add(const Json& json, Steps& out) {
  ASSIGN_OR_RETURN(absl::string_view type, GetComponentType(json, "pre_tokenizer"));
  if (type == "Sequence") {
    RETURN_IF_ERROR(CheckKeys(json, "pre_tokenizer", {"pretokenizers"}));
    ASSIGN_OR_RETURN(const Json* parts, GetMember(json, "pretokenizers"));
    if (!parts->is_array()) return absl::InvalidArgumentError("\"pretokenizers\" must be a list");
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
