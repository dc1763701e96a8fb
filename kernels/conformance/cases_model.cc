// Everything but attention, against the oracle: embedding, norms, projections with rotation, products, tau, the LM
// head.

#include <algorithm>
#include <cmath>

#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

template <typename T>
T Take(Result<T> result) {
  VF_CHECK(result.ok(), "a small thing must be had");
  return std::move(*result);
}

std::unique_ptr<Weight> MakeWeight(Backend& backend, const std::vector<float>& data, int64_t rows, int64_t columns,
                                   WeightUse use) {
  const HostMatrix matrix = MatrixOf(data, rows, columns);
  return Take(backend.CreateWeight({&matrix, 1}, use));
}

// A sum of `terms` products of numbers below `product`: every term and every addition rounds once.
double SumTolerance(int terms, double product) { return (terms + 2) * kUnit * terms * product; }

// Runs the same function on both backends and compares what it returns.
template <typename Run>
std::string Both(Backend& tested, Backend& oracle, double tolerance, const std::string& what, const Run& run) {
  return CompareWithin(run(tested), run(oracle), tolerance, what);
}

// Sizes around register tiles (6 rows, 16 lanes), panels (64) and row blocks (96).
std::string CheckLinear(Backend& tested, Backend& oracle) {
  for (const auto& [rows, inner, outputs] : {std::tuple{1, 1, 1},
                                             {1, 16, 64},
                                             {2, 17, 63},
                                             {5, 128, 65},
                                             {6, 352, 128},
                                             {7, 64, 129},
                                             {96, 33, 40},
                                             {97, 48, 70},
                                             {200, 130, 200}}) {
    const auto weights = UniformVector(1, static_cast<size_t>(inner) * outputs),
               x = UniformVector(2, static_cast<size_t>(rows) * inner);
    const auto bias = UniformVector(5, outputs), base = UniformVector(6, static_cast<size_t>(rows) * outputs);
    for (const int mode : {0, 1, 2}) {
      const std::string what = "linear " + std::to_string(rows) + "x" + std::to_string(inner) + "x" +
                               std::to_string(outputs) + " mode " + std::to_string(mode);
      // The residual's multiplier of 0.5 and its addition round once more each.
      const std::string error = Both(tested, oracle, SumTolerance(inner + 2, 1.0), what, [&](Backend& backend) {
        PlainStep step(backend, {.model_dim = inner}, rows);
        auto weight = MakeWeight(backend, weights, outputs, inner, WeightUse::kPlain);
        auto in = Upload(backend, ProductInput(backend, x)), out = Upload(backend, base), b = Upload(backend, bias);
        const Slice maybe_bias = mode == 0 ? Slice{} : Slice{b.get(), 0};
        const Error failed =
            mode < 2 ? backend.Linear(
                           *step.workspace,
                           {.x = {in.get(), 0}, .weight = weight.get(), .bias = maybe_bias, .out = {out.get(), 0}})
                     : backend.LinearResidual(*step.workspace, {.x = {in.get(), 0},
                                                                .weight = weight.get(),
                                                                .bias = maybe_bias,
                                                                .multiplier = 0.5f,
                                                                .residual = {out.get(), 0}});
        VF_CHECK(failed.ok(), "a valid product");
        return Download(backend, *out, base.size());
      });
      if (!error.empty()) return error;
    }
  }
  return "";
}

