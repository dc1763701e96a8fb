// Seeded simulation of the engine's scheduler: requests that arrive, share prefixes, are cancelled, preempted and failed, in
// small page pools. Method: a simulated model whose state at a position is a hash of the state before, which it reads
// from the page that the plan names, and of the token; with it every result must equal the one that is computed directly,
// whatever the scheduling was. A page that is shared wrongly, released early, copied badly or used twice gives other
// states. Then nothing is waiting, no page is held, and every request has ended once. Controls: a model that loses a
// write, and one that does not copy pages, are found.
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/random.h"
#include "gtest/gtest.h"
#include "server/engine/engine_testing.h"
#include "server/engine/request_check.h"
#include "server/engine/sampler.h"
#include "server/engine/scheduler.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

using kernels::kPageTokens;

constexpr int kStepsMax = 20'000;
constexpr int32_t kVocabulary = 120;

enum class PlantedBug { kNone, kLostWrite, kMissingCopy };

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// What the simulated model computes from a state.
int32_t Argmax(uint64_t state) { return state % kVocabulary; }
float LogProbability(uint64_t state, int32_t token) { return -static_cast<float>(Mix(state, token) % 1024) / 64; }
int32_t Drawn(uint64_t state, const kernels::TokenDraw& draw) {
  uint64_t bits = 0;
  std::memcpy(&bits, &draw.uniform, sizeof bits);
  return Mix(state, bits) % kVocabulary;
}

// The states after each token of a text.
std::vector<uint64_t> States(const std::vector<int32_t>& ids) {
  std::vector<uint64_t> states;
  uint64_t state = 0;
  for (const int32_t id : ids) states.push_back(state = Mix(state, id));
  return states;
}

struct Expected {
  std::vector<uint64_t> prompt_states;
  std::vector<int32_t> new_token_ids;
  std::vector<std::vector<double>> continuations;
  std::vector<double> text;
};

Expected Directly(const EngineRequest& request) {
  Expected expected;
  expected.prompt_states = States(request.token_ids);
  const uint64_t last = expected.prompt_states.back();
  const auto score = [&](const std::vector<std::vector<int32_t>>& continuations) {
    for (const std::vector<int32_t>& continuation : continuations) {
      std::vector<double>& scores = expected.continuations.emplace_back();
      uint64_t state = last;
      for (const int32_t id : continuation) {
        scores.push_back(LogProbability(state, id));
        state = Mix(state, id);
      }
    }
  };
  if (const auto* generate = std::get_if<GenerateWork>(&request.work)) {
    score(generate->scored);
    uint64_t state = last;
    for (int64_t i = 0; i < generate->max_new_tokens; ++i) {
      const int64_t position = std::ssize(request.token_ids) + i;
      const int32_t id = generate->sampling.temperature > 0
                             ? Drawn(state, MakeDraw(generate->sampling, generate->seed, position))
                             : Argmax(state);
      expected.new_token_ids.push_back(id);
      state = Mix(state, id);
    }
  } else if (const auto* work = std::get_if<ScoreContinuationsWork>(&request.work)) {
    score(work->continuations);
  } else {
    for (size_t i = 1; i < request.token_ids.size(); ++i)
      expected.text.push_back(LogProbability(expected.prompt_states[i - 1], request.token_ids[i]));
  }
  return expected;
}

struct Counts {
  int64_t request_count = 0, preemption_count = 0, cached_token_count = 0, step_count = 0, cancel_count = 0;
};

// One run; `violation()` is empty when every property holds.
class SimulatedEngine {
 public:
  SimulatedEngine(const LoadedModel& model, Random random, PlantedBug planted, Counts* counts)
      : model_(model), random_(std::move(random)), planted_(planted), counts_(*counts) {
    options_.prefill_chunk_tokens = 16 << random_.Below(6);
    options_.batch_size_max = 1 + random_.Below(6);
    limits_.groups = PageGroupShapes(model.transformer());
    for (size_t i = 0; i < limits_.groups.size(); ++i) limits_.page_counts.push_back(7 + random_.Below(12));
    limits_.prefill_rows_max = limits_.step_rows_max = options_.prefill_chunk_tokens;
    limits_.prefix_cache = random_.Below(4) > 0;
    scheduler_.emplace(model, options_, limits_.page_counts, clock_);
    for (const int64_t count : limits_.page_counts) pages_.emplace_back(count * kPageTokens, uint64_t{0});
    for (uint64_t family = 0; family < 2; ++family) families_.push_back(SomeIds(700));
  }

