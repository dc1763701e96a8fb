// The table of run-time overrides and the rows that implement them: the same names in the same order, and of each row the
// behaviour that its entry states.
#include <algorithm>
#include <string>
#include <vector>

#include "eval_tasks/overrides.h"
#include "gtest/gtest.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

TEST(OverridesTest, EveryEntryHasARowAndEveryRowAnEntry) {
  std::vector<std::string> entries, rows;
  for (const OverrideInfo& info : OverrideTable()) {
    if (info.kind != OverrideKind::kChatSwitch) entries.emplace_back(info.name);
  }
  for (const AttentionOverrideRow& row : AttentionOverrideRows()) rows.emplace_back(row.name);
  EXPECT_EQ(entries, rows);
}

// A rotation is of its kind; a list is accepted where the entry has it; a temperature resets the other layers where
// it does.
TEST(OverridesTest, RowsDoWhatTheirEntriesState) {
  const AttentionModel model{.layer_count = 4, .head_count = 2, .width = 8, .windows = {16, 0, 16, 0}};
  const Json trained = {{"mode", "constant"}, {"temperature", 0.4}};
  for (const AttentionOverrideRow& row : AttentionOverrideRows()) {
    const OverrideInfo& info = *FindOverride(row.name);
    EXPECT_EQ(row.rotate != nullptr, IsRotation(info)) << row.name;
    EXPECT_EQ(absl::string_view(row.config_key) == "focal_attention", info.kind == OverrideKind::kTemperature)
        << row.name;
    if (info.kind != OverrideKind::kTemperature) continue;
    EXPECT_EQ(row.make(trained, Json({0.5, 0.6, 0.7, 0.8}), model).ok(), info.may_be_list) << row.name;
    const Json made = row.make(trained, Json(0.5), model).value();
    std::vector<bool> is_kept(4, false);  // of each layer, the trained temperature
    if (made.at("temperature").is_array()) {
      for (size_t i = 0; i < 4; ++i) is_kept[i] = made["temperature"][i] == 0.4;
    }
    const bool any_kept = std::count(is_kept.begin(), is_kept.end(), true) > 0;
    EXPECT_EQ(any_kept, *info.layers != 0 && !info.resets_other_layers) << row.name;
  }
}

}  // namespace
}  // namespace varifocal
