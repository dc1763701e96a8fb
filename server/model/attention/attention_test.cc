// The tables of attention variants and overrides: every row is parsed, labelled, serialized and combined.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/model/attention/setting.h"
#include "server/model/attention/variants.h"
#include "server/model/kernel_status.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::HasSubstr;

AttentionModel Model() { return {.layer_count = 3, .head_count = 4, .width = 64, .windows = {0, 512, 0}}; }

absl::StatusOr<AttentionSetting> Read(const std::string& text, const AttentionModel& model = Model()) {
  auto json = ParseJson(text);
  if (!json.ok()) return json.status();
  return AttentionSetting::FromJson(*json, model);
}

struct Known {
  const char* text;
  const char* label;
  int64_t annotation_bytes = 0;
  size_t tensor_count = 0;
  bool whole_prompt = false;
};

// At least one case for every row of the table.
const std::map<std::string, std::vector<Known>>& KnownByRow() {
  static const auto& known = *new std::map<std::string, std::vector<Known>>{
      {"focal_attention constant",
       {{R"({"focal_attention":{"mode":"constant","temperature":0.4}})", "focal t=0.4"},
        {R"({"focal_attention":{"mode":"constant","temperature":[0.4,1.0,0.7]}})", "focal t=0.4,1,0.7"}}},
      {"focal_attention full_layers_only",
       {{R"({"focal_attention":{"mode":"full_layers_only","temperature":0.7}})", "focal full-t=0.7"}}},
      {"focal_attention learned",
       {{R"({"focal_attention":{"mode":"learned","tau_max":8.0,"tau_mean":"token","tau_min":3.5}})",
         "focal tau=[3.5,8] token", 8, 2},
        {R"({"focal_attention":{"mode":"learned","tau_max":8.0,"tau_mean":"sequence","tau_min":3.5}})",
         "focal tau=[3.5,8] sequence", 8, 2, true}}},
      {"log_n_attention constant",
       {{R"({"log_n_attention":{"mode":"constant","trained_length":4096}})", "log-n=4096"},
        {R"({"focal_attention":{"mode":"constant","temperature":0.4},"log_n_attention":{"mode":"constant","trained_length":2}})",
         "focal t=0.4 + log-n=2"}}},
      {"log_n_attention learned", {{R"({"log_n_attention":{"mode":"learned"}})", "log-n learned", 0, 1}}},
      {"score_soft_cap",
       {{R"({"score_soft_cap":{"cap":30.0}})", "softcap=30"},
        {R"({"focal_attention":{"mode":"constant","temperature":0.8},"score_soft_cap":{"cap":0.01}})",
         "focal t=0.8 + softcap=0.01"}}},
      {"attention_sink constant",
       {{R"({"attention_sink":{"logit":0.0,"mode":"constant"}})", "sink=0"},
        {R"({"attention_sink":{"logit":-2.5,"mode":"constant"},"log_n_attention":{"mode":"constant","trained_length":64},"score_soft_cap":{"cap":50.0}})",
         "log-n=64 + softcap=50 + sink=-2.5"}}},
      {"attention_sink learned", {{R"({"attention_sink":{"mode":"learned"}})", "sink learned", 0, 1}}},
      {"focus_attention",
       {{R"({"focus_attention":{"assignment_temperature":0.1,"bias":"calibrated","group_count":8,"layers":[0,2],"routing_dim":16,"top_k":2,"window":128}})",
         "focus 2/8 w=128", 4, 3},
        {R"({"focus_attention":{"assignment_temperature":0.2,"bias":"paged","group_count":8,"layers":[0,1,2],"regime":"frozen","routing_dim":4,"top_k":1,"trained_context_length":1024,"window":0}})",
         "focus 1/8 w=0 paged", 37, 3},
        {R"({"focal_attention":{"mode":"learned","tau_max":8.0,"tau_mean":"causal","tau_min":3.5},"focus_attention":{"assignment_temperature":0.1,"bias":"prompt","group_count":4,"layers":[1],"routing_dim":16,"top_k":4,"window":2147483647}})",
         "focal tau=[3.5,8] causal + focus 4/4 w=2147483647 prompt", 13, 5, true}}}};
  return known;
}

