// Kernel parameters: plain structs of device pointers and sizes, filled on the host, read on the device.
//
// Shapes:  letters as in backend.h; every pointer is device memory. "Product" is what a GEMM left in scratch.
#pragma once

#include "kernels/activation.h"
#include "kernels/attention_variants.h"
#include "kernels/cuda/attention_sm90_layout.h"
#include "kernels/cuda/gather_layout.h"
#include "kernels/cuda/matmul_sm90_layout.h"
#include "kernels/cuda/schedule.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/expert_routing.h"
#include "kernels/token_draw.h"

namespace varifocal::kernels::cuda {

// Weights that later kernels of the step read (weights_ahead.h): a kernel's blocks ask for them before they wait.
inline constexpr int kAheadPieces = 3;
struct AheadPiece {
  const unsigned char* at = nullptr;  // a multiple of 16, as the bytes
  int64_t bytes = 0;
};
struct WeightsAhead {
  AheadPiece pieces[kAheadPieces];
};

// A batch on the device.
struct StepView {
  int row_count = 0;
  int sequence_count = 0;
  const int32_t* row_sequences = nullptr;    // [T]
  const int32_t* row_positions = nullptr;    // [T]
  const int32_t* first_rows = nullptr;       // [sequences + 1]
  const int32_t* first_positions = nullptr;  // [sequences]
  const int32_t* prompt_rows = nullptr;      // [sequences]
  const int32_t* page_tables = nullptr;      // all tables, one after the other
};

// One layer of a pool, and where its sequences' page tables start.
struct PoolView {
  unsigned char* tiles = nullptr;         // [page][K][HeadPageBytes]
  unsigned char* annotations = nullptr;   // [page][annotation_stride]
  int annotation_stride = 0;              // bytes; 0: none
  const int32_t* table_starts = nullptr;  // [sequences], into StepView::page_tables
  int kv_head_count = 0;
  int head_dim = 0;
};

// Behind the annotations of a page's tokens: learned tau's sum before the page, and what keeps pages on 16 bytes.
inline constexpr int kAnnotationTailBytes = 16;

// A product [T, N], summed over `split_count` partial ones in order, plus a bias.
struct ProductView {
  const void* data = nullptr;
  bool is_bf16 = false;  // then one split
  int split_count = 1;
  size_t split_stride = 0;  // elements
  int columns = 0;
  const float* bias = nullptr;         // [N], or
  const int32_t* bias_rows = nullptr;  // optional [T]: which row of the biases [.., N]
};

struct EmbedParams {
  const uint16_t* table = nullptr;
  const uint16_t* positions = nullptr;
  int64_t table_stride = 0, positions_stride = 0;
  const int32_t* tokens = nullptr;
  const int32_t* row_positions = nullptr;
  float multiplier = 1;
  int row_count = 0, width = 0;
  float* out = nullptr;
};

struct NormParams {
  const float* x = nullptr;       // [rows, width]
  const int32_t* rows = nullptr;  // optional: row i of out is row rows[i] of x
  const float* weight = nullptr;  // null: x itself
  const float* bias = nullptr;
  bool layer = false;
  float epsilon = 0;
  int row_count = 0, width = 0;
  uint16_t* out = nullptr;
};

// residual = scale * (residual + multiplier * product), or multiplier * RMSNorm(product); then the next norm of the residual.
struct ResidualParams {
  ProductView product;
  const float* norm_weight = nullptr;  // null: the product itself
  float norm_epsilon = 0, multiplier = 1, scale = 1;
  int row_count = 0;
  float* residual = nullptr;
  NormParams next;  // without `out`: none
  WeightsAhead ahead;
};

enum class FinishMode : int32_t { kStore, kGated };

struct FinishParams {
  ProductView product;
  FinishMode mode = FinishMode::kStore;
  Activation activation = Activation::kNone;
  ActivationTerms terms = {};
  int row_count = 0;
  uint16_t* out = nullptr;  // bf16 [T, N] or [T, N / 2]
  WeightsAhead ahead;
};

struct TauParams {
  StepView step;
  PoolView pool;
  const uint16_t* x = nullptr;
  const float* weight = nullptr;
  int width = 0;
  float bias = 0, tau_min = 0, tau_max = 0;
  TauMean mean = TauMean::kCausal;
  int annotation_offset = 0;  // bytes a token
  float* raw = nullptr;       // scratch [T]
  float* scales = nullptr;    // [T]
  uint32_t* bound_counts = nullptr;
};

// Focus: S of each row, b where it is computed, the groups. Offsets are bytes into the annotations of a page.
struct RouteParams {
  StepView step;
  PoolView pool;
  const uint16_t* x = nullptr;
  const float* projection = nullptr;  // [R, M]
  const float* centroids = nullptr;   // [K, R]
  const float* group_bias = nullptr;  // [K], stored b
  int width = 0, routing_dim = 0, group_count = 0, top_k = 0;
  float temperature = 1;
  GroupBias bias = GroupBias::kStored;
  int groups_offset = 0, bias_offset = 0, scores_offset = 0;
  int bias_count = 0;       // maximum number of b's of one sequence
  float* scores = nullptr;  // scratch [T, K]
};

struct RopeView {
  const float* cosines = nullptr;  // [positions, rotary_dim / 2]
  const float* sines = nullptr;
  int rotary_dim = 0;
};

// Rotary tables one step can use: bases by layer kind times scalings by sequence length.
inline constexpr int kRopeTablesMax = 8;

struct QkvParams {
  StepView step;
  PoolView pool;
  ProductView product;
  const float* query_norm = nullptr;
  const float* key_norm = nullptr;
  const float* value_norm = nullptr;  // of each head
  bool norm_over_width = false, norm_after_rotation = false;
  float norm_epsilon = 0, clip = 0;
  int query_head_count = 0, kv_head_count = 0;  // in the product
  RopeView ropes[kRopeTablesMax];
  const int32_t* sequence_ropes = nullptr;  // [sequences], into ropes; null: no rotation
  float* queries = nullptr;
  WeightsAhead ahead;
};

// The TokenGroups of a layer's tokens, 128 a page.
struct TokenGroupsView {
  const TokenGroups* words = nullptr;
  int page_stride = 0;  // words from one page's to the next one's
  int32_t window = 0;   // keys at most this far before a row are near
};

// Rows from position `from` on are computed by groups, through lists of the keys of sequences [first_sequence, + sequence_count).
struct GatherView {
  int32_t from = INT32_MAX;
  int group_count = 0, top_k = 0;
  int first_sequence = 0, sequence_count = 0;
  int row_count = 0;  // of these sequences, from `from` on
  // Lists of all these sequences: an entry is a token's place in the pool (page * 128 + index), and its groups.
  int32_t* places = nullptr;
  TokenGroups* key_groups = nullptr;
  GatherList* lists = nullptr;     // [sequences, groups]
  GatherRow* rows = nullptr;       // [passes, T]
  GatherTile* tiles = nullptr;     // [passes, tile_stride]
  int32_t* tile_counts = nullptr;  // [passes]
  int tile_stride = 0;
  int tile_rows[kGatherPassesMax] = {};
  bool uses_sm90 = false;  // in the passes
  int pass = 0;
};

struct AttendParams {
  StepView step;
  PoolView pool;
  const RowInterval* mask = nullptr;   // [T]
  TokenGroupsView token_groups;        // null words: IntervalMask, else WindowOrGroupMask
  const float* queries = nullptr;      // [T, H, D]
  const float* row_scales = nullptr;   // [T]
  const float* head_scales = nullptr;  // [H]
  const float* sinks = nullptr;        // [H]
  float scale = 1;
  float soft_cap = 0;      // see AttendArgs
  float sink = -INFINITY;  // see AttendArgs; where there are no sinks
  int query_head_count = 0;
  int queries_per_kv = 1;  // G = H / K
  int item_count = 0;      // tiles or items
  const QueryTile* tiles = nullptr;
  const DecodeItem* items = nullptr;
  const int32_t* item_rows = nullptr;  // rows of the step, item after item
  // Unnormalised out, largest score, sum: decode [T][H][splits][D + 2]; prefill over several segments [T][H][D + 2], or
  // [T][H][segments][D + 2] where every segment has blocks of its own.
  float* partials = nullptr;
  int key_count = 0;            // prefill: up to the last visible one
  int segment_count = 1;        // of these keys
  bool segments_apart = false;  // prefill: a block processes one segment
  int split_count_max = 0;
  // Decode: blocks that have stored their split, by row, KV head and tile; zero between launches. The last one merges. Null: a
  // kernel of its own does.
  uint32_t* arrived = nullptr;
  WeightsAhead ahead;  // decode
  uint16_t* out = nullptr;
  float* log_sum_exp = nullptr;
  GatherView gather;
  // Of the device; read by the host, which chooses a kernel that fits.
  int shared_bytes_max = 0;
  int multiprocessor_count = 0;
  // Prefill: by the kernel sm90, whose tiles have other sizes; how its work is divided, of which the rest is set at the start.
  bool uses_sm90 = false;
  Sm90Tuning sm90;
  bool turns = false;
  Sm90Grid sm90_grid;
  uint32_t* sm90_taken = nullptr;  // items that blocks have taken, and blocks that have ended; zero between launches
};

struct ScoresParams {
  StepView step;
  PoolView pool;
  const float* queries = nullptr;
  int query_head_count = 0, row = 0, head = 0, begin = 0, end = 0;
  float* scores = nullptr;  // [end - begin], unscaled
};

// Routing of a mixture of experts; a place is a row and one of its experts.
struct MixtureRouteParams {
  const uint16_t* x = nullptr;         // of the shared gate
  const uint16_t* router_x = nullptr;  // of the router
  const float* router = nullptr;       // [E, M]
  const float* router_bias = nullptr;  // optional [E]
  const float* shared_gate = nullptr;  // optional [M]
  int row_count = 0, width = 0, expert_count = 0, per_token = 0;
  bool renormalised = false;
  ExpertRouting routing;
  const float* choice_bias = nullptr;    // optional [E]
  const float* expert_scales = nullptr;  // optional [E]
  int32_t* chosen = nullptr;             // [T, k], rising in a row
  float* weights = nullptr;              // [T, k]
  float* shares = nullptr;               // [T], 1 without shared_gate
};

// The places of each expert, in order.
struct MixtureListParams {
  const int32_t* chosen = nullptr;  // [places]
  int place_count = 0, expert_count = 0;
  int list_stride = 0;        // at least the rows
  int32_t* counts = nullptr;  // [E]
  int32_t* lists = nullptr;   // [E][list_stride]
};

// residual += multiplier * (sum over a row's products times their weights); then the next norm.
struct MixtureSumParams {
  ProductView product;             // [T * per_row, M]
  const float* weights = nullptr;  // [T, per_row]
  int per_row = 1;
  float multiplier = 1;
  int row_count = 0;
  float* residual = nullptr;
  NormParams next;  // without `out`: none
};

// A product whose rows are places, each with the weight of its expert.
struct ExpertRows {
  const int32_t* counts = nullptr;  // null: every place is a group of its own
  const int32_t* lists = nullptr;
  const int32_t* chosen = nullptr;  // [places]
  int list_stride = 0;
  int places_per_x = 1;  // places that share a row of x
  int group_count = 0;   // experts or places
  int rows_max = 0;      // of a group
};

// The rows of a step through one layer of states (kernels/recurrence.h).
struct RecurrenceParams {
  StepView step;
  float* states = nullptr;                // of the layer: [page][state_numbers]
  const int32_t* table_starts = nullptr;  // [sequences], into StepView::page_tables
  size_t state_numbers = 0, tail_numbers = 0;
  bool has_matrices = false, is_delta = false, gate_first = false;
  int conv_width = 0, channel_count = 0, input_width = 0, norm_group_count = 0;
  int key_head_count = 0, value_head_count = 0, key_dim = 0, value_dim = 0;
  const uint16_t* x = nullptr;        // [T, input_width]
  const float* conv = nullptr;        // [W, channels]
  const float* conv_bias = nullptr;   // optional [channels]
  const float* decay_log = nullptr;   // [H], as the next one where there are matrices
  const float* decay_bias = nullptr;  // [H]
  const float* skip = nullptr;        // [H], of a state space
  const float* norm = nullptr;        // [H dv], where there are groups
  float norm_epsilon = 0, gate_multiplier = 1, step_multiplier = 1, step_min = 0;
  float* mixed = nullptr;   // scratch where there are matrices: [T, channels], convolved,
  float* gates = nullptr;   // [T, H, 2], decay and beta or the step,
  float* outs = nullptr;    // [T, H, dv], before gate and norm
  uint16_t* out = nullptr;  // [T, H, dv]
};
// The largest width of a key that a kernel has registers for.
inline constexpr int kRecurrenceKeysMax = 256;

// Some columns of each row, normed in place.
struct NormColumnsParams {
  uint16_t* x = nullptr;
  const float* weight = nullptr;  // [count]
  int row_count = 0, stride = 0, count = 0;
  float epsilon = 0;
};

// Inputs of layers (LayerInputsArgs), P numbers each.
struct LayerInputsParams {
  const uint16_t* projected = nullptr;  // [T, L, P]
  const float* norm_weight = nullptr;   // [P]
  float norm_epsilon = 0;
  const uint16_t* table = nullptr;  // [.., table_stride]
  int64_t table_stride = 0;
  const int32_t* tokens = nullptr;  // [T]
  float multiplier = 1, factor = 1;
  int row_count = 0, layer_count = 0, width = 0;  // T, L, P
  uint16_t* out = nullptr;                        // [L, T, P]
};

struct ClearParams {
  float* x = nullptr;
  size_t count = 0;
};

// Streams [S, T, M] (residual_streams.h).
struct StreamsView {
  float* first = nullptr;
  int count = 0, row_count = 0, width = 0;  // S, T, M
};

struct StreamRouterView {
  const float* norm_weight = nullptr;  // [M]
  float norm_epsilon = 0;
  const float* weight = nullptr;        // [S, M]
  const float* coefficients = nullptr;  // [S S, S] of a prediction, [S, S] of a correction
};

struct MatchStreamsParams {
  StreamsView streams;
  float floor = 0;
  const float* first = nullptr;  // optional [T, M]
  float* mean = nullptr;         // optional [T, M]
};

struct PredictStreamsParams {
  StreamsView streams;
  StreamRouterView router;
  int active = 0;
  float* residual = nullptr;  // [T, M]
};

struct CorrectStreamsParams {
  StreamsView streams;
  StreamRouterView router;
  int active = 0;
  const float* made = nullptr;   // [T, M]
  const float* scale = nullptr;  // optional [M]
  uint16_t* out = nullptr;       // [T, M]
};

struct AddToStreamsParams {
  StreamsView streams;
  const float* x = nullptr;  // [T, M]
};

struct CutGatedParams {
  const uint16_t* x = nullptr;   // [T, 2F]
  int row_count = 0, width = 0;  // T, F
  float deviations = 0;
  Activation activation = Activation::kSilu;
  ActivationTerms terms = {};
  uint16_t* out = nullptr;  // [T, F]
};

struct GateParams {
  const uint16_t* gate = nullptr;
  size_t count = 0;
  bool sigmoid = true;
  uint16_t* x = nullptr;
};

// x [M, K] times weight [N, K] transposed.
struct MatmulParams {
  const uint16_t* x = nullptr;
  const uint16_t* weight = nullptr;
  int64_t x_stride = 0, weight_stride = 0;
  int rows = 0, outputs = 0, inner = 0;
  int split_count = 1, split_steps = 0;
  void* out = nullptr;  // [splits][M][N]
  ExpertRows experts;   // of the grouped kernels; then `weight` is that of expert 0, the next `outputs` rows later
};

// What becomes of a product's sums and its bias: stored as f32 or bf16; residual += multiplier * sum; activation(gate) * up as bf16,
// where a gate and its up are neighbouring outputs; q, k, v rotated, then to queries and pages.
enum class ProductEpilogue : int32_t { kF32, kBf16, kResidual, kGated, kHeads };

// The same by the kernel sm90.
struct ProductSm90Params {
  TensorMap x_map, weight_map;  // boxes of 128 rows, and of as many as a tile has outputs
  Sm90ProductGrid grid;
  int rows = 0, outputs = 0, inner = 0;
  ProductEpilogue epilogue = ProductEpilogue::kF32;
  Activation activation = Activation::kSilu;  // of gates
  const float* bias = nullptr;                // optional [N]; gated: of the gates, then of the ups
  float multiplier = 1;
  void* out = nullptr;  // [M][N], gated [M][N / 2]
  QkvParams heads;      // but for its product
};

// A decode product of a few rows, and in the same kernel what is around it: the norm of its rows, and an epilogue by the last
// block of each group of columns (fused_kernels.cu). `product.out` holds the partial products.
struct FusedProduct {
  MatmulParams product;
  NormParams norm;              // with a weight: an RMS norm of its rows is product.x, which is not read then
  uint32_t* arrived = nullptr;  // [groups of columns]: blocks that have stored their part, zero between launches
  int tiles_per_group = 1;      // of 64 columns
  WeightsAhead ahead;
};
inline constexpr int kFusedRowsMax = 8;
struct FusedResidualParams {
  FusedProduct fused;
  ResidualParams end;  // without norms
};
struct FusedFinishParams {
  FusedProduct fused;
  FinishParams end;
};
struct FusedQkvParams {
  FusedProduct fused;
  QkvParams end;  // without norms over the width
};

// State of a row over one slice of the vocabulary, or over those folded so far.
struct HeadState {
  float largest = 0, sum = 0, runner_up = 0, target_logit = 0;
  int32_t argmax = 0;
  int32_t finite = 1;
  int32_t drawn = -1;
  float drawn_logit = 0;
};

// A row whose token is drawn.
struct DrawItem {
  TokenDraw draw;
  int32_t head_row = 0;
  int32_t unused = 0;
};

struct HeadStatsParams {
  float* product = nullptr;  // partial products of `count` tokens from `first`, a multiple of kHeadSlice
  int split_count = 1;
  size_t split_stride = 0, slice_stride = 0;  // elements
  int row_stride = 0;                         // 0: the tokens of a slice
  const int32_t* targets = nullptr;
  int row_count = 0, first = 0, count = 0;  // of the vocabulary
  const float* bias = nullptr;              // optional [V]
  float multiplier = 1, soft_cap = 0;
  HeadState* partials = nullptr;          // [rows, slices of `count`]
  HeadState* states = nullptr;            // [rows]; of earlier calls unless `first` is 0
  bool keeps_logits = false;              // finished logits replace the first partial product
  const int32_t* draw_indices = nullptr;  // optional [rows]: which row of draw_logits, or -1
  float* draw_logits = nullptr;           // [draws, vocab]
  int64_t vocab = 0;
};

struct DrawParams {
  const DrawItem* items = nullptr;
  const float* logits = nullptr;  // [draws, vocab]
  int draw_count = 0, vocab = 0;
  HeadState* states = nullptr;
};

}  // namespace varifocal::kernels::cuda
