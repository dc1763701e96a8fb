#include "db/stats/arms.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace varifocal::stats {
namespace {

// Two arms of one size: a learned temperature adds less than this.
constexpr double kParameterRatioMax = 1.05;

std::string ArmName(const db::VariantRecord& variant) {
  const size_t at = variant.name.find('@');
  return absl::StrCat(*variant.model.training_arm, at == std::string::npos ? "" : variant.name.substr(at));
}

auto PlaceOf(const db::ModelRecord& model) {
  return std::tuple(model.parameter_count, model.training_tokens, model.trained_context_length);
}

bool IsSamePoint(const db::VariantRecord& a, const db::VariantRecord& b) {
  const db::ModelRecord &x = a.model, &y = b.model;
  return ArmName(a) == ArmName(b) && PlaceOf(x) == PlaceOf(y) && x.attention_json == y.attention_json &&
         x.architecture == y.architecture && x.dtype == y.dtype && x.function_json == y.function_json &&
         x.tokenizer_sha256 == y.tokenizer_sha256 && a.focal_temperature_json == b.focal_temperature_json;
}

}  // namespace

std::string Arm::Label() const {
  std::vector<std::string> parts = {name};
  const db::ModelRecord& model = first.model;
  if (model.parameter_count.has_value()) parts.push_back(absl::StrCat(*model.parameter_count, " parameters"));
  if (model.training_tokens.has_value()) parts.push_back(absl::StrCat(*model.training_tokens, " tokens"));
  parts.push_back(absl::StrCat(runs.size(), runs.size() == 1 ? " seed" : " seeds"));
  return absl::StrJoin(parts, ", ");
}

std::vector<std::string> Arms::Names() const {
  std::vector<std::string> names;
  for (const Arm& arm : arms) {
    if (std::find(names.begin(), names.end(), arm.name) == names.end()) names.push_back(arm.name);
  }
  return names;
}

Arms FindArms(const std::vector<db::VariantRecord>& variants) {
  Arms found;
  std::set<std::string> contradicted;
  const auto named = [&](const std::string& name) -> const db::VariantRecord& {
    return *std::find_if(variants.begin(), variants.end(), [&](const auto& variant) { return variant.name == name; });
  };
  for (const db::VariantRecord& variant : variants) {
    if (!variant.model.training_arm.has_value()) continue;
    if (!variant.model.training_seed.has_value()) {
      found.notes.push_back(absl::StrCat(variant.name, " states its arm, ", *variant.model.training_arm,
                                         ", and no training seed: it is in no arm."));
      continue;
    }
    const int64_t seed = *variant.model.training_seed;
    auto arm = std::find_if(found.arms.begin(), found.arms.end(),
                            [&](const Arm& known) { return IsSamePoint(known.first, variant); });
    if (arm == found.arms.end()) arm = found.arms.insert(found.arms.end(), {ArmName(variant), variant, {}});
    const auto twin =
        std::find_if(arm->runs.begin(), arm->runs.end(), [&](const ArmRun& run) { return run.seed == seed; });
    if (twin != arm->runs.end()) {
      if (named(twin->variant).model.weights_sha256 == variant.model.weights_sha256) {
        found.notes.push_back(absl::StrCat(variant.name, " has the arm, the seed (", seed, ") and the weights of ",
                                           twin->variant, ": it is no replicate and is left out."));
      } else {
        contradicted.insert(twin->variant);
        found.notes.push_back(absl::StrCat(variant.name, " and ", twin->variant, " state one arm and one seed (", seed,
                                           ") and have other weights: neither is in the arm."));
      }
      continue;
    }
    arm->runs.push_back({seed, variant.name});
  }
  for (Arm& arm : found.arms) {
    std::erase_if(arm.runs, [&](const ArmRun& run) { return contradicted.contains(run.variant); });
    std::sort(arm.runs.begin(), arm.runs.end(), [](const ArmRun& a, const ArmRun& b) { return a.seed < b.seed; });
    if (!arm.runs.empty()) arm.first = named(arm.runs[0].variant);
  }
  std::erase_if(found.arms, [](const Arm& arm) { return arm.runs.empty(); });
  const std::vector<std::string> names = found.Names();
  const auto rank = [&](const Arm& arm) { return std::find(names.begin(), names.end(), arm.name) - names.begin(); };
  std::stable_sort(found.arms.begin(), found.arms.end(), [&](const Arm& a, const Arm& b) {
    return std::tuple(rank(a), PlaceOf(a.first.model)) < std::tuple(rank(b), PlaceOf(b.first.model));
  });
  return found;
}

bool IsComparable(const Arm& a, const Arm& b) {
  const db::ModelRecord &x = a.first.model, &y = b.first.model;
  const double ratio =
      static_cast<double>(x.parameter_count.value_or(1)) / std::max<int64_t>(1, y.parameter_count.value_or(1));
  return x.training_tokens == y.training_tokens && x.trained_context_length == y.trained_context_length &&
         x.parameter_count.has_value() == y.parameter_count.has_value() &&
         std::max(ratio, 1 / ratio) <= kParameterRatioMax;
}

}  // namespace varifocal::stats
