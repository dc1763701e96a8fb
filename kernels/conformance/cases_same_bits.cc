// Same bits: chunking, batching, threading and page placement must not change a result.
//
// The control runs prompt rows through the decode kernels, as choosing a kernel by row count would do; its bits must
// differ, or the comparison is vacuous.

#include <algorithm>
#include <cstring>

#include "kernels/conformance/case_tools.h"
#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

// Scores are capped and heads have sinks in the windowed case.
AttentionCase MixedCase(bool windowed) {
  return {.name = "mixed",
          .head_dim = 32,
          .query_heads = 4,
          .kv_heads = 2,
          .sequences = {{300, 4}, {129, 2}, {1, 3}, {128, 1}, {62, 0}},
          .window = windowed ? 100 : 0,
          .row_scales = true,
          .amplitude = 6.0f,  // row maxima change often
          .soft_cap = windowed ? 4.0f : 0.0f,
          .head_sinks = windowed};
}

// Rows of a step around tiles (8, 16), lanes (16, 48) and pages (128).
constexpr int kChunks[] = {1, 2, 7, 129, 16, 47, 48, 100, 49, 128};

std::string CheckChunks(const AttentionCase& c, const AttentionRun& base, const std::vector<int>& chunks,
                        Backend& tested) {
  return SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, c, {.chunks = chunks})),
                         "chunks of " + std::to_string(chunks[0]) + (chunks.size() > 1 ? ", .." : ""));
}

// Every size of chunk over the whole prompts.
std::string CheckEveryChunk(bool windowed, Backend& tested) {
  const AttentionCase c = MixedCase(windowed);
  const AttentionRun base = RunAttentionCase(tested, c, {});
  for (const int chunk : kChunks) {
    RETURN_COMPLAINT(CheckChunks(c, base, {chunk}, tested));
  }
  return "";
}

// Every size of chunk at some place of a prompt: cycles of all sizes, begun at every second; and single rows around a page's end.
std::string CheckWalks(bool windowed, Backend& tested) {
  const AttentionCase c = MixedCase(windowed);
  const AttentionRun base = RunAttentionCase(tested, c, {});
  for (size_t first = 0; first < std::size(kChunks); first += 2) {
    std::vector<int> cycle(kChunks + first, std::end(kChunks));
    cycle.insert(cycle.end(), kChunks, kChunks + first);
    RETURN_COMPLAINT(CheckChunks(c, base, cycle, tested));
  }
  std::vector<int> single_rows(20, 1);
  single_rows[0] = 120;
  RETURN_COMPLAINT(CheckChunks(c, base, single_rows, tested));
  AttentionWalk alone{.one_sequence_at_a_time = true, .page_order_seed = 9};
  RETURN_COMPLAINT(
      SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, c, alone)), "being alone, on other pages"));
  alone.chunks = {33};
  return SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, c, alone)), "being alone, in chunks of 33");
}

std::string CheckThreads(Backend& tested, const BackendOptions& base_options) {
  const AttentionCase c = MixedCase(false);
  const AttentionRun base = RunAttentionCase(tested, c, {});
  for (const int threads : {1, 2, 3}) {
    BackendOptions options = base_options;
    options.thread_count = threads;
    auto other = CreateBackend(options);
    if (!other.ok()) return other.error().message;
    const size_t different = CountDifferentBits(base, RunAttentionCase(**other, c, {.chunks = {64}}));
    if (different != 0) return SameBitsVerdict(different, std::to_string(threads) + " threads");
  }
  return "";
}

// Sequences that reuse another one's first page, against the same tokens computed in full by each.
std::string CheckSharedPage(Backend& tested) {
  const AttentionCase c{
      .name = "shared", .sequences = {{200, 2}, {300, 2}, {129, 3}}, .amplitude = 4.0f, .same_first_page = true};
  AttentionRun full = RunAttentionCase(tested, c, {});
  for (size_t s = 1; s < full.outs.size(); ++s) {
    // A run with a shared page does not compute these rows.
    std::fill_n(full.outs[s].begin(), kPageTokens * c.query_heads * c.head_dim, 0.0f);
    std::fill_n(full.log_sum_exps[s].begin(), kPageTokens * c.query_heads, 0.0f);
  }
  for (const std::vector<int>& chunks : {std::vector{1 << 20}, {50}, {1, 1, 1, 40}}) {
    const AttentionWalk walk{
        .chunks = chunks, .one_sequence_at_a_time = chunks.front() == 50, .share_first_page = true};
    const size_t different = CountDifferentBits(full, RunAttentionCase(tested, c, walk));
    if (different != 0)
      return SameBitsVerdict(different, "a shared first page, chunks of " + std::to_string(chunks[0]) + ", ..");
  }
  return "";
}

