#include "client/rows.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/report/data/columns.h"
#include "client/report/data/text_format.h"

namespace varifocal::client {
namespace {

std::string PlainText(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return absl::StrFormat("%.4g", value.get<double>());
  return value.dump();
}

// A CSV field with all digits of a double.
absl::StatusOr<std::string> CsvText(const Json& value) {
  if (!value.is_structured()) return report::CsvValue(value);
  ASSIGN_OR_RETURN(std::string text, DumpJson(value));
  return report::CsvField(text);
}

const Json& Cell(const Json& row, const std::string& key) {
  static const Json kNull;
  const auto it = row.find(key);
  return it == row.end() ? kNull : *it;
}

constexpr size_t kColumnGap = 2;

size_t LongestWord(absl::string_view text) {
  size_t longest = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ')) longest = std::max(longest, DisplayWidth(word));
  return longest;
}

// Narrows the widest columns that can be wrapped until the table fits, as far as that is possible.
void Narrow(int columns, const std::vector<size_t>& least, std::vector<size_t>& widths) {
  size_t total = kColumnGap * (widths.size() - 1);
  for (size_t width : widths) total += width;
  while (total > static_cast<size_t>(std::max(columns, 1))) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == widths.size()) return;
    --widths[widest];
    --total;
  }
}

}  // namespace

std::string ShortList(const std::vector<std::string>& items, size_t shown_max) {
  const size_t shown = items.size() <= shown_max + 1 ? items.size() : shown_max;  // "and 1 more" is not shorter
  std::string text;
  for (size_t i = 0; i < shown; ++i) absl::StrAppend(&text, i > 0 ? ", " : "", items[i]);
  return shown == items.size() ? text : absl::StrCat(text, " and ", items.size() - shown, " more");
}

size_t DisplayWidth(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::vector<std::string> WrapWords(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return {std::string(text)};
  std::vector<std::string> lines;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (lines.empty() || DisplayWidth(lines.back()) + 1 + DisplayWidth(word) > width) {
      lines.emplace_back(word);
    } else {
      absl::StrAppend(&lines.back(), " ", word);
    }
  }
  return lines;
}

std::string AlignedTable(const Console& console, const std::vector<std::string>& titles, const std::vector<bool>& right,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths, least;
  for (const std::string& title : titles) {
    widths.push_back(DisplayWidth(title));
    least.push_back(LongestWord(title));
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
      least[i] = std::max(least[i], LongestWord(row[i]));
    }
  }
  if (console.out_is_terminal) Narrow(console.width, least, widths);
  const auto line = [&](const std::vector<std::string>& cells, bool is_title) {
    std::vector<std::vector<std::string>> wrapped;
    size_t height = 1;
    for (size_t i = 0; i < widths.size(); ++i) {
      wrapped.push_back(WrapWords(cells[i], widths[i]));
      height = std::max(height, wrapped.back().size());
    }
    std::string lines;
    for (size_t row = 0; row < height; ++row) {
      std::string text;
      for (size_t i = 0; i < widths.size(); ++i) {
        const std::string cell = row < wrapped[i].size() ? wrapped[i][row] : "";
        const std::string padding(widths[i] - DisplayWidth(cell), ' ');
        absl::StrAppend(&text, i > 0 ? "  " : "", right[i] ? padding : "", cell, right[i] ? "" : padding);
      }
      while (!text.empty() && text.back() == ' ') text.pop_back();
      absl::StrAppend(&lines, is_title ? Styled(console, Style::kBold, text) : text, "\n");
    }
    return lines;
  };
  std::string table = line(titles, /*is_title=*/true);
  for (const auto& row : rows) table += line(row, /*is_title=*/false);
  return table;
}

absl::Status Rows::Add(Json row) {
  if (console_.format == Format::kJsonLines) return PrintJson(console_, row);
  if (console_.format != Format::kCsv) {
    kept_.push_back(std::move(row));
    return absl::OkStatus();
  }
  std::string line;
  if (!header_written_) {
    for (const Column& column : columns_) absl::StrAppend(&line, line.empty() ? "" : ",", column.key);
    console_.out << line << "\n";
    header_written_ = true;
    line.clear();
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string field, CsvText(Cell(row, columns_[i].key)));
    absl::StrAppend(&line, i > 0 ? "," : "", field);
  }
  console_.out << line << "\n";
  return absl::OkStatus();
}

absl::Status Rows::Finish(absl::string_view if_empty) {
  switch (console_.format) {
    case Format::kJsonLines:
      break;
    case Format::kCsv:
      if (!header_written_) {
        std::string line;
        for (const Column& column : columns_) absl::StrAppend(&line, line.empty() ? "" : ",", column.key);
        console_.out << line << "\n";
      }
      break;
    case Format::kJson: {
      std::string text = "[";
      for (size_t i = 0; i < kept_.size(); ++i) {
        ASSIGN_OR_RETURN(const std::string object, DumpJson(kept_[i]));
        absl::StrAppend(&text, i > 0 ? ",\n " : "", object);
      }
      console_.out << text << "]\n";
      break;
    }
    case Format::kText: {
      if (kept_.empty()) {
        if (!if_empty.empty()) console_.out << std::string(if_empty) << "\n";
        break;
      }
      std::vector<std::string> titles;
      std::vector<bool> right;
      for (const Column& column : columns_) {
        if (column.title.empty()) continue;
        titles.push_back(column.title);
        right.push_back(column.right_aligned);
      }
      std::vector<std::vector<std::string>> cells;
      for (const Json& row : kept_) {
        cells.emplace_back();
        for (const Column& column : columns_) {
          if (column.title.empty()) continue;
          cells.back().push_back(column.text ? column.text(row) : PlainText(Cell(row, column.key)));
        }
      }
      console_.out << AlignedTable(console_, titles, right, cells);
      break;
    }
  }
  console_.out.flush();
  return absl::OkStatus();
}

absl::Status PrintJson(Console& console, const Json& object) {
  ASSIGN_OR_RETURN(const std::string text, DumpJson(object));
  console.out << text << "\n";
  return absl::OkStatus();
}

}  // namespace varifocal::client
