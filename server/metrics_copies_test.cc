// Models that have copies on several devices, as callers, operators and the client see them while devices fail. Method: copies
// with fake engines behind a server.
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "server/engine/replicated_engine.h"
#include "server/rpc/limits.h"
#include "tests/fakes/metrics_fixture.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

// Every model has two copies, on fake devices of which one fails, then the other.
class CopiesTest : public MetricsTest {
 protected:
  void SetUp() override {
    MetricsTest::SetUp();
    options_.model_factory = MakeFakeModelFactory(control_, [this](const std::string& name) -> std::unique_ptr<Engine> {
      std::vector<ReplicatedEngine::Copy> copies;
      for (const char* device : {"cuda:0", "cuda:1"})
        copies.push_back({device, std::make_unique<FakeEngine>(control_, absl::StrCat(name, " on ", device))});
      return *ReplicatedEngine::Create(name, std::move(copies));
    });
    Start();
  }
  void Lose(const std::string& copy) {
    control_->SetFault(
        copy, WithReason(absl::UnavailableError("the device failed: CUDA error 700"), ErrorReason::kDeviceFaulted));
  }
  v1::Model ModelA() {
    v1::Model model;
    const auto request = Named<v1::GetModelRequest>("models/a");
    EXPECT_TRUE(Ask(*inference_, &v1::Inference::Stub::GetModel, request, &model).ok());
    return model;
  }
  std::string Shown() {
    const auto ran = RunProcess("varifocal", {"models", "a", "--daemon=" + server_->address()});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.out;
  }
};

TEST_F(CopiesTest, ALostOneIsShownAndTheModelServes) {
  EXPECT_THAT(Shown(), MessageIn("cuda:0, cuda:1"));
  Lose("a on cuda:0");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Generate(SmallGenerate()).ok());
  const v1::Model model = ModelA();
  EXPECT_EQ(model.state(), v1::Model::READY);
  ASSERT_EQ(model.copies_size(), 2);
  EXPECT_EQ(model.copies(0).device(), "cuda:0");
  EXPECT_EQ(model.copies(0).fault(), "the device failed: CUDA error 700");
  EXPECT_EQ(model.copies(1).fault(), "");
  std::map<std::string, double> values = Scrape();
  EXPECT_EQ(values["varifocal_model_copies{model=\"a\",state=\"serving\"}"], 1);
  EXPECT_EQ(values["varifocal_model_copies{model=\"a\",state=\"lost\"}"], 1);
  EXPECT_EQ(values["varifocal_model_copies{model=\"b\",state=\"serving\"}"], 2);
  EXPECT_EQ(values["varifocal_model_serving{model=\"a\"}"], 1);
  EXPECT_EQ(Health(channel_, "model/a"), "SERVING");
  const std::string shown = Shown();
  EXPECT_THAT(shown, MessageIn("its copy on cuda:0", "CUDA error 700"));
  EXPECT_THAT(shown, MessageIn("cuda:0 (lost), cuda:1"));

  Lose("a on cuda:1");
  const grpc::Status status = Generate(SmallGenerate());
  EXPECT_EQ(ReasonIn(status), "DEVICE_FAULTED");
  EXPECT_THAT(status.error_message(), Message("cuda:0", "cuda:1"));
  EXPECT_EQ(ModelA().state(), v1::Model::FAULTED);
  EXPECT_EQ(Scrape()["varifocal_model_serving{model=\"a\"}"], 0);
  while (Health(channel_, "model/a") == "SERVING") std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Twice as many calls as of one engine are let in.
TEST_F(CopiesTest, TheGateLetsInWhatItsCopiesTake) {
  control_->Hold();
  std::vector<std::future<grpc::Status>> calls;
  for (int i = 0; i < 2 * kEngineCallsMax + 3; ++i)
    calls.push_back(std::async(std::launch::async, [this] { return Generate(SmallGenerate()); }));
  while (control_->started_count() < 2 * kEngineCallsMax ||
         Scrape()["varifocal_calls_active"] < 2 * kEngineCallsMax + 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(Scrape()["varifocal_requests_waiting{model=\"a\",queue=\"gate\"}"], 3);
  control_->Release();
  for (auto& call : calls) EXPECT_TRUE(call.get().ok());
}

}  // namespace
}  // namespace varifocal