  std::string Violation() {
    int left = 3 + random_.Below(10);
    for (int step = 0; violation_.empty() && (left > 0 || !scheduler_->idle()); ++step) {
      while (left > 0 && (scheduler_->idle() || random_.Below(6) == 0)) {
        Submit();
        --left;
      }
      if (random_.Below(24) == 0 && next_handle_ > 1) {
        scheduler_->Cancel(1 + random_.Below(next_handle_ - 1));
        ++counts_.cancel_count;
      }
      if (random_.Below(60) == 0) scheduler_->DropPrefixCache();
      Step();
      TakeFinished();
      if (step > kStepsMax) Violated("the requests do not end");
    }
    EngineStatus status;
    scheduler_->GetStatus(&status);
    counts_.preemption_count += status.preemption_count;
    counts_.cached_token_count += status.cached_tokens;
    counts_.step_count += status.step_count;
    if (!violation_.empty()) return violation_;
    if (!active_.empty()) Violated(absl::StrCat(active_.size(), " requests never ended"));
    if (status.step_us != step_us_)
      Violated(absl::StrCat("steps took ", step_us_, " us, and ", status.step_us, " are counted"));
    if (status.pages_used != 0) Violated(absl::StrCat(status.pages_used, " pages are held by no request"));
    return violation_;
  }

 private:
  void Violated(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

  std::vector<int32_t> SomeIds(uint64_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = 2 + random_.Below(kVocabulary - 2);
    return ids;
  }

  void Submit() {
    EngineRequest request;
    // A beginning that others have too, and an end of its own.
    const std::vector<int32_t>& family = families_[random_.Below(families_.size())];
    request.token_ids.assign(family.begin(), family.begin() + random_.Below(500));
    for (const int32_t id : SomeIds(1 + random_.Below(random_.Below(4) == 0 ? 200 : 20)))
      request.token_ids.push_back(id);
    std::vector<std::vector<int32_t>> continuations;
    for (uint64_t i = random_.Below(4); i > 0; --i) continuations.push_back(SomeIds(1 + random_.Below(12)));
    switch (random_.Below(4)) {
      case 0:
        request.work = ScoreTextWork{};
        break;
      case 1:
        continuations.push_back(SomeIds(1 + random_.Below(40)));
        request.work = ScoreContinuationsWork{continuations};
        break;
      default: {
        GenerateWork work;
        work.max_new_tokens = 12 + random_.Below(random_.Below(3) == 0 ? 500 : 10);
        work.ignore_eos = true;
        work.sampling.temperature = random_.Coin() ? 0 : 0.7;
        work.seed = random_.Below(4);
        if (random_.Below(3) == 0) work.scored = continuations;
        request.work = work;
      }
    }
    const Expected expected = Directly(request);
    auto sequence = CheckRequest(model_, limits_, std::move(request));
    if (!sequence.ok()) {
      if (!absl::IsResourceExhausted(sequence.status())) Violated(sequence.status().ToString());
      return;
    }
    (*sequence)->handle = next_handle_++;
    (*sequence)->callbacks.on_done = [](const absl::StatusOr<EngineResult>&) {};
    active_[(*sequence)->handle] = expected;
    ++counts_.request_count;
    scheduler_->Enqueue(*std::move(sequence));
  }

  void Step() {
    const StepPlan plan = scheduler_->NextStep();
    if (plan.empty()) {
      if (!scheduler_->idle()) Violated("requests wait, and there is no next step");
      return;
    }
    const int64_t us = random_.Below(1000);
    clock_.Advance(us);
    if (random_.Below(100) == 0) return scheduler_->Fail(plan, absl::InternalError("a simulated step failed"));
    if (random_.Below(100) == 0) return;  // a step that was cancelled is discarded
    scheduler_->Apply(plan, Compute(plan));
    clock_.Advance(7);  // between steps
    step_us_ += us;
  }

  // The state of a position in a page group, or nullopt where the plan has no page for it.
  uint64_t* Place(const ForwardSequence& rows, size_t group, int64_t position) {
    const int64_t page = position / kPageTokens;
    if (page >= std::ssize(rows.pages[group]) || rows.pages[group][page] < 0) return nullptr;
    return &pages_[group][rows.pages[group][page] * kPageTokens + position % kPageTokens];
  }

  ForwardOutput Compute(const StepPlan& plan) {
    for (const PageCopy& copy : plan.page_copies) {
      if (planted_ == PlantedBug::kMissingCopy) break;
      std::vector<uint64_t>& page = pages_[copy.group];
      for (int64_t i = 0; i < kPageTokens; ++i) page[copy.to * kPageTokens + i] = page[copy.from * kPageTokens + i];
    }
    std::vector<uint64_t> states;  // of the step's rows
    size_t token = 0;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
      const ForwardSequence& rows = plan.forward_sequences[i];
      const std::vector<uint64_t>& prompt_states = active_.at(plan.entries[i].sequence->handle).prompt_states;
      for (int64_t row = 0; row < rows.row_count; ++row, ++token) {
        const int64_t position = rows.first_position + row;
        uint64_t state = 0;
        for (size_t group = 0; group < pages_.size(); ++group) {
          const PageGroupShape& shape = limits_.groups[group];
          const uint64_t* before = position == 0 ? nullptr : Place(rows, group, position - 1);
          if (position > 0 && before == nullptr) Violated(absl::StrCat("no page for position ", position - 1));
          const uint64_t next = Mix(before == nullptr ? 0 : *before, plan.tokens[token]);
          if (group > 0 && next != state) Violated("the page groups disagree");
          state = next;
          uint64_t* const place = Place(rows, group, position);
          if (place == nullptr) {
            Violated(absl::StrCat("no page for position ", position));
          } else if (planted_ != PlantedBug::kLostWrite || random_.Below(2000) > 0) {
            *place = state;
          }
          // Any earlier key that the row attends to.
          const int64_t reach = shape.is_full() ? position : std::min(position, shape.window - 1);
          const int64_t seen = position - random_.Below(reach + 1);
          if (seen >= std::ssize(prompt_states)) continue;
          const uint64_t* key = Place(rows, group, seen);
          if (key == nullptr || (*key != prompt_states[seen] && planted_ == PlantedBug::kNone))
            Violated(absl::StrCat("position ", position, " does not see position ", seen));
        }
        states.push_back(state);
      }
    }
    ForwardOutput output;
    output.tau_bound_counts.assign(2 * plan.entries.size(), 0);
    for (const kernels::HeadRow& row : plan.head_rows) {
      const uint64_t state = states[row.row];
      kernels::HeadResult result;
      result.argmax = Argmax(state);
      if (row.target >= 0) result.target_log_probability = LogProbability(state, row.target);
      if (row.draw.temperature > 0) result.drawn.token = Drawn(state, row.draw);
      output.head.push_back(result);
    }
    return output;
  }

