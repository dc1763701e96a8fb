// Keys, values and annotations of the reference, in float64.
#pragma once

#include <vector>

#include "base/check.h"
#include "base/wide_product.h"
#include "kernels/backend.h"

namespace varifocal::kernels {

// keys[(layer * page_count + page) * P + token][K, D]
class ReferencePool final : public KvPool {
 public:
  ReferencePool(const KvShape& shape, int page_count) : shape(shape), page_count_(page_count) {
    const size_t tokens = WideProduct(shape.layer_count, page_count, kPageTokens);
    keys.resize(tokens * width());
    values.resize(tokens * width());
    annotations.resize(tokens * shape.annotation_bytes);
  }
  int page_count() const override { return page_count_; }
  size_t bytes() const override { return (keys.size() + values.size()) * sizeof(double) + annotations.size(); }
  size_t width() const { return WideProduct(shape.kv_head_count, shape.head_dim); }
  size_t token(int layer, int page, int offset) const {
    VF_CHECK(layer >= 0 && layer < shape.layer_count && page >= 0 && page < page_count_, "no such page");
    return (WideProduct(layer, page_count_) + page) * kPageTokens + offset;
  }
  const KvShape shape;
  std::vector<double> keys, values;
  std::vector<char> annotations;  // [layer][page][annotation][128 tokens]
  char* page_annotations(int layer, int page) {
    return annotations.data() + token(layer, page, 0) * shape.annotation_bytes;
  }
  const char* page_annotations(int layer, int page) const {
    return annotations.data() + token(layer, page, 0) * shape.annotation_bytes;
  }

 private:
  int page_count_;
};

}  // namespace varifocal::kernels
