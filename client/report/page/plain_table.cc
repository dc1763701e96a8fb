#include "client/report/page/plain_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"

namespace varifocal::report {

PlainTable ThinkingCosts(const ReportData& data) {
  return {"Thinking", ThinkingTable::Titles(), data.thinking.Rows(data.VariantNames()), Sentence("thinking_note")};
}

PlainTable ScoreAgreement(const ReportData& data) {
  return {"Agreement of scores", AgreementTable::Titles(), data.agreement.Rows(data.confidence),
          Sentence("agreement_note", {{"confidence", ConfidenceLabel(data.confidence)}})};
}

std::string PlainTableHtml(const PlainTable& table) {
  if (table.rows.empty()) return "";
  std::string out = absl::StrCat(ScrollBegin(table.label), "<table class=\"data\"><thead><tr>");
  for (size_t i = 0; i < table.titles.size(); ++i)
    absl::StrAppend(&out, i == 0 ? "<th>" : "<th class=\"n\">", EscapeHtml(table.titles[i]), "</th>");
  out += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      absl::StrAppend(&out, i == 0 ? "<td>" : "<td class=\"n\">", EscapeHtml(row[i]), "</td>");
    out += "</tr>\n";
  }
  return absl::StrCat(out, "</tbody></table></div>\n<p class=\"note\">", EscapeHtml(table.note), "</p>\n");
}

std::string PlainTableMarkdown(const PlainTable& table) {
  if (table.rows.empty()) return "";
  std::string out = absl::StrCat("\n| ", absl::StrJoin(table.titles, " | "), " |\n| ---");
  for (size_t i = 1; i < table.titles.size(); ++i) out += " | ---:";
  out += " |\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "|";
    for (const std::string& cell : row) absl::StrAppend(&out, " ", EscapeMarkdownCell(cell), " |");
    out += "\n";
  }
  return absl::StrCat(out, "\n", table.note, "\n");
}

}  // namespace varifocal::report
