// Scratch of a mixture of experts, allocated with the workspace. A place is a row and one of its experts; places are in
// order of their experts, those of one expert in order of their rows.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cpu {

// Rows whose experts are computed at a time, which bounds the scratch: a whole prompt may be one step.
inline constexpr int kMixtureRows = 2048;
// Rows of one item of a product of an expert: whole register tiles. Of the second product also the rows of a tile in a
// thread's scratch.
inline constexpr int kExpertBlockRows = 96;
inline constexpr size_t kExpertTileFloats = static_cast<size_t>(kExpertBlockRows) * kPanel;

// Up to kExpertBlockRows places of one expert.
struct ExpertBlock {
  int32_t expert = 0;
  int32_t first_place = 0;
  int32_t place_count = 0;
};

struct MixtureScratch {
  struct Sizes {
    size_t rows = 0, places = 0, experts = 0;
    size_t input_words = 0, hidden_floats = 0, hidden_words = 0, shared_floats = 0;
    size_t total_bytes() const {
      return (rows * (experts + 1) + places * 4 + experts + 1 + input_words + hidden_floats + hidden_words +
              shared_floats) *
                 sizeof(float) +
             block_count() * sizeof(ExpertBlock);
    }
    size_t block_count() const { return std::min(experts, places) + places / kExpertBlockRows; }
  };
  static Sizes SizesFor(const StepShape& shape, const KernelTable& kernels) {
    Sizes sizes;
    if (shape.expert_count == 0) return sizes;
    const auto words = [&](size_t width) {
      return (width + kernels.elements_per_word - 1) / kernels.elements_per_word;
    };
    sizes.rows = std::min(shape.row_count_max, kMixtureRows);
    sizes.experts = shape.expert_count;
    sizes.places = sizes.rows * shape.experts_per_token;
    sizes.input_words = sizes.places * words(shape.model_dim);
    sizes.hidden_floats = sizes.places * shape.expert_ffn_dim;
    if (kernels.elements_per_word != 1) sizes.hidden_words = sizes.places * words(shape.expert_ffn_dim);
    if (shape.shared_expert) {
      sizes.hidden_floats = std::max(sizes.hidden_floats, sizes.rows * shape.ffn_dim);
      sizes.shared_floats = sizes.rows * shape.model_dim;
    }
    return sizes;
  }
  // False when out of memory.
  bool Allocate(const Sizes& sizes) {
    logits = AllocateAligned<float>(sizes.rows * sizes.experts);
    shares = AllocateAligned<float>(sizes.rows);
    chosen = AllocateAligned<int32_t>(sizes.places);
    weights = AllocateAligned<float>(sizes.places);
    place_rows = AllocateAligned<int32_t>(sizes.places);
    place_weights = AllocateAligned<float>(sizes.places);
    starts = AllocateAligned<int32_t>(sizes.experts + 1);
    inputs = AllocateAligned<float>(sizes.input_words);
    hidden = AllocateAligned<float>(sizes.hidden_floats);
    packed_hidden = AllocateAligned<float>(sizes.hidden_words);
    shared = AllocateAligned<float>(sizes.shared_floats);
    blocks.reserve(sizes.block_count());
    return logits && shares && chosen && weights && place_rows && place_weights && starts && inputs && hidden &&
           packed_hidden && shared;
  }

  // T: the rows computed at a time.
  AlignedArray<float> logits;        // [T, E]
  AlignedArray<float> shares;        // [T], of the shared expert
  AlignedArray<int32_t> chosen;      // [T, k]
  AlignedArray<float> weights;       // [T, k]
  AlignedArray<int32_t> place_rows;  // [places]
  AlignedArray<float> place_weights;
  AlignedArray<int32_t> starts;       // [E + 1], of an expert's places
  AlignedArray<float> inputs;         // words [places, M]
  AlignedArray<float> hidden;         // [places, F]; of the shared expert [T, F']
  AlignedArray<float> packed_hidden;  // bf16 alone: words [places, F]
  AlignedArray<float> shared;         // [T, M]
  std::vector<ExpertBlock> blocks;
};

}  // namespace varifocal::kernels::cpu
