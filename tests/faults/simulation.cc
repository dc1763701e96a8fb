#include "tests/faults/simulation.h"

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "db/sqlite/database.h"
#include "db/sqlite/fault_injection.h"
#include "tests/fakes/fake_engine.h"
#include "tests/faults/fault_scenario.h"

namespace varifocal {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kDayUs = 86'400 * kSecondUs;
constexpr int64_t kEventsUs = 20 * kSecondUs;   // clients' calls and faults are within this time
constexpr int64_t kJanitorUs = 30 * kSecondUs;  // longer than the longest pause between attempts
constexpr int kJanitorRoundsMax = 60;
constexpr int kSampleCount = 3;
constexpr int64_t kDataSeeds = 3;

JobSpec SpecOf(int64_t data_seed) {
  JobSpec spec;
  spec.suite.name = "simulated";
  spec.suite.seed = data_seed;
  spec.suite.lengths = {256};
  spec.suite.samples = kSampleCount;
  spec.suite.tasks = {{.kind = "recall_kv"}};
  spec.variants = {{"a", {}}};
  spec.in_flight = 2;
  return spec;
}

// The stored rows of a job that have an answer, as text.
absl::StatusOr<std::set<std::string>> RowsOf(const std::string& path, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(path));
  ASSIGN_OR_RETURN(const std::vector<db::SampleDetail> samples, reader->Samples({.job_id = job_id}));
  std::set<std::string> rows;
  for (const db::SampleDetail& sample : samples) {
    if (!sample.generation.error_code.empty()) continue;
    std::string row = absl::StrCat(sample.sample.sample_index, " ", sample.sample.token_ids_sha256.value_or(""), " ",
                                   sample.generation.answer_raw.value_or(""));
    for (const db::ScoreRecord& score : sample.scores) absl::StrAppend(&row, " ", score.metric, "=", score.value);
    if (!rows.insert(row).second) return absl::DataLossError(absl::StrCat("stored twice: ", row));
  }
  return rows;
}

