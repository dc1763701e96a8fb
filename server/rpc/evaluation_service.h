// The Evaluation service. Every unary call may block on the database, so it runs on a pool.
//
// Watching: one thread polls all watched jobs four times a second and writes to those streams whose job changed and
//           whose
// last message was sent. So a slow reader skips messages, and watchers do not slow down a job.
//
// Threads: any gRPC thread. Jobs, pools, admission and audit outlive the service, the service outlives the gRPC server.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/admission.h"
#include "server/rpc/audit.h"
#include "server/rpc/rpc_pools.h"
#include "varifocal/v1/evaluation.grpc.pb.h"

namespace varifocal {

class EvaluationService final : public v1::Evaluation::CallbackService {
 public:
  // `jobs` is null in a server without a database; calls that need one then fail with NO_DATABASE.
  EvaluationService(JobManager* jobs, RpcPools* pools, Admission* admission, const Audit* audit);
  ~EvaluationService() override;

  // Ends all WatchJob streams with UNAVAILABLE (SHUTTING_DOWN), and later ones at once. Idempotent.
  void EndWatches();

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context, const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                   v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* context, const v1::ResumeJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context, const v1::DeleteJobRequest* request,
                                      v1::DeleteJobResponse* response) override;
  grpc::ServerUnaryReactor* ImportScores(grpc::CallbackServerContext* context, const v1::ImportScoresRequest* request,
                                         v1::ImportScoresResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext* context,
                                                           const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* ListSuites(grpc::CallbackServerContext* context, const v1::ListSuitesRequest* request,
                                       v1::ListSuitesResponse* response) override;
  grpc::ServerUnaryReactor* ListTasks(grpc::CallbackServerContext* context, const v1::ListTasksRequest* request,
                                      v1::ListTasksResponse* response) override;

 private:
  class Poll;
  class Watch;

  absl::StatusOr<JobManager*> Jobs() const;
  void WatchLoop();

  JobManager* const jobs_;
  RpcPools* const pools_;
  Admission* const admission_;
  const Audit* const audit_;

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  bool has_new_ VF_GUARDED_BY(mutex_) = false;  // a watcher without an update so far
  std::vector<std::shared_ptr<Watch>> watches_ VF_GUARDED_BY(mutex_);
  std::thread watcher_;
};

}  // namespace varifocal
