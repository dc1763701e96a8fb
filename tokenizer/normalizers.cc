#include "tokenizer/normalizers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/character_normalizers.h"
#include "tokenizer/component.h"
#include "tokenizer/precompiled.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/unicode_form.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

absl::Status CheckGrowth(const NormalizedText& text, size_t added_bytes) {
  if (text.text.size() <= text.bytes_max && added_bytes <= text.bytes_max - text.text.size()) return absl::OkStatus();
  return InvalidArgument("the normalizer makes a text longer than ", text.bytes_max, " bytes, which is ",
                         kNormalizedGrowthMax, " times its size and ", kNormalizedBytesSpare, " bytes more, the limit");
}

class InUnicodeForm : public Normalizer {
 public:
  explicit InUnicodeForm(UnicodeForm form) : form_(form) {}
  absl::Status Apply(NormalizedText& text) const override { return ApplyUnicodeForm(form_, text.text, text.alignment); }

 private:
  const UnicodeForm form_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  absl::Status Apply(NormalizedText& text) const override {
    if (text.text.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(CheckGrowth(text, prefix_.size()));
    text.text.insert(0, prefix_);
    if (text.alignment.has_value()) {
      const TextRange first = text.alignment->front();
      text.alignment->insert(text.alignment->begin(), prefix_.size(), first);
    }
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(std::shared_ptr<const Regex> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  absl::Status Apply(NormalizedText& normalized) const override {
    std::string& text = normalized.text;
    ASSIGN_OR_RETURN(std::vector<TextRange> found, pattern_->FindAll(text));
    if (found.empty()) return absl::OkStatus();
    if (!content_.empty()) RETURN_IF_ERROR(CheckReplacements(found, normalized));
    if (found[0].begin == 0 && content_.empty()) normalized.is_start = false;
    std::string out;
    out.reserve(text.size() + found.size() * content_.size());
    size_t at = 0;
    for (const TextRange& range : found) {
      out.append(text, at, range.begin - at).append(content_);
      at = range.end;
    }
    out.append(text, at, std::string::npos);
    if (normalized.alignment.has_value()) Align(found, *normalized.alignment);
    text = std::move(out);
    return absl::OkStatus();
  }

 private:
  absl::Status CheckReplacements(const std::vector<TextRange>& found, const NormalizedText& text) const {
    size_t replaced = 0;
    for (const TextRange& range : found) replaced += range.end - range.begin;
    if (found.size() > text.bytes_max / content_.size()) return CheckGrowth(text, text.bytes_max + 1);
    const size_t put_in = found.size() * content_.size();
    return CheckGrowth(text, put_in > replaced ? put_in - replaced : 0);
  }
  // A replacement maps to the last character of its match.
  void Align(const std::vector<TextRange>& found, Alignment& alignment) const {
    Alignment out;
    auto copied = alignment.begin();
    for (const TextRange& range : found) {
      out.insert(out.end(), copied, alignment.begin() + range.begin);
      out.insert(out.end(), content_.size(), alignment[range.end - 1]);
      copied = alignment.begin() + range.end;
    }
    out.insert(out.end(), copied, alignment.end());
    alignment = std::move(out);
  }

  const std::shared_ptr<const Regex> pattern_;
  const std::string content_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  absl::Status Apply(NormalizedText& normalized) const override {
    std::string& text = normalized.text;
    size_t begin = 0, end = 0, at = 0;  // of the text without spaces
    bool seen = false;
    while (at < text.size()) {
      uint32_t point = 0;
      const int length = ReadValidUtf8(text.data() + at, &point);
      if ((UnicodeClasses()[point] & kSpace) == 0) {
        if (!seen) begin = at;
        seen = true;
        end = at + length;
      }
      at += length;
    }
    if (!seen) begin = text.size();
    if (right_) text.resize(seen ? end : 0);
    if (left_ && begin > 0) {
      text.erase(0, begin);
      normalized.is_start = false;
    }
    if (auto& alignment = normalized.alignment; alignment.has_value()) {
      if (right_) alignment->resize(seen ? end : 0);
      const size_t left_count = left_ ? std::min(begin, alignment->size()) : 0;
      alignment->erase(alignment->begin(), alignment->begin() + left_count);
    }
    return absl::OkStatus();
  }

 private:
  const bool left_, right_;
};

template <UnicodeForm form>
MadeNormalizer MakeUnicodeForm(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "normalizer", {}));
  return std::make_unique<InUnicodeForm>(form);
}

MadeNormalizer MakePrepend(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "Prepend", {"prepend"}));
  ASSIGN_OR_RETURN(std::string prefix, GetString(json, "prepend"));
  return std::make_unique<Prepend>(std::move(prefix));
}

