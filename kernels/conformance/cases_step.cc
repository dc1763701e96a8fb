// Operations between the steps of a sequence: page copies, for branches of a sequence, and the draw of its next token.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/conformance/case_tools.h"

namespace varifocal::kernels {
namespace {

constexpr int kDim = 32, kKvHeads = 2, kStepHeads = 4, kWidth = 24, kLayers = 3, kPages = 4;

// A pool with learned tau, and a sequence that uses arbitrary pages of it.
class PageWalk {
 public:
  explicit PageWalk(Backend& backend) : backend_(backend) {
    workspace_ = SmallWorkspace(backend, {.row_count_max = kPageTokens,
                                          .context_length_max = kPageTokens,
                                          .model_dim = kWidth,
                                          .query_head_count = kStepHeads,
                                          .kv_head_count = kKvHeads,
                                          .head_dim = kDim});
    pool_ = Take(backend.CreateKvPool(
        {.layer_count = kLayers, .kv_head_count = kKvHeads, .head_dim = kDim, .annotation_bytes = 8}, kPages));
    const int rows = (kStepHeads + 2 * kKvHeads) * kDim;
    for (int layer = 0; layer < kLayers; ++layer) {
      weights_.push_back(
          MakeWeight(backend, UniformVector(500 + layer, rows * kWidth), rows, kWidth, WeightUse::kPlain));
    }
    tau_weight_ = Upload(backend, UniformVector(510, kWidth));
    x_ = EmptyOperands(backend, kPageTokens * kWidth);
    queries_ = Empty(backend, kPageTokens * kStepHeads * kDim);
    scales_ = Empty(backend, kPageTokens);
  }

  // Rows [first, first + count) into `page`, all layers; inputs by `seed`.
  void Write(int page, int first, int count, uint64_t seed) {
    const std::vector<int32_t> table = {page};
    const std::span<const int32_t> tables[] = {table};
    const SequenceRows sequence{
        .row_count = count, .first_position = first, .page_tables = tables, .prompt_row_count = kPageTokens};
    CheckOk(backend_.BeginStep(*workspace_, {.sequences = {&sequence, 1}}));
    WriteOperands(backend_, {x_.get(), 0}, UniformVector(seed, count * kWidth));
    for (int layer = 0; layer < kLayers; ++layer) {
      CheckOk(backend_.FocalTau(*workspace_, {.x = {x_.get(), 0},
                                              .weight = {tau_weight_.get(), 0},
                                              .bias = 4.0f + layer,
                                              .tau_min = 1,
                                              .tau_max = 9,
                                              .pool = pool_.get(),
                                              .layer = layer,
                                              .row_scales = {scales_.get(), 0}}));
      CheckOk(backend_.QkvRopeWrite(*workspace_, {.x = {x_.get(), 0},
                                                  .weight = weights_[layer].get(),
                                                  .query_head_count = kStepHeads,
                                                  .pool = pool_.get(),
                                                  .layer = layer,
                                                  .queries = {queries_.get(), 0}}));
    }
  }

  // 1 / tau of the last layer's rows in the last step, which depends on the running sums before them.
  std::vector<float> Scales(int count) { return Download(backend_, *scales_, count); }

  std::vector<float> Page(int page, int count) {
    const size_t floats = count * kKvHeads * kDim;
    std::vector<float> all(2 * floats * kLayers);
    for (int layer = 0; layer < kLayers; ++layer) {
      float* keys = all.data() + 2 * floats * layer;
      CheckOk(backend_.ReadPage(*pool_, layer, page, count, keys, keys + floats));
    }
    return all;
  }

  Error Copy(int from, int to) { return backend_.CopyPage(*pool_, from, to); }

