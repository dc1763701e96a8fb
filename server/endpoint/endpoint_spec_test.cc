// Endpoints on the command line: every setting, and one sentence for every mistake. Table-driven.
#include "server/endpoint/endpoint_spec.h"

#include <cstdlib>
#include <fstream>

#include "base/reason.h"
#include "gmock/gmock.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Written(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/endpoint_spec_" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(EndpointSpec, ReadsEverySetting) {
  const std::string key = Written("key", "  secret-1\n");
  const std::string body = Written("body", R"({"top_k": 0})");
  ASSIGN_OR_FAIL(
      const auto spec,
      ParseEndpointSpec(
          "llama=https://host:8443/v1/,tokenizer=models/baseline,model=org/name,key-file=" + key +
          ",ca-file=ca.pem,context-length=4096,in-flight=3,attempts=2,timeout=7,prompts=text,body-file=" + body));
  EXPECT_EQ(spec.name, "llama");
  EXPECT_EQ(spec.url, "https://host:8443/v1");
  EXPECT_EQ(spec.tokenizer_directory, "models/baseline");
  EXPECT_EQ(spec.model, "org/name");
  EXPECT_EQ(spec.key, "secret-1");
  EXPECT_EQ(spec.key_source, "file");
  EXPECT_EQ(spec.ca_file, "ca.pem");
  EXPECT_EQ(spec.context_length, 4096);
  EXPECT_EQ(spec.in_flight, 3);
  EXPECT_EQ(spec.attempts_max, 2);
  EXPECT_EQ(spec.timeout_ms, 7000);
  EXPECT_EQ(spec.prompts, PromptForm::kText);
  EXPECT_EQ(spec.body, (Json{{"top_k", 0}}));
}

TEST(EndpointSpec, ReadsTheSettingsOfTheChatApi) {
  ASSIGN_OR_FAIL(const auto spec, ParseEndpointSpec("a=http://h/v1,tokenizer=d,api=chat,counts=unchecked"));
  EXPECT_EQ(spec.api, EndpointApi::kChat);
  EXPECT_FALSE(spec.checks_prompt_counts);
  ASSIGN_OR_FAIL(const auto other, ParseEndpointSpec("a=http://h/v1,tokenizer=d,api=completions"));
  EXPECT_EQ(other.api, EndpointApi::kCompletions);
  EXPECT_TRUE(other.checks_prompt_counts);
}

TEST(EndpointSpec, ReadsTheKeyFromTheEnvironment) {
  setenv("VARIFOCAL_TEST_KEY", "secret-2", 1);
  ASSIGN_OR_FAIL(const auto spec, ParseEndpointSpec("a=http://h/v1,tokenizer=d,key-env=VARIFOCAL_TEST_KEY"));
  EXPECT_EQ(spec.key, "secret-2");
  EXPECT_EQ(spec.key_source, "environment");
  unsetenv("VARIFOCAL_TEST_KEY");
}

TEST(EndpointSpec, RefusesMistakesInOneSentence) {
  const std::string broken_key = Written("broken_key", "two words");
  const std::string absent = broken_key + "_absent";
  const std::string list = Written("list", "[1]");
  const std::string variables = Written("variables", R"({"chat_template_kwargs": 1})");
  const struct {
    std::string text;
    std::vector<std::string> expected;
  } cases[] = {
      {"http://host/v1", {"NAME=URL"}},
      {"a=", {"NAME=URL"}},
      {"1a=http://h/v1,tokenizer=d", {}},
      {"a=host:8000/v1,tokenizer=d", {}},
      {"a=ftp://host/v1,tokenizer=d", {}},
      {"a=http://:80/v1,tokenizer=d", {}},
      {"a=http://user:pa55@host/v1,tokenizer=d", {"key-file"}},
      {"a=http://host/v1?x=1,tokenizer=d", {}},
      {"a=http://host/v1", {"DIR"}},
      {"a=http://host/v1,tokenizr=d", {"\"tokenizer\""}},
      {"a=http://host/v1,tokenizer", {}},
      {"a=http://host/v1,tokenizer=", {}},
      {"a=http://host/v1,tokenizer=d,in-flight=65", {"1", "64"}},
      {"a=http://host/v1,tokenizer=d,attempts=0", {"1", "20"}},
      {"a=http://host/v1,tokenizer=d,timeout=1.5", {}},
      {"a=http://host/v1,tokenizer=d,prompts=chat", {}},
      {"a=http://host/v1,tokenizer=d,api=responses", {"responses", "chat"}},
      {"a=http://host/v1,tokenizer=d,api=chat,counts=none", {"none", "unchecked"}},
      {"a=http://host/v1,tokenizer=d,counts=unchecked", {"api=chat"}},
      {"a=http://host/v1,tokenizer=d,api=chat,prompts=ids", {"api=completions"}},
      {"a=http://host/v1,tokenizer=d,api=chat,body-file=" + variables, {"JSON"}},
      {absl::StrCat("a=http://host/v1,tokenizer=d,key-file=", absent), {absent}},
      {"a=http://host/v1,tokenizer=d,key-env=VARIFOCAL_NO_SUCH", {}},
      {"a=http://host/v1,tokenizer=d,key-file=" + broken_key, {}},
      {"a=http://host/v1,tokenizer=d,body-file=" + list, {"JSON"}},
  };
  for (const auto& c : cases) {
    const auto spec = ParseEndpointSpec(c.text);
    ASSERT_FALSE(spec.ok()) << c.text;
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_TRUE(HasReason(spec.status(), ErrorReason::kBadEndpoint)) << c.text;
    EXPECT_THAT(spec.status().message(), MessageMatcher(c.expected)) << c.text;
    EXPECT_THAT(spec.status().message(), Not(HasSubstr("pa55"))) << c.text;
  }
}

}  // namespace
}  // namespace varifocal
