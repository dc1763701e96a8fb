// Operations that depend on positions, heads and tokens, against the oracle: projections with rotation, learned tau, the
// LM head; and inputs that must be rejected.

#include <algorithm>
#include <cmath>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"

namespace varifocal::kernels {
namespace {

enum class QkNorm { kNone, kPerHead, kOverWidth, kPerHeadAfterRotation };

// q, k, v with biases, norms and rotations; k and v are read back from the page.
std::string CheckQkv(int dim, Backend& tested, Backend& oracle) {
  const int heads = 4, kv_heads = 2, width = 40, rows = 21, first = 120, total = (heads + 2 * kv_heads) * dim;
  const auto weights = UniformVector(41, total * width), x = UniformVector(42, rows * width);
  const auto bias = UniformVector(43, total), query_norm = UniformVector(44, heads * dim),
             key_norm = UniformVector(45, kv_heads * dim);
  for (const auto& [rotary, norms, clip] : {std::tuple{0, QkNorm::kNone, 0.0f},
                                            {dim, QkNorm::kNone, 0.0f},
                                            {dim / 2, QkNorm::kPerHead, 0.0f},
                                            {dim / 4, QkNorm::kNone, 0.0f},
                                            {dim, QkNorm::kPerHead, 0.0f},
                                            {dim, QkNorm::kOverWidth, 0.0f},
                                            {dim, QkNorm::kPerHeadAfterRotation, 0.0f},
                                            {0, QkNorm::kOverWidth, 0.0f},
                                            {dim / 2, QkNorm::kNone, 2.0f},
                                            {dim, QkNorm::kOverWidth, 0.25f}}) {
    std::vector<float> cosines, sines;
    for (int i = 0; i < (first + rows) * rotary / 2; ++i) {
      const double angle = (i / (rotary / 2)) * std::pow(1e4, -2.0 * (i % (rotary / 2)) / rotary);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
    // A sum of 40 terms; a norm of numbers of size 3 with weights below 1 does not increase the error; a rotation adds two.
    // In bf16 pages round their contents, at most 41 in size.
    const double tolerance = 4 * SumTolerance(width + 1, 1.0) + 64 * kUnit + 41 * OperandUnit(tested);
    RETURN_COMPLAINT(Both(
        tested, oracle, tolerance, "qkv with rotary width " + std::to_string(rotary),
        [&, rotary = rotary, norms = norms, clip = clip](Backend& backend) {
          auto workspace = SmallWorkspace(backend, {.row_count_max = rows,
                                                    .context_length_max = 200,
                                                    .model_dim = width,
                                                    .query_head_count = heads,
                                                    .kv_head_count = kv_heads,
                                                    .head_dim = dim});
          auto pool = Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = kv_heads, .head_dim = dim}, 3));
          const std::vector<int32_t> table = {2, 0};
          const std::span<const int32_t> tables[] = {table};
          const SequenceRows sequence{.row_count = rows, .first_position = first, .page_tables = tables};
          CheckOk(backend.BeginStep(*workspace, {.sequences = {&sequence, 1}}));
          auto weight = MakeWeight(backend, weights, total, width, WeightUse::kPlain);
          auto in = UploadOperands(backend, ProductInput(backend, x)), b = Upload(backend, bias),
               query_weight = Upload(backend, query_norm), key_weight = Upload(backend, key_norm),
               queries = Empty(backend, rows * heads * dim);
          QkvRopeWriteArgs args{.x = {in.get(), 0},
                                .weight = weight.get(),
                                .bias = {b.get(), 0},
                                .norm_epsilon = 1e-6f,
                                .clip = clip,
                                .query_head_count = heads,
                                .pool = pool.get(),
                                .queries = {queries.get(), 0}};
          if (norms != QkNorm::kNone) {
            args.query_norm = {query_weight.get(), 0};
            args.key_norm = {key_weight.get(), 0};
            args.norm_over_width = norms == QkNorm::kOverWidth;
            args.norm_after_rotation = norms == QkNorm::kPerHeadAfterRotation;
          }
          std::unique_ptr<RopeTable> rope;
          const RopeTable* ropes[1];
          if (rotary > 0) {
            rope = Take(backend.CreateRopeTable({cosines, sines, first + rows, rotary}));
            ropes[0] = rope.get();
            args.rope_tables = ropes;
          }
          CheckOk(backend.QkvRopeWrite(*workspace, args));
          std::vector<float> all = Download(backend, *queries, rows * heads * dim);
          for (const int page : {2, 0}) {
            std::vector<float> keys(kPageTokens * kv_heads * dim), values(keys.size());
            CheckOk(backend.ReadPage(*pool, 0, page, kPageTokens, keys.data(), values.data()));
            all.insert(all.end(), keys.begin(), keys.end());
            all.insert(all.end(), values.begin(), values.end());
          }
          return all;
        }));
  }
  return "";
}

