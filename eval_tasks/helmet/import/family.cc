#include "eval_tasks/helmet/import/family.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_strings.h"
#include "base/status_macros.h"
#include "eval_tasks/python/random.h"

namespace varifocal::helmet {

std::string Sources::Resolve(const std::string& path) const {
  constexpr absl::string_view kData = "data/";
  if (absl::StartsWith(path, kData)) return absl::StrCat(data, "/", path.substr(kData.size()));
  return absl::StrCat(checkout, "/", path);
}

absl::StatusOr<std::unique_ptr<JsonRowFile>> Sources::Open(
    const std::string& path, const std::function<absl::Status(int64_t, absl::string_view)>& visit,
    absl::string_view rows_field) {
  ASSIGN_OR_RETURN(std::unique_ptr<JsonRowFile> file, JsonRowFile::Open(path));
  RETURN_IF_ERROR(file->Scan(visit, rows_field));
  if (file->places().empty()) return InvalidArgument(path, ": has no rows");
  files[path] = {file->sha256(), std::ssize(file->places())};
  return file;
}

const FamilyInfo* FindFamily(const std::string& dataset) {
  // In upstream's order.
  for (const FamilyInfo* family : {&kQaFamily, &kJsonKvFamily, &kNarrativeQaFamily, &kRerankFamily, &kAlceFamily,
                                   &kIclFamily, &kMultiLexSumFamily, &kRulerFamily, &kInfBenchFamily}) {
    if (family->matches(dataset)) return family;
  }
  return nullptr;
}

std::string SameName(const std::string& dataset) { return dataset; }
std::string NameWithoutNumber(const std::string& dataset) { return dataset.substr(0, dataset.rfind('_')); }
absl::Status NoVisit(int64_t, absl::string_view) { return absl::OkStatus(); }

absl::Status RowView::Error(absl::string_view field, absl::string_view what) const {
  return InvalidArgument(place_, ": the field \"", field, "\" ", what);
}

absl::StatusOr<const Json*> RowView::Field(absl::string_view field) const {
  const auto found = row_.find(field);
  if (found == row_.end()) return Error(field, "is missing");
  if (found->is_null()) return Error(field, "is null");
  return &*found;
}

absl::StatusOr<std::string> RowView::Text(absl::string_view field) const {
  ASSIGN_OR_RETURN(const Json* value, Field(field));
  if (!value->is_string()) return Error(field, absl::StrCat("is ", JsonKind(*value), ", not a text"));
  return value->get<std::string>();
}

absl::StatusOr<std::string> RowView::Str(absl::string_view field) const {
  ASSIGN_OR_RETURN(const Json* value, Field(field));
  absl::StatusOr<std::string> text = PythonStr(*value);
  if (!text.ok()) return Error(field, text.status().message());
  return text;
}

absl::StatusOr<const Json*> RowView::List(absl::string_view field) const {
  ASSIGN_OR_RETURN(const Json* value, Field(field));
  if (!value->is_array()) return Error(field, absl::StrCat("is ", JsonKind(*value), ", not a list"));
  if (value->empty()) return Error(field, "is an empty list");
  return value;
}

absl::StatusOr<int64_t> RowView::Int(absl::string_view field) const {
  ASSIGN_OR_RETURN(const Json* value, Field(field));
  if (!value->is_number_integer()) return Error(field, absl::StrCat("is ", value->dump(), ", not a whole number"));
  return value->get<int64_t>();
}

absl::StatusOr<std::vector<std::string>> RowView::Texts(absl::string_view field) const {
  ASSIGN_OR_RETURN(const Json* value, Field(field));
  std::vector<std::string> texts;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& item : list) {
    for (const Json& text : item.is_array() ? item : Json::array({item})) {
      if (!text.is_string()) return Error(field, absl::StrCat("holds ", JsonKind(text), ", not texts"));
      texts.push_back(text.get<std::string>());
    }
  }
  if (texts.empty()) return Error(field, "is an empty list");
  return texts;
}

absl::StatusOr<std::string> RenderObject(const Template& form, const Json& object, const SlotValues& more,
                                         const RowView& row, absl::string_view field) {
  if (!object.is_object()) return row.Error(field, absl::StrCat("is ", JsonKind(object), ", not an object"));
  SlotValues values;
  for (const std::string& slot : form.slots()) {
    if (more.count(slot) > 0) continue;
    const auto found = object.find(slot);
    if (found == object.end()) return row.Error(absl::StrCat(field, ".", slot), "is missing");
    absl::StatusOr<std::string> text = PythonStr(*found);
    if (!text.ok()) return row.Error(absl::StrCat(field, ".", slot), text.status().message());
    values[slot] = *std::move(text);
  }
  return form.Render(more, values);
}

absl::string_view RowsFieldOf(const std::string& path) { return absl::EndsWith(path, ".json") ? "data" : ""; }

absl::Status UniqueIds::Add(absl::string_view field, const Json& id, int64_t row_number) {
  const auto [earlier, is_new] = row_of_.emplace(id.dump(), row_number);
  if (is_new) return absl::OkStatus();
  return InvalidArgument("the field \"", field, "\" is ", id.dump(), ", as in row ", earlier->second);
}

std::vector<size_t> FirstDifferent(const std::vector<size_t>& order, const std::function<std::string(size_t)>& name,
                                   size_t count) {
  std::set<std::string> seen;
  std::vector<size_t> first;
  for (size_t index : order) {
    if (first.size() == count) break;
    if (seen.insert(name(index)).second) first.push_back(index);
  }
  return first;
}

std::vector<size_t> ShuffledRows(size_t row_count, const ConfigEntry& entry) {
  if (entry.max_test_samples.has_value()) {
    std::vector<size_t> order = NumpyRandom(entry.seed).Permutation(row_count);
    order.resize(std::min<size_t>(order.size(), *entry.max_test_samples));
    return order;
  }
  std::vector<size_t> all(row_count);
  for (size_t i = 0; i < row_count; ++i) all[i] = i;
  return all;
}

}  // namespace varifocal::helmet
