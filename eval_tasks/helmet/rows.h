// Imported rows: the files written by `suites import-helmet` and read by tasks of kind `helmet`.
//
// A task has one index file: templates, measure, and a file of rows per context length. A row has the values of the
// templates' slots; the context is separate because only it is truncated when a prompt is too long.
//
// Source: docs/helmet.md, which states both formats.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "eval_tasks/helmet/template.h"

namespace varifocal::helmet {

// One context length of a task.
struct LengthEntry {
  std::string rows_file;  // relative to the index file
  std::string rows_sha256;
  int row_count = 0;
  int max_new_tokens = 0;
  std::string dataset;  // upstream's names, for the export
  std::string test_file;
  std::string demo_file;
  std::string missing;  // not empty: why there are no rows
};

struct TaskIndex {
  std::string kind;  // helmet::Kinds()
  std::string user_template;
  std::string system_template;
  std::string separator;
  std::vector<std::string> stop_strings;
  bool chat = false;
  std::optional<std::string> system_message;  // sent before the user's with chat; upstream sends an empty one
  Json settings;                              // upstream's max_test_samples, shots and seed, and the profile
  std::map<int, LengthEntry> lengths;
};

absl::StatusOr<TaskIndex> ParseTaskIndex(absl::string_view json);
std::string DumpTaskIndex(const TaskIndex& index);

struct ImportedRow {
  std::string id;        // of the row in its file
  std::string question;  // identifies the question independent of the length
  std::string cluster;   // questions that are not independent
  std::string context;
  SlotValues values;  // of the other slots
  std::vector<std::string> gold;
  Json reference;  // the gold answer in the measure's format
  double depth = 0;
  int length_cut_tokens = 0;  // by the length tokenizer, at import
  bool gold_survived_length_cut = true;
  Json item = Json::object();  // further fields of upstream's data item, for the export
};

absl::StatusOr<ImportedRow> RowFromJson(const Json& object);
Json ToJson(const ImportedRow& row);

}  // namespace varifocal::helmet
