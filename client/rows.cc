#include "client/rows.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

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
  if (value.is_null()) return std::string();
  if (value.is_string()) return CsvField(value.get_ref<const std::string&>());
  ASSIGN_OR_RETURN(std::string text, DumpJson(value));
  return CsvField(text);
}

const Json& Cell(const Json& row, const std::string& key) {
  static const Json kNull;
  const auto it = row.find(key);
  return it == row.end() ? kNull : *it;
}

}  // namespace

std::string ShortList(const std::vector<std::string>& items, size_t shown_max) {
  const size_t shown = items.size() <= shown_max + 1 ? items.size() : shown_max;  // "and 1 more" is not shorter
  std::string text;
  for (size_t i = 0; i < shown; ++i) absl::StrAppend(&text, i > 0 ? ", " : "", items[i]);
  return shown == items.size() ? text : absl::StrCat(text, " and ", items.size() - shown, " more");
}

size_t DisplayWidth(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string CsvField(absl::string_view text) {
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) return std::string(text);
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string AlignedTable(const Console& console, const std::vector<std::string>& titles, const std::vector<bool>& right,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::string& title : titles) widths.push_back(DisplayWidth(title));
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - DisplayWidth(cells[i]), ' ');
      if (i > 0) absl::StrAppend(&text, "  ");
      absl::StrAppend(&text, right[i] ? padding : "", cells[i], right[i] ? "" : padding);
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  };
  std::string table = absl::StrCat(Styled(console, Style::kBold, line(titles)), "\n");
  for (const auto& row : rows) absl::StrAppend(&table, line(row), "\n");
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
