// Products, activations, norms and the embedding, against the oracle.

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/conformance/case_tools.h"

namespace varifocal::kernels {
namespace {

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
    const auto weights = UniformVector(1, inner * outputs), x = UniformVector(2, rows * inner);
    const auto bias = UniformVector(5, outputs), base = UniformVector(6, rows * outputs);
    for (const int mode : {0, 1, 2}) {
      const std::string what = "linear " + std::to_string(rows) + "x" + std::to_string(inner) + "x" +
                               std::to_string(outputs) + " mode " + std::to_string(mode);
      // The residual's multiplier of 0.5 and its addition round once more each.
      // A bf16 operand adds one rounding, relative to at most inner + 1.
      const double tolerance = SumTolerance(inner + 2, 1.0) + (mode < 2 ? OutputUnit(tested) * (inner + 1) : 0);
      RETURN_COMPLAINT(
          Both(tested, oracle, tolerance, what, [&, rows = rows, inner = inner, outputs = outputs](Backend& backend) {
            PlainStep step(backend, {.model_dim = inner}, rows);
            auto weight = MakeWeight(backend, weights, outputs, inner, WeightUse::kPlain);
            auto in = UploadOperands(backend, ProductInput(backend, x)),
                 out = mode < 2 ? UploadOperands(backend, base) : Upload(backend, base), b = Upload(backend, bias);
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
            return mode < 2 ? DownloadOperands(backend, *out, base.size()) : Download(backend, *out, base.size());
          }));
    }
  }
  return "";
}

constexpr Activation kActivations[] = {
    Activation::kNone,        Activation::kSilu,  Activation::kGeluTanh,    Activation::kGeluErf,    Activation::kRelu,
    Activation::kReluSquared, Activation::kXielu, Activation::kClampedGate, Activation::kSlopedSilu,
};

ActivationTerms TermsOf(Activation activation) {
  if (activation == Activation::kXielu) return {.a = 0.8f, .b = 0.9f, .c = 0.5f};
  if (activation == Activation::kSlopedSilu) return {.a = 0.6f};
  if (activation == Activation::kClampedGate) return {.a = 1.702f, .b = 1.5f};
  return {};
}

// How much larger than |x| an activation of numbers up to `range` may be; half of how much steeper than 1.13.
double Growth(Activation activation, double range) {
  if (activation == Activation::kReluSquared) return range;
  if (activation == Activation::kXielu) return std::max(1.0, range);  // beside its square it is linear
  return activation == Activation::kClampedGate ? 2.5 : 1;            // an up of at most 1.5, plus 1
}

// Xielu grows with the square, as relu squared; no other activation is steeper than 1.13 or larger than |x|, and the
// other factor stays below the sum; products of two sums of `inner` terms, a bias and an activation each.
std::string CheckGated(Backend& tested, Backend& oracle) {
  for (const auto& [rows, inner, width] : {std::tuple{1, 16, 32}, {3, 20, 31}, {8, 128, 352}, {97, 64, 33}}) {
    const auto weights = UniformVector(11, inner * 2 * width), x = UniformVector(12, rows * inner, 4.0f),
               bias = UniformVector(13, 2 * width);
    for (const Activation activation : kActivations) {
      for (const bool biased : {false, true}) {
        const double sum = 4.0 * inner + 1, error_of_sum = SumTolerance(inner + 1, 4.0);
        // With bf16 operands gate, up and their product round once each.
        const double tolerance =
            Growth(activation, 1.5 * sum) * (2.2 * error_of_sum * sum + (1e-6 + 3.3 * OutputUnit(tested)) * sum * sum);
        const std::string what = "gated " + std::to_string(rows) + "x" + std::to_string(width) + " activation " +
                                 std::to_string(static_cast<int>(activation)) + (biased ? " with bias" : "");
        RETURN_COMPLAINT(
            Both(tested, oracle, tolerance, what, [&, rows = rows, inner = inner, width = width](Backend& backend) {
              PlainStep step(backend, {.model_dim = inner}, rows);
              auto weight = MakeWeight(backend, weights, 2 * width, inner, WeightUse::kGateUp);
              auto in = UploadOperands(backend, ProductInput(backend, x)), b = Upload(backend, bias),
                   out = EmptyOperands(backend, rows * width);
              LinearGatedArgs args{.x = {in.get(), 0},
                                   .weight = weight.get(),
                                   .activation = activation,
                                   .terms = TermsOf(activation),
                                   .out = {out.get(), 0}};
              if (biased) args.bias = {b.get(), 0};
              CheckOk(backend.LinearGated(*step.workspace, args));
              return DownloadOperands(backend, *out, rows * width);
            }));
      }
    }
  }
  return "";
}

