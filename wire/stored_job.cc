#include "wire/stored_job.h"

#include "wire/resource_names.h"

namespace varifocal {
namespace {

void SetTime(int64_t wall_us, google::protobuf::Timestamp* time) {
  time->set_seconds(wall_us / 1'000'000);
  time->set_nanos(wall_us % 1'000'000 * 1000);
}

v1::Job::State ToProto(db::JobState state) {
  switch (state) {
    case db::JobState::kQueued:
      return v1::Job::QUEUED;
    case db::JobState::kRunning:
      return v1::Job::RUNNING;
    case db::JobState::kCancelling:
      return v1::Job::CANCELLING;
    case db::JobState::kSucceeded:
      return v1::Job::SUCCEEDED;
    case db::JobState::kFailed:
      return v1::Job::FAILED;
    case db::JobState::kCancelled:
      return v1::Job::CANCELLED;
  }
  return v1::Job::STATE_UNSPECIFIED;
}

}  // namespace

bool IsSettled(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

void ToProto(const db::JobRow& row, const std::vector<std::string>& variants, const std::vector<db::CellRow>& cells,
             const std::vector<db::FailureGroup>& failures, v1::Job* proto) {
  proto->set_name(JobResource(row.job_id));
  proto->set_state(ToProto(row.state));
  proto->set_error_message(row.error);
  proto->set_suite(row.suite);
  for (const std::string& variant : variants) proto->add_variants(variant);
  proto->set_spec_sha256(row.spec_sha256);
  SetTime(row.create_us, proto->mutable_create_time());
  if (row.start_us) SetTime(*row.start_us, proto->mutable_start_time());
  if (row.end_us && db::IsSettled(row.state)) SetTime(*row.end_us, proto->mutable_end_time());
  proto->set_mixed(row.is_mixed);
  for (const db::FailureGroup& group : failures) {
    v1::JobFailure* failure = proto->add_failures();
    failure->set_reason(group.error_code);
    failure->set_count(group.sample_count);
    failure->set_message(group.latest_message);
  }
  v1::JobProgress* progress = proto->mutable_progress();
  progress->set_planned_count(row.planned_count);
  progress->set_done_count(row.answered_count);
  progress->set_failed_count(row.failed_count);
  progress->set_remaining_seconds(-1);
  for (const db::CellRow& row_of_cell : cells) {
    v1::CellProgress* cell = progress->add_cells();
    cell->set_variant(row_of_cell.cell.variant);
    cell->set_task(row_of_cell.cell.task);
    cell->set_context_length(row_of_cell.cell.context_length);
    cell->set_planned_count(row_of_cell.cell.planned_count);
    cell->set_done_count(row_of_cell.answered_count);
    cell->set_failed_count(row_of_cell.failed_count);
  }
}

}  // namespace varifocal