// Every mode of the mean, over two steps, with rows at both bounds; scales and counts.
std::string CheckTau(TauMean mean, Backend& tested, Backend& oracle) {
  const int width = 48, rows = 150;
  const auto weight = UniformVector(51, width), x = UniformVector(52, WideProduct(rows + 3, width));
  // The error of tau is that of the dot product of 48 terms (also of the mean); 1/tau, tau >= 3, a ninth of that.
  const double tolerance = SumTolerance(width, 1.0) / 9 + 2 * kUnit;
  return Both(tested, oracle, tolerance, "tau", [&](Backend& backend) {
    auto workspace = Take(backend.CreateWorkspace(OneHeadStep(rows, 200, width)));
    auto pool =
        Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = 1, .head_dim = 16, .annotation_bytes = 8}, 2));
    const std::vector<int32_t> table = {1, 0};
    const std::span<const int32_t> tables[] = {table};
    auto w = Upload(backend, weight), scales = Empty(backend, rows), counts = Empty(backend, 2);
    std::vector<float> all;
    // `sequence` needs the whole prompt in one step; the other modes are split at 70, inside a page.
    std::vector<std::pair<int, int>> steps = {{0, 70}, {70, 80}, {150, 1}, {151, 1}, {152, 1}};
    if (mean == TauMean::kSequence) steps = {{0, 150}, {150, 1}, {151, 1}, {152, 1}};
    for (const auto& [first, count] : steps) {
      const SequenceRows sequence{
          .row_count = count, .first_position = first, .page_tables = tables, .prompt_row_count = 150};
      const Phase phase = first < 150 ? Phase::kPrefill : Phase::kDecode;
      CheckOk(backend.BeginStep(*workspace, {.phase = phase, .sequences = {&sequence, 1}}));
      auto in = UploadOperands(backend,
                               ProductInput(backend, {x.begin() + first * width, x.begin() + (first + count) * width}));
      CheckOk(backend.FocalTau(*workspace, {.x = {in.get(), 0},
                                            .weight = {w.get(), 0},
                                            .bias = 4.0f,
                                            .tau_min = 3.0f,
                                            .tau_max = 6.5f,
                                            .mean = mean,
                                            .pool = pool.get(),
                                            .row_scales = {scales.get(), 0},
                                            .bound_counts = {counts.get(), 0}}));
      const std::vector<float> some = Download(backend, *scales, count);
      all.insert(all.end(), some.begin(), some.end());
    }
    uint32_t bounds[2];
    CheckOk(backend.Read(bounds, {counts.get(), 0}, sizeof bounds));
    all.push_back(bounds[0]);
    all.push_back(bounds[1]);
    return all;
  });
}

std::string CheckSequenceTauRefusesChunks(Backend& tested) {
  auto workspace = SmallWorkspace(tested, {.row_count_max = 8, .context_length_max = 64});
  auto pool =
      Take(tested.CreateKvPool({.layer_count = 1, .kv_head_count = 1, .head_dim = 16, .annotation_bytes = 8}, 1));
  const std::vector<int32_t> table = {0};
  const std::span<const int32_t> tables[] = {table};
  const SequenceRows sequence{.row_count = 8, .first_position = 0, .page_tables = tables, .prompt_row_count = 9};
  CheckOk(tested.BeginStep(*workspace, {.sequences = {&sequence, 1}}));
  auto x = Empty(tested, 8 * 16), scales = Empty(tested, 8);
  const Error error = tested.FocalTau(*workspace, {.x = {x.get(), 0},
                                                   .weight = {x.get(), 0},
                                                   .tau_min = 1,
                                                   .tau_max = 2,
                                                   .mean = TauMean::kSequence,
                                                   .pool = pool.get(),
                                                   .row_scales = {scales.get(), 0}});
  return error.code == ErrorCode::kInvalidArgument
             ? ""
             : "8 of 9 prompt rows in a step were accepted for the mean over the sequence";
}

