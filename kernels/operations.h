// What a step hands to the operations of a Backend (backend.h): its rows, and the arguments of each operation.
//
// Shapes:  T rows of a step in the order of Batch::sequences; residual stream f32 [T, M]; inputs of matrix products and
//          outputs of attention ("operands") in the backend's operand_dtype(): f32 or bf16.
// Threads: host memory of the caller, alive until the step's last operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/activation.h"
#include "kernels/attention_statistics.h"
#include "kernels/attention_variants.h"
#include "kernels/device_objects.h"
#include "kernels/expert_routing.h"
#include "kernels/shapes.h"
#include "kernels/tensor.h"
#include "kernels/token_draw.h"

namespace varifocal::kernels {

// Tokens per KV page; also the block that prefix reuse is aligned to.
inline constexpr int kPageTokens = 128;

// Log-sum-exp of a row that sees no key; finite, so that merging partial results needs no special case.
inline constexpr float kEmptyLse = -1e30f;
// The logit of no attention sink.
inline constexpr float kNoSink = -std::numeric_limits<float>::infinity();

// ---- A batch. Host memory, alive until the step's last operation. ----

enum class Phase {
  kPrefill,  // prompt tokens and scored tokens, even a single one
  kDecode,   // generated tokens: one row per sequence
};

struct SequenceRows {
  int32_t row_count = 0;       // rows of this sequence in the step, at consecutive positions
  int32_t first_position = 0;  // position of the first one
  // page_tables[page group][position / 128]: page numbers of that group's pool; -1 where a window layer freed a page.
  std::span<const std::span<const int32_t>> page_tables;
  int32_t rope_table = 0;  // index into QkvRopeWriteArgs::rope_tables
  // Length of the prompt: TauMean::kSequence and GroupBias::kPrompt read all of it, so a step that contains one of its
  // rows must contain all. Unused in other modes.
  int32_t prompt_row_count = 0;
};

struct Batch {
  Phase phase = Phase::kPrefill;
  std::span<const SequenceRows> sequences;
  // masks[mask_index][row]; sequences see their own keys only. Within a sequence begin and end never decrease.
  std::span<const std::span<const RowInterval>> masks;
  // Polled between work items; may be null.
  const std::atomic<bool>* cancelled = nullptr;
  // Steps of several engines take turns on a device (cuda/device_turns.h); then EndStep follows, whatever became of the step.
  bool takes_turns = false;
};

// ---- Annotations: data that a page stores per token in addition to keys and values. ----

inline constexpr int kTauAnnotationBytes = 8;  // FocalTau: the running sum, float64

// RouteGroups: the groups, a bit each; where b is computed, one byte a token holds the b of a page (32 numbers), and
// where later pages need it, S of each token.
inline constexpr int GroupAnnotationBytes(GroupBias bias, int group_count) {
  const int groups = sizeof(uint32_t);
  if (bias == GroupBias::kStored) return groups;
  return groups + 1 + (bias == GroupBias::kPaged ? group_count * static_cast<int>(sizeof(float)) : 0);
}

// ---- Arguments of the operations. ----

// out = multiplier * table[token] + positions[position]
struct EmbedArgs {
  const Weight* table = nullptr;  // kEmbedding or kEmbeddingAndHead
  std::span<const int32_t> tokens;
  float multiplier = 1.0f;            // of the token alone
  const Weight* positions = nullptr;  // optional [positions, M], kEmbedding; a position beyond it is a bug
  Slice out;                          // residual [T, M]
};

enum class NormKind {
  kRms,    // x / sqrt(mean(x^2) + epsilon) * weight
  kLayer,  // (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight + bias
  kNone,   // x: blocks without a norm in front read the residual itself, as operands; no weight
};

// out = norm(x).
struct NormArgs {
  NormKind kind = NormKind::kRms;
  Slice x;       // residual [T, M]
  Slice weight;  // vector [M]
  Slice bias;    // optional vector [M], kLayer alone
  float epsilon = 0;
  Slice out;  // operands [T, M]
  bool read_once =
      false;  // one product reads `out`, and nothing after it: a device may compute the norm within that product
};

// tau of one layer for every row, and 1 / tau where Attend will read it.
struct FocalTauArgs {
  Slice x;       // operands [T, M]: what q_proj sees
  Slice weight;  // vector [M]
  float bias = 0;
  float tau_min = 0;
  float tau_max = 0;
  TauMean mean = TauMean::kCausal;
  KvPool* pool = nullptr;  // the running sum at a page's end is read from the page before
  int page_group = 0;
  int layer = 0;              // within the pool
  int annotation_offset = 0;  // kTauAnnotationBytes from here on: the running sum, float64
  Slice row_scales;           // f32 [T]
  Slice bound_counts;         // optional: uint32 [sequences, 2], rows with mean <= tau_min and >= tau_max are added
};

// Focus: the groups of every row, into the annotations of its token (docs/focus.md).
//
//   S = centroids (projection x);  groups: the top_k largest of S / temperature + b, ties to the lower group
struct RouteGroupsArgs {
  Slice x;           // operands [T, M]: what q_proj sees
  Slice projection;  // f32 [R, M]
  Slice centroids;   // f32 [K, R]
  Slice group_bias;  // f32 [K], kStored alone
  int group_count = 0;
  int routing_dim = 0;
  int top_k = 0;
  float temperature = 1;
  GroupBias bias = GroupBias::kStored;
  KvPool* pool = nullptr;
  int page_group = 0;
  int layer = 0;              // within the pool
  int annotation_offset = 0;  // GroupAnnotationBytes from here on
};

// [q; k; v] = weight x + bias, RMS norms of q and k where given, rotation, keys and values into their pages. A norm of each
// head after the rotation is for tables of an attention factor of 1, which leave its mean square as it is.
struct QkvRopeWriteArgs {
  Slice x;                         // operands [T, M]
  const Weight* weight = nullptr;  // [(H + 2K) D, M], kPlain
  Slice bias;                      // optional vector [(H + 2K) D]
  Slice query_norm;                // optional vector [D], of each head before the rotation, unless
  Slice key_norm;                  // norm_over_width: vectors [H D] and [K D], of all heads of a row together
  Slice value_norm;                // optional vector [D], of each head
  bool norm_over_width = false;
  bool norm_after_rotation = false;  // of each head, without a clip
  float norm_epsilon = 0;
  float clip = 0;  // above 0: q, k and v are clamped to +- clip, after the norms
  int query_head_count = 0;
  // The weight is [H D, ..] and nothing is written: Attend will read what another layer has written, or what a second
  // product of the same step writes, of latent attention's keys and values. That has a query_head_count of 0, and [2 K D, ..].
  bool queries_alone = false;
  std::span<const RopeTable* const> rope_tables;  // empty: no rotation
  KvPool* pool = nullptr;
  int page_group = 0;
  int layer = 0;
  Slice queries;  // f32 [T, H, D] out
};

// WindowOrGroupMask: keys of the interval at most `window` before the row, and those that share a group with it.
struct GroupTest {
  int annotation_offset = 0;  // where RouteGroups wrote
  int group_count = 0;
  int top_k = 0;
  int32_t window = 0;
  // Rows from this position on may be computed by groups (GatherFrom); INT32_MAX: none.
  int32_t gather_from = INT32_MAX;
};

struct AttendArgs {
  Slice queries;  // f32 [T, H, D]
  int query_head_count = 0;
  const KvPool* pool = nullptr;
  int page_group = 0;
  int layer = 0;
  int mask_index = 0;
  float scale = 1.0f;  // softmax(q.k * scale), unless
  Slice row_scales;    // f32 [T] gives it per row; at least 0
  Slice head_scales;   // optional f32 [H], above 0: multiplies the scale of each query head
  // Above 0: a scaled score s becomes cap tanh(s / cap), before it is masked.
  float soft_cap = 0;
  // An attention sink: a logit beside the scores, whose key has no value. It is neither scaled, capped nor masked:
  //   out = sum_j e^s_j v_j / (e^sink + sum_j e^s_j)
  float sink = kNoSink;               // of every query head, unless
  Slice sinks;                        // f32 [H] gives it per head
  const GroupTest* groups = nullptr;  // null: the interval alone
  Slice out;                          // operands [T, H, D]; zeros where a row sees no key
  // Optional f32 [T, H], natural logarithm, of the scores and the sink; kEmptyLse where there is none.
  Slice log_sum_exp;
};

// Some neighbouring columns of x = their RMS norm.
struct NormColumnsArgs {
  Slice x;  // operands [T, columns]
  int columns = 0;
  int count = 0;  // of the first of them
  Slice weight;   // f32 [count]
  float epsilon = 0;
};

// x = x * 1 / (1 + e^-gate), or x * gate
struct ApplyGateArgs {
  Slice gate;  // operands [T, columns]
  int columns = 0;
  bool sigmoid = true;
  Slice x;  // operands [T, columns]
};

// The rows of every sequence, one after the other (recurrence.h). The state before the first one is read from the page
// of the position before it, and is zero at position 0. The states after the last position of each page and after the
// last row are written to the pages of these positions; a page of -1 is not written. So a page that a later step shall
// continue from must not be written by another step in between.
struct RecurArgs {
  RecurrenceShape shape;
  Slice x;                    // operands [T, input_width]
  Slice conv;                 // f32 [W, channels]: weights; the last are those of the row's own inputs
  Slice conv_bias;            // optional f32 [channels]
  Slice decay_log;            // f32 [H], as the next one where there is an S
  Slice decay_bias;           // f32 [H]
  Slice skip;                 // kStateSpace: f32 [H]
  Slice norm;                 // f32 [value_width], where there are groups
  float norm_epsilon = 0;     // of them
  float gate_multiplier = 1;  // kStateSpace: of z
  float step_multiplier = 1;  // kStateSpace: of d
  KvPool* pool = nullptr;
  int page_group = 0;
  int layer = 0;  // within the pool
  Slice out;      // operands [T, value_width]
};

// out = activation(weight x + bias)
struct LinearArgs {
  Slice x;                         // operands [T, K]
  const Weight* weight = nullptr;  // [N, K], kPlain
  Slice bias;                      // optional vector [N]
  Activation activation = Activation::kNone;
  ActivationTerms terms = {};
  Slice out;  // operands [T, N]
};

// residual += multiplier * (weight x + bias)
struct LinearResidualArgs {
  Slice x;
  const Weight* weight = nullptr;
  Slice bias;
  float multiplier = 1.0f;
  Slice residual;                       // f32 [T, N]
  const NormArgs* next_norm = nullptr;  // optional: then Norm(*next_norm), whose x is this residual; the same bits
};

// residual = scale * (residual + multiplier * RMSNorm(weight x + bias)); the product stays f32 in between.
struct LinearNormResidualArgs {
  Slice x;                         // operands [T, K]
  const Weight* weight = nullptr;  // [M, K], kPlain
  Slice bias;                      // optional vector [M]
  Slice norm_weight;               // vector [M]
  float norm_epsilon = 0;
  float multiplier = 1.0f;
  float scale = 1.0f;
  Slice residual;                       // f32 [T, M]
  const NormArgs* next_norm = nullptr;  // as above
};

// residual = scale * (residual + multiplier * RMSNorm(x))
struct NormResidualArgs {
  Slice x;            // f32 [T, M]
  Slice norm_weight;  // vector [M]
  float norm_epsilon = 0;
  float multiplier = 1.0f;
  float scale = 1.0f;
  Slice residual;                       // f32 [T, M]
  const NormArgs* next_norm = nullptr;  // as above
};

// Inputs of L layers, P numbers each, of a row's token and of its embedding:
//
//   out[l] = factor * (RMSNorm(projected[l]) + multiplier * table[token][l])
struct LayerInputsArgs {
  Slice projected;    // operands [T, L, P]
  Slice norm_weight;  // vector [P]
  float norm_epsilon = 0;
  const Weight* table = nullptr;  // [V', L P], kEmbedding
  std::span<const int32_t> tokens;
  float multiplier = 1.0f;
  float factor = 1.0f;
  int layer_count = 0;  // L
  Slice out;            // operands [L, T, P]
};

// out = activation(gate x + gate bias) * (up x + up bias)
struct LinearGatedArgs {
  Slice x;                         // operands [T, M]
  const Weight* weight = nullptr;  // [2F, M]: gate rows, then up rows; kGateUp
  Slice bias;                      // optional vector [2F], in the same order
  Activation activation = Activation::kSilu;
  ActivationTerms terms = {};
  Slice out;  // operands [T, F]
};

// A mixture of experts.
//
//   logits = router y + bias, in f32, y = x or router_x; a row's experts are the per_token largest logits, ties to the lower number
//   weight_e = e^logit_e / (sum over all experts, or over the row's), or by ExpertRouting; times expert_scales[e]
//   expert(x) = down (activation(gate x) * up x), or down activation(up x), each product plus its bias
//   share = 1 / (1 + e^-(shared_gate . x)), or 1
//   residual += multiplier * (sum of weight_e expert_e(x), e rising, + share * shared(x))
struct MixtureArgs {
  Slice x;               // operands [T, M]
  Slice router_x;        // optional operands [T, M]
  Slice router;          // f32 [E, M]
  Slice router_bias;     // optional f32 [E]
  int expert_count = 0;  // E
  int per_token = 0;
  bool renormalised = false;  // weights are shares of the row's experts
  ExpertRouting routing;
  Slice choice_bias;                // optional f32 [E]
  Slice expert_scales;              // optional f32 [E]
  bool gated = true;                // else there are no gates, as of the shared one, and no biases of experts
  const Weight* gate_up = nullptr;  // of CreateExperts, [E, 2F, M], kGateUp; or [E, F, M], kPlain
  const Weight* down = nullptr;     // of CreateExperts, [E, M, F], kPlain
  Slice gate_up_bias;               // optional f32 [E, 2F]: of the gates, then of the ups
  Slice down_bias;                  // optional f32 [E, M]
  Activation activation = Activation::kSilu;
  ActivationTerms terms = {};
  const Weight* shared_gate_up = nullptr;  // optional expert of every row: [2F', M], kGateUp; or [F', M], kPlain
  const Weight* shared_down = nullptr;     // [M, F']
  Slice shared_gate;                       // optional f32 [M], of the shared expert
  float multiplier = 1.0f;
  Slice residual;                       // f32 [T, M]
  const NormArgs* next_norm = nullptr;  // as above
};

// One row whose next token is requested. A row may occur more than once, with different targets.
struct HeadRow {
  int32_t row = 0;           // of the step
  int32_t target = -1;       // token whose log-probability is computed
  int32_t logits_slot = -1;  // >= 0: copy the V logits to LmHeadArgs::logits + slot * V
  TokenDraw draw;            // if set, the slot is scratch: drawing runs on the device
};

struct HeadResult {
  float log_sum_exp = 0;
  float target_log_probability = 0;  // 0 without a target
  int32_t argmax = 0;                // lowest id among equals
  float argmax_logit = 0;
  float runner_up_logit = 0;  // the second largest: the gap is the margin of a greedy choice
  bool finite = true;         // false when a logit is NaN or infinite
  DrawnToken drawn;           // result of HeadRow::draw
};

// logits = (weight * norm(residual row) + bias) * logit_multiplier, then soft-capped when logit_soft_cap > 0.
struct LmHeadArgs {
  Slice residual;  // f32 [T, M]
  NormKind norm_kind = NormKind::kRms;
  Slice norm_weight;
  Slice norm_bias;  // optional, kLayer alone
  float norm_epsilon = 0;
  const Weight* weight = nullptr;  // [V, M], kHead or kEmbeddingAndHead
  Slice bias;                      // optional vector [V]
  float logit_multiplier = 1.0f;
  float logit_soft_cap = 0;
  std::span<const HeadRow> rows;
  std::span<HeadResult> results;  // host; one per row
  float* logits = nullptr;        // host; V floats per slot, for rows with a slot or a draw
};

// Statistics of the weights that an Attend of this step gives the keys of one of its rows: its mask, scales and groups.
struct InspectAttentionArgs {
  AttendArgs attend;                    // its outputs are neither read nor written
  int row = 0;                          // of the step
  std::span<const int32_t> boundaries;  // rising positions; segments are between two of them
  std::span<HeadAttention> heads;       // host; [H]
  std::span<double> masses;             // host; [H, segments], shares of the head's weight; zeros where it sees no key
};

}  // namespace varifocal::kernels
