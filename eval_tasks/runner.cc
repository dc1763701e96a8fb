#include "eval_tasks/runner.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/exceptions.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/answer_scoring.h"
#include "eval_tasks/gold_answer.h"
#include "eval_tasks/metric.h"

namespace varifocal {
namespace {

constexpr int64_t kWaitPeriodUs = 1'000'000;  // between calls of on_wait

// Of the generator, for its one request.
int AttemptCount(const absl::StatusOr<Generation>& result) {
  if (result.ok()) return result->attempt_count;
  int count = 1;
  (void)absl::SimpleAtoi(ReasonOf(result.status()).metadata["attemptCount"], &count);
  return std::max(count, 1);
}

// With the gold answer's tokens where a metric is of them.
absl::Status AddGoldTokens(const TaskSpec& spec, const Task& task, const TokenCounter& tokenizer, Sample& sample) {
  if (std::none_of(spec.metrics.begin(), spec.metrics.end(), IsGoldMetric)) return absl::OkStatus();
  ASSIGN_OR_RETURN(sample.gold_token_ids, GoldTokenIds(sample, task.system_message(), spec.chat, tokenizer));
  return absl::OkStatus();
}

}  // namespace

class Runner::Impl {
 public:
  Impl(JobSpec spec, std::vector<RunVariant> variants, SampleSink* sink, RunnerHooks hooks, RunnerOptions options)
      : spec_(std::move(spec)),
        variants_(std::move(variants)),
        sink_(sink),
        hooks_(std::move(hooks)),
        options_(options),
        mailbox_(std::make_shared<Mailbox>()) {
    VF_CHECK(variants_.size() == spec_.variants.size());
  }

  absl::StatusOr<RunOutcome> Run() {
    ASSIGN_OR_RETURN(grid_, MakeGrid(spec_));
    for (const TaskSpec& task : spec_.suite.tasks) filters_.emplace_back(task.filters);
    // Of all tasks the shortest length first: soon there is something to compare, and it grows towards the longest.
    std::stable_sort(grid_.groups.begin(), grid_.groups.end(),
                     [](const GridGroup& a, const GridGroup& b) { return a.context_length < b.context_length; });
    RETURN_IF_ERROR(CountDone());
    Report();
    const absl::Status status = CatchExceptions("running the job", [this] { return Loop(); });
    // However the loop ended, including by an exception: no callback may run after the object is destroyed.
    CancelInFlight();
    const absl::Status drained = Drain(/*record=*/status.ok());
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(drained);
    return Cancelled() && progress_.done_count < progress_.planned_count ? RunOutcome::kCancelled
                                                                         : RunOutcome::kFinished;
  }

  void Cancel() {
    const MutexLock lock(mailbox_->mutex);
    mailbox_->cancelled = true;
    mailbox_->changed.NotifyAll();
  }

 private:
  // One sample of one cell in progress.
  struct WorkItem {
    int cell_index = 0;
    int epoch = 0;
    std::shared_ptr<const Sample> sample;  // of the first epoch, which the others share until they are started
    absl::Status make_error;               // why the sample could not be made
    int attempt_count = 0;
    int retry_count = 0;  // bounded by the options
  };

  struct Arrival {
    uint64_t ticket = 0;
    absl::StatusOr<Generation> result;
  };

  // State accessed by other threads; shared with the callbacks, which may briefly outlive an abandoned run.
  struct Mailbox {
    Mutex mutex;
    CondVar changed;
    std::deque<Arrival> arrivals VF_GUARDED_BY(mutex);
    bool cancelled VF_GUARDED_BY(mutex) = false;
  };

  // What is recorded of one sample.
  struct Finished {
    int cell_index = 0;
    SampleResult record;
  };

  struct InFlight {
    WorkItem item;
    Generator* generator = nullptr;
    Generator::Id id = 0;
  };

  bool Cancelled() const {
    const MutexLock lock(mailbox_->mutex);
    return mailbox_->cancelled;
  }

  int CellIndex(const GridGroup& group, int variant_index) const {
    const size_t lengths = spec_.suite.lengths.size();
    size_t length_index = 0;
    while (spec_.suite.lengths[length_index] != group.context_length) ++length_index;
    return (group.task_index * lengths + length_index) * variants_.size() + variant_index;
  }

  // Counts the samples already recorded, for the progress. The sink is queried again when a group is reached, so no state
  // is kept per sample of the job.
  absl::Status CountDone() {
    for (const GridCell& cell : grid_.cells) {
      progress_.cells.push_back({cell.key, cell.asked_count, 0, 0});
      progress_.planned_count += cell.asked_count;
    }
    for (const GridGroup& group : grid_.groups) {
      ASSIGN_OR_RETURN(const std::vector<std::vector<int>> pending, FindPending(group));
      for (size_t v = 0; v < variants_.size(); ++v) {
        const int done_count = group.count * grid_.epochs - std::ssize(pending[v]);
        progress_.cells[CellIndex(group, v)].done_count += done_count;
        progress_.done_count += done_count;
        progress_.skipped_count += done_count;
      }
    }
    return absl::OkStatus();
  }

