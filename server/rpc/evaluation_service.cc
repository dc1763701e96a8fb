#include "server/rpc/evaluation_service.h"

#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/suites.h"
#include "eval_tasks/task.h"
#include "server/rpc/convert.h"
#include "server/rpc/page_token.h"
#include "server/rpc/unary.h"
#include "server/rpc/watch_stream.h"
#include "wire/job_spec.h"
#include "wire/resource_names.h"
#include "wire/stored_job.h"
#include "wire/task_kind.h"

namespace varifocal {
namespace {

constexpr auto kWatchPeriod = std::chrono::milliseconds(250);
constexpr int64_t kHeartbeatUs = 5'000'000;

absl::Status ShuttingDown() {
  return WithReason(Unavailable("the daemon is shutting down"), ErrorReason::kShuttingDown);
}

}  // namespace

// One poll of all watched jobs: a job with many watchers is read once.
class EvaluationService::Poll {
 public:
  explicit Poll(JobManager* jobs) : jobs_(jobs) {}

  // Read once too, and before the job: a change in between is then seen in the next poll.
  int64_t ChangeCount(int64_t job_id) {
    const auto [known, is_new] = change_counts_.try_emplace(job_id, 0);
    if (is_new) known->second = jobs_->ChangeCount(job_id);
    return known->second;
  }
  const absl::StatusOr<v1::Job>& Get(int64_t job_id) {
    const auto [known, is_new] = jobs_read_.try_emplace(job_id, absl::UnknownError("not read yet"));
    if (is_new) known->second = Read(job_id);
    return known->second;
  }

 private:
  absl::StatusOr<v1::Job> Read(int64_t job_id) const {
    ASSIGN_OR_RETURN(const JobView view, jobs_->Get(job_id, /*with_cells=*/true));
    v1::Job job;
    RETURN_IF_ERROR(ToProto(view, /*with_spec=*/false, &job));
    return job;
  }

  JobManager* const jobs_;
  std::map<int64_t, int64_t> change_counts_;
  std::map<int64_t, absl::StatusOr<v1::Job>> jobs_read_;
};

// One watched job and its stream; used by the watcher thread alone.
class EvaluationService::Watch {
 public:
  Watch(int64_t job_id, std::shared_ptr<WatchStream> stream) : job_id_(job_id), stream_(std::move(stream)) {}

  // Sends what is new; false when the stream has ended.
  bool Look(Poll& poll) {
    if (!stream_->IsOpen()) return false;
    const int64_t now_us = Clock::Real().MonotonicMicros();
    const int64_t change_count = poll.ChangeCount(job_id_);
    const bool is_due = sequence_number_ == 0 || change_count != change_count_ || now_us - sent_us_ >= kHeartbeatUs;
    if (!is_due || !stream_->IsReady()) return true;
    const absl::StatusOr<v1::Job>& job = poll.Get(job_id_);
    if (!job.ok()) {
      stream_->End(job.status());
      return false;
    }
    v1::WatchJobResponse message = ToMessage(*job);
    change_count_ = change_count;
    sent_us_ = now_us;
    if (IsSettled(job->state())) {
      stream_->SendLast(std::move(message));
      return false;
    }
    stream_->Send(std::move(message));
    return true;
  }

  // With the job's last state, also where the message before is still being sent.
  void End(Poll& poll, const absl::Status& status) {
    const absl::StatusOr<v1::Job>& job = poll.Get(job_id_);
    if (job.ok()) {
      stream_->SendLast(ToMessage(*job), IsSettled(job->state()) ? absl::OkStatus() : status);
    } else {
      stream_->End(job.status());
    }
  }

 private:
  v1::WatchJobResponse ToMessage(const v1::Job& job) {
    v1::WatchJobResponse message;
    *message.mutable_job() = job;
    message.set_sequence_number(++sequence_number_);
    return message;
  }

  const int64_t job_id_;
  const std::shared_ptr<WatchStream> stream_;
  int64_t sequence_number_ = 0;
  int64_t change_count_ = -1;
  int64_t sent_us_ = 0;
};

EvaluationService::EvaluationService(JobManager* jobs, RpcPools* pools, Admission* admission, const Audit* audit)
    : jobs_(jobs), pools_(pools), admission_(admission), audit_(audit) {
  if (jobs_ != nullptr) watcher_ = std::thread([this] { WatchLoop(); });
}

EvaluationService::~EvaluationService() { EndWatches(); }

void EvaluationService::EndWatches() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (watcher_.joinable()) watcher_.join();
}

