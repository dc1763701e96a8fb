// The operations of one layer of a whole prompt, one by one: microseconds, bytes that must move, operations, and the share of
// the layer, which is timed as a whole as well.
//
// A product and what follows it are one call of the backend; the product is also timed alone, and what follows is the
// difference. With the library a residual is added inside the product, so its row is what that costs; with the kernel sm90 so are gates,
// and q, k and v that it rotates and writes.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/wide_product.h"
#include "kernels/cuda/bench/bench.h"
#include "kernels/cuda/cuda_products.h"
#include "kernels/cuda/cuda_storage.h"

namespace varifocal::kernels::cuda {
namespace {

class LayerOps final : public Bench {
 public:
  LayerOps(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell),
        backend_(place.backend),
        products_(static_cast<CudaStorage&>(place.backend).device(),
                  static_cast<CudaStorage&>(place.backend).product_choice()),
        rows_(cell.rows),
        width_(cell.model.width),
        ffn_(cell.model.ffn),
        attended_(cell.model.heads * cell.model.head_dim),
        heads_(attended_ + 2 * cell.model.kv_heads * cell.model.head_dim) {
    MakeWeights();
    const LlamaShape& m = cell.model;
    const std::vector<float> angles(WideProduct(rows_, m.head_dim / 2), 0.6f);  // as good as any
    rope_ = ValueOrDie(backend_.CreateRopeTable({angles, angles, rows_, m.head_dim}));
    const int pages = CeilDivide(rows_, kPageTokens);
    pool_ = ValueOrDie(
        backend_.CreateKvPool({.layer_count = 1, .kv_head_count = m.kv_heads, .head_dim = m.head_dim}, pages));
    workspace_ = ValueOrDie(backend_.CreateWorkspace({.row_count_max = rows_,
                                                      .sequence_count_max = 1,
                                                      .context_length_max = rows_,
                                                      .model_dim = width_,
                                                      .query_head_count = m.heads,
                                                      .kv_head_count = m.kv_heads,
                                                      .head_dim = m.head_dim,
                                                      .ffn_dim = ffn_}));
    const auto allocate = [&](int64_t columns, size_t bytes) {
      return ValueOrDie(backend_.Allocate(WideProduct(rows_, columns) * bytes));
    };
    residual_ = allocate(width_, sizeof(float));
    normed_ = allocate(width_, sizeof(uint16_t));
    queries_ = allocate(attended_, sizeof(float));
    heads_out_ = allocate(attended_, sizeof(uint16_t));
    hidden_ = allocate(ffn_, sizeof(uint16_t));
    product_ = allocate(std::max(heads_, 2 * ffn_), sizeof(float));
    for (int i = 0; i < pages; ++i) pages_.push_back(i);
    table_ = {pages_.data(), pages_.size()};
    for (int row = 0; row < rows_; ++row) intervals_.push_back(CausalInterval(row));
    mask_ = intervals_;
    first_ = UniformVector(3, WideProduct(rows_, width_));
  }

  Outcome Round() override {
    const SequenceRows sequence{.row_count = rows_, .page_tables = {&table_, 1}};
    Must(backend_.BeginStep(*workspace_, {.sequences = {&sequence, 1}, .masks = {&mask_, 1}}));
    Outcome outcome;
    const std::vector<float> once = Layer();
    if (!std::all_of(once.begin(), once.end(), [](float x) { return std::isfinite(x); }))
      outcome.wrong = "a number of the layer is not finite";
    const std::vector<float> again = Layer();
    if (std::memcmp(once.data(), again.data(), once.size() * sizeof(float)) != 0)
      outcome.wrong = "the same layer gave other bits";
    TimeParts(outcome);
    backend_.EndStep(*workspace_);
    return outcome;
  }

 private:
  // All from the same numbers, which are small enough for sums to stay finite.
  void MakeWeights() {
    const int64_t largest = WideProduct(std::max({heads_, 2 * ffn_, width_}), std::max(width_, ffn_));
    std::vector<float> numbers = RandomOperands(backend_, 1, largest);
    for (float& number : numbers) number *= 0.03125f;
    const auto weight = [&](int64_t rows, int64_t columns, WeightUse use) {
      const HostMatrix matrix = MatrixOf(numbers, rows, columns);
      return ValueOrDie(backend_.CreateWeight({&matrix, 1}, use));
    };
    qkv_ = weight(heads_, width_, WeightUse::kPlain);
    attended_weight_ = weight(width_, attended_, WeightUse::kPlain);
    const HostMatrix halves[] = {MatrixOf(numbers, ffn_, width_), MatrixOf(numbers, ffn_, width_)};
    gated_ = ValueOrDie(backend_.CreateWeight(halves, WeightUse::kGateUp));
    down_ = weight(width_, ffn_, WeightUse::kPlain);
    norm_ = ValueOrDie(backend_.CreateVector(MatrixOf(std::vector<float>(width_, 1.0f), 1, width_)));
  }

