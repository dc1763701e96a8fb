// Weights, rotary tables and KV pools on the device.
//
// A weight is bf16 [N, stride], rows padded with zeros to whole 16-byte chunks. Gate and up rows are interleaved (gate
// f, up f), so that one pass over neighbouring outputs finishes both; of a stack of experts, within each. A plan per output
// format is created once: every product of this weight runs the same algorithm for any number of rows.
//
// Cost:    conversion runs on several threads while the previous piece is copied.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/device_memory.h"

namespace varifocal::kernels::cuda {

class CudaWeight final : public Weight {
 public:
  static Result<std::unique_ptr<Weight>> Create(Device& device, cpu::ThreadPool& threads,
                                                std::span<const HostMatrix> parts, WeightUse use, int expert_count = 1);
  int64_t rows() const override { return rows_; }
  int64_t columns() const override { return columns_; }
  size_t bytes() const override { return memory_.bytes(); }
  bool gated() const { return gated_; }
  int64_t stride() const { return stride_; }
  const uint16_t* data() const { return memory_.as<uint16_t>(); }

  // Ends with the weight.
  std::weak_ptr<const void> life() const { return life_; }

  // The library's plan for `outputs` rows of this weight, -1 for the backend's own kernels; asked for once.
  int Plan(Device& device, int64_t outputs, ProductType type) const;

 private:
  struct KnownPlan {
    int64_t outputs;
    ProductType type;
    int plan;
  };
  int64_t rows_ = 0, columns_ = 0, stride_ = 0;
  bool gated_ = false;
  DeviceMemory memory_;
  std::shared_ptr<const void> life_ = std::make_shared<char>();
  mutable Mutex plans_mutex_;
  mutable std::vector<KnownPlan> plans_ VF_GUARDED_BY(plans_mutex_);
};

// A weight that this backend made.
inline const CudaWeight& Own(const Weight& weight) { return static_cast<const CudaWeight&>(weight); }

class CudaRopeTable final : public RopeTable {
 public:
  static Result<std::unique_ptr<RopeTable>> Create(Device& device, const RopeTableSpec& spec);
  int position_count() const override { return position_count_; }
  int rotary_dim() const override { return rotary_dim_; }
  RopeView view() const;

 private:
  int position_count_ = 0, rotary_dim_ = 0;
  DeviceMemory memory_;  // cosines, then sines
};

// Pages [layer][page][K][HeadPageBytes], and where asked for annotations [layer][page][annotation][128 tokens], with
// kAnnotationTailBytes behind each page's.
class CudaPool final : public KvPool {
 public:
  static size_t BytesPerPageAndLayer(const KvShape& shape);
  static Result<std::unique_ptr<KvPool>> Create(Device& device, const KvShape& shape, int page_count);
  int page_count() const override { return page_count_; }
  size_t bytes() const override { return tiles_.bytes() + annotations_.bytes(); }
  const KvShape& shape() const { return shape_; }
  PoolView view(int layer) const;
  // Page `to` becomes page `from`, in all layers.
  Error CopyPage(Device& device, int from, int to);

 private:
  static size_t AnnotationStride(const KvShape& shape);

  KvShape shape_;
  int page_count_ = 0;
  DeviceMemory tiles_, annotations_;
};

}  // namespace varifocal::kernels::cuda