TEST(AttentionTableTest, EveryRowHasACanonicalFormALabelAndTensors) {
  std::set<std::string> labels;
  for (const AttentionVariantRow& row : AttentionVariantRows()) {
    const std::string name =
        absl::StrCat(row.config_key, row.mode == nullptr ? "" : " ", row.mode == nullptr ? "" : row.mode);
    const auto cases = KnownByRow().find(name);
    ASSERT_NE(cases, KnownByRow().end()) << name;
    for (const Known& c : cases->second) {
      ASSIGN_OR_FAIL(const auto setting, Read(c.text));
      EXPECT_EQ(setting.json(), c.text);
      EXPECT_EQ(setting.Label(), c.label);
      EXPECT_EQ(setting.AnnotationBytes(), c.annotation_bytes) << c.text;
      EXPECT_EQ(setting.Tensors(Model(), 0).size(), c.tensor_count) << c.text;
      EXPECT_EQ(setting.NeedsWholePrompt(), c.whole_prompt) << c.text;
      EXPECT_TRUE(labels.insert(setting.Label()).second) << "two settings have the label " << setting.Label();
    }
  }
}

TEST(AttentionTableTest, NoKeysAreTheBaseline) {
  EXPECT_EQ(AttentionSetting().json(), "{}");
  EXPECT_EQ(AttentionSetting().Label(), "baseline");
  EXPECT_EQ(Read("{}")->json(), "{}");
}

TEST(AttentionTableTest, EqualSettingsHaveEqualJson) {
  const auto canonical = [](const char* text) { return Read(text)->json(); };
  EXPECT_EQ(canonical(R"({"focal_attention":{"temperature":[0.4,0.4,0.4],"mode":"constant"}})"),
            canonical(R"({"focal_attention":{"mode":"constant","temperature":0.4}})"));
  EXPECT_EQ(canonical(R"({"focal_attention":{"mode":"learned","tau_min":2,"tau_max":3}})"),
            canonical(R"({"focal_attention":{"mode":"learned","tau_min":2.0,"tau_max":3.0,"tau_mean":"causal"}})"));
}

struct Refused {
  const char* text;
  std::vector<std::string> message;  // contained in the message
};

TEST(AttentionTableTest, Refusals) {
  for (const Refused& c :
       {Refused{R"({"focal_attention":{"mode":"full_layers_only"}})", {"temperature"}},
        Refused{R"({"focal_attention":{"mode":"full_layers_only","temperature":0}})", {"0"}},
        Refused{R"({"focal_attention":{"mode":"full_layers_only","temperature":[1]}})", {"temperature"}},
        Refused{R"({"log_n_attention":{"mode":"constant"}})", {"trained_length"}},
        Refused{R"({"log_n_attention":{"mode":"constant","trained_length":1}})", {"trained_length", "1"}},
        Refused{R"({"log_n_attention":{"mode":"learned","trained_length":8}})", {"trained_length"}},
        Refused{R"({"score_soft_cap":{}})", {"cap"}},
        Refused{R"({"score_soft_cap":{"cap":0}})", {"0", "0.01", "1000000"}},
        Refused{R"({"score_soft_cap":{"cap":"30"}})", {"0.01", "1000000"}}, Refused{R"({"score_soft_cap":30})", {}},
        Refused{R"({"attention_sink":{"mode":"constant"}})", {"logit"}},
        Refused{R"({"attention_sink":{"mode":"constant","logit":20000}})", {"20000", "-10000", "10000"}},
        Refused{R"({"attention_sink":{"mode":"learned","logit":0}})", {"logit"}},
        Refused{R"({"attention_sink":{"mode":"off"}})", {}}, Refused{R"({"log_n_attention":{"mode":"focal"}})", {}},
        Refused{R"({"log_n_attention":4096})", {}},
        Refused{
            R"({"focal_attention":{"mode":"learned","tau_min":2,"tau_max":3},"log_n_attention":{"mode":"learned"}})",
            {}}}) {
    const auto setting = Read(c.text);
    ASSERT_FALSE(setting.ok()) << c.text;
    EXPECT_THAT(setting.status().message(), MessageMatcher(c.message));
  }
  AttentionModel windows_only = Model();
  windows_only.windows = {512, 512, 512};
  EXPECT_THAT(
      Read(R"({"focal_attention":{"mode":"full_layers_only","temperature":0.7}})", windows_only).status().message(),
      Message("3"));
}