// |silu'| and |gelu'| stay below 1.13, the other factor below the sum; products of two sums of `inner` terms.
std::string CheckGated(Backend& tested, Backend& oracle) {
  for (const auto& [rows, inner, width] : {std::tuple{1, 16, 32}, {3, 20, 31}, {8, 128, 352}, {97, 64, 33}}) {
    const auto weights = UniformVector(11, static_cast<size_t>(inner) * 2 * width),
               x = UniformVector(12, static_cast<size_t>(rows) * inner, 4.0f);
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      const double sum = 4.0 * inner, error_of_sum = SumTolerance(inner, 4.0);
      const double tolerance = 2.2 * error_of_sum * sum + 1e-6 * sum * sum;
      const std::string error = Both(
          tested, oracle, tolerance, "gated " + std::to_string(rows) + "x" + std::to_string(width),
          [&](Backend& backend) {
            PlainStep step(backend, {.model_dim = inner}, rows);
            auto weight = MakeWeight(backend, weights, 2 * width, inner, WeightUse::kGateUp);
            auto in = Upload(backend, ProductInput(backend, x)),
                 out = Empty(backend, static_cast<size_t>(rows) * width);
            VF_CHECK(
                backend
                    .LinearGated(
                        *step.workspace,
                        {.x = {in.get(), 0}, .weight = weight.get(), .activation = activation, .out = {out.get(), 0}})
                    .ok(),
                "valid");
            return Download(backend, *out, static_cast<size_t>(rows) * width);
          });
      if (!error.empty()) return error;
    }
  }
  return "";
}

// silu(x) alone, over its whole range, by a weight that passes x through: relative to |x|, 3e-7 of exp2 and 3
// roundings.
std::string CheckActivations(Backend& tested, Backend& oracle) {
  std::vector<float> x;
  for (float v = -120; v <= 120; v += 0.37f) x.push_back(v);
  const std::vector<float> weights = {1, 0, 0, 1};  // gate passes x, up passes 1
  std::vector<float> inputs;
  for (const float v : x) inputs.insert(inputs.end(), {v, 1.0f});
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    const std::string error = Both(tested, oracle, 120 * 6e-7, "activation", [&](Backend& backend) {
      PlainStep step(backend, {.model_dim = 2}, static_cast<int>(x.size()));
      auto weight = MakeWeight(backend, weights, 2, 2, WeightUse::kGateUp);
      auto in = Upload(backend, ProductInput(backend, inputs)), out = Empty(backend, x.size());
      VF_CHECK(backend
                   .LinearGated(
                       *step.workspace,
                       {.x = {in.get(), 0}, .weight = weight.get(), .activation = activation, .out = {out.get(), 0}})
                   .ok(),
               "valid");
      return Download(backend, *out, x.size());
    });
    if (!error.empty()) return error;
  }
  return "";
}

// Inputs of about unit size make a norm of about unit size: the sum of squares errs by width u, halved by the root.
std::string CheckRmsNorm(Backend& tested, Backend& oracle) {
  for (const auto& [rows, width] : {std::pair{1, 1}, {3, 15}, {17, 16}, {33, 128}, {5, 2560}}) {
    for (const bool fused : {false, true}) {
      const auto x = UniformVector(21, static_cast<size_t>(rows) * width), delta = UniformVector(22, x.size()),
                 weight = UniformVector(23, width);
      const std::string error =
          Both(tested, oracle, 4.0 * (width + 8) * kUnit, "rms_norm of width " + std::to_string(width),
               [&](Backend& backend) {
                 PlainStep step(backend, {.model_dim = width}, rows);
                 auto in = Upload(backend, x), d = Upload(backend, delta), w = Upload(backend, weight),
                      out = Empty(backend, x.size());
                 RmsNormArgs args{.x = {in.get(), 0}, .weight = {w.get(), 0}, .epsilon = 1e-5f, .out = {out.get(), 0}};
                 if (fused) args.delta = {d.get(), 0};
                 VF_CHECK(backend.RmsNorm(*step.workspace, args).ok(), "valid");
                 std::vector<float> both = Download(backend, *out, x.size()), sum = Download(backend, *in, x.size());
                 both.insert(both.end(), sum.begin(), sum.end());
                 return both;
               });
      if (!error.empty()) return error;
    }
  }
  return "";
}

