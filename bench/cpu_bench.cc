// The CPU backend against the machine's limits and against peers, in one run: attention, products, whole prefills,
// decode, many questions on one context. deploy/bench_cpu.sh builds and runs it.
//
//   cpu_bench [--python=PATH [--llama-cpp=DIRECTORY]] [--only=SECTION,..] [--formats=bf16,f32] [--threads=2]
//   [--rounds=3]
//             [--lengths=2048,8192,16384,32768] [--cpu-isa=NAME] [--model=DIRECTORY].. [--out=PREFIX]
//
// With --python, PyTorch and transformers (recipes/bench_peers.py) are timed alternately with ours, A B A B, medians;
// with --llama-cpp, its llama-bench too. Every own case is first checked against float64, a peer's log-probability,
// or another computation of the same result. Cases shorter than kCaseSecondsMin have more rounds than --rounds, those
// longer than kCaseSeconds fewer; a round of kernels repeats them for kRoundSeconds. With --threads=1 both programs run on
// one core, the one that this program was started on (taskset chooses it). --out merges the results into PREFIX.json and
// writes PREFIX.md and PREFIX.svg from it, after every section.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "bench/model.h"
#include "bench/requests.h"
#include "bench/runner.h"
#include "kernels/cpu/bench_attention.h"
#include "kernels/cpu/bench_product.h"
#include "server/engine/engine.h"

namespace varifocal {
namespace {

class CpuBench : public BenchRunner {
 public:
  using BenchRunner::BenchRunner;

  int Run() {
    using Planner = void (CpuBench::*)(DType);
    constexpr std::pair<const char*, Planner> kSections[] = {
        {"attention", &CpuBench::PlanAttention},
        {"products", &CpuBench::PlanProducts},
        {"decode attention", &CpuBench::PlanDecodeAttention},
        {"prefill", &CpuBench::PlanPrefill},
        {"models", &CpuBench::PlanModels},
        {"decode", &CpuBench::PlanDecode},
        {"experts", &CpuBench::PlanExperts},
        {"hybrid", &CpuBench::PlanHybrid},
        {"questions", &CpuBench::PlanQuestions},
    };
    for (const std::string& name : options_.only) {
      const auto is_named = [&](const auto& section) { return section.first == name; };
      if (std::none_of(std::begin(kSections), std::end(kSections), is_named)) {
        std::fprintf(stderr, "unknown section \"%s\"; the sections are:", name.c_str());
        for (const auto& section : kSections) std::fprintf(stderr, " \"%s\"", section.first);
        std::fprintf(stderr, "\n");
        return 2;
      }
    }
    if (!MeasureMachine()) return 2;
    const char* cache = std::getenv("XDG_CACHE_HOME");
    small_model_ =
        (cache != nullptr ? cache : absl::StrCat(std::getenv("HOME"), "/.cache")) + "/varifocal/bench-llama-30m";
    experts_model_ = absl::StrCat(absl::StripSuffix(small_model_, "llama-30m"), "mixtral-30m");
    hybrid_model_ = absl::StrCat(absl::StripSuffix(small_model_, "llama-30m"), "qwen3-5-30m");
    for (const auto& [directory, kind] : {std::pair(small_model_, BenchModelKind::kLlama),
                                          {experts_model_, BenchModelKind::kExperts},
                                          {hybrid_model_, BenchModelKind::kHybrid}}) {
      if (WriteBenchModel(directory, kind)) continue;
      std::fprintf(stderr, "%s cannot be written\n", directory.c_str());
      return 1;
    }
    std::vector<std::string> sections;
    for (const auto& [name, planner] : kSections) {
      sections.push_back(name);
      section_ = name;
      if (!options_.only.empty() && std::count(options_.only.begin(), options_.only.end(), name) == 0) continue;
      for (const std::string& format : options_.formats) (this->*planner)(format == "f32" ? DType::kF32 : DType::kBF16);
    }
    return Measure(sections) ? 0 : 1;
  }

