// A finished job of a million samples: how fast it is written, and what `compare`, `report` and the dashboard cost on it.
//
//   long_job_bench [SAMPLES=1000000] [DIRECTORY]
//
// A sample is an answer of one variant, as a job counts them: 2 variants x 5 tasks x 5 lengths. Texts have the sizes of the `quick`
// suite's rows, where an excerpt has 3.4 KB. Samples are committed as by a running job, those that ended together in one
// transaction. The database stays in DIRECTORY (a temporary one, removed, unless given) and is used again when it is there.
// Programs are those beside this one; their wall time, CPU time and peak memory are the operating system's. The interval of
// `compare` is checked against the differences that were written.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/json.h"
#include "base/random.h"
#include "bench/usage.h"
#include "db/writer.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

constexpr int64_t kVariants = 2, kTasks = 5, kLengths = 5, kQuestionsPerContext = 4;
constexpr int64_t kCells = kVariants * kTasks * kLengths;
constexpr double kBaselineShare = 0.6, kDifference = 0.02;  // of right answers, and what the candidate adds

db::NewJob Job(int64_t samples_per_cell) {
  db::NewJob job;
  job.suite = "long_job";
  job.spec_json = "{}";
  for (const char* name : {"baseline", "focal"}) {
    db::VariantRecord variant;
    variant.name = name;
    variant.model = {name, "llama", Sha256Hex(name), Sha256Hex("tokenizer"), "bf16", "{}", 32768, 32768};
    job.variants.push_back(variant);
  }
  for (int64_t task = 0; task < kTasks; ++task) {
    for (int64_t length = 2048; length <= 32768; length *= 2) {
      for (const db::VariantRecord& variant : job.variants)
        job.cells.push_back({variant.name, absl::StrCat("task_", task), length, samples_per_cell});
    }
    job.metrics.push_back({absl::StrCat("task_", task), "exact_match", 0, true, 0.0, 1.0});
    job.metrics.push_back({absl::StrCat("task_", task), "token_f1", 1, false, 0.0, 1.0});
  }
  return job;
}

std::string Words(Random& random, size_t byte_count) {
  static const char* const kWords[] = {"the ", "context ", "of ", "seven ", "harbour ", "question ", "and ", "amber "};
  std::string text;
  while (text.size() < byte_count) text += kWords[random.Below(8)];
  text.resize(byte_count);
  return text;
}

