#include "eval_tasks/tasks/jsonl_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/json_strings.h"
#include "base/status_macros.h"
#include "eval_tasks/row_texts.h"
#include "eval_tasks/text_bytes.h"

namespace varifocal {
namespace {

// In errors.
std::string Called(const std::string& field) { return absl::StrCat("the field \"", field, "\""); }

absl::StatusOr<std::string> FieldText(const Json& row, const std::string& field) {
  return TextOf(FindField(row, field), Called(field));
}
absl::StatusOr<std::string> NonBlankField(const Json& row, const std::string& field) {
  return NonBlankTextOf(FindField(row, field), Called(field));
}
absl::StatusOr<std::vector<std::string>> NonBlankFields(const Json& row, const std::string& field) {
  return NonBlankTextsOf(FindField(row, field), Called(field));
}

absl::StatusOr<std::vector<ChatTurn>> TurnsOfField(const Json& row, const std::string& field) {
  const Json* value = FindField(row, field);
  const std::string what = Called(field);
  if (value == nullptr) return InvalidArgument(what, " is missing");
  if (!value->is_array()) return InvalidArgument(what, " is ", JsonKind(*value), ", not a list of messages");
  std::vector<ChatTurn> turns;
  for (const Json& message : *value) {
    const std::string which = absl::StrCat("message ", turns.size() + 1, " of ", what);
    if (!message.is_object()) return InvalidArgument(which, " is not an object");
    for (const auto& [key, member] : message.items()) {
      if (key == "role" || key == "content") continue;
      return InvalidArgument(which, " has \"", key, "\"; a message has a role and a content alone");
    }
    ChatTurn& turn = turns.emplace_back();
    ASSIGN_OR_RETURN(turn.role, NonBlankTextOf(FindField(message, "role"), absl::StrCat("\"role\" of ", which)));
    ASSIGN_OR_RETURN(turn.content,
                     NonBlankTextOf(FindField(message, "content"), absl::StrCat("\"content\" of ", which)));
  }
  const absl::Status checked = CheckTurns(turns);
  if (!checked.ok()) return Annotate(checked, what);
  return turns;
}

absl::StatusOr<JsonlRow> ParseRow(absl::string_view line, int line_number, const Parameters& parameters,
                                  const std::vector<TemplatePart>& prompt) {
  ASSIGN_OR_RETURN(const Json object, ParseRowObject(line));
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
  if (const std::string& field = GetText(parameters, "messages"); !field.empty()) {
    ASSIGN_OR_RETURN(row.turns, TurnsOfField(object, field));
  }
  if (!context_field.empty()) {
    ASSIGN_OR_RETURN(row.context, FieldText(object, context_field));
  }
  ASSIGN_OR_RETURN(row.gold, NonBlankFields(object, GetText(parameters, "gold")));
  row.id = absl::StrCat(line_number);
  if (const std::string& field = GetText(parameters, "id"); !field.empty()) {
    ASSIGN_OR_RETURN(row.id, NonBlankField(object, field));
  }
  if (const std::string& field = GetText(parameters, "cluster"); !field.empty()) {
    ASSIGN_OR_RETURN(row.cluster, NonBlankField(object, field));
  }
  if (const std::string& field = GetText(parameters, "choices"); !field.empty()) {
    ASSIGN_OR_RETURN(row.choices, NonBlankFields(object, field));
    if (row.choices.size() < 2) return InvalidArgument("has 1 choice; at least 2 are needed");
    for (int i = 0; i < std::ssize(row.choices); ++i) {
      if (std::find(row.gold.begin(), row.gold.end(), row.choices[i]) != row.gold.end()) row.gold_choices.push_back(i);
    }
    if (row.gold_choices.empty()) {
      return InvalidArgument(row.gold.size() == 1 ? "the gold answer is not" : "none of the gold answers is",
                             " among the choices");
    }
  }
  if (const std::string& field = GetText(parameters, "evidence"); !field.empty()) {
    ASSIGN_OR_RETURN(row.evidence, NonBlankFields(object, field));
    for (const std::string& text : row.evidence) {
      if (!absl::StrContains(row.context, text)) return InvalidArgument("an evidence text is not in the context");
    }
  }
  if (const std::string& field = GetText(parameters, "reference"); !field.empty()) {
    const Json* reference = FindField(object, field);
    if (reference == nullptr || !reference->is_object()) {
      return InvalidArgument(Called(field), reference == nullptr
                                                ? " is missing"
                                                : absl::StrCat(" is ", JsonKind(*reference), ", not an object"));
    }
    ASSIGN_OR_RETURN(row.reference_json, DumpJson(*reference));
  }
  return row;
}

// Of what the template leaves out, nothing is asked.
absl::Status CheckShows(const std::vector<TemplatePart>& prompt, const Parameters& parameters) {
  if (!GetText(parameters, "messages").empty()) return absl::OkStatus();
  const auto shows = [&](const std::string& field) {
    return std::any_of(prompt.begin(), prompt.end(), [&](const TemplatePart& part) {
      return part.is_field && (field.empty() || part.text == field);
    });
  };
  if (const std::string& context = GetText(parameters, "context"); !shows(context)) {
    if (!context.empty()) {
      return InvalidArgument("context: the prompt has no {", context,
                             "}, so no model would see the context; rows that are "
                             "not independent are named by `cluster` instead");
    }
    if (GetText(parameters, "choices").empty()) {
      return InvalidArgument("prompt: it has no field such as {question}, so every row would ask the same");
    }
  }
  return absl::OkStatus();
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
        return InvalidArgument("prompt: the brace at byte ", i, " does not begin a field name");
      }
      parts.push_back({true, std::string(text.substr(i + 1, close - i - 1))});
      parts.push_back({});
      i = close;
    } else if (c == '}') {
      return InvalidArgument("prompt: the brace at byte ", i, " is unmatched; write }}");
    } else {
      parts.back().text += c;
    }
  }
  return parts;
}

absl::StatusOr<std::vector<JsonlRow>> ParseJsonlRows(const Parameters& parameters, absl::string_view path,
                                                     absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::vector<TemplatePart> prompt, ParseTemplate(GetText(parameters, "prompt")));
  RETURN_IF_ERROR(CheckShows(prompt, parameters));
  RETURN_IF_ERROR(CheckBeginsText(path, bytes));
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
    if (!is_new) return InvalidArgument(place, ": the id is already that of row ", earlier->second);
    rows.push_back(*std::move(row));
  }
  if (rows.empty()) return InvalidArgument(path, ": has no rows; at least 1 is needed");
  GatherContexts(rows);
  return rows;
}

}  // namespace varifocal
