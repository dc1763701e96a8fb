// Norms of decode steps that wait for the product that reads them (CudaWorkspace::KeepNorm): the order of their sums, what runs
// them where another operation comes first, and that none outlives its step.

#include <array>
#include <functional>

#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/checks/decode_model.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr int kNormThreads = 256, kNormWarps = kNormThreads / 32;
using WarpOrder = std::array<int, kNormWarps>;
constexpr WarpOrder kInOrder = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr WarpOrder kOtherOrders[] = {{7, 6, 5, 4, 3, 2, 1, 0}, {4, 5, 6, 7, 0, 1, 2, 3}, {0, 4, 1, 5, 2, 6, 3, 7}};

// A row's norm as NormKernel computes it four numbers at a time, with warps added in another order.
std::vector<float> NormInOrder(const std::vector<float>& x, const std::vector<float>& weight, float epsilon,
                               const WarpOrder& order) {
  const int width = static_cast<int>(x.size());
  float warps[kNormWarps];
  for (int w = 0; w < kNormWarps; ++w) {
    float lanes[32] = {};
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = (w * 32 + lane) * 4; i < width; i += kNormThreads * 4) {
        for (int n = 0; n < 4; ++n) lanes[lane] += x[i + n] * x[i + n];
      }
    }
    for (int half = 16; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    warps[w] = lanes[0];
  }
  float sum = 0;
  for (const int w : order) sum += warps[w];
  const float inverse = 1.0f / std::sqrt(sum / width + epsilon);
  std::vector<float> normed(width);
  for (int i = 0; i < width; ++i) normed[i] = WidenBF16(RoundToBF16(x[i] * inverse * weight[i]));
  return normed;
}

// Rows for which other orders of warps round some number to another bf16, by a kernel of the norm and within a product with the
// unit matrix.
std::string CheckOrderOfWarps() {
  constexpr int kWidth = 1024;
  constexpr float kEpsilon = 1e-5f;
  const std::vector<float> weight = UniformVector(3, kWidth, 1.0f);
  std::vector<float> rows, want;
  int row_count = 0;
  for (const WarpOrder& order : kOtherOrders) {
    for (uint64_t seed = 1;; ++seed) {
      if (seed == 5000) return "no row tells the orders apart";
      const std::vector<float> row = UniformVector(seed, kWidth, 2.0f);
      const std::vector<float> normed = NormInOrder(row, weight, kEpsilon, kInOrder);
      if (NormInOrder(row, weight, kEpsilon, order) == normed) continue;
      rows.insert(rows.end(), row.begin(), row.end());
      want.insert(want.end(), normed.begin(), normed.end());
      ++row_count;
      break;
    }
  }
  std::vector<float> unit(kWidth * kWidth);
  for (int i = 0; i < kWidth; ++i) unit[i * kWidth + i] = 1;
  for (const char* kernels : {"separate", "fused"}) {
    const auto backend = Take(OpenDevice("emulated", {.decode_kernels = kernels}));
    const auto matrix = MakeWeight(*backend, unit, kWidth, kWidth, WeightUse::kPlain);
    const auto residual = Upload(*backend, rows), weights = Upload(*backend, weight);
    const auto normed = EmptyOperands(*backend, rows.size()), out = EmptyOperands(*backend, rows.size());
    StepShape shape = OneHeadStep(row_count, row_count, kWidth);
    shape.ffn_dim = kWidth;
    PlainStep step(*backend, shape, row_count, Phase::kDecode);
    Error error = backend->Norm(*step.workspace, {.x = {residual.get(), 0},
                                                  .weight = {weights.get(), 0},
                                                  .epsilon = kEpsilon,
                                                  .out = {normed.get(), 0},
                                                  .read_once = true});
    if (!error.ok()) return error.message;
    error = backend->Linear(*step.workspace, {.x = {normed.get(), 0}, .weight = matrix.get(), .out = {out.get(), 0}});
    if (!error.ok()) return error.message;
    if (DownloadOperands(*backend, *out, rows.size()) != want)
      return std::string(kernels) + " kernels add the warps of a norm in another order";
  }
  return "";
}

// A norm that waits, and one operation that does not take it.
class NormScene : public DecodeModel {
 public:
  using Operation = std::function<Error(NormScene&)>;

  explicit NormScene(Backend& backend)
      : DecodeModel(backend, {.name = "", .contexts = {40, 7}, .layers = 1}), others_(EmptyOperands(backend, kCount)) {}

