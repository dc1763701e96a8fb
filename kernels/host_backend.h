// Common base of the backends that compute on the CPU: f32 operands, buffers and rope tables in host memory.
#pragma once

#include <cstring>

#include "kernels/host_memory.h"

namespace varifocal::kernels {

class HostBackend : public Backend {
 public:
  const BackendInfo& info() const override { return info_; }
  DType operand_dtype() const override { return DType::kF32; }
  MemoryInfo memory() const override { return HostMemory(); }

  Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) override { return HostBuffer::Create(bytes); }
  Error Write(Slice to, const void* from, size_t bytes) override {
    std::memcpy(HostData<char>(to, bytes), from, bytes);
    return {};
  }
  Error Read(void* to, Slice from, size_t bytes) override {
    std::memcpy(to, HostData<char>(from, bytes), bytes);
    return {};
  }
  Error Zero(Slice slice, size_t bytes) override {
    std::memset(HostData<char>(slice, bytes), 0, bytes);
    return {};
  }
  Result<std::unique_ptr<Buffer>> CreateVector(const HostMatrix& vector) override { return CreateHostVector(vector); }
  Result<std::unique_ptr<RopeTable>> CreateRopeTable(const RopeTableSpec& spec) override {
    return HostRopeTable::Create(spec);
  }

 protected:
  BackendInfo info_;
};

}  // namespace varifocal::kernels
