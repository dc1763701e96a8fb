// The Inference service: validates a request, submits it to a model's engine, returns the results.
//
// No gRPC thread is blocked: texts are encoded on the text pool and responses are sent from the engine's callback. A
// client that disconnects or exceeds its deadline cancels its engine request.
//
// Threads: any gRPC thread. Host, jobs, pools, admission, gate and audit outlive the service, and the service outlives
//          the gRPC server.
#pragma once

#include "server/hosting/model_host.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/admission.h"
#include "server/rpc/audit.h"
#include "server/rpc/engine_gate.h"
#include "server/rpc/rpc_pools.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {

class InferenceService final : public v1::Inference::CallbackService {
 public:
  // Called whenever a model is loaded or unloaded, for the health service.
  using ModelListener = std::function<void(const std::string& name, bool is_serving)>;

  // `jobs` is null in a server without a database.
  InferenceService(ModelHost* host, JobManager* jobs, RpcPools* pools, Admission* admission, EngineGate* gate,
                   const Audit* audit, ModelListener listener)
      : host_(host),
        jobs_(jobs),
        pools_(pools),
        admission_(admission),
        gate_(gate),
        audit_(audit),
        listener_(std::move(listener)) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
                                     v1::Model* response) override;
  grpc::ServerUnaryReactor* LoadModel(grpc::CallbackServerContext* context, const v1::LoadModelRequest* request,
                                      v1::Model* response) override;
  grpc::ServerUnaryReactor* UnloadModel(grpc::CallbackServerContext* context, const v1::UnloadModelRequest* request,
                                        v1::UnloadModelResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* context,
                                                           const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* ComputeLogLikelihoods(grpc::CallbackServerContext* context,
                                                  const v1::ComputeLogLikelihoodsRequest* request,
                                                  v1::ComputeLogLikelihoodsResponse* response) override;

 private:
  template <typename EngineRpc>
  EngineRpc* Launch(EngineRpc* call, const std::string& peer, size_t byte_count);

  ModelHost* const host_;
  JobManager* const jobs_;
  RpcPools* const pools_;
  Admission* const admission_;
  EngineGate* const gate_;
  const Audit* const audit_;
  const ModelListener listener_;
};

}  // namespace varifocal
