#include "db/rows.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace varifocal::db {
namespace {

constexpr const char* kStateNames[] = {"queued", "running", "cancelling", "succeeded", "failed", "cancelled"};

constexpr char kHasColumn[] = "SELECT count(*) FROM pragma_table_info('models') WHERE name = ?";
constexpr char kTrainingColumns[] =
    ", models.parameter_count, models.training_arm, models.training_seed, models.training_tokens";
constexpr char kNoTrainingColumns[] = ", NULL, NULL, NULL, NULL";
constexpr char kSelectVariants[] =
    "SELECT variants.name, variants.focal_temperature_json, models.name, models.architecture, models.weights_sha256,"
    " models.tokenizer_sha256, models.dtype, models.attention_json, models.context_length_max,"
    " models.trained_context_length%s%s"
    " FROM variants JOIN models ON models.model_id = variants.model_id"
    " WHERE variants.job_id = ? ORDER BY variants.variant_index";
constexpr char kSelectCells[] =
    "SELECT cells.cell_id, variants.job_id, variants.name, cells.task, cells.context_length, cells.planned_count,"
    " coalesce(sum(counts.answered_count), 0), coalesce(sum(counts.failed_count), 0)"
    " FROM variants JOIN cells ON cells.variant_id = variants.variant_id"
    " LEFT JOIN $counts AS counts ON counts.cell_id = cells.cell_id"
    " WHERE variants.job_id = ? GROUP BY cells.cell_id ORDER BY cells.cell_id";

}  // namespace

const char* JobStateName(JobState state) { return kStateNames[static_cast<int>(state)]; }

absl::StatusOr<JobState> ParseJobState(const std::string& name) {
  for (int i = 0; i < static_cast<int>(std::size(kStateNames)); ++i) {
    if (name == kStateNames[i]) return static_cast<JobState>(i);
  }
  return absl::DataLossError(absl::StrCat("a job has the unknown state ", name));
}

absl::StatusOr<std::vector<VariantRecord>> ReadVariants(sqlite::Database& database, int64_t job_id) {
  // Readers open files of earlier versions as they are.
  ASSIGN_OR_RETURN(const std::optional<int64_t> has_training, database.QueryInt(kHasColumn, "training_arm"));
  ASSIGN_OR_RETURN(const std::optional<int64_t> has_function, database.QueryInt(kHasColumn, "function_json"));
  ASSIGN_OR_RETURN(
      sqlite::Statement row,
      database.Prepare(absl::StrFormat(kSelectVariants, *has_training > 0 ? kTrainingColumns : kNoTrainingColumns,
                                       *has_function > 0 ? ", models.function_json" : ", NULL")));
  row.BindAll(job_id);
  std::vector<VariantRecord> variants;
  while (true) {
    ASSIGN_OR_RETURN(bool is_there, row.Step());
    if (!is_there) return variants;
    VariantRecord& variant = variants.emplace_back();
    variant.name = row.Text(0);
    variant.focal_temperature_json = row.OptionalText(1);
    variant.model.name = row.Text(2);
    variant.model.architecture = row.Text(3);
    variant.model.weights_sha256 = row.Text(4);
    variant.model.tokenizer_sha256 = row.Text(5);
    variant.model.dtype = row.Text(6);
    variant.model.attention_json = row.Text(7);
    variant.model.context_length_max = row.Int(8);
    variant.model.trained_context_length = row.OptionalInt(9);
    variant.model.parameter_count = row.OptionalInt(10);
    variant.model.training_arm = row.OptionalText(11);
    variant.model.training_seed = row.OptionalInt(12);
    variant.model.training_tokens = row.OptionalInt(13);
    variant.model.function_json = row.OptionalText(14);
  }
}

absl::StatusOr<std::vector<CellRow>> ReadCells(sqlite::Database& database, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::string counts, CellCounts(database));
  ASSIGN_OR_RETURN(sqlite::Statement row, database.Prepare(absl::StrReplaceAll(kSelectCells, {{"$counts", counts}})));
  row.BindAll(job_id);
  std::vector<CellRow> cells;
  while (true) {
    ASSIGN_OR_RETURN(bool is_there, row.Step());
    if (!is_there) return cells;
    cells.push_back(
        {row.Int(0), row.Int(1), {row.Text(2), row.Text(3), row.Int(4), row.Int(5)}, row.Int(6), row.Int(7)});
  }
}

absl::StatusOr<std::string> CellCounts(sqlite::Database& database) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> has_table,
                   database.QueryInt("SELECT count(*) FROM sqlite_schema WHERE name = 'cell_counts'"));
  if (has_table.value_or(0) > 0) return "cell_counts";
  return "(SELECT cell_id, execution_id, sum(error_code IS NULL) AS answered_count,"
         " sum(error_code IS NOT NULL) AS failed_count FROM generations GROUP BY cell_id, execution_id)";
}

}  // namespace varifocal::db
