#include "tokenizer/normalizers.h"

#include <cstdlib>

#include <utf8proc.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/component.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

using MadeNormalizer = absl::StatusOr<std::unique_ptr<const Normalizer>>;

class UnicodeForm : public Normalizer {
 public:
  explicit UnicodeForm(utf8proc_option_t options) : options_(options) {}
  absl::Status Apply(std::string& text) const override {
    if (ValidAscii(text)) return absl::OkStatus();
    std::string out;
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      uint32_t point = 0;
      const int length = ReadValidUtf8(text.data() + at, &point);
      if ((UnicodeClasses()[point] & kInert) != 0) {  // stays as it is, and nothing composes or moves across it
        RETURN_IF_ERROR(Append(absl::string_view(text).substr(done, at - done), out));
        out.append(text, at, length);
        done = at + length;
      }
      at += length;
    }
    RETURN_IF_ERROR(Append(absl::string_view(text).substr(done), out));
    text = std::move(out);
    return absl::OkStatus();
  }

 private:
  absl::Status Append(absl::string_view stretch, std::string& out) const {
    if (stretch.empty()) return absl::OkStatus();
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(stretch.data()),
                                               static_cast<utf8proc_ssize_t>(stretch.size()), &mapped, options_);
    if (size < 0) return absl::InternalError(absl::StrCat("Unicode normalization failed: ", utf8proc_errmsg(size)));
    out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
    std::free(mapped);
    return absl::OkStatus();
  }
  static bool ValidAscii(const std::string& text) {
    for (char c : text) {
      if (static_cast<uint8_t>(c) >= 0x80) return false;
    }
    return true;
  }
  const utf8proc_option_t options_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  absl::Status Apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(std::shared_ptr<const Regex> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  absl::Status Apply(std::string& text) const override {
    ASSIGN_OR_RETURN(std::vector<TextRange> found, pattern_->FindAll(text));
    if (found.empty()) return absl::OkStatus();
    std::string out;
    size_t at = 0;
    for (const TextRange& range : found) {
      out.append(text, at, range.begin - at).append(content_);
      at = range.end;
    }
    out.append(text, at, std::string::npos);
    text = std::move(out);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const Regex> pattern_;
  const std::string content_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  absl::Status Apply(std::string& text) const override {
    size_t begin = 0, end = 0, at = 0;  // of what is not a space
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
    if (left_) text.erase(0, begin);
    return absl::OkStatus();
  }

 private:
  const bool left_, right_;
};

template <int options>
MadeNormalizer MakeUnicodeForm(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "normalizer", {}));
  return std::make_unique<UnicodeForm>(static_cast<utf8proc_option_t>(options));
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
    {"NFC", MakeUnicodeForm<UTF8PROC_STABLE | UTF8PROC_COMPOSE>},
    {"NFD", MakeUnicodeForm<UTF8PROC_STABLE | UTF8PROC_DECOMPOSE>},
    {"NFKC", MakeUnicodeForm<UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT>},
    {"NFKD", MakeUnicodeForm<UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT>},
    {"Prepend", MakePrepend},
    {"Replace", MakeReplace},
    {"Strip", MakeStrip},
};

absl::Status Add(const Json& json, Normalizers& out) {
  ASSIGN_OR_RETURN(absl::string_view type, GetComponentType(json, "normalizer"));
  if (type == "Sequence") {
    RETURN_IF_ERROR(CheckKeys(json, "normalizer", {"normalizers"}));
    ASSIGN_OR_RETURN(const Json* parts, GetMember(json, "normalizers"));
    if (!parts->is_array()) return absl::InvalidArgumentError("\"normalizers\" must be a list");
    for (const Json& part : *parts) RETURN_IF_ERROR(Add(part, out));
    return absl::OkStatus();
  }
  std::string supported;
  for (const NormalizerRow& row : kNormalizers) {
    if (type == row.type) {
      auto made = row.make(json);
      if (!made.ok()) return Annotate(made.status(), absl::StrCat("normalizer ", type));
      out.push_back(*std::move(made));
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

absl::Status Normalize(const Normalizers& normalizers, std::string& text) {
  for (const auto& normalizer : normalizers) RETURN_IF_ERROR(normalizer->Apply(text));
  return absl::OkStatus();
}

}  // namespace varifocal