// Log-probabilities, the best two tokens and full logits, for vocabularies around a slice (1,024) and a panel (64).
std::string CheckLmHead(Backend& tested, Backend& oracle) {
  const int width = 48, rows = 30;
  for (const int vocab : {1, 2, 63, 64, 65, 1023, 1024, 1025, 2048, 3000}) {
    const auto weights = UniformVector(61, vocab * width), x = UniformVector(62, rows * width),
               norm = UniformVector(63, width, 2.0f), norm_bias = UniformVector(64, width),
               bias = UniformVector(65, vocab);
    // Logits sum 48 products below 5 (a norm of at most about 2 times 2, and a bias of 1); the rest rounds once each.
    // In bf16 the normed row rounds before the product, and a log-probability is a difference of two logits.
    const double tolerance = 2 * SumTolerance(width, 5.0) + 32 * kUnit + 2 * OperandUnit(tested) * width * 5.0;
    for (const auto& [cap, kind] :
         {std::pair{0.0f, NormKind::kRms}, {5.0f, NormKind::kRms}, {0.0f, NormKind::kLayer}}) {
      RETURN_COMPLAINT(Both(
          tested, oracle, tolerance, "lm_head over " + std::to_string(vocab),
          [&, cap = cap, kind = kind](Backend& backend) {
            PlainStep step(backend,
                           SmallStep({.head_row_count_max = rows + 5, .model_dim = width, .vocab_size = vocab}), rows);
            auto weight = MakeWeight(backend, weights, vocab, width, WeightUse::kHead);
            auto in = Upload(backend, x), n = Upload(backend, norm), b = Upload(backend, norm_bias),
                 of_logits = Upload(backend, bias);
            std::vector<HeadRow> asked;
            for (int r = 0; r < rows; ++r)
              asked.push_back(
                  {.row = rows - 1 - r, .target = r % 3 == 0 ? -1 : (r * 37) % vocab, .logits_slot = r < 2 ? r : -1});
            asked.push_back({.row = 3, .target = vocab - 1});
            asked.push_back({.row = 3, .target = 0});
            std::vector<HeadResult> results(asked.size());
            std::vector<float> logits(2 * vocab);
            const Slice maybe_bias = kind == NormKind::kLayer ? Slice{b.get(), 0} : Slice{};
            const Slice maybe_of_logits = kind == NormKind::kLayer ? Slice{of_logits.get(), 0} : Slice{};
            CheckOk(backend.LmHead(*step.workspace, {.residual = {in.get(), 0},
                                                     .norm_kind = kind,
                                                     .norm_weight = {n.get(), 0},
                                                     .norm_bias = maybe_bias,
                                                     .norm_epsilon = 1e-5f,
                                                     .weight = weight.get(),
                                                     .bias = maybe_of_logits,
                                                     .logit_multiplier = 0.5f,
                                                     .logit_soft_cap = cap,
                                                     .rows = asked,
                                                     .results = results,
                                                     .logits = logits.data()}));
            std::vector<float> all = logits;
            for (const HeadResult& r : results) {
              all.insert(all.end(),
                         {r.log_sum_exp, r.target_log_probability, r.argmax_logit,
                          // In bf16 near ties may resolve either way.
                          OperandUnit(backend) == 0 ? static_cast<float>(r.argmax) : 0.0f, r.finite ? 1.0f : 0.0f});
              all.push_back(vocab > 1 ? r.runner_up_logit : 0.0f);
            }
            return all;
          }));
    }
  }
  return "";
}

std::string CheckLmHeadTies(Backend& tested) {
  // Four equal logits among 2,048: the lowest id wins and the runner-up ties with it.
  const int vocab = 2048;
  std::vector<float> weights(vocab * 16, 0.0f), x(16, 1.0f);
  for (const int v : {70, 1030, 1500, 2047}) weights[v * 16] = 3.0f;
  PlainStep step(tested, SmallStep({.vocab_size = vocab}), 1);
  auto weight = MakeWeight(tested, weights, vocab, 16, WeightUse::kHead);
  auto in = Upload(tested, x);
  const HeadRow row{};
  HeadResult result;
  CheckOk(tested.LmHead(*step.workspace, {.residual = {in.get(), 0},
                                          .norm_weight = {in.get(), 0},
                                          .weight = weight.get(),
                                          .rows = {&row, 1},
                                          .results = {&result, 1}}));
  if (result.argmax != 70) return "argmax among equals is " + std::to_string(result.argmax) + ", not the lowest id, 70";
  return result.runner_up_logit == result.argmax_logit ? "" : "the runner-up of a tie is lower than the best";
}

