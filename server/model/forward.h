// One step of the forward pass:
// a batch of rows of several sequences, through every layer, to the requested logits.
//
// This is the only implementation of the pass; architectures differ by their weights and the numbers in their config. A
// step is all prefill (prompt and scored tokens) or all decode (generated tokens),
// under one attention setting.
//
//   x = embed(tokens) [+ positions]
//   each layer:  x += attention(norm(x));  x += mlp(norm(x))      or in parallel; norms before, after, or both;
//                                                                 mlp may be a mixture of experts, attention
//                                                                 a recurrent state; [x += an input; x *= a scale];
//                                                                 x may be one of several streams
//   logits = head(norm(x)) of the requested rows
//
// Shapes:  T rows in the order of the step's sequences.
// Errors:  CANCELLED (the flag was seen between layers or inside attention; the step is invalid and may be run again),
//          INTERNAL (the device failed).
// Threads: one at a time.
// Cost:    no allocation in Run (but of results of inspections); nothing of size T x T or T x V.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/model/inspected_attention.h"
#include "server/model/rope_tables.h"
#include "server/model/transformer.h"

namespace varifocal {

struct ForwardLimits {
  int64_t row_count_max = 0;
  int64_t sequence_count_max = 0;
  int64_t head_row_count_max = 0;  // of one call of the head; more rows take more calls
  int64_t context_length_max = 0;
};

struct ForwardSequence {
  int64_t row_count = 0;
  int64_t first_position = 0;
  int64_t prompt_length = 0;         // for variants that need the whole prompt
  const RopeTables* rope = nullptr;  // for its rope length
  // One table per page group: the page of position p at p / 128; -1 where a window layer's page was freed. Required are
  // the pages of the row's window, and with learned tau the page before its own.
  std::vector<std::span<const int32_t>> pages;
};

struct RowInspection {
  int64_t row = 0;  // of the step
  std::span<const int32_t> boundaries;
  double share = 1;  // of the row in the result, to which it is added
  InspectedAttention* result = nullptr;
};

struct ForwardStep {
  kernels::Phase phase = kernels::Phase::kPrefill;
  std::span<const int32_t> tokens;  // [T]
  std::span<const ForwardSequence> sequences;
  const AttentionSetting* attention = nullptr;
  std::span<const kernels::HeadRow> head_rows;  // rows are indices into the step
  float* logits = nullptr;                      // V floats per logits slot
  std::span<const RowInspection> inspections = {};
  const std::atomic<bool>* cancelled = nullptr;
  bool takes_turns = true;  // with other engines of the device; a step before any request does not
};

struct ForwardOutput {
  std::vector<kernels::HeadResult> head;   // one per head row
  std::vector<uint32_t> tau_bound_counts;  // [sequences, 2], summed over layers: at the minimum, at the maximum
};

using KvPools = std::span<const std::unique_ptr<kernels::KvPool>>;

class Forward {
 public:
  // Bytes that Create will allocate on the backend.
  static int64_t BytesNeeded(const Transformer& model, const ForwardLimits& limits);
  // `model` must outlive it.
  static absl::StatusOr<std::unique_ptr<Forward>> Create(const Transformer& model, const ForwardLimits& limits);

  // `pools` has one per page group.
  absl::Status Run(KvPools pools, const ForwardStep& step, ForwardOutput* output);
  // Rows that a prompt's next step should have at most (Backend::StepRowsMax).
  int64_t StepRowsMax(int64_t first_position) const {
    return model_.backend().StepRowsMax(*workspace_, first_position);
  }

 private:
  Forward(const Transformer& model, const ForwardLimits& limits);
  absl::Status RunStep(KvPools pools, const ForwardStep& step, ForwardOutput* output);
  void Flatten(const ForwardStep& step);
  kernels::NormArgs NormOf(const NormWeights& norm);
  absl::Status AddToResidual(kernels::Slice x, const LinearWeights& linear, const NormWeights& norm, double multiplier,
                             const NormWeights* next, float scale = 1);
  absl::Status AddMixture(const LayerWeights& layer, const NormWeights* next);
  absl::Status ComputeLayerInputs(std::span<const int32_t> tokens);
  absl::Status AddLayerInput(int64_t index, const NormWeights* next);
  absl::Status StartStreams();
  absl::Status JoinStreams();
  absl::Status AddLowRank(const LayerWeights& layer);
  absl::Status RunLayerOfStreams(int64_t index, KvPools pools, const kernels::Batch& batch, const ForwardStep& step);
  absl::Status RunCutGates(const LayerWeights& layer);
  kernels::Slice StreamAt(int64_t stream) const;
  absl::Status AddBesideExperts(const LayerWeights& layer, const NormWeights* next, float scale);
  absl::Status Attend(int64_t index, KvPools pools, const kernels::Batch& batch, const ForwardStep& step);
  absl::Status Gate(const LayerWeights& layer);
  absl::Status WriteLatent(const LatentWeights& latent, kernels::QkvRopeWriteArgs args);
  absl::Status Recur(int64_t index, KvPools pools);
  absl::Status Inspect(int64_t index, const kernels::AttendArgs& attend, std::span<const RowInspection> inspections);
  absl::Status RunMlp(int64_t index, const NormWeights* next);
  absl::Status RunLayer(int64_t index, KvPools pools, const kernels::Batch& batch, const ForwardStep& step);
  absl::Status RunHead(const ForwardStep& step, ForwardOutput* output);

  const Transformer& model_;
  const ForwardLimits limits_;
  std::unique_ptr<kernels::Workspace> workspace_;
  std::unique_ptr<kernels::Buffer> residual_;  // f32 [T, M]
  std::unique_ptr<kernels::Buffer> normed_;    // operands [T, M]
  std::unique_ptr<kernels::Buffer> queries_;   // f32 [T, H, D]
  std::unique_ptr<kernels::Buffer> attended_;  // operands [T, H, D]; of recurrent layers [T, value width]
  // Operands [T, input width] of recurrent layers, [T, H D] of gates, [T, Q] and [T, C + R] of latent attention, [T, 2F] of
  // gates that are cut, [T, R] of a product of low rank.
  std::unique_ptr<kernels::Buffer> mixed_;
  std::unique_ptr<kernels::Buffer> hidden_;  // operands [T, F]
  // Of layers' inputs: operands [T, L, P] and [L, T, P], and [T, P] of a gate.
  std::unique_ptr<kernels::Buffer> projected_inputs_, layer_inputs_, input_gate_;
  std::vector<int32_t> input_tokens_;         // of the step, those with inputs
  std::unique_ptr<kernels::Buffer> streams_;  // f32 [S, T, M]
  // Of experts that are normed apart: operands [T, M] of their router; f32 [T, M] of their sum, and of what is added.
  std::unique_ptr<kernels::Buffer> routed_, expert_sum_, mlp_sum_;
  const NormWeights no_norm_;                      // the residual itself
  RowScales row_scales_;                           // for attention variants
  std::unique_ptr<kernels::Buffer> bound_counts_;  // uint32 [sequences, 2]
  std::vector<float> row_factors_;                 // [T], of queries by their position; empty: all 1
  // Of the step being run.
  std::vector<kernels::SequenceRows> rows_;
  std::vector<std::vector<kernels::RowInterval>> intervals_;         // [page groups][T]
  std::vector<std::span<const kernels::RowInterval>> masks_;         // the same
  std::vector<const RopeTables*> ropes_;                             // referenced by the sequences
  std::vector<std::vector<const kernels::RopeTable*>> rope_tables_;  // [ModelConfig::ropes][ropes_]
};

}  // namespace varifocal