  static Slice All(const std::unique_ptr<Buffer>& buffer) { return {buffer.get(), 0}; }
  void Norm() {
    Must(
        backend_.Norm(*workspace_, {.x = All(residual_), .weight = All(norm_), .epsilon = 1e-5f, .out = All(normed_)}));
  }
  void Qkv() {
    const RopeTable* const ropes[] = {rope_.get()};
    Must(backend_.QkvRopeWrite(*workspace_, {.x = All(normed_),
                                             .weight = qkv_.get(),
                                             .query_head_count = cell_.model.heads,
                                             .rope_tables = ropes,
                                             .pool = pool_.get(),
                                             .queries = All(queries_)}));
  }
  void Attend() {
    Must(backend_.Attend(*workspace_, {.queries = All(queries_),
                                       .query_head_count = cell_.model.heads,
                                       .pool = pool_.get(),
                                       .scale = 1.0f / std::sqrt(static_cast<float>(cell_.model.head_dim)),
                                       .out = All(heads_out_)}));
  }
  void Residual(const std::unique_ptr<Buffer>& x, const std::unique_ptr<Weight>& weight) {
    Must(backend_.LinearResidual(*workspace_, {.x = All(x), .weight = weight.get(), .residual = All(residual_)}));
  }
  void Gated() {
    Must(backend_.LinearGated(*workspace_, {.x = All(normed_), .weight = gated_.get(), .out = All(hidden_)}));
  }
  void Product(const std::unique_ptr<Buffer>& x, const std::unique_ptr<Weight>& weight, ProductType type) {
    const auto& own = static_cast<const CudaWeight&>(*weight);
    Must(products_.InOnePiece(DeviceData<uint16_t>(All(x), WideProduct(rows_, own.columns())), rows_, own, 0,
                              own.rows(), type, DeviceData<float>(All(product_), 0)));
  }
  void WholeLayer() {
    Norm();
    Qkv();
    Attend();
    Residual(heads_out_, attended_weight_);
    Norm();
    Gated();
    Residual(hidden_, down_);
  }

  // From the same residual each time: the one after the layer.
  std::vector<float> Layer() {
    std::vector<float> out(first_.size());
    Must(backend_.Write(All(residual_), first_.data(), first_.size() * sizeof(float)));
    WholeLayer();
    Must(backend_.Read(out.data(), All(residual_), out.size() * sizeof(float)));
    return out;
  }

  // The residual grows by an addition a call, but stays finite: a product is far below the largest f32 times its calls.
  void TimeParts(Outcome& outcome) {
    const double rows = rows_, width = width_, ffn = ffn_, pairs = rows * (rows + 1) / 2;
    const double kv = 2.0 * cell_.model.kv_heads * cell_.model.head_dim;
    const auto time = [&](const auto& operation) { return TimeOnDevice(place_, operation); };
    const auto add = [&](const char* name, double seconds, double bytes, double flops) {
      outcome.parts.push_back({name, std::max(seconds, 0.0), bytes, flops});
      outcome.bytes += bytes;
      outcome.flops += flops;
      return seconds;
    };
    const auto product = [&](const char* name, double outputs, double inner, double out_bytes, const auto& operation) {
      return add(name, time(operation), 2 * (rows * inner + outputs * inner) + out_bytes * rows * outputs,
                 2 * rows * outputs * inner);
    };
    const auto residual = [&](const char* name, double alone, const auto& operation) {
      add(name, time(operation) - alone, 12 * rows * width, 2 * rows * width);
    };
    const double norm = time([&] { Norm(); });
    add("norm", norm, 6 * rows * width, 3 * rows * width);
    const double qkv = product("qkv_product", heads_, width, 4, [&] { Product(normed_, qkv_, ProductType::kF32); });
    add("rotation_and_write", time([&] { Qkv(); }) - qkv, rows * (4 * heads_ + 4 * attended_ + 2 * kv),
        3 * rows * heads_);
    add("attention", time([&] { Attend(); }), rows * (6.0 * attended_ + 2 * kv), 4 * pairs * attended_);
    const double o =
        product("o_product", width, attended_, 4, [&] { Product(heads_out_, attended_weight_, ProductType::kF32); });
    residual("o_residual", o, [&] { Residual(heads_out_, attended_weight_); });
    add("norm_2", norm, 6 * rows * width, 3 * rows * width);
    const double gated =
        product("gate_up_product", 2 * ffn, width, 2, [&] { Product(normed_, gated_, ProductType::kBf16); });
    add("activation", time([&] { Gated(); }) - gated, 6 * rows * ffn, 5 * rows * ffn);
    const double down = product("down_product", width, ffn, 4, [&] { Product(hidden_, down_, ProductType::kF32); });
    residual("down_residual", down, [&] { Residual(hidden_, down_); });
    outcome.seconds = time([&] { WholeLayer(); });
  }

  Backend& backend_;
  CudaProducts products_;
  const int rows_, width_, ffn_, attended_, heads_;
  std::unique_ptr<Weight> qkv_, attended_weight_, gated_, down_;
  std::unique_ptr<Buffer> norm_;
  std::unique_ptr<RopeTable> rope_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Buffer> residual_, normed_, queries_, heads_out_, hidden_, product_;
  std::vector<int32_t> pages_;
  std::span<const int32_t> table_;
  std::vector<RowInterval> intervals_;
  std::span<const RowInterval> mask_;
  std::vector<float> first_;
};

}  // namespace

std::unique_ptr<Bench> MakeLayerOps(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<LayerOps>(place, cell);
}

}  // namespace varifocal::kernels::cuda