 private:
  Backend& backend_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<KvPool> pool_;
  std::vector<std::unique_ptr<Weight>> weights_;
  std::unique_ptr<Buffer> tau_weight_, x_, queries_, scales_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Keys, values and the running sums of tau are copied in all layers, after earlier queued operations, to no other page;
// afterwards both pages are independent, and the copy continues as its original would have.
std::string CheckCopyPage(Backend& tested) {
  const int begun = 100, more = 7;
  PageWalk walk(tested);
  for (const int page : {0, 2}) walk.Write(page, 0, begun, 600 + page);
  const std::vector<float> before = walk.Page(0, begun), after = walk.Page(2, begun);
  walk.Write(1, 0, begun, 700);
  if (const Error error = walk.Copy(1, 3); !error.ok()) return error.message;
  if (!SameBits(walk.Page(3, begun), walk.Page(1, begun))) return "the copy differs from the original";
  if (SameBits(walk.Page(3, begun), before)) return "pages of different inputs are equal: nothing was tested";
  if (!SameBits(walk.Page(0, begun), before) || !SameBits(walk.Page(2, begun), after))
    return "another page has changed";
  walk.Write(3, begun, more, 800);
  const std::vector<float> in_copy = walk.Scales(more), copied = walk.Page(3, begun + more);
  walk.Write(1, begun, more, 900);
  if (!SameBits(walk.Page(3, begun + more), copied))
    return "rows written after the copy to the original appear in the copy";
  walk.Write(1, begun, more, 800);
  if (!SameBits(walk.Page(1, begun + more), copied))
    return "rows appended to the copy differ from those appended to the original";
  if (!SameBits(walk.Scales(more), in_copy))
    return "learned temperatures after the copy differ from those of the original";
  return "";
}

// The token's interval of the cumulative distribution over the kept mass (dropped tokens begin at 1): float64, sorted,
// summed sequentially.
struct Stretch {
  double begin = 0, end = 0;
};
Stretch StretchOf(const std::vector<float>& logits, const TokenDraw& draw, int32_t token) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  double total = 0;
  const size_t last = draw.top_k > 0 ? std::min<size_t>(draw.top_k, order.size()) - 1 : order.size() - 1;
  for (const int32_t id : order) {
    weights.push_back(std::exp((static_cast<double>(logits[id]) - logits[order[0]]) / draw.temperature));
    if (logits[id] >= logits[order[last]]) total += weights.back();
  }
  double kept = 0, passed = 0, begin = 0, end = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool is_kept =
        passed < draw.top_p * total * (1 - 1e-9) && weights[i] >= draw.min_p && logits[order[i]] >= logits[order[last]];
    if (i == 0 || is_kept) kept += weights[i];
    if (order[i] == token) begin = passed;
    passed += weights[i];
    if (order[i] == token) end = passed;
  }
  return {begin / kept, end / kept};
}

// Draws over vocabularies around a slice (1,024 and 8,192 tokens), with ties, sharp and flat, with each filter and all: the
// token's interval contains the uniform number, within 1e-6 of the mass, and the returned logit is the token's.
std::string CheckDraw(Backend& tested) {
  constexpr int kRows = 6;
  const double uniforms[kRows] = {0, 0.2, 0.5, 0.77, 0.999, 1 - 0x1p-53};
  const TokenDraw kFilters[] = {{},
                                {.top_p = 0.9},
                                {.top_p = 0.3},
                                {.top_p = 1e-9},
                                {.top_k = 1},
                                {.top_k = 30},
                                {.top_k = 1 << 30},
                                {.min_p = 0.07},
                                {.min_p = 1},
                                {.top_p = 0.8, .top_k = 30},
                                {.top_p = 0.7, .min_p = 0.2, .top_k = 100}};
  for (const int vocab : {1, 2, 255, 1025, 9000}) {
    // Every 50th token has the same logits, so that ties are dropped and drawn.
    std::vector<float> weights(vocab * 16);
    for (int v = 0; v < vocab; ++v) {
      for (int i = 0; i < 16; ++i) weights[v * 16 + i] = Uniform(70 + v % 50, i);
    }
    auto workspace = SmallWorkspace(tested, {.row_count_max = kRows,
                                             .sequence_count_max = kRows,
                                             .head_row_count_max = 2 * kRows,
                                             .context_length_max = 1,
                                             .vocab_size = vocab});
    auto weight = MakeWeight(tested, weights, vocab, 16, WeightUse::kHead);
    auto x = Upload(tested, UniformVector(71, kRows * 16)), norm = Upload(tested, std::vector<float>(16, 1.0f));
    const std::vector<SequenceRows> sequences(kRows, SequenceRows{.row_count = 1});
    for (const double temperature : {0.05, 1.0, 30.0}) {
      for (const TokenDraw& filters : kFilters) {
        CheckOk(tested.BeginStep(*workspace, {.sequences = sequences}));
        std::vector<HeadRow> rows;
        for (int r = 0; r < kRows; ++r) {
          TokenDraw draw = filters;
          draw.temperature = temperature;
          draw.uniform = uniforms[r];
          rows.push_back({.row = r, .logits_slot = 2 * r, .draw = draw});
          rows.push_back({.row = r, .logits_slot = 2 * r + 1});
        }
        std::vector<HeadResult> results(rows.size());
        std::vector<float> logits(rows.size() * vocab);
        CheckOk(tested.LmHead(*workspace, {.residual = {x.get(), 0},
                                           .norm_weight = {norm.get(), 0},
                                           .norm_epsilon = 1e-5f,
                                           .weight = weight.get(),
                                           .rows = rows,
                                           .results = results,
                                           .logits = logits.data()}));
        for (int r = 0; r < kRows; ++r) {
          const DrawnToken drawn = results[2 * r].drawn;
          const auto own = logits.begin() + static_cast<std::ptrdiff_t>(2 * r + 1) * vocab;
          const std::vector<float> row(own, own + vocab);
          const std::string what = "token " + std::to_string(drawn.token) + " of " + std::to_string(vocab) +
                                   " at temperature " + std::to_string(temperature) + ", top_k " +
                                   std::to_string(filters.top_k) + ", top_p " + std::to_string(filters.top_p) +
                                   ", min_p " + std::to_string(filters.min_p) + ", uniform " +
                                   std::to_string(uniforms[r]);
          if (drawn.token < 0 || drawn.token >= vocab) return what + " is outside the vocabulary";
          if (drawn.logit != row[drawn.token]) return what + " is returned with another logit";
          const Stretch stretch = StretchOf(row, rows[2 * r].draw, drawn.token);
          if (uniforms[r] < stretch.begin - 1e-6 || uniforms[r] > stretch.end + 1e-6)
            return what + " has the interval " + std::to_string(stretch.begin) + " to " + std::to_string(stretch.end);
          if (results[2 * r + 1].drawn.token != -1) return "a token was drawn for a row without a draw";
          if (results[2 * r].argmax != results[2 * r + 1].argmax) return "a draw changed the best token";
        }
      }
    }
  }
  return "";
}

// Drawing from logits that are not finite is safe; the result is marked not finite.
std::string CheckDrawNotFinite(Backend& tested) {
  PlainStep step(tested, SmallStep({.vocab_size = 40}), 1);
  std::vector<float> weights(40 * 16, 1.0f);
  weights[5 * 16] = 3e38f;
  weights[5 * 16 + 1] = 3e38f;
  auto weight = MakeWeight(tested, weights, 40, 16, WeightUse::kHead);
  auto x = Upload(tested, std::vector<float>(16, 1.0f)), norm = Upload(tested, std::vector<float>(16, 1.0f));
  const HeadRow row{.logits_slot = 0, .draw = {.temperature = 1, .uniform = 0.5}};
  HeadResult result;
  std::vector<float> logits(40);
  CheckOk(tested.LmHead(*step.workspace, {.residual = {x.get(), 0},
                                          .norm_weight = {norm.get(), 0},
                                          .norm_epsilon = 1e-5f,
                                          .weight = weight.get(),
                                          .rows = {&row, 1},
                                          .results = {&result, 1},
                                          .logits = logits.data()}));
  return result.finite ? "an infinite logit was reported as finite" : "";
}

}  // namespace

std::vector<ConformanceCase> StepCases() {
  return {{"copy_page", [](Backend& tested, Backend&) { return CheckCopyPage(tested); }},
          {"draw", [](Backend& tested, Backend&) { return CheckDraw(tested); }},
          {"draw_not_finite", [](Backend& tested, Backend&) { return CheckDrawNotFinite(tested); }}};
}

}  // namespace varifocal::kernels