TEST(AttentionOverrideTest, OverridesReplaceTheSettingOfTheirKey) {
  const auto constant = *Read(R"({"focal_attention":{"mode":"constant","temperature":0.4}})");
  EXPECT_EQ(constant.With({}, Model())->json(), constant.json());
  EXPECT_EQ(constant.With(RunTimeTemperature({0.7}), Model())->Label(), "focal t=0.7");
  EXPECT_EQ(constant.With(RunTimeTemperature({0.7, 1, 1}), Model())->Label(), "focal t=0.7,1,1");
  EXPECT_EQ(constant.With({{"full-t", 0.8}}, Model())->Label(), "focal full-t=0.8");
  EXPECT_EQ(constant.With({{"log-n", 4096}}, Model())->Label(), "focal t=0.4 + log-n=4096");
  EXPECT_EQ(constant.With({{"log-n", 4096.0}}, Model())->json(), constant.With({{"log-n", 4096}}, Model())->json());
  EXPECT_EQ(AttentionSetting().With({{"log-n", 4096}, {"t", 0.5}}, Model())->Label(), "focal t=0.5 + log-n=4096");
  EXPECT_EQ(constant.With({{"sink", 0}}, Model())->json(), constant.With({{"sink", 0.0}}, Model())->json());
  EXPECT_EQ(constant.With({{"full-t", 0.8}, {"log-n", 64}, {"sink", -1}, {"softcap", 30}}, Model())->Label(),
            "focal full-t=0.8 + log-n=64 + softcap=30 + sink=-1");
  const auto capped = *Read(R"({"score_soft_cap":{"cap":50},"attention_sink":{"mode":"constant","logit":3}})");
  EXPECT_EQ(capped.With({{"sink", 0}, {"softcap", 30}}, Model())->Label(), "softcap=30 + sink=0");
}

// Terms of a layer: a cap in place of the architecture's, and a sink that no scale or temperature changes.
TEST(AttentionOverrideTest, TermsOfCapsAndSinks) {
  ASSIGN_OR_FAIL(const auto backend, ToStatusOr(kernels::CreateBackend({.device = "reference"})));
  auto workspace = backend->CreateWorkspace({});
  ASSIGN_OR_FAIL(auto row_scales, RowScales::Create(*backend, 1, 1));
  const kernels::Batch batch;
  const auto terms_of = [&](const AttentionOverrides& overrides) {
    AttentionTerms terms{.scale = 0.25, .soft_cap = 50};
    EXPECT_TRUE(
        AttentionSetting()
            .With(overrides, Model())
            ->Prepare({.backend = *backend, .workspace = **workspace, .batch = batch, .row_scales = row_scales}, terms)
            .ok());
    return terms;
  };
  EXPECT_EQ(terms_of({}).soft_cap, 50);
  EXPECT_EQ(terms_of({}).sink, kernels::kNoSink);
  EXPECT_EQ(terms_of({{"softcap", 30}}).soft_cap, 30);
  const AttentionTerms both = terms_of({{"t", 0.5}, {"sink", -2}});
  EXPECT_EQ(both.sink, -2);
  EXPECT_EQ(both.temperature, 0.5);
  EXPECT_EQ(both.soft_cap, 50);
}

