// Models on several emulated devices in one process: the same bits on one, two and three of them, for requests and for jobs;
// devices that fail at any call; memory of each device; load and unload. Method: the shipped baseline and a tiny golden
// checkpoint through the daemon's own factory, on backends over kernels/cuda/emulator with fault injection.
#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/reason.h"
#include "db/diff.h"
#include "db/query.h"
#include "server/engine/cuda_testing.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_manager.h"
#include "tests/fakes/wait_for_job.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

constexpr int kCudaIllegalAddress = 700;
constexpr char kGolden[] = "tests/testdata/goldens/llama/tied-d16-f32";
constexpr char kBaseline[] = "models/baseline";

// A machine with some devices, and a host of models on all of them.
class Machine {
 public:
  explicit Machine(int device_count, const std::string& name_of_last = "emulated device") {
    std::vector<std::string> indexes;
    for (int i = 0; i < device_count; ++i) {
      auto device = std::make_shared<kernels::cuda::EmulatedMachine>();
      device->device_count = device_count;
      if (i + 1 == device_count) device->name = name_of_last;
      auto backend = kernels::cuda::CreateBackendOn(
          kernels::cuda::MakeEmulatedRuntime(device), i,
          {.dtype = kernels::DType::kBF16, .thread_count = 1, .cuda_graphs = i % 2 == 1});
      VF_CHECK(backend.ok(), "the emulated device opens");
      options.backends[absl::StrCat("cuda:", i)] = std::move(*backend);
      devices.push_back(std::move(device));
      indexes.push_back(absl::StrCat(i));
    }
    options.device = absl::StrCat("cuda:", absl::StrJoin(indexes, ","));
    options.cache_directory = testing::TempDir();
  }

  ModelFactory Factory(int64_t kv_cache_bytes = 4 << 20) const {
    return MakeModelFactory(options,
                            {.prefill_chunk_tokens = 256, .batch_size_max = 4, .kv_cache_bytes = kv_cache_bytes});
  }
  std::vector<size_t> UsedBytes() const {
    std::vector<size_t> used;
    for (const auto& device : devices) used.push_back(device->used_bytes);
    return used;
  }

  std::vector<std::shared_ptr<kernels::cuda::EmulatedMachine>> devices;
  ModelOptions options;
};

std::vector<EngineRequest> SomeRequests() {
  std::vector<EngineRequest> requests;
  for (int i = 0; i < 6; ++i) {
    EngineRequest request{.context = absl::StrCat("c", i / 2), .token_ids = RandomIds(absl::StrCat("c", i / 2), 140)};
    request.token_ids.push_back(2 + i);
    if (i % 3 == 0) request.work = ScoreTextWork{};
    if (i % 3 == 1) request.work = ScoreContinuationsWork{{RandomIds("x", 3), RandomIds("y", 5)}};
    if (i % 3 == 2) {
      request.work =
          GenerateWork{.max_new_tokens = 4, .ignore_eos = true, .sampling = {.temperature = 0.8}, .seed = uint64_t(i)};
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

class CudaCopiesTest : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kError); }
  static std::vector<std::string> ExpectedBits() {
    static const auto* const bits = new std::vector<std::string>([] {
      const Machine machine(1);
      const auto model = machine.Factory()("m", kGolden);
      VF_CHECK(model.ok(), "the golden checkpoint loads");
      return BitsOf(AskAll(*(*model)->engine, SomeRequests()));
    }());
    return *bits;
  }
};

TEST_F(CudaCopiesTest, SameBitsOnTwoAndThreeDevices) {
  for (const int count : {2, 3}) {
    const Machine machine(count);
    ASSIGN_OR_FAIL(const auto model, machine.Factory()("m", kGolden));
    EXPECT_EQ(BitsOf(AskAll(*model->engine, SomeRequests())), ExpectedBits()) << count;
    const std::vector<EngineCopy> copies = model->engine->Copies();
    ASSERT_EQ(copies.size(), count);
    for (const EngineCopy& copy : copies) EXPECT_GE(copy.engine->Status().requests_done, 2) << copy.device;
    EXPECT_THAT(model->provenance.device, HasSubstr(absl::StrCat(count, " x emulated device (cuda:0, cuda:1")));
  }
}

