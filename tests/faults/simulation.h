// A deterministic simulation of the job manager: one thread, simulated time, a simulated engine, and a real database whose
// files may be full, locked or lost at a crash.
//
// A run is a list of events at random times: calls of clients, faults of the engine and of the disk, jumps of the wall
// clock, crashes. While the manager waits, the clock runs the next events (SimulatedClock::Wait), so that one seed always
// gives one order of everything. After the last event all faults end; then every job must reach its end, with no sample
// lost or doubled, and with the answers of an undisturbed run.
//
// Threads: one per process (the failing VFS is of the process).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_manager.h"
#include "tests/support/process.h"

namespace varifocal {

// Runs events in the order of their times, then of their creation.
class SimulatedClock : public Clock {
 public:
  int64_t WallMicros() const override { return wall_offset_us_ + now_us_; }
  int64_t MonotonicMicros() const override { return now_us_; }
  // Runs due events with the lock released. Without events it calls `on_stuck` when the wait can only end by its time.
  bool Wait(CondVar& changed, Mutex& mutex, int64_t us, const std::function<bool()>& is_done) const override
      VF_REQUIRES(mutex);

  void After(int64_t us, std::function<void()> event) {
    events_.push({now_us_ + us, ++event_count_, std::move(event)});
  }
  void JumpWall(int64_t us) { wall_offset_us_ += us; }
  std::function<void()> on_stuck;

 private:
  struct Event {
    int64_t time_us;
    int64_t number;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return time_us != other.time_us ? time_us > other.time_us : number > other.number;
    }
  };
  int64_t wall_offset_us_ = 1'700'000'000'000'000;
  mutable int64_t now_us_ = 0;
  int64_t event_count_ = 0;
  mutable std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

// Defects of the simulated surroundings that the checks must find.
enum class PlantedBug {
  kNone,
  kCrashLosesASample,      // a committed sample is gone after a crash
  kAnswerChangesOnRetry,   // an answer depends on how often it was asked for
  kAnswerIsNeverDelivered  // a request ends without its callback
};

struct SimulationOptions {
  int event_count = 8;  // clients' calls
  int crash_count_max = 2;
  double engine_error_share = 0.1;
  int disk_fault_count_max = 2;  // periods in which the disk is full or has errors
  int lock_count_max = 0;    // periods in which another connection writes or reads; slow, as SQLite waits in real time
  int clock_jump_count = 1;  // of up to a day
  PlantedBug planted = PlantedBug::kNone;
};

// What a run did, and the first violation of an invariant, or "".
struct SimulationResult {
  std::string violation;
  int job_count = 0;
  int crash_count = 0;
  int pause_count = 0;   // distinct pauses seen
  int answer_count = 0;  // requests that the engine answered
};

class Simulation {
 public:
  Simulation();
  ~Simulation();
  SimulationResult Run(const SimulationOptions& options, Random random);

 private:
  class World;
  class SimulatedEngine;

  TemporaryDirectory directory_;
  std::string empty_database_;  // bytes of a new database
  World* world_ = nullptr;      // of the current run; the engines refer to it
  std::unique_ptr<ModelHost> host_;
  std::map<int64_t, std::set<std::string>> expected_;  // by data seed: the rows of an undisturbed job
};

}  // namespace varifocal