  // The indices of a group that the sink still needs, for each variant.
  absl::StatusOr<std::vector<std::vector<int>>> FindPending(const GridGroup& group) const {
    std::vector<std::vector<int>> pending(variants_.size());
    for (size_t v = 0; v < variants_.size(); ++v) {
      const CellKey& key = grid_.cells[CellIndex(group, v)].key;
      const int end = grid_.Index(group.first_index + group.count, 0);
      for (int index = grid_.Index(group.first_index, 0); index < end; ++index) {
        ASSIGN_OR_RETURN(const bool is_pending, sink_->IsPending(key, index));
        if (is_pending) pending[v].push_back(index);
      }
    }
    return pending;
  }

  absl::Status Loop() {
    while (!Cancelled()) {
      RETURN_IF_ERROR(Fill());
      RETURN_IF_ERROR(RecordFinished());
      if (in_flight_.empty()) return absl::OkStatus();
      ASSIGN_OR_RETURN(const bool arrived, TakeArrivals(/*wait=*/true));
      if (!arrived) return absl::OkStatus();  // cancelled
    }
    return absl::OkStatus();
  }

  // Starts requests until the bound is reached or no samples are left. Requests awaiting retry count against the bound, so
  // that a full generator does not cause unbounded sample preparation.
  absl::Status Fill() {
    while (!Cancelled()) {
      if (in_flight_.empty() && !retry_queue_.empty()) {
        // No request is active, so no answer will free capacity: back off.
        if (hooks_.wait_before_retry) hooks_.wait_before_retry(retry_queue_.front().attempt_count);
        RequeueRetries();
      }
      if (std::ssize(in_flight_) + std::ssize(retry_queue_) >= spec_.in_flight) return absl::OkStatus();
      if (ready_.empty()) {
        // Building prompts is slow: record finished samples before and after it.
        RETURN_IF_ERROR(RecordFinished());
        RETURN_IF_ERROR(MakeNextGroup());
        RETURN_IF_ERROR(TakeArrivals(/*wait=*/false).status());
        RETURN_IF_ERROR(RecordFinished());
        if (in_flight_.empty() && !retry_queue_.empty()) continue;  // what arrived is to be asked again
        if (ready_.empty()) return absl::OkStatus();
      }
      WorkItem item = std::move(ready_.front());
      ready_.pop_front();
      if (item.epoch != item.sample->epoch) {
        Sample sample = *item.sample;
        SetEpoch(item.epoch, sample);
        item.sample = std::make_shared<const Sample>(std::move(sample));
      }
      if (item.make_error.ok()) {
        Start(std::move(item));
      } else {
        finished_.push_back(Finish(item, item.make_error));
      }
      // Handled now, since a refusal decides what is started next, and recorded together: a commit for each would bound
      // the rate of starts.
      RETURN_IF_ERROR(TakeArrivals(/*wait=*/false).status());
      if (std::ssize(finished_) >= spec_.in_flight) RETURN_IF_ERROR(RecordFinished());
    }
    return absl::OkStatus();
  }

  // Retries go before new samples.
  void RequeueRetries() {
    ready_.insert(ready_.begin(), std::make_move_iterator(retry_queue_.begin()),
                  std::make_move_iterator(retry_queue_.end()));
    retry_queue_.clear();
  }

  // Loads the next group with samples to run; ready_ stays empty when there is none.
  absl::Status MakeNextGroup() {
    while (ready_.empty() && next_group_ < grid_.groups.size()) {
      const GridGroup& group = grid_.groups[next_group_++];
      ASSIGN_OR_RETURN(const std::vector<std::vector<int>> pending, FindPending(group));
      MakeGroup(group, pending);
    }
    return absl::OkStatus();
  }

  void MakeGroup(const GridGroup& group, const std::vector<std::vector<int>>& pending) {
    const TaskSpec& task_spec = spec_.suite.tasks[group.task_index];
    std::map<std::string, std::vector<WorkItem>> made;  // by tokenizer
    for (size_t v = 0; v < variants_.size(); ++v) {
      if (pending[v].empty()) continue;
      const TokenCounter& tokenizer = task_spec.chat ? *variants_[v].chat_tokenizer : *variants_[v].tokenizer;
      const auto [it, is_new] = made.try_emplace(tokenizer.sha256());
      if (is_new) it->second = MakeItems(group, tokenizer);
      for (int index : pending[v]) {
        WorkItem item = it->second[index / grid_.epochs - group.first_index];
        item.epoch = index % grid_.epochs;
        item.cell_index = CellIndex(group, v);
        ready_.push_back(std::move(item));
      }
    }
  }