// A tied table is gathered exactly, whatever its packing; and formats widen exactly.
std::string CheckEmbed(Backend& tested, Backend& oracle) {
  const int vocab = 130, width = 70;
  const auto table = UniformVector(31, static_cast<size_t>(vocab) * width);
  std::vector<uint16_t> halves(table.size());
  for (size_t i = 0; i < table.size(); ++i) halves[i] = RoundToBF16(table[i]);
  const std::vector<int32_t> tokens = {0, 129, 63, 64, 65, 127, 128, 1, 1};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const HostMatrix matrix{dtype, dtype == DType::kF32 ? static_cast<const void*>(table.data()) : halves.data(), vocab,
                            width};
    // The bf16 patterns read as f16 are other numbers, and all that matters is that both sides read the same ones.
    const std::string error =
        Both(tested, oracle, 0.0, std::string("embedding from ") + DTypeName(dtype), [&](Backend& backend) {
          PlainStep step(backend, {.model_dim = width}, static_cast<int>(tokens.size()));
          auto weight = Take(backend.CreateWeight({&matrix, 1}, WeightUse::kEmbeddingAndHead));
          auto out = Empty(backend, tokens.size() * width);
          VF_CHECK(backend
                       .Embed(*step.workspace,
                              {.table = weight.get(), .tokens = tokens, .multiplier = 2.0f, .out = {out.get(), 0}})
                       .ok(),
                   "valid");
          return Download(backend, *out, tokens.size() * width);
        });
    if (!error.empty()) return error;
  }
  return "";
}

// q, k, v with biases, per-head norms and rotations; k and v are read back from the page.
std::string CheckQkv(Backend& tested, Backend& oracle) {
  const int heads = 3, kv_heads = 1, dim = 32, width = 40, rows = 21, first = 120, total = (heads + 2 * kv_heads) * dim;
  const auto weights = UniformVector(41, static_cast<size_t>(total) * width),
             x = UniformVector(42, static_cast<size_t>(rows) * width);
  const auto bias = UniformVector(43, total), norm = UniformVector(44, dim);
  for (const auto& [rotary, interleaved, normed] :
       {std::tuple{0, false, false}, {dim, false, false}, {dim, true, false}, {16, false, true}, {dim, false, true}}) {
    std::vector<float> cosines, sines;
    for (int i = 0; i < (first + rows) * rotary / 2; ++i) {
      const double angle = (i / (rotary / 2)) * std::pow(1e4, -2.0 * (i % (rotary / 2)) / rotary);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
    // A sum of 40 terms; a norm of numbers of size 3 with weights below 1 keeps the error's size; a rotation adds two.
    // In bf16 pages round what they keep, at most 41 in size.
    const double tolerance = 4 * SumTolerance(width + 1, 1.0) + 64 * kUnit + 41 * OperandUnit(tested);
    const std::string error =
        Both(tested, oracle, tolerance, "qkv with rotary width " + std::to_string(rotary), [&](Backend& backend) {
          StepShape shape{.row_count_max = rows,
                          .sequence_count_max = 1,
                          .head_row_count_max = 1,
                          .context_length_max = 200,
                          .model_dim = width,
                          .query_head_count = heads,
                          .kv_head_count = kv_heads,
                          .head_dim = dim,
                          .ffn_dim = 16,
                          .vocab_size = 16};
          auto workspace = Take(backend.CreateWorkspace(shape));
          auto pool = Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = kv_heads, .head_dim = dim}, 3));
          const std::vector<int32_t> table = {2, 0};
          const std::span<const int32_t> tables[] = {table};
          const SequenceRows sequence{.row_count = rows, .first_position = first, .page_tables = tables};
          VF_CHECK(backend.BeginStep(*workspace, {.sequences = {&sequence, 1}}).ok(), "valid");
          auto weight = MakeWeight(backend, weights, total, width, WeightUse::kPlain);
          auto in = Upload(backend, ProductInput(backend, x)), b = Upload(backend, bias), n = Upload(backend, norm),
               queries = Empty(backend, rows * heads * dim);
          QkvRopeWriteArgs args{.x = {in.get(), 0},
                                .weight = weight.get(),
                                .bias = {b.get(), 0},
                                .norm_epsilon = 1e-6f,
                                .query_head_count = heads,
                                .pool = pool.get(),
                                .queries = {queries.get(), 0}};
          if (normed) args.query_norm = args.key_norm = {n.get(), 0};
          std::unique_ptr<RopeTable> rope;
          const RopeTable* ropes[1];
          if (rotary > 0) {
            rope = Take(backend.CreateRopeTable({cosines, sines, first + rows, rotary, interleaved}));
            ropes[0] = rope.get();
            args.rope_tables = ropes;
          }
          VF_CHECK(backend.QkvRopeWrite(*workspace, args).ok(), "valid");
          std::vector<float> all = Download(backend, *queries, rows * heads * dim);
          for (const int page : {2, 0}) {
            std::vector<float> keys(kPageTokens * kv_heads * dim), values(keys.size());
            VF_CHECK(backend.ReadPage(*pool, 0, page, kPageTokens, keys.data(), values.data()).ok(), "valid");
            all.insert(all.end(), keys.begin(), keys.end());
            all.insert(all.end(), values.begin(), values.end());
          }
          return all;
        });
    if (!error.empty()) return error;
  }
  return "";
}

