#include "kernels/cpu/packed_weight.h"

#include <algorithm>

#include "base/wide_product.h"

namespace varifocal::kernels::cpu {

Result<std::unique_ptr<Weight>> PackedWeight::Create(std::span<const HostMatrix> parts, WeightUse use,
                                                     const KernelTable& kernels) {
  auto rows = StackedRows(parts, use);
  if (!rows.ok()) return rows.error();
  auto weight = std::make_unique<PackedWeight>();
  weight->rows_ = *rows;
  weight->columns_ = parts[0].columns;
  weight->per_ = kernels.elements_per_word;
  weight->strip_ = kernels.strip_columns;
  weight->gated_ = use == WeightUse::kGateUp;
  const int64_t outputs = weight->gated_ ? *rows / 2 : *rows;
  const int per_panel = weight->panel_outputs();
  weight->panel_count_ = (outputs + per_panel - 1) / per_panel;
  weight->data_ = AllocateAligned<float>(weight->bytes() / sizeof(float));
  if (weight->data_ == nullptr) return OutOfHostMemory("a packed weight", weight->bytes());
  std::vector<float> row(weight->columns_);
  for (int64_t n = 0; n < *rows; ++n) {
    const auto [part, inner] = StackedRow(parts, n);
    WidenRow(*part, inner, row.data());
    const bool up = weight->gated_ && n >= outputs;
    const int64_t output = up ? n - outputs : n;
    float* to = weight->data_.get() + WideProduct(output / per_panel, weight->words(), kPanel) +
                weight->ColumnOffset(static_cast<int>(output % per_panel) + (up ? kPanel / 2 : 0));
    for (int64_t word = 0; word < weight->words(); ++word) {
      const int64_t k = word * weight->per_;
      to[word * weight->strip_] =
          weight->per_ == 1 ? row[k] : PairOf(row[k], k + 1 < weight->columns_ ? row[k + 1] : 0.0f);
    }
  }
  return std::unique_ptr<Weight>(std::move(weight));
}

int PackedWeight::columns_of_panel(int index) const {
  const int64_t outputs = gated_ ? rows_ / 2 : rows_;
  return std::min<int64_t>(panel_outputs(), outputs - static_cast<int64_t>(index) * panel_outputs());
}

template <typename Take>
void PackedWeight::EachOfRow(int64_t index, const Take& take) const {
  const float* from = panel(index / kPanel) + ColumnOffset(index % kPanel);
  for (int64_t k = 0; k < columns_; ++k) {
    const float word = from[k / per_ * strip_];
    take(k, per_ == 1 ? word : HalfOf(word, k % 2));
  }
}

void PackedWeight::ReadRow(int64_t index, float* out) const {
  EachOfRow(index, [&](int64_t k, float value) { out[k] = value; });
}

void PackedWeight::AddRow(int64_t index, float* sum) const {
  EachOfRow(index, [&](int64_t k, float value) { sum[k] += value; });
}

}  // namespace varifocal::kernels::cpu