// Releases a mutex and takes it again, also when an event throws.
class VF_THREAD_ATTRIBUTE(scoped_lockable) Unlocked {
 public:
  explicit Unlocked(Mutex& mutex) VF_THREAD_ATTRIBUTE(release_capability(mutex)) : mutex_(mutex) { mutex_.Unlock(); }
  ~Unlocked() VF_THREAD_ATTRIBUTE(release_capability()) { mutex_.Lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace

bool SimulatedClock::Wait(CondVar&, Mutex& mutex, int64_t us, const std::function<bool()>& is_done) const {
  const int64_t due_us = now_us_ + us;
  while (!is_done()) {
    if (events_.empty() && on_stuck) {
      {
        const Unlocked unlocked(mutex);
        on_stuck();
      }
      if (is_done()) return true;
    }
    if (events_.empty() || events_.top().time_us > due_us) {
      now_us_ = due_us;
      return false;
    }
    const Event event = events_.top();
    events_.pop();
    now_us_ = std::max(now_us_, event.time_us);
    const Unlocked unlocked(mutex);
    event.run();
  }
  return true;
}

// One run.
class Simulation::World {
 public:
  World(const SimulationOptions& options, Random random, const std::string& path, ModelHost* host,
        const std::map<int64_t, std::set<std::string>>& expected)
      : options_(options), random_(std::move(random)), path_(path), host_(host), expected_(expected) {
    clock_.on_stuck = [this] {
      Violated("nothing can happen any more: a callback is missing");
      throw std::runtime_error("the simulation is stuck");
    };
  }

  SimulationResult Run() {
    ScheduleEvents();
    do {
      is_crashed_ = false;
      Start();
      if (manager_ == nullptr) break;
      manager_->RunJobs();
      manager_.reset();
      if (is_crashed_) RestoreCrashImage();
    } while (is_crashed_ && result_.violation.empty());
    EndFaults();
    if (result_.violation.empty()) CheckEnd();
    return result_;
  }

  // Called by the engine: when and how a request ends.
  void Answer(int64_t handle, EngineRequest request, std::function<void(absl::StatusOr<EngineResult>)> on_done) {
    absl::StatusOr<EngineResult> answer = FakeAnswer(request);
    if (options_.planted == PlantedBug::kAnswerChangesOnRetry && !asked_.insert(request.id).second) answer->text += "!";
    if (!is_calm_ && random_.Uniform() < options_.engine_error_share) {
      const absl::Status errors[] = {
          absl::UnavailableError("a simulated device is busy"),
          WithReason(absl::ResourceExhaustedError("a simulated cache is full"), ErrorReason::kQueueFull),
          absl::InternalError("a simulated step failed"), absl::CancelledError("a simulated cancellation")};
      answer = errors[random_.Below(4)];
    }
    if (options_.planted == PlantedBug::kAnswerIsNeverDelivered && random_.Below(8) == 0) return;
    active_[handle] = std::move(on_done);
    const int64_t after_us = 1000 + random_.Below(kSecondUs);
    clock_.After(after_us, [this, handle, answer = std::move(answer)] { End(handle, answer); });
  }
  void Cancel(int64_t handle) {
    clock_.After(1000, [this, handle] { End(handle, absl::CancelledError("the request was cancelled")); });
  }
  int64_t NextHandle() { return ++last_handle_; }

 private:
  void Violated(const std::string& what) {
    if (result_.violation.empty())
      result_.violation = absl::StrCat(what, " (at ", clock_.MonotonicMicros() / 1e6, " s)");
  }

  void End(int64_t handle, absl::StatusOr<EngineResult> answer) {
    const auto found = active_.find(handle);
    if (found == active_.end()) return;  // it ended before
    const auto on_done = std::move(found->second);
    active_.erase(found);
    ++result_.answer_count;
    on_done(std::move(answer));
  }

  void Start() {
    JobManagerOptions options;
    options.database_path = path_;
    options.in_flight = 2;
    options.busy_timeout_ms = 0;
    options.clock = &clock_;
    auto manager = JobManager::Create(host_, options);
    if (!manager.ok()) {  // as a supervisor does: again, once the disk works
      EndFaults();
      manager = JobManager::Create(host_, options);
    }
    if (!manager.ok()) return Violated(absl::StrCat("no start: ", manager.status().ToString()));
    manager_ = *std::move(manager);
  }

  int64_t SomeTime() { return random_.Below(kEventsUs); }

  void ScheduleEvents() {
    clock_.After(0, [this] { Submit(); });
    for (int i = 1; i < options_.event_count; ++i) clock_.After(SomeTime(), [this] { CallOfAClient(); });
    for (uint64_t i = random_.Below(options_.crash_count_max + 1); i > 0; --i)
      clock_.After(SomeTime(), [this] { Crash(); });
    for (uint64_t i = random_.Below(options_.disk_fault_count_max + 1); i > 0; --i) {
      const int64_t begin_us = SomeTime();
      clock_.After(begin_us, [this] { BeginDiskFault(); });
      clock_.After(begin_us + SomeTime() / 2, [this] { EndFaults(); });
    }
    for (uint64_t i = random_.Below(options_.lock_count_max + 1); i > 0; --i) {
      const int64_t begin_us = SomeTime();
      clock_.After(begin_us, [this] { BeginLock(); });
      clock_.After(begin_us + SomeTime() / 2, [this] { EndLock(); });
    }
    for (int i = 0; i < options_.clock_jump_count; ++i)
      clock_.After(SomeTime(), [this] { clock_.JumpWall(random_.Below(2 * kDayUs) - kDayUs); });
    for (int64_t at_us = kSecondUs; at_us < kEventsUs; at_us += kSecondUs) clock_.After(at_us, [this] { Look(); });
    clock_.After(kEventsUs * 3 / 2, [this] {
      is_calm_ = true;
      EndFaults();
      Janitor();
    });
  }

  void CallOfAClient() {
    if (is_crashed_) return;
    switch (random_.Below(4)) {
      case 0:
        return Submit();
      case 1:
        if (!jobs_.empty()) (void)manager_->Cancel(SomeJob());
        return;
      case 2:
        if (!jobs_.empty()) (void)manager_->Resume(SomeJob(), /*allow_mixed=*/false);
        return;
      default:
        // Both may be refused: a model in use stays.
        if (manager_->UnloadModel("a").ok()) VF_CHECK(host_->Load("a", "fake").ok());
    }
  }

  int64_t SomeJob() {
    auto job = jobs_.begin();
    std::advance(job, random_.Below(jobs_.size()));
    return job->first;
  }

  // Half of the calls repeat a request id.
  void Submit() {
    if (is_crashed_) return;
    const int64_t data_seed = 1 + random_.Below(kDataSeeds);
    const std::string request_id = absl::StrCat("request ", data_seed, " ", random_.Below(2));
    const auto view =
        manager_->Submit(SpecOf(data_seed), {.request_id = request_id, .body_sha256 = absl::StrCat(data_seed)});
    if (!view.ok()) return;
    const int64_t job_id = view->row.job_id;
    const auto [known, is_new] = requests_.try_emplace(request_id, job_id);
    if (!is_new && known->second != job_id)
      Violated(absl::StrCat("the request of job ", known->second, " made job ", job_id));
    jobs_.try_emplace(job_id, Seen{data_seed});
  }

  // What a client that polls sees must never go back.
  void Look() {
    if (is_crashed_) return;
    for (auto& [job_id, seen] : jobs_) {
      const auto view = manager_->Get(job_id, /*with_cells=*/false);
      if (!view.ok()) {
        // The disk of the simulation may refuse reading; a job that is not there is lost.
        if (absl::IsNotFound(view.status())) Violated(view.status().ToString());
        continue;
      }
      const db::JobRow& row = view->row;
      if (row.answered_count < seen.answered_count)
        Violated(absl::StrCat("job ", job_id, " had ", seen.answered_count, " answers and has ", row.answered_count));
      seen.answered_count = row.answered_count;
      if (row.end_us.has_value() && row.start_us.has_value() && *row.end_us < *row.start_us)
        Violated(absl::StrCat("job ", job_id, " ended before it started"));
      if (view->elapsed_seconds < 0 || view->elapsed_seconds > 1000)
        Violated(absl::StrCat("job ", job_id, " has run for ", view->elapsed_seconds, " s"));
      result_.pause_count += !view->paused_reason.empty() && !seen.is_paused;
      seen.is_paused = !view->paused_reason.empty();
    }
  }

  void BeginDiskFault() {
    if (is_crashed_) return;
    switch (random_.Below(3)) {
      case 0:
        return sqlite::SetDiskQuota(random_.Below(8192));
      case 1:
        return sqlite::ArmFault(sqlite::FaultKind::kDiskFull, 1 + random_.Below(20), true);
      default:
        return sqlite::ArmFault(sqlite::FaultKind::kInputOutput, 1 + random_.Below(100), random_.Coin());
    }
  }

  void EndFaults() {
    sqlite::DisarmFaults();
    sqlite::SetDiskQuota(-1);
    EndLock();
  }

  // As another process in the middle of a write, or of a report.
  void BeginLock() {
    if (is_crashed_ || other_ != nullptr) return;
    auto other = sqlite::Database::Open(path_, {.busy_timeout_ms = 0});
    if (!other.ok()) return;
    const auto kind = random_.Coin() ? sqlite::Transaction::Kind::kWrite : sqlite::Transaction::Kind::kRead;
    auto lock = sqlite::Transaction::Begin(**other, kind);
    if (!lock.ok()) return;
    if (kind == sqlite::Transaction::Kind::kRead) (void)(*other)->QueryInt("SELECT count(*) FROM jobs");
    other_ = *std::move(other);
    lock_.emplace(*std::move(lock));
  }
  void EndLock() {
    lock_.reset();
    other_.reset();
  }

  // The process ends here; what was written stays. The manager's own end is not part of the image.
  void Crash() {
    if (is_crashed_ || manager_ == nullptr) return;
    ++result_.crash_count;
    image_.clear();
    for (const char* suffix : {"", "-wal"}) image_[suffix] = ReadFile(path_ + suffix);
    is_crashed_ = true;
    manager_->Stop();
  }

  void RestoreCrashImage() {
    EndLock();
    RemoveDatabase(path_);
    for (const auto& [suffix, bytes] : image_) {
      if (suffix.empty() || !bytes.empty()) WriteFile(path_ + suffix, bytes);
    }
    if (options_.planted != PlantedBug::kCrashLosesASample) return;
    EndFaults();
    auto database = *sqlite::Database::Open(path_, {});
    VF_CHECK(database->Execute("DELETE FROM scores; DELETE FROM generations").ok());
  }

  // After the last fault: resumes what did not succeed, and ends the run when everything has.
  void Janitor() {
    if (is_crashed_) return clock_.After(kJanitorUs, [this] { Janitor(); });
    Look();
    bool is_over = true;
    for (const auto& [job_id, seen] : jobs_) {
      const auto view = manager_->Get(job_id, /*with_cells=*/false);
      if (!view.ok()) return StopWith(absl::StrCat("job ", job_id, ": ", view.status().ToString()));
      const db::JobRow& row = view->row;
      if (row.state == db::JobState::kSucceeded && row.answered_count == row.planned_count) continue;
      is_over = false;
      if (!db::IsSettled(row.state)) continue;
      const absl::Status resumed = manager_->Resume(job_id, /*allow_mixed=*/false).status();
      if (!resumed.ok()) return StopWith(absl::StrCat("job ", job_id, " cannot be resumed: ", resumed.ToString()));
    }
    if (is_over) return manager_->Stop();
    if (++janitor_rounds_ >= kJanitorRoundsMax) return StopWith("the jobs do not come to an end");
    clock_.After(kJanitorUs, [this] { Janitor(); });
  }

  void StopWith(const std::string& violation) {
    Violated(violation);
    manager_->Stop();
  }

  void CheckEnd() {
    result_.job_count = jobs_.size();
    auto database = sqlite::Database::Open(path_, {.read_only = true});
    if (!database.ok()) return Violated(database.status().ToString());
    const absl::Status clean = (*database)->FullCheck();
    if (!clean.ok()) return Violated(clean.ToString());
    for (const auto& [job_id, seen] : jobs_) {
      const auto rows = RowsOf(path_, job_id);
      if (!rows.ok()) return Violated(rows.status().ToString());
      const auto expected = expected_.find(seen.data_seed);
      if (expected != expected_.end() && *rows != expected->second)
        Violated(absl::StrCat("job ", job_id, " has other answers than an undisturbed one"));
    }
  }

  struct Seen {
    int64_t data_seed = 0;
    int64_t answered_count = 0;
    bool is_paused = false;
  };

  const SimulationOptions options_;
  Random random_;
  const std::string path_;
  ModelHost* const host_;
  const std::map<int64_t, std::set<std::string>>& expected_;
  SimulatedClock clock_;
  std::unique_ptr<JobManager> manager_;
  std::unique_ptr<sqlite::Database> other_;
  std::optional<sqlite::Transaction> lock_;
  std::map<int64_t, Seen> jobs_;
  std::map<std::string, int64_t> requests_;
  std::map<std::string, std::string> image_;  // of the files at the crash, by suffix
  std::map<int64_t, std::function<void(absl::StatusOr<EngineResult>)>> active_;
  std::set<std::string> asked_;
  int64_t last_handle_ = 0;
  int janitor_rounds_ = 0;
  bool is_crashed_ = false;
  bool is_calm_ = false;
  SimulationResult result_;
};

class Simulation::SimulatedEngine : public Engine {
 public:
  explicit SimulatedEngine(Simulation* simulation) : simulation_(simulation) {}

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override {
    const Handle handle = simulation_->world_->NextHandle();
    simulation_->world_->Answer(handle, std::move(request), std::move(callbacks.on_done));
    return handle;
  }
  void Cancel(Handle handle) override { simulation_->world_->Cancel(handle); }
  const LoadedModel& model() const override {
    VF_CHECK(false, "a simulated engine has no model");
    __builtin_unreachable();
  }
  EngineDescription Describe() const override {
    EngineDescription description;
    description.page_count = 32;
    description.context_tokens_max = 4096;
    description.kv_cache_bytes = int64_t{1} << 30;
    return description;
  }
  EngineStatus Status() const override { return {}; }
  absl::StatusOr<EngineEstimate> Estimate(int64_t, int64_t, int64_t) override { return EngineEstimate{}; }
  void DropPrefixCache() override {}
  absl::Status Fault() const override { return absl::OkStatus(); }

 private:
  Simulation* const simulation_;
};

Simulation::Simulation() {
  // Thousands of faults are logged as errors that are expected; GoogleTest writes to standard output.
  VF_CHECK(std::freopen("/dev/null", "a", stderr) != nullptr);
  InstallFaultInjectionOnce();
  host_ = std::make_unique<ModelHost>(MakeFakeModelFactory(
      std::make_shared<FakeEngineControl>(),
      [this](const std::string&) -> std::unique_ptr<Engine> { return std::make_unique<SimulatedEngine>(this); }));
  VF_CHECK(host_->Load("a", "fake").ok());
  const std::string path = directory_.File("empty.db");
  VF_CHECK(db::Writer::Open(path).ok());
  empty_database_ = ReadFile(path);
  // What undisturbed jobs store.
  for (int64_t data_seed = 1; data_seed <= kDataSeeds; ++data_seed) {
    for (uint64_t attempt = 0; !expected_.contains(data_seed); ++attempt) {
      const SimulationOptions calm = {.event_count = 1,
                                      .crash_count_max = 0,
                                      .engine_error_share = 0,
                                      .disk_fault_count_max = 0,
                                      .clock_jump_count = 0};
      const SimulationResult result = Run(calm, Random(absl::StrCat("undisturbed ", data_seed, " ", attempt)));
      VF_CHECK(result.violation.empty() && result.job_count == 1);
      auto reader = *db::Reader::Open(directory_.File("results.db"));
      if (reader->Job(1)->data_seed != data_seed) continue;
      expected_[data_seed] = *RowsOf(directory_.File("results.db"), 1);
      VF_CHECK(expected_[data_seed].size() == kSampleCount);
    }
  }
}

Simulation::~Simulation() = default;

SimulationResult Simulation::Run(const SimulationOptions& options, Random random) {
  const std::string path = directory_.File("results.db");
  RemoveDatabase(path);
  WriteFile(path, empty_database_);
  World world(options, std::move(random), path, host_.get(), expected_);
  world_ = &world;
  return world.Run();
}

}  // namespace varifocal
