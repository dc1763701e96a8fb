// Operations of layers with inputs or norms of their own, against the oracle, and the same bits whatever other rows there
// are: norms of sums, inputs of layers, plain gates, scaled residuals, queries alone, routers with an input of their own.

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"

namespace varifocal::kernels {
namespace {

constexpr int kInputLayers = 3, kInputNumbers = 10, kResidualWidth = 40, kInputTokens = 50;

StepShape LayerStep() {
  return SmallStep({.model_dim = kResidualWidth,
                    .query_head_count = 4,
                    .kv_head_count = 2,
                    .layer_input_width = kInputNumbers,
                    .layer_input_count = kInputLayers,
                    .ffn_dim = 24,
                    .vocab_size = kInputTokens});
}

// Rows [first, first + count) of 37: inputs [L, rows, P], then what a layer's end makes of the residual.
std::vector<float> RunLayerEnd(Backend& backend, int first, int count) {
  const int wide = kInputLayers * kInputNumbers;
  const auto rows_of = [&](const std::vector<float>& all, int width) {
    return std::vector<float>(all.begin() + first * width, all.begin() + (first + count) * width);
  };
  const auto projected = rows_of(UniformVector(301, 37 * wide), wide);
  const auto gates = rows_of(UniformVector(302, 37 * kInputNumbers), kInputNumbers);
  const auto base = rows_of(UniformVector(303, 37 * kResidualWidth), kResidualWidth);
  const auto sums = rows_of(UniformVector(304, 37 * kResidualWidth), kResidualWidth);
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((first + i) * 7 % kInputTokens);
  const PlainStep step(backend, LayerStep(), count);
  const auto table_data = ProductInput(backend, UniformVector(305, kInputTokens * wide));
  const auto output_data = ProductInput(backend, UniformVector(306, kResidualWidth * kInputNumbers));
  auto table = MakeWeight(backend, table_data, kInputTokens, wide, WeightUse::kEmbedding);
  auto output = MakeWeight(backend, output_data, kResidualWidth, kInputNumbers, WeightUse::kPlain);
  auto input_norm = Upload(backend, UniformVector(307, kInputNumbers)),
       norm = Upload(backend, UniformVector(308, kResidualWidth));
  auto in = UploadOperands(backend, projected), inputs = EmptyOperands(backend, count * wide);
  CheckOk(backend.LayerInputs(*step.workspace, {.projected = {in.get(), 0},
                                                .norm_weight = {input_norm.get(), 0},
                                                .norm_epsilon = 1e-3f,
                                                .table = table.get(),
                                                .tokens = tokens,
                                                .multiplier = 1.5f,
                                                .factor = 0.75f,
                                                .layer_count = kInputLayers,
                                                .out = {inputs.get(), 0}}));
  std::vector<float> all = DownloadOperands(backend, *inputs, count * wide);
  auto gate = UploadOperands(backend, gates);
  auto residual = Upload(backend, base), sum = Upload(backend, sums),
       normed = EmptyOperands(backend, count * kResidualWidth);
  const Slice last{inputs.get(), WideProduct(2, count, kInputNumbers) * DTypeBytes(backend.operand_dtype())};
  CheckOk(backend.ApplyGate(*step.workspace,
                            {.gate = {gate.get(), 0}, .columns = kInputNumbers, .sigmoid = false, .x = last}));
  const NormArgs next{.x = {residual.get(), 0}, .weight = {norm.get(), 0}, .epsilon = 1e-3f, .out = {normed.get(), 0}};
  CheckOk(backend.LinearNormResidual(*step.workspace, {.x = last,
                                                       .weight = output.get(),
                                                       .norm_weight = {norm.get(), 0},
                                                       .norm_epsilon = 1e-2f,
                                                       .multiplier = 0.5f,
                                                       .scale = 0.8f,
                                                       .residual = {residual.get(), 0}}));
  CheckOk(backend.NormResidual(*step.workspace, {.x = {sum.get(), 0},
                                                 .norm_weight = {norm.get(), 0},
                                                 .norm_epsilon = 1e-2f,
                                                 .multiplier = 0.5f,
                                                 .scale = 1.25f,
                                                 .residual = {residual.get(), 0},
                                                 .next_norm = &next}));
  const std::vector<float> added = Download(backend, *residual, count * kResidualWidth);
  const std::vector<float> then = DownloadOperands(backend, *normed, count * kResidualWidth);
  all.insert(all.end(), added.begin(), added.end());
  all.insert(all.end(), then.begin(), then.end());
  return all;
}

// A norm of 10 numbers of size 1 divides by at least about a third; a product of as many is normed, then added by halves.
// In bf16 products round what they read, which the norm of small sums enlarges up to ten times.
std::string CheckLayerEnd(Backend& tested, Backend& oracle) {
  const double tolerance = 1e-4 + 16 * OperandUnit(tested);
  return Both(tested, oracle, tolerance, "inputs and norms of layers",
              [](Backend& backend) { return RunLayerEnd(backend, 0, 37); });
}

std::string CheckLayerEndBits(Backend& tested, Backend&) {
  const std::vector<float> all = RunLayerEnd(tested, 0, 37);
  size_t different = 0;
  for (const auto& part_of_rows : {std::pair{0, 1}, {36, 1}, {3, 17}, {20, 9}}) {
    const int first = part_of_rows.first, count = part_of_rows.second;
    const std::vector<float> part = RunLayerEnd(tested, first, count);
    const auto compare = [&](size_t part_at, size_t all_at, int width) {
      different +=
          std::memcmp(part.data() + part_at, all.data() + all_at, WideProduct(count, width, sizeof(float))) != 0;
    };
    for (int l = 0; l < kInputLayers; ++l)
      compare(WideProduct(l, count, kInputNumbers), (WideProduct(l, 37) + first) * kInputNumbers, kInputNumbers);
    for (int i = 0; i < 2; ++i) {
      compare(count * (kInputLayers * kInputNumbers + i * kResidualWidth),
              37 * (kInputLayers * kInputNumbers + i * kResidualWidth) + first * kResidualWidth, kResidualWidth);
    }
  }
  return SameBitsVerdict(different, "other rows of layers' inputs");
}

// Queries alone are those of the whole product, and leave the page as it is; values are normed.
std::string CheckQueriesAlone(Backend& tested, Backend& oracle) {
  const int heads = 4, kv_heads = 2, dim = 16, rows = 5, all_rows = (heads + 2 * kv_heads) * dim;
  const auto weights = ProductInput(tested, UniformVector(311, all_rows * kResidualWidth));
  const auto x = ProductInput(tested, UniformVector(312, rows * kResidualWidth));
  const auto norm = UniformVector(313, dim);
  const auto run = [&](Backend& backend) {
    auto workspace = SmallWorkspace(backend, {.row_count_max = rows,
                                              .context_length_max = 200,
                                              .model_dim = kResidualWidth,
                                              .query_head_count = heads,
                                              .kv_head_count = kv_heads,
                                              .head_dim = dim});
    auto pool = Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = kv_heads, .head_dim = dim}, 1));
    const std::vector<int32_t> table = {0};
    const std::span<const int32_t> tables[] = {table};
    const SequenceRows sequence{.row_count = rows, .first_position = 0, .page_tables = tables};
    CheckOk(backend.BeginStep(*workspace, {.sequences = {&sequence, 1}}));
    auto whole = MakeWeight(backend, weights, all_rows, kResidualWidth, WeightUse::kPlain);
    const std::vector<float> of_queries(weights.begin(), weights.begin() + heads * dim * kResidualWidth);
    auto alone = MakeWeight(backend, of_queries, heads * dim, kResidualWidth, WeightUse::kPlain);
    auto in = UploadOperands(backend, x), weight = Upload(backend, norm), queries = Empty(backend, rows * heads * dim);
    std::vector<float> all;
    for (const bool queries_alone : {false, true}) {
      CheckOk(backend.QkvRopeWrite(*workspace, {.x = {in.get(), 0},
                                                .weight = queries_alone ? alone.get() : whole.get(),
                                                .query_norm = {weight.get(), 0},
                                                .value_norm = {queries_alone ? nullptr : weight.get(), 0},
                                                .norm_epsilon = 1e-3f,
                                                .query_head_count = heads,
                                                .queries_alone = queries_alone,
                                                .pool = pool.get(),
                                                .queries = {queries.get(), 0}}));
      const std::vector<float> q = Download(backend, *queries, rows * heads * dim);
      std::vector<float> keys(rows * kv_heads * dim), values(keys.size());
      CheckOk(backend.ReadPage(*pool, 0, 0, rows, keys.data(), values.data()));
      for (const auto& part : {q, keys, values}) all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  // Normed heads of 16 numbers; pages of bf16 round keys of up to 12 in size.
  RETURN_COMPLAINT(Both(tested, oracle, 1e-4 + 16 * OperandUnit(tested), "queries alone", run));
  const std::vector<float> all = run(tested);
  const size_t half = all.size() / 2;
  const size_t different = std::memcmp(all.data(), all.data() + half, half * sizeof(float)) != 0 ? 1 : 0;
  return SameBitsVerdict(different, "queries alone");
}

// The router reads rows of its own, and each expert's weight has a scale.
std::string CheckRouterInput(Backend& tested, Backend& oracle) {
  const int rows = 21, experts = 5, inner = 24;
  const auto x = ProductInput(tested, UniformVector(321, rows * kResidualWidth, 0.5f));
  const auto routed = UniformVector(322, rows * kResidualWidth);
  const auto router = UniformVector(323, experts * kResidualWidth), scales = UniformVector(324, experts);
  const auto gate_up = ProductInput(tested, UniformVector(325, experts * 2 * inner * kResidualWidth, 0.5f));
  const auto down = ProductInput(tested, UniformVector(326, experts * kResidualWidth * inner, 0.5f));
  return Both(tested, oracle, 1e-4 + 64 * OperandUnit(tested), "a router's input", [&](Backend& backend) {
    StepShape shape = LayerStep();
    shape.expert_count = experts;
    shape.experts_per_token = 2;
    shape.expert_ffn_dim = inner;
    const PlainStep step(backend, shape, rows);
    const HostMatrix gates = MatrixOf(gate_up, experts * 2 * inner, kResidualWidth),
                     downs = MatrixOf(down, experts * kResidualWidth, inner);
    auto first = Take(backend.CreateExperts({&gates, 1}, experts, WeightUse::kGateUp));
    auto second = Take(backend.CreateExperts({&downs, 1}, experts, WeightUse::kPlain));
    auto in = UploadOperands(backend, x), own = UploadOperands(backend, routed);
    auto weight = Upload(backend, router), scale = Upload(backend, scales), out = Empty(backend, rows * kResidualWidth);
    CheckOk(backend.Mixture(*step.workspace, {.x = {in.get(), 0},
                                              .router_x = {own.get(), 0},
                                              .router = {weight.get(), 0},
                                              .expert_count = experts,
                                              .per_token = 2,
                                              .renormalised = true,
                                              .expert_scales = {scale.get(), 0},
                                              .gate_up = first.get(),
                                              .down = second.get(),
                                              .activation = Activation::kGeluTanh,
                                              .residual = {out.get(), 0}}));
    return Download(backend, *out, rows * kResidualWidth);
  });
}

// Attention of layers with heads of their own, each with a pool and a mask; the second are seen 20 keys back.
constexpr HeadShape kTwoHeads[] = {{2, 16}, {1, 112}};
constexpr int kPromptRows = 150, kHeadsWidth = 24, kQueryHeads = 4;

// Outputs of layers [first, last), of a prompt and of a token after it, in a workspace for all of `planned`.
std::vector<float> RunTwoHeads(Backend& backend, const std::vector<HeadShape>& planned, int first, int last) {
  auto workspace = SmallWorkspace(backend, {.row_count_max = kPromptRows,
                                            .context_length_max = 2 * kPageTokens,
                                            .model_dim = kHeadsWidth,
                                            .query_head_count = kQueryHeads,
                                            .kv_head_count = 2,
                                            .head_dim = 112,
                                            .mask_heads = planned});
  const auto x = ProductInput(backend, UniformVector(331, (kPromptRows + 1) * kHeadsWidth));
  std::unique_ptr<KvPool> pools[2];
  for (int l = 0; l < 2; ++l) {
    pools[l] = Take(backend.CreateKvPool(
        {.layer_count = 1, .kv_head_count = kTwoHeads[l].kv_head_count, .head_dim = kTwoHeads[l].head_dim}, 2));
  }
  const std::vector<int32_t> table = {1, 0};
  const std::span<const int32_t> tables[] = {table, table};
  std::vector<float> all;
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    const int position = phase == Phase::kDecode ? kPromptRows : 0, rows = position == 0 ? kPromptRows : 1;
    std::vector<RowInterval> intervals[2];
    for (int row = position; row < position + rows; ++row) {
      intervals[0].push_back(CausalInterval(row));
      intervals[1].push_back(WindowInterval(row, 20));
    }
    const std::span<const RowInterval> masks[] = {intervals[0], intervals[1]};
    const SequenceRows sequence{.row_count = rows, .first_position = position, .page_tables = tables};
    CheckOk(backend.BeginStep(*workspace, {.phase = phase, .sequences = {&sequence, 1}, .masks = masks}));
    const std::vector<float> inputs(x.begin() + position * kHeadsWidth, x.begin() + (position + rows) * kHeadsWidth);
    auto in = UploadOperands(backend, inputs);
    for (int l = first; l < last; ++l) {
      const int dim = kTwoHeads[l].head_dim, outputs = (kQueryHeads + 2 * kTwoHeads[l].kv_head_count) * dim;
      const auto numbers = ProductInput(backend, UniformVector(332 + l, outputs * kHeadsWidth, 0.5f));
      auto weight = MakeWeight(backend, numbers, outputs, kHeadsWidth, WeightUse::kPlain);
      const int attended = rows * kQueryHeads * dim;
      auto queries = Empty(backend, attended), out = EmptyOperands(backend, attended);
      const QkvRopeWriteArgs heads{.x = {in.get(), 0},
                                   .weight = weight.get(),
                                   .query_head_count = kQueryHeads,
                                   .pool = pools[l].get(),
                                   .page_group = l,
                                   .queries = {queries.get(), 0}};
      CheckOk(backend.QkvRopeWrite(*workspace, heads));
      const AttendArgs attend{.queries = {queries.get(), 0},
                              .query_head_count = kQueryHeads,
                              .pool = pools[l].get(),
                              .page_group = l,
                              .mask_index = l,
                              .scale = 0.1f,
                              .out = {out.get(), 0}};
      CheckOk(backend.Attend(*workspace, attend));
      const std::vector<float> got = DownloadOperands(backend, *out, attended);
      all.insert(all.end(), got.begin(), got.end());
    }
  }
  return all;
}