void EvaluationService::WatchLoop() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (watches_.empty()) {
      wake_.Wait(mutex_);
      continue;
    }
    const std::vector<std::shared_ptr<Watch>> watches = watches_;
    has_new_ = false;
    lock.Unlock();
    Poll poll(jobs_);
    std::set<std::shared_ptr<Watch>> ended;
    for (const auto& watch : watches) {
      if (!watch->Look(poll)) ended.insert(watch);
    }
    lock.Lock();
    std::erase_if(watches_, [&ended](const auto& watch) { return ended.count(watch) > 0; });
    // A new watcher is updated at once, the others four times a second.
    wake_.WaitFor(mutex_, kWatchPeriod, [this]() VF_REQUIRES(mutex_) { return stopping_ || has_new_; });
  }
  // A last update, so that watchers receive the final state.
  Poll poll(jobs_);
  for (const auto& watch : watches_) watch->End(poll, ShuttingDown());
  watches_.clear();
}

absl::StatusOr<JobManager*> EvaluationService::Jobs() const {
  if (jobs_ != nullptr) return jobs_;
  return WithReason(FailedPrecondition("this server has no database, so it has no jobs"), ErrorReason::kNoDatabase);
}

grpc::ServerUnaryReactor* EvaluationService::SubmitJob(grpc::CallbackServerContext* context,
                                                       const v1::SubmitJobRequest* request,
                                                       v1::SubmitJobResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/SubmitJob")) return nullptr;
  const auto estimate = [=, this]() -> absl::Status {
    RETURN_IF_ERROR(CheckRequestId(request->request_id()));
    ASSIGN_OR_RETURN(JobManager* const jobs, Jobs());
    ASSIGN_OR_RETURN(JobSpec spec, FromProto(request->spec()));
    ASSIGN_OR_RETURN(const JobEstimate estimate, jobs->Estimate(std::move(spec), IsAbandoned(context)));
    ToProto(estimate, response->mutable_estimate());
    return absl::OkStatus();
  };
  const auto submit = [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(JobManager* const jobs, Jobs());
    ASSIGN_OR_RETURN(JobSpec spec, FromProto(request->spec()));
    SubmitOptions options;
    options.request_id = request->request_id();
    // What changes no answer makes no other request.
    v1::JobSpec asked = request->spec();
    asked.clear_in_flight();
    if (asked.suite().seeds() == 1) asked.mutable_suite()->clear_seeds();
    options.body_sha256 = MessageSha256(asked);
    options.reuse_equal_job = request->reuse_equal_job();
    options.allow_mixed = request->allow_mixed();
    options.is_abandoned = IsAbandoned(context);
    ASSIGN_OR_RETURN(const JobView view, jobs->Submit(std::move(spec), options));
    response->set_already_submitted(view.is_repeated);
    return ToProto(view, /*with_spec=*/true, response->mutable_job());
  };
  const auto resource = [request, response] {
    return response->job().name().empty() ? request->spec().suite().name() : response->job().name();
  };
  std::function<absl::Status()> body = estimate;
  if (!request->validate_only()) body = audit_->Record(context, "SubmitJob", resource, submit);
  return RunAdmitted(context, audit_->CallerOf(*context), pools_->submit, *admission_, *request, std::move(body));
}

grpc::ServerUnaryReactor* EvaluationService::GetJob(grpc::CallbackServerContext* context,
                                                    const v1::GetJobRequest* request, v1::Job* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/GetJob")) return nullptr;
  return RunUnary(context, pools_->control, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(JobManager* const jobs, Jobs());
    ASSIGN_OR_RETURN(const int64_t job_id, ParseJobResource(request->name(), "name"));
    ASSIGN_OR_RETURN(const JobView view, jobs->Get(job_id, /*with_cells=*/true));
    return ToProto(view, /*with_spec=*/true, response);
  });
}