 private:
  struct Loaded {
    std::shared_ptr<const LoadedModel> model;
    std::unique_ptr<Engine> engine;
  };

  void PlanAttention(DType dtype) {
    for (const int tokens : options_.lengths) {
      for (const auto& each : {std::tuple{64, 8, 4}, {80, 8, 4}, {96, 8, 4}, {128, 4, 2}, {256, 4, 1}}) {
        const int dim = std::get<0>(each), heads = std::get<1>(each), kv_heads = std::get<2>(each);
        if (tokens > 8192 && (dim == 80 || dim == 96)) continue;
        const kernels::AttentionShape shape = {dim, heads, kv_heads, tokens};
        const double flops = 2.0 * dim * heads * tokens * (tokens + 1.0);
        const double peers_s = options_.python.empty() ? 0 : 2.5 * flops / (7e10 * options_.threads);
        Plan(kCaseSecondsMin + peers_s + 3 * flops / (2e11 * options_.threads), [=, this, section = section_] {
          kernels::AttentionBench bench(isa_[dtype == DType::kBF16], dtype, options_.threads, shape);
          bench.Begin(kernels::Phase::kPrefill, tokens - kernels::kChunk, kernels::kChunk);
          bench.Attend();
          BenchRow row =
              Row(section, dtype, absl::StrFormat("d %d, %d over %d heads, %d tokens", dim, heads, kv_heads, tokens),
                  "GF/s", flops, tokens);
          row.limit = peak_[dtype == DType::kBF16];
          row.right = bench.ErrorOfRow(kernels::kChunk - 1, tokens - 1) <= kernels::AttentionErrorMax(dtype, tokens);
          Time(row,
               {{"PyTorch",
                 absl::StrFormat("attention %d %d %d %d %s", dim, heads, kv_heads, tokens, DTypeName(dtype))}},
               [&] { bench.Prefill(); });
          return true;
        });
      }
    }
  }

  void PlanDecodeAttention(DType dtype) {
    for (const auto& each : {std::tuple{64, 8, 4}, {128, 4, 2}}) {
      const int dim = std::get<0>(each), heads = std::get<1>(each), kv_heads = std::get<2>(each);
      const kernels::AttentionShape shape = {dim, heads, kv_heads, Length(16384)};
      Plan(kCaseSecondsMin, [=, this, section = section_] {
        kernels::AttentionBench bench(isa_[dtype == DType::kBF16], dtype, options_.threads, shape);
        bench.Begin(kernels::Phase::kDecode, shape.tokens - 1, 1);
        bench.Attend();
        const double bytes = 2.0 * DTypeBytes(dtype) * shape.tokens * shape.kv_heads * dim;
        BenchRow row =
            Row(section, dtype, absl::StrFormat("d %d, %d over %d heads, %d keys", dim, heads, kv_heads, shape.tokens),
                "GB/s", bytes, shape.tokens);
        row.limit = read_bytes_;
        row.right = bench.ErrorOfRow(0, shape.tokens - 1) <= kernels::AttentionErrorMax(dtype, shape.tokens);
        Time(row,
             {{"PyTorch",
               absl::StrFormat("decode %d %d %d %d %s", dim, heads, kv_heads, shape.tokens, DTypeName(dtype))}},
             [&] { bench.Attend(); });
        return true;
      });
    }
  }

