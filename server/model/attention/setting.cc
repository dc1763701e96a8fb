#include "server/model/attention/setting.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

absl::StatusOr<AttentionSetting::Part> ReadPart(const ConfigReader& config, const char* key, const Json& value,
                                                const AttentionModel& model) {
  if (!value.is_object()) return InvalidArgument(config.Name(key), " is ", value.type_name(), "; it must be an object");
  ConfigReader reader(value, config.Place(key));
  std::string mode;
  std::vector<std::string> modes;
  for (const AttentionVariantRow& row : AttentionVariantRows()) {
    if (absl::string_view(row.config_key) != key) continue;
    if (row.mode != nullptr) {
      if (modes.empty()) {
        ASSIGN_OR_RETURN(mode, reader.String("mode"));
      }
      modes.emplace_back(row.mode);
      if (mode != row.mode) continue;
    }
    ASSIGN_OR_RETURN(AttentionVariantPtr variant, row.read(reader, model));
    RETURN_IF_ERROR(reader.RefuseUnread());
    return AttentionSetting::Part{&row, std::move(variant)};
  }
  return InvalidArgument(reader.Name("mode"), " is \"", mode, "\"; it must be one of: ", absl::StrJoin(modes, ", "));
}

std::vector<const char*> AttentionConfigKeys() {
  std::vector<const char*> keys;
  for (const AttentionVariantRow& row : AttentionVariantRows()) {
    if (keys.empty() || absl::string_view(keys.back()) != row.config_key) keys.push_back(row.config_key);
  }
  return keys;
}

// At most one variant may set the scale of every row.
absl::Status CheckTogether(const std::vector<AttentionSetting::Part>& parts) {
  const AttentionSetting::Part* first = nullptr;
  for (const AttentionSetting::Part& part : parts) {
    if (!part.variant->SetsRowScales()) continue;
    if (first != nullptr) {
      return InvalidArgument("\"", first->row->config_key, "\" (", first->variant->Label(), ") and \"",
                             part.row->config_key, "\" (", part.variant->Label(),
                             ") both replace the softmax scale of each row; remove one");
    }
    first = &part;
  }
  return absl::OkStatus();
}

}  // namespace

AttentionOverrides RunTimeTemperature(absl::Span<const double> temperatures) {
  if (temperatures.empty()) return {};
  return {{"t", Json(std::vector<double>(temperatures.begin(), temperatures.end()))}};
}

AttentionSetting::AttentionSetting(std::vector<Part> parts) : parts_(std::move(parts)) {
  Json json = Json::object();
  for (const Part& part : parts_) json[part.row->config_key] = part.variant->ToJson();
  json_ = json.dump();
}

absl::StatusOr<AttentionSetting> AttentionSetting::Read(ConfigReader& reader, const AttentionModel& model,
                                                        absl::string_view defaults) {
  ASSIGN_OR_RETURN(const Json of_missing, ParseJson(defaults));
  std::vector<Part> parts;
  for (const char* key : AttentionConfigKeys()) {
    const Json* value = reader.Take(key);
    if (value == nullptr && of_missing.contains(key)) value = &of_missing[key];
    if (value == nullptr) continue;
    ASSIGN_OR_RETURN(Part part, ReadPart(reader, key, *value, model));
    if (!parts.empty()) {
      const Part& last = parts.back();
      part.first_tensor = last.first_tensor + last.tensor_count;
      part.annotation_offset = last.annotation_offset + last.variant->AnnotationBytes();
    }
    part.tensor_count = part.variant->Tensors(model, 0).size();
    parts.push_back(std::move(part));
  }
  RETURN_IF_ERROR(CheckTogether(parts));
  return AttentionSetting(std::move(parts));
}

absl::StatusOr<AttentionSetting> AttentionSetting::FromJson(const Json& json, const AttentionModel& model) {
  ConfigReader reader(json, "");
  ASSIGN_OR_RETURN(AttentionSetting setting, Read(reader, model));
  RETURN_IF_ERROR(reader.RefuseUnread());
  return setting;
}

absl::StatusOr<AttentionSetting> AttentionSetting::Replaced(const AttentionOverrideRow& row, const Json& value,
                                                            const AttentionModel& model) const {
  Json json = Json::object();
  for (const Part& part : parts_) {
    json[part.row->config_key] = part.variant->ToJson();
    if (row.edits || absl::string_view(part.row->config_key) != row.config_key || !part.variant->IsLearned()) continue;
    return InvalidArgument("\"", row.name, "\" is set, but \"", row.config_key, "\" of this model is learned (",
                           part.variant->Label(), ") and cannot be replaced");
  }
  const auto current = json.find(row.config_key);
  ASSIGN_OR_RETURN(json[row.config_key], row.make(current == json.end() ? Json() : *current, value, model));
  return FromJson(json, model);
}