// The n-th call of one of two devices fails permanently, for every n until none does: every request is answered once, with the
// bits of a machine without failures.
TEST_F(CudaCopiesTest, ADeviceThatFailsAtAnyCallChangesNoAnswer) {
  const std::vector<EngineRequest> requests = SomeRequests();
  for (const char* call : {"Synchronize", "CopyToDevice"}) {
    int faults = 0, moved = 0;
    for (bool untouched = false; !untouched; faults += 2) {
      ASSERT_LT(faults, 1000) << call;
      const Machine machine(2);
      ASSIGN_OR_FAIL(const auto model, machine.Factory()("m", kGolden));
      machine.devices[1]->failures[call] = {kCudaIllegalAddress, faults};
      const auto outcomes = AskAll(*model->engine, requests);
      EXPECT_EQ(BitsOf(outcomes), ExpectedBits()) << call << " " << faults;
      for (const auto& outcome : outcomes) moved += outcome.ok() && outcome->attempt_count == 2;
      EXPECT_TRUE(model->engine->Fault().ok());
      untouched = model->engine->Copies()[1].engine->Fault().ok();
      EXPECT_EQ(model->engine->ServingCopyCount(), untouched ? 2 : 1);
    }
    EXPECT_GT(faults, 5) << call;
    EXPECT_GT(moved, 3) << call;
  }
}

TEST_F(CudaCopiesTest, WithoutADeviceRequestsEndWithTheCauses) {
  const Machine machine(2);
  ModelHost host(machine.Factory());
  ASSIGN_OR_FAIL(const auto model, host.Load("m", kGolden));
  for (const auto& device : machine.devices) device->failures["Synchronize"] = {kCudaIllegalAddress, 2};
  for (const auto& outcome : AskAll(*model->engine, SomeRequests()))
    EXPECT_EQ(ReasonOf(outcome.status()).name, "DEVICE_FAULTED");
  EXPECT_THAT(FaultOf(*model).message(), Message("\"m\"", "all 2 copies", "cuda:0", "cuda:1", "CUDA error 700"));
  EXPECT_TRUE(host.Unload("m").ok());
}

// Both models have a copy on both devices, and all four take requests at once: turns on one device hold up no other, and a
// device that fails takes down its copy of each model only.
TEST_F(CudaCopiesTest, TwoModelsOnTwoDevicesAtOnce) {
  const auto long_requests = [] {
    std::vector<EngineRequest> requests;
    for (int i = 0; i < 4; ++i) {
      requests.push_back({.context = absl::StrCat("long", i), .token_ids = RandomIds(absl::StrCat("long", i), 200)});
      requests.back().work = GenerateWork{.max_new_tokens = 2, .ignore_eos = true};
    }
    return requests;
  };
  ASSIGN_OR_FAIL(const auto alone, Machine(1).Factory(16 << 20)("long", kBaseline));
  const std::vector<std::string> expected = BitsOf(AskAll(*alone->engine, long_requests()));
  for (const bool fails : {false, true}) {
    const Machine machine(2);
    ModelHost host(machine.Factory(16 << 20));
    const auto first = host.Load("long", kBaseline), second = host.Load("short", kGolden);
    ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
    if (fails) machine.devices[1]->failures["Synchronize"] = {kCudaIllegalAddress, 3};
    auto long_answers =
        std::async(std::launch::async, [&] { return BitsOf(AskAll(*(*first)->engine, long_requests())); });
    EXPECT_EQ(BitsOf(AskAll(*(*second)->engine, SomeRequests())), ExpectedBits());
    EXPECT_EQ(long_answers.get(), expected);
    for (const auto& model : {*first, *second}) {
      const std::vector<EngineCopy> copies = model->engine->Copies();
      ASSERT_EQ(copies.size(), 2);
      EXPECT_TRUE(copies[0].engine->Fault().ok());
      // Two more contexts, of which a copy that has had none since the device failed gets one.
      const std::vector<EngineRequest> last = {
          {.context = "x", .token_ids = RandomIds("x", 20), .work = ScoreTextWork{}},
          {.context = "y", .token_ids = RandomIds("y", 20), .work = ScoreTextWork{}}};
      for (const auto& outcome : AskAll(*model->engine, last)) EXPECT_TRUE(outcome.ok()) << outcome.status();
      EXPECT_EQ(copies[1].engine->Fault().ok(), !fails) << copies[1].device;
    }
  }
}