// Every reading of the mean, over two steps, with rows at both bounds; scales and counts.
std::string CheckTau(TauMean mean, Backend& tested, Backend& oracle) {
  const int width = 48, rows = 150;
  const auto weight = UniformVector(51, width), x = UniformVector(52, static_cast<size_t>(rows + 3) * width);
  // tau errs by the dot product of 48 terms (the mean no more); 1/tau, tau >= 3, by a ninth of that.
  const double tolerance = SumTolerance(width, 1.0) / 9 + 2 * kUnit;
  return Both(tested, oracle, tolerance, "tau", [&](Backend& backend) {
    StepShape shape{.row_count_max = rows,
                    .sequence_count_max = 1,
                    .head_row_count_max = 1,
                    .context_length_max = 200,
                    .model_dim = width,
                    .query_head_count = 1,
                    .kv_head_count = 1,
                    .head_dim = 16,
                    .ffn_dim = 16,
                    .vocab_size = 16};
    auto workspace = Take(backend.CreateWorkspace(shape));
    auto pool =
        Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = 1, .head_dim = 16, .has_tau_sums = true}, 2));
    const std::vector<int32_t> table = {1, 0};
    const std::span<const int32_t> tables[] = {table};
    auto w = Upload(backend, weight), scales = Empty(backend, rows), counts = Empty(backend, 2);
    std::vector<float> all;
    // `sequence` needs its prompt whole; the other readings are cut at 70, inside a page.
    std::vector<std::pair<int, int>> steps = {{0, 70}, {70, 80}, {150, 1}, {151, 1}, {152, 1}};
    if (mean == TauMean::kSequence) steps = {{0, 150}, {150, 1}, {151, 1}, {152, 1}};
    for (const auto& [first, count] : steps) {
      const SequenceRows sequence{
          .row_count = count, .first_position = first, .page_tables = tables, .prompt_row_count = 150};
      const Phase phase = first < 150 ? Phase::kPrefill : Phase::kDecode;
      VF_CHECK(backend.BeginStep(*workspace, {.phase = phase, .sequences = {&sequence, 1}}).ok(), "valid");
      auto in = Upload(backend, {x.begin() + first * width, x.begin() + (first + count) * width});
      VF_CHECK(backend
                   .FocalTau(*workspace, {.x = {in.get(), 0},
                                          .weight = {w.get(), 0},
                                          .bias = 4.0f,
                                          .tau_min = 3.0f,
                                          .tau_max = 6.5f,
                                          .mean = mean,
                                          .pool = pool.get(),
                                          .row_scales = {scales.get(), 0},
                                          .bound_counts = {counts.get(), 0}})
                   .ok(),
               "valid");
      const std::vector<float> some = Download(backend, *scales, count);
      all.insert(all.end(), some.begin(), some.end());
    }
    uint32_t bounds[2];
    VF_CHECK(backend.Read(bounds, {counts.get(), 0}, sizeof bounds).ok(), "valid");
    all.push_back(static_cast<float>(bounds[0]));
    all.push_back(static_cast<float>(bounds[1]));
    return all;
  });
}

