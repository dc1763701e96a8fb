#include "server/metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "base/code_version.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"
#include "server/health_monitor.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

// What this process uses, from /proc; 0 where it cannot be read.
struct ProcessUsage {
  int64_t resident_bytes = 0;
  int64_t descriptor_count = 0;
  int64_t descriptors_max = 0;
  int64_t thread_count = 0;
  double cpu_seconds = 0;
};

int64_t CountEntries(const char* directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory), closedir);
  if (open == nullptr) return 0;
  int64_t count = 0;
  while (const dirent* entry = readdir(open.get())) count += entry->d_name[0] != '.';
  return count;
}

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  long resident_pages = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> statm(std::fopen("/proc/self/statm", "r"), std::fclose);
  if (statm != nullptr && std::fscanf(statm.get(), "%*s %ld", &resident_pages) == 1)
    usage.resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  usage.descriptor_count = CountEntries("/proc/self/fd") - 1;  // without the one that reads the directory
  usage.thread_count = CountEntries("/proc/self/task");
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.descriptors_max = limit.rlim_cur;
  rusage used = {};
  if (getrusage(RUSAGE_SELF, &used) == 0) {
    const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
    usage.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  }
  return usage;
}

int64_t FileBytes(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr double kSecondsPerMicro = 1e-6;

double Seconds(int64_t micros) { return micros * kSecondsPerMicro; }

// Families in the order of their first value.
class Families {
 public:
  void Gauge(const char* name, const char* help, Labels labels, double value) {
    Add(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
  }
  void Counter(const char* name, const char* help, Labels labels, double value) {
    Add(name, help, MetricType::Counter, std::move(labels)).counter.value = value;
  }
  void Histogram(const char* name, const char* help, Labels labels, const LatencyCounts& latency) {
    ClientMetric::Histogram& histogram = Add(name, help, MetricType::Histogram, std::move(labels)).histogram;
    for (size_t i = 0; i < latency.counts.size(); ++i) {
      histogram.sample_count += latency.counts[i];
      if (i < kLatencyBoundsSeconds.size())
        histogram.bucket.push_back({histogram.sample_count, kLatencyBoundsSeconds[i]});
    }
    histogram.sample_sum = latency.seconds;
  }
  const std::vector<MetricFamily>& families() const { return families_; }

 private:
  ClientMetric& Add(const char* name, const char* help, MetricType type, Labels labels) {
    const auto [at, is_new] = index_.emplace(name, families_.size());
    if (is_new) families_.push_back({name, help, type, {}});
    std::vector<ClientMetric>& metrics = families_[at->second].metric;
    metrics.emplace_back();
    metrics.back().label = std::move(labels);
    return metrics.back();
  }

  std::vector<MetricFamily> families_;
  std::map<std::string, size_t> index_;
};

// The models of one label: one model, or the sum of those without a label of their own.
struct ModelTotals {
  EngineStatus status;
  int64_t page_count = 0;
  int64_t oldest_wait_us = 0;
  EngineGate::Queue gate;
  bool is_serving = true;
  int serving_copies = 0, lost_copies = 0;

  void Add(const HostedModel& model, const EngineGate::Queue& queue, int64_t now_us) {
    const EngineStatus more = model.engine->Status();
    status.Add(more);
    if (more.oldest_arrival_us >= 0) oldest_wait_us = std::max(oldest_wait_us, now_us - more.oldest_arrival_us);
    page_count += model.engine->Describe().page_count;
    gate.waiting_count += queue.waiting_count;
    gate.oldest_wait_us = std::max(gate.oldest_wait_us, queue.oldest_wait_us);
    is_serving = is_serving && model.engine->Fault().ok();
    for (const EngineCopy& copy : model.engine->Copies()) ++(copy.engine->Fault().ok() ? serving_copies : lost_copies);
  }
};

void AddModel(const std::string& label, const ModelTotals& model, Families& out) {
  const auto with = [&](const char* name, const char* value) { return Labels{{"model", label}, {name, value}}; };
  const Labels only = {{"model", label}};
  const EngineStatus& status = model.status;
  constexpr char kServing[] = "1 unless the model's device has failed or its endpoint is off.";
  out.Gauge("varifocal_model_serving", kServing, only, model.is_serving ? 1 : 0);
  constexpr char kCopies[] = "Copies of the model, one a device; lost: the device has failed.";
  out.Gauge("varifocal_model_copies", kCopies, with("state", "serving"), model.serving_copies);
  out.Gauge("varifocal_model_copies", kCopies, with("state", "lost"), model.lost_copies);

  constexpr char kWaiting[] = "Requests that wait: calls at the gate, requests of calls and jobs in the engine.";
  out.Gauge("varifocal_requests_waiting", kWaiting, with("queue", "gate"), model.gate.waiting_count);
  out.Gauge("varifocal_requests_waiting", kWaiting, with("queue", "engine"), status.queued_count);
  constexpr char kOldest[] = "Age of the first request of the queue.";
  out.Gauge("varifocal_oldest_wait_seconds", kOldest, with("queue", "gate"), Seconds(model.gate.oldest_wait_us));
  out.Gauge("varifocal_oldest_wait_seconds", kOldest, with("queue", "engine"), Seconds(model.oldest_wait_us));
  out.Gauge("varifocal_requests_running", "Requests in the engine's batch.", only, status.running_count);

  constexpr char kRequests[] = "Requests of the engine that ended.";
  const int64_t good = status.requests_done - status.requests_failed - status.requests_cancelled;
  out.Counter("varifocal_requests_total", kRequests, with("outcome", "ok"), good);
  out.Counter("varifocal_requests_total", kRequests, with("outcome", "failed"), status.requests_failed);
  out.Counter("varifocal_requests_total", kRequests, with("outcome", "cancelled"), status.requests_cancelled);

  constexpr char kPrompt[] = "Prompt tokens, computed by prefill or taken from the prefix cache.";
  out.Counter("varifocal_prompt_tokens_total", kPrompt, with("source", "computed"),
              status.prompt_tokens_done - status.cached_tokens);
  out.Counter("varifocal_prompt_tokens_total", kPrompt, with("source", "cached"), status.cached_tokens);
  out.Counter("varifocal_generated_tokens_total", "Tokens generated.", only, status.new_tokens);
  out.Counter("varifocal_engine_steps_total", "Steps of the engine.", only, status.step_count);
  out.Counter("varifocal_engine_step_seconds_total", "Time in these steps.", only, Seconds(status.step_us));
  out.Counter("varifocal_preemptions_total", "Requests that gave up their pages and started again.", only,
              status.preemption_count);

  out.Histogram("varifocal_queue_seconds", "From the arrival of a request at the engine to its first step.", only,
                status.queue_latency);
  out.Histogram("varifocal_prefill_seconds", "From the first step to the end of the prompt and of scoring.", only,
                status.prefill_latency);
  out.Histogram("varifocal_decode_token_seconds", "Time per generated token after the first: the mean of each request.",
                only, status.decode_latency);

  constexpr char kPages[] = "Pages of the KV cache: of running requests, kept for reuse, free.";
  out.Gauge("varifocal_kv_pages", kPages, with("state", "used"), status.pages_used);
  out.Gauge("varifocal_kv_pages", kPages, with("state", "cached"), status.pages_cached);
  out.Gauge("varifocal_kv_pages", kPages, with("state", "free"),
            model.page_count - status.pages_used - status.pages_cached);
}

void AddModels(const MetricsSources& sources, Families& out) {
  const int64_t now_us = sources.clock->MonotonicMicros();
  std::map<std::string, ModelTotals> totals;  // by label
  for (const std::shared_ptr<HostedModel>& model : sources.host->List())
    totals[sources.host->labels().Of(model->name)].Add(*model, sources.gate->QueueOf(model->name), now_us);
  for (const ModelHost::OffModel& model : sources.host->Off())
    totals[sources.host->labels().Of(model.name)].is_serving = false;
  for (const auto& [label, model] : totals) AddModel(label, model, out);
}

void AddJobs(const MetricsSources& sources, Families& out) {
  const int64_t now_us = sources.clock->WallMicros();
  std::map<db::JobState, db::JobStateCount> counts;
  if (const auto states = sources.jobs->CountJobs(); states.ok()) {
    for (const db::JobStateCount& state : *states) counts[state.state] = state;
  }
  constexpr char kJobs[] = "Jobs of the database by state.";
  for (const db::JobState state : {db::JobState::kQueued, db::JobState::kRunning, db::JobState::kCancelling,
                                   db::JobState::kSucceeded, db::JobState::kFailed, db::JobState::kCancelled}) {
    out.Gauge("varifocal_jobs", kJobs, {{"state", db::JobStateName(state)}}, counts[state].job_count);
  }
  const db::JobStateCount& queued = counts[db::JobState::kQueued];
  out.Gauge("varifocal_job_oldest_wait_seconds", "Age of the oldest queued job.", {},
            queued.job_count == 0 ? 0 : std::max(0.0, Seconds(now_us - queued.oldest_create_us)));
  out.Gauge("varifocal_job_paused", "1 while the running job waits for a database that cannot be written.", {},
            sources.jobs->IsPaused() ? 1 : 0);

  std::map<std::string, std::pair<int64_t, int64_t>> by_model;  // answered, failed
  const SampleCounts::Counts samples = sources.jobs->sample_counts().Get();
  for (const auto& [key, count] : samples)
    (key.second.empty() ? by_model[key.first].first : by_model[key.first].second) += count;
  constexpr char kSamples[] = "Samples recorded by this process.";
  for (const auto& [label, counted] : by_model) {
    out.Counter("varifocal_samples_total", kSamples, {{"model", label}, {"outcome", "answered"}}, counted.first);
    out.Counter("varifocal_samples_total", kSamples, {{"model", label}, {"outcome", "failed"}}, counted.second);
  }
  for (const auto& [key, count] : samples) {
    if (key.second.empty()) continue;
    out.Counter("varifocal_sample_errors_total", "Samples recorded as failed, by reason.",
                {{"model", key.first}, {"reason", key.second}}, count);
  }
  constexpr char kBytes[] = "Size of the database and of its write-ahead log.";
  out.Gauge("varifocal_database_bytes", kBytes, {{"file", "database"}}, FileBytes(sources.database_path));
  out.Gauge("varifocal_database_bytes", kBytes, {{"file", "wal"}}, FileBytes(sources.database_path + "-wal"));
}

void AddCalls(const MetricsSources& sources, Families& out) {
  const CallCounts::Counts counts = sources.calls->Get();
  for (const auto& [key, count] : counts.calls) {
    out.Counter("varifocal_calls_total", "Calls that ended, by method and status.",
                {{"method", key.first}, {"code", key.second}}, count);
  }
  for (const auto& [reason, count] : counts.errors) {
    out.Counter("varifocal_call_errors_total", "Calls that ended with an error, by reason.", {{"reason", reason}},
                count);
  }
  const Admission::Use active = sources.admission->Active();
  out.Gauge("varifocal_calls_active", "Calls that count against the limits of docs/limits.md.", {}, active.calls);
  out.Gauge("varifocal_call_bytes_active", "Bytes of their requests.", {}, active.bytes);
  const RpcPools& pools = *sources.pools;
  for (const RpcPool* pool : {&pools.control, &pools.submit, &pools.change, &pools.load, &pools.text}) {
    out.Gauge("varifocal_lane_wait_seconds", "Age of the first call that waits for a thread.", {{"lane", pool->name()}},
              Seconds(pool->WaitMicros()));
  }
  out.Gauge("varifocal_connections", "Open connections of clients.", {}, sources.count_connections());
}

void AddHealth(const MetricsSources& sources, Families& out) {
  const ServiceHealth health = LookAtHealth(*sources.pools, sources.jobs);
  constexpr char kServing[] = "1 while the service serves, as grpc.health.v1 says.";
  const auto add = [&](const std::string& service, bool is_serving) {
    out.Gauge("varifocal_service_serving", kServing, {{"service", service}}, is_serving ? 1 : 0);
  };
  add(v1::Inference::service_full_name(), health.inference.ok());
  add(v1::Evaluation::service_full_name(), health.evaluation.ok());
}

void AddCredentials(const CurrentCredentials& credentials, Families& out) {
  if (const std::shared_ptr<const TlsMaterial> tls = credentials.tls(); tls != nullptr) {
    out.Gauge("varifocal_certificate_expiry_timestamp_seconds", "When the listener's certificate expires.", {},
              tls->not_after_s);
  }
}

// Names as in Prometheus's own client libraries.
void AddProcess(Families& out) {
  const ProcessUsage usage = ReadProcessUsage();
  out.Gauge("process_resident_memory_bytes", "Resident memory.", {}, usage.resident_bytes);
  out.Gauge("process_open_fds", "Open descriptors.", {}, usage.descriptor_count);
  out.Gauge("process_max_fds", "Limit of open descriptors.", {}, usage.descriptors_max);
  out.Gauge("process_threads", "Threads.", {}, usage.thread_count);
  out.Counter("process_cpu_seconds_total", "Processor time, user and system.", {}, usage.cpu_seconds);
  out.Gauge("varifocal_build_info", "1; the label is the version.", {{"version", CodeVersion()}}, 1);
}

}  // namespace

absl::StatusOr<std::string> MetricsText(const MetricsSources& sources) {
  Families families;
  AddModels(sources, families);
  if (sources.jobs != nullptr) AddJobs(sources, families);
  AddCalls(sources, families);
  AddHealth(sources, families);
  AddCredentials(*sources.credentials, families);
  AddProcess(families);
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families.families());
  return text.str();
}

}  // namespace varifocal