  // What both leave in all buffers and pages.
  std::vector<float> After(const Operation& operation) {
    Fill();
    BeginDecode(0, kRows);
    CheckOk(backend_.Norm(*workspace_, WaitingNorm()));
    CheckOk(operation(*this));
    backend_.EndStep(*workspace_);
    std::vector<float> all = Download(backend_, *residual_, kCount);
    const auto append = [&](const std::vector<float>& more) { all.insert(all.end(), more.begin(), more.end()); };
    append(Download(backend_, *queries_, kCount));
    for (const auto* buffer : {&normed_, &attended_, &others_}) append(DownloadOperands(backend_, **buffer, kCount));
    append(DownloadOperands(backend_, *hidden_, WideProduct(kRows, c_.ffn)));
    std::vector<float> keys(kPageTokens * kCount), values(keys.size());
    for (int s = 0; s < kRows; ++s) {
      CheckOk(backend_.ReadPage(*pool_, 0, tables_[s].back(), c_.contexts[s] + 1, keys.data(), values.data()));
      append(keys);
      append(values);
    }
    return all;
  }
  // A step ends while a norm waits, and another begins: its rows afterwards are as they were between the two.
  bool Outlives(Phase phase) {
    BeginDecode(0, kRows);
    CheckOk(backend_.Norm(*workspace_, WaitingNorm()));
    backend_.EndStep(*workspace_);
    Fill();
    const std::vector<float> before = DownloadOperands(backend_, *normed_, kCount);
    if (phase == Phase::kDecode) {
      BeginDecode(0, kRows);
    } else {
      const std::span<const int32_t> table = tables_[0];
      const SequenceRows sequence{.row_count = kRows, .page_tables = {&table, 1}};
      CheckOk(backend_.BeginStep(*workspace_, {.sequences = {&sequence, 1}}));
    }
    CheckOk(backend_.Clear(*workspace_, {queries_.get(), 0}, kCount * sizeof(float)));
    backend_.EndStep(*workspace_);
    return DownloadOperands(backend_, *normed_, kCount) != before;
  }

