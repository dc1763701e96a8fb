// Mixtures of experts: against the oracle, and the same bits for any batch.
//
// The control adds a row's experts in the order in which the batch first chose them, by numbering them so: its bits must
// depend on the batch, or the comparison is vacuous.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/conformance/case_tools.h"
#include "kernels/expert_choice.h"

namespace varifocal::kernels {
namespace {

struct MixtureSizes {
  int rows, width, inner, experts, per_token, shared = 0;  // shared: F' or 0
};
struct MixtureOptions {
  bool renormalised = false;
  bool equal_routes = false;  // every expert has the same logits
  bool biased = false;        // all products, and gates are clamped
  bool inputs_first = false;  // experts are stored [inputs, outputs], the outputs of gates and ups in turn
  bool ungated = false;       // the shared expert
  ExpertRouting routing = {};
  bool choice_bias = false;
  bool gateless = false;  // experts of act(up x) alone
};
struct MixtureCase : MixtureSizes, MixtureOptions {};

class MixtureInputs {
 public:
  explicit MixtureInputs(const MixtureCase& c) : c_(c) {
    const auto of = [](uint64_t seed, size_t rows, size_t columns, float gain) {
      return UniformVector(seed, rows * columns, gain * std::sqrt(3.0f / columns));
    };
    x_ = UniformVector(201, c.rows * c.width);
    base_ = UniformVector(202, c.rows * c.width);
    norm_ = UniformVector(203, c.width);
    router_ = of(204, c.experts, c.width, 4.0f);
    if (c.equal_routes) {
      for (int e = 1; e < c.experts; ++e) std::copy_n(router_.begin(), c.width, router_.begin() + e * c.width);
    }
    choice_bias_ = UniformVector(213, c.experts, 0.5f);
    gate_up_ = of(205, c.experts * 2 * c.inner, c.width, 1.0f);
    down_ = of(206, c.experts * c.width, c.inner, 1.0f);
    shared_gate_up_ = of(207, 2 * c.shared, c.width, 1.0f);
    shared_down_ = of(208, c.width, std::max(c.shared, 1), 1.0f);
    shared_gate_ = of(209, 1, c.width, 2.0f);
    router_bias_ = UniformVector(210, c.experts);
    gate_up_bias_ = UniformVector(211, c.experts * 2 * c.inner);
    down_bias_ = UniformVector(212, c.experts * c.width);
  }

