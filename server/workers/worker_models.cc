#include "server/workers/worker_models.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/mutex.h"
#include "wire/resource_names.h"

namespace varifocal {
namespace {

constexpr auto kReplyTimeout = std::chrono::seconds(5);

// The first fact in which two daemons' models differ so that answers may differ.
std::string DifferenceOf(const v1::Model& a, const v1::Model& b) {
  const std::pair<const char*, std::pair<std::string, std::string>> facts[] = {
      {"weights", {a.weights_sha256(), b.weights_sha256()}},
      {"tokenizer", {a.tokenizer_sha256(), b.tokenizer_sha256()}},
      {"number format", {a.dtype(), b.dtype()}},
      {"attention", {a.attention_json(), b.attention_json()}},
      {"code version", {a.code_version(), b.code_version()}},
  };
  for (const auto& [name, values] : facts) {
    if (values.first != values.second)
      return absl::StrCat("another ", name, ": ", values.second, ", and ", values.first);
  }
  if (const auto other = FirstTextDifference(a.function_json(), b.function_json()); other.has_value())
    return absl::StrCat("another configuration (", other->place, "): ", other->after, ", and ", other->before);
  return "";
}

std::string KindOf(const v1::Model& model) { return absl::StrCat(model.backend(), "/", model.isa()); }

struct ModelCall {
  grpc::ClientContext context;
  v1::GetModelRequest request;
};

}  // namespace

std::vector<std::vector<ModelReply>> AskForModels(const std::vector<v1::Inference::Stub*>& workers,
                                                  const std::vector<std::string>& models) {
  std::vector<std::vector<ModelReply>> replies(workers.size(), std::vector<ModelReply>(models.size()));
  std::vector<std::unique_ptr<ModelCall>> calls;
  struct {
    Mutex mutex;
    CondVar changed;
    size_t left VF_GUARDED_BY(mutex);
  } calls_left = {.left = workers.size() * models.size()};
  const auto deadline = std::chrono::system_clock::now() + kReplyTimeout;
  for (size_t w = 0; w < workers.size(); ++w) {
    for (size_t m = 0; m < models.size(); ++m) {
      ModelReply* const reply = &replies[w][m];
      reply->model = models[m];
      ModelCall& call = *calls.emplace_back(std::make_unique<ModelCall>());
      call.request.set_name(ModelResource(models[m]));
      call.context.set_deadline(deadline);
      workers[w]->async()->GetModel(&call.context, &call.request, &reply->description, [&, reply](grpc::Status status) {
        const MutexLock lock(calls_left.mutex);
        reply->status = std::move(status);
        if (--calls_left.left == 0) calls_left.changed.NotifyAll();
      });
    }
  }
  MutexLock lock(calls_left.mutex);
  calls_left.changed.Wait(calls_left.mutex, [&]() VF_REQUIRES(calls_left.mutex) { return calls_left.left == 0; });
  return replies;
}

std::string ProblemOf(const std::vector<ModelReply>& replies) {
  std::string problem;
  for (const ModelReply& reply : replies) {
    if (!reply.status.ok()) {
      problem = reply.status.error_message();
    } else if (reply.description.state() != v1::Model::READY) {
      problem = absl::StrCat("model \"", reply.model, "\" is not ready: ", reply.description.fault());
    }
  }
  return problem;
}

std::string WorkerModels::Compare(const std::string& address, const std::vector<ModelReply>& replies) {
  if (models_.empty()) {
    for (const ModelReply& reply : replies) {
      models_[reply.model] = reply.description;
      kinds_.insert(KindOf(reply.description));
    }
    reference_ = address;
    return "";
  }
  for (const ModelReply& reply : replies) {
    const std::string difference = DifferenceOf(models_.at(reply.model), reply.description);
    if (!difference.empty())
      return absl::StrCat("worker ", address, " has model \"", reply.model, "\" with ", difference, " on ", reference_);
    const std::string kind = KindOf(reply.description);
    if (kinds_.count(kind) > 0) continue;
    if (allow_mixed_ && !kinds_are_fixed_) {
      kinds_.insert(kind);
      continue;
    }
    return absl::StrCat(
        "worker ", address, " runs model \"", reply.model, "\" on ", kind, ", and ", reference_, " on ", KindsInWords(),
        allow_mixed_ ? ": a kind that was not there at the start" : ": bits may differ; --allow-mixed accepts it");
  }
  return "";
}

std::string WorkerModels::KindsInWords() const { return absl::StrJoin(kinds_, "+"); }

}  // namespace varifocal