// Many short sequences after one shared page, some longer than it, with and without a window: backends may score rows of
// several sequences together. A block of lanes ends inside a sequence, and sequences of one row are batched with
// longer ones.
std::string CheckCascade(bool windowed, Backend& tested) {
  AttentionCase c{
      .name = "cascade",
      .sequences = {{130, 1}, {137, 2}, {129, 1}, {165, 1}, {129, 3}, {168, 1}, {161, 1}, {300, 1}, {140, 1}},
      .window = windowed ? 60 : 0,
      .row_scales = true,
      .amplitude = 5.0f,
      .same_first_page = true};
  const AttentionWalk alone{.one_sequence_at_a_time = true, .share_first_page = true};
  const AttentionRun base = RunAttentionCase(tested, c, alone);
  for (const std::vector<int>& chunks : {std::vector{1 << 20}, {3, 3, 30}, {1, 1, 5, 60}}) {
    const AttentionWalk together{.chunks = chunks, .share_first_page = true, .poison_pages = true};
    const size_t different = CountDifferentBits(base, RunAttentionCase(tested, c, together));
    if (different != 0) return SameBitsVerdict(different, "batching with sequences of the same prefix");
  }
  return "";
}

// Up to 64 sequences decoding in a batch, against each alone.
std::string CheckDecodeBatches(Backend& tested) {
  AttentionCase c{.name = "batches", .head_dim = 16, .query_heads = 2, .kv_heads = 1, .amplitude = 5.0f};
  for (int s = 0; s < 64; ++s) c.sequences.push_back({1 + s * 37 % 140, 2});
  const AttentionRun alone = RunAttentionCase(tested, c, {.one_sequence_at_a_time = true});
  for (const int size : {2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64}) {
    AttentionCase batch = c;
    batch.sequences.resize(size);
    const AttentionRun part{{alone.outs.begin(), alone.outs.begin() + size},
                            {alone.log_sum_exps.begin(), alone.log_sum_exps.begin() + size}};
    const size_t different = CountDifferentBits(part, RunAttentionCase(tested, batch, {}));
    if (different != 0) return SameBitsVerdict(different, "a batch of " + std::to_string(size));
  }
  return "";
}

// Data of another sequence in a page, such as NaN, never affects a result.
std::string CheckLeftOvers(bool windowed, Backend& tested) {
  const AttentionCase c = MixedCase(windowed);
  for (const std::vector<int>& chunks : {std::vector{1 << 20}, {5, 40}}) {
    const AttentionWalk clean{.chunks = chunks}, poisoned{.chunks = chunks, .poison_pages = true};
    const size_t different =
        CountDifferentBits(RunAttentionCase(tested, c, clean), RunAttentionCase(tested, c, poisoned));
    if (different != 0) return SameBitsVerdict(different, "data of another sequence in the pages");
  }
  return "";
}

// Pages that left the window may be freed, -1 in the table, for all chunk sizes.
std::string CheckFreedPages(Backend& tested) {
  const AttentionCase c{.name = "freed", .sequences = {{600, 4}, {129, 2}, {390, 3}}, .window = 130, .amplitude = 4.0f};
  const AttentionRun base = RunAttentionCase(tested, c, {});
  for (const std::vector<int>& chunks : {std::vector{64}, {128}, {200, 1, 1, 55}, {1, 128, 1}}) {
    const AttentionWalk walk{.chunks = chunks, .poison_pages = true, .free_window_pages = true};
    RETURN_COMPLAINT(SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, c, walk)),
                                     "freed pages, chunks of " + std::to_string(chunks[0]) + ", .."));
  }
  return "";
}

std::string CheckControl(Backend& tested) {
  const AttentionCase c = MixedCase(false);
  const size_t different = CountDifferentBits(RunAttentionCase(tested, c, {}),
                                              RunAttentionCase(tested, c, {.decode_kernels_for_prompt = true}));
  return different > 0 ? "" : "decode kernels gave the prompt rows the same bits, so the comparison is vacuous";
}

// Temperature 1 is the baseline: the same scale, so the same bits; a slightly different scale is not.
std::string CheckTemperatureOne(Backend& tested) {
  AttentionCase baseline = MixedCase(false), focal = baseline;
  baseline.row_scales = focal.row_scales = false;
  baseline.scale = 0.17677669529663687;
  focal.scale = FocalScale(0.17677669529663687, 1.0);
  const AttentionRun base = RunAttentionCase(tested, baseline, {});
  RETURN_COMPLAINT(SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, focal, {})), "temperature 1"));
  focal.scale = 0.17677669529663687 / 0.9999;
  return CountDifferentBits(base, RunAttentionCase(tested, focal, {})) > 0 ? "" : "temperature 0.9999 changed nothing";
}

