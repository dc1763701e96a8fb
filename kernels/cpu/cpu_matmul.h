// Work items of a matrix product: blocks of rows times runs of panels, from one counter.
#pragma once

#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

struct MatmulArgs {
  const float* x = nullptr;  // [rows, K]
  const PackedWeight* weight = nullptr;
  int row_count = 0;
  Epilogue epilogue = Epilogue::kStore;
  Activation activation = Activation::kNone;
  ActivationTerms terms = {};
  const float* bias = nullptr;  // kGated: of the gates, then of the ups
  float multiplier = 1.0f;
  float* out = nullptr;  // [rows, outputs]
};

// False when cancelled. In bf16 `words` is scratch for the packed inputs: [rows, K/2].
bool RunMatmul(const KernelTable& kernels, ThreadPool& pool, const MatmulArgs& args, float* words,
               const std::atomic<bool>* cancelled);

}  // namespace varifocal::kernels::cpu
