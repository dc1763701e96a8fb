#include "client/report/page/template.h"

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/embedded.h"
#include "client/report/data/text_format.h"

namespace varifocal {

EmbeddedFiles Embedded_ReportTemplates();

namespace report {
namespace {

// The text of a sentence, of "name: text" lines.
absl::string_view TextOfSentence(absl::string_view name) {
  static const std::map<std::string, std::string, std::less<>>* const sentences = [] {
    auto* all = new std::map<std::string, std::string, std::less<>>;
    const std::string lines(Embedded_ReportTemplates().Text("sentences.txt"));
    for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(": ", 1));
      all->emplace(parts.first, parts.second);
    }
    return all;
  }();
  const auto found = sentences->find(name);
  VF_CHECK(found != sentences->end(), "a sentence of a template is in sentences.txt");
  return found->second;
}

class Filler {
 public:
  Filler(absl::string_view text, std::vector<const Json*> scopes) : text_(text), scopes_(std::move(scopes)) {}

  std::string FillWhole() {
    std::string out;
    size_t at = 0;
    Render(at, "", &out);
    return out;
  }

 private:
  // Renders from `at` to the end of `section` into `out` unless it is null, and sets `at` behind the section's end.
  void Render(size_t& at, absl::string_view section, std::string* out) {
    while (true) {
      const size_t open = text_.find("{{", at);
      if (open == absl::string_view::npos) {
        VF_CHECK(section.empty(), "a section of a template is not closed");
        if (out != nullptr) absl::StrAppend(out, text_.substr(at));
        return;
      }
      const bool is_raw = absl::StartsWith(text_.substr(open), "{{{");
      const absl::string_view end = is_raw ? "}}}" : "}}";
      const size_t close = text_.find(end, open);
      VF_CHECK(close != absl::string_view::npos, "a place of a template is not closed");
      absl::string_view name = text_.substr(open + end.size(), close - open - end.size());
      const char kind = is_raw || name.empty() ? ' ' : name[0];
      const bool is_sentence = absl::StartsWith(name, ">");
      const bool is_tag = kind == '#' || kind == '^' || kind == '/';
      if (is_tag || is_sentence) name.remove_prefix(1);
      size_t before_end = open, next = close + end.size();
      if (is_tag) DropLine(open, before_end, next);
      if (out != nullptr && before_end > at) absl::StrAppend(out, text_.substr(at, before_end - at));
      at = next;
      if (kind == '/') {
        VF_CHECK(name == section, "sections of a template overlap");
        return;
      }
      if (is_tag) {
        RenderSection(at, name, kind == '^', out);
      } else if (out != nullptr) {
        const std::string value = is_sentence ? Filler(TextOfSentence(name), scopes_).FillWhole() : TextOf(Find(name));
        absl::StrAppend(out, is_raw ? value : EscapeHtml(value));
      }
    }
  }

  void RenderSection(size_t& at, absl::string_view name, bool is_inverted, std::string* out) {
    const Json& value = Find(name);
    const size_t begin = at;
    const bool is_there = IsThere(value);
    if (out == nullptr || is_there == is_inverted) {
      Render(at, name, nullptr);
    } else if (!is_inverted && value.is_array()) {
      for (const Json& item : value) {
        at = begin;
        scopes_.push_back(&item);
        Render(at, name, out);
        scopes_.pop_back();
      }
    } else {
      if (!is_inverted) scopes_.push_back(&value);
      Render(at, name, out);
      if (!is_inverted) scopes_.pop_back();
    }
  }

  // Omits the line if the tag at `open` is alone on it.
  void DropLine(size_t open, size_t& before_end, size_t& next) const {
    size_t begin = open;
    while (begin > 0 && (text_[begin - 1] == ' ' || text_[begin - 1] == '\t')) --begin;
    size_t end = next;
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t')) ++end;
    const bool is_alone = (begin == 0 || text_[begin - 1] == '\n') && (end == text_.size() || text_[end] == '\n');
    if (!is_alone) return;
    before_end = begin;
    next = end == text_.size() ? end : end + 1;
  }

  static bool IsThere(const Json& value) {
    if (value.is_null()) return false;
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_string()) return !value.get_ref<const std::string&>().empty();
    return value.is_number() || !value.empty();
  }

  static std::string TextOf(const Json& value) {
    if (value.is_null()) return "";
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  const Json& Find(absl::string_view name) const {
    static const Json kNull;
    if (name == ".") return *scopes_.back();
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (!(*scope)->is_object()) continue;
      const auto found = (*scope)->find(std::string(name));
      if (found != (*scope)->end()) return *found;
    }
    return kNull;
  }

  absl::string_view text_;
  std::vector<const Json*> scopes_;
};

}  // namespace

std::string Fill(absl::string_view text, const Json& values) { return Filler(text, {&values}).FillWhole(); }

std::string Sentence(absl::string_view name, const Json& values) { return Fill(TextOfSentence(name), values); }

std::string ScrollBegin(absl::string_view label) {
  return absl::StrCat("<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"", EscapeHtml(label), "\">");
}

std::string FillTemplate(absl::string_view name, const Json& values) {
  return Fill(Embedded_ReportTemplates().Text(std::string(name)), values);
}

}  // namespace report
}  // namespace varifocal