  void PlanProducts(DType dtype) {
    for (const kernels::ProductShape shape :
         {kernels::ProductShape{512, 512, 512}, {512, 512, 2816}, {512, 1408, 512}, {1, 512, 16384}, {1, 2048, 2048}}) {
      Plan(kCaseSecondsMin, [=, this, section = section_] {
        kernels::ProductBench bench(isa_[dtype == DType::kBF16], dtype, options_.threads, shape);
        bench.Run();
        const bool one_row = shape.rows == 1;
        const double bytes = static_cast<double>(DTypeBytes(dtype)) * shape.inner * shape.outputs;
        BenchRow row =
            Row(section, dtype,
                absl::StrFormat("%d row%s, K %d, N %d", shape.rows, one_row ? "" : "s", shape.inner, shape.outputs),
                one_row ? "GB/s" : "GF/s", one_row ? bytes : shape.flops(), shape.rows);
        row.limit = one_row ? read_bytes_ : peak_[dtype == DType::kBF16];
        row.right = bench.IsRight();
        Time(row,
             {{"PyTorch",
               absl::StrFormat("product %d %d %d %s", shape.rows, shape.inner, shape.outputs, DTypeName(dtype))}},
             [&] { bench.Run(); });
        return true;
      });
    }
  }

  // Null, with a message on standard error, when the model cannot be loaded or run.
  std::optional<Loaded> Load(const std::string& directory, DType dtype, int64_t context_tokens,
                             bool prefix_cache) const {
    Loaded loaded;
    auto model = LoadModel(directory, {.device = "cpu",
                                       .dtype = DTypeName(dtype),
                                       .cpu_isa = isa_[dtype == DType::kBF16],
                                       .threads = options_.threads});
    absl::Status status = model.status();
    if (model.ok()) {
      loaded.model = *model;
      auto engine =
          Engine::Create(*model, {.kv_cache_bytes = (context_tokens / 128 + 64) * (*model)->provenance().page_bytes,
                                  .queue_length_max = 4096,
                                  .prefix_cache = prefix_cache});
      status = engine.status();
      if (engine.ok()) loaded.engine = *std::move(engine);
    }
    if (status.ok()) return loaded;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return std::nullopt;
  }

  // bf16 rounds every layer's output to 2^-9; both sides do, at different points.
  static double LogProbabilityErrorMax(DType dtype) { return dtype == DType::kBF16 ? 0.1 : 2e-3; }

  // A prompt through the engine, scored by the log-probability of token 0 after it; same ids as bench_peers.py.
  void PlanWholePrefill(const std::string& directory, DType dtype, const std::vector<int>& lengths,
                        const std::vector<std::string>& peers) {
    for (const int tokens : lengths) {
      Plan(kCaseSecondsMin + tokens / 2000.0 * (1 + tokens / 8192.0), [=, this, section = section_] {
        auto loaded = Load(directory, dtype, tokens, false);
        if (!loaded.has_value()) return false;
        EngineRequest request;
        for (int64_t i = 0; i < tokens; ++i)
          request.token_ids.push_back((7 + 7919 * i) % loaded->model->config().vocabulary_size);
        request.work = ScoreContinuationsWork{.continuations = {{0}}};
        double log_probability = 0;
        const std::string name = directory.substr(directory.rfind('/') + 1);
        std::vector<Ask> asks;
        for (const std::string& peer : peers) {
          asks.push_back({peer, absl::StrCat(peer == "llama.cpp" ? "llama-prefill " : "prefill ", directory, " ",
                                             tokens, " ", DTypeName(dtype))});
        }
        const auto peer_answer =
            Time(Row(section, dtype, absl::StrCat(name, ", ", tokens, " tokens"), "tokens/s", tokens, tokens), asks,
                 [&] { log_probability = RunAll(*loaded->engine, {request}).results[0].log_likelihood; });
        if (!peer_answer.empty() && peer_answer[0].has_value()) {
          BenchRow& row = rows_.back();
          row.right = std::fabs(log_probability - peer_answer[0]->log_probability) <= LogProbabilityErrorMax(dtype);
          std::printf("  log-probability %.5f, the peer's %.5f\n", log_probability, peer_answer[0]->log_probability);
        }
        return true;
      });
    }
  }

  void PlanPrefill(DType dtype) {
    std::vector<std::string> peers = {"transformers"};
    if (!options_.llama_cpp.empty()) peers.push_back("llama.cpp");
    PlanWholePrefill(small_model_, dtype, options_.lengths, peers);
  }

