// The rotation tables of a model on its backend, and a cache of them for models whose rotation depends on the length.
//
// Threads: RopeTables is immutable; a RopeTableCache is owned by one thread.
// Cost:    positions x rotary width x 4 bytes, and as many sines and cosines, for each entry of ModelConfig::ropes.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/model/transformer.h"

namespace varifocal {

// One table per rope of a setting, all for one rope length.
class RopeTables {
 public:
  static absl::StatusOr<std::unique_ptr<RopeTables>> Create(const Transformer& model,
                                                            const std::vector<RopeConfig>& ropes,
                                                            int64_t position_count, int64_t rope_length);

  bool AreOf(const std::vector<RopeConfig>& ropes, int64_t rope_length) const {
    return rope_length_ == rope_length && ropes_ == ropes;
  }
  int64_t position_count() const { return position_count_; }
  const kernels::RopeTable* table(int64_t rope_index) const { return tables_[rope_index].get(); }

 private:
  RopeTables() = default;
  std::vector<RopeConfig> ropes_;
  int64_t rope_length_ = 0;
  int64_t position_count_ = 0;
  std::vector<std::unique_ptr<kernels::RopeTable>> tables_;
};

// LRU cache of tables by ropes and rope length, created on demand.
class RopeTableCache {
 public:
  // `kept` is the number of sequences of a step: their tables are used at the same time.
  RopeTableCache(const Transformer& model, int64_t kept) : model_(model), kept_(kept) {}

  // Valid until `kept` others were requested. Has at least position_count positions, or those that a dynamic rotation uses.
  absl::StatusOr<const RopeTables*> Get(const std::vector<RopeConfig>& ropes, int64_t position_count,
                                        int64_t rope_length);

 private:
  const Transformer& model_;
  const int64_t kept_;
  std::list<std::unique_ptr<RopeTables>> tables_;  // most recently used first
};

}  // namespace varifocal