  void TakeFinished() {
    for (const Finished& finished : scheduler_->TakeFinished()) {
      const auto found = active_.find(finished.sequence->handle);
      if (found == active_.end()) return Violated("a request ended twice");
      const Expected expected = std::move(found->second);
      active_.erase(found);
      const EngineResult& result = finished.sequence->result;
      if (!finished.status.ok() || result.finish_reason == EngineFinishReason::kCancelled) continue;
      if (result.new_token_ids != expected.new_token_ids) Violated("other tokens than computed directly");
      std::vector<std::vector<double>> continuations;
      for (const EngineContinuationScore& score : result.continuations) continuations.push_back(score.token_log_probs);
      if (continuations != expected.continuations) Violated("other scores than computed directly");
      std::vector<double> text;
      for (size_t i = 1; i < result.token_log_probs.size(); ++i) text.push_back(*result.token_log_probs[i]);
      if (text != expected.text) Violated("other scores of the text than computed directly");
    }
  }

  const LoadedModel& model_;
  Random random_;
  const PlantedBug planted_;
  Counts& counts_;
  FakeClock clock_;
  int64_t step_us_ = 0;
  EngineOptions options_;
  RequestLimits limits_;
  std::optional<Scheduler> scheduler_;
  std::vector<std::vector<uint64_t>> pages_;  // [group][page * 128 + row]
  std::vector<std::vector<int32_t>> families_;
  std::map<EngineHandle, Expected> active_;
  EngineHandle next_handle_ = 1;
  std::string violation_;
};

// Full attention alone, and full layers beside layers with a window.
std::vector<std::shared_ptr<const LoadedModel>> Models() {
  return {LoadForTest(GoldenDirectory("tied-d16-f32")), LoadForTest(GoldenDirectory("architectures/gemma3-newer"))};
}

TEST(EngineSimulation, ResultsDoNotDependOnTheScheduling) {
  const auto models = Models();
  Counts counts;
  for (Trials trials("simulated engines", {.quick = 10'000, .full = 1'000'000}); trials.Next();) {
    SimulatedEngine run(*models[trials.index() % models.size()], trials.MakeRandom(), PlantedBug::kNone, &counts);
    EXPECT_EQ(run.Violation(), "") << "trial " << trials.index();
  }
  PrintMeasured(absl::StrCat(counts.request_count, " requests in ", counts.step_count, " steps, ",
                             counts.preemption_count, " preemptions, ", counts.cached_token_count,
                             " tokens from the prefix cache, ", counts.cancel_count, " cancels"));
}

TEST(EngineSimulation, PlantedBugsAreFound) {
  const auto models = Models();
  Counts counts;
  for (const PlantedBug planted : {PlantedBug::kLostWrite, PlantedBug::kMissingCopy}) {
    int seed = 0;
    while (seed < 500 && SimulatedEngine(*models[seed % 2], Random(absl::StrCat("planted ", seed)), planted, &counts)
                             .Violation()
                             .empty()) {
      ++seed;
    }
    EXPECT_LT(seed, 500);
    PrintMeasured(absl::StrCat("planted bug ", static_cast<int>(planted), " found by run ", seed));
  }
}

}  // namespace
}  // namespace varifocal
