// A coordinator over 1, 2 and 4 real worker daemons with the shipped checkpoints: throughput, rows, kills, and the CPU time of the
// coordinator.
//
//   workers_bench [SEED=1] [SAMPLES=144]
//
// First the suite (2 variants x 5 tasks x 2 lengths x SAMPLES) runs in one process, then over the workers, undisturbed and with 20
// kills (SIGKILL) of workers at random instants, which start again at once. Exit 1 when a run's rows differ from those of one process
// in any answer or score, when a row is missing or not named, or when fewer than 20 kills came before the end of the job. Then jobs of
// one length each give the CPU time that the coordinator spends on an answer: prompts, requests, metrics, the database.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "bench/rows.h"
#include "bench/usage.h"

namespace varifocal {
namespace {

constexpr int kKills = 20;
constexpr int kSecondsMax = 1800;

std::vector<std::string> WithModels(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--model=baseline=models/baseline", "--model=focal=models/focal-constant"});
  return arguments;
}

int Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

std::string WriteSuite(const TemporaryDirectory& directory, int sample_count) {
  const std::string path = directory.File("suite.yaml");
  WriteFile(path,
            absl::StrCat("name: workers_bench\nseed: 7\nlengths: [512, 1024]\nsamples: ", sample_count,
                         "\ntasks:\n- kind: recall_kv\n- kind: icl_labels\n- kind: rag_facts\n- kind: longqa_story\n"
                         "- kind: longqa_story\n  name: longqa_choice\n  parameters: {format: multiple_choice}\n"));
  return path;
}

class Workers {
 public:
  explicit Workers(int count) {
    for (int i = 0; i < count; ++i) processes_.push_back(Start(i));
  }
  std::string Addresses() const {
    std::vector<std::string> addresses;
    for (size_t i = 0; i < processes_.size(); ++i) addresses.push_back(absl::StrCat("unix:", Socket(i)));
    return absl::StrJoin(addresses, ",");
  }
  void KillAndStart(size_t index) {
    processes_[index]->Signal(SIGKILL);
    processes_[index]->Wait(10);
    processes_[index] = Start(index);
  }

 private:
  std::string Socket(size_t index) const { return directory_.File(absl::StrCat("w", index)); }
  std::unique_ptr<BackgroundProcess> Start(size_t index) const {
    return std::make_unique<BackgroundProcess>("varifocald",
                                               WithModels({absl::StrCat("--db=", Socket(index), ".db"), "--threads=1",
                                                           absl::StrCat("--listen=unix:", Socket(index))}));
  }
  TemporaryDirectory directory_;
  std::vector<std::unique_ptr<BackgroundProcess>> processes_;
};

struct Run {
  Cost cost;  // of the job; CPU time of the coordinator
  int killed_count = 0;
  int64_t answer_count = 0, named_count = 0, repeated_count = 0;
  std::string hash, error;
};

Run RunJob(int worker_count, int kill_count, const std::string& seed, const std::string& suite,
           const std::vector<std::string>& options = {}) {
  Workers workers(worker_count);
  TemporaryDirectory directory;
  const std::string database = directory.File("all.db");
  DaemonProcess coordinator(WithModels({"--db=" + database, "--workers=" + workers.Addresses()}));
  const std::string address = coordinator.Address();
  Run run;
  if (address.empty()) {
    run.error = absl::StrCat("the coordinator did not start: ", coordinator.Errors());
    return run;
  }
  const double cpu_before = CpuSeconds(coordinator.pid());
  const Stopwatch watch;
  std::vector<std::string> arguments = {"submit", suite, "--daemon=" + address, "--models=baseline,focal", "--wait"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  BackgroundProcess submit("varifocal", arguments);
  Random random(seed);
  for (; run.killed_count < kill_count && submit.IsRunning(); ++run.killed_count) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random.Below(1000)));
    if (!submit.IsRunning()) break;
    workers.KillAndStart(random.Below(worker_count));
  }
  if (const int code = submit.Wait(kSecondsMax); code != 0) {
    run.error = absl::StrCat("submit ended with ", code, ": ", submit.Errors(), coordinator.Errors());
    return run;
  }
  run.cost = {watch.Read().seconds, CpuSeconds(coordinator.pid()) - cpu_before};
  run.answer_count = QueryCount(database, "SELECT count(*) FROM generations WHERE error_code IS NULL");
  run.named_count = QueryCount(database,
                               "SELECT count(*) FROM generations JOIN executions USING (execution_id)"
                               " WHERE device LIKE 'worker%unix:%'");
  run.repeated_count = QueryCount(database, "SELECT sum(attempt_count - 1) FROM generations");
  run.hash = RowsHash(database);
  return run;
}

int Scaling(const std::string& seed, int sample_count) {
  TemporaryDirectory directory;
  const std::string suite = WriteSuite(directory, sample_count), alone_path = directory.File("alone.db");
  const ProcessResult alone =
      RunProcess("varifocal", WithModels({"run", suite, "--db=" + alone_path}), {.seconds_max = kSecondsMax});
  if (alone.exit_code != 0) return Fail(alone.err);
  const std::string hash = RowsHash(alone_path);
  const int64_t answer_count = QueryCount(alone_path, "SELECT count(*) FROM generations WHERE error_code IS NULL");
  absl::PrintF("one process: %d answers, rows %.12s\n\n", answer_count, hash.c_str());
  std::printf("%7s %5s %8s %9s %8s %8s %8s %12s %14s\n", "workers", "kills", "seconds", "answers/s", "speedup",
              "answers", "repeated", "rows", "coordinator");
  double first_seconds = 0;
  int worst = 0;
  for (const int kills : {0, kKills}) {
    for (const int workers : {1, 2, 4}) {
      const Run run = RunJob(workers, kills, absl::StrCat("kills ", seed, " ", workers), suite);
      if (!run.error.empty()) return Fail(run.error);
      if (first_seconds == 0) first_seconds = run.cost.seconds;
      const double answers = run.answer_count;
      absl::PrintF("%7d %5d %8.1f %9.1f %8.2f %8d %8d %12.12s %9.2f ms/a\n", workers, run.killed_count,
                   run.cost.seconds, answers / run.cost.seconds, first_seconds / run.cost.seconds, run.answer_count,
                   run.repeated_count, run.hash.c_str(), 1e3 * run.cost.cpu_seconds / answers);
      std::fflush(stdout);
      const bool is_right = run.hash == hash && run.answer_count == answer_count && run.named_count == answer_count &&
                            run.killed_count == kills;
      if (!is_right) worst = Fail("the rows differ, are not named, or too few kills came in time");
    }
  }
  return worst;
}

int CoordinatorCost(const std::string& seed) {
  std::printf("\n%10s %9s %25s\n", "length", "answers", "coordinator, CPU ms/answer");
  for (const int length : {512, 2048, 8192}) {
    const Run run = RunJob(2, 0, seed, "quick", {absl::StrCat("--lengths=", length), "--limit=12"});
    if (!run.error.empty()) return Fail(run.error);
    absl::PrintF("%10d %9d %25.2f\n", length, run.answer_count, 1e3 * run.cost.cpu_seconds / run.answer_count);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  const std::string seed = argc > 1 ? argv[1] : "1";
  const int samples = argc > 2 ? std::atoi(argv[2]) : 144;
  if (samples < 1) {
    std::fprintf(stderr, "usage: workers_bench [SEED] [SAMPLES], in the repository's root\n");
    return 2;
  }
  const int result = varifocal::Scaling(seed, samples);
  return result != 0 ? result : varifocal::CoordinatorCost(seed);
}
