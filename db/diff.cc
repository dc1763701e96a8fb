#include "db/diff.h"

#include <bit>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "db/schema.h"
#include "db/sqlite/database.h"

namespace varifocal::db {
namespace {

// The key comes first; all columns are in the ORDER BY, so that repeated keys pair up the same way on both sides.
constexpr char kSelectContent[] =
    "SELECT data_seed, variant, task, context_length, sample_index, metric, question_id, cluster, token_ids_sha256, "
    "gold, finish_reason, answer_raw, answer, log_likelihoods, new_token_count, error_code, value FROM v_content"
    " ORDER BY data_seed, variant, task, context_length, sample_index, metric, question_id, cluster, token_ids_sha256,"
    " gold, finish_reason, answer_raw, answer, log_likelihoods, new_token_count, error_code, value";
constexpr const char* kColumns[] = {"data_seed",     "variant",     "task",    "context_length",   "sample_index",
                                    "metric",        "question_id", "cluster", "token_ids_sha256", "gold",
                                    "finish_reason", "answer_raw",  "answer",  "log_likelihoods",  "new_token_count",
                                    "error_code",    "value"};
constexpr int kKeyCount = 6;
constexpr int kValueColumn = 16;

// A cursor over the sorted rows of one database.
class Side {
 public:
  static absl::StatusOr<Side> Open(const std::string& path) {
    RETURN_IF_ERROR(CheckFile(path, /*may_create=*/false));
    ASSIGN_OR_RETURN(std::unique_ptr<sqlite::Database> database, sqlite::Database::Open(path, {.read_only = true}));
    RETURN_IF_ERROR(CheckSchema(*database));
    ASSIGN_OR_RETURN(sqlite::Statement statement, database->Prepare(kSelectContent));
    Side side(std::move(database), std::move(statement));
    RETURN_IF_ERROR(side.Advance());
    return side;
  }

  absl::Status Advance() {
    ASSIGN_OR_RETURN(is_there_, statement_.Step());
    row_count_ += is_there_;
    return absl::OkStatus();
  }

  bool is_there() const { return is_there_; }
  int64_t row_count() const { return row_count_; }
  const sqlite::Statement& row() const { return statement_; }

  std::string Show(int column) const {
    if (statement_.IsNull(column)) return "NULL";
    return column == kValueColumn ? absl::StrFormat("%.17g", statement_.Real(column)) : statement_.Text(column);
  }

 private:
  Side(std::unique_ptr<sqlite::Database> database, sqlite::Statement statement)
      : database_(std::move(database)), statement_(std::move(statement)) {}
  std::unique_ptr<sqlite::Database> database_;
  sqlite::Statement statement_;
  bool is_there_ = false;
  int64_t row_count_ = 0;
};

// Compares two keys in the collation of the ORDER BY.
int CompareKeys(const sqlite::Statement& a, const sqlite::Statement& b) {
  for (int column = 0; column < kKeyCount; ++column) {
    const bool is_number = column == 0 || column == 3 || column == 4;
    int order = is_number ? (a.Int(column) > b.Int(column)) - (a.Int(column) < b.Int(column))
                          : a.Text(column).compare(b.Text(column));
    if (order != 0) return order;
  }
  return 0;
}

bool SameBits(const sqlite::Statement& a, const sqlite::Statement& b, int column) {
  if (a.IsNull(column) || b.IsNull(column)) return a.IsNull(column) == b.IsNull(column);
  if (column == kValueColumn) return std::bit_cast<int64_t>(a.Real(column)) == std::bit_cast<int64_t>(b.Real(column));
  return a.Text(column) == b.Text(column);
}

ContentDifference At(const sqlite::Statement& row) {
  ContentDifference difference;
  difference.data_seed = row.Int(0);
  difference.variant = row.Text(1);
  difference.task = row.Text(2);
  difference.context_length = row.Int(3);
  difference.sample_index = row.Int(4);
  difference.metric = row.Text(5);
  return difference;
}

}  // namespace

absl::StatusOr<ContentDiff> DiffDatabases(const std::string& path_a, const std::string& path_b,
                                          int64_t differences_max) {
  constexpr char kNoRow[] = "(no row)";
  ASSIGN_OR_RETURN(Side a, Side::Open(path_a));
  ASSIGN_OR_RETURN(Side b, Side::Open(path_b));
  ContentDiff diff;
  auto note = [&](ContentDifference difference) {
    ++diff.difference_count;
    if (std::ssize(diff.differences) < differences_max) diff.differences.push_back(difference);
  };
  while (a.is_there() || b.is_there()) {
    const int order = !a.is_there() ? 1 : !b.is_there() ? -1 : CompareKeys(a.row(), b.row());
    if (order != 0) {
      ContentDifference difference = At(order < 0 ? a.row() : b.row());
      difference.a = order < 0 ? "(a row)" : kNoRow;
      difference.b = order < 0 ? kNoRow : "(a row)";
      note(std::move(difference));
    } else {
      for (int column = kKeyCount; column <= kValueColumn; ++column) {
        if (SameBits(a.row(), b.row(), column)) continue;
        ContentDifference difference = At(a.row());
        difference.column = kColumns[column];
        difference.a = a.Show(column);
        difference.b = b.Show(column);
        note(std::move(difference));
        break;
      }
    }
    if (order <= 0) RETURN_IF_ERROR(a.Advance());
    if (order >= 0) RETURN_IF_ERROR(b.Advance());
  }
  diff.row_count_a = a.row_count();
  diff.row_count_b = b.row_count();
  return diff;
}

}  // namespace varifocal::db
