// The server: start and its refusals, health, reflection, message size, shutdown, the in-process channel.
#include "server/server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "absl/strings/match.h"
#include "base/reason.h"
#include "tests/fakes/server_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/connected_channel.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;

TEST_F(ServerTest, MessagesAboveTheCapAreRefused) {
  v1::TokenizeRequest request;
  request.set_model("models/bare");
  for (const int64_t bytes : {int64_t{5} << 20, (int64_t{16} << 20) - 64, (int64_t{16} << 20) + 1}) {
    request.set_text(std::string(bytes, 'x'));
    const grpc::Status status = Ask(*inference_, &v1::Inference::Stub::Tokenize, request);
    EXPECT_EQ(status.error_code(), bytes > kMessageBytesMax ? grpc::RESOURCE_EXHAUSTED : grpc::FAILED_PRECONDITION)
        << bytes;
  }
}

TEST_F(ServerTest, HealthFollowsLifeAndShutdownEndsWatches) {
  for (const char* name : {"", "varifocal.v1.Inference", "varifocal.v1.Evaluation", "model/a", "model/learned"})
    EXPECT_EQ(Health(channel_, name), "SERVING") << name;
  EXPECT_EQ(Health(channel_, "model/nobody"), "error 5");
  control_->Hold();
  const v1::Job submitted = Submitted(SmallJob());
  const auto watch = Named<v1::WatchJobRequest>(submitted.name());
  grpc::ClientContext context;
  const auto reader = evaluation_->WatchJob(&context, watch);
  v1::WatchJobResponse message;
  ASSERT_TRUE(reader->Read(&message));
  server_->Shutdown(std::chrono::hours(1));  // returns: no call needs the grace period
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(ReasonIn(reader->Finish()), "SHUTTING_DOWN");
  EXPECT_EQ(message.job().state(), v1::Job::QUEUED) << "the watcher receives the state QUEUED";
}

// The first message is larger than what the connection takes from a server before the client reads, so it is still being sent.
TEST_F(ServerTest, AWatcherThatReadsLaterReceivesTheLastStateAfterAShutdown) {
  control_->Hold();
  v1::SubmitJobRequest request = SmallJob();
  v1::SuiteConfig* suite = request.mutable_spec()->mutable_suite();
  suite->set_samples(1);
  for (int length = 257; length < 300; ++length) suite->add_lengths(length);
  suite->mutable_tasks(0)->set_name(std::string(60, 'a'));
  for (int task = 10; task < 40; ++task) {
    *suite->add_tasks() = suite->tasks(0);
    suite->mutable_tasks(suite->tasks_size() - 1)->set_name(absl::StrCat(std::string(58, 'a'), task));
  }
  v1::SubmitJobResponse submitted;
  const grpc::Status status = Submit(request, &submitted);
  ASSERT_TRUE(status.ok()) << status.error_message();
  control_->WaitUntilStarted();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8192);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::Evaluation::NewStub(ConnectedChannel(server_->address(), arguments));
  const auto watch = Named<v1::WatchJobRequest>(submitted.job().name());
  grpc::ClientContext context;
  const auto reader = stub->WatchJob(&context, watch);
  reader->WaitForInitialMetadata();  // with the first bytes of the message
  std::thread stops([this] { server_->Shutdown(std::chrono::hours(1)); });
  std::this_thread::sleep_for(milliseconds(300));
  v1::WatchJobResponse message;
  int count = 0;
  while (reader->Read(&message)) ++count;
  stops.join();
  EXPECT_EQ(ReasonIn(reader->Finish()), "SHUTTING_DOWN");
  EXPECT_EQ(message.job().state(), v1::Job::QUEUED) << count << " messages";
}

TEST_F(ServerTest, ShutdownCancelsCallsWhenTheGraceIsOver) {
  control_->Hold();
  grpc::ClientContext context;
  const auto reader = inference_->Generate(&context, SmallGenerate());
  control_->WaitUntilStarted();
  server_->Shutdown(milliseconds(100));
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
  EXPECT_EQ(control_->cancelled_count(), 1);
}

TEST_F(ServerTest, TheChannelInsideThisProcessIsTheSameServer) {
  const auto stub = v1::Inference::NewStub(server_->InProcessChannel());
  const auto request = Named<v1::GetModelRequest>("models/a");
  ASSERT_TRUE(Ask(*stub, &v1::Inference::Stub::GetModel, request).ok());
  grpc::ClientContext context2;
  const auto reader = stub->Generate(&context2, SmallGenerate());
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(message.has_result());
}