  std::vector<WorkItem> MakeItems(const GridGroup& group, const TokenCounter& tokenizer) const {
    const Task& task = *grid_.tasks[group.task_index];
    const TaskSpec& task_spec = spec_.suite.tasks[group.task_index];
    std::vector<WorkItem> items;
    for (absl::StatusOr<Sample>& sample : grid_.MakeSamples(group, tokenizer, spec_.inspect)) {
      WorkItem item;
      if (sample.ok()) {
        absl::Status added = AddGoldTokens(task_spec, task, tokenizer, *sample);
        added.Update(AddThinking(spec_.suite, task_spec, tokenizer, *sample));
        if (!added.ok()) sample = added;
      }
      if (sample.ok()) {
        item.sample = std::make_shared<const Sample>(*std::move(sample));
      } else {
        Sample identity = grid_.Identify(group, static_cast<int>(items.size()));
        identity.tokenizer_sha256 = tokenizer.sha256();
        item.sample = std::make_shared<const Sample>(std::move(identity));
        item.make_error = sample.status();
      }
      items.push_back(std::move(item));
    }
    return items;
  }

  void Start(WorkItem item) {
    const int variant_index = grid_.cells[item.cell_index].variant_index;
    GenerationRequest request;
    request.sample = item.sample;
    request.overrides = spec_.variants[variant_index].overrides;
    request.decode = spec_.decode;
    request.inspect = spec_.inspect;
    request.inspected_rows = spec_.inspected_rows;
    request.chat = spec_.suite.tasks[grid_.cells[item.cell_index].task_index].chat;
    request.variant = grid_.cells[item.cell_index].key.variant;
    ++item.attempt_count;
    const uint64_t ticket = next_ticket_++;
    InFlight& entry = in_flight_[ticket];
    entry.item = std::move(item);
    entry.generator = variants_[variant_index].generator;
    entry.id = entry.generator->Start(request, [mailbox = mailbox_, ticket](absl::StatusOr<Generation> result) {
      const MutexLock lock(mailbox->mutex);
      mailbox->arrivals.push_back({ticket, std::move(result)});
      mailbox->changed.NotifyAll();
    });
  }

  // Handles arrivals. With `wait`, first blocks for one; false when cancelled instead.
  absl::StatusOr<bool> TakeArrivals(bool wait) {
    std::deque<Arrival> arrivals;
    {
      MutexLock lock(mailbox_->mutex);
      const auto has_come = [&]() VF_REQUIRES(mailbox_->mutex) {
        return !mailbox_->arrivals.empty() || mailbox_->cancelled;
      };
      while (wait && !options_.clock->Wait(mailbox_->changed, mailbox_->mutex, kWaitPeriodUs, has_come)) {
        if (hooks_.on_wait) hooks_.on_wait();
      }
      arrivals.swap(mailbox_->arrivals);
    }
    absl::Status status;
    for (Arrival& arrival : arrivals) {
      if (status.ok()) {
        status = Handle(std::move(arrival));
      } else {
        Complete(arrival);  // the run is over, but this arrival must not be awaited again
      }
    }
    if (!status.ok()) {
      RETURN_IF_ERROR(RecordFinished());
      return status;
    }
    return !arrivals.empty();
  }

  absl::Status Handle(Arrival arrival) {
    const Generator& generator = *in_flight_.at(arrival.ticket).generator;
    WorkItem item = Complete(arrival);
    if (!arrival.result.ok() && IsTransient(arrival.result.status())) {
      if (Cancelled()) return absl::OkStatus();  // missing for the next run
      RETURN_IF_ERROR(generator.Fault());        // the same
      if (MayRetry(arrival.result.status(), item)) {
        retry_queue_.push_back(std::move(item));
        return absl::OkStatus();
      }
    }
    finished_.push_back(Finish(item, std::move(arrival.result)));
    RequeueRetries();  // an answer freed capacity
    return absl::OkStatus();
  }

  // Removes the item from the active requests; an answer truncated by cancellation becomes that error.
  WorkItem Complete(Arrival& arrival) {
    const auto it = in_flight_.find(arrival.ticket);
    VF_CHECK(it != in_flight_.end(), "a generator calls done once for each request");
    WorkItem item = std::move(it->second.item);
    in_flight_.erase(it);
    if (arrival.result.ok() && arrival.result->finish_reason == FinishReason::kCancelled) {
      arrival.result = absl::CancelledError("the generator cancelled the request");
    }
    return item;
  }

