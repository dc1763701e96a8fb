// A family of HELMET's datasets: selection of rows, demonstrations and templates.
//
// A family reads a dataset's files and returns the chosen rows in upstream's order, with all slots filled except the
// context (which may be truncated for a model's tokenizer). Dispatch is upstream's, by substrings of the dataset's
// name.
//
// Errors: "FILE: row N: the field \"answers\" ..": a bad row rejects its dataset at that length, not the others.
// Source: HELMET commit 4526dfb, data.py; docs/helmet.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "eval_tasks/helmet/import/config.h"
#include "eval_tasks/helmet/import/upstream.h"
#include "eval_tasks/helmet/rows.h"
#include "eval_tasks/json_scan.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::helmet {

struct FileFacts {
  std::string sha256;
  int64_t row_count = 0;
};

// Data sources; records the files read for the manifest.
struct Sources {
  std::string checkout;
  std::string data;
  const UpstreamTexts* texts = nullptr;
  std::shared_ptr<const Tokenizer> length_tokenizer;  // null: LongQA and summaries cannot be imported
  std::map<std::string, FileFacts> files;

  // A path of a configuration: data/.. is in `data`, everything else in `checkout`.
  std::string Resolve(const std::string& path) const;
  // Scanned, with `visit` called for each row. `rows_field`: json_scan.h.
  absl::StatusOr<std::unique_ptr<JsonRowFile>> Open(
      const std::string& path, const std::function<absl::Status(int64_t row_number, absl::string_view text)>& visit,
      absl::string_view rows_field = "");
};

using RowSink = std::function<absl::Status(ImportedRow row)>;

struct Prompting {
  std::string kind;   // of the measures
  std::string texts;  // TEXTS.user and TEXTS.system are upstream's templates
  std::string separator;
  std::vector<std::string> measures;  // the first is upstream's headline measure, unless it needs a judge model
};

struct FamilyInfo {
  std::string name;
  bool (*matches)(const std::string& dataset);
  // The dataset's name without its length-dependent part: the task's name.
  std::string (*task_name)(const std::string& dataset);
  absl::StatusOr<Prompting> (*prompting)(const ConfigEntry& entry);
  absl::Status (*import)(const ConfigEntry& entry, Sources& sources, const RowSink& sink);
};

// Null when upstream has no such dataset, or it cannot be imported.
const FamilyInfo* FindFamily(const std::string& dataset);

// A row being read: errors have the row's position.
class RowView {
 public:
  RowView(Json row, std::string place) : row_(std::move(row)), place_(std::move(place)) {}

  const Json& json() const { return row_; }
  const std::string& place() const { return place_; }
  absl::Status Error(absl::string_view field, absl::string_view what) const;
  absl::StatusOr<const Json*> Field(absl::string_view field) const;  // present and not null
  absl::StatusOr<std::string> Text(absl::string_view field) const;   // a text
  absl::StatusOr<std::string> Str(absl::string_view field) const;    // str() of a text or number
  absl::StatusOr<const Json*> List(absl::string_view field) const;   // a list with at least one item
  absl::StatusOr<int64_t> Int(absl::string_view field) const;
  // Texts of a list, of a list of lists, or one text.
  absl::StatusOr<std::vector<std::string>> Texts(absl::string_view field) const;

 private:
  Json row_;
  std::string place_;
};

// The template filled with the fields of an object (a passage) and further values; `field` names the object in errors.
absl::StatusOr<std::string> RenderObject(const Template& form, const Json& object, const SlotValues& more,
                                         const RowView& row, absl::string_view field);

// The field with the rows of a test file of questions or of JSON KV in upstream, by the file's suffix.
absl::string_view RowsFieldOf(const std::string& path);

// Rejects duplicate ids.
class UniqueIds {
 public:
  absl::Status Add(absl::string_view field, const Json& id, int64_t row_number);

 private:
  std::map<std::string, int64_t> row_of_;
};

// The first `count` of `order` with distinct names.
std::vector<size_t> FirstDifferent(const std::vector<size_t>& order, const std::function<std::string(size_t)>& name,
                                   size_t count);

// Up to max_test_samples of a shuffled order; all in file order without that limit.
std::vector<size_t> ShuffledRows(size_t row_count, const ConfigEntry& entry);

// Task names of datasets: the name itself, or without a number at the end ("narrativeqa_7892", "alce_asqa_345": tokens or documents).
std::string SameName(const std::string& dataset);
std::string NameWithoutNumber(const std::string& dataset);

// For Sources::Open where the scan alone is needed.
absl::Status NoVisit(int64_t row, absl::string_view line);

// The families, by file.
extern const FamilyInfo kJsonKvFamily, kRulerFamily, kQaFamily, kRerankFamily, kIclFamily, kNarrativeQaFamily,
    kInfBenchFamily, kMultiLexSumFamily, kAlceFamily;

}  // namespace varifocal::helmet