std::string CheckCancel(Backend& tested) {
  PlainStep plain(tested, {.model_dim = 16}, 4);
  auto workspace = SmallWorkspace(tested, {.row_count_max = 4, .context_length_max = 64});
  auto pool = Take(tested.CreateKvPool({.layer_count = 1, .kv_head_count = 1, .head_dim = 16}, 1));
  const std::vector<int32_t> table = {0};
  const std::span<const int32_t> tables[] = {table};
  const SequenceRows sequence{.row_count = 4, .page_tables = tables};
  const std::vector<RowInterval> rows = {{0, 1}, {0, 2}, {0, 3}, {0, 4}};
  const std::span<const RowInterval> mask = rows;
  const std::atomic<bool> cancelled{true};
  CheckOk(tested.BeginStep(*workspace, {.sequences = {&sequence, 1}, .masks = {&mask, 1}, .cancelled = &cancelled}));
  auto q = Empty(tested, 64), out = Empty(tested, 64);
  const Error error = tested.Attend(
      *workspace, {.queries = {q.get(), 0}, .query_head_count = 1, .pool = pool.get(), .out = {out.get(), 0}});
  return error.code == ErrorCode::kCancelled ? "" : "attention continued although the step was cancelled";
}

std::string CheckRefusals(Backend& tested) {
  auto workspace = SmallWorkspace(tested, {.row_count_max = 4, .context_length_max = 64});
  const SequenceRows sequence{.row_count = 5};
  if (tested.BeginStep(*workspace, {.sequences = {&sequence, 1}}).ok())
    return "5 rows were accepted in a workspace of 4";
  const SequenceRows far{.row_count = 1, .first_position = 64};
  if (tested.BeginStep(*workspace, {.sequences = {&far, 1}}).ok())
    return "position 64 was accepted in a workspace of 64 positions";
  const SequenceRows two{.row_count = 2};
  if (tested.BeginStep(*workspace, {.phase = Phase::kDecode, .sequences = {&two, 1}}).ok())
    return "two rows of a sequence were accepted in a decode step";
  const std::vector<float> data(6);
  const HostMatrix parts[] = {MatrixOf(data, 2, 3), MatrixOf(data, 3, 2)};
  if (tested.CreateWeight(parts, WeightUse::kPlain).ok()) return "parts of 3 and 2 columns were stacked";
  return "";
}

}  // namespace

std::vector<ConformanceCase> ModelCases() {
  return {
      {"qkv_rope_write", [](Backend& tested, Backend& oracle) { return CheckQkv(32, tested, oracle); }},
      {"qkv_rope_write_head_dim_8", [](Backend& tested, Backend& oracle) { return CheckQkv(8, tested, oracle); }, 8},
      {"qkv_rope_write_head_dim_40", [](Backend& tested, Backend& oracle) { return CheckQkv(40, tested, oracle); }, 40},
      {"tau_causal", [](Backend& tested, Backend& oracle) { return CheckTau(TauMean::kCausal, tested, oracle); }},
      {"tau_token", [](Backend& tested, Backend& oracle) { return CheckTau(TauMean::kToken, tested, oracle); }},
      {"tau_sequence", [](Backend& tested, Backend& oracle) { return CheckTau(TauMean::kSequence, tested, oracle); }},
      {"tau_sequence_refuses_chunks", [](Backend& tested, Backend&) { return CheckSequenceTauRefusesChunks(tested); }},
      {"lm_head", CheckLmHead},
      {"lm_head_ties", [](Backend& tested, Backend&) { return CheckLmHeadTies(tested); }},
      {"cancel", [](Backend& tested, Backend&) { return CheckCancel(tested); }},
      {"refusals", [](Backend& tested, Backend&) { return CheckRefusals(tested); }},
  };
}

}  // namespace varifocal::kernels