  static std::vector<std::pair<const char*, Operation>> Operations() {
    const auto with_residual = [](const NormScene& scene, const std::unique_ptr<Buffer>& x, const NormArgs* next) {
      return scene.backend_.LinearResidual(*scene.workspace_, {.x = {x.get(), 0},
                                                               .weight = scene.layers_[0].output.get(),
                                                               .residual = {scene.residual_.get(), 0},
                                                               .next_norm = next});
    };
    const auto project = [](const NormScene& scene, bool over_width) {
      const Layer& layer = scene.layers_[0];
      return scene.backend_.QkvRopeWrite(*scene.workspace_, {.x = {scene.attended_.get(), 0},
                                                             .weight = layer.qkv.get(),
                                                             .query_norm = scene.If(over_width, layer.attention_norm),
                                                             .key_norm = scene.If(over_width, layer.attention_norm),
                                                             .norm_over_width = over_width,
                                                             .norm_epsilon = kEpsilon,
                                                             .query_head_count = scene.c_.query_heads,
                                                             .pool = scene.pool_.get(),
                                                             .queries = {scene.queries_.get(), 0}});
    };
    return {{"clearing",
             [](NormScene& s) {
               return s.backend_.Clear(*s.workspace_, {s.queries_.get(), 0}, kCount * sizeof(float));
             }},
            {"a norm",
             [](NormScene& s) {
               NormArgs args = s.NormOf(s.layers_[0].mlp_norm, s.layers_[0]);
               args.out = {s.others_.get(), 0};
               args.read_once = false;
               return s.backend_.Norm(*s.workspace_, args);
             }},
            {"attention",
             [](NormScene& s) {
               return s.backend_.Attend(*s.workspace_, {.queries = {s.queries_.get(), 0},
                                                        .query_head_count = s.c_.query_heads,
                                                        .pool = s.pool_.get(),
                                                        .scale = s.c_.scale,
                                                        .out = {s.attended_.get(), 0}});
             }},
            {"a product",
             [](NormScene& s) {
               return s.backend_.Linear(
                   *s.workspace_,
                   {.x = {s.attended_.get(), 0}, .weight = s.layers_[0].output.get(), .out = {s.others_.get(), 0}});
             }},
            {"a gated product",
             [](NormScene& s) {
               return s.backend_.LinearGated(
                   *s.workspace_,
                   {.x = {s.attended_.get(), 0}, .weight = s.layers_[0].up.get(), .out = {s.hidden_.get(), 0}});
             }},
            {"a residual", [=](NormScene& s) { return with_residual(s, s.attended_, nullptr); }},
            {"a residual of the norm", [=](NormScene& s) { return with_residual(s, s.normed_, nullptr); }},
            {"a residual and a norm",
             [=](NormScene& s) {
               NormArgs next = s.NormOf(s.layers_[0].mlp_norm, s.layers_[0]);
               next.out = {s.others_.get(), 0};
               next.read_once = false;
               return with_residual(s, s.attended_, &next);
             }},
            {"a normed residual",
             [](NormScene& s) {
               return s.backend_.LinearNormResidual(*s.workspace_, {.x = {s.attended_.get(), 0},
                                                                    .weight = s.layers_[0].output.get(),
                                                                    .norm_weight = {s.layers_[0].mlp_norm.get(), 0},
                                                                    .norm_epsilon = kEpsilon,
                                                                    .residual = {s.residual_.get(), 0}});
             }},
            {"a residual without a product",
             [](NormScene& s) {
               return s.backend_.NormResidual(*s.workspace_, {.x = {s.queries_.get(), 0},
                                                              .norm_weight = {s.layers_[0].mlp_norm.get(), 0},
                                                              .norm_epsilon = kEpsilon,
                                                              .residual = {s.residual_.get(), 0}});
             }},
            {"queries, keys and values", [=](NormScene& s) { return project(s, false); }},
            {"queries, keys and values normed over the width", [=](NormScene& s) { return project(s, true); }},
            {"a gate",
             [](NormScene& s) {
               return s.backend_.ApplyGate(
                   *s.workspace_, {.gate = {s.normed_.get(), 0}, .columns = s.c_.width, .x = {s.attended_.get(), 0}});
             }},
            {"a norm of columns",
             [](NormScene& s) {
               return s.backend_.NormColumns(*s.workspace_, {.x = {s.attended_.get(), 0},
                                                             .columns = s.c_.width,
                                                             .count = 64,
                                                             .weight = {s.layers_[0].mlp_norm.get(), 0},
                                                             .epsilon = kEpsilon});
             }},
            {"the head", [](NormScene& s) {
               std::vector<HeadResult> results(1);
               const HeadRow row{.row = 0, .logits_slot = -1};
               return s.backend_.LmHead(*s.workspace_, {.residual = {s.residual_.get(), 0},
                                                        .norm_weight = {s.layers_[0].mlp_norm.get(), 0},
                                                        .norm_epsilon = kEpsilon,
                                                        .weight = s.head_.get(),
                                                        .rows = {&row, 1},
                                                        .results = results});
             }}};
  }

 private:
  static constexpr int kRows = 2, kCount = kRows * 256;
  NormArgs WaitingNorm() const { return NormOf(layers_[0].attention_norm, layers_[0]); }
  void Fill() {
    uint64_t seed = 40;
    for (const auto* buffer : {&normed_, &attended_, &others_})
      WriteOperands(backend_, {buffer->get(), 0}, UniformVector(++seed, kCount));
    WriteOperands(backend_, {hidden_.get(), 0}, UniformVector(++seed, WideProduct(kRows, c_.ffn)));
    const std::vector<float> queries = UniformVector(++seed, kCount);
    CheckOk(backend_.Write({queries_.get(), 0}, queries.data(), queries.size() * sizeof(float)));
  }

  std::unique_ptr<Buffer> others_;
};

std::string CheckOtherOperations() {
  const auto separate = Take(OpenDevice("emulated", {.decode_kernels = "separate"}));
  const auto fused = Take(OpenDevice("emulated", {.decode_kernels = "fused"}));
  NormScene one(*separate), other(*fused);
  for (const auto& [name, operation] : NormScene::Operations()) {
    if (const size_t count = Different(one.After(operation), other.After(operation)); count != 0)
      return std::string(name) + " after a norm that waits: " + std::to_string(count) + " numbers have other bits";
  }
  return "";
}

std::string CheckEndOfStep() {
  const auto backend = Take(OpenDevice("emulated", {.decode_kernels = "fused"}));
  NormScene scene(*backend);
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    if (scene.Outlives(phase)) return "a norm outlives the step in which it waited";
  }
  return "";
}

}  // namespace

std::vector<NamedCheck> WaitingNormChecks() {
  return {{"decode_norm_order_of_warps", CheckOrderOfWarps},
          {"decode_norm_of_other_operations", CheckOtherOperations},
          {"decode_norm_at_the_end_of_a_step", CheckEndOfStep}};
}

}  // namespace varifocal::kernels::cuda
