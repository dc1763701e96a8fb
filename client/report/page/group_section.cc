#include "client/report/page/group_section.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"

namespace varifocal::report {

std::string GroupTableHtml(const GroupTable& table, const std::vector<std::string>& variants) {
  Json rows = Json::array();
  std::string before;
  for (const std::vector<std::string>& row : table.Rows(variants)) {
    const bool is_first = row[0] != before;
    before = row[0];
    Json cells = {{"first", is_first}, {"length", row[6]}, {"pairs", row[7]}, {"largest", row[8]}};
    static constexpr const char* kSetting[] = {"variant", "groups", "window", "bias", "regime", "trained"};
    for (size_t i = 0; i < std::size(kSetting); ++i) cells[kSetting[i]] = is_first ? row[i] : "";
    rows.push_back(std::move(cells));
  }
  if (rows.empty()) return "";
  return FillTemplate("group_table.html", {{"rows", std::move(rows)}, {"note", Sentence("group_note")}});
}

std::string GroupTableMarkdown(const GroupTable& table, const std::vector<std::string>& variants) {
  const std::vector<std::vector<std::string>> rows = table.Rows(variants);
  if (rows.empty()) return "";
  std::string out = absl::StrCat("\n| ", absl::StrJoin(GroupTable::Titles(), " | "),
                                 " |\n| --- | --- | ---: | --- | --- | ---: | ---: | ---: | ---: |\n");
  for (const std::vector<std::string>& row : rows) {
    out += "|";
    for (const std::string& cell : row) absl::StrAppend(&out, " ", EscapeMarkdownCell(cell), " |");
    out += "\n";
  }
  return absl::StrCat(out, "\n", Sentence("group_note"), "\n");
}

std::string GroupTableLatex(const GroupTable& table, const std::vector<std::string>& variants) {
  const std::vector<std::vector<std::string>> rows = table.Rows(variants);
  if (rows.empty()) return "";
  std::string out = absl::StrCat("\n\\begin{table}\n\\centering\\small\n\\begin{tabular}{llrllrrrr}\n\\toprule\n",
                                 absl::StrJoin(GroupTable::Titles(), " & "), " \\\\\n\\midrule\n");
  for (const std::vector<std::string>& row : rows) {
    const auto add = [](std::string* line, const std::string& cell) {
      line->append(cell == kNoValue ? kNoValueLatex : EscapeLatex(cell));
    };
    absl::StrAppend(&out, absl::StrJoin(row, " & ", add), " \\\\\n");
  }
  return absl::StrCat(out, "\\bottomrule\n\\end{tabular}\n\\caption{", EscapeLatex(Sentence("group_note")),
                      "}\n\\end{table}\n");
}

}  // namespace varifocal::report