  void PlanModels(DType dtype) {
    for (const std::string& model : options_.models) PlanWholePrefill(model, dtype, {Length(8192)}, {"transformers"});
  }

  // A mixture of experts: 8K prefill and decode behind 2K, beside transformers.
  void PlanExperts(DType dtype) {
    PlanWholePrefill(experts_model_, dtype, {Length(8192)}, {"transformers"});
    PlanDecodeOf(experts_model_, dtype, Length(2048), "transformers");
  }

  // Recurrent layers: the same.
  void PlanHybrid(DType dtype) {
    PlanWholePrefill(hybrid_model_, dtype, {Length(8192)}, {"transformers"});
    PlanDecodeOf(hybrid_model_, dtype, Length(2048), "transformers");
  }

  void PlanDecode(DType dtype) { PlanDecodeOf(small_model_, dtype, Length(16384), "llama.cpp"); }

  // 64 tokens after a cached context: the time of 65 minus that of one, which comes from the end of the prompt. Their
  // log-probabilities must equal those from scoring them as a prompt.
  void PlanDecodeOf(const std::string& directory, DType dtype, int depth, const std::string& peer) {
    Plan(20, [=, this, section = section_] {
      constexpr int kNew = 64;
      auto loaded = Load(directory, dtype, depth, true);
      if (!loaded.has_value()) return false;
      const std::vector<int32_t> context = BenchIds("decode", depth, loaded->model->config().vocabulary_size);
      const auto generate = [&](int count) {
        return RunAll(*loaded->engine,
                      {{.token_ids = context, .work = GenerateWork{.max_new_tokens = count, .ignore_eos = true}}})
            .results[0];
      };
      const EngineResult answer = generate(kNew + 1);
      const EngineResult scored =
          RunAll(*loaded->engine, {{.token_ids = context, .work = ScoreContinuationsWork{{answer.new_token_ids}}}})
              .results[0];
      BenchRow row = Row(section, dtype, absl::StrFormat("%d tokens behind %d", kNew, depth), "tokens/s", kNew, depth);
      for (int i = 0; i <= kNew; ++i) {
        row.right &= std::fabs(answer.new_token_log_probs[i] - scored.continuations[0].token_log_probs[i]) <=
                     LogProbabilityErrorMax(dtype);
      }
      const auto& provenance = loaded->model->provenance();
      if (loaded->model->config().mixture.expert_count == 0) {  // which would read its tokens' experts alone
        row.limited = kNew * static_cast<double>(provenance.weight_bytes + depth / 128 * provenance.page_bytes);
        row.limit = read_bytes_;
      }
      std::vector<Ask> asks;
      const bool is_llama = peer == "llama.cpp";
      if (!(is_llama ? options_.llama_cpp : options_.python).empty()) {
        asks.push_back({peer, absl::StrCat(is_llama ? "llama-decode " : "generate ", directory, " ", depth, " ", kNew,
                                           " ", DTypeName(dtype))});
      }
      const PeerTiming first = TimeOurs([&] { generate(1); });
      Time(row, asks, [&] { generate(kNew + 1); });
      rows_.back().ours.wall_seconds -= first.wall_seconds;
      rows_.back().ours.cpu_seconds -= first.cpu_seconds;
      std::printf("  less the prompt's end: %s\n", BenchLine(rows_.back()).c_str());
      return true;
    });
  }

