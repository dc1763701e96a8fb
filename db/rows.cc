#include "db/rows.h"

#include <optional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

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
  return DataLoss("a job has the unknown state ", name);
}

absl::StatusOr<std::vector<VariantRecord>> ReadVariants(sqlite::Database& database, int64_t job_id) {
  // Readers open files of earlier versions as they are.
  ASSIGN_OR_RETURN(const std::optional<int64_t> has_training, database.QueryInt(kHasColumn, "training_arm"));
  ASSIGN_OR_RETURN(const std::optional<int64_t> has_function, database.QueryInt(kHasColumn, "function_json"));
  const std::string sql = absl::StrFormat(kSelectVariants, *has_training > 0 ? kTrainingColumns : kNoTrainingColumns,
                                          *has_function > 0 ? ", models.function_json" : ", NULL");
  const auto convert = [](const sqlite::Statement& row) {
    VariantRecord variant;
    ModelRecord& model = variant.model;
    row.Read(variant.name, variant.focal_temperature_json, model.name, model.architecture, model.weights_sha256,
             model.tokenizer_sha256, model.dtype, model.attention_json, model.context_length_max,
             model.trained_context_length, model.parameter_count, model.training_arm, model.training_seed,
             model.training_tokens, model.function_json);
    return variant;
  };
  return AllRows(database, sql, convert, job_id);
}

absl::StatusOr<std::vector<CellRow>> ReadCells(sqlite::Database& database, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::string counts, CellCounts(database));
  const auto convert = [](const sqlite::Statement& row) {
    return CellRow{row.Int(0), row.Int(1), {row.Text(2), row.Text(3), row.Int(4), row.Int(5)}, row.Int(6), row.Int(7)};
  };
  return AllRows(database, absl::StrReplaceAll(kSelectCells, {{"$counts", counts}}), convert, job_id);
}

absl::StatusOr<std::string> CellCounts(sqlite::Database& database) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> has_table,
                   database.QueryInt("SELECT count(*) FROM sqlite_schema WHERE name = 'cell_counts'"));
  if (has_table.value_or(0) > 0) return "cell_counts";
  return "(SELECT cell_id, execution_id, sum(error_code IS NULL) AS answered_count,"
         " sum(error_code IS NOT NULL) AS failed_count FROM generations GROUP BY cell_id, execution_id)";
}

}  // namespace varifocal::db
