// Latent attention: norms of some columns, and products of queries apart from those of keys and values.

#include <cstring>
#include <tuple>

#include "kernels/conformance/case_tools.h"

namespace varifocal::kernels {
namespace {

// A root mean square of up to 96 numbers below 1, then a product: a few roundings of f32. Where operands are bf16, inputs and
// outputs round; normed numbers are at most four.
std::string CheckNormColumns(Backend& tested, Backend& oracle) {
  for (const auto& [rows, columns, count] : {std::tuple{1, 24, 16}, {7, 40, 40}, {130, 100, 37}, {3, 320, 300}}) {
    const std::vector<float> numbers = ProductInput(tested, UniformVector(31, rows * columns));
    const auto run = [&, rows = rows, columns = columns, count = count](Backend& backend) {
      PlainStep step(backend, {.model_dim = 16, .ffn_dim = 1}, rows);
      auto x = UploadOperands(backend, numbers), weight = Upload(backend, UniformVector(32, count));
      CheckOk(backend.NormColumns(
          *step.workspace,
          {.x = {x.get(), 0}, .columns = columns, .count = count, .weight = {weight.get(), 0}, .epsilon = 1e-6f}));
      return DownloadOperands(backend, *x, rows * columns);
    };
    const double tolerance = 1e-5 + 4 * (OutputUnit(tested) + OperandUnit(tested));
    RETURN_COMPLAINT(Both(tested, oracle, tolerance, "norm of " + std::to_string(count) + " columns", run));
    const std::vector<float> normed = run(tested);
    for (int i = 0; i < rows * columns; ++i) {
      if (i % columns >= count && normed[i] != numbers[i]) return "a column that is not normed changed";
    }
  }
  return "";
}

// The queries, keys and values of one product, or of two.
std::vector<float> Projected(Backend& backend, Phase phase, bool apart) {
  constexpr int kHeadDim = 32, kHeadCount = 3, kInputs = 24, kPositions = kPageTokens;
  const int rows = phase == Phase::kDecode ? 1 : 5, of_queries = kHeadCount * kHeadDim;
  auto workspace = SmallWorkspace(backend, {.row_count_max = rows,
                                            .context_length_max = kPositions,
                                            .model_dim = kInputs,
                                            .query_head_count = kHeadCount,
                                            .kv_head_count = kHeadCount,
                                            .head_dim = kHeadDim,
                                            .query_latent_dim = kInputs,
                                            .latent_dim = kInputs});
  auto pool = Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = kHeadCount, .head_dim = kHeadDim}, 1));
  const std::vector<float> cosines = UniformVector(41, kPositions * 4), sines = UniformVector(42, kPositions * 4);
  auto rope = Take(
      backend.CreateRopeTable({.cosines = cosines, .sines = sines, .position_count = kPositions, .rotary_dim = 8}));
  const RopeTable* ropes[] = {rope.get()};
  const std::vector<float> numbers = UniformVector(43, 3 * of_queries * kInputs);
  const std::vector<float> of_keys(numbers.begin() + of_queries * kInputs, numbers.end());
  auto whole = MakeWeight(backend, numbers, 3 * of_queries, kInputs, WeightUse::kPlain);
  auto queries_weight = MakeWeight(backend, {numbers.begin(), numbers.begin() + of_queries * kInputs}, of_queries,
                                   kInputs, WeightUse::kPlain);
  auto keys_values = MakeWeight(backend, of_keys, 2 * of_queries, kInputs, WeightUse::kPlain);
  auto x = UploadOperands(backend, ProductInput(backend, UniformVector(44, rows * kInputs)));
  auto queries = Empty(backend, rows * of_queries);
  const std::vector<int32_t> table = {0};
  const std::span<const int32_t> tables[] = {table};
  const SequenceRows sequence{.row_count = rows, .first_position = 3, .page_tables = tables};
  CheckOk(backend.BeginStep(*workspace, {.phase = phase, .sequences = {&sequence, 1}}));
  QkvRopeWriteArgs args{.x = {x.get(), 0},
                        .weight = whole.get(),
                        .query_head_count = kHeadCount,
                        .rope_tables = ropes,
                        .pool = pool.get(),
                        .queries = {queries.get(), 0}};
  if (apart) {
    args.queries_alone = true;
    args.weight = queries_weight.get();
    CheckOk(backend.QkvRopeWrite(*workspace, args));
    args.queries_alone = false;
    args.query_head_count = 0;
    args.weight = keys_values.get();
  }
  CheckOk(backend.QkvRopeWrite(*workspace, args));
  std::vector<float> out = Download(backend, *queries, rows * of_queries);
  const size_t page_floats = (3 + rows) * of_queries;
  out.resize(out.size() + 2 * page_floats);
  float* keys = out.data() + rows * of_queries;
  CheckOk(backend.ReadPage(*pool, 0, 0, 3 + rows, keys, keys + page_floats));
  return out;
}

// A product's bits depend on its row and weight alone; in decode a device may split sums by the number of outputs.
std::string CheckHeadsApart(Backend& tested, Backend&) {
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    const std::vector<float> together = Projected(tested, phase, false), apart = Projected(tested, phase, true);
    size_t different = 0;
    for (size_t i = 0; i < together.size(); ++i) different += std::memcmp(&together[i], &apart[i], sizeof(float)) != 0;
    RETURN_COMPLAINT(SameBitsVerdict(different, "products of queries apart from keys"));
  }
  return "";
}

}  // namespace

std::vector<ConformanceCase> LatentCases() {
  return {{"latent_norms", CheckNormColumns}, {"latent_heads_apart", CheckHeadsApart}};
}

}  // namespace varifocal::kernels