// Model() has three layers, so each third is one layer.
TEST(AttentionOverrideTest, ThirdsOfTheLayersKeepTheOtherTemperatures) {
  const auto constant = *Read(R"({"focal_attention":{"mode":"constant","temperature":0.4}})");
  EXPECT_EQ(constant.With({{"early-t", 0.7}}, Model())->Label(), "focal t=0.7,0.4,0.4");
  EXPECT_EQ(constant.With({{"early-t", 0.7}, {"late-t", 0.9}}, Model())->Label(), "focal t=0.7,0.4,0.9");
  EXPECT_EQ(constant.With({{"t", 0.5}, {"middle-t", 0.6}}, Model())->Label(), "focal t=0.5,0.6,0.5");
  EXPECT_EQ(constant.With({{"late-t", 0.4}}, Model())->json(), constant.json());
  EXPECT_EQ(AttentionSetting().With({{"middle-t", 0.5}}, Model())->Label(), "focal t=1,0.5,1");
  AttentionModel model = Model();
  model.windows = {512, 0, 512};
  const auto full = *Read(R"({"focal_attention":{"mode":"full_layers_only","temperature":0.7}})", model);
  EXPECT_EQ(full.With({{"early-t", 0.5}}, model)->Label(), "focal t=0.5,0.7,1");
  model.layer_count = 8;
  model.windows.assign(8, 0);
  EXPECT_EQ(AttentionSetting().With({{"early-t", 2}, {"late-t", 3}}, model)->Label(), "focal t=2,2,1,1,1,1,3,3");
  model.layer_count = 2;
  model.windows.assign(2, 0);
  EXPECT_THAT(AttentionSetting().With({{"middle-t", 2}}, model).status().message(), Message("2"));
}

TEST(AttentionOverrideTest, Refusals) {
  const auto learned = *Read(R"({"focal_attention":{"mode":"learned","tau_min":2,"tau_max":3}})");
  const auto message = [](const AttentionSetting& setting, const AttentionOverrides& overrides) {
    return std::string(setting.With(overrides, Model()).status().message());
  };
  EXPECT_THAT(message(learned, {{"t", 0.7}}), Message("2,3"));
  EXPECT_THAT(message(learned, {{"full-t", 0.7}}), Message());
  EXPECT_THAT(message(learned, {{"early-t", 0.7}}), Message("\"focal_attention\""));
  EXPECT_THAT(message(AttentionSetting(), {{"early-t", 0.5}, {"t", 1}}), HasSubstr("both replace"));
  EXPECT_THAT(message(AttentionSetting(), {{"sharp", 1}}), Message());
  EXPECT_THAT(message(AttentionSetting(), RunTimeTemperature({1, 1})), Message("2", "1", "3"));
  EXPECT_THAT(message(AttentionSetting(), {{"t", 0}}), Message("0"));
  EXPECT_THAT(message(AttentionSetting(), {{"full-t", "x"}}), Message());
  EXPECT_THAT(message(AttentionSetting(), {{"log-n", 1}}), Message("1", "2"));
  const auto with_sinks = *Read(R"({"attention_sink":{"mode":"learned"}})");
  EXPECT_THAT(message(with_sinks, {{"sink", 0}}), Message("\"sink\"", "\"attention_sink\""));
  EXPECT_THAT(message(AttentionSetting(), {{"sink", -10001}}), Message("-10001", "-10000", "10000"));
  EXPECT_THAT(message(AttentionSetting(), {{"softcap", 1e7}}), Message("10000000", "0.01", "1000000"));
  EXPECT_THAT(message(AttentionSetting(), {{"softcap", 0}}), Message("0", "0.01"));
}

}  // namespace
}  // namespace varifocal
