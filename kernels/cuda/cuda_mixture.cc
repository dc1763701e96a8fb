#include "kernels/cuda/cuda_mixture.h"

#include <algorithm>

#include "base/wide_product.h"

namespace varifocal::kernels::cuda {
namespace {

// One step's mixture: the sizes and pointers that its phases share.
class MixtureRun {
 public:
  MixtureRun(Device& device, CudaProducts& products, CudaWorkspace& workspace, const MixtureArgs& args)
      : device_(device), products_(products), own_(workspace), args_(args), scratch_(workspace.mixture()) {
    rows_ = own_.flat.row_count();
    width_ = own_.shape.model_dim;
    inner_ = static_cast<int>(Own(*args.down).columns());
    const int64_t experts = args.expert_count;
    VF_CHECK(experts == own_.shape.expert_count && args.per_token <= own_.shape.experts_per_token &&
                 inner_ <= own_.shape.expert_ffn_dim &&
                 Own(*args.gate_up).rows() == experts * inner_ * (args.gated ? 2 : 1) &&
                 Own(*args.down).rows() == experts * width_,
             "the workspace was planned for these experts");
    VF_CHECK(args.shared_gate.buffer == nullptr || args.shared_gate_up != nullptr, "a gate is of a shared expert");
    gate_up_bias_ = OptionalDeviceData<float>(args.gate_up_bias, WideProduct(experts, 2, inner_));
    down_bias_ = OptionalDeviceData<float>(args.down_bias, WideProduct(experts, width_));
    x_ = DeviceData<uint16_t>(args.x, WideProduct(rows_, width_));
    residual_ = DeviceData<float>(args.residual, WideProduct(rows_, width_));
  }

  Error Run(const NormParams& next) {
    if (Error error = Route(); !error.ok()) return error;
    if (args_.shared_gate_up != nullptr) {
      if (Error error = AddShared(); !error.ok()) return error;
    }
    for (int first = 0; first < rows_; first += kMixtureRows) {
      if (Error error = AddExperts(first, std::min(kMixtureRows, rows_ - first), next); !error.ok()) return error;
    }
    return {};
  }

 private:
  Error Launched(int code) { return device_.Check(code, "starting a mixture of experts"); }
  const KernelTable& kernels() { return device_.kernels(); }
  // Two values per hidden unit in bf16, as LinearGated has them, or one.
  ProductType hidden_type() const { return args_.gated ? ProductType::kBf16 : ProductType::kF32; }

  Error Route() {
    MixtureRouteParams p;
    p.x = x_;
    p.router_x = OptionalDeviceData<uint16_t>(args_.router_x, WideProduct(rows_, width_));
    if (p.router_x == nullptr) p.router_x = x_;
    p.router = DeviceData<float>(args_.router, WideProduct(args_.expert_count, width_));
    p.router_bias = OptionalDeviceData<float>(args_.router_bias, args_.expert_count);
    p.shared_gate = OptionalDeviceData<float>(args_.shared_gate, width_);
    p.row_count = rows_;
    p.width = width_;
    p.expert_count = args_.expert_count;
    p.per_token = args_.per_token;
    p.renormalised = args_.renormalised;
    p.routing = args_.routing;
    p.choice_bias = OptionalDeviceData<float>(args_.choice_bias, args_.expert_count);
    p.expert_scales = OptionalDeviceData<float>(args_.expert_scales, args_.expert_count);
    p.chosen = scratch_.chosen;
    p.weights = scratch_.weights;
    p.shares = scratch_.shares;
    return Launched(kernels().mixture_route(p, own_.stream()));
  }

  Error Finish(const ProductView& product, int row_count, uint16_t* out) {
    FinishParams p;
    p.product = product;
    if (args_.gated) p.mode = FinishMode::kGated;
    p.activation = args_.activation;
    p.terms = args_.terms;
    p.row_count = row_count;
    p.out = out;
    return Launched(kernels().finish(p, own_.stream()));
  }

  // residual += multiplier * share * shared(x)
  Error AddShared() {
    const CudaWeight &gate_up = Own(*args_.shared_gate_up), &down = Own(*args_.shared_down);
    VF_CHECK(own_.shape.shared_expert && down.columns() <= own_.shape.ffn_dim, "the workspace was planned for it");
    ProductView product;
    if (Error error = products_.ToScratch(own_, x_, rows_, gate_up, hidden_type(), &product); !error.ok()) return error;
    if (Error error = Finish(product, rows_, scratch_.hidden); !error.ok()) return error;
    if (Error error = products_.ToScratch(own_, scratch_.hidden, rows_, down, ProductType::kF32, &product); !error.ok())
      return error;
    MixtureSumParams p;
    p.product = product;
    p.weights = scratch_.shares;
    p.multiplier = args_.multiplier;
    p.row_count = rows_;
    p.residual = residual_;
    return Launched(kernels().mixture_sum(p, own_.stream()));
  }

