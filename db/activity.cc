#include "db/activity.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/sqlite/database.h"

namespace varifocal::db {
namespace {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

constexpr int64_t kWindowUs = 600'000'000;
constexpr size_t kRecentMin = 32;

// In this order of loops (CROSS JOIN), so that it ends after the newest rows instead of reading and sorting the whole job.
constexpr char kSelectRecent[] =
    "SELECT generations.record_us, cells.context_length,"
    " coalesce(samples.prompt_token_count, 0) - generations.cached_token_count + generations.new_token_count"
    " FROM generations CROSS JOIN cells ON cells.cell_id = generations.cell_id"
    " CROSS JOIN variants ON variants.variant_id = cells.variant_id"
    " CROSS JOIN samples ON samples.sample_id = generations.sample_id"
    " WHERE variants.job_id = ? ORDER BY generations.generation_id DESC LIMIT 4096";
// $counts: see CellCounts.
constexpr char kSelectRemaining[] =
    "SELECT coalesce(sum((cells.planned_count"
    "  - (SELECT coalesce(sum(counts.answered_count + counts.failed_count), 0) FROM $counts AS counts"
    "     WHERE counts.cell_id = cells.cell_id)) * 1.0 * cells.context_length), 0)"
    " FROM cells JOIN variants ON variants.variant_id = cells.variant_id WHERE variants.job_id = ?";

}  // namespace

absl::StatusOr<JobActivity> ReadActivity(const std::string& path, int64_t job_id) {
  RETURN_IF_ERROR(CheckFile(path, /*may_create=*/false));
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, Database::Open(path, {.read_only = true}));
  RETURN_IF_ERROR(CheckSchema(*database));
  ASSIGN_OR_RETURN(Transaction snapshot, Transaction::Begin(*database, Transaction::Kind::kRead));
  JobActivity activity;
  ASSIGN_OR_RETURN(Statement recent, database->Prepare(kSelectRecent));
  recent.Bind(job_id);
  while (true) {
    ASSIGN_OR_RETURN(const bool is_there, recent.Step());
    if (!is_there) break;
    const RecentAnswer answer = {recent.Int(0), recent.Int(1), recent.Int(2)};
    const bool is_old = !activity.recent.empty() && answer.record_us < activity.recent.front().record_us - kWindowUs;
    if (is_old && activity.recent.size() >= kRecentMin) break;
    activity.recent.push_back(answer);
  }
  // Where the clock was set meanwhile.
  std::stable_sort(activity.recent.begin(), activity.recent.end(),
                   [](const RecentAnswer& a, const RecentAnswer& b) { return a.record_us > b.record_us; });
  ASSIGN_OR_RETURN(const std::string counts, CellCounts(*database));
  ASSIGN_OR_RETURN(Statement remaining,
                   database->Prepare(absl::StrReplaceAll(kSelectRemaining, {{"$counts", counts}})));
  ASSIGN_OR_RETURN(const bool has_sum, remaining.Bind(job_id).Step());
  if (has_sum) activity.remaining_weight = remaining.Real(0);
  return activity;
}

std::optional<Pace> PaceOf(const JobActivity& activity, int64_t now_us) {
  if (activity.recent.size() < 2) return std::nullopt;
  const double seconds = (now_us - activity.recent.back().record_us) / 1e6;
  if (seconds <= 0) return std::nullopt;
  // The oldest answer marks the start of the span and was computed before it.
  double tokens = 0, weight = 0;
  for (size_t i = 0; i + 1 < activity.recent.size(); ++i) {
    tokens += activity.recent[i].computed_token_count;
    weight += activity.recent[i].context_length;
  }
  Pace pace;
  pace.answers_per_minute = static_cast<double>(activity.recent.size() - 1) * 60 / seconds;
  pace.computed_tokens_per_second = tokens / seconds;
  if (activity.remaining_weight > 0 && weight > 0)
    pace.remaining_seconds = activity.remaining_weight / weight * seconds;
  return pace;
}

}  // namespace varifocal::db
