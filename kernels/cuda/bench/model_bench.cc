// Whole models: prompts, decode, many continuations of one prefix, one request computed in every way, two models at once,
// and loading.
//
// Each result is also computed a second way (repeated, alone, without cache) and must have the same bits or, between
// the prefill and the decode kernels, be close.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "kernels/cuda/bench/llama_run.h"
#include "kernels/token_draw.h"

namespace varifocal::kernels::cuda {
namespace {

// Logits after tens of layers of bf16 by kernels that round in different places. Within one kind of kernel they are
// equal; a wrong mask, page or position gives 1 and more.
constexpr double kLogitErrorMax = 0.05;

double HostSeconds(const std::function<void()>& operation) {
  const auto begin = std::chrono::steady_clock::now();
  operation();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class ModelPrefill final : public Bench {
 public:
  ModelPrefill(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell),
        run_(place, cell.model, cell.rows, 1, 1, cell.rows, (cell.rows + kPageTokens - 1) / kPageTokens,
             cell.learned_tau),
        tokens_(TextOf(cell.model, 0, cell.rows)),
        pages_(run_.Pages(cell.rows)) {
    if (cell.learned_tau) MeasurePlain();
  }

  Outcome Round() override {
    Outcome outcome{.flops = PrefillFlops(cell_.model, 0, cell_.rows), .bytes = 2 * WeightCount(cell_.model)};
    if (logits_.empty()) logits_ = run_.Prompt(tokens_, pages_, cell_.rows);
    std::vector<float> again;
    outcome.seconds = TimeOnHost(place_, [&] { again = run_.Prompt(tokens_, pages_, cell_.rows); });
    if (!SameBits(again, logits_)) outcome.wrong = "the same prompt gave other bits";
    if (cell_.learned_tau) {
      outcome.error = RelativeError(plain_, logits_);
      outcome.error_max = kLogitErrorMax;
      outcome.more.emplace_back("dense_ms", plain_seconds_ * 1e3);
    }
    outcome.more.emplace_back("tokens_per_second", cell_.rows / outcome.seconds);
    outcome.logits = logits_;
    return outcome;
  }

 private:
  // The same prompt without temperatures; that run's memory is freed again.
  void MeasurePlain() {
    LlamaRun plain(place_, cell_.model, cell_.rows, 1, 1, cell_.rows, (cell_.rows + kPageTokens - 1) / kPageTokens);
    const std::vector<int32_t> pages = plain.Pages(cell_.rows);
    plain_seconds_ = TimeOnHost(place_, [&] { plain_ = plain.Prompt(tokens_, pages, cell_.rows); });
  }

  LlamaRun run_;
  const std::vector<int32_t> tokens_, pages_;
  std::vector<float> logits_, plain_;
  double plain_seconds_ = 0;
};

// Repeats the step after a prompt: its one row is written to the same place each time.
class ModelDecode final : public Bench {
 public:
  ModelDecode(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell),
        run_(place, cell.model, std::min(cell.context, 32768), cell.sequences, cell.sequences, cell.context + 1,
             cell.sequences * ((cell.context + 1 + kPageTokens - 1) / kPageTokens)) {
    pages_.reserve(cell.sequences);
    for (int s = 0; s < cell.sequences; ++s) {
      pages_.push_back(run_.Pages(cell.context + 1));
      const std::vector<float> logits = run_.Prompt(TextOf(cell.model, s, cell.context + 1), pages_[s], cell.context);
      if (s == 0) by_prefill_ = logits;
      step_.push_back({{TokenAt(cell.model, s, cell.context)}, cell.context, &pages_[s]});
      heads_.push_back({.row = s, .logits_slot = -1});
      drawing_.push_back(
          {.row = s, .logits_slot = s, .draw = {.temperature = 1, .top_p = 0.9, .uniform = (s + 0.5) / 64}});
    }
  }

  Outcome Round() override {
    const LlamaShape& m = cell_.model;
    const double keys = 4.0 * m.layers * m.kv_heads * m.head_dim * cell_.sequences * (cell_.context + 1);
    Outcome outcome{
        .flops = 2 * WeightCount(m) * cell_.sequences, .bytes = 2 * WeightCount(m) + keys, .error_max = kLogitErrorMax};
    std::vector<HeadRow> asking = heads_;
    asking[0].logits_slot = 0;
    std::vector<float> logits(m.vocab);
    run_.Step(Phase::kDecode, step_, asking, logits.data());
    outcome.error = RelativeError(by_prefill_, logits);
    outcome.seconds = TimeOnHost(place_, [&] { run_.Step(Phase::kDecode, step_, heads_); });
    if (cell_.graphs) {
      outcome.more.emplace_back("one_by_one_ms", outcome.seconds * 1e3);
      std::vector<float> again(m.vocab);
      run_.SetGraphs(true);
      run_.Step(Phase::kDecode, step_, asking, again.data());
      if (!SameBits(again, logits)) outcome.wrong = "a step queued as one graph has other bits";
      outcome.seconds = TimeOnHost(place_, [&] { run_.Step(Phase::kDecode, step_, heads_); });
      run_.SetGraphs(false);
    }
    if (cell_.draws) {
      outcome.more.emplace_back("greedy_ms", outcome.seconds * 1e3);
      std::vector<HeadResult> drawn;
      outcome.seconds = TimeOnHost(place_, [&] { drawn = run_.Step(Phase::kDecode, step_, drawing_); });
      const int32_t want = DrawToken(logits, drawing_[0].draw).token;
      if (drawn[0].drawn.token != want) {
        outcome.wrong =
            "token " + std::to_string(drawn[0].drawn.token) + " was drawn, on the host " + std::to_string(want);
      }
    }
    outcome.more.emplace_back("tokens_per_second", cell_.sequences / outcome.seconds);
    return outcome;
  }

 private:
  LlamaRun run_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<RunRows> step_;
  std::vector<HeadRow> heads_, drawing_;
  std::vector<float> by_prefill_;
};

// Decode steps of one model while another computes a prompt, as a daemon with two models does: how long a step then
// takes, the longest and the mean, with turns and without, and that neither changes a bit of the other.
class TwoModels final : public Bench {
 public:
  TwoModels(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell),
        chunk_(std::min(cell.rows, 8192)),  // a daemon's
        prompt_(place, cell.model, chunk_, 1, 1, cell.rows, (cell.rows + kPageTokens - 1) / kPageTokens),
        decode_(place, cell.other, cell.context, 1, 1, cell.context + 1, cell.context / kPageTokens + 1),
        tokens_(TextOf(cell.model, 0, cell.rows)),
        prompt_pages_(prompt_.Pages(cell.rows)),
        decode_pages_(decode_.Pages(cell.context + 1)) {
    decode_.Prompt(TextOf(cell.other, 1, cell.context), decode_pages_, cell.context);
    step_ = {{{TokenAt(cell.other, 1, cell.context)}, cell.context, &decode_pages_}};
    want_prompt_ = prompt_.Prompt(tokens_, prompt_pages_, chunk_);
    want_step_ = Decode();
  }

  Outcome Round() override {
    Outcome outcome;
    // The prompt of the round before would count as another engine.
    decode_.SetTurns(false);
    const double alone = TimeOnHost(place_, [&] { Decode(); });
    const double prompt_alone = HostSeconds([&] { prompt_.Prompt(tokens_, prompt_pages_, chunk_); });
    Beside("without_turns_", false, &outcome);
    Beside("", true, &outcome);
    outcome.more.emplace_back("alone_ms", alone * 1e3);
    outcome.more.emplace_back("prompt_alone_ms", prompt_alone * 1e3);
    return outcome;
  }

 private:
  // Steps until the prompt is done.
  void Beside(const std::string& name, bool turns, Outcome* result) {
    Outcome& outcome = *result;
    prompt_.SetTurns(turns);
    decode_.SetTurns(turns);
    std::atomic<bool> is_done{false};
    std::vector<float> logits;
    double prompt_seconds = 0;
    std::thread other([&] {
      prompt_seconds = HostSeconds([&] { logits = prompt_.Prompt(tokens_, prompt_pages_, chunk_); });
      is_done = true;
    });
    double longest = 0, sum = 0;
    int steps = 0;
    for (; steps == 0 || !is_done; ++steps) {
      const double seconds = HostSeconds([&] {
        if (!SameBits(Decode(), want_step_)) outcome.wrong = "a decode step has other bits beside another model";
      });
      longest = std::max(longest, seconds);
      sum += seconds;
    }
    other.join();
    if (!SameBits(logits, want_prompt_)) outcome.wrong = "a prompt has other bits beside another model";
    outcome.seconds = sum / steps;
    outcome.more.emplace_back(name + "mean_ms", outcome.seconds * 1e3);
    outcome.more.emplace_back(name + "longest_ms", longest * 1e3);
    outcome.more.emplace_back(name + "prompt_ms", prompt_seconds * 1e3);
  }

  std::vector<float> Decode() {
    std::vector<float> logits(cell_.other.vocab);
    decode_.Step(Phase::kDecode, step_, {{.row = 0, .logits_slot = 0}}, logits.data());
    return logits;
  }

  const int chunk_;
  LlamaRun prompt_, decode_;
  const std::vector<int32_t> tokens_, prompt_pages_, decode_pages_;
  std::vector<RunRows> step_;
  std::vector<float> want_prompt_, want_step_;
};

// `total` continuations of one prefix, `sequences` in a step, every row scored; against one cold run times `total`.
class Continuations final : public Bench {
 public:
  Continuations(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell),
        own_pages_((cell.rows + kPageTokens - 1) / kPageTokens),
        run_(place, cell.model, std::max(cell.context + cell.rows, cell.rows * cell.sequences), cell.sequences,
             cell.rows * cell.sequences, cell.context + cell.rows,
             2 * (cell.context / kPageTokens + own_pages_) + cell.sequences * own_pages_) {
    const std::vector<int32_t> prefix = TextOf(cell.model, 0, cell.context);
    prefix_pages_ = run_.Pages(cell.context);
    run_.Prompt(prefix, prefix_pages_, cell.context);
    for (int s = 0; s < cell.sequences; ++s)
      pages_.push_back(run_.Pages(cell.context + cell.rows, &prefix_pages_, cell.context / kPageTokens));
    // The first one without cache: prefix and question in one prompt, in its own pages.
    std::vector<int32_t> whole = prefix, question = TextOf(cell.model, 1, cell.rows);
    whole.insert(whole.end(), question.begin(), question.end());
    const std::vector<int32_t> cold_pages = run_.Pages(cell.context + cell.rows);
    const auto cold = [&] {
      cold_ = run_.Step(Phase::kPrefill, {{whole, 0, &cold_pages}}, Heads(cell.context, question));
    };
    cold();
    cold_seconds_ = HostSeconds(cold);
  }

  Outcome Round() override {
    Outcome outcome;
    outcome.flops = cell_.total * PrefillFlops(cell_.model, cell_.context, cell_.rows);
    std::vector<HeadResult> first;
    outcome.seconds = HostSeconds([&] {
      for (int at = 0; at < cell_.total; at += cell_.sequences) {
        std::vector<RunRows> step;
        std::vector<HeadRow> heads;
        for (int s = 0; s < std::min(cell_.sequences, cell_.total - at); ++s) {
          const std::vector<int32_t> question = TextOf(cell_.model, 1 + at + s, cell_.rows);
          for (const HeadRow& row : Heads(s * cell_.rows, question)) heads.push_back(row);
          step.push_back({question, cell_.context, &pages_[s]});
        }
        std::vector<HeadResult> results = run_.Step(Phase::kPrefill, step, heads);
        if (at == 0) first = std::move(results);
      }
    });
    for (size_t i = 0; i < cold_.size(); ++i) {
      if (std::memcmp(&first[i].target_log_probability, &cold_[i].target_log_probability, sizeof(float)) != 0 ||
          first[i].argmax != cold_[i].argmax) {
        outcome.wrong = "a score on the cached prefix has other bits than the cold one";
      }
    }
    outcome.more.emplace_back("cold_ms", cold_seconds_ * 1e3 * cell_.total);
    outcome.more.emplace_back("cold_one_ms", cold_seconds_ * 1e3);
    return outcome;
  }

 private:
  // Each row's score is that of the question's next token.
  std::vector<HeadRow> Heads(int first_row, const std::vector<int32_t>& question) const {
    std::vector<HeadRow> heads;
    for (size_t i = 0; i + 1 < question.size(); ++i)
      heads.push_back({.row = first_row + static_cast<int>(i), .target = question[i + 1]});
    return heads;
  }

  const int own_pages_;
  LlamaRun run_;
  std::vector<int32_t> prefix_pages_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<HeadResult> cold_;
  double cold_seconds_ = 0;
};

// One prompt alone, in chunks, among others, and on a cached prefix: the last row's logits, bit by bit.
class Determinism final : public Bench {
 public:
  Determinism(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell),
        chunk_(place.tiny ? kPageTokens : 1024),
        run_(place, cell.model, 3 * cell.rows, 3, 3, cell.rows, 5 * (cell.rows / kPageTokens + 1)),
        tokens_(TextOf(cell.model, 0, cell.rows)) {
    const int shared = cell.rows / 2 / kPageTokens;
    alone_ = run_.Pages(cell.rows);
    again_ = run_.Pages(cell.rows);
    cached_ = run_.Pages(cell.rows, &alone_, shared);
    for (int s = 0; s < 2; ++s) others_.push_back(run_.Pages(cell.rows));
    shared_tokens_ = shared * kPageTokens;
  }

  Outcome Round() override {
    Outcome outcome{.flops = PrefillFlops(cell_.model, 0, cell_.rows)};
    const std::vector<float> want = run_.Prompt(tokens_, alone_, cell_.rows);
    std::vector<float> chunked;
    const double chunked_seconds = TimeOnHost(place_, [&] { chunked = run_.Prompt(tokens_, again_, chunk_); });
    outcome.seconds = TimeOnHost(place_, [&] { run_.Prompt(tokens_, alone_, cell_.rows); });
    const std::vector<float> cached = run_.Prompt(tokens_, cached_, cell_.rows, shared_tokens_);
    // Between two others, of other lengths.
    const int before = cell_.rows / 3, after = cell_.rows / 2;
    std::vector<float> among(cell_.model.vocab);
    run_.Step(Phase::kPrefill,
              {{TextOf(cell_.model, 7, before), 0, &others_[0]},
               {tokens_, 0, &again_},
               {TextOf(cell_.model, 8, after), 0, &others_[1]}},
              {{.row = before + cell_.rows - 1, .logits_slot = 0}, {.row = 0}, {.row = before + cell_.rows}},
              among.data());
    const std::pair<const char*, const std::vector<float>*> walks[] = {
        {"in chunks", &chunked}, {"on a cached prefix", &cached}, {"in a batch of three", &among}};
    for (const auto& [name, logits] : walks) {
      if (!SameBits(*logits, want))
        outcome.wrong += std::string(outcome.wrong.empty() ? "" : ", ") + "other bits " + name;
    }
    outcome.more.emplace_back("chunked_ms", chunked_seconds * 1e3);
    return outcome;
  }

 private:
  const int chunk_;
  LlamaRun run_;
  const std::vector<int32_t> tokens_;
  std::vector<int32_t> alone_, again_, cached_;
  std::vector<std::vector<int32_t>> others_;
  int shared_tokens_ = 0;
};

// Loads the file to the device, with and without the file in the page cache.
class Load final : public Bench {
 public:
  Load(const BenchPlace& place, const Cell& cell) : Bench(place, cell), file_(cell.model, place.scratch) {}

  Outcome Round() override {
    const auto load = [&] { LlamaRun run(place_, cell_.model, 16, 1, 1, 128, 1); };
    Outcome outcome{.bytes = static_cast<double>(file_.bytes())};
    file_.Forget();
    const double cold = HostSeconds(load);
    outcome.seconds = HostSeconds(load);
    outcome.more.emplace_back("cold_ms", cold * 1e3);
    return outcome;
  }

 private:
  const Checkpoint file_;
};

}  // namespace

std::unique_ptr<Bench> MakeModelPrefill(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<ModelPrefill>(place, cell);
}
std::unique_ptr<Bench> MakeModelDecode(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<ModelDecode>(place, cell);
}
std::unique_ptr<Bench> MakeContinuations(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<Continuations>(place, cell);
}
std::unique_ptr<Bench> MakeDeterminism(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<Determinism>(place, cell);
}
std::unique_ptr<Bench> MakeTwoModels(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<TwoModels>(place, cell);
}
std::unique_ptr<Bench> MakeLoad(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<Load>(place, cell);
}

}  // namespace varifocal::kernels::cuda