// Weights, pages and buffers are on every listed device, and leave all of them; @cuda:1 is on that device alone.
TEST_F(CudaCopiesTest, LoadsOnItsDevicesAndLeavesThem) {
  const Machine machine(3);
  ModelHost host(machine.Factory());
  const std::vector<size_t> empty = machine.UsedBytes();
  ASSERT_TRUE(host.Load("everywhere", kGolden).ok());
  const std::vector<size_t> all = machine.UsedBytes();
  for (size_t i = 0; i < 3; ++i) EXPECT_GT(all[i] - empty[i], size_t{4} << 20) << i;
  ASSIGN_OR_FAIL(const auto placed, host.Load("placed", absl::StrCat(kGolden, "@cuda:1")));
  EXPECT_EQ(host.ServingCopyCount("everywhere"), 3);
  EXPECT_EQ(host.ServingCopyCount("placed"), 1);
  EXPECT_EQ(machine.UsedBytes()[0], all[0]);
  EXPECT_GT(machine.UsedBytes()[1], all[1]);
  EXPECT_EQ(machine.UsedBytes()[2], all[2]);
  EXPECT_GT(placed->engine->Describe().shared_weight_bytes, 0) << "the weights of the other model there";
  ASSIGN_OR_FAIL(const auto two, host.Load("two", absl::StrCat(kGolden, "@cuda:2,0")));
  EXPECT_EQ(two->engine->Copies()[0].device, "cuda:2");
  EXPECT_EQ(BitsOf(AskAll(*two->engine, SomeRequests())), ExpectedBits());
  EXPECT_TRUE(host.Unload("everywhere").ok());
  EXPECT_EQ(BitsOf(AskAll(*placed->engine, SomeRequests())), ExpectedBits()) << "shared weights stay";
  EXPECT_TRUE(host.Unload("placed").ok());
  EXPECT_TRUE(host.Unload("two").ok());
  EXPECT_GT(machine.UsedBytes()[1], empty[1]) << "the test holds one";
}

TEST_F(CudaCopiesTest, NothingStaysAfterUnload) {
  const Machine machine(2);
  ModelHost host(machine.Factory());
  const std::vector<size_t> empty = machine.UsedBytes();
  ASSERT_TRUE(host.Load("m", kGolden).ok());
  ASSERT_TRUE(host.Unload("m").ok());
  EXPECT_EQ(machine.UsedBytes(), empty);
}

TEST_F(CudaCopiesTest, EachDeviceNeedsTheMemory) {
  const Machine machine(2);
  machine.devices[1]->total_bytes = 100'000;
  const std::vector<size_t> empty = machine.UsedBytes();
  const absl::Status status = machine.Factory()("m", kGolden).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status, RefusedFor("NOT_ENOUGH_MEMORY", Message("cuda:1", 100'000)));
  EXPECT_EQ(machine.UsedBytes(), empty) << "the copy that fitted is gone";
}

TEST_F(CudaCopiesTest, DevicesOfTwoKindsAreRefused) {
  const Machine machine(2, "another card");
  EXPECT_THAT(machine.Factory()("m", kGolden).status(),
              RefusedFor("DEVICES_DIFFER", Message("cuda:0", "emulated device", "cuda:1", "another card")));
}

TEST_F(CudaCopiesTest, BadListsAreRefusedWhereAModelIsPlaced) {
  const Machine machine(2);
  for (const char* place : {"@cuda:", "@cuda:0,", "@cuda:1,1"}) {
    EXPECT_THAT(machine.Factory()("m", absl::StrCat(kGolden, place)).status(),
                RefusedFor("BAD_DEVICE", Message(std::string(place + 1))));
  }
}

// A job of the shipped baseline on some devices: three contexts of four questions.
class CudaCopiesJobTest : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kError); }

  static JobSpec Spec() {
    JobSpec spec;
    spec.suite.name = "small";
    spec.suite.lengths = {256};
    spec.suite.samples = 12;
    spec.suite.tasks = {{.kind = "recall_kv"}};
    spec.variants = {{"a"}};
    spec.in_flight = 0;
    return spec;
  }
  static constexpr int kAnswers = 12, kMetrics = 2;

  struct Run {
    explicit Run(int device_count) : machine(device_count), host(machine.Factory(16 << 20)) {
      EXPECT_TRUE(host.Load("a", kBaseline).ok());
      calls_of_load = machine.devices[0]->calls["Synchronize"];
      options.database_path = directory.File("results.db");
      auto created = JobManager::Create(&host, options);
      EXPECT_TRUE(created.ok()) << created.status();
      manager = *std::move(created);
      manager->Start();
    }
    JobView Submit() {
      auto view = manager->Submit(Spec(), {});
      EXPECT_TRUE(view.ok()) << view.status();
      return WaitForJob(*manager, view->row.job_id, [](const JobView& job) {
        return job.row.state == db::JobState::kSucceeded || job.row.state == db::JobState::kFailed;
      });
    }
    int64_t Count(const std::string& sql) const {
      int64_t count = -1;
      const auto add = [&](const std::vector<Json>& row) {
        count = row[0].get<int64_t>();
        return absl::OkStatus();
      };
      EXPECT_TRUE(
          db::RunQuery(options.database_path, sql, {.start = [](const auto&) { return absl::OkStatus(); }, .add = add})
              .ok());
      return count;
    }

    // The device fails permanently after a quarter of the calls that the job makes on one device alone.
    void FailInTheMiddle(int device) {
      static const int calls = [] {
        const Run& whole = OnOne();
        return whole.machine.devices[0]->calls["Synchronize"] - whole.calls_of_load;
      }();
      machine.devices[device]->failures["Synchronize"] = {kCudaIllegalAddress, calls / 4};
    }

    TemporaryDirectory directory;
    Machine machine;
    ModelHost host;
    JobManagerOptions options;
    int calls_of_load = 0;
    std::unique_ptr<JobManager> manager;
  };

  static Run& OnOne() {
    static auto& run = *new Run(1);
    static const bool done = run.Submit().row.state == db::JobState::kSucceeded;
    EXPECT_TRUE(done);
    return run;
  }
  static void ExpectSameRows(const Run& run) {
    ASSIGN_OR_FAIL(const auto diff, db::DiffDatabases(OnOne().options.database_path, run.options.database_path));
    EXPECT_EQ(diff.row_count_a, kAnswers * kMetrics);
    EXPECT_EQ(diff.row_count_b, kAnswers * kMetrics);
    EXPECT_EQ(diff.difference_count, 0);
    EXPECT_EQ(run.Count("SELECT count(*) FROM generations"), kAnswers) << "each answer is recorded once";
  }
};