// Every activation alone, over ranges of every size, with an identity weight: relative to the range, 3e-7 of exp2 and a
// few roundings, of bf16 operands once each. Once after a plain product and once as the gate of an `up` of 1.
std::string CheckActivations(Backend& tested, Backend& oracle) {
  for (const float range : {120.0f, 6.0f, 0.5f, 1e-3f}) {
    std::vector<float> x, gated_input;
    for (int i = -300; i <= 300; ++i) x.push_back(range * i / 300.0f);
    for (const float v : x) gated_input.insert(gated_input.end(), {v, 1.0f});
    const int rows = x.size();
    for (const Activation activation : kActivations) {
      const std::string what =
          "activation " + std::to_string(static_cast<int>(activation)) + " up to " + std::to_string(range);
      const double tolerance = Growth(activation, range) * range * (6e-7 + 3.3 * OutputUnit(tested));
      const auto plain = [&](Backend& backend) {
        PlainStep step(backend, {.model_dim = 1}, rows);
        auto weight = MakeWeight(backend, {1}, 1, 1, WeightUse::kPlain);
        auto in = UploadOperands(backend, ProductInput(backend, x)), out = EmptyOperands(backend, x.size());
        const LinearArgs args{.x = {in.get(), 0},
                              .weight = weight.get(),
                              .activation = activation,
                              .terms = TermsOf(activation),
                              .out = {out.get(), 0}};
        CheckOk(backend.Linear(*step.workspace, args));
        return DownloadOperands(backend, *out, x.size());
      };
      std::string error;
      if (activation != Activation::kClampedGate) error = Both(tested, oracle, tolerance, what, plain);
      if (!error.empty()) return error;
      error = Both(tested, oracle, tolerance, what + ", gated", [&](Backend& backend) {
        PlainStep step(backend, {.model_dim = 2}, rows);
        auto weight = MakeWeight(backend, {1, 0, 0, 1}, 2, 2, WeightUse::kGateUp);
        auto in = UploadOperands(backend, ProductInput(backend, gated_input)), out = EmptyOperands(backend, x.size());
        const LinearGatedArgs args{.x = {in.get(), 0},
                                   .weight = weight.get(),
                                   .activation = activation,
                                   .terms = TermsOf(activation),
                                   .out = {out.get(), 0}};
        CheckOk(backend.LinearGated(*step.workspace, args));
        return DownloadOperands(backend, *out, x.size());
      });
      if (!error.empty()) return error;
    }
  }
  return "";
}

