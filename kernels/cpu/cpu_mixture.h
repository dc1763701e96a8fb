// A mixture of experts: routing, then the products of each expert with the rows that chose it.
//
// A row's sums run over k of its products alone and over its experts in rising order, whatever other rows there are: rows
// are collected by expert, an expert's hidden units are one product, and each item of the second product adds the
// experts of its rows and columns one after the other.
#pragma once

#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

// The weights of a layer's experts.
class PackedExperts final : public Weight {
 public:
  static Result<std::unique_ptr<Weight>> Create(std::span<const HostMatrix> parts, int expert_count, WeightUse use,
                                                const KernelTable& kernels);
  int64_t rows() const override { return experts_[0]->rows() * std::ssize(experts_); }
  int64_t columns() const override { return experts_[0]->columns(); }
  size_t bytes() const override { return experts_[0]->bytes() * experts_.size(); }
  int count() const { return static_cast<int>(experts_.size()); }
  const PackedWeight& operator[](int expert) const { return static_cast<const PackedWeight&>(*experts_[expert]); }

 private:
  std::vector<std::unique_ptr<Weight>> experts_;
};

// Without its next norm; false when cancelled.
bool RunMixture(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const MixtureArgs& args);

}  // namespace varifocal::kernels::cpu
