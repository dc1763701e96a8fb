// Scratch memory of a step on the device, and the batch metadata for the kernels.
//
// BeginStep flattens the batch, divides it into query tiles or decode splits, and uploads the metadata in one copy.
// Prefill tiles are ordered by their number of visible keys, longest first, so that a launch does not end with a long
// one.
//
// Threads: serves one thread at a time.
// Cost:    scratch for the largest product of a step; grows only for shapes beyond the plan.
#pragma once

#include <map>
#include <utility>

#include "kernels/cuda/attention_choice.h"
#include "kernels/cuda/batch_plan.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/decode_choice.h"
#include "kernels/cuda/gather_plan.h"
#include "kernels/cuda/step_graphs.h"
#include "kernels/cuda/weights_ahead.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cuda {

// Slices of the vocabulary that an LM head call processes at a time: as many as fit this much scratch, or one.
inline constexpr size_t kHeadScratchBytes = 32 << 20;
int64_t HeadSlicesAtOnce(int rows, int64_t vocab, int splits);

// Bounds of what one upload holds beside the rows.
inline constexpr int kPageGroupsMax = 4;
inline constexpr int kMasksMax = 4;

// Of blocks that have arrived. Products of more groups of columns, and attention of more heads, keep kernels apart.
inline constexpr int kCounterCount = 4096;

struct WorkspaceSizes {
  size_t metadata_words, product_bytes, partial_floats, row_floats, head_row_halves, head_states, head_partials, tokens,
      draws, draw_floats, group_floats, gather_words, mixture_words, mixture_halves, counters;
  size_t total_bytes() const;
};
WorkspaceSizes SizesFor(const StepShape& shape, const AttentionChoice& attention = {});

// Rows whose experts are computed at a time.
inline constexpr int kMixtureRows = 2048;
// Scratch of a mixture of experts; a place is a row and one of its experts.
struct MixtureScratch {
  int32_t* chosen = nullptr;   // [T, k]
  float* weights = nullptr;    // [T, k]
  float* shares = nullptr;     // [T]
  int32_t* counts = nullptr;   // [E]
  int32_t* lists = nullptr;    // [E, kMixtureRows or T]
  uint16_t* hidden = nullptr;  // bf16 [places of as many rows, F], or [T, F'] of the shared expert
};

// What attention under one mask of the step consists of, in device memory.
struct AttentionWork {
  HeadShape heads;
  const RowInterval* mask = nullptr;
  int count = 0;                     // of tiles or items
  int key_count = 0;                 // prefill: up to the mask's last one
  bool all_see_keys = false;         // decode: every row has a split
  const QueryTile* tiles = nullptr;  // prefill
  bool segments_apart = false;
  // Of the kernel sm90, where it has the head dim.
  int sm90_count = 0;
  const QueryTile* sm90_tiles = nullptr;
  uint32_t* sm90_taken = nullptr;
  bool sm90_segments_apart = false;
  const DecodeItem* items = nullptr;   // decode
  const int32_t* item_rows = nullptr;  // decode
};

class CudaWorkspace final : public Workspace {
 public:
  static Result<std::unique_ptr<Workspace>> Create(Device& device, const StepShape& shape,
                                                   const AttentionChoice& attention, const DecodeChoice& decode);
  size_t bytes() const override { return bytes_; }

