// What workers reply about their models, and whether the answers of two workers may be mixed.
//
// Threads: AskForModels from any; a WorkerModels is not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "grpcpp/support/status.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {

struct ModelReply {
  std::string model;  // the name asked for
  grpc::Status status;
  v1::Model description;
};

// Asks all workers at once for all models: a list of replies per worker, in the order of the arguments. A worker that does
// not reply within five seconds has replied with DEADLINE_EXCEEDED.
std::vector<std::vector<ModelReply>> AskForModels(const std::vector<v1::Inference::Stub*>& workers,
                                                  const std::vector<std::string>& models);

// Why a worker with these replies cannot be used now; empty where every model is ready.
std::string ProblemOf(const std::vector<ModelReply>& replies);

class WorkerModels {
 public:
  explicit WorkerModels(bool allow_mixed) : allow_mixed_(allow_mixed) {}

  // Why the worker's answers may differ from those of the first worker compared; empty where they may not. The first one
  // has no difference.
  std::string Compare(const std::string& address, const std::vector<ModelReply>& replies);

  // From now on a kind that no worker has had is a difference, even if kinds may be mixed: the kinds are part of the record
  // of the answers.
  void FixKinds() { kinds_are_fixed_ = true; }

  const v1::Model& model(const std::string& name) const { return models_.at(name); }  // never changed once set
  std::string KindsInWords() const;

 private:
  const bool allow_mixed_;
  bool kinds_are_fixed_ = false;
  std::map<std::string, v1::Model> models_;  // by name, as the first worker describes them
  std::set<std::string> kinds_;
  std::string reference_;  // the first worker's address
};

}  // namespace varifocal
