// The table of benchmarks. Adding one is a file here and a row; its measures are a file in eval_tasks/metrics/.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/benchmarks/benchmark.h"
#include "eval_tasks/json_scan.h"
#include "eval_tasks/python/text.h"

namespace varifocal::benchmarks {

const std::vector<Benchmark>& Benchmarks() {
  static const std::vector<Benchmark> table = {LongBench(), LongBench2(),    Babilong(), Nolima(),
                                               Mrcr(),      InfiniteBench(), LongProc()};
  return table;
}

const Benchmark* FindBenchmark(absl::string_view name) {
  for (const Benchmark& benchmark : Benchmarks()) {
    if (benchmark.name == name) return &benchmark;
  }
  return nullptr;
}

absl::Status ForEachRow(Download& download, const std::string& path,
                        const std::function<absl::Status(int64_t, const helmet::RowView&)>& visit) {
  ASSIGN_OR_RETURN(const std::unique_ptr<JsonRowFile> file, JsonRowFile::Open(path));
  absl::Status of_row;  // has its place, which the scan would add once more
  const absl::Status scanned = file->Scan([&](int64_t number, absl::string_view text) {
    const std::string place = absl::StrCat(path, ": row ", number);
    absl::StatusOr<Json> row = ParseJson(text);
    of_row = row.ok() ? visit(number, helmet::RowView(*std::move(row), place)) : Annotate(row.status(), place);
    return of_row;
  });
  RETURN_IF_ERROR(of_row);
  RETURN_IF_ERROR(scanned);
  download.Record(path, file->sha256());
  if (!file->places().empty()) return absl::OkStatus();
  return InvalidArgument(path, ": has no rows; at least 1 is needed");
}

std::string ClusterOf(absl::string_view text) { return Sha256Hex(text).substr(0, 16); }

std::vector<std::string> ShownGold(const std::vector<std::string>& gold, const Json& reference) {
  std::vector<std::string> shown;
  for (const std::string& text : gold) {
    if (!PythonStrip(text).empty()) shown.push_back(text);
  }
  if (shown.empty()) shown.push_back(reference.dump(-1, ' ', false, Json::error_handler_t::replace));
  return shown;
}

absl::StatusOr<std::string> FillFromRow(const helmet::Template& form, const helmet::RowView& row) {
  helmet::SlotValues values;
  for (const std::string& slot : form.slots()) {
    ASSIGN_OR_RETURN(values[slot], row.Str(slot));
  }
  return form.Render(values);
}

std::vector<TaskLength> LengthsOf(const ImportOptions& options, int usual, int (*prompt_tokens)(int)) {
  std::vector<TaskLength> lengths;
  for (int length : options.lengths.empty() ? std::vector<int>{usual} : options.lengths) {
    lengths.push_back({length, options.prompt_tokens > 0 ? options.prompt_tokens : prompt_tokens(length)});
  }
  return lengths;
}

}  // namespace varifocal::benchmarks
