#include "server/model/kernel_flags.h"

namespace varifocal {

absl::Span<const KernelFlag> KernelFlags() {
  static constexpr KernelFlag kFlags[] = {
      {"attention-kernel",
       "On a GPU, the kernel of prompts' attention: auto, mma, or sm90 on compute capability 9.0, each with "
       ":focus=gathered for lists of Focus' keys. Their answers differ in the last bits; recorded",
       &ModelOptions::attention_kernel},
      {"product-kernel",
       "On a GPU, the kernel of prompts' products: auto, library, or sm90 on compute capability 9.0. Their answers differ "
       "in the last bits; recorded",
       &ModelOptions::product_kernel},
      {"decode-kernels",
       "On a GPU, kernels of decode steps of at most 8 rows: auto (separate), fused or separate; :prefetch=off asks for no "
       "weights ahead. Does not affect answers",
       &ModelOptions::decode_kernels},
  };
  return kFlags;
}

}  // namespace varifocal
