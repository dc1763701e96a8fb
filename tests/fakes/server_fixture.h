// Test fixture of the services:
// a real server on a loopback socket, stubs for it, and a fake engine.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/server.h"
#include "tests/fakes/fake_engine.h"
#include "tests/fakes/rpc_reason.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/connected_channel.h"
#include "tests/support/process.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {

// One unary call: Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &response).
template <typename Stub, typename Request, typename Response>
grpc::Status Ask(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                 const Request& request, Response* response) {
  grpc::ClientContext context;
  return (stub.*method)(&context, request, response);
}

// The same without a look at the response.
template <typename Stub, typename Request, typename Response>
grpc::Status Ask(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                 const Request& request) {
  Response response;
  return Ask(stub, method, request, &response);
}

// A request about a resource: Named<v1::GetJobRequest>("jobs/1").
template <typename Request>
Request Named(const std::string& name) {
  Request request;
  request.set_name(name);
  return request;
}

// One unary call of any method with these bytes.
inline grpc::Status AskBytes(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                             const std::string& bytes, const std::string& token = "",
                             grpc::ByteBuffer* answer = nullptr) {
  grpc::GenericStub stub(channel);
  grpc::Slice slice(bytes);
  grpc::ByteBuffer in(&slice, 1), out;
  grpc::ClientContext context;
  if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &in, answer == nullptr ? &out : answer,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

// "SERVING", "NOT_SERVING" or the error code, without generated stubs: Debian has no compiled health client.
inline std::string Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  const std::string request =
      service.empty() ? "" : absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  grpc::ByteBuffer out;
  const grpc::Status status = AskBytes(channel, "/grpc.health.v1.Health/Check", request, "", &out);
  if (!status.ok()) return absl::StrCat("error ", status.error_code());
  std::vector<grpc::Slice> slices;
  if (!out.Dump(&slices).ok()) return "unreadable";
  std::string bytes;
  for (const grpc::Slice& part : slices) bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  return bytes == std::string("\x08\x01", 2)   ? "SERVING"
         : bytes == std::string("\x08\x02", 2) ? "NOT_SERVING"
                                               : "other";
}

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kError);
    options_.database_path = directory_.File("results.db");
    options_.models = {{"a", "fake"}, {"b", "fake-b"}, {"bare", "fake-bare"}, {"learned", "fake-learned"}};
    options_.listen_address = "127.0.0.1:0";
    options_.model_factory = MakeFakeModelFactory(control_);
    Start();
  }
  // A server by options_, in the place of one that runs, and stubs of it.
  void Start() {
    server_.reset();
    ASSIGN_OR_FAIL(server_, Server::Start(options_));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
    channel_ = ConnectedChannel(server_->address(), arguments);
    inference_ = v1::Inference::NewStub(channel_);
    evaluation_ = v1::Evaluation::NewStub(channel_);
  }

  static v1::GenerateRequest SmallGenerate() {
    v1::GenerateRequest request;
    request.set_model("models/a");
    request.set_prompt_text("Find the key");
    request.set_max_new_tokens(8);
    return request;
  }

  static v1::SubmitJobRequest SmallJob() {
    v1::SubmitJobRequest request;
    v1::SuiteConfig* suite = request.mutable_spec()->mutable_suite();
    suite->set_name("small");
    suite->add_lengths(256);
    suite->set_samples(8);
    suite->add_tasks()->set_kind("recall_kv");
    request.mutable_spec()->add_variants()->set_model("models/a");
    request.mutable_spec()->add_variants()->set_model("models/b");
    return request;
  }

  grpc::Status Generate(const v1::GenerateRequest& request, std::vector<v1::GenerateResponse>* messages = nullptr) {
    grpc::ClientContext context;
    const auto reader = inference_->Generate(&context, request);
    for (v1::GenerateResponse message; reader->Read(&message);) {
      if (messages != nullptr) messages->push_back(message);
    }
    return reader->Finish();
  }

  grpc::Status Submit(const v1::SubmitJobRequest& request, v1::SubmitJobResponse* response) {
    return Ask(*evaluation_, &v1::Evaluation::Stub::SubmitJob, request, response);
  }

  v1::Job Submitted(const v1::SubmitJobRequest& request) {
    v1::SubmitJobResponse response;
    const grpc::Status status = Submit(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job();
  }

  v1::Job GetJob(const std::string& name) {
    v1::Job job;
    EXPECT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::GetJob, Named<v1::GetJobRequest>(name), &job).ok());
    return job;
  }

  TemporaryDirectory directory_;
  std::shared_ptr<FakeEngineControl> control_ = std::make_shared<FakeEngineControl>();
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Evaluation::Stub> evaluation_;
};

// Asks for attention inspection with these boundaries.
template <typename Request>
void InspectAt(Request& request, const std::vector<int32_t>& boundaries) {
  request.mutable_attention_inspection()->mutable_boundaries()->Add(boundaries.begin(), boundaries.end());
}

}  // namespace varifocal
