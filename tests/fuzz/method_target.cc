#include "tests/fuzz/method_target.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "base/check.h"
#include "base/log.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/server.h"
#include "tests/fakes/fake_engine.h"
#include "tests/fakes/rpc_reason.h"
#include "tests/support/process.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using grpc::StatusCode;

constexpr char kJob[] =
    "spec { suite { name: 'small' lengths: 256 samples: 2 tasks { kind: 'recall_kv' } }"
    " variants { model: 'models/a' } variants { model: 'models/b' focal_temperatures: 0.7 } }";
constexpr char kGenerate[] =
    "model: 'models/a' prompt_text: 'Find the key' max_new_tokens: 8 decode_settings { sampling_temperature: 0.5 seed: "
    "3 } attention_inspection { boundaries: [0, 1, 2] row_count: 2 }";

// In text format; of a method without a row, the empty request is accepted.
constexpr std::pair<const char*, const char*> kRequests[] = {
    {"SubmitJob", kJob},
    {"GetJob", "name: 'jobs/1'"},
    {"CancelJob", "name: 'jobs/1'"},
    {"DeleteJob", "name: 'jobs/999'"},  // none: other methods need jobs/1
    {"ImportScores",
     "job: 'jobs/1' source: 'a.jsonl' source_sha256: '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'"
     " judgments { variant: 'a' token_ids_sha256: '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef' scores { key: "
     "'good' value: 0.5 } }"},
    {"ResumeJob", "name: 'jobs/1'"},
    {"WatchJob", "name: 'jobs/1'"},
    {"GetModel", "name: 'models/a'"},
    {"LoadModel", "model_id: 'c' directory: 'fake'"},
    {"UnloadModel", "name: 'models/bare'"},
    {"Tokenize", "model: 'models/a' text: 'Find the key'"},
    {"Detokenize", "model: 'models/a' token_ids: [5, 6, 7]"},
    {"Generate", kGenerate},
    {"ComputeLogLikelihoods",
     "model: 'models/a' prompt_text: 'Find' continuations { text: ' it' } continuations { text: ' them' } per_token: "
     "true attention_inspection { boundaries: [0, 1] }"},
};

// The server, with the calls that keep its state bounded.
class Fixture {
 public:
  static Fixture& Get() {
    static Fixture* const fixture = new Fixture;
    return *fixture;
  }

