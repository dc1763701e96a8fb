#include "server/model/rope_tables.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "server/model/kernel_status.h"
#include "server/model/rope.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<RopeTables>> RopeTables::Create(const Transformer& model,
                                                               const std::vector<RopeConfig>& ropes,
                                                               int64_t position_count, int64_t rope_length) {
  const ModelConfig& config = model.config();
  auto tables = std::unique_ptr<RopeTables>(new RopeTables);
  tables->ropes_ = ropes;
  tables->rope_length_ = rope_length;
  tables->position_count_ = position_count;
  for (const RopeConfig& rope : ropes) {
    const int64_t head_width = RopeHeadWidth(config, std::ssize(tables->tables_));
    const RopeTable table = MakeRopeTable(rope, head_width, position_count, rope_length);
    ASSIGN_OR_RETURN(
        std::unique_ptr<kernels::RopeTable> made,
        ToStatusOr(model.backend().CreateRopeTable({.cosines = table.cos,
                                                    .sines = table.sin,
                                                    .position_count = static_cast<int>(position_count),
                                                    .rotary_dim = static_cast<int>(rope.RotaryWidth(head_width))})));
    tables->tables_.push_back(std::move(made));
  }
  return tables;
}

absl::StatusOr<const RopeTables*> RopeTableCache::Get(const std::vector<RopeConfig>& ropes, int64_t position_count,
                                                      int64_t rope_length) {
  const bool own =
      std::any_of(ropes.begin(), ropes.end(), [](const RopeConfig& rope) { return rope.kind == RopeKind::kDynamic; });
  // A dynamic rotation is for sequences of exactly this length; later positions are never used.
  const int64_t positions = own && rope_length > 0 ? std::min(rope_length, position_count) : position_count;
  auto found = std::find_if(tables_.begin(), tables_.end(), [&](const auto& tables) {
    return tables->AreOf(ropes, rope_length) && tables->position_count() >= positions;
  });
  if (found == tables_.end()) {
    ASSIGN_OR_RETURN(std::unique_ptr<RopeTables> made, RopeTables::Create(model_, ropes, positions, rope_length));
    tables_.push_front(std::move(made));
    if (std::ssize(tables_) > kept_) tables_.pop_back();
  } else {
    tables_.splice(tables_.begin(), tables_, found);
  }
  return tables_.front().get();
}

}  // namespace varifocal
