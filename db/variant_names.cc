#include "db/variant_names.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "db/trained_temperature.h"

namespace varifocal::db {
namespace {

// The value of a setting such as "t=0.70" after its "=", where it is one number.
std::optional<double> ValueOf(const std::string& setting) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(setting, absl::MaxSplits('=', 1));
  double value = 0;
  return absl::SimpleAtod(parts.second, &value) ? std::optional(value) : std::nullopt;
}

bool IsSameSetting(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const std::optional<double> x = ValueOf(a), y = ValueOf(b);
  return x.has_value() && x == y && a.substr(0, a.find('=')) == b.substr(0, b.find('='));
}

}  // namespace

std::string StoredVariantName(const std::string& name, const std::vector<VariantRecord>& variants) {
  const std::vector<std::string> wanted = absl::StrSplit(name, '@');
  for (const VariantRecord& variant : variants) {
    const std::vector<std::string> parts = absl::StrSplit(variant.name, '@');
    bool is_same = parts.size() == wanted.size() && parts.front() == wanted.front();
    for (size_t i = 1; is_same && i < parts.size(); ++i) is_same = IsSameSetting(parts[i], wanted[i]);
    const bool is_as_trained = wanted.size() == 2 && variant.name == wanted.front() &&
                               absl::StartsWith(wanted[1], "t=") && ValueOf(wanted[1]).has_value() &&
                               ValueOf(wanted[1]) == TrainedTemperature(variant.model.attention_json);
    if (is_same || is_as_trained) return variant.name;
  }
  return "";
}

std::string StoredAs(const std::string& name, const std::vector<VariantRecord>& variants) {
  const std::string stored = StoredVariantName(name, variants);
  return stored.empty() ? "" : absl::StrCat("; \"", name, "\" is stored as ", stored);
}

std::string NoSuchVariant(int64_t job_id, const std::string& name, const std::vector<VariantRecord>& variants) {
  return absl::StrCat("job ", job_id, " has no variant \"", name, "\", only ",
                      absl::StrJoin(variants, ", ", [](std::string* out, const auto& v) { out->append(v.name); }),
                      StoredAs(name, variants));
}

}  // namespace varifocal::db