TEST_F(CudaCopiesJobTest, SameRowsOnTwoAndThreeDevices) {
  for (const int count : {2, 3}) {
    Run run(count);
    const JobView view = run.Submit();
    EXPECT_EQ(view.row.state, db::JobState::kSucceeded) << view.row.error;
    ExpectSameRows(run);
    for (const EngineCopy& copy : (*run.host.Find("a"))->engine->Copies())
      EXPECT_GT(copy.engine->Status().requests_done, 0) << copy.device << " had no request";
    EXPECT_EQ(run.Count("SELECT count(*) FROM executions WHERE device LIKE '% x emulated device (cuda:0, cuda:1%'"), 1);
    ASSIGN_OR_FAIL(const auto spec, FromCanonicalJson(view.row.spec_json));
    EXPECT_EQ(spec.in_flight, 8 * count) << "concurrent samples grow with the copies";
  }
}

TEST_F(CudaCopiesJobTest, ADeviceThatFailsInTheMiddleChangesNoRow) {
  Run run(2);
  run.FailInTheMiddle(1);
  const JobView view = run.Submit();
  EXPECT_EQ(view.row.state, db::JobState::kSucceeded) << view.row.error;
  EXPECT_EQ(view.row.failed_count, 0);
  const std::vector<EngineCopy> copies = (*run.host.Find("a"))->engine->Copies();
  EXPECT_FALSE(copies[1].engine->Fault().ok()) << "the device has not failed";
  EXPECT_GT(copies[1].engine->Status().requests_done, 0);
  ExpectSameRows(run);
  EXPECT_GT(run.Count("SELECT count(*) FROM generations WHERE attempt_count = 2"), 0);
}

// The job fails and none of its samples; on another set of devices it is continued without being mixed.
TEST_F(CudaCopiesJobTest, AJobThatLostAllDevicesIsContinuedOnOthers) {
  Run run(2);
  for (const int device : {0, 1}) run.FailInTheMiddle(device);
  const JobView lost = run.Submit();
  EXPECT_EQ(lost.row.state, db::JobState::kFailed);
  EXPECT_EQ(lost.row.failed_count, 0);
  EXPECT_LT(lost.row.answered_count, kAnswers);
  EXPECT_THAT(lost.row.error, HasSubstr("2 copies are"));
  run.manager.reset();
  const Machine other(3);
  ModelHost host(other.Factory(16 << 20));
  ASSERT_TRUE(host.Load("a", kBaseline).ok());
  ASSIGN_OR_FAIL(auto manager, JobManager::Create(&host, run.options));
  manager->Start();
  ASSERT_TRUE(manager->Resume(lost.row.job_id, /*allow_mixed=*/false).ok());
  const JobView view = WaitForJob(*manager, lost.row.job_id,
                                  [](const JobView& job) { return job.row.state == db::JobState::kSucceeded; });
  EXPECT_EQ(view.row.answered_count, kAnswers);
  EXPECT_FALSE(view.row.is_mixed);
  ExpectSameRows(run);
}

}  // namespace
}  // namespace varifocal