TEST_F(ServerTest, AServerWithoutDatabaseHasNoJobs) {
  ServerOptions options;
  options.models = {{"a", "fake"}};
  options.model_factory = MakeFakeModelFactory(control_);
  ASSIGN_OR_FAIL(const auto server, Server::Start(options));
  EXPECT_EQ(server->address(), "");
  const auto stub = v1::Evaluation::NewStub(server->InProcessChannel());
  EXPECT_EQ(ReasonIn(Ask(*stub, &v1::Evaluation::Stub::SubmitJob, SmallJob())), "NO_DATABASE");
  grpc::ClientContext context2;
  EXPECT_EQ(ReasonIn(stub->WatchJob(&context2, {})->Finish()), "NO_DATABASE");
}

TEST_F(ServerTest, StartRefusesByReason) {
  struct Case {
    const char* name;
    std::function<void(ServerOptions&)> spoil;
    const char* reason;
  };
  const Case cases[] = {
      {"port in use", [this](ServerOptions& o) { o.listen_address = server_->address(); }, "ADDRESS_IN_USE"},
      {"no port", [](ServerOptions& o) { o.listen_address = "127.0.0.1"; }, "BAD_LISTEN_ADDRESS"},
      {"port too large", [](ServerOptions& o) { o.listen_address = "127.0.0.1:65536"; }, "BAD_LISTEN_ADDRESS"},
      {"for everybody", [](ServerOptions& o) { o.listen_address = "0.0.0.0:0"; }, "REMOTE_LISTEN_ADDRESS"},
      {"locked database", [this](ServerOptions& o) { o.database_path = options_.database_path; }, "DATABASE_IN_USE"},
      {"model directory",
       [](ServerOptions& o) {
         o.models = {{"x", "missing"}};
       },
       "NOT_FOUND"},
      {"model name",
       [](ServerOptions& o) {
         o.models = {{"x y", "fake"}};
       },
       "BAD_MODEL_NAME"},
  };
  for (const Case& c : cases) {
    ServerOptions options = options_;
    options.database_path = directory_.File("other.db");
    c.spoil(options);
    const auto server = Server::Start(options);
    ASSERT_FALSE(server.ok()) << c.name;
    EXPECT_EQ(ReasonOf(server.status()).name, c.reason) << c.name << ": " << server.status();
  }
}

TEST_F(ServerTest, AnAddressThatIsTakenSaysWhatToDo) {
  ServerOptions options = options_;
  options.database_path = directory_.File("other.db");
  options.listen_address = server_->address();
  const absl::Status ours = Server::Start(options).status();
  EXPECT_THAT(ours.message(), Message(server_->address(), "--daemon=", "--listen=127.0.0.1:0"));
  // A listener that answers nothing is some other program.
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(silent, reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
  ASSERT_EQ(listen(silent, 8), 0);
  socklen_t size = sizeof(any);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&any), &size), 0);
  options.listen_address = absl::StrCat("127.0.0.1:", ntohs(any.sin_port));
  const absl::Status other = Server::Start(options).status();
  close(silent);
  EXPECT_TRUE(HasReason(other, ErrorReason::kAddressInUse)) << other;
  EXPECT_THAT(other.message(), Message(options.listen_address, "--listen=127.0.0.1:0"));
}

// Reflection with a hand-encoded request: field 7 requests the list of services.
std::string ReflectedServices(const std::shared_ptr<grpc::Channel>& channel, grpc::Status* status) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::Slice slice(std::string("\x3a\x00", 2));
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer out;
  call->Read(&out, nullptr);
  queue.Next(&tag, &ok);
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (ok && out.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices) bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  call->WritesDone(nullptr);
  queue.Next(&tag, &ok);
  call->Finish(status, nullptr);
  queue.Next(&tag, &ok);
  return bytes;
}

TEST_F(ServerTest, ReflectionNamesTheServicesOnlyWhenItIsOn) {
  grpc::Status status;
  EXPECT_EQ(ReflectedServices(channel_, &status), "");
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  ServerOptions options = options_;
  options.database_path = directory_.File("reflected.db");
  options.reflection = true;
  ASSIGN_OR_FAIL(const auto server, Server::Start(options));
  const std::string bytes = ReflectedServices(ConnectedChannel(server->address()), &status);
  for (const char* name : {"varifocal.v1.Inference", "varifocal.v1.Evaluation", "grpc.health.v1.Health"})
    EXPECT_TRUE(absl::StrContains(bytes, name)) << name;
  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace varifocal
