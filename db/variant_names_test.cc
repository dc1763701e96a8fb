// Names of variants that are spelled otherwise than they are stored, and the temperature a checkpoint was trained with.
// Method: tables.
#include "db/variant_names.h"

#include <optional>
#include <utility>

#include "db/trained_temperature.h"
#include "gtest/gtest.h"

namespace varifocal::db {
namespace {

VariantRecord Named(const std::string& name, const std::string& attention_json) {
  VariantRecord variant;
  variant.name = name;
  variant.model.attention_json = attention_json;
  return variant;
}

TEST(TrainedTemperatureTest, OneNumberOrNone) {
  const std::pair<const char*, std::optional<double>> cases[] = {
      {"{}", 1.0},
      {R"({"focal_attention": {"mode": "constant", "temperature": 0.4}})", 0.4},
      {R"({"focal_attention": {"mode": "constant", "temperature": [0.4, 0.5]}})", std::nullopt},
      {R"({"focal_attention": {"mode": "constant"}})", std::nullopt},
      {R"({"focal_attention": {"temperature": 0.4}})", std::nullopt},
      {R"({"focal_attention": {"mode": "learned", "temperature": 0.4}})", std::nullopt},
      {R"({"focal_attention": 0.4})", std::nullopt},
      {R"({"log_n_attention": {"mode": "learned"}})", std::nullopt},
      {R"({"focal_attention": {"mode": "constant", "temperature": 0.4}, "log_n_attention": {}})", std::nullopt},
      {"[]", std::nullopt},
      {"{", std::nullopt},
  };
  for (const auto& [json, wanted] : cases) EXPECT_EQ(TrainedTemperature(json), wanted) << json;
}

TEST(VariantNamesTest, OfTheStoredVariant) {
  const std::vector<VariantRecord> variants = {
      Named("plain", "{}"), Named("plain@t=0.7", "{}"), Named("plain@t=0.8@log-n=4096", "{}"),
      Named("sharp", R"({"focal_attention": {"mode": "constant", "temperature": 0.6}})")};
  const std::pair<const char*, const char*> cases[] = {
      {"plain", "plain"},
      {"plain@t=0.70", "plain@t=0.7"},
      {"plain@t=7e-1", "plain@t=0.7"},
      {"plain@t=1", "plain"},
      {"plain@t=1.0", "plain"},
      {"sharp@t=0.6", "sharp"},
      {"plain@t=0.80@log-n=4096.0", "plain@t=0.8@log-n=4096"},
      {"plain@t=0.6", ""},
      {"plain@full-t=0.7", ""},
      {"plain@full-t=1", ""},
      {"plain@t=", ""},
      {"plain@t", ""},
      {"plain@log-n=4096@t=0.8", ""},
      {"other", ""},
      {"", ""},
  };
  for (const auto& [name, wanted] : cases) EXPECT_EQ(StoredVariantName(name, variants), wanted) << name;
  EXPECT_EQ(StoredAs("other", variants), "");
  EXPECT_EQ(StoredAs("sharp@t=0.60", variants), "; \"sharp@t=0.60\" is stored as sharp");
  EXPECT_EQ(NoSuchVariant(2, "sharp@t=0.60", variants),
            "job 2 has no variant \"sharp@t=0.60\", only plain, plain@t=0.7, plain@t=0.8@log-n=4096, sharp; "
            "\"sharp@t=0.60\" is stored as sharp");
}

}  // namespace
}  // namespace varifocal::db
