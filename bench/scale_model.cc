#include "bench/scale_model.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"

namespace varifocal {
namespace {

struct Request {
  int64_t sequence = 0;
  int64_t context = 0;  // of one model: variants compute it apart
  double length = 0;
  bool is_first = false;  // of its context to reach the worker
};

// One run; times are seconds from its start.
class Simulation {
 public:
  Simulation(const ModelShape& shape, const GpuAssumption& gpu, const ScaleJob& job, const ScaleInputs& inputs,
             const ScaleSetup& setup)
      : shape_(shape), gpu_(gpu), job_(job), inputs_(inputs), setup_(setup), random_(setup.seed) {
    const double longest = *std::max_element(job.lengths.begin(), job.lengths.end());
    const double room = (gpu.memory_bytes - shape.WeightBytes()) / shape.KvBytes(longest + job.new_tokens);
    VF_CHECK(room >= 1, "the longest sample does not fit the GPU");
    slots_ = std::min<int>(setup.in_flight_per_worker, std::min(room, 1e6));
    workers_.resize(setup.gpu_count);
    for (int i = 0; i < setup.gpu_count; ++i) by_load_.insert({0, i});
  }

  ScaleResult Run() {
    while (recorded_ < job_.answer_count) {
      Fill();
      if (TakeArrivals()) continue;
      VF_CHECK(!events_.empty());
      const double next = events_.top().time;
      if (in_flight_ >= setup_.in_flight || started_ == job_.answer_count) full_seconds_ += next - now_;
      now_ = next;
    }
    ScaleResult result;
    result.seconds = now_;
    result.answer_count = recorded_;
    result.answers_per_second = static_cast<double>(recorded_) / now_;
    result.gpu_share = gpu_seconds_ / now_ / setup_.gpu_count;
    result.runner_share = runner_seconds_ / now_;
    result.commit_share = commit_seconds_ / now_;
    result.full_share = full_seconds_ / now_;
    result.answers_per_commit = static_cast<double>(recorded_) / commit_count_;
    // What is busy nearly all the time bounds the job. When nothing is, requests are too few.
    constexpr double kBusy = 0.9;
    if (result.gpu_share >= kBusy) {
      result.limit = "GPUs";
    } else if (result.runner_share + result.commit_share >= kBusy) {
      result.limit = result.runner_share >= result.commit_share ? "coordinator" : "database";
    } else {
      result.limit = "queue";
    }
    return result;
  }

 private:
  struct Worker {
    double free_at = 0;
    int running_count = 0;
    std::deque<Request> waiting;  // of contexts that are here
    std::set<int64_t> contexts;   // whose keys and values are here
  };
  struct Event {
    double time = 0;
    int worker = 0;
    bool operator>(const Event& other) const { return time > other.time; }
  };

  // As Runner::Fill: builds the next context when none is ready, records what has ended, starts requests.
  void Fill() {
    while (in_flight_ < setup_.in_flight) {
      if (ready_.empty()) {
        if (started_ == job_.answer_count) return;
        BuildContext();
        TakeArrivals();
      }
      Request request = ready_.front();
      ready_.pop_front();
      Work(inputs_.runner_seconds);
      AdvanceTo(now_);
      ++in_flight_;
      Dispatch(request, now_);
    }
  }

  void BuildContext() {
    const double length = job_.lengths[built_ % std::ssize(job_.lengths)];
    for (int v = 0; v < job_.variant_count; ++v) {
      for (int q = 0; q < job_.questions_per_context && started_ < job_.answer_count; ++q, ++started_) {
        ready_.push_back({started_, built_ * job_.variant_count + v, length, false});
        Work(inputs_.runner_seconds_per_token * length);
      }
    }
    ++built_;
  }

  bool TakeArrivals() {
    AdvanceTo(now_);
    if (arrived_ == 0) return false;
    ++commit_count_;
    recorded_ += arrived_;
    in_flight_ -= static_cast<int>(arrived_);
    arrived_ = 0;
    commit_seconds_ += inputs_.commit_seconds;
    now_ += inputs_.commit_seconds;
    return true;
  }

  void Work(double seconds) {
    runner_seconds_ += seconds;
    now_ += seconds;
  }