db::Outcome MakeOutcome(const db::CellRow& row, int64_t execution_id, int64_t index) {
  const db::CellRecord& cell = row.cell;
  const std::string place = absl::StrCat(cell.task, "/", cell.context_length, "/");
  Random of_question(absl::StrCat(place, index)), of_context(absl::StrCat(place, "c", index / kQuestionsPerContext));
  Random of_answer(absl::StrCat(place, index, cell.variant));
  db::Outcome outcome{
      .cell_id = row.cell_id, .execution_id = execution_id, .sample = {}, .generation = {}, .scores = {}};
  db::SampleRecord& sample = outcome.sample;
  sample.task = cell.task;
  sample.context_length = cell.context_length;
  sample.sample_index = index;
  sample.tokenizer_sha256 = Sha256Hex("tokenizer");
  sample.question_id = absl::StrCat(cell.task, "/", index, "/", of_question.Below(90'000'000) + 10'000'000);
  sample.cluster = absl::StrCat(cell.task, "/g", index / kQuestionsPerContext, "/", of_context.Below(1'000'000'000));
  sample.token_ids_sha256 = Sha256Hex(sample.question_id);
  sample.prompt_token_count = cell.context_length - 50;
  sample.new_token_count_max = 48;
  sample.gold_json = Json{Words(of_question, 12)}.dump();
  const int64_t token = of_question.Below(*sample.prompt_token_count);
  sample.evidence_json =
      Json{{{"byte_begin", 4 * token}, {"byte_end", 4 * token + 20}, {"token_begin", token}, {"token_end", token + 6}}}
          .dump();
  sample.excerpt = Words(of_question, 2800 + of_question.Below(1200));
  db::GenerationRecord& generation = outcome.generation;
  generation.finish_reason = "stop";
  generation.answer_raw = Words(of_answer, 40);
  generation.answer = Words(of_answer, 24);
  generation.new_token_count = 10;
  generation.cached_token_count = index % kQuestionsPerContext == 0 ? 0 : cell.context_length - 256;
  generation.prefill_us = 100 * cell.context_length;
  generation.decode_us = 200'000;
  // Contexts differ in difficulty, the variants by a constant.
  const double share =
      kBaselineShare + 0.4 * (of_context.Uniform() - 0.5) + (cell.variant == "focal" ? kDifference : 0);
  const double value = of_answer.Uniform() < share ? 1 : 0;
  outcome.scores = {{"exact_match", value}, {"token_f1", value > 0 ? 1 : of_answer.Uniform() / 2}};
  return outcome;
}

double Mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Prints the rate of one part of the job, in transactions of `batch` samples as they come from that many requests in flight.
class BatchWriter {
 public:
  explicit BatchWriter(const std::string& path) : path_(path), writer_(*db::Writer::Open(path)) {
    std::printf("%12s %6s %10s %10s %10s\n", "samples", "batch", "rows/s", "CPU us/row", "file MiB");
  }
  db::Writer& writer() { return *writer_; }

  void Add(db::Outcome outcome) {
    // The first rows show what a commit costs; the rest are written as with the default --in-flight.
    static constexpr std::pair<int64_t, size_t> kParts[] = {{1000, 1}, {5000, 8}};
    size_t batch = 64;
    for (const auto& [end, size] : kParts) {
      if (count_ < end) batch = std::min(batch, size);
    }
    pending_.push_back(std::move(outcome));
    ++count_;
    if (pending_.size() >= batch) Commit();
    for (const auto& [end, size] : kParts) {
      if (count_ == end) Print(size);
    }
    if (count_ % 100'000 == 0) Print(batch);
  }
  void Finish() {
    Commit();
    if (count_ > printed_count_) Print(64);
    VF_CHECK(writer_->Checkpoint().ok());
  }

 private:
  void Commit() {
    if (pending_.empty()) return;
    const Stopwatch watch;
    VF_CHECK(writer_->RecordSamples(pending_).ok());
    const Cost cost = watch.Read();
    cost_.seconds += cost.seconds;
    cost_.cpu_seconds += cost.cpu_seconds;
    pending_.clear();
  }
  void Print(size_t batch) {
    const double rows = count_ - printed_count_;
    absl::PrintF("%12d %6zu %10.0f %10.1f %10.0f\n", count_, batch, rows / cost_.seconds,
                 1e6 * cost_.cpu_seconds / rows, Mebibytes(std::filesystem::file_size(path_)));
    std::fflush(stdout);
    printed_count_ = count_;
    cost_ = {};
  }

  const std::string path_;
  std::unique_ptr<db::Writer> writer_;
  std::vector<db::Outcome> pending_;
  int64_t count_ = 0, printed_count_ = 0;
  Cost cost_;
};

void WriteJob(const std::string& path, int64_t sample_count) {
  BatchWriter batches(path);
  db::Writer& writer = batches.writer();
  const int64_t per_cell = sample_count / kCells;
  const int64_t execution_id = *writer.AddExecution({"bench", "cpu", "avx2", "a processor", "here", 1, "bench"});
  const int64_t job_id = writer.AddJob(Job(per_cell))->job_id;
  VF_CHECK(writer.SetJobState(job_id, db::JobState::kRunning).ok());
  const std::vector<db::CellRow> cells = *writer.Cells(job_id);
  for (size_t first = 0; first < cells.size(); first += kVariants) {
    for (int64_t i = 0; i < per_cell; ++i) {
      for (int64_t v = 0; v < kVariants; ++v) batches.Add(MakeOutcome(cells[first + v], execution_id, i));
    }
  }
  batches.Finish();
  VF_CHECK(writer.SetJobState(job_id, db::JobState::kSucceeded).ok());
}

void PrintHead() { std::printf("\n%-34s %9s %9s %9s %9s\n", "", "seconds", "CPU s", "peak MiB", "bytes MiB"); }

void PrintRow(const std::string& name, Cost cost, int64_t peak_bytes, int64_t output_bytes) {
  std::printf("%-34s %9.2f %9.2f %9.0f %9.2f\n", name.c_str(), cost.seconds, cost.cpu_seconds, Mebibytes(peak_bytes),
              Mebibytes(output_bytes));
  std::fflush(stdout);
}

// Starts `varifocal` with its standard output in a file.
pid_t Start(const std::vector<std::string>& arguments, const std::string& output) {
  const std::string program = ProgramPath("varifocal");
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  VF_CHECK(pid > 0);
  return pid;
}

// Prints the cost of one command; the file that it writes is `output`.
void Run(const std::string& name, const std::vector<std::string>& arguments, const std::string& output) {
  const Stopwatch watch;
  const pid_t pid = Start(arguments, output);
  int status = 0;
  rusage usage{};
  VF_CHECK(wait4(pid, &status, 0, &usage) == pid && status == 0);
  PrintRow(name, {watch.Read().seconds, CpuSeconds(usage)}, usage.ru_maxrss * 1024, std::filesystem::file_size(output));
}

std::string Get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  VF_CHECK(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: 127.0.0.1:", port, "\r\nConnection: close\r\n\r\n");
  VF_CHECK(write(fd, request.data(), request.size()) == std::ssize(request));
  std::string answer;
  char bytes[65536];
  for (ssize_t n = 0; (n = read(fd, bytes, sizeof bytes)) > 0;) answer.append(bytes, n);
  close(fd);
  return answer;
}

void MeasureDashboard(const std::string& database, const std::string& directory) {
  const std::string output = directory + "/dashboard";
  std::filesystem::remove(output);  // of an earlier run
  const pid_t pid = Start({"dashboard", "--db=" + database, "--port=0"}, output);
  std::string url;
  while ((url = ReadFile(output)).find('\n') == std::string::npos) usleep(10'000);
  const int port = std::atoi(url.c_str() + url.rfind(':') + 1);
  for (const char* page : {"/", "/jobs/1", "/jobs/1", "/jobs/1/report", "/jobs/1/report", "/jobs/1/report.csv"}) {
    ResetPeak(pid);
    const double cpu_before = CpuSeconds(pid);
    const Stopwatch watch;
    const std::string answer = Get(port, page);
    const Cost cost = watch.Read();
    VF_CHECK(answer.find("HTTP/1.1 200") == 0);
    PrintRow(absl::StrCat("dashboard ", page), {cost.seconds, CpuSeconds(pid) - cpu_before}, PeakBytes(pid),
             std::ssize(answer));
  }
  kill(pid, SIGTERM);
  waitpid(pid, nullptr, 0);
}

// Whether every interval of exact_match is around the difference that was written, as far as 5 % errors allow.
void CheckComparison(const std::string& json) {
  int64_t count = 0, inside = 0;
  for (const Json& row : Json::parse(json)) {
    if (row["kind"] != "cell" || row["metric"] != "exact_match") continue;
    ++count;
    inside += row["low"] <= kDifference && row["high"] >= kDifference;
  }
  absl::PrintF("\n%d of %d intervals contain the difference that was written\n", inside, count);
  VF_CHECK(count >= kTasks * kLengths && inside * 10 >= count * 7);
}

void Measure(const std::string& database, const std::string& directory) {
  const std::string db = "--db=" + database;
  PrintHead();
  const Stopwatch watch;
  auto writer = *db::Writer::Open(database);  // with SQLite's quick_check, as a daemon opens it
  PrintRow("open for writing", watch.Read(), 0, std::filesystem::file_size(database));
  writer.reset();
  const std::string output = directory + "/out";
  Run("compare", {"compare", db, "--baseline=baseline", "--candidate=focal"}, output);
  for (const char* format : {"html", "csv", "json"})
    Run(absl::StrCat("report --format=", format), {"report", db, "--out=-", absl::StrCat("--format=", format)}, output);
  Run("query of v_scores_by_length", {"query", db, "SELECT * FROM v_scores_by_length"}, output);
  Run("diff with itself", {"diff", database, database}, output);
  MeasureDashboard(database, directory);
  const pid_t pid = Start({"compare", db, "--baseline=baseline", "--candidate=focal", "--format=json"}, output);
  int status = 0;
  VF_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CheckComparison(ReadFile(output));
}

int Main(int64_t sample_count, const std::string& directory) {
  const std::string database = directory + "/long_job.db";
  absl::PrintF("%d samples: %d variants x %d tasks x %d lengths\n", sample_count, kVariants, kTasks, kLengths);
  if (!std::filesystem::exists(database)) WriteJob(database, sample_count);
  Measure(database, directory);
  return 0;
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  const long long samples = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  if (samples < 1000) {
    std::fprintf(stderr, "usage: long_job_bench [SAMPLES, 1000 or more] [DIRECTORY]\n");
    return 2;
  }
  if (argc > 2) {
    std::filesystem::create_directories(argv[2]);
    return varifocal::Main(samples, argv[2]);
  }
  const varifocal::TemporaryDirectory directory;
  return varifocal::Main(samples, directory.path());
}
