// A weight in panels of 64 outputs, packed once at load; also read row by row, so that a tied embedding is stored once.
//
// Shapes:  [N/64][64/strip][K/per][strip] words, where strip is KernelTable::strip_columns; the last panel is padded with
//          zeros. Gate and up ([2F, K]) are interleaved, 32 gate columns then their 32 up columns per panel, so that one
//          tile has both factors of the product.
#pragma once

#include "base/wide_product.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/host_memory.h"

namespace varifocal::kernels::cpu {

class PackedWeight final : public Weight {
 public:
  static Result<std::unique_ptr<Weight>> Create(std::span<const HostMatrix> parts, WeightUse use,
                                                const KernelTable& kernels);

  int64_t rows() const override { return rows_; }
  int64_t columns() const override { return columns_; }
  size_t bytes() const override { return WideProduct(panel_count_, words(), kPanel) * sizeof(float); }

  // Words of one row of inputs.
  int64_t words() const { return (columns_ + per_ - 1) / per_; }
  bool gated() const { return gated_; }
  int panel_count() const { return panel_count_; }
  // Outputs of one panel, and the number of valid ones in panel `index`.
  int panel_outputs() const { return gated_ ? kPanel / 2 : kPanel; }
  int columns_of_panel(int index) const;
  const float* panel(int index) const { return data_.get() + WideProduct(index, words(), kPanel); }
  // out[K] = row `index` of the weight; not for gated ones.
  void ReadRow(int64_t index, float* out) const;
  void AddRow(int64_t index, float* sum) const;

 private:
  template <typename Take>
  void EachOfRow(int64_t index, const Take& take) const;

  // Of word 0 of output `column` of a panel; the next words are strip_ apart.
  int64_t ColumnOffset(int column) const { return column / strip_ * strip_ * words() + column % strip_; }

  int64_t rows_ = 0, columns_ = 0;
  int panel_count_ = 0, per_ = 1, strip_ = kPanel;
  bool gated_ = false;
  AlignedArray<float> data_;
};

}  // namespace varifocal::kernels::cpu