  void AdvanceTo(double time) {
    while (!events_.empty() && events_.top().time <= time) {
      const Event event = events_.top();
      events_.pop();
      ++arrived_;
      Move(event.worker, -1);
      Worker& worker = workers_[event.worker];
      // The oldest of those that wait for this worker or for any; one may turn out to be of another, full worker.
      while (worker.running_count < slots_ && !(worker.waiting.empty() && waiting_.empty())) {
        const bool is_own = !worker.waiting.empty() &&
                            (waiting_.empty() || worker.waiting.front().sequence < waiting_.front().sequence);
        std::deque<Request>& from = is_own ? worker.waiting : waiting_;
        const Request request = from.front();
        from.pop_front();
        Dispatch(request, event.time);
      }
    }
  }

  void Dispatch(const Request& request, double time) {
    const auto kept = worker_of_.find(request.context);
    if (kept != worker_of_.end()) {
      if (workers_[kept->second].running_count < slots_) return StartOn(kept->second, request, time);
      return workers_[kept->second].waiting.push_back(request);
    }
    const auto [load, index] = *by_load_.begin();
    if (load >= slots_) return waiting_.push_back(request);
    worker_of_[request.context] = index;
    contexts_.push_back(request.context);
    if (std::ssize(contexts_) > 10'000) {  // as RemoteWorkers
      worker_of_.erase(contexts_.front());
      contexts_.pop_front();
    }
    StartOn(index, request, time);
  }

  void StartOn(int index, Request request, double time) {
    Move(index, +1);
    Worker& worker = workers_[index];
    request.is_first = worker.contexts.insert(request.context).second;
    const double seconds = ServiceSeconds(shape_, gpu_, job_, request.length, request.is_first, worker.running_count) *
                           (0.9 + 0.2 * random_.Uniform());
    const double start = std::max(time + inputs_.round_trip_seconds / 2, worker.free_at);
    worker.free_at = start + seconds;
    gpu_seconds_ += seconds;
    events_.push({worker.free_at + inputs_.round_trip_seconds / 2, index});
  }

  void Move(int index, int change) {
    by_load_.erase({workers_[index].running_count, index});
    workers_[index].running_count += change;
    by_load_.insert({workers_[index].running_count, index});
  }

  const ModelShape& shape_;
  const GpuAssumption& gpu_;
  const ScaleJob& job_;
  const ScaleInputs& inputs_;
  const ScaleSetup& setup_;
  Random random_;
  int slots_ = 0;
  std::vector<Worker> workers_;
  std::set<std::pair<int, int>> by_load_;                                  // running requests, worker
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;  // ends of requests
  std::deque<Request> ready_, waiting_;
  std::map<int64_t, int> worker_of_;
  std::deque<int64_t> contexts_;
  double now_ = 0, gpu_seconds_ = 0, runner_seconds_ = 0, commit_seconds_ = 0, full_seconds_ = 0;
  int64_t built_ = 0, started_ = 0, arrived_ = 0, recorded_ = 0, commit_count_ = 0;
  int in_flight_ = 0;
};

}  // namespace

PrefillFlops FlopsOf(const ModelShape& shape, double cached_tokens, double new_tokens) {
  const double pairs = new_tokens * cached_tokens + new_tokens * (new_tokens + 1) / 2;
  return {2 * shape.parameter_count * new_tokens, 4 * shape.layers * shape.heads * shape.head_width * pairs};
}

double ServiceSeconds(const ModelShape& shape, const GpuAssumption& gpu, const ScaleJob& job, double length,
                      bool is_first_of_context, int concurrent) {
  const double cached = is_first_of_context ? 0 : length - job.question_tokens;
  const PrefillFlops flops = FlopsOf(shape, cached, length - cached);
  const double step_bytes = shape.WeightBytes() / std::max(1, concurrent) + shape.KvBytes(length);
  return flops.products / gpu.product_flops + flops.attention / gpu.attention_flops +
         job.new_tokens * step_bytes / gpu.bytes_per_second;
}

ScaleResult Simulate(const ModelShape& shape, const GpuAssumption& gpu, const ScaleJob& job, const ScaleInputs& inputs,
                     const ScaleSetup& setup) {
  return Simulation(shape, gpu, job, inputs, setup).Run();
}

}  // namespace varifocal