absl::StatusOr<AttentionSetting> AttentionSetting::With(const AttentionOverrides& overrides,
                                                        const AttentionModel& model) const {
  AttentionSetting setting = *this;
  std::map<std::string, std::string> replaced;  // config key -> name of the override
  for (const AttentionOverride& given : overrides) {
    const auto rows = AttentionOverrideRows();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return given.name == r.name; });
    VF_CHECK(row == rows.end() || row->make != nullptr, "rotations are applied by WithOverrides");
    if (row == rows.end()) {
      return WithReason(
          InvalidArgument("\"", given.name, "\" is not a run-time attention setting; supported are: ",
                          absl::StrJoin(rows, ", ", [](std::string* out, const auto& r) { out->append(r.name); })),
          ErrorReason::kBadAttentionOverride, {{"field", "overrides"}});
    }
    const auto fail = [&](absl::Status status) {
      return WithReason(std::move(status), row->reason, {{"field", "overrides"}});
    };
    const auto [other, is_first] = replaced.emplace(row->config_key, given.name);
    if (!row->edits && !is_first) {
      return fail(InvalidArgument("\"", other->second, "\" and \"", given.name, "\" both replace \"", row->config_key,
                                  "\"; remove one"));
    }
    absl::StatusOr<AttentionSetting> next = setting.Replaced(*row, given.value, model);
    if (!next.ok()) return fail(next.status());
    setting = *std::move(next);
  }
  return setting;
}

std::string AttentionSetting::Label() const {
  if (parts_.empty()) return "baseline";
  return absl::StrJoin(parts_, " + ", [](std::string* out, const Part& part) { out->append(part.variant->Label()); });
}

std::string AttentionSetting::WholePromptReason() const {
  for (const Part& part : parts_) {
    if (std::string reason = part.variant->WholePromptReason(); !reason.empty()) return reason;
  }
  return "";
}

template <typename Trait>
bool AttentionSetting::Any(const Trait& trait) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) { return trait(*part.variant); });
}

bool AttentionSetting::ReadsPreviousPage() const {
  return Any([](const AttentionVariant& v) { return v.ReadsPreviousPage(); });
}

bool AttentionSetting::ReadsAllPages(int64_t layer) const {
  return Any([&](const AttentionVariant& v) { return v.ReadsAllPages(layer); });
}

bool AttentionSetting::RowKeys(int64_t layer) const {
  return Any([&](const AttentionVariant& v) { return v.RowKeys(layer); });
}

int AttentionSetting::GatherTopKMax() const {
  int top_k = 0;
  for (const Part& part : parts_) top_k = std::max(top_k, part.variant->GatherTopKMax());
  return top_k;
}

std::optional<kernels::GroupTest> AttentionSetting::Groups(int64_t layer) const {
  for (const Part& part : parts_) {
    std::optional<kernels::GroupTest> groups = part.variant->Groups(layer);
    if (!groups) continue;
    groups->annotation_offset = part.annotation_offset;
    return groups;
  }
  return std::nullopt;
}

std::optional<int64_t> AttentionSetting::TrainedContextLength() const {
  std::optional<int64_t> shortest;
  for (const Part& part : parts_) {
    const std::optional<int64_t> length = part.variant->TrainedContextLength();
    if (length && (!shortest || *length < *shortest)) shortest = length;
  }
  return shortest;
}

bool AttentionSetting::CountsBounds() const {
  return Any([](const AttentionVariant& v) { return v.CountsBounds(); });
}

int64_t AttentionSetting::AnnotationBytes() const {
  return std::accumulate(parts_.begin(), parts_.end(), int64_t{0},
                         [](int64_t sum, const Part& p) { return sum + p.variant->AnnotationBytes(); });
}

std::vector<AttentionTensor> AttentionSetting::Tensors(const AttentionModel& model, int64_t layer) const {
  std::vector<AttentionTensor> all;
  for (const Part& part : parts_) {
    for (AttentionTensor& tensor : part.variant->Tensors(model, layer)) all.push_back(std::move(tensor));
  }
  return all;
}

absl::Status AttentionSetting::Prepare(const AttentionStep& step, AttentionTerms& terms) const {
  AttentionStep of_part = step;
  for (const Part& part : parts_) {
    of_part.tensors = step.tensors.subspan(part.first_tensor, part.tensor_count);
    of_part.annotation_offset = part.annotation_offset;
    RETURN_IF_ERROR(part.variant->Prepare(of_part, terms));
  }
  return absl::OkStatus();
}

}  // namespace varifocal