MadeNormalizer MakeReplace(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "Replace", {"pattern", "content"}));
  ASSIGN_OR_RETURN(TextPattern pattern, GetPattern(json, "pattern"));
  ASSIGN_OR_RETURN(std::shared_ptr<const Regex> regex, CompilePattern(pattern));
  ASSIGN_OR_RETURN(std::string content, GetString(json, "content"));
  return std::make_unique<Replace>(std::move(regex), std::move(content));
}

MadeNormalizer MakeStrip(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "Strip", {"strip_left", "strip_right"}));
  ASSIGN_OR_RETURN(bool left, GetBool(json, "strip_left"));
  ASSIGN_OR_RETURN(bool right, GetBool(json, "strip_right"));
  return std::make_unique<Strip>(left, right);
}

struct NormalizerRow {
  absl::string_view type;
  MadeNormalizer (*make)(const Json&);
};

constexpr NormalizerRow kNormalizers[] = {
    {"NFC", MakeUnicodeForm<UnicodeForm::kNfc>},
    {"NFD", MakeUnicodeForm<UnicodeForm::kNfd>},
    {"NFKC", MakeUnicodeForm<UnicodeForm::kNfkc>},
    {"NFKD", MakeUnicodeForm<UnicodeForm::kNfkd>},
    {"Prepend", MakePrepend},
    {"Replace", MakeReplace},
    {"Strip", MakeStrip},
    {"StripAccents", MakeStripAccents},
    {"Lowercase", MakeLowercase},
    {"Nmt", MakeNmt},
    {"ByteLevel", MakeByteLevelNormalizer},
    {"BertNormalizer", MakeBertNormalizer},
    {"Precompiled", MakePrecompiled},
};

absl::Status Add(const Json& json, Normalizers& out) {
  ASSIGN_OR_RETURN(absl::string_view type, GetComponentType(json, "normalizer"));
  if (type == "Sequence") {
    RETURN_IF_ERROR(CheckKeys(json, "normalizer", {"normalizers"}));
    ASSIGN_OR_RETURN(const Json* parts, GetMember(json, "normalizers"));
    if (!parts->is_array()) return InvalidArgument("\"normalizers\" must be a list");
    for (const Json& part : *parts) RETURN_IF_ERROR(Add(part, out));
    return absl::OkStatus();
  }
  std::string supported;
  for (const NormalizerRow& row : kNormalizers) {
    if (type == row.type) {
      ASSIGN_OR_RETURN(auto made, Annotate(row.make(json), absl::StrCat("normalizer ", type)));
      out.push_back(std::move(made));
      return absl::OkStatus();
    }
    absl::StrAppend(&supported, row.type, ", ");
  }
  return UnsupportedType("normalizer", type, absl::StrCat(supported, "Sequence"));
}

}  // namespace

absl::StatusOr<Normalizers> MakeNormalizers(const Json& normalizer) {
  Normalizers out;
  if (!normalizer.is_null()) RETURN_IF_ERROR(Add(normalizer, out));
  return out;
}

absl::Status Normalize(const Normalizers& normalizers, NormalizedText& text) {
  text.bytes_max = kNormalizedGrowthMax * text.text.size() + kNormalizedBytesSpare;
  for (const auto& normalizer : normalizers) {
    RETURN_IF_ERROR(normalizer->Apply(text));
    RETURN_IF_ERROR(CheckGrowth(text, 0));
  }
  return absl::OkStatus();
}

}  // namespace varifocal