std::string CheckSequenceTauRefusesChunks(Backend& tested) {
  auto workspace = Take(tested.CreateWorkspace({.row_count_max = 8,
                                                .sequence_count_max = 1,
                                                .head_row_count_max = 1,
                                                .context_length_max = 64,
                                                .model_dim = 16,
                                                .query_head_count = 1,
                                                .kv_head_count = 1,
                                                .head_dim = 16,
                                                .ffn_dim = 16,
                                                .vocab_size = 16}));
  auto pool =
      Take(tested.CreateKvPool({.layer_count = 1, .kv_head_count = 1, .head_dim = 16, .has_tau_sums = true}, 1));
  const std::vector<int32_t> table = {0};
  const std::span<const int32_t> tables[] = {table};
  const SequenceRows sequence{.row_count = 8, .first_position = 0, .page_tables = tables, .prompt_row_count = 9};
  VF_CHECK(tested.BeginStep(*workspace, {.sequences = {&sequence, 1}}).ok(), "valid");
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
    const auto weights = UniformVector(61, static_cast<size_t>(vocab) * width),
               x = UniformVector(62, static_cast<size_t>(rows) * width), norm = UniformVector(63, width, 2.0f);
    // Logits sum 48 products below 3.5 (a norm of at most sqrt(3) times 2); the rest rounds once each.
    // In bf16 the normed row rounds before the product, and a log-probability is a difference of two logits.
    const double tolerance = 2 * SumTolerance(width, 3.5) + 32 * kUnit + 2 * OperandUnit(tested) * width * 3.5;
    for (const float cap : {0.0f, 5.0f}) {
      const std::string error =
          Both(tested, oracle, tolerance, "lm_head over " + std::to_string(vocab), [&](Backend& backend) {
            StepShape shape{.head_row_count_max = rows + 5,
                            .model_dim = width,
                            .query_head_count = 1,
                            .kv_head_count = 1,
                            .head_dim = 16,
                            .vocab_size = vocab};
            PlainStep step(backend, shape, rows);
            auto weight = MakeWeight(backend, weights, vocab, width, WeightUse::kHead);
            auto in = Upload(backend, x), n = Upload(backend, norm);
            std::vector<HeadRow> asked;
            for (int r = 0; r < rows; ++r)
              asked.push_back(
                  {.row = rows - 1 - r, .target = r % 3 == 0 ? -1 : (r * 37) % vocab, .logits_slot = r < 2 ? r : -1});
            asked.push_back({.row = 3, .target = vocab - 1});
            asked.push_back({.row = 3, .target = 0});
            std::vector<HeadResult> results(asked.size());
            std::vector<float> logits(2 * vocab);
            VF_CHECK(backend
                         .LmHead(*step.workspace, {.residual = {in.get(), 0},
                                                   .norm_weight = {n.get(), 0},
                                                   .norm_epsilon = 1e-5f,
                                                   .weight = weight.get(),
                                                   .logit_multiplier = 0.5f,
                                                   .logit_soft_cap = cap,
                                                   .rows = asked,
                                                   .results = results,
                                                   .logits = logits.data()})
                         .ok(),
                     "valid");
            std::vector<float> all = logits;
            for (const HeadResult& r : results) {
              all.insert(all.end(),
                         {r.log_sum_exp, r.target_log_probability, r.argmax_logit,
                          // In bf16 near ties may fall either way.
                          OperandUnit(backend) == 0 ? static_cast<float>(r.argmax) : 0.0f, r.finite ? 1.0f : 0.0f});
              all.push_back(vocab > 1 ? r.runner_up_logit : 0.0f);
            }
            return all;
          });
      if (!error.empty()) return error;
    }
  }
  return "";
}

