#include "eval_tasks/tasks/jsonl_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

// A field as text: a text itself, or a number or truth value as JSON writes it.
absl::StatusOr<std::string> FieldText(const Json& object, const std::string& field) {
  const auto it = object.find(field);
  if (it == object.end() || it->is_null())
    return absl::InvalidArgumentError(absl::StrCat("the field \"", field, "\" is missing"));
  if (it->is_string()) return it->get<std::string>();
  if (it->is_number() || it->is_boolean()) return it->dump();
  return absl::InvalidArgumentError(absl::StrCat("the field \"", field, "\" is ", it->type_name(), ", not a text"));
}

absl::StatusOr<std::vector<std::string>> FieldTexts(const Json& object, const std::string& field) {
  std::vector<std::string> texts;
  const auto it = object.find(field);
  if (it != object.end() && it->is_array()) {
    for (const Json& item : *it) {
      ASSIGN_OR_RETURN(std::string text, FieldText(Json{{field, item}}, field));
      texts.push_back(std::move(text));
    }
  } else {
    ASSIGN_OR_RETURN(std::string text, FieldText(object, field));
    texts.push_back(std::move(text));
  }
  if (texts.empty()) return absl::InvalidArgumentError(absl::StrCat("the field \"", field, "\" is an empty list"));
  for (const std::string& text : texts) {
    if (absl::StripAsciiWhitespace(text).empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the field \"", field, "\" is empty"));
    }
  }
  return texts;
}

absl::StatusOr<JsonlRow> ParseRow(absl::string_view line, int line_number, const Parameters& parameters,
                                  const std::vector<TemplatePart>& prompt) {
  ASSIGN_OR_RETURN(const Json object, ParseJson(line));
  if (!object.is_object())
    return absl::InvalidArgumentError(absl::StrCat("is ", object.type_name(), ", not a JSON object"));
  JsonlRow row;
  row.line_number = line_number;
  const std::string& context_field = GetText(parameters, "context");
  for (const TemplatePart& part : prompt) {
    if (part.is_field && part.text != context_field) {
      ASSIGN_OR_RETURN(std::string text, FieldText(object, part.text));
      row.prompt.push_back({false, std::move(text)});
    } else {
      row.prompt.push_back(part);
    }
  }
  if (!context_field.empty()) {
    ASSIGN_OR_RETURN(row.context, FieldText(object, context_field));
  }
  ASSIGN_OR_RETURN(row.gold, FieldTexts(object, GetText(parameters, "gold")));
  row.id = absl::StrCat(line_number);
  if (!GetText(parameters, "id").empty()) {
    ASSIGN_OR_RETURN(row.id, FieldText(object, GetText(parameters, "id")));
    if (row.id.empty())
      return absl::InvalidArgumentError(absl::StrCat("the field \"", GetText(parameters, "id"), "\" is empty"));
  }
  if (!GetText(parameters, "cluster").empty()) {
    ASSIGN_OR_RETURN(row.cluster, FieldText(object, GetText(parameters, "cluster")));
  }
  if (!GetText(parameters, "choices").empty()) {
    ASSIGN_OR_RETURN(row.choices, FieldTexts(object, GetText(parameters, "choices")));
    if (row.choices.size() < 2) return absl::InvalidArgumentError("has 1 choice; at least 2 are needed");
    if (std::find(row.choices.begin(), row.choices.end(), row.gold[0]) == row.choices.end()) {
      return absl::InvalidArgumentError("the gold answer is not among the choices");
    }
  }
  if (!GetText(parameters, "evidence").empty()) {
    ASSIGN_OR_RETURN(row.evidence, FieldTexts(object, GetText(parameters, "evidence")));
    for (const std::string& text : row.evidence) {
      if (!absl::StrContains(row.context, text)) {
        return absl::InvalidArgumentError("an evidence text is not in the context");
      }
    }
  }
  return row;
}

// Rows of one context adjacent, contexts in the order of their first rows.
void GatherContexts(std::vector<JsonlRow>& rows) {
  std::map<std::string, size_t> first_of;
  std::vector<size_t> rank(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rank[i] = rows[i].context.empty() ? i : first_of.emplace(rows[i].context, i).first->second;
  }
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank[a] < rank[b]; });
  std::vector<JsonlRow> gathered;
  gathered.reserve(rows.size());
  for (size_t i : order) gathered.push_back(std::move(rows[i]));
  rows = std::move(gathered);
}

}  // namespace

absl::StatusOr<std::vector<TemplatePart>> ParseTemplate(absl::string_view text) {
  std::vector<TemplatePart> parts(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      parts.back().text += c;
      ++i;
    } else if (c == '{') {
      const size_t close = text.find('}', i);
      if (close == absl::string_view::npos || close == i + 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("prompt: the brace at byte ", i, " does not begin a field name"));
      }
      parts.push_back({true, std::string(text.substr(i + 1, close - i - 1))});
      parts.push_back({});
      i = close;
    } else if (c == '}') {
      return absl::InvalidArgumentError(absl::StrCat("prompt: the brace at byte ", i, " is unmatched; write }}"));
    } else {
      parts.back().text += c;
    }
  }
  return parts;
}

absl::StatusOr<std::vector<JsonlRow>> ParseJsonlRows(const Parameters& parameters, absl::string_view path,
                                                     absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::vector<TemplatePart> prompt, ParseTemplate(GetText(parameters, "prompt")));
  std::vector<JsonlRow> rows;
  std::map<std::string, int> line_of_id;
  int line_number = 0;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    const absl::string_view line = absl::StripAsciiWhitespace(bytes.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.empty()) continue;
    absl::StatusOr<JsonlRow> row = ParseRow(line, line_number, parameters, prompt);
    const std::string place = absl::StrCat(path, ": row ", line_number);
    if (!row.ok()) return Annotate(row.status(), place);
    const auto [earlier, is_new] = line_of_id.emplace(row->id, line_number);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": the id is already that of row ", earlier->second));
    }
    rows.push_back(*std::move(row));
  }
  if (rows.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": has no rows; at least 1 is needed"));
  GatherContexts(rows);
  return rows;
}

}  // namespace varifocal