  // The residual and the next norm of rows [first, first + count); `order` numbers the experts.
  std::vector<float> Run(Backend& backend, Phase phase, int first, int count, const std::vector<int>& order) const {
    const int m = c_.width, f = c_.inner, experts = c_.experts;
    PlainStep step(backend,
                   {.model_dim = m,
                    .ffn_dim = std::max(c_.shared, 1),
                    .expert_count = experts,
                    .experts_per_token = c_.per_token,
                    .expert_ffn_dim = f,
                    .shared_expert = c_.shared > 0},
                   count, phase);
    const auto stack = [&](const std::vector<float>& data, int rows, int columns, WeightUse use) {
      std::vector<HostMatrix> parts;
      const std::vector<float> turned = InputsFirst(data, rows, columns, use);
      for (const int e : order) {
        const size_t first = static_cast<size_t>(e) * rows * columns;
        if (c_.inputs_first) {
          const int kinds = use == WeightUse::kGateUp ? 2 : 1;
          for (int kind = 0; kind < kinds; ++kind)
            parts.push_back({DType::kF32, turned.data() + first + kind, rows / kinds, columns, kinds, rows});
          continue;
        }
        const float* rows_of_e = data.data() + first;
        // In two parts, as a file of gates and ups has them.
        parts.push_back({DType::kF32, rows_of_e, rows / 2, columns});
        parts.push_back({DType::kF32, rows_of_e + static_cast<size_t>(rows / 2) * columns, rows - rows / 2, columns});
      }
      return Take(backend.CreateExperts(parts, experts, use));
    };
    const auto ordered = [&](const std::vector<float>& data, int size) {
      std::vector<float> out;
      for (const int e : order) out.insert(out.end(), data.begin() + e * size, data.begin() + (e + 1) * size);
      return out;
    };
    const auto rows_of = [&](const std::vector<float>& data) {
      return std::vector<float>(data.begin() + first * m, data.begin() + (first + count) * m);
    };
    const int sides = c_.gateless ? 1 : 2;
    const WeightUse first_use = c_.gateless ? WeightUse::kPlain : WeightUse::kGateUp;
    auto gate_up = stack(gate_up_, sides * f, m, first_use), down = stack(down_, m, f, WeightUse::kPlain);
    std::unique_ptr<Weight> shared_gate_up, shared_down;
    if (c_.shared > 0) {
      shared_gate_up = MakeWeight(backend, shared_gate_up_, sides * c_.shared, m, first_use);
      shared_down = MakeWeight(backend, shared_down_, m, c_.shared, WeightUse::kPlain);
    }
    auto in = UploadOperands(backend, ProductInput(backend, rows_of(x_))), residual = Upload(backend, rows_of(base_)),
         routes = Upload(backend, ordered(router_, m)), gate = Upload(backend, shared_gate_),
         norm = Upload(backend, norm_), normed = EmptyOperands(backend, count * m);
    const NormArgs next{
        .x = {residual.get(), 0}, .weight = {norm.get(), 0}, .epsilon = 1e-5f, .out = {normed.get(), 0}};
    MixtureArgs args{.x = {in.get(), 0},
                     .router = {routes.get(), 0},
                     .expert_count = experts,
                     .per_token = c_.per_token,
                     .renormalised = c_.renormalised,
                     .routing = c_.routing,
                     .gated = !c_.gateless,
                     .gate_up = gate_up.get(),
                     .down = down.get(),
                     .shared_gate_up = shared_gate_up.get(),
                     .shared_down = shared_down.get(),
                     .multiplier = 0.5f,
                     .residual = {residual.get(), 0},
                     .next_norm = &next};
    if (c_.shared > 0 && !c_.ungated) args.shared_gate = {gate.get(), 0};
    auto choice_bias = Upload(backend, ordered(choice_bias_, 1));
    if (c_.choice_bias) args.choice_bias = {choice_bias.get(), 0};
    if (c_.gateless) args.activation = Activation::kReluSquared;
    auto router_bias = Upload(backend, ordered(router_bias_, 1)),
         gate_up_bias = Upload(backend, ordered(gate_up_bias_, 2 * f)),
         down_bias = Upload(backend, ordered(down_bias_, m));
    if (c_.biased) {
      args.router_bias = {router_bias.get(), 0};
      args.gate_up_bias = {gate_up_bias.get(), 0};
      args.down_bias = {down_bias.get(), 0};
      args.activation = Activation::kClampedGate;
      args.terms = {.a = 1.702f, .b = 1.5f};
    }
    CheckOk(backend.Mixture(*step.workspace, args));
    std::vector<float> out = Download(backend, *residual, count * m);
    const std::vector<float> after = DownloadOperands(backend, *normed, count * m);
    out.insert(out.end(), after.begin(), after.end());
    return out;
  }
  static std::vector<float> InputsFirst(const std::vector<float>& data, int rows, int columns, WeightUse use) {
    const size_t of_expert = static_cast<size_t>(rows) * columns;
    std::vector<float> turned(data.size());
    for (size_t at = 0; at < data.size(); ++at) {
      const int row = at % of_expert / columns, column = at % columns;
      const int output = use == WeightUse::kGateUp ? row % (rows / 2) * 2 + row / (rows / 2) : row;
      turned[at / of_expert * of_expert + static_cast<size_t>(column) * rows + output] = data[at];
    }
    return turned;
  }
  std::vector<int> Numbers() const {
    std::vector<int> numbers(c_.experts);
    for (int e = 0; e < c_.experts; ++e) numbers[e] = e;
    return numbers;
  }
  // The experts in the order in which rows [first, first + count) choose them, then the others.
  std::vector<int> Arrivals(Backend& backend, int first, int count) const {
    const std::vector<float> x = ProductInput(backend, x_);
    std::vector<float> logits(c_.experts), weights(c_.per_token);
    std::vector<int32_t> chosen(c_.per_token);
    std::vector<int> order;
    const auto add = [&](int e) {
      if (std::find(order.begin(), order.end(), e) == order.end()) order.push_back(e);
    };
    for (int row = first; row < first + count; ++row) {
      for (int e = 0; e < c_.experts; ++e) {
        double sum = 0;
        for (int i = 0; i < c_.width; ++i)
          sum += static_cast<double>(router_[e * c_.width + i]) * x[row * c_.width + i];
        logits[e] = static_cast<float>(sum);
      }
      ChooseExperts({logits.data(), c_.experts, c_.per_token, c_.renormalised, chosen.data(), weights.data()});
      for (const int32_t e : chosen) add(e);
    }
    for (int e = 0; e < c_.experts; ++e) add(e);
    return order;
  }

