#include "client/report/page/thinking_section.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"

namespace varifocal::report {

std::string ThinkingTableHtml(const ThinkingTable& table, const std::vector<std::string>& variants) {
  const std::vector<std::vector<std::string>> rows = table.Rows(variants);
  if (rows.empty()) return "";
  std::string out = absl::StrCat(ScrollBegin("Thinking"), "<table class=\"data\"><thead><tr>");
  for (size_t i = 0; i < ThinkingTable::Titles().size(); ++i)
    absl::StrAppend(&out, i == 0 ? "<th>" : "<th class=\"n\">", ThinkingTable::Titles()[i], "</th>");
  out += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      absl::StrAppend(&out, i == 0 ? "<td>" : "<td class=\"n\">", EscapeHtml(row[i]), "</td>");
    out += "</tr>\n";
  }
  return absl::StrCat(out, "</tbody></table></div>\n<p class=\"note\">", EscapeHtml(Sentence("thinking_note")),
                      "</p>\n");
}

std::string ThinkingTableMarkdown(const ThinkingTable& table, const std::vector<std::string>& variants) {
  const std::vector<std::vector<std::string>> rows = table.Rows(variants);
  if (rows.empty()) return "";
  std::string out = absl::StrCat("\n| ", absl::StrJoin(ThinkingTable::Titles(), " | "),
                                 " |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const std::vector<std::string>& row : rows) {
    out += "|";
    for (const std::string& cell : row) absl::StrAppend(&out, " ", EscapeMarkdownCell(cell), " |");
    out += "\n";
  }
  return absl::StrCat(out, "\n", Sentence("thinking_note"), "\n");
}

}  // namespace varifocal::report