  // A thousand questions on one cached context against the extrapolated time of as many cold ones; the cold answer must
  // have the same bits.
  void PlanQuestions(DType dtype) {
    Plan(20, [=, this, section = section_] {
      constexpr int kQuestions = 1000;
      const int tokens = Length(16384);
      auto loaded = Load(small_model_, dtype, tokens + 1024, true);
      if (!loaded.has_value()) return false;
      const int64_t vocabulary_size = loaded->model->config().vocabulary_size;
      const auto requests =
          BenchQuestions(std::vector<std::vector<int32_t>>(kQuestions, BenchIds("context", tokens, vocabulary_size)),
                         32, vocabulary_size, 8);
      BenchAnswers cold, warm;
      const PeerTiming alone = TimeOurs([&] { cold = RunAll(*loaded->engine, {requests[0]}); });
      const PeerTiming all = TimeOurs([&] { warm = RunAll(*loaded->engine, requests); });
      BenchRow row = Row(section, dtype, absl::StrFormat("32 tokens behind %d known, 8 new", tokens), "questions/s",
                         kQuestions, tokens);
      row.rounds = 1;
      row.right = cold.results[0].new_token_ids == warm.results[0].new_token_ids &&
                  cold.results[0].new_token_log_probs == warm.results[0].new_token_log_probs;
      row.ours = {"Varifocal", all.wall_seconds, all.cpu_seconds};
      row.peers = {{"cold", kQuestions * alone.wall_seconds, kQuestions * alone.cpu_seconds}};
      Add(std::move(row));
      return true;
    });
  }
};

int Usage(const std::string& why) {
  std::fprintf(stderr,
               "%s\nusage: cpu_bench [--python=PATH [--llama-cpp=DIRECTORY]] [--only=SECTION,..] [--formats=bf16,f32] "
               "[--threads=2] [--rounds=3] [--lengths=2048,8192,16384,32768] [--cpu-isa=NAME] [--model=DIRECTORY].. "
               "[--out=PREFIX]\n",
               why.c_str());
  return 2;
}

int Main(int argc, char** argv) {
  BenchOptions options;
  const std::pair<const char*, std::function<bool(const std::string&)>> kFlags[] = {
      {"--python=", [&](const std::string& value) { return !(options.python = value).empty(); }},
      {"--llama-cpp=", [&](const std::string& value) { return !(options.llama_cpp = value).empty(); }},
      {"--out=", [&](const std::string& value) { return !(options.out = value).empty(); }},
      {"--cpu-isa=", [&](const std::string& value) { return !(options.isa = value).empty(); }},
      {"--only=", [&](const std::string& value) { return !(options.only = absl::StrSplit(value, ',')).empty(); }},
      {"--formats=",
       [&](const std::string& value) {
         options.formats = absl::StrSplit(value, ',');
         return std::all_of(options.formats.begin(), options.formats.end(),
                            [](const std::string& format) { return format == "f32" || format == "bf16"; });
       }},
      {"--model=", [&](const std::string& value) { return !options.models.emplace_back(value).empty(); }},
      {"--threads=",
       [&](const std::string& value) { return absl::SimpleAtoi(value, &options.threads) && options.threads >= 1; }},
      {"--rounds=",
       [&](const std::string& value) { return absl::SimpleAtoi(value, &options.rounds) && options.rounds >= 1; }},
      {"--lengths=",
       [&](const std::string& value) {
         options.lengths.clear();
         for (const absl::string_view length : absl::StrSplit(value, ',')) {
           if (!absl::SimpleAtoi(length, &options.lengths.emplace_back())) return false;
         }
         return std::all_of(options.lengths.begin(), options.lengths.end(),
                            [](int length) { return length >= 512 && length % 512 == 0; });
       }},
  };
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    const auto flag = std::find_if(std::begin(kFlags), std::end(kFlags),
                                   [&](const auto& known) { return absl::ConsumePrefix(&argument, known.first); });
    if (flag == std::end(kFlags)) return Usage(absl::StrCat("unknown argument ", argv[i]));
    if (!flag->second(std::string(argument))) return Usage(absl::StrCat("invalid value: ", argv[i]));
  }
  if (options.python.empty() && !options.llama_cpp.empty()) return Usage("--llama-cpp needs --python, which runs it");
  return CpuBench(options).Run();
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) { return varifocal::Main(argc, argv); }