grpc::ServerUnaryReactor* EvaluationService::ListJobs(grpc::CallbackServerContext* context,
                                                      const v1::ListJobsRequest* request,
                                                      v1::ListJobsResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/ListJobs")) return nullptr;
  return RunUnary(context, pools_->control, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(JobManager* const jobs, Jobs());
    ASSIGN_OR_RETURN(const int32_t page_size, CheckPageSize(request->page_size()));
    ASSIGN_OR_RETURN(const std::string after, ParsePageToken("jobs", request->page_token()));
    int64_t before_id = 0;
    if (!after.empty() && !absl::SimpleAtoi(after, &before_id)) return Internal("a page token has no job id");
    // One more than a page, to detect a next page.
    ASSIGN_OR_RETURN(std::vector<JobView> views, jobs->List(before_id, page_size + 1));
    if (std::ssize(views) > page_size) {
      views.resize(page_size);
      response->set_next_page_token(MakePageToken("jobs", absl::StrCat(views.back().row.job_id)));
    }
    for (const JobView& view : views) RETURN_IF_ERROR(ToProto(view, /*with_spec=*/false, response->add_jobs()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* EvaluationService::CancelJob(grpc::CallbackServerContext* context,
                                                       const v1::CancelJobRequest* request, v1::Job* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/CancelJob")) return nullptr;
  const auto resource = [request] { return request->name(); };
  return RunUnary(context, pools_->control, audit_->Record(context, "CancelJob", resource, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(JobManager* const jobs, Jobs());
    ASSIGN_OR_RETURN(const int64_t job_id, ParseJobResource(request->name(), "name"));
    ASSIGN_OR_RETURN(const JobView view, jobs->Cancel(job_id));
    return ToProto(view, /*with_spec=*/true, response);
  }));
}

grpc::ServerUnaryReactor* EvaluationService::ResumeJob(grpc::CallbackServerContext* context,
                                                       const v1::ResumeJobRequest* request, v1::Job* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/ResumeJob")) return nullptr;
  const auto resource = [request] { return request->name(); };
  return RunUnary(context, pools_->change, audit_->Record(context, "ResumeJob", resource, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(JobManager* const jobs, Jobs());
    ASSIGN_OR_RETURN(const int64_t job_id, ParseJobResource(request->name(), "name"));
    ASSIGN_OR_RETURN(const JobView view, jobs->Resume(job_id, request->allow_mixed()));
    return ToProto(view, /*with_spec=*/true, response);
  }));
}

grpc::ServerUnaryReactor* EvaluationService::DeleteJob(grpc::CallbackServerContext* context,
                                                       const v1::DeleteJobRequest* request,
                                                       v1::DeleteJobResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/DeleteJob")) return nullptr;
  const auto resource = [request] { return request->name(); };
  return RunUnary(context, pools_->change, audit_->Record(context, "DeleteJob", resource, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(JobManager* const jobs, Jobs());
    ASSIGN_OR_RETURN(const int64_t job_id, ParseJobResource(request->name(), "name"));
    ASSIGN_OR_RETURN(const db::DeletedJob deleted, jobs->Delete(job_id));
    response->set_suite(deleted.suite);
    response->set_generation_count(deleted.generation_count);
    return absl::OkStatus();
  }));
}

grpc::ServerUnaryReactor* EvaluationService::ImportScores(grpc::CallbackServerContext* context,
                                                          const v1::ImportScoresRequest* request,
                                                          v1::ImportScoresResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/ImportScores")) return nullptr;
  const auto resource = [response] { return response->job(); };
  return RunAdmitted(context, audit_->CallerOf(*context), pools_->submit, *admission_, *request,
                     audit_->Record(context, "ImportScores", resource, [=, this]() -> absl::Status {
                       ASSIGN_OR_RETURN(JobManager* const jobs, Jobs());
                       ASSIGN_OR_RETURN(const db::Judgments judgments, FromProto(*request));
                       ASSIGN_OR_RETURN(const db::JoinedJudgments stored, jobs->ImportScores(judgments));
                       response->set_job(JobResource(stored.job_id));
                       response->set_value_count(stored.value_count);
                       response->set_unknown_count(stored.unknown_count);
                       for (const std::string& metric : stored.metrics) response->add_metrics(metric);
                       return absl::OkStatus();
                     }));
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* EvaluationService::WatchJob(grpc::CallbackServerContext* context,
                                                                            const v1::WatchJobRequest* request) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/WatchJob")) return nullptr;
  const std::shared_ptr<WatchStream> stream = WatchStream::Make();
  const absl::Status status = [&]() -> absl::Status {
    RETURN_IF_ERROR(Jobs().status());
    ASSIGN_OR_RETURN(const int64_t job_id, ParseJobResource(request->name(), "name"));
    MutexLock lock(mutex_);
    if (stopping_) return ShuttingDown();
    if (watches_.size() >= kWatchesMax) {
      return WithReason(ResourceExhausted("with this call there would be ", watches_.size() + 1,
                                          " watches, the limit is ", kWatchesMax),
                        ErrorReason::kTooManyCalls, {{"limit", absl::StrCat(kWatchesMax)}});
    }
    watches_.push_back(std::make_shared<Watch>(job_id, stream));
    has_new_ = true;
    wake_.NotifyAll();
    return absl::OkStatus();
  }();
  if (!status.ok()) stream->End(status);
  return stream->reactor();
}

grpc::ServerUnaryReactor* EvaluationService::ListSuites(grpc::CallbackServerContext* context,
                                                        const v1::ListSuitesRequest*,
                                                        v1::ListSuitesResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/ListSuites")) return nullptr;
  return RunUnary(context, pools_->control, [response]() -> absl::Status {
    for (const std::string& name : BuiltInSuiteNames()) {
      v1::Suite* suite = response->add_suites();
      suite->set_name(name);
      suite->set_yaml(std::string(*BuiltInSuiteText(name)));
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* EvaluationService::ListTasks(grpc::CallbackServerContext* context,
                                                       const v1::ListTasksRequest*, v1::ListTasksResponse* response) {
  if (!audit_->Allows(*context, "/varifocal.v1.Evaluation/ListTasks")) return nullptr;
  return RunUnary(context, pools_->control, [response]() -> absl::Status {
    for (const TaskKind& kind : TaskKinds()) *response->add_tasks() = ToProto(kind);
    return absl::OkStatus();
  });
}

}  // namespace varifocal