  // Transient errors, independent of the sample.
  static bool IsTransient(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) || absl::IsCancelled(status) ||
           absl::IsAborted(status);
  }

  // While others are active, a full generator is transient: their answers will free capacity.
  bool MayRetry(const absl::Status& status, WorkItem& item) const {
    if (absl::IsResourceExhausted(status) && !in_flight_.empty()) return true;
    return ++item.retry_count < options_.attempts_max;
  }

  Finished Finish(const WorkItem& item, absl::StatusOr<Generation> result) {
    Finished finished{item.cell_index, {}};
    SampleResult& record = finished.record;
    record.cell = grid_.cells[item.cell_index].key;
    record.sample = item.sample;
    record.attempt_count = item.attempt_count + AttemptCount(result) - 1;
    if (result.ok()) {
      record.error = CheckComplete(*item.sample, *result);
      progress_.prompt_token_count += result->prompt_token_count;
      progress_.cached_token_count += result->cached_token_count;
      progress_.new_token_count += result->token_ids.empty() ? result->new_token_count : std::ssize(result->token_ids);
    } else {
      record.error = result.status();
    }
    if (record.error.ok()) {
      const AnswerFilters& filters = filters_[grid_.cells[item.cell_index].task_index];
      record.error = ScoreAnswer(*item.sample, filters, *result, record);
    }
    if (record.error.ok()) {
      record.generation = *std::move(result);
    } else {
      record.scores.clear();
      record.answer.clear();
    }
    return finished;
  }

  // Together, so that those that ended during a commit share the next one.
  absl::Status RecordFinished() {
    if (finished_.empty()) return absl::OkStatus();
    std::vector<Finished> finished = std::exchange(finished_, {});
    std::vector<SampleResult> records;
    for (Finished& one : finished) records.push_back(std::move(one.record));
    RETURN_IF_ERROR(sink_->Record(records));
    for (size_t i = 0; i < finished.size(); ++i) {
      CellProgress& cell = progress_.cells[finished[i].cell_index];
      ++cell.done_count;
      ++progress_.done_count;
      if (!records[i].error.ok()) {
        ++cell.failed_count;
        ++progress_.failed_count;
      }
      Report();
    }
    return absl::OkStatus();
  }

  void CancelInFlight() {
    for (const auto& [ticket, entry] : in_flight_) entry.generator->Cancel(entry.id);
  }

  // Waits for every active request; with `record`, records those that still got a result.
  absl::Status Drain(bool record) {
    absl::Status status = record ? RecordFinished() : absl::OkStatus();
    while (!in_flight_.empty()) {
      std::deque<Arrival> arrivals;
      {
        MutexLock lock(mailbox_->mutex);
        options_.clock->WaitUntil(mailbox_->changed, mailbox_->mutex,
                                  [&]() VF_REQUIRES(mailbox_->mutex) { return !mailbox_->arrivals.empty(); });
        arrivals.swap(mailbox_->arrivals);
      }
      for (Arrival& arrival : arrivals) {
        const WorkItem item = Complete(arrival);
        const bool is_result = arrival.result.ok() || !IsTransient(arrival.result.status());
        if (record && status.ok() && is_result) finished_.push_back(Finish(item, std::move(arrival.result)));
      }
      if (record) status.Update(RecordFinished());
    }
    return status;
  }

  void Report() {
    progress_.in_flight_count = in_flight_.size();
    if (hooks_.on_progress) hooks_.on_progress(progress_);
  }

  const JobSpec spec_;
  const std::vector<RunVariant> variants_;
  SampleSink* const sink_;
  const RunnerHooks hooks_;
  const RunnerOptions options_;

  Grid grid_;
  std::vector<AnswerFilters> filters_;  // of each task
  RunProgress progress_;
  size_t next_group_ = 0;             // of grid_.groups
  std::deque<WorkItem> ready_;        // to be started, in order
  std::deque<WorkItem> retry_queue_;  // awaiting retry
  std::vector<Finished> finished_;    // to be recorded together
  std::map<uint64_t, InFlight> in_flight_;
  uint64_t next_ticket_ = 1;
  std::shared_ptr<Mailbox> mailbox_;
};

Runner::Runner(JobSpec spec, std::vector<RunVariant> variants, SampleSink* sink, RunnerHooks hooks,
               RunnerOptions options)
    : impl_(std::make_unique<Impl>(std::move(spec), std::move(variants), sink, std::move(hooks), options)) {}

Runner::~Runner() = default;

absl::StatusOr<RunOutcome> Runner::Run() { return impl_->Run(); }

void Runner::Cancel() { impl_->Cancel(); }

}  // namespace varifocal
