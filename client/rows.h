// Prints rows as a text table, JSON, JSON lines or CSV from one description of the columns.
//
// Text is aligned once all rows are known; JSON is one array with one row per line; JSON lines and CSV are written
// row by row. Doubles have all digits except in the text table.
//
// Errors: INVALID_ARGUMENT when a number is not finite or a string is not UTF-8 (JSON cannot represent either).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"
#include "client/console.h"

namespace varifocal::client {

struct Column {
  std::string key;    // of the row's JSON object; the CSV heading
  std::string title;  // of the text table; empty: the column is not in it
  bool right_aligned = false;
  std::function<std::string(const Json& row)> text = {};  // text of the cell in the table; the plain value when unset
};

class Rows {
 public:
  Rows(Console& console, std::vector<Column> columns) : console_(console), columns_(std::move(columns)) {}

  absl::Status Add(Json row);
  // Must be called once, after the last row; `if_empty` is the sentence shown in text output when there was none.
  absl::Status Finish(absl::string_view if_empty = "");

 private:
  Console& console_;
  std::vector<Column> columns_;
  std::vector<Json> kept_;
  bool header_written_ = false;
};

// One object under --format=json or jsonl: a single line.
absl::Status PrintJson(Console& console, const Json& object);

// Rows of cells under their titles, two spaces apart; columns in `right` are right-aligned. On a terminal that is
// narrower, cells are wrapped at spaces.
std::string AlignedTable(const Console& console, const std::vector<std::string>& titles, const std::vector<bool>& right,
                         const std::vector<std::vector<std::string>>& rows);

// "a, b, c and 6 more": a list shortened to fit a table.
std::string ShortList(const std::vector<std::string>& items, size_t shown_max);

// Lines of whole words, at most `width` wide unless a single word is wider.
std::vector<std::string> WrapWords(absl::string_view text, size_t width);

// Width of `text` on a terminal: code points, which suffices for the scripts used in the program's texts.
size_t DisplayWidth(absl::string_view text);

}  // namespace varifocal::client