  grpc::Status Call(const std::string& method, absl::string_view request) {
    const grpc::Slice slice(request.data(), request.size());
    const grpc::ByteBuffer bytes(&slice, 1);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));  // the end of a call that hangs
    const auto call = generic_->PrepareCall(&context, method, &queue_);
    call->StartCall(Tag());
    Next();
    call->WriteLast(bytes, grpc::WriteOptions(), Tag());
    Next();
    for (int count = 0;; ++count) {
      grpc::ByteBuffer answer;
      call->Read(&answer, Tag());
      if (!Next()) break;
      if (count == 1 && absl::EndsWith(method, "WatchJob")) context.TryCancel();  // the job may take long
    }
    grpc::Status status;
    call->Finish(&status, Tag());
    Next();
    Tidy(method, status);
    return status;
  }

  bool IsServing() {
    v1::GenerateRequest request;
    VF_CHECK(google::protobuf::TextFormat::ParseFromString(kGenerate, &request));
    grpc::ClientContext context;
    const auto reader = inference_->Generate(&context, request);
    std::string text;
    for (v1::GenerateResponse message; reader->Read(&message);) {
      if (message.has_result()) text = message.result().text();
    }
    if (!reader->Finish().ok()) return false;
    if (known_text_.empty()) known_text_ = text;
    return !text.empty() && text == known_text_;
  }

 private:
  Fixture() {
    SetLogLevel(LogLevel::kError);
    ServerOptions options;
    options.database_path = directory_.File("results.db");
    options.models = {{"a", "fake"}, {"b", "fake-b"}, {"bare", "fake-bare"}, {"chat", "fake-chat"}};
    options.model_factory = MakeFakeModelFactory(std::make_shared<FakeEngineControl>());
    auto server = Server::Start(options);
    VF_CHECK(server.ok(), "the server of a fuzz target starts");
    server_ = *std::move(server);
    channel_ = server_->InProcessChannel();
    generic_ = std::make_unique<grpc::GenericStub>(channel_);
    inference_ = v1::Inference::NewStub(channel_);
    evaluation_ = v1::Evaluation::NewStub(channel_);
    // jobs/1
    v1::SubmitJobRequest job;
    VF_CHECK(google::protobuf::TextFormat::ParseFromString(kJob, &job));
    grpc::ClientContext context;
    v1::SubmitJobResponse response;
    VF_CHECK(evaluation_->SubmitJob(&context, job, &response).ok());
  }

  void* Tag() { return this; }
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    VF_CHECK(queue_.Next(&tag, &ok));
    return ok;
  }

  // Accepted jobs are cancelled, and the models are those of the start.
  void Tidy(const std::string& method, const grpc::Status& status) {
    if (!status.ok()) return;
    if (method.find("SubmitJob") != std::string::npos || method.find("ResumeJob") != std::string::npos) {
      grpc::ClientContext context;
      v1::ListJobsResponse jobs;
      v1::ListJobsRequest newest;
      newest.set_page_size(1);
      VF_CHECK(evaluation_->ListJobs(&context, newest, &jobs).ok() && jobs.jobs_size() == 1);
      grpc::ClientContext cancel_context;
      v1::CancelJobRequest cancel;
      cancel.set_name(jobs.jobs(0).name());
      v1::Job job;
      evaluation_->CancelJob(&cancel_context, cancel, &job);  // it may have ended
    }
    if (method.find("loadModel") == std::string::npos && method.find("LoadModel") == std::string::npos) return;
    grpc::ClientContext context;
    v1::ListModelsResponse models;
    VF_CHECK(inference_->ListModels(&context, {}, &models).ok());
    std::set<std::string> missing = {"a", "b", "bare", "chat"};
    for (const v1::Model& model : models.models()) {
      if (missing.erase(model.name().substr(7)) > 0) continue;
      v1::UnloadModelRequest unload;
      unload.set_name(model.name());
      grpc::ClientContext unload_context;
      v1::UnloadModelResponse ignored;
      inference_->UnloadModel(&unload_context, unload, &ignored);
    }
    for (const std::string& name : missing) {
      v1::LoadModelRequest load;
      load.set_model_id(name);
      load.set_directory(name == "a" ? "fake" : "fake-" + name);
      grpc::ClientContext load_context;
      v1::Model ignored;
      VF_CHECK(inference_->LoadModel(&load_context, load, &ignored).ok());
    }
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> generic_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Evaluation::Stub> evaluation_;
  grpc::CompletionQueue queue_;
  std::string known_text_;
};

const Message* AcceptedRequest(const MethodDescriptor& method) {
  Message* message = google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.input_type())->New();
  for (const auto& [name, text] : kRequests) {
    if (method.name() == name) VF_CHECK(google::protobuf::TextFormat::ParseFromString(text, message));
  }
  return message;
}

}  // namespace

const std::vector<ServiceMethod>& ServiceMethods() {
  static const auto* const methods = [] {
    auto* all = new std::vector<ServiceMethod>;
    for (const auto* file : {v1::SubmitJobRequest::descriptor()->file(), v1::GenerateRequest::descriptor()->file()}) {
      for (int s = 0; s < file->service_count(); ++s) {
        const google::protobuf::ServiceDescriptor& service = *file->service(s);
        for (int m = 0; m < service.method_count(); ++m) {
          all->push_back(
              {"/" + service.full_name() + "/" + service.method(m)->name(), AcceptedRequest(*service.method(m))});
        }
      }
    }
    return all;
  }();
  return *methods;
}

int CallMethod(const ServiceMethod& method, absl::string_view request) {
  const grpc::Status status = Fixture::Get().Call(method.name, request);
  switch (status.error_code()) {
    case StatusCode::OK:
    case StatusCode::CANCELLED:  // a watch, by this client
      break;
    case StatusCode::INVALID_ARGUMENT:
    case StatusCode::NOT_FOUND:
    case StatusCode::ALREADY_EXISTS:
    case StatusCode::FAILED_PRECONDITION:
    case StatusCode::RESOURCE_EXHAUSTED:
    case StatusCode::OUT_OF_RANGE:
    case StatusCode::ABORTED:
    case StatusCode::UNAVAILABLE:
      if (ReasonIn(status)[0] != '(' && !status.error_message().empty()) break;
      [[fallthrough]];
    default:
      std::fprintf(stderr, "%s: code %d, reason %s: %s\n", method.name.c_str(), status.error_code(),
                   ReasonIn(status).c_str(), status.error_message().c_str());
      VF_CHECK(false, "a status of the API");
  }
  return status.error_code();
}

void CheckServing() { VF_CHECK(Fixture::Get().IsServing(), "a known prompt has its known answer"); }

}  // namespace varifocal
