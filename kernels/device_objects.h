// What a backend creates: buffers, packed weights, rotations, pages and scratch. All are freed by their destructor; the
// backend must outlive them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace varifocal::kernels {

class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual size_t bytes() const = 0;
};

// Start of a tensor; rows are contiguous.
struct Slice {
  Buffer* buffer = nullptr;
  size_t offset_bytes = 0;
};

// A weight [N, K] in the backend's own order.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual int64_t rows() const = 0;     // N, outputs
  virtual int64_t columns() const = 0;  // K, inputs
  virtual size_t bytes() const = 0;
};

// cos and sin per position, made by the host.
class RopeTable {
 public:
  virtual ~RopeTable() = default;
  virtual int position_count() const = 0;
  virtual int rotary_dim() const = 0;
};

// Pages of one group of layers (all layers, or those that free pages together).
class KvPool {
 public:
  virtual ~KvPool() = default;
  virtual int page_count() const = 0;
  virtual size_t bytes() const = 0;
};

// Scratch for steps up to a shape, and the batch being computed.
class Workspace {
 public:
  virtual ~Workspace() = default;
  virtual size_t bytes() const = 0;
};

}  // namespace varifocal::kernels
