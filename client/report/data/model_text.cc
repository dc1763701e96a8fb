#include "client/report/data/model_text.h"

#include "absl/strings/str_cat.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

// The value of `key` as text; empty where there is none.
std::string Text(const Json& object, const char* key, absl::string_view before, absl::string_view after = "") {
  const auto value = object.find(key);
  if (value == object.end()) return "";
  return absl::StrCat(before, value->is_string() ? value->get<std::string>() : value->dump(), after);
}

std::string Range(int64_t first, int64_t last) {
  return first == last ? absl::StrCat(first) : absl::StrCat(first, " to ", last);
}

}  // namespace

Json FunctionOf(const db::ModelRecord& model) {
  absl::StatusOr<Json> function = ParseJson(model.function_json.value_or("{}"));
  return function.ok() && function->is_object() ? *std::move(function) : Json::object();
}

std::vector<std::string> WeightsFrom(const Json& function) {
  std::vector<std::string> out;
  if (const Json packed = function.value("packed_weights", Json()); packed.is_object()) {
    out.push_back(absl::StrCat(Text(packed, "scheme", "from "), Text(packed, "bits", " ", " bit"),
                               Text(packed, "values", ", read to ")));
  }
  if (const Json adapter = function.value("adapter", Json()); adapter.is_object()) {
    out.push_back(absl::StrCat("LoRA", Text(adapter, "rank", " of rank "), Text(adapter, "alpha", ", alpha ")));
  }
  return out;
}

std::string LayersWithoutAttention(const Json& function) {
  std::vector<std::string> ranges;
  int64_t layer = 0, first = -1;  // of the present range
  const auto end_range = [&] {
    if (first >= 0) ranges.push_back(Range(first, layer - 1));
    first = -1;
  };
  for (const Json& run : function.value("layers", Json::array())) {
    // A layer may have a state beside attention, or neither.
    const bool lacks_attention = run.is_object() && !run.value("attention", !run.value("recurrent", false));
    if (!lacks_attention) end_range();
    if (lacks_attention && first < 0) first = layer;
    layer += run.is_object() ? run.value("count", int64_t{1}) : 1;
  }
  end_range();
  return JoinWithAnd(ranges);
}

std::string LayersWithoutAttentionNote(const Json& function) {
  const std::string layers = LayersWithoutAttention(function);
  if (layers.empty()) return "";
  const bool is_one = layers.find(' ') == layers.npos;
  return absl::StrCat(is_one ? "layer " : "layers ", layers, is_one ? " has" : " have",
                      " no attention: temperatures, caps and sinks do not act there");
}

}  // namespace varifocal::report
