// Tests of the CPU backend beyond the conformance table: kernel choice and rejected options, identical bits of the
// instruction sets, stated against allocated memory, and the accuracy of exp2.

#include "kernels/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/wide_product.h"
#include "kernels/conformance/test_harness.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/page_pool.h"
#include "kernels/cpu/simd_portable.h"
#include "kernels/cpu/vector_math.h"

namespace varifocal::kernels {
namespace {

Error CreationError(const BackendOptions& options) {
  auto backend = CreateBackend(options);
  return backend.ok() ? Error{} : backend.error();
}

// The code of the error where its message names all of these values, else kNone.
ErrorCode CodeNaming(const BackendOptions& options, const std::vector<std::string>& values) {
  const Error error = CreationError(options);
  for (const std::string& value : values) {
    if (error.message.find(value) == std::string::npos) return ErrorCode::kNone;
  }
  return error.code;
}

TEST(CpuBackendTest, RejectedOptionsNameTheValue) {
  EXPECT_EQ(CodeNaming({.device = "tpu"}, {"\"tpu\"", "auto, cpu, reference"}), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeNaming({.device = "cpu", .cpu_isa = "mmx"}, {"\"mmx\"", "auto", "portable", "avx2", "avx512bf16"}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeNaming({.device = "cpu", .dtype = DType::kF16}, {"f16"}), ErrorCode::kUnsupported);
  if (cpu::ChooseKernels("avx512bf16", DType::kBF16).ok()) {
    EXPECT_EQ(CodeNaming({.device = "cpu", .cpu_isa = "avx512bf16"}, {"\"avx512bf16\"", "f32"}),
              ErrorCode::kUnsupported);
  }
  EXPECT_EQ(CodeNaming({.device = "cpu", .thread_count = -1}, {"-1", "0..1024"}), ErrorCode::kInvalidArgument);
  for (const char* isa : {"avx2", "avx512"}) {
    const auto available = cpu::AvailableIsas(DType::kF32);
    if (std::find(available.begin(), available.end(), isa) != available.end()) continue;
    EXPECT_EQ(CodeNaming({.device = "cpu", .cpu_isa = isa},
                         {"\"" + std::string(isa) + "\"", available.size() == 1 ? "portable" : "portable, avx2"}),
              ErrorCode::kUnsupported);
  }
}

TEST(CpuBackendTest, RejectsHeadDimsWithoutAKernel) {
  auto backend = std::move(*CreateBackend({.device = "cpu", .thread_count = 1}));
  for (const int dim : {-8, 0, 513, 520, 1024}) {
    const Error error = backend->CheckShape({.layer_count = 1, .kv_head_count = 1, .head_dim = dim});
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_NE(error.message.find(" " + std::to_string(dim) + ","), std::string::npos) << error.message;
    EXPECT_FALSE(backend->CreateKvPool({.layer_count = 1, .kv_head_count = 1, .head_dim = dim}, 1).ok());
  }
  for (int dim = 1; dim <= 512; ++dim)
    EXPECT_TRUE(backend->CheckShape({.layer_count = 1, .kv_head_count = 1, .head_dim = dim}).ok());
}

TEST(CpuBackendTest, ReportsItsChoiceAndWarnsOfTooManyThreads) {
  auto backend = std::move(*CreateBackend({.device = "cpu"}));
  EXPECT_EQ(backend->info().name, "cpu-" + cpu::AvailableIsas(DType::kF32).back() + "-f32");
  EXPECT_EQ(backend->info().thread_count, cpu::UsableCores());
  EXPECT_EQ(backend->info().notes.size(), 1u);
  auto crowded = std::move(*CreateBackend({.device = "cpu", .thread_count = cpu::UsableCores() + 1}));
  EXPECT_EQ(crowded->info().notes.size(), 2u);
}

// AVX2 scores two tiles of keys together, AVX-512 one: windows begin and running maxima change in either of the two.
TEST(CpuBackendTest, Avx2AndAvx512GiveTheSameBits) {
  const auto available = cpu::AvailableIsas(DType::kF32);
  if (available.back() != "avx512") GTEST_SKIP() << "this CPU has no AVX-512";
  const std::vector<AttentionCase::Sequence> sequences = {{260, 3}, {70, 2}};
  for (const AttentionCase& c : {AttentionCase{.sequences = sequences, .row_scales = true, .amplitude = 5.0f},
                                 {.head_dim = 80, .sequences = sequences, .amplitude = 20.0f},
                                 {.sequences = sequences, .window = 100, .amplitude = 20.0f},
                                 {.head_dim = 8, .sequences = {{1100, 1}}, .window = 57, .amplitude = 40.0f}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      auto narrow = std::move(*CreateBackend({.device = "cpu", .dtype = dtype, .cpu_isa = "avx2"}));
      auto wide = std::move(*CreateBackend({.device = "cpu", .dtype = dtype, .cpu_isa = "avx512"}));
      EXPECT_EQ(CountDifferentBits(RunAttentionCase(*narrow, c, {}), RunAttentionCase(*wide, c, {})), 0u)
          << c.head_dim << ", window " << c.window << ", " << DTypeName(dtype);
    }
  }
}

// Against float64, whole rows of an odd width, columns and rows that fill no tile; bits do not depend on the rows beside
// it or on the instruction set.
TEST(RowProductsTest, ArePreciseAndDependOnTheirRowsAlone) {
  constexpr int kRows = 7;
  for (const auto& [columns, count] : {std::pair{1, 1}, {8, 16}, {19, 77}, {16, 576}}) {
    const std::vector<float> a = UniformVector(1, WideProduct(kRows, count));
    const std::vector<float> b = UniformVector(2, WideProduct(columns, count));
    std::vector<float> avx2_products;
    for (const std::string& isa : cpu::AvailableIsas(DType::kF32)) {
      const cpu::KernelTable& kernels = **cpu::ChooseKernels(isa, DType::kF32);
      std::vector<float> all(WideProduct(kRows, columns)), alone(columns);
      kernels.row_products(
          {.a = a.data(), .a_rows = kRows, .b = b.data(), .b_rows = columns, .count = count, .out = all.data()});
      for (int row = 0; row < kRows; ++row) {
        kernels.row_products({.a = a.data() + WideProduct(row, count),
                              .a_rows = 1,
                              .b = b.data(),
                              .b_rows = columns,
                              .count = count,
                              .out = alone.data()});
        for (int n = 0; n < columns; ++n) {
          double sum = 0;
          for (int i = 0; i < count; ++i) sum += static_cast<double>(a[row * count + i]) * b[n * count + i];
          EXPECT_NEAR(all[row * columns + n], sum, 1e-6 * count) << isa << ", row " << row << ", column " << n;
          EXPECT_EQ(all[row * columns + n], alone[n]) << isa << ", row " << row << ", column " << n;
        }
      }
      if (isa == "avx2") avx2_products = all;
      if (isa == "avx512") {
        EXPECT_EQ(all, avx2_products);
      }
    }
  }
}

TEST(CpuBackendTest, StatedMemoryEqualsAllocatedMemory) {
  const StepShape shape{.row_count_max = 100,
                        .sequence_count_max = 4,
                        .head_row_count_max = 7,
                        .context_length_max = 5000,
                        .model_dim = 64,
                        .query_head_count = 4,
                        .kv_head_count = 2,
                        .head_dim = 32,
                        .ffn_dim = 100,
                        .vocab_size = 2000};
  auto backend = std::move(*CreateBackend({.device = "cpu", .thread_count = 3}));
  auto workspace = std::move(*backend->CreateWorkspace(shape));
  EXPECT_EQ(workspace->bytes(), backend->WorkspaceBytes(shape));
  // 128 tokens x (K and V of 2 heads of 32 in 4 bytes, and a float64 sum).
  const KvShape kv{.layer_count = 3, .kv_head_count = 2, .head_dim = 32, .annotation_bytes = 8};
  EXPECT_EQ(backend->KvBytesPerPageAndLayer(kv), 128u * (2 * 2 * 32 * 4 + 8));
  auto pool = std::move(*backend->CreateKvPool(kv, 10));
  EXPECT_EQ(pool->bytes(), 3u * 10 * backend->KvBytesPerPageAndLayer(kv));
}

// Attention by groups: what a workspace needs for it, all else equal, is less than another copy of a layer's keys and
// values, in steps of 512 rows of contexts from 8,192 on. Partial results of a step do not grow with the context.
TEST(CpuBackendTest, GroupScratchIsSmallerThanALayer) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    auto backend = std::move(*CreateBackend({.device = "cpu", .dtype = dtype, .thread_count = 2}));
    for (const int group_count : {8, 16}) {
      for (const int tokens : {8192, 32768, 1 << 20}) {
        StepShape shape{.row_count_max = 512,
                        .sequence_count_max = 1,
                        .head_row_count_max = 1,
                        .context_length_max = tokens,
                        .model_dim = 576,
                        .query_head_count = 9,
                        .kv_head_count = 3,
                        .head_dim = 64,
                        .ffn_dim = 1536,
                        .vocab_size = 49152};
        const size_t plain = backend->WorkspaceBytes(shape);
        shape.gather_top_k_max = GatherTopKMax(group_count);
        const size_t scratch = backend->WorkspaceBytes(shape) - plain;
        const size_t layer = tokens / kPageTokens *
                             backend->KvBytesPerPageAndLayer({.layer_count = 1, .kv_head_count = 3, .head_dim = 64});
        EXPECT_GT(scratch, 0u);
        EXPECT_LT(scratch, layer) << DTypeName(dtype) << ", " << group_count << " groups, " << tokens << " tokens";
        std::printf("%s, %d groups, %d tokens: %.3f of a layer\n", DTypeName(dtype), group_count, tokens,
                    static_cast<double>(scratch) / layer);
      }
    }
  }
}

// Also without bf16 dot products, bf16 is read as bf16 and widened in registers: half the bytes of weights and pages.
TEST(CpuBackendTest, BF16HalvesBytesRead) {
  for (const std::string& isa : cpu::AvailableIsas(DType::kBF16)) {
    if (isa == "avx512bf16") continue;
    auto f32 = std::move(*CreateBackend({.device = "cpu", .thread_count = 1, .cpu_isa = isa}));
    auto bf16 = std::move(*CreateBackend({.device = "cpu", .dtype = DType::kBF16, .thread_count = 1, .cpu_isa = isa}));
    const KvShape kv{.layer_count = 1, .kv_head_count = 2, .head_dim = 64};
    EXPECT_EQ(bf16->KvBytesPerPageAndLayer(kv) * 2, f32->KvBytesPerPageAndLayer(kv)) << isa;
    const std::vector<float> data(128 * 96, 1.0f);
    const HostMatrix matrix = MatrixOf(data, 128, 96);
    EXPECT_EQ((*bf16->CreateWeight({&matrix, 1}, WeightUse::kPlain))->bytes() * 2,
              (*f32->CreateWeight({&matrix, 1}, WeightUse::kPlain))->bytes())
        << isa;
  }
}

// A vocabulary of 262,144: only the statistics per slice of 1,024 tokens grow with it, and one tied table is used for
// embedding and head.
TEST(CpuBackendTest, NoBufferOfVocabularySize) {
  constexpr int kVocab = 262144, kWidth = 16, kRows = 40;
  StepShape shape{.row_count_max = kRows,
                  .sequence_count_max = 1,
                  .head_row_count_max = kRows,
                  .context_length_max = 128,
                  .model_dim = kWidth,
                  .query_head_count = 1,
                  .kv_head_count = 1,
                  .head_dim = 16,
                  .ffn_dim = 16,
                  .vocab_size = 1024};
  auto backend = std::move(*CreateBackend({.device = "cpu", .thread_count = 2}));
  const size_t small = backend->WorkspaceBytes(shape);
  shape.vocab_size = kVocab;
  EXPECT_LE(backend->WorkspaceBytes(shape) - small, size_t{kRows} * (kVocab / 1024) * 24);

  const std::vector<float> table = UniformVector(1, size_t{kVocab} * kWidth), ones(kWidth, 1.0f);
  const HostMatrix matrix = MatrixOf(table, kVocab, kWidth);
  auto weight = std::move(*backend->CreateWeight({&matrix, 1}, WeightUse::kEmbeddingAndHead));
  EXPECT_EQ(weight->bytes(), table.size() * sizeof(float));
  auto workspace = std::move(*backend->CreateWorkspace(shape));
  const SequenceRows sequence{.row_count = kRows};
  ASSERT_TRUE(backend->BeginStep(*workspace, {.sequences = {&sequence, 1}}).ok());
  std::vector<int32_t> tokens;
  std::vector<HeadRow> rows;
  for (int r = 0; r < kRows; ++r) {
    tokens.push_back(r * 6553);
    rows.push_back({.row = r, .target = kVocab - 1 - r * 6000});
  }
  auto residual = Empty(*backend, size_t{kRows} * kWidth), norm = Upload(*backend, ones);
  ASSERT_TRUE(backend->Embed(*workspace, {.table = weight.get(), .tokens = tokens, .out = {residual.get(), 0}}).ok());
  std::vector<HeadResult> results(kRows);
  ASSERT_TRUE(backend
                  ->LmHead(*workspace, {.residual = {residual.get(), 0},
                                        .norm_weight = {norm.get(), 0},
                                        .norm_epsilon = 1e-6f,
                                        .weight = weight.get(),
                                        .rows = rows,
                                        .results = results})
                  .ok());
  for (const int r : {0, 17, 39}) {
    double squares = 0, total = 0, target = 0, best = -1e9;
    const float* x = table.data() + size_t{6553} * r * kWidth;
    for (int i = 0; i < kWidth; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double inverse = 1 / std::sqrt(squares / kWidth + 1e-6);
    for (int v = 0; v < kVocab; ++v) {
      double logit = 0;
      for (int i = 0; i < kWidth; ++i) logit += static_cast<double>(table[size_t{kWidth} * v + i]) * x[i] * inverse;
      total += std::exp(logit);
      best = std::max(best, logit);
      if (v == rows[r].target) target = logit;
    }
    // Logits below 28 of 16 products round to 20 u of that; the sum's slices in f32, merged in float64, to a few u.
    EXPECT_NEAR(results[r].target_log_probability, target - std::log(total), 28 * 40 * kUnit);
    EXPECT_NEAR(results[r].argmax_logit, best, 28 * 20 * kUnit);
  }
}

TEST(CpuBackendTest, ImpossibleMemoryRequestIsAnError) {
  auto backend = std::move(*CreateBackend({.device = "cpu", .thread_count = 1}));
  auto pool = backend->CreateKvPool({.layer_count = 1000, .kv_head_count = 64, .head_dim = 256}, 1 << 30);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, ErrorCode::kOutOfMemory);
}

// Relative error of exp2 over one octave and far from it, against libm in float64.
TEST(VectorMathTest, Exp2IsWithinItsStatedError) {
  using S = cpu::Portable;
  double worst = 0;
  for (double x = -100; x < 20; x += 0.00317) {
    float lanes[cpu::kLanes];
    S::Store(lanes, cpu::Exp2Against<S>(S::Set1(x), S::Zero()));
    const double exact = std::exp2(double{static_cast<float>(x)});
    worst = std::max(worst, std::fabs(lanes[0] / exact - 1));
  }
  EXPECT_LT(worst, 3e-7);
  EXPECT_GT(worst, 1e-9) << "the comparison is vacuous";
}

// Relative to tanh, and of capped scores, whose small ones must not lose digits.
TEST(VectorMathTest, TanhIsWithinItsStatedError) {
  using S = cpu::Portable;
  double worst = 0;
  for (double x = 1e-6; x < 30; x *= 1.0003) {
    for (const double sign : {1.0, -1.0}) {
      float lanes[cpu::kLanes];
      S::Store(lanes, cpu::Tanh<S>(S::Set1(sign * x)));
      worst = std::max(worst, std::fabs(lanes[0] / std::tanh(double{static_cast<float>(sign * x)}) - 1));
    }
  }
  EXPECT_LT(worst, 5e-7);
  EXPECT_GT(worst, 1e-9) << "the comparison is vacuous";
  float scores[cpu::kLanes];
  S::Store(scores, S::Set1(cpu::kMaskedScore));
  cpu::CapScores<S>(5, cpu::kLanes, scores);
  EXPECT_EQ(scores[0], cpu::kMaskedScore);
}

TEST(VectorMathTest, ChangingRowMaxScalesByExactlyAPowerOfTwo) {
  using S = cpu::Portable;
  for (float x = -60; x < 60; x += 0.731f) {
    float a[cpu::kLanes], b[cpu::kLanes];
    S::Store(a, cpu::Exp2Against<S>(S::Set1(x), S::Set1(3)));
    S::Store(b, cpu::Exp2Against<S>(S::Set1(x), S::Set1(10)));
    EXPECT_EQ(a[0], b[0] * 128.0f);
  }
  float masked[cpu::kLanes];
  S::Store(masked, cpu::Exp2Against<S>(S::Set1(cpu::kMaskedScore), S::Set1(cpu::kEmptyRowMax)));
  EXPECT_EQ(masked[0], 0.0f);
}

TEST(PackedWeightTest, ReadsBackEveryRow) {
  const std::vector<float> data = UniformVector(9, 130 * 7);
  const HostMatrix parts[] = {{DType::kF32, data.data(), 100, 7}, {DType::kF32, data.data() + 700, 30, 7}};
  for (const std::string& isa : cpu::AvailableIsas(DType::kF32)) {
    auto weight =
        std::move(*cpu::PackedWeight::Create(parts, WeightUse::kPlain, **cpu::ChooseKernels(isa, DType::kF32)));
    const auto& packed = static_cast<const cpu::PackedWeight&>(*weight);
    EXPECT_EQ(packed.panel_count(), 3);
    EXPECT_EQ(packed.columns_of_panel(2), 2);
    for (int n = 0; n < 130; ++n) {
      float row[7];
      packed.ReadRow(n, row);
      for (int k = 0; k < 7; ++k) EXPECT_EQ(row[k], data[n * 7 + k]);
    }
  }
}

// The page layout is shared by its writer and two kernels; the header's formula again.
TEST(PagePoolTest, PagesHaveTheDocumentedLayout) {
  const int dim = 48;
  auto pool =
      std::move(*cpu::PagePool::Create({.layer_count = 2, .kv_head_count = 2, .head_dim = dim}, DType::kF32, 3));
  auto& pages = static_cast<cpu::PagePool&>(*pool);
  std::vector<float> keys(2 * dim), values(2 * dim);
  for (int i = 0; i < 2 * dim; ++i) {
    keys[i] = 1000 + i;
    values[i] = 2000 + i;
  }
  pages.WriteToken(1, 2, 37, keys.data(), values.data(), true);
  const int32_t table[] = {2};
  const cpu::KeyValues kv = pages.ForHead(1, 1, table);
  for (int i = 0; i < dim; ++i) {
    EXPECT_EQ(kv.keys(0)[(37 / 16) * dim * 16 + i * 16 + 37 % 16], 1000 + dim + i);
    EXPECT_EQ(kv.values(0, dim)[(i / 16) * 128 * 16 + 37 * 16 + i % 16], 2000 + dim + i);
  }
}

// In bf16 a word holds two head dims of a key, and two keys of a head dim; the last token's half-filled words are padded
// with zeros, overwriting old data.
TEST(PagePoolTest, Bf16PagesHoldPairs) {
  const int dim = 16;
  auto pool =
      std::move(*cpu::PagePool::Create({.layer_count = 1, .kv_head_count = 1, .head_dim = dim}, DType::kBF16, 1));
  auto& pages = static_cast<cpu::PagePool&>(*pool);
  const std::vector<float> left_over(dim, 99.0f);
  pages.WriteToken(0, 0, 5, left_over.data(), left_over.data(), true);
  std::vector<float> keys(dim), values(dim);
  for (int i = 0; i < dim; ++i) {
    keys[i] = i;
    values[i] = -i;
  }
  pages.WriteToken(0, 0, 4, keys.data(), values.data(), true);
  const int32_t table[] = {0};
  const cpu::KeyValues kv = pages.ForHead(0, 0, table);
  for (int w = 0; w < dim / 2; ++w) {
    const float word = kv.keys(0)[w * 16 + 4];
    EXPECT_EQ(cpu::HalfOf(word, 0), 2 * w);
    EXPECT_EQ(cpu::HalfOf(word, 1), 2 * w + 1);
  }
  for (int i = 0; i < dim; ++i) {
    const float word = kv.values(0, dim / 2)[(4 / 2) * 16 + i];
    EXPECT_EQ(cpu::HalfOf(word, 0), -i);
    EXPECT_EQ(cpu::HalfOf(word, 1), 0.0f);
  }
}

TEST(FocalScaleTest, TemperatureOneIsTheBaseAndExtremesStayFinite) {
  const double base = 1.0 / std::sqrt(80.0);
  EXPECT_EQ(FocalScale(base, 1.0), static_cast<float>(base));
  EXPECT_EQ(FocalScale(base, 0.4), static_cast<float>(base / 0.4));
  EXPECT_TRUE(std::isfinite(FocalScale(base, 1e-300)));
  EXPECT_EQ(FocalScale(base, 1e300), 0.0f);
}

TEST(TensorTest, WidensAndRoundsHalfFormats) {
  EXPECT_EQ(WidenBF16(0x3F80), 1.0f);
  EXPECT_EQ(WidenF16(0x3C00), 1.0f);
  EXPECT_EQ(WidenF16(0xC000), -2.0f);
  EXPECT_EQ(WidenF16(0x0001), 0x1p-24f);
  EXPECT_EQ(WidenF16(0x03FF), 1023 * 0x1p-24f);
  EXPECT_EQ(WidenF16(0x7BFF), 65504.0f);
  EXPECT_TRUE(std::isinf(WidenF16(0x7C00)));
  EXPECT_TRUE(std::isnan(WidenF16(0x7E00)));
  EXPECT_EQ(RoundToBF16(1.0f), 0x3F80);
  EXPECT_EQ(RoundToBF16(1.0f + 0x1p-8f), 0x3F80) << "a tie goes to even";
  EXPECT_EQ(RoundToBF16(1.0f + 0x1.8p-7f), 0x3F82) << "a tie goes to even";
  EXPECT_EQ(RoundToBF16(1.0f + 0x1.1p-8f), 0x3F81);
  EXPECT_TRUE(std::isnan(WidenBF16(RoundToBF16(NAN))));
}

}  // namespace
}  // namespace varifocal::kernels
