// A whole job against the engine's own time: one daemon, one model, `varifocal submit SUITE --wait`.
//
//   job_bench [--model=DIRECTORY=models/baseline] [--threads=N] SUITE [flags of submit ..]
//
// Prints the job's wall time, the time in which the engine computed steps (varifocal_engine_step_seconds_total), their ratio, and
// where the processor time went, by thread: the job's (prompts, requests, scores, SQLite), the engine's, the kernels' workers, the
// rest. The job runs twice, the second time with one request at a time; exit 1 when a row is missing or failed, or when the rows
// of the two differ.
#include <httplib.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "bench/rows.h"
#include "bench/usage.h"

namespace varifocal {
namespace {

constexpr int kSecondsMax = 3600;

struct JobCost {
  double command_seconds = 0, job_seconds = 0, step_seconds = 0;
  std::map<std::string, double> cpu_seconds;  // by thread name
  int64_t answer_count = 0, missing_count = 0;
  std::string hash, error;
};

// CPU seconds of a process's threads, summed by name. Threads that have ended are not counted.
std::map<std::string, double> CpuByThread(pid_t pid) {
  std::map<std::string, double> seconds;
  for (const auto& entry : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    const std::string line = ReadFile(entry.path() / "stat");
    const size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos) continue;  // it ended
    const std::vector<std::string> fields = absl::StrSplit(line.substr(close + 2), ' ');
    double user = 0, system = 0;
    VF_CHECK(absl::SimpleAtod(fields[11], &user) && absl::SimpleAtod(fields[12], &system));
    const std::string name = line.substr(open + 1, close - open - 1);
    seconds[absl::StartsWith(name, "vf-") ? name : "other"] += (user + system) / sysconf(_SC_CLK_TCK);
  }
  return seconds;
}

// The sum of a counter over its labels.
double ReadCounter(int port, const std::string& name) {
  httplib::Client client("127.0.0.1", port);
  const httplib::Result result = client.Get("/metrics");
  VF_CHECK(result && result->status == 200);
  double sum = 0, value = 0;
  for (const absl::string_view line : absl::StrSplit(result->body, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    VF_CHECK(absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value));
    sum += value;
  }
  return sum;
}

JobCost RunJob(const std::string& model, const std::string& threads, std::vector<std::string> arguments) {
  JobCost cost;
  TemporaryDirectory directory;
  const std::string database = directory.File("job.db");
  DaemonProcess daemon({"--db=" + database, "--model=model=" + model, "--metrics-listen=127.0.0.1:0", threads});
  const std::string address = daemon.Address();
  if (address.empty()) return {.error = daemon.Errors()};
  constexpr char kUrl[] = "http://127.0.0.1:";
  const std::string log = daemon.Errors();
  const size_t at = log.find(kUrl);
  int port = 0;
  VF_CHECK(at != std::string::npos &&
           absl::SimpleAtoi(log.substr(at + sizeof(kUrl) - 1, log.find('/', at + sizeof(kUrl)) - at - sizeof(kUrl) + 1),
                            &port));
  const auto cpu_before = CpuByThread(daemon.pid());
  const double steps_before = ReadCounter(port, "varifocal_engine_step_seconds_total");
  arguments.insert(arguments.begin(), "submit");
  arguments.insert(arguments.end(), {"--daemon=" + address, "--models=model", "--wait"});
  const Stopwatch watch;
  const ProcessResult result = RunProcess("varifocal", arguments, {.seconds_max = kSecondsMax});
  cost.command_seconds = watch.Read().seconds;
  if (result.exit_code != 0) return {.error = result.err};
  cost.step_seconds = ReadCounter(port, "varifocal_engine_step_seconds_total") - steps_before;
  cost.cpu_seconds = CpuByThread(daemon.pid());
  for (const auto& [name, before] : cpu_before) cost.cpu_seconds[name] -= before;
  cost.job_seconds = 1e-6 * QueryCount(database, "SELECT end_us - start_us FROM jobs");
  cost.answer_count = QueryCount(database, "SELECT count(*) FROM generations WHERE error_code IS NULL");
  cost.missing_count = QueryCount(database, "SELECT sum(planned_count) FROM cells") - cost.answer_count;
  cost.hash = RowsHash(database);
  return cost;
}

int Main(const std::string& model, const std::string& threads, const std::vector<std::string>& arguments) {
  std::string hash;
  std::printf("%9s %8s %8s %10s %8s %8s | CPU seconds: %8s %8s %8s %8s\n", "in flight", "answers", "job s", "steps s",
              "ratio", "rows/h", "job", "engine", "workers", "other");
  for (const bool alone : {false, true}) {
    std::vector<std::string> flags = arguments;
    if (alone) flags.push_back("--in-flight=1");
    const JobCost cost = RunJob(model, threads, flags);
    if (!cost.error.empty()) {
      std::fprintf(stderr, "%s\n", cost.error.c_str());
      return 1;
    }
    const auto cpu = [&](const char* name) {
      const auto found = cost.cpu_seconds.find(name);
      return found == cost.cpu_seconds.end() ? 0.0 : found->second;
    };
    absl::PrintF("%9s %8d %8.2f %10.2f %8.3f %8.0f |              %8.2f %8.2f %8.2f %8.2f\n", alone ? "1" : "default",
                 cost.answer_count, cost.job_seconds, cost.step_seconds, cost.job_seconds / cost.step_seconds,
                 3600 * cost.answer_count / cost.job_seconds, cpu("vf-job"), cpu("vf-engine"), cpu("vf-kernels"),
                 cpu("other"));
    std::fflush(stdout);
    if (hash.empty()) hash = cost.hash;
    if (cost.missing_count != 0 || cost.hash != hash) {
      absl::FPrintF(stderr, "%d rows are missing or failed, or the rows differ\n", cost.missing_count);
      return 1;
    }
  }
  std::printf("command: varifocal submit %s; rows %.12s\n", absl::StrJoin(arguments, " ").c_str(), hash.c_str());
  return 0;
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  std::string model = "models/baseline", threads = "--threads=0";
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--model=")) {
      model = std::string(argument);
    } else if (absl::StartsWith(argument, "--threads=")) {
      threads = std::string(argument);
    } else {
      arguments.emplace_back(argument);
    }
  }
  if (arguments.empty()) {
    std::fprintf(stderr, "usage: job_bench [--model=DIRECTORY] [--threads=N] SUITE [flags of submit ..]\n");
    return 2;
  }
  return varifocal::Main(model, threads, arguments);
}