// Relative to a norm of unit size: the error of the sum of squares is width u, halved by the root; that of a layer
// norm's mean is width u times the offset of the numbers, divided by their deviation of about 1/2.
std::string CheckNorm(Backend& tested, Backend& oracle) {
  for (const auto& [rows, width] : {std::pair{1, 1}, {3, 15}, {17, 16}, {33, 128}, {5, 2560}}) {
    for (const NormKind kind : {NormKind::kNone, NormKind::kRms, NormKind::kLayer}) {
      for (const float offset : {0.0f, 5.0f}) {
        auto x = UniformVector(21, rows * width);
        for (float& v : x) v += offset;
        const auto weight = UniformVector(23, width), bias = UniformVector(24, width);
        // With width 1 the deviation from the mean is pure rounding, which 1 / sqrt(epsilon) may amplify.
        const double deviation = width == 1 ? std::sqrt(1e-5) : 0.25;
        const double centred = kind == NormKind::kLayer ? (2 + offset) / deviation : 0;
        // Results stay below 4 (without a norm: 2 more than the offset), which a bf16 operand rounds once more.
        const double tolerance =
            (width + 8) * kUnit * (4.0 + centred) + 8 * kUnit * offset + OutputUnit(tested) * (4.0 + offset);
        const std::string what = "norm " + std::to_string(static_cast<int>(kind)) + " of width " +
                                 std::to_string(width) + " around " + std::to_string(offset);
        RETURN_COMPLAINT(Both(tested, oracle, tolerance, what, [&, rows = rows, width = width](Backend& backend) {
          PlainStep step(backend, {.model_dim = width}, rows);
          auto in = Upload(backend, x), w = Upload(backend, weight), b = Upload(backend, bias),
               out = EmptyOperands(backend, x.size());
          NormArgs args{
              .kind = kind, .x = {in.get(), 0}, .weight = {w.get(), 0}, .epsilon = 1e-5f, .out = {out.get(), 0}};
          // A layer norm is also tested without its bias.
          if (kind == NormKind::kLayer && rows != 17) args.bias = {b.get(), 0};
          CheckOk(backend.Norm(*step.workspace, args));
          return DownloadOperands(backend, *out, x.size());
        }));
      }
    }
  }
  return "";
}

// The norm of a product, times a multiplier, added to the residual. The error of a product of `inner` terms is its sum's
// tolerance against a deviation of at least 1, plus that of the norm; weight times multiplier is below 2.5.
std::string CheckLinearNormResidual(Backend& tested, Backend& oracle) {
  for (const auto& [rows, inner, width] : {std::tuple{1, 16, 64}, {5, 48, 33}, {97, 130, 70}, {2, 64, 1}}) {
    const auto weights = UniformVector(71, inner * width, 2.0f), x = UniformVector(72, rows * inner, 2.0f),
               bias = UniformVector(73, width), norm = UniformVector(74, width), base = UniformVector(75, rows * width);
    for (const bool biased : {false, true}) {
      for (const float multiplier : {1.0f, 2.5f}) {
        // A single output is divided by its own magnitude: only rounding remains.
        const double product = width == 1 ? 4 * kUnit : SumTolerance(inner + 1, 4.0);
        const double tolerance = 2.5 * (2 * product + 8.0 * (width + 8) * kUnit);
        const std::string what = "normed product " + std::to_string(rows) + "x" + std::to_string(inner) + "x" +
                                 std::to_string(width) + (biased ? " with bias" : "");
        RETURN_COMPLAINT(
            Both(tested, oracle, tolerance, what, [&, rows = rows, inner = inner, width = width](Backend& backend) {
              PlainStep step(backend, {.model_dim = width, .ffn_dim = inner}, rows);
              auto weight = MakeWeight(backend, weights, width, inner, WeightUse::kPlain);
              auto in = UploadOperands(backend, ProductInput(backend, x)), b = Upload(backend, bias),
                   n = Upload(backend, norm), residual = Upload(backend, base);
              LinearNormResidualArgs args{.x = {in.get(), 0},
                                          .weight = weight.get(),
                                          .norm_weight = {n.get(), 0},
                                          .norm_epsilon = 1e-9f,
                                          .multiplier = multiplier,
                                          .residual = {residual.get(), 0}};
              if (biased) args.bias = {b.get(), 0};
              CheckOk(backend.LinearNormResidual(*step.workspace, args));
              return Download(backend, *residual, base.size());
            }));
      }
    }
  }
  return "";
}

