// Products, activations, norms and the embedding, against the oracle.

#include <algorithm>
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
    const auto weights = UniformVector(1, static_cast<size_t>(inner) * outputs),
               x = UniformVector(2, static_cast<size_t>(rows) * inner);
    const auto bias = UniformVector(5, outputs), base = UniformVector(6, static_cast<size_t>(rows) * outputs);
    for (const int mode : {0, 1, 2}) {
      const std::string what = "linear " + std::to_string(rows) + "x" + std::to_string(inner) + "x" +
                               std::to_string(outputs) + " mode " + std::to_string(mode);
      // The residual's multiplier of 0.5 and its addition round once more each.
      // A bf16 operand rounds once more, relative to at most inner + 1.
      const double tolerance = SumTolerance(inner + 2, 1.0) + (mode < 2 ? OutputUnit(tested) * (inner + 1) : 0);
      const std::string error = Both(tested, oracle, tolerance, what, [&](Backend& backend) {
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
      // With bf16 operands gate, up and their product round once each.
      const double tolerance = 2.2 * error_of_sum * sum + (1e-6 + 3.3 * OutputUnit(tested)) * sum * sum;
      const std::string error = Both(
          tested, oracle, tolerance, "gated " + std::to_string(rows) + "x" + std::to_string(width),
          [&](Backend& backend) {
            PlainStep step(backend, {.model_dim = inner}, rows);
            auto weight = MakeWeight(backend, weights, 2 * width, inner, WeightUse::kGateUp);
            auto in = UploadOperands(backend, ProductInput(backend, x)),
                 out = EmptyOperands(backend, static_cast<size_t>(rows) * width);
            VF_CHECK(
                backend
                    .LinearGated(
                        *step.workspace,
                        {.x = {in.get(), 0}, .weight = weight.get(), .activation = activation, .out = {out.get(), 0}})
                    .ok(),
                "valid");
            return DownloadOperands(backend, *out, static_cast<size_t>(rows) * width);
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
    const std::string error =
        Both(tested, oracle, 120 * (6e-7 + 3.3 * OutputUnit(tested)), "activation", [&](Backend& backend) {
          PlainStep step(backend, {.model_dim = 2}, static_cast<int>(x.size()));
          auto weight = MakeWeight(backend, weights, 2, 2, WeightUse::kGateUp);
          auto in = UploadOperands(backend, ProductInput(backend, inputs)), out = EmptyOperands(backend, x.size());
          VF_CHECK(
              backend
                  .LinearGated(
                      *step.workspace,
                      {.x = {in.get(), 0}, .weight = weight.get(), .activation = activation, .out = {out.get(), 0}})
                  .ok(),
              "valid");
          return DownloadOperands(backend, *out, x.size());
        });
    if (!error.empty()) return error;
  }
  return "";
}

// Inputs of about unit size make a norm of about unit size: the sum of squares errs by width u, halved by the root.
std::string CheckRmsNorm(Backend& tested, Backend& oracle) {
  for (const auto& [rows, width] : {std::pair{1, 1}, {3, 15}, {17, 16}, {33, 128}, {5, 2560}}) {
    for (const auto& [kind, fused] :
         {std::pair{NormKind::kRms, false}, {NormKind::kRms, true}, {NormKind::kNone, true}}) {
      const auto x = UniformVector(21, static_cast<size_t>(rows) * width), delta = UniformVector(22, x.size()),
                 weight = UniformVector(23, width);
      const std::string error =
          // Normed values stay below 4, which a bf16 operand rounds once more.
          Both(tested, oracle, 4.0 * ((width + 8) * kUnit + OutputUnit(tested)),
               "rms_norm of width " + std::to_string(width), [&](Backend& backend) {
                 PlainStep step(backend, {.model_dim = width}, rows);
                 auto in = Upload(backend, x), d = UploadOperands(backend, ProductInput(backend, delta)),
                      w = Upload(backend, weight), out = EmptyOperands(backend, x.size());
                 NormArgs args{
                     .kind = kind, .x = {in.get(), 0}, .weight = {w.get(), 0}, .epsilon = 1e-5f, .out = {out.get(), 0}};
                 if (fused) args.delta = {d.get(), 0};
                 VF_CHECK(backend.Norm(*step.workspace, args).ok(), "valid");
                 std::vector<float> both = DownloadOperands(backend, *out, x.size()),
                                    sum = Download(backend, *in, x.size());
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

}  // namespace

std::vector<ConformanceCase> ProductCases() {
  return {
      {"linear", CheckLinear},    {"gated", CheckGated}, {"activations", CheckActivations},
      {"rms_norm", CheckRmsNorm}, {"embed", CheckEmbed},
  };
}

}  // namespace varifocal::kernels
