// Rows with named columns as CSV and JSON, for programs, without rounding.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {

template <typename Row>
struct Column {
  const char* name;
  Json (*value)(const Row&);  // null where there is no value
};

// Doubles in the shortest form that reads back the same, true and false as 1 and 0, null as nothing.
inline std::string CsvValue(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.is_string() ? CsvField(value.get<std::string>()) : value.dump();
}

template <typename Row, size_t kCount>
std::string RowsAsCsv(const Column<Row> (&columns)[kCount], const std::vector<Row>& rows) {
  std::string out;
  for (size_t i = 0; i < kCount; ++i) absl::StrAppend(&out, i == 0 ? "" : ",", columns[i].name);
  out += "\n";
  for (const Row& row : rows) {
    for (size_t i = 0; i < kCount; ++i) absl::StrAppend(&out, i == 0 ? "" : ",", CsvValue(columns[i].value(row)));
    out += "\n";
  }
  return out;
}

// Of rows that have more values than columns of their own, in the order of `keys`.
inline std::string RowsAsCsv(const std::vector<std::string>& keys, const std::vector<Json>& rows) {
  std::string out = absl::StrCat(absl::StrJoin(keys, ","), "\n");
  for (const Json& row : rows) {
    absl::StrAppend(
        &out, absl::StrJoin(keys, ",", [&](std::string* to, const auto& key) { *to += CsvValue(row.at(key)); }), "\n");
  }
  return out;
}

template <typename Row, size_t kCount>
std::vector<Json> RowsAsJson(const Column<Row> (&columns)[kCount], const std::vector<Row>& rows) {
  std::vector<Json> objects(rows.size(), Json::object());
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const Column<Row>& column : columns) objects[r][column.name] = column.value(rows[r]);
  }
  return objects;
}

// A list with one object per line.
inline std::string JsonArray(const std::vector<Json>& rows) {
  std::string out = "[";
  for (const Json& row : rows)
    absl::StrAppend(&out, out.size() == 1 ? "\n" : ",\n", row.dump(-1, ' ', false, Json::error_handler_t::replace));
  return out + "\n]\n";
}

}  // namespace varifocal::report