 private:
  const MixtureCase c_;
  std::vector<float> x_, base_, norm_, router_, gate_up_, down_, shared_gate_up_, shared_down_, shared_gate_,
      router_bias_, gate_up_bias_, down_bias_, choice_bias_;
};

// Hidden units and outputs are of about one, whatever the sizes. In f32 the sums of up to 200 products of an expert round
// by less than 1e-5, and the norm divides by a residual of at least about a quarter. In bf16 hidden units round, by 2^-8
// of a unit: a random walk over F of them times weights of about F^-1/2, of which five deviations are allowed, times the
// multiplier of one half and the norm's four. Where operands are stored in bf16, gates and ups round too, as does the
// norm.
std::string CheckMixture(Backend& tested, Backend& oracle) {
  const MixtureCase cases[] = {
      {{1, 16, 32, 4, 2}, {.renormalised = true}},
      {{7, 48, 20, 5, 3, 40}, {}},
      {{97, 64, 33, 8, 2}, {}},
      {{200, 100, 70, 6, 6, 24}, {.renormalised = true}},
      {{21, 56, 24, 6, 2, 18}, {.renormalised = true, .ungated = true}},
      {{33, 130, 65, 40, 8}, {.renormalised = true}},
      {{20, 64, 64, 8, 1}, {}},
      {{9, 32, 16, 7, 3}, {.equal_routes = true}},
      {{40, 52, 36, 6, 4}, {.renormalised = true, .biased = true}},
      {{3, 33, 21, 5, 2}, {.renormalised = true, .biased = true}},
      // Sigmoids, groups of experts, a choice bias, experts without gates.
      {{37, 40, 24, 12, 3, 20},
       {.renormalised = true,
        .ungated = true,
        .routing = {ExpertScore::kSigmoid, 4, 2, GroupScore::kTwoLargest, 2.5f},
        .choice_bias = true}},
      {{18, 33, 16, 36, 5}, {.routing = {ExpertScore::kSoftmax, 6, 2, GroupScore::kLargest, 4.0f}}},
      {{21, 48, 35, 7, 2, 18},
       {.ungated = true, .routing = {.score = ExpertScore::kSigmoid}, .choice_bias = true, .gateless = true}},
      {{9, 32, 16, 8, 3}, {.renormalised = true, .choice_bias = true}}};
  for (const MixtureCase& c : cases) {
    const MixtureInputs inputs(c);
    for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
      const double tolerance = 1e-4 + (OperandUnit(tested) + OutputUnit(tested)) * 5 * 0.5 * 4 + OutputUnit(tested) * 4;
      const std::string what = "mixture of " + std::to_string(c.per_token) + " of " + std::to_string(c.experts) +
                               " experts, " + std::to_string(c.rows) + " rows";
      RETURN_COMPLAINT(Both(tested, oracle, tolerance, what,
                            [&](Backend& backend) { return inputs.Run(backend, phase, 0, c.rows, inputs.Numbers()); }));
    }
  }
  return "";
}

// Numbers that differ in bits between rows computed alone or in parts and all together.
size_t CountMixtureBits(Backend& tested, Phase phase, bool by_arrival, bool biased = false) {
  const MixtureCase c{{99, 96, 40, 40, 4, biased ? 0 : 24}, {.renormalised = biased, .biased = biased}};
  const MixtureInputs inputs(c);
  const auto run = [&](int first, int count) {
    const std::vector<int> order = by_arrival ? inputs.Arrivals(tested, first, count) : inputs.Numbers();
    return inputs.Run(tested, phase, first, count, order);
  };
  const std::vector<float> all = run(0, c.rows);
  size_t different = 0;
  for (const auto& [first, count] : {std::pair{0, 1}, {50, 1}, {98, 1}, {3, 2}, {90, 9}, {1, 17}, {1, 97}}) {
    const std::vector<float> part = run(first, count);
    for (const size_t half : {size_t{0}, size_t{1}}) {  // the residual, the next norm
      for (int i = 0; i < count * c.width; ++i) {
        const float &a = part[half * count * c.width + i], &b = all[(half * c.rows + first) * c.width + i];
        different += std::memcmp(&a, &b, sizeof a) != 0;
      }
    }
  }
  return different;
}

std::string CheckMixtureBits(Backend& tested, Backend&) {
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    for (const bool biased : {false, true}) {
      const size_t different = CountMixtureBits(tested, phase, false, biased);
      RETURN_COMPLAINT(SameBitsVerdict(different, "other rows of a mixture"));
    }
  }
  return "";
}

std::string CheckMixtureControl(Backend& tested, Backend&) {
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    if (CountMixtureBits(tested, phase, true) == 0)
      return "adding experts in order of arrival gave the same bits, so the comparison is vacuous";
  }
  return "";
}

// Stacks that are not of so many experts are refused; the layout of a stack changes no bit.
std::string CheckMixtureStacks(Backend& tested, Backend&) {
  MixtureCase c{{5, 24, 18, 3, 2}, {}};
  const MixtureInputs as_is(c);
  c.inputs_first = true;
  const MixtureInputs turned(c);
  if (as_is.Run(tested, Phase::kPrefill, 0, 5, as_is.Numbers()) !=
      turned.Run(tested, Phase::kPrefill, 0, 5, turned.Numbers()))
    return "experts stored inputs first give other bits";
  const std::vector<float> data(60);
  const HostMatrix whole = MatrixOf(data, 15, 4);
  const auto refuses = [&](const HostMatrix& matrix, int experts, WeightUse use) {
    auto made = tested.CreateExperts({&matrix, 1}, experts, use);
    return !made.ok() && made.error().code == ErrorCode::kInvalidArgument;
  };
  if (!refuses(whole, 4, WeightUse::kPlain)) return "15 rows were accepted as those of 4 experts";
  if (!refuses(whole, 5, WeightUse::kGateUp)) return "3 rows were accepted as gates and ups of an expert";
  return "";
}

}  // namespace

std::vector<ConformanceCase> MixtureCases() {
  return {
      {"mixture", CheckMixture},
      {"mixture_same_bits", CheckMixtureBits},
      {"mixture_control_arrival_order", CheckMixtureControl},
      {"mixture_stacks", CheckMixtureStacks},
  };
}

}  // namespace varifocal::kernels