// A norm given with the residual that it follows: the bits of both calls, one after the other.
std::string CheckNextNorm(Backend& tested) {
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    for (const auto& [rows, inner, width] : {std::tuple{1, 16, 64}, {5, 48, 33}, {3, 130, 1156}, {2, 64, 1}}) {
      const auto weights = UniformVector(81, inner * width), x = UniformVector(82, rows * inner),
                 vector = UniformVector(83, width), base = UniformVector(84, rows * width);
      for (const NormKind kind : {NormKind::kNone, NormKind::kRms, NormKind::kLayer}) {
        for (const int mode : {0, 1, 2}) {  // plain, with a bias, the product normalized before it is added
          std::vector<float> results[2];
          for (const bool together : {false, true}) {
            PlainStep step(tested, {.model_dim = width, .ffn_dim = inner}, rows, phase);
            auto weight = MakeWeight(tested, weights, width, inner, WeightUse::kPlain);
            auto in = UploadOperands(tested, ProductInput(tested, x)), v = Upload(tested, vector),
                 residual = Upload(tested, base), out = EmptyOperands(tested, base.size());
            const Slice maybe_bias = mode == 1 ? Slice{v.get(), 0} : Slice{};
            NormArgs norm{.kind = kind,
                          .x = {residual.get(), 0},
                          .weight = {v.get(), 0},
                          .epsilon = 1e-5f,
                          .out = {out.get(), 0}};
            if (kind == NormKind::kLayer) norm.bias = {v.get(), 0};
            const NormArgs* next = together ? &norm : nullptr;
            Error error = mode < 2 ? tested.LinearResidual(*step.workspace, {.x = {in.get(), 0},
                                                                             .weight = weight.get(),
                                                                             .bias = maybe_bias,
                                                                             .multiplier = 0.5f,
                                                                             .residual = {residual.get(), 0},
                                                                             .next_norm = next})
                                   : tested.LinearNormResidual(*step.workspace, {.x = {in.get(), 0},
                                                                                 .weight = weight.get(),
                                                                                 .norm_weight = {v.get(), 0},
                                                                                 .norm_epsilon = 1e-5f,
                                                                                 .multiplier = 0.5f,
                                                                                 .residual = {residual.get(), 0},
                                                                                 .next_norm = next});
            if (error.ok() && !together) error = tested.Norm(*step.workspace, norm);
            VF_CHECK(error.ok(), "valid");
            results[together] = Download(tested, *residual, base.size());
            const auto normed = DownloadOperands(tested, *out, base.size());
            results[together].insert(results[together].end(), normed.begin(), normed.end());
          }
          size_t different = 0;
          for (size_t i = 0; i < results[0].size(); ++i)
            different += std::bit_cast<uint32_t>(results[0][i]) != std::bit_cast<uint32_t>(results[1][i]);
          const std::string what = "the norm of width " + std::to_string(width) + " with its residual, mode " +
                                   std::to_string(mode) + ", kind " + std::to_string(static_cast<int>(kind));
          RETURN_COMPLAINT(SameBitsVerdict(different, what));
        }
      }
    }
  }
  return "";
}

// A weight stored transposed gives the same bits for every use; parts of either layout can be stacked.
std::string CheckTransposed(Backend& tested) {
  const int inner = 70, outputs = 66, rows = 9;
  const auto plain = UniformVector(81, inner * outputs), x = UniformVector(82, rows * inner);
  std::vector<float> turned(plain.size());
  for (int n = 0; n < outputs; ++n) {
    for (int k = 0; k < inner; ++k) turned[k * outputs + n] = plain[n * inner + k];
  }
  HostMatrix as_is = MatrixOf(plain, outputs, inner), transposed = MatrixOf(turned, outputs, inner);
  transposed.row_stride = 1;
  transposed.column_stride = outputs;
  const auto product = [&](std::span<const HostMatrix> parts, WeightUse use) {
    PlainStep step(tested, {.model_dim = inner}, rows);
    auto weight = Take(tested.CreateWeight(parts, use));
    const size_t width = use == WeightUse::kGateUp ? weight->rows() / 2 : weight->rows();
    auto in = UploadOperands(tested, ProductInput(tested, x)), out = EmptyOperands(tested, rows * width);
    const Error error =
        use == WeightUse::kGateUp
            ? tested.LinearGated(*step.workspace, {.x = {in.get(), 0}, .weight = weight.get(), .out = {out.get(), 0}})
            : tested.Linear(*step.workspace, {.x = {in.get(), 0}, .weight = weight.get(), .out = {out.get(), 0}});
    VF_CHECK(error.ok(), "valid");
    return DownloadOperands(tested, *out, rows * width);
  };
  for (const WeightUse use : {WeightUse::kPlain, WeightUse::kGateUp}) {
    const HostMatrix one[] = {as_is, as_is}, other[] = {as_is, transposed};
    if (product(one, use) != product(other, use)) return "a transposed part of a weight gives other bits";
  }
  return "";
}

