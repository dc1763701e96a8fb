// The table of filters. Adding one is a function and a row here.
#include "eval_tasks/filters.h"

#include <re2/re2.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "eval_tasks/python/text.h"

namespace varifocal {

class AnswerFilters::Step {
 public:
  Step(const FilterSpec& given, std::optional<std::string> (*function)(const Step&, absl::string_view),
       std::unique_ptr<const RE2> compiled)
      : spec(given), apply(function), pattern(std::move(compiled)) {}

  const FilterSpec spec;
  std::optional<std::string> (*const apply)(const Step&, absl::string_view);
  const std::unique_ptr<const RE2> pattern;  // null where the filter has none
};

namespace {

using FilterStep = AnswerFilters::Step;
using Extracted = std::optional<std::string>;

constexpr char kFirstMatch[] = "first", kLastMatch[] = "last", kAllMatches[] = "all";

std::unique_ptr<const RE2> CompilePattern(const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(1 << 20);  // a job may have a thousand of them
  return std::make_unique<const RE2>(pattern, options);
}

// Matches whose group took no part, or is empty, do not count.
Extracted ApplyRegex(const FilterStep& step, absl::string_view text) {
  const re2::StringPiece whole(text.data(), text.size());
  const int group = step.spec.group.value_or(0);
  std::vector<re2::StringPiece> groups(group + 1);
  std::vector<std::string> found;
  size_t at = 0;
  for (int i = 0; i < kFilterMatchesMax && at <= text.size(); ++i) {
    if (!step.pattern->Match(whole, at, text.size(), RE2::UNANCHORED, groups.data(), group + 1)) break;
    if (!groups[group].empty()) {
      if (step.spec.match == kLastMatch) found.clear();
      found.emplace_back(groups[group].data(), groups[group].size());
      if (step.spec.match == kFirstMatch) break;
    }
    at = groups[0].data() + groups[0].size() - text.data();
    if (groups[0].empty()) ++at;  // one byte: patterns do not match inside a character
  }
  if (found.empty()) return std::nullopt;
  return absl::StrJoin(found, ", ");
}

size_t FindText(const FilterStep& step, absl::string_view text) {
  return step.spec.match == kLastMatch ? text.rfind(step.spec.text) : text.find(step.spec.text);
}

Extracted ApplyAfter(const FilterStep& step, absl::string_view text) {
  const size_t at = FindText(step, text);
  if (at == absl::string_view::npos) return std::nullopt;
  return std::string(text.substr(at + step.spec.text.size()));
}

Extracted ApplyBefore(const FilterStep& step, absl::string_view text) {
  const size_t at = FindText(step, text);
  if (at == absl::string_view::npos) return std::nullopt;
  return std::string(text.substr(0, at));
}

// The text has no white space at its ends, so that neither line is blank.
Extracted ApplyFirstLine(const FilterStep&, absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}
Extracted ApplyLastLine(const FilterStep&, absl::string_view text) {
  return std::string(text.substr(text.rfind('\n') + 1));
}

Extracted ApplyLowerCase(const FilterStep&, absl::string_view text) { return PythonLower(text); }

Extracted ApplyStrip(const FilterStep& step, absl::string_view text) {
  const std::string stripped = absl::StrCat(step.spec.text, " \t\n\v\f\r");
  const size_t begin = text.find_first_not_of(stripped);
  if (begin == absl::string_view::npos) return std::nullopt;
  return std::string(text.substr(begin, text.find_last_not_of(stripped) + 1 - begin));
}

struct FilterRow {
  const char* name;
  Extracted (*apply)(const FilterStep&, absl::string_view);
  enum Text { kNone, kOptional, kRequired } text = kNone;
  bool has_pattern = false;
  bool has_match = false;
  const char* match_default = "";
};

constexpr FilterRow kFilterTable[] = {
    {"regex", &ApplyRegex, FilterRow::kNone, true, true, kFirstMatch},
    {"after", &ApplyAfter, FilterRow::kRequired, false, true, kLastMatch},
    {"before", &ApplyBefore, FilterRow::kRequired, false, true, kFirstMatch},
    {"first_line", &ApplyFirstLine},
    {"last_line", &ApplyLastLine},
    {"lower_case", &ApplyLowerCase},
    {"strip", &ApplyStrip, FilterRow::kOptional},
};

const FilterRow* FindFilterRow(absl::string_view name) {
  const FilterRow* row = std::find_if(std::begin(kFilterTable), std::end(kFilterTable),
                                      [&](const FilterRow& of) { return of.name == name; });
  return row == std::end(kFilterTable) ? nullptr : row;
}

absl::Status BadFilter(const char* key, absl::string_view problem) {
  return WithField(absl::InvalidArgumentError(problem), key);
}

absl::Status CheckFilterText(const char* key, const std::string& value) {
  if (value.size() <= kFilterTextBytesMax) return absl::OkStatus();
  return BadFilter(key, absl::StrCat(key, " has ", value.size(), " bytes, the limit is ", kFilterTextBytesMax));
}

absl::Status ValidatePattern(FilterSpec& spec) {
  if (spec.pattern.empty()) return BadFilter("pattern", "the filter \"regex\" needs a pattern");
  RETURN_IF_ERROR(CheckFilterText("pattern", spec.pattern));
  const std::unique_ptr<const RE2> compiled = CompilePattern(spec.pattern);
  if (!compiled->ok()) {
    return BadFilter("pattern", absl::StrReplaceAll(absl::StrCat("pattern is \"", spec.pattern,
                                                                 "\", which RE2 does not take: ", compiled->error()),
                                                    {{"\n", "\\n"}}));
  }
  const int groups = compiled->NumberOfCapturingGroups();
  if (!spec.group.has_value()) spec.group = groups > 0 ? 1 : 0;
  if (*spec.group >= 0 && *spec.group <= groups) return absl::OkStatus();
  return BadFilter("group", absl::StrCat("group is ", *spec.group, "; the pattern has groups 0 to ", groups));
}

absl::Status CheckNotGiven(const FilterRow& row, const char* key, bool is_given) {
  if (!is_given) return absl::OkStatus();
  return BadFilter(key, absl::StrCat("the filter \"", row.name, "\" takes no ", key));
}

absl::Status ValidateMatch(const FilterRow& row, FilterSpec& spec) {
  if (spec.match.empty()) spec.match = row.match_default;
  if (spec.match == kFirstMatch || spec.match == kLastMatch || (spec.match == kAllMatches && row.has_pattern))
    return absl::OkStatus();
  return BadFilter("match", absl::StrCat("match is \"", spec.match, "\"; it must be ",
                                         row.has_pattern ? "first, last or all" : "first or last"));
}

}  // namespace

std::vector<std::string> FilterNames() { return NamesOf(kFilterTable); }

FilterSpec AnswerLineFilter() {
  return {.filter = "regex",
          .pattern = R"((?im)^[ \t>*_#-]*answer[ \t*_]*:[ \t*_]*(.*?)[ \t\r*_]*$)",
          .group = 1,
          .match = kLastMatch,
          .text = ""};
}

absl::StatusOr<FilterSpec> ValidateFilter(FilterSpec spec) {
  const FilterRow* row = FindFilterRow(spec.filter);
  if (row == nullptr) {
    if (spec.filter.empty()) return BadFilter("filter", "a filter has no name: its key is `filter`");
    return BadFilter("filter",
                     absl::StrCat("unknown filter \"", spec.filter, "\"", DidYouMean(spec.filter, FilterNames())));
  }
  if (row->has_pattern) {
    RETURN_IF_ERROR(ValidatePattern(spec));
  } else {
    RETURN_IF_ERROR(CheckNotGiven(*row, "pattern", !spec.pattern.empty()));
    RETURN_IF_ERROR(CheckNotGiven(*row, "group", spec.group.has_value()));
  }
  RETURN_IF_ERROR(row->has_match ? ValidateMatch(*row, spec) : CheckNotGiven(*row, "match", !spec.match.empty()));
  if (row->text == FilterRow::kNone) RETURN_IF_ERROR(CheckNotGiven(*row, "text", !spec.text.empty()));
  if (row->text == FilterRow::kRequired && spec.text.empty()) {
    return BadFilter("text", absl::StrCat("the filter \"", row->name, "\" needs a text"));
  }
  RETURN_IF_ERROR(CheckFilterText("text", spec.text));
  return spec;
}

AnswerFilters::AnswerFilters(absl::Span<const FilterSpec> specs) {
  for (const FilterSpec& spec : specs) {
    const FilterRow* row = FindFilterRow(spec.filter);
    VF_CHECK(row != nullptr, "filters are validated with the job");
    steps_.push_back(std::make_shared<const FilterStep>(spec, row->apply,
                                                        row->has_pattern ? CompilePattern(spec.pattern) : nullptr));
  }
}

std::optional<std::string> AnswerFilters::Apply(absl::string_view text) const {
  std::string left(absl::StripAsciiWhitespace(text));
  for (const std::shared_ptr<const FilterStep>& step : steps_) {
    if (left.empty()) return std::nullopt;
    Extracted found = step->apply(*step, left);
    if (!found.has_value()) return std::nullopt;
    left = std::string(absl::StripAsciiWhitespace(*found));
  }
  if (left.empty()) return std::nullopt;
  return left;
}

std::string FiltersText(absl::Span<const FilterSpec> specs) {
  std::vector<std::string> parts;
  for (const FilterSpec& spec : specs) {
    std::string part = spec.filter;
    if (!spec.pattern.empty()) absl::StrAppend(&part, " ", spec.pattern);
    if (!spec.text.empty()) absl::StrAppend(&part, " \"", spec.text, "\"");
    if (spec.group.has_value()) absl::StrAppend(&part, ", group ", *spec.group);
    if (!spec.match.empty())
      absl::StrAppend(&part, ", ", spec.match, spec.match == kAllMatches ? " matches" : " match");
    parts.push_back(std::move(part));
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace varifocal
