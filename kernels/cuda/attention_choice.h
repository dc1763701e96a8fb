// Which kernel computes prefill attention: `mma` (attention_prefill.h) everywhere, or `sm90` (attention_sm90.h) on devices of
// compute capability 9.0, for the head dims, masks and scores that it supports. And how attention by groups finds its keys: every pair
// is tested (`masked`), or rows from a position on read lists of keys (`gathered`, attention_gathered.h). The bits of each differ.
//
// Errors: kInvalidArgument for a text that is none of the forms below, kUnsupported for sm90 on another device.
#pragma once

#include <string>
#include <vector>

#include "kernels/attention_variants.h"
#include "kernels/cuda/attention_sm90_layout.h"
#include "kernels/tensor.h"

namespace varifocal::kernels::cuda {

// `auto` takes mma until a device has passed the conformance table with sm90 (docs/gpu).
inline constexpr bool kSm90IsDefault = false;
// And keys are gathered only where it is asked for, until a device has passed that.
inline constexpr bool kGatheredIsDefault = false;

struct AttentionChoice {
  bool sm90 = false;
  std::vector<int> head_dims;  // of sm90; none: all that it supports
  Sm90Tuning tuning;
  bool gathered = kGatheredIsDefault;

  // What a part and a listed pair cost, in pairs of attention without groups (GatherFrom).
  GatherCosts gather_costs() const;
  bool UsesSm90(int head_dim, bool reads_groups, bool has_cap) const;
  // In the backend's name: what bits depend on.
  std::string name() const;
};

// `text` is auto, mma or sm90, each with :focus=gathered or :focus=masked if wanted; sm90 may be followed by :dims=64+128 (others keep
// mma), and by what no answer depends on: :items=N (tiles of a block, 0 all), :turns=off, :sections=off. `capability` is 90 for 9.0.
Result<AttentionChoice> ChooseAttention(const std::string& text, int capability);

}  // namespace varifocal::kernels::cuda