// A tied table is gathered exactly for every packing; and formats widen exactly.
std::string CheckEmbed(Backend& tested, Backend& oracle) {
  const int vocab = 130, width = 70;
  const auto table = UniformVector(31, vocab * width);
  std::vector<uint16_t> halves(table.size());
  for (size_t i = 0; i < table.size(); ++i) halves[i] = RoundToBF16(table[i]);
  const std::vector<int32_t> tokens = {0, 129, 63, 64, 65, 127, 128, 1, 1};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const HostMatrix matrix{dtype, dtype == DType::kF32 ? static_cast<const void*>(table.data()) : halves.data(), vocab,
                            width};
    // The bf16 patterns read as f16 are other numbers; both sides must read the same ones.
    RETURN_COMPLAINT(
        Both(tested, oracle, 0.0, std::string("embedding from ") + DTypeName(dtype), [&](Backend& backend) {
          PlainStep step(backend, {.model_dim = width}, tokens.size());
          auto weight = Take(backend.CreateWeight({&matrix, 1}, WeightUse::kEmbeddingAndHead));
          auto out = Empty(backend, tokens.size() * width);
          CheckOk(backend.Embed(*step.workspace,
                                {.table = weight.get(), .tokens = tokens, .multiplier = 2.0f, .out = {out.get(), 0}}));
          return Download(backend, *out, tokens.size() * width);
        }));
  }
  return "";
}

// Positions are added after the multiplier, from the sequence's position on: two roundings of numbers below 3.
std::string CheckEmbedPositions(Backend& tested, Backend& oracle) {
  const int vocab = 70, width = 40, positions = 300, rows = 5;
  const auto table = UniformVector(33, vocab * width), offsets = UniformVector(34, positions * width);
  return Both(tested, oracle, 4 * kUnit, "embedding with positions", [&](Backend& backend) {
    auto workspace = SmallWorkspace(backend, {.row_count_max = 2 * rows,
                                              .sequence_count_max = 2,
                                              .context_length_max = positions,
                                              .model_dim = width,
                                              .vocab_size = vocab});
    const SequenceRows sequences[] = {{.row_count = rows, .first_position = positions - rows},
                                      {.row_count = rows, .first_position = 62}};
    CheckOk(backend.BeginStep(*workspace, {.sequences = sequences}));
    auto tokens_weight = MakeWeight(backend, table, vocab, width, WeightUse::kEmbeddingAndHead);
    auto positions_weight = MakeWeight(backend, offsets, positions, width, WeightUse::kEmbedding);
    const std::vector<int32_t> tokens = {0, 69, 63, 64, 65, 1, 1, 1, 68, 2};
    auto out = Empty(backend, tokens.size() * width);
    CheckOk(backend.Embed(*workspace, {.table = tokens_weight.get(),
                                       .tokens = tokens,
                                       .multiplier = 1.7f,
                                       .positions = positions_weight.get(),
                                       .out = {out.get(), 0}}));
    return Download(backend, *out, tokens.size() * width);
  });
}

}  // namespace

std::vector<ConformanceCase> ProductCases() {
  return {
      {"linear", CheckLinear},
      {"gated", CheckGated},
      {"activations", CheckActivations},
      {"norm", CheckNorm},
      {"linear_norm_residual", CheckLinearNormResidual},
      {"next_norm", [](Backend& tested, Backend&) { return CheckNextNorm(tested); }},
      {"transposed", [](Backend& tested, Backend&) { return CheckTransposed(tested); }},
      {"embed", CheckEmbed},
      {"embed_positions", CheckEmbedPositions},
  };
}

}  // namespace varifocal::kernels