std::string CheckLmHeadTies(Backend& tested) {
  // Four equal logits among 2,048: the lowest id wins and the runner-up ties with it.
  const int vocab = 2048;
  std::vector<float> weights(vocab * 16, 0.0f), x(16, 1.0f);
  for (const int v : {70, 1030, 1500, 2047}) weights[v * 16] = 3.0f;
  PlainStep step(tested,
                 {.head_row_count_max = 1,
                  .model_dim = 16,
                  .query_head_count = 1,
                  .kv_head_count = 1,
                  .head_dim = 16,
                  .vocab_size = vocab},
                 1);
  auto weight = MakeWeight(tested, weights, vocab, 16, WeightUse::kHead);
  auto in = Upload(tested, x);
  const HeadRow row{};
  HeadResult result;
  VF_CHECK(tested
               .LmHead(*step.workspace, {.residual = {in.get(), 0},
                                         .norm_weight = {in.get(), 0},
                                         .weight = weight.get(),
                                         .rows = {&row, 1},
                                         .results = {&result, 1}})
               .ok(),
           "valid");
  if (result.argmax != 70) return "argmax among equals is " + std::to_string(result.argmax) + " where the lowest is 70";
  return result.runner_up_logit == result.argmax_logit ? "" : "the runner-up of a tie is lower than the best";
}

std::string CheckCancel(Backend& tested) {
  PlainStep plain(tested, {.model_dim = 16}, 4);
  auto workspace = Take(tested.CreateWorkspace({.row_count_max = 4,
                                                .sequence_count_max = 1,
                                                .head_row_count_max = 1,
                                                .context_length_max = 64,
                                                .model_dim = 16,
                                                .query_head_count = 1,
                                                .kv_head_count = 1,
                                                .head_dim = 16,
                                                .ffn_dim = 16,
                                                .vocab_size = 16}));
  auto pool = Take(tested.CreateKvPool({.layer_count = 1, .kv_head_count = 1, .head_dim = 16}, 1));
  const std::vector<int32_t> table = {0};
  const std::span<const int32_t> tables[] = {table};
  const SequenceRows sequence{.row_count = 4, .page_tables = tables};
  const std::vector<RowInterval> rows = {{0, 1}, {0, 2}, {0, 3}, {0, 4}};
  const std::span<const RowInterval> mask = rows;
  const std::atomic<bool> cancelled{true};
  VF_CHECK(
      tested.BeginStep(*workspace, {.sequences = {&sequence, 1}, .masks = {&mask, 1}, .cancelled = &cancelled}).ok(),
      "valid");
  auto q = Empty(tested, 64), out = Empty(tested, 64);
  const Error error = tested.Attend(
      *workspace, {.queries = {q.get(), 0}, .query_head_count = 1, .pool = pool.get(), .out = {out.get(), 0}});
  return error.code == ErrorCode::kCancelled ? "" : "attention went on although the step was cancelled";
}

std::string CheckRefusals(Backend& tested) {
  if (tested.CheckShape({.layer_count = 1, .kv_head_count = 1, .head_dim = 32, .has_group_bits = true}).code !=
      ErrorCode::kUnsupported) {
    return "group bits were accepted without a group test";
  }
  auto workspace = Take(tested.CreateWorkspace({.row_count_max = 4,
                                                .sequence_count_max = 1,
                                                .head_row_count_max = 1,
                                                .context_length_max = 64,
                                                .model_dim = 16,
                                                .query_head_count = 1,
                                                .kv_head_count = 1,
                                                .head_dim = 16,
                                                .ffn_dim = 16,
                                                .vocab_size = 16}));
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
      {"linear", CheckLinear},
      {"gated", CheckGated},
      {"activations", CheckActivations},
      {"rms_norm", CheckRmsNorm},
      {"embed", CheckEmbed},
      {"qkv_rope_write", CheckQkv},
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