  Error Begin(const Batch& batch);
  StepTurn& turn() const { return *turn_; }
  // The end of a piece of a prompt.
  Error Yield() { return device_->Check(turn_->Yield(), "waiting for a turn"); }
  // What is queued is queued, and the host waits next.
  Error EndTurn() { return device_->Check(turn_->Queued(), "ending a turn"); }
  const StepView& step() const { return step_; }
  const int32_t* table_starts(int page_group) const;
  const int32_t* sequence_ropes() const { return sequence_ropes_; }
  AttentionWork attention(int mask_index) const;
  int split_count_max() const;
  size_t draw_count_max() const { return draws.bytes() / sizeof(DrawItem); }
  // Launches of this step go there.
  LaunchStream stream();
  // Launches are kept from here on, until QueueKept queues them as one graph or the next Begin drops them.
  void KeepLaunches() { keeps_launches_ = true; }
  Error QueueKept();
  MixtureScratch mixture() const;
  // Lists of a wave, for the kernels of attention by groups; what the caller sets stays.
  void PlaceGather(const GatherWave& wave, GatherView& view) const;
  const GatherSizes& gather_sizes() const { return gather_sizes_; }
  // Whether products of this step have their epilogues and norms in the same kernel: a decode step of a few rows.
  bool fuses() const {
    return decode_.fused && flat.batch.phase == Phase::kDecode && flat.row_count() <= kFusedRowsMax;
  }
  // Counters of blocks that have arrived, zero between launches: of the groups of columns of a product, or of a step's rows, heads
  // and tiles of attention.
  uint32_t* arrived() const { return arrived_.as<uint32_t>(); }
  // A norm that the product which reads it shall compute: the next operation takes it, or runs it first.
  void KeepNorm(const NormParams& norm) { waiting_norm_ = norm; }
  NormParams TakeNorm() { return std::exchange(waiting_norm_, {}); }
  Error RunWaitingNorm();
  // Unless it is that of `x`.
  Error RunOtherNorm(const uint16_t* x) { return waiting_norm_.out == x ? Error{} : RunWaitingNorm(); }
  // What a kernel that is queued now asks for; nothing in a prefill step.
  WeightsAhead Ahead(bool is_product) {
    return flat.batch.phase == Phase::kDecode ? weights.Ahead(is_product) : WeightsAhead{};
  }
  // Scratch for products, at least this large.
  Result<void*> Products(size_t bytes);

  StepShape shape;
  FlatBatch flat;
  WeightOrder weights;                      // of decode steps
  DeviceMemory partials;                    // attention over several splits or segments
  DeviceMemory row_numbers;                 // f32 [T]: raw tau, scores of one row
  DeviceMemory head_rows;                   // bf16 [head rows, M]
  DeviceMemory head_states, head_partials;  // HeadState
  DeviceMemory tokens;                      // int32: token ids of a step; rows, targets and draws of a head call
  DeviceMemory draws;                       // DrawItem
  DeviceMemory draw_logits;                 // f32 [draws, V]
  DeviceMemory group_scores;                // f32 [T, K groups], where there are groups

 private:
  size_t AppendPageTables(const Batch& batch, size_t page_group_count);
  // AttentionWork as offsets into the metadata.
  struct MaskPlan {
    HeadShape heads;
    size_t mask = 0, work = 0, rows = 0, sm90_work = 0, sm90_taken = 0;
    int count = 0, key_count = 0, sm90_count = 0;
    bool segments_apart = false, sm90_segments_apart = false, all_see_keys = false;
  };
  // Query tiles and their place, by what they depend on: query heads of a KV head, and rows.
  struct PlacedTiles {
    size_t at = 0;
    std::vector<QueryTile> tiles;
  };
  using TiledMasks = std::map<std::pair<int, int>, PlacedTiles>;
  MaskPlan AppendMask(const Batch& batch, size_t index, TiledMasks& tiled);

  Device* device_ = nullptr;
  size_t bytes_ = 0;
  DeviceMemory metadata_, products_, gather_, mixture_words_, mixture_hidden_, arrived_;
  GatherSizes gather_sizes_;
  size_t metadata_words_ = 0;
  StepView step_;
  std::vector<int32_t> words_;        // what is uploaded
  std::vector<size_t> table_starts_;  // offsets into it
  std::vector<MaskPlan> plans_;       // by mask
  AttentionChoice choice_;
  DecodeChoice decode_;
  NormParams waiting_norm_;  // with an `out`: waits
  const int32_t* sequence_ropes_ = nullptr;
  bool keeps_launches_ = false;
  LaunchList launches_;
  StepGraphs graphs_;
  std::unique_ptr<StepTurn> turn_;
};

}  // namespace varifocal::kernels::cuda