  // A product of `places`, into scratch, plus the bias of each one's expert, if any.
  Error Multiply(const CudaWeight& weight, const float* bias, const uint16_t* x, const ExpertRows& experts, int places,
                 ProductType type, ProductView* product) {
    const int outputs = static_cast<int>(weight.rows() / args_.expert_count);
    const bool decode = own_.flat.batch.phase == Phase::kDecode;
    if (decode) type = ProductType::kF32;
    const int splits = decode ? DecodeSplitK(outputs, weight.columns()) : 1;
    const size_t elements = WideProduct(places, outputs);
    auto scratch = own_.Products(elements * splits * (type == ProductType::kF32 ? sizeof(float) : sizeof(uint16_t)));
    if (!scratch.ok()) return scratch.error();
    *product = {.data = *scratch,
                .is_bf16 = type == ProductType::kBf16,
                .split_count = splits,
                .split_stride = elements,
                .columns = outputs,
                .bias = bias,
                .bias_rows = bias == nullptr ? nullptr : experts.chosen};
    const MatmulParams p{.x = x,
                         .weight = weight.data(),
                         .x_stride = weight.columns(),
                         .weight_stride = weight.stride(),
                         .rows = places,
                         .outputs = outputs,
                         .inner = static_cast<int>(weight.columns()),
                         .split_count = splits,
                         .split_steps = SplitSteps(weight.columns(), splits),
                         .out = *scratch,
                         .experts = experts};
    return Launched(decode ? kernels().grouped_decode(p, own_.stream())
                           : kernels().grouped_prefill(p, type, own_.stream()));
  }

  // residual += multiplier * (the experts of each row times their weights); then the next norm.
  Error AddExperts(int first, int count, const NormParams& next) {
    const int places = count * args_.per_token;
    ExpertRows experts;
    experts.chosen = scratch_.chosen + WideProduct(first, args_.per_token);
    experts.places_per_x = args_.per_token;
    if (places <= args_.expert_count && own_.flat.batch.phase == Phase::kDecode) {
      // Few places: each reads the weights of its expert alone.
      experts.group_count = places;
      experts.rows_max = 1;
    } else {
      MixtureListParams p;
      p.chosen = experts.chosen;
      p.place_count = places;
      p.expert_count = args_.expert_count;
      p.list_stride = count;
      p.counts = scratch_.counts;
      p.lists = scratch_.lists;
      if (Error error = Launched(kernels().mixture_list(p, own_.stream())); !error.ok()) return error;
      experts.counts = p.counts;
      experts.lists = p.lists;
      experts.list_stride = p.list_stride;
      experts.group_count = args_.expert_count;
      experts.rows_max = count;
    }
    const uint16_t* x = x_ + WideProduct(first, width_);
    ProductView product;
    if (Error error = Multiply(Own(*args_.gate_up), gate_up_bias_, x, experts, places, hidden_type(), &product);
        !error.ok())
      return error;
    if (Error error = Finish(product, places, scratch_.hidden); !error.ok()) return error;
    experts.places_per_x = 1;
    if (Error error =
            Multiply(Own(*args_.down), down_bias_, scratch_.hidden, experts, places, ProductType::kF32, &product);
        !error.ok())
      return error;
    MixtureSumParams p;
    p.product = product;
    p.weights = scratch_.weights + WideProduct(first, args_.per_token);
    p.per_row = args_.per_token;
    p.multiplier = args_.multiplier;
    p.row_count = count;
    p.residual = residual_ + WideProduct(first, width_);
    if (next.out != nullptr) {
      p.next = next;
      p.next.x += WideProduct(first, width_);
      p.next.out += WideProduct(first, width_);
      p.next.row_count = count;
    }
    return Launched(kernels().mixture_sum(p, own_.stream()));
  }

  Device& device_;
  CudaProducts& products_;
  CudaWorkspace& own_;
  const MixtureArgs& args_;
  const MixtureScratch scratch_;
  int rows_ = 0, width_ = 0, inner_ = 0;
  const uint16_t* x_ = nullptr;
  const float *gate_up_bias_ = nullptr, *down_bias_ = nullptr;  // of each expert
  float* residual_ = nullptr;
};

}  // namespace

Error RunMixture(Device& device, CudaProducts& products, CudaWorkspace& workspace, const MixtureArgs& args,
                 const NormParams& next) {
  return MixtureRun(device, products, workspace, args).Run(next);
}

}  // namespace varifocal::kernels::cuda
