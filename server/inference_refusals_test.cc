// What Generate refuses, by code and reason.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <limits>

#include "tests/fakes/server_fixture.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;

class InferenceRefusalsTest : public ServerTest {};

TEST_F(InferenceRefusalsTest, GenerateRefusesByReason) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  struct Case {
    const char* name;
    std::function<void(v1::GenerateRequest&)> spoil;
    const char* reason;
    std::vector<std::string> words;  // contained in the message
    grpc::StatusCode code = grpc::INVALID_ARGUMENT;
  };
  using R = v1::GenerateRequest;
  const auto at = [](const std::vector<int32_t>& boundaries) { return [=](R& r) { InspectAt(r, boundaries); }; };
  const Case cases[] = {
      {"unknown model", [](R& r) { r.set_model("models/absent"); }, "MODEL_NOT_FOUND", {"absent"}, grpc::NOT_FOUND},
      {"no model", [](R& r) { r.clear_model(); }, "BAD_RESOURCE_NAME", {"models/NAME"}},
      {"path as model", [](R& r) { r.set_model("models/../etc"); }, "BAD_RESOURCE_NAME", {"../etc"}},
      {"no prompt", [](R& r) { r.clear_prompt(); }, "EMPTY_PROMPT", {}},
      {"no ids", [](R& r) { r.mutable_prompt_token_ids(); }, "EMPTY_PROMPT", {}},
      {"id too large", [](R& r) { r.mutable_prompt_token_ids()->add_ids(2048); }, "BAD_TOKEN_ID", {"2048"}},
      {"id negative", [](R& r) { r.mutable_prompt_token_ids()->add_ids(-1); }, "BAD_TOKEN_ID", {"-1"}},
      {"unset new tokens", [](R& r) { r.clear_max_new_tokens(); }, "BAD_MAX_NEW_TOKENS", {}},
      {"no new tokens", [](R& r) { r.set_max_new_tokens(0); }, "BAD_MAX_NEW_TOKENS", {"0"}},
      {"focal zero", [](R& r) { r.add_focal_temperatures(0); }, "BAD_FOCAL_TEMPERATURE", {"0"}},
      {"focal negative", [](R& r) { r.add_focal_temperatures(-0.5); }, "BAD_FOCAL_TEMPERATURE", {"-0.5"}},
      {"focal nan", [=](R& r) { r.add_focal_temperatures(nan); }, "BAD_FOCAL_TEMPERATURE", {"nan"}},
      {"focal inf", [=](R& r) { r.add_focal_temperatures(inf); }, "BAD_FOCAL_TEMPERATURE", {"inf"}},
      {"focal count",
       [](R& r) {
         for (int i = 0; i < 3; ++i) r.add_focal_temperatures(1);
       },
       "BAD_FOCAL_TEMPERATURE",
       {"focal_temperature", "3"}},
      {"focal on learned",
       [](R& r) {
         r.set_model("models/learned");
         r.add_focal_temperatures(1);
       },
       "BAD_FOCAL_TEMPERATURE",
       {"learned"}},
      {"focal zero of the map",
       [](R& r) { (*r.mutable_overrides())["t"].add_values(0); },
       "BAD_FOCAL_TEMPERATURE",
       {"0"}},
      {"focal without a value", [](R& r) { (*r.mutable_overrides())["t"]; }, "BAD_FOCAL_TEMPERATURE", {"0"}},
      {"a setting without a value", [](R& r) { (*r.mutable_overrides())["log-n"]; }, "BAD_ATTENTION_OVERRIDE", {"0"}},
      {"a list of another setting",
       [](R& r) {
         (*r.mutable_overrides())["log-n"].add_values(64);
         (*r.mutable_overrides())["log-n"].add_values(128);
       },
       "BAD_ATTENTION_OVERRIDE",
       {"2"}},
      {"a setting in both forms",
       [](R& r) {
         r.add_focal_temperatures(1);
         (*r.mutable_overrides())["t"].add_values(1);
       },
       "BAD_ATTENTION_OVERRIDE",
       {"t"}},
      {"unknown setting of the map",
       [](R& r) { (*r.mutable_overrides())["sharpness"].add_values(2); },
       "BAD_ATTENTION_OVERRIDE",
       {"sharpness"}},
      {"unknown attention setting",
       [](R& r) { (*r.mutable_attention_overrides())["sharpness"] = 2; },
       "BAD_ATTENTION_OVERRIDE",
       {}},
      {"log-n of half a token",
       [](R& r) { (*r.mutable_attention_overrides())["log-n"] = 2.5; },
       "BAD_ATTENTION_OVERRIDE",
       {"2.5"}},
      {"full-t without full layers",
       [](R& r) { (*r.mutable_attention_overrides())["full-t"] = 0; },
       "BAD_ATTENTION_OVERRIDE",
       {}},
      {"sampling negative",
       [](R& r) { r.mutable_decode_settings()->set_sampling_temperature(-1); },
       "BAD_SAMPLING_TEMPERATURE",
       {"-1"}},
      {"sampling nan",
       [=](R& r) { r.mutable_decode_settings()->set_sampling_temperature(nan); },
       "BAD_SAMPLING_TEMPERATURE",
       {"nan"}},
      {"top_p zero", [](R& r) { r.mutable_decode_settings()->set_top_p(0); }, "BAD_TOP_P", {"0"}},
      {"top_p above one", [](R& r) { r.mutable_decode_settings()->set_top_p(1.5); }, "BAD_TOP_P", {"1.5"}},
      {"top_p nan", [=](R& r) { r.mutable_decode_settings()->set_top_p(nan); }, "BAD_TOP_P", {"nan"}},
      {"top_k negative", [](R& r) { r.mutable_decode_settings()->set_top_k(-1); }, "BAD_TOP_K", {"-1"}},
      {"min_p above one", [](R& r) { r.mutable_decode_settings()->set_min_p(1.5); }, "BAD_MIN_P", {"1.5"}},
      {"empty stop", [](R& r) { r.mutable_decode_settings()->add_stop(""); }, "BAD_STOP", {"empty"}},
      {"many stops",
       [](R& r) {
         for (int i = 0; i < 17; ++i) r.mutable_decode_settings()->add_stop("x");
       },
       "BAD_STOP",
       {"17"}},
      {"no boundaries",
       [](R& r) { r.mutable_attention_inspection(); },
       "BAD_INSPECTION",
       {"attention_inspection.boundaries", "0", "2"}},
      {"one boundary", [](R& r) { r.mutable_attention_inspection()->add_boundaries(0); }, "BAD_INSPECTION", {"1"}},
      {"boundary below 0", at({-1, 2}), "BAD_INSPECTION", {"attention_inspection.boundaries", "0", "-1"}},
      {"boundaries that fall", at({0, 2, 1}), "BAD_INSPECTION", {"attention_inspection.boundaries", "2", "1"}},
      {"equal boundaries", at({0, 0}), "BAD_INSPECTION", {"attention_inspection.boundaries", "1", "0"}},
      {"boundary beyond the prompt",
       at({0, std::numeric_limits<int32_t>::max()}),
       "BAD_INSPECTION",
       {"attention_inspection.boundaries", "1", "2147483647"}},
      {"no rows",
       [](R& r) {
         InspectAt(r, {0, 1});
         r.mutable_attention_inspection()->set_row_count(0);
       },
       "BAD_INSPECTION",
       {"attention_inspection.row_count", "0", "1"}},
      {"more rows than tokens",
       [](R& r) {
         r.mutable_prompt_token_ids()->mutable_ids()->Add(7);
         InspectAt(r, {0, 1});
         r.mutable_attention_inspection()->set_row_count(2);
       },
       "BAD_INSPECTION",
       {"attention_inspection.row_count", "2", "1"}},
      {"chat without format",
       [](R& r) {
         r.set_prompt_text("Hi.");
         r.mutable_chat();
       },
       "MODEL_WITHOUT_CHAT_FORMAT",
       {"\"a\"", "chat_format.json"},
       grpc::FAILED_PRECONDITION},
      {"chat with ids",
       [](R& r) {
         r.mutable_prompt_token_ids()->add_ids(5);
         r.mutable_chat();
       },
       "BAD_CHAT",
       {}},
      {"text without tokenizer",
       [](R& r) { r.set_model("models/bare"); },
       "MODEL_WITHOUT_TOKENIZER",
       {"bare"},
       grpc::FAILED_PRECONDITION},
  };
  for (const Case& c : cases) {
    v1::GenerateRequest request = SmallGenerate();
    c.spoil(request);
    const grpc::Status status = Generate(request);
    EXPECT_EQ(status.error_code(), c.code) << c.name << ": " << status.error_message();
    EXPECT_EQ(ReasonIn(status), c.reason) << c.name << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), MessageMatcher(c.words)) << c.name;
  }
  EXPECT_EQ(control_->started_count(), 0) << "nothing of this reaches an engine";
}

}  // namespace
}  // namespace varifocal
