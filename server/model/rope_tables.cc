#include "server/model/rope_tables.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "server/model/kernel_status.h"
#include "server/model/rope.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<RopeTables>> RopeTables::Create(const Transformer& model, int64_t position_count,
                                                               int64_t settled_length) {
  const ModelConfig& config = model.config();
  auto tables = std::unique_ptr<RopeTables>(new RopeTables);
  tables->settled_length_ = settled_length;
  tables->position_count_ = position_count;
  for (const RopeConfig& rope : config.ropes) {
    const RopeTable table = MakeRopeTable(rope, config.head_width, position_count, settled_length);
    ASSIGN_OR_RETURN(std::unique_ptr<kernels::RopeTable> made,
                     ToStatusOr(model.backend().CreateRopeTable(
                         {.cosines = table.cos,
                          .sines = table.sin,
                          .position_count = static_cast<int>(position_count),
                          .rotary_dim = static_cast<int>(rope.RotaryWidth(config.head_width))})));
    tables->tables_.push_back(std::move(made));
  }
  return tables;
}

absl::StatusOr<const RopeTables*> RopeShelf::Get(int64_t settled_length) {
  auto found = std::find_if(tables_.begin(), tables_.end(),
                            [&](const auto& tables) { return tables->settled_length() == settled_length; });
  if (found == tables_.end()) {
    const std::vector<RopeConfig>& ropes = model_.config().ropes;
    const bool own =
        std::any_of(ropes.begin(), ropes.end(), [](const RopeConfig& rope) { return rope.kind == RopeKind::kDynamic; });
    // A dynamic rotation serves sequences of this very length; nobody looks beyond it.
    const int64_t positions = own && settled_length > 0 ? std::min(settled_length, position_count_) : position_count_;
    ASSIGN_OR_RETURN(std::unique_ptr<RopeTables> made, RopeTables::Create(model_, positions, settled_length));
    tables_.push_front(std::move(made));
    if (static_cast<int64_t>(tables_.size()) > kept_) tables_.pop_back();
  } else {
    tables_.splice(tables_.begin(), tables_, found);
  }
  return tables_.front().get();
}

}  // namespace varifocal
