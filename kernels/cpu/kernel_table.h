// The kernels of one instruction set: plain functions over plain arguments, and their shared layouts.
//
// The backend plans work items and calls through this table; the bodies are templates over sixteen float lanes,
// compiled once per instruction set. Same lanes, same order, same fused multiply-adds: AVX2 and AVX-512 give the same
// bits.
//
// Operands of products are stored in 32-bit words, typed float: an f32, or a pair of adjacent bf16 along the summation
// axis, the even one in the lower half. "per" is KernelTable::elements_per_word.
//
// Shapes:  a KV page of one KV head is one contiguous tile, K [128/16][D/per][16] and then V [D/16][128/per][16],
//          D rounded up to 16; where keys are rows (KvShape::row_keys), K is [128][D/per].
//          a weight is panels [N/64][64/strip][K/per][strip], its last panel filled with zeros.
// Threads: functions write only through their arguments and `scratch`.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/wide_product.h"
#include "kernels/backend.h"

namespace varifocal::kernels::cpu {

// One vector of key lanes, and of value lanes.
inline constexpr int kTile = 16;
// Output columns of a weight panel.
inline constexpr int kPanel = 64;
// Lanes of one prefill block, a query (row, head) each: the maximum of all instruction sets.
inline constexpr int kQueryLanesMax = 48;
// Keys that prefill scores together, aligned in its key order.
inline constexpr int kTileKeys = 8;
// Keys of one decode split; partial results are merged in split order, independent of the number of threads.
inline constexpr int kSplitTokens = 16 * kPageTokens;
inline constexpr int kHeadDimMax = 512;
// Head dims rounded up to whole tiles: the width of pages and sums of values, zero beyond the head dim.
inline constexpr int PaddedDim(int head_dim) { return (head_dim + kTile - 1) / kTile * kTile; }
// Words that hold a head: pairs of bf16 where elements_per_word is 2, the last one padded with 0.
inline constexpr int WordCount(int head_dim, int elements_per_word) {
  return (head_dim + elements_per_word - 1) / elements_per_word;
}

inline constexpr double kLog2EDouble = 1.4426950408889634;
inline constexpr float kLog2E = kLog2EDouble;
// See vector_math.h.
inline constexpr float kExp2Coefficients[5] = {6.931512952e-01f, 2.401644439e-01f, 5.579992011e-02f, 9.017025121e-03f,
                                               1.867131446e-03f};
inline constexpr float kExp2ShortCoefficients[3] = {6.951167583e-01f, 2.276449949e-01f, 7.706704736e-02f};

// A score below that of any visible key, and row_max of a row without visible keys: far enough apart that the weight of
// a masked key is an exact zero against either.
inline constexpr float kMaskedScore = -3e38f;
inline constexpr float kEmptyRowMax = -1e37f;
// row_max is updated when a score exceeds it by this much; 2^20 x 2^20 keys stays far inside the range of f32.
inline constexpr float kRowMaxSlack = 20.0f;
// Prefill sets row_max this much above the score that it is set from: the first key that a row sees is often one of few
// under a mask, later ones exceed it, and each rescaling costs a third of a tile. Weights below 2^-94 become zero.
inline constexpr float kRowMaxHeadroom = 32.0f;
// Scale x log2(e) is clamped so that no element of a scaled query exceeds this; then no score overflows for keys below
// 2^50, and at such a small temperature one key has all the weight.
inline constexpr float kScaledQueryMax = 0x1p60f;

// Two numbers as a word of bf16, the even one in the lower half; to nearest, ties to even, for finite numbers.
inline float PairOf(float even, float odd) {
  const auto rounded = [](float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    return bits + 0x7FFFu + ((bits >> 16) & 1u);
  };
  return std::bit_cast<float>((rounded(even) >> 16) | (rounded(odd) & 0xFFFF0000u));
}

// The even (0) or odd (1) number of such a word.
inline float HalfOf(float word, int odd) {
  const uint32_t bits = std::bit_cast<uint32_t>(word);
  return std::bit_cast<float>(odd != 0 ? bits & 0xFFFF0000u : bits << 16);
}

// Addresses of the pages of one sequence, layer and KV head: page p's K tile at base + pages[p] * page_stride, then V.
struct KeyValues {
  const float* base = nullptr;
  size_t page_stride = 0;  // words
  const int32_t* pages = nullptr;
  int key_stride = kTile;                // between the words of a key; 1 where keys are rows
  const uint32_t* group_base = nullptr;  // page p's groups at group_base + pages[p] * group_stride, [128]
  size_t group_stride = 0;
  const uint32_t* groups(int page_index) const { return group_base + pages[page_index] * group_stride; }
  const float* keys(int page_index) const { return base + pages[page_index] * page_stride; }
  const float* values(int page_index, int words_per_key) const {
    return keys(page_index) + kPageTokens * words_per_key;
  }
};

// Up to kQueryLanesMax queries, of one sequence or of several that share their first pages.
struct PrefillBlock {
  int lane_count = 0;
  const float* queries[kQueryLanesMax];  // [D] each
  float scales[kQueryLanesMax];
  MaskRow masks[kQueryLanesMax];
  const int32_t* pages[kQueryLanesMax];  // of the lane's sequence
  float* outs[kQueryLanesMax];           // [D] each; of a part: sums of p v, then row_max, then the sum of p
  float* log_sum_exps[kQueryLanesMax];   // null where not requested
  float sinks[kQueryLanesMax];           // times log2(e); unset without PrefillBlocks::has_sinks
};

// Mask and layout of the keys; a row of the table of prefill kernels (make_table.h).
enum class PrefillKind {
  kInterval,           // IntervalMask
  kRowsInterval,       // IntervalMask, K [128][D/per]
  kWindowOrGroup,      // WindowOrGroupMask
  kRowsWindowOrGroup,  // WindowOrGroupMask, K [128][D/per]
  kDisjoint,           // DisjointMask
  kRowsDisjoint,       // DisjointMask, K [128][D/per]
  kListedDisjoint,     // DisjointMask, over the keys of PrefillBlocks::positions of either layout
};
inline constexpr int kPrefillKinds = 7;

// Blocks that read one KV head. Keys before `shared_keys`, whole pages, are shared by all lanes and are read through
// `kv` once; the others through each lane's own pages.
struct PrefillBlocks {
  KeyValues kv;
  int shared_keys = 0;
  int head_dim = 0;  // of queries and outputs
  int block_count = 0;
  const PrefillBlock* blocks = nullptr;
  float soft_cap = 0;      // see AttendArgs
  bool has_sinks = false;  // see AttendArgs; not of a part
  bool is_part = false;    // of the rows' keys; its sums are merged with those of other parts
  // kListedDisjoint: keys are those at these positions of `kv`, and intervals are indices into the list.
  const int32_t* positions = nullptr;
  const uint32_t* position_groups = nullptr;  // of the same keys
};

// Blocks share a pass over the pages up to this many lanes: their queries and sums stay in L2. Collecting a page costs
// more than reading one, so that more lanes share it where heads are small.
inline constexpr int kPrefillLanesMax = 192;
inline constexpr int ListedLanesMax(int head_dim) {
  constexpr int kLanesMax = 480, kFloatsMax = 1 << 16;
  const int dim = std::max(PaddedDim(head_dim), kTile);  // a step without attention has head dim 0
  return std::clamp(kFloatsMax / (2 * dim) / kQueryLanesMax * kQueryLanesMax, kPrefillLanesMax, kLanesMax);
}
inline constexpr int kPrefillBlocksMax = ListedLanesMax(1) / kTile;

// A page of collected keys and values of one head.
inline size_t PageFloats(int head_dim) { return WideProduct(2, kPageTokens, PaddedDim(head_dim)); }

inline size_t PrefillScratchFloats(int head_dim) {
  return WideProduct(kQueryLanesMax, kPageTokens) + WideProduct(ListedLanesMax(head_dim), 2 * PaddedDim(head_dim) + 2) +
         PageFloats(head_dim);
}

enum class DecodeKind {
  kInterval,
  kRowsInterval,  // K [128][D/per]
  kWindowOrGroup,
  kRowsWindowOrGroup,  // K [128][D/per]; keys that are not visible are not read
};
inline constexpr int kDecodeKinds = 4;

// One query row, the query heads of one KV head, the keys of one split.
struct DecodeSplit {
  KeyValues kv;
  int head_dim = 0;
  int head_count = 0;
  const float* queries = nullptr;  // [heads, D]
  float scale = 1;
  const float* head_scales = nullptr;  // [heads], multiply it; null: none
  float soft_cap = 0;                  // see AttendArgs
  MaskRow mask;                        // the interval already cut to the split
  float* partials = nullptr;           // [heads, PaddedDim(D) + 2]: sums of p v; then row_max; then the sum of p
};

// Per head the scaled query, four chains, row_max, the sums and the weights of a block; then a page of transposed keys.
inline size_t DecodeScratchFloats(int head_dim, int head_count) {
  const size_t dim = PaddedDim(head_dim);
  return head_count * (5 * dim + 2 * kTile + kPageTokens) + kPageTokens * dim;
}

// Partial results of one row and head, `stride` floats apart: sums of p v, from `sums_at` on row_max, a whole number, and
// the sum of p. They are added in order, each rescaled to the largest row_max by a power of two.
struct MergedParts {
  const float* parts = nullptr;
  size_t stride = 0;
  int part_count = 0;
  int sums_at = 0;
  int dim = 0;
  float sink = kNoSink;          // times log2(e); added to the sum of p of all parts
  float* out = nullptr;          // [dim]
  float* log_sum_exp = nullptr;  // null where not requested
};

// Keys [from, to) of a block, in the order of their positions.
struct ScoredKeys {
  const float* scores = nullptr;  // scaled, times log2(e); below kEmptyRowMax where the row does not see the key
  int from = 0, to = 0;
  int32_t first = 0;                   // position of key 0, unless
  const int32_t* positions = nullptr;  // lists them
};

class ScoreVisitor {
 public:
  virtual ~ScoreVisitor() = default;
  virtual void Visit(int head, const ScoredKeys& keys) = 0;  // of the KV head's
};

enum class Epilogue { kStore, kResidual, kGated };

// rows x one panel.
struct GemmPanel {
  const float* x = nullptr;  // words [rows, K/per]
  size_t x_stride = 0;
  int row_count = 0;
  const float* panel = nullptr;  // words [64/strip][K/per][strip]; see KernelTable::strip_columns
  int64_t inner = 0;             // words: K/per, rounded up
  Epilogue epilogue = Epilogue::kStore;
  Activation activation = Activation::kNone;  // of kStore, and of the gate
  ActivationTerms terms = {};
  const float* bias = nullptr;     // [columns], or null; kGated: of the gate
  const float* up_bias = nullptr;  // kGated, with bias
  float multiplier = 1;            // of kResidual
  float* out = nullptr;            // first column of the panel; kGated: 32 outputs per panel
  size_t out_stride = 0;
  int columns = kPanel;  // outputs that exist: less than 64 (kGated: 32) in the last panel
};

// out[r][n] = a[r] . b[n]; bits depend on the two rows alone.
struct RowProducts {
  const float* a = nullptr;  // [a_rows, count]
  int a_rows = 0;
  const float* b = nullptr;  // [b_rows, count]
  int b_rows = 0;
  int64_t count = 0;
  float* out = nullptr;  // [a_rows, b_rows]
  int out_stride = 0;    // from a row to the next one; 0: b_rows
};

// Logits of one row over one slice of the vocabulary.
struct SliceStats {
  float top = 0;
  float runner_up = 0;
  int32_t argmax = 0;  // within the slice
  float sum = 0;       // of exp(logit - top)
  bool finite = true;
};

// out = norm(x) over one row; `out` may be x.
struct NormRowArgs {
  NormKind kind = NormKind::kRms;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;  // or null
  int64_t width = 0;
  float epsilon = 0;
  float* out = nullptr;
};

// out[c] = sum_j weights[j][c] inputs[j][c] + bias[c], then silu.
struct ConvolvedRow {
  const float* const* inputs = nullptr;  // [width]; null: zeros
  int width = 0;
  const float* weights = nullptr;  // [width][channel_count]
  const float* bias = nullptr;     // or null
  int channel_count = 0;
  bool silu = false;
  float* out = nullptr;
};

// x = x sigmoid(gate), x silu(multiplier gate), or x gate
enum class GateForm { kSigmoid, kSilu, kPlain };
struct GatedRow {
  const float* gate = nullptr;
  int64_t count = 0;
  GateForm form = GateForm::kSigmoid;
  float multiplier = 1;
  float* x = nullptr;
};

// Rows of one head through kDeltaColumns columns of its state; see recurrence.h. Queries and keys are normalized.
struct DeltaRows {
  int row_count = 0;
  const float* mixed = nullptr;  // of the first row, with q, k and v of this head and these columns at
  size_t mixed_stride = 0;
  int query_at = 0, key_at = 0, value_at = 0;
  const float* gates = nullptr;  // decay and beta of the first row
  size_t gate_stride = 0;
  int key_dim = 0;
  bool reads_memory = true;  // kDeltaRule; else the row is added to the decayed state
  int columns = 0;           // that exist
  float* state = nullptr;    // [key_dim][kDeltaColumns]
  float* out = nullptr;      // of the first row
  size_t out_stride = 0;
};
inline constexpr int kDeltaColumns = 32;

struct KernelTable {
  const char* isa;
  int query_lanes;                                                                   // lanes of a full prefill block
  int elements_per_word;                                                             // 1 for f32, 2 for bf16
  int strip_columns;                                                                 // of a panel; divides 64
  void (*attend_prefill[kPrefillKinds])(const PrefillBlocks& args, float* scratch);  // by PrefillKind
  void (*attend_decode[kDecodeKinds])(const DecodeSplit& split, float* scratch);     // by DecodeKind
  // By DecodeKind; DecodeSplit::partials is unused.
  void (*visit_scores[kDecodeKinds])(const DecodeSplit& split, ScoreVisitor& visitor, float* scratch);
  // The number of the page's first `count` keys that have any of `bits` among groups[128]. Unless `positions` is null,
  // lists first + index of each and its groups; up to kTile entries beyond the last are overwritten.
  int (*list_keys)(const uint32_t* groups, int count, uint32_t bits, int32_t first, int32_t* positions,
                   uint32_t* key_groups);
  void (*merge_parts)(const MergedParts& args);
  void (*gemm_panel)(const GemmPanel& args);
  void (*norm_row)(const NormRowArgs& args);
  // [count] f32 as ceil(count / per) words.
  void (*pack_row)(const float* x, int64_t count, float* words);
  float (*dot)(const float* a, const float* b, int64_t count);
  void (*row_products)(const RowProducts& args);
  void (*convolve_row)(const ConvolvedRow& args);
  void (*gate_row)(const GatedRow& args);
  void (*step_delta_rows)(const DeltaRows& args);
  SliceStats (*slice_stats)(const float* logits, int count);
  // Multiply-adds over registers only, for measuring the machine's peak; returns the number of flops.
  double (*multiply_add_peak)(int64_t steps, float* sink);
};

// Null where the architecture or the compiler has none.
const KernelTable* PortableKernels(DType dtype);
const KernelTable* Avx2Kernels(DType dtype);
const KernelTable* Avx512Kernels(DType dtype);
const KernelTable* Avx512Bf16Kernels(DType dtype);  // bf16 alone

}  // namespace varifocal::kernels::cpu
