#include "client/report/data/group_table.h"

#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"
#include "eval_tasks/overrides.h"

namespace varifocal::report {
namespace {

constexpr char kKey[] = "focus_attention";

Json AsItRan(Json setting, const std::string& variant) {
  for (absl::string_view part : absl::StrSplit(variant, '@')) {
    const std::pair<absl::string_view, absl::string_view> given = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const OverrideInfo* info = FindOverride(given.first);
    int64_t value = 0;
    if (info != nullptr && info->focus_setting != nullptr && absl::SimpleAtoi(given.second, &value))
      setting[info->focus_setting] = value;
  }
  return setting;
}

std::string NumberOf(const Json& setting, const char* key) {
  const auto found = setting.find(key);
  return found != setting.end() && found->is_number() ? found->dump() : kNoValue;
}

std::string TextOf(const Json& setting, const char* key) {
  const auto found = setting.find(key);
  return found != setting.end() && found->is_string() ? found->get<std::string>() : kNoValue;
}

// "3 of 8", with what the groups were trained with where it ran with another number.
std::string RunAndTrained(const Json& run, const Json& trained, const char* key, const std::string& of) {
  const std::string value = NumberOf(run, key), before = NumberOf(trained, key);
  return absl::StrCat(value, of, value == before ? "" : absl::StrCat(" (trained: ", before, ")"));
}

std::string PercentOrNone(const std::optional<double>& share) {
  return share.has_value() ? absl::StrCat(Unsigned(*share * 100, 1), " %") : kNoValue;
}

}  // namespace

absl::Status GroupTable::Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels,
                              const stats::TestedLengths& tested) {
  tested_ = tested;
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader.Variants(job_id));
  for (const db::VariantRecord& variant : variants) {
    const auto label = labels.find(variant.name);
    const auto attention = ParseJson(variant.model.attention_json);
    if (label == labels.end() || !attention.ok() || !attention->is_object() || !attention->contains(kKey)) continue;
    const Json& trained = (*attention)[kKey];
    variants_[label->second] = {trained, AsItRan(trained, variant.name), {}};
  }
  if (variants_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<db::GroupSharesRow> cells, reader.GroupShares(job_id));
  for (db::GroupSharesRow& cell : cells) {
    const auto label = labels.find(cell.variant);
    const std::optional<int64_t> length = tested.Of(cell.task, cell.context_length);
    if (label == labels.end() || !length.has_value()) continue;
    cell.context_length = *length;
    if (const auto variant = variants_.find(label->second); variant != variants_.end())
      variant->second.cells.push_back(std::move(cell));
  }
  return absl::OkStatus();
}

Json GroupTable::Setting(const std::string& variant) const {
  const auto found = variants_.find(variant);
  return found == variants_.end() ? Json() : found->second.run;
}

std::optional<GroupShares> GroupTable::Of(const std::string& variant, const std::string& task,
                                          int64_t context_length) const {
  const auto found = variants_.find(variant);
  if (found == variants_.end()) return std::nullopt;
  int64_t count = 0;
  double pairs = 0, largest = 0;
  bool has_largest = true;
  for (const db::GroupSharesRow& cell : found->second.cells) {
    if (cell.context_length != context_length || (!task.empty() && cell.task != task)) continue;
    const double weight = cell.answer_count;
    count += cell.answer_count;
    pairs += weight * cell.pairs_visible;
    largest += weight * cell.largest_group.value_or(0);
    has_largest = has_largest && cell.largest_group.has_value();
  }
  if (count == 0) return std::nullopt;
  GroupShares shares{pairs / count, std::nullopt};
  if (has_largest) shares.largest_group = largest / count;
  return shares;
}

const std::vector<std::string>& GroupTable::Titles() {
  static const std::vector<std::string>* const titles =
      new std::vector<std::string>{"Variant",    "Groups per token", "Window",        "Bias",         "Regime",
                                   "Trained at", "Length",           "Pairs visible", "Largest group"};
  return *titles;
}

std::vector<std::vector<std::string>> GroupTable::Rows(const std::vector<std::string>& variants) const {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : variants) {
    const auto found = variants_.find(name);
    if (found == variants_.end()) continue;
    const auto& [trained, run, cells] = found->second;
    const Json length = run.value("trained_context_length", Json());
    const std::vector<std::string> setting = {
        name,
        RunAndTrained(run, trained, "top_k", absl::StrCat(" of ", NumberOf(run, "group_count"))),
        RunAndTrained(run, trained, "window", ""),
        TextOf(run, "bias"),
        TextOf(run, "regime"),
        length.is_number_integer() ? LengthLabel(length.get<int64_t>()) : kNoValue};
    std::set<int64_t> lengths;
    for (const db::GroupSharesRow& cell : cells) lengths.insert(cell.context_length);
    if (lengths.empty()) lengths.insert(0);  // the setting alone
    for (const int64_t context_length : lengths) {
      const std::optional<GroupShares> shares = Of(name, "", context_length);
      std::vector<std::string> row = setting;
      row.push_back(shares ? LengthLabel(tested_, "", context_length) : kNoValue);
      row.push_back(shares ? PercentOrNone(shares->pairs_visible) : kNoValue);
      row.push_back(shares ? PercentOrNone(shares->largest_group) : kNoValue);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace varifocal::report