// A sink whose weight rounds to zero is none: it enters the sum alone, once.
std::string CheckSinkOfNoWeight(Backend& tested) {
  const AttentionCase none = MixedCase(false);
  AttentionCase other = none;
  other.sink = -1e30f;
  const AttentionRun base = RunAttentionCase(tested, none, {});
  RETURN_COMPLAINT(
      SameBitsVerdict(CountDifferentBits(base, RunAttentionCase(tested, other, {})), "a sink of no weight"));
  other.sink = 0;
  return CountDifferentBits(base, RunAttentionCase(tested, other, {})) > 0 ? "" : "a sink of 0 changed nothing";
}

// Rows of matrix products, norms and the LM head do not depend on other rows.
std::string CheckRows(Backend& tested) {
  const int width = 100, outputs = 150, rows = 99;
  const std::vector<float> weights = UniformVector(3, width * outputs), x = UniformVector(4, rows * width);
  const HostMatrix matrix = MatrixOf(weights, outputs, width);
  auto weight = tested.CreateWeight({&matrix, 1}, WeightUse::kPlain);
  if (!weight.ok()) return weight.error().message;
  const auto product = [&](int first, int count) {
    PlainStep step(tested, {.model_dim = width}, count);
    auto in = UploadOperands(tested, {x.begin() + first * width, x.begin() + (first + count) * width});
    auto out = EmptyOperands(tested, count * outputs);
    const Error error =
        tested.Linear(*step.workspace, {.x = {in.get(), 0}, .weight = weight->get(), .out = {out.get(), 0}});
    VF_CHECK(error.ok(), "a valid product");
    return DownloadOperands(tested, *out, count * outputs);
  };
  const std::vector<float> all = product(0, rows);
  for (const auto& [first, count] : {std::pair{0, 1}, {50, 1}, {98, 1}, {3, 5}, {1, 97}}) {
    const std::vector<float> part = product(first, count);
    if (std::memcmp(part.data(), all.data() + first * outputs, part.size() * sizeof(float)) != 0) {
      return "rows " + std::to_string(first) + "+" + std::to_string(count) +
             " of a product have other bits when computed alone";
    }
  }
  return "";
}

}  // namespace

std::vector<ConformanceCase> SameBitsCases() {
  return {
      {.name = "same_bits_every_chunk",
       .check = [](Backend& tested, Backend&) { return CheckEveryChunk(false, tested); },
       .is_slow = true},
      {.name = "same_bits_every_chunk_window",
       .check = [](Backend& tested, Backend&) { return CheckEveryChunk(true, tested); },
       .is_slow = true},
      {"same_bits_causal", [](Backend& tested, Backend&) { return CheckWalks(false, tested); }},
      {"same_bits_window", [](Backend& tested, Backend&) { return CheckWalks(true, tested); }},
      {"same_bits_threads",
       [](Backend& tested, Backend&) {
         for (const TestedBackend& row : TestedBackends()) {
           auto same = CreateBackend(row.options);
           if (same.ok() && (*same)->info().name == tested.info().name) return CheckThreads(tested, row.options);
         }
         return std::string("the backend is not in the table");
       }},
      {"same_bits_shared_page", [](Backend& tested, Backend&) { return CheckSharedPage(tested); }},
      {"same_bits_cascade", [](Backend& tested, Backend&) { return CheckCascade(false, tested); }},
      {"same_bits_cascade_window", [](Backend& tested, Backend&) { return CheckCascade(true, tested); }},
      {"same_bits_decode_batches", [](Backend& tested, Backend&) { return CheckDecodeBatches(tested); }},
      {"same_bits_left_overs", [](Backend& tested, Backend&) { return CheckLeftOvers(false, tested); }},
      {"same_bits_left_overs_window", [](Backend& tested, Backend&) { return CheckLeftOvers(true, tested); }},
      {"same_bits_freed_pages", [](Backend& tested, Backend&) { return CheckFreedPages(tested); }},
      {"same_bits_control_differs", [](Backend& tested, Backend&) { return CheckControl(tested); }},
      {"same_bits_temperature_one", [](Backend& tested, Backend&) { return CheckTemperatureOne(tested); }},
      {"same_bits_sink_of_no_weight", [](Backend& tested, Backend&) { return CheckSinkOfNoWeight(tested); }},
      {"same_bits_rows", [](Backend& tested, Backend&) { return CheckRows(tested); }},
  };
}

}  // namespace varifocal::kernels