// Values are at most some 5 in size, their weights and what is added round to 2^-8 in bf16.
std::string CheckTwoHeads(Backend& tested, Backend& oracle) {
  const std::vector<HeadShape> both(std::begin(kTwoHeads), std::end(kTwoHeads));
  return Both(tested, oracle, 1e-4 + 8 * OperandUnit(tested), "layers of two shapes of heads",
              [&](Backend& backend) { return RunTwoHeads(backend, both, 0, 2); });
}

// A layer's bits are those in a step without the other layer.
std::string CheckTwoHeadsBits(Backend& tested, Backend&) {
  const std::vector<HeadShape> both(std::begin(kTwoHeads), std::end(kTwoHeads));
  const std::vector<float> all = RunTwoHeads(tested, both, 0, 2);
  std::vector<float> apart[2];
  for (int l = 0; l < 2; ++l) apart[l] = RunTwoHeads(tested, {kTwoHeads[l], kTwoHeads[l]}, l, l + 1);
  size_t different = 0, at = 0, begins[2] = {};
  for (const int rows : {kPromptRows, 1}) {
    for (int l = 0; l < 2; ++l) {
      const size_t count = WideProduct(rows, kQueryHeads, kTwoHeads[l].head_dim);
      different += std::memcmp(&all[at], &apart[l][begins[l]], count * sizeof(float)) != 0;
      at += count;
      begins[l] += count;
    }
  }
  return SameBitsVerdict(different, "layers of other heads");
}

}  // namespace

std::vector<ConformanceCase> LayerCases() {
  return {
      {"layers_of_two_heads", CheckTwoHeads},    {"layers_of_two_heads_same_bits", CheckTwoHeadsBits},
      {"layer_inputs_and_norms", CheckLayerEnd}, {"layer_inputs_same_bits", CheckLayerEndBits},
      {"queries_alone", CheckQueriesAlone},      {"router_input", CheckRouterInput},
  };
}

}  // namespace varifocal::kernels
