// Bodies and replies of the completions API: what is sent, what is read, and every reply that is refused. Table-driven,
// with literal JSON.
#include "server/endpoint/completion.h"

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "gmock/gmock.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

CompletionRequest Request() {
  CompletionRequest request;
  request.model = "m";
  request.token_ids = {5, 6, 7};
  request.max_new_tokens = 2;
  return request;
}

TEST(ToBody, SendsGreedyWithoutSeedAndSampledWithOne) {
  EXPECT_EQ(*ToBody(Request(), Json::object()),
            R"({"max_tokens":2,"model":"m","prompt":[5,6,7],"stream":false,"temperature":0.0})");
  CompletionRequest request = Request();
  request.text = "a b";
  request.sampling = {.temperature = 0.5, .top_p = 0.9};
  request.seed = 0xffffffff00000007;
  request.stop = {"\n"};
  request.logprobs = request.echo = true;
  // A member of `extra` does not replace one of the request.
  EXPECT_EQ(
      *ToBody(request, {{"top_k", 0}, {"temperature", 1}}),
      R"({"echo":true,"logprobs":1,"max_tokens":2,"model":"m","prompt":"a b","seed":7,"stop":["\n"],"stream":false,)"
      R"("temperature":0.5,"top_k":0,"top_p":0.9})");
}

CompletionRequest ChatRequest() {
  CompletionRequest request = Request();
  request.chat = ChatPart{.messages = {{"system", "s"}, {"user", "u"}}};
  return request;
}

TEST(ToBody, SendsMessagesToTheChatApi) {
  EXPECT_EQ(*ToBody(ChatRequest(), Json::object()),
            R"({"max_completion_tokens":2,"messages":[{"content":"s","role":"system"},{"content":"u","role":"user"}],)"
            R"("model":"m","stream":false,"temperature":0.0})");
  CompletionRequest request = ChatRequest();
  request.chat->length_name = "max_tokens";
  request.chat->switch_variable = "enable_thinking";
  request.sampling.temperature = 0.5;
  request.seed = 7;
  request.stop = {"\n"};
  // A null leaves a member out; other variables of the template stay.
  EXPECT_EQ(*ToBody(request, {{"temperature", nullptr}, {"chat_template_kwargs", {{"effort", "low"}}}}),
            R"({"chat_template_kwargs":{"effort":"low","enable_thinking":false},"max_tokens":2,)"
            R"("messages":[{"content":"s","role":"system"},{"content":"u","role":"user"}],"model":"m","seed":7,)"
            R"("stop":["\n"],"stream":false,"top_p":1.0})");
}

TEST(ParseCompletion, JoinsReasoningAndContent) {
  const struct {
    const char *message, *finish, *text;
    bool is_opened = false;
  } cases[] = {
      {R"("content": "Rome")", "stop", "Rome"},
      {R"("content": "Rome", "reasoning_content": "Hm.")", "stop", "<t>Hm.</t>Rome"},
      {R"("content": "Rome", "reasoning": "Hm.")", "stop", "<t>Hm.</t>Rome"},
      {R"("content": "Rome", "reasoning_content": "", "reasoning": "Hm.")", "stop", "<t>Hm.</t>Rome"},
      {R"("content": "Rome", "reasoning_content": "Hm.")", "stop", "Hm.</t>Rome", true},
      {R"("content": null, "reasoning_content": "Hm.")", "length", "<t>Hm."},
      {R"("content": "", "reasoning_content": "Hm.")", "length", "Hm.", true},
      {R"("content": "", "reasoning_content": "Hm.")", "stop", "<t>Hm."},
      {R"("content": null)", "length", ""},
      {R"("content": null, "refusal": "No.")", "stop", "No."},
  };
  for (const auto& c : cases) {
    CompletionRequest request = ChatRequest();
    request.chat->thinking_begin = "<t>";
    request.chat->thinking_end = "</t>";
    request.chat->is_thinking_opened = c.is_opened;
    const auto read = ParseCompletion(
        request, absl::StrCat(R"({"model": "m", "choices": [{"finish_reason": ")", c.finish, R"(", "message": {)",
                              c.message, R"(}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})"));
    ASSERT_TRUE(read.ok()) << read.status() << c.message;
    EXPECT_EQ(read->text, c.text) << c.message;
    EXPECT_EQ(read->new_token_count, 2);
  }
}

TEST(ParseCompletion, RefusesRepliesOfTheChatApi) {
  const std::string tail = R"(, "usage": {"prompt_tokens": 4, "completion_tokens": 2}})";
  const auto reply = [&](const std::string& choice) { return R"({"model": "m", "choices": [)" + choice + "]" + tail; };
  const struct {
    std::string body;
    ErrorReason reason;
    std::vector<std::string> expected;
  } cases[] = {
      {reply(R"({"finish_reason": "stop"})"), ErrorReason::kEndpointBadReply, {}},
      {reply(R"({"finish_reason": "stop", "message": {}})"), ErrorReason::kEndpointBadReply, {}},
      {reply(R"({"finish_reason": "stop", "message": {"content": []}})"),
       ErrorReason::kEndpointBadReply,
       {"message.content"}},
      {reply(R"({"finish_reason": "tool_calls", "message": {"content": null}})"),
       ErrorReason::kEndpointBadReply,
       {"tool_calls"}},
      {reply(R"({"finish_reason": "content_filter", "message": {"content": ""}})"), ErrorReason::kEndpointRefused, {}},
      {reply(R"({"finish_reason": "stop", "message": {"content": "x"}})"),
       ErrorReason::kEndpointWrongCount,
       {"4", "3"}},
      {R"({"error": {"message": "overloaded"}})", ErrorReason::kEndpointBadReply, {"overloaded"}},
      {"data: {\"choices\": []}\n\ndata: {\"error\": \"overloaded\"}\n\n",
       ErrorReason::kEndpointBadReply,
       {"overloaded"}},
      {"data: {}\n\ndata: [DONE]\n\n", ErrorReason::kEndpointBadReply, {}},
  };
  for (const auto& c : cases) {
    const auto read = ParseCompletion(ChatRequest(), c.body);
    ASSERT_FALSE(read.ok()) << c.body;
    EXPECT_TRUE(HasReason(read.status(), c.reason)) << read.status();
    EXPECT_THAT(read.status().message(), MessageMatcher(c.expected)) << c.body;
  }
  CompletionRequest unchecked = ChatRequest();
  unchecked.chat->is_prompt_count_known = false;
  EXPECT_EQ(ParseCompletion(unchecked, reply(R"({"finish_reason": "stop", "message": {"content": "x"}})"))
                ->prompt_token_count,
            4);
}

TEST(ParseCompletion, ReadsTextCountsAndLogprobs) {
  CompletionRequest request = Request();
  request.logprobs = request.echo = true;
  const auto read = ParseCompletion(
      request,
      R"({"model": "m", "choices": [{"text": "x", "finish_reason": "stop", "stop_reason": "\n", "logprobs":
          {"token_logprobs": [null, -1.5, -0.25, -2], "top_logprobs": [null, {"a": -0.5, "b": -1.5}, {"c": -0.25}, {"d": -2}]}}],
          "usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->is_at_stop);
  EXPECT_EQ(read->stop_string, "\n");
  EXPECT_EQ(read->prompt_token_count, 3);
  EXPECT_EQ(read->cached_token_count, 2);
  EXPECT_EQ(read->new_token_count, 1);
  ASSERT_EQ(read->tokens.size(), 4u);
  EXPECT_FALSE(read->tokens[0].log_prob.has_value());
  EXPECT_EQ(read->tokens[1].log_prob, -1.5);
  EXPECT_FALSE(read->tokens[1].is_greedy);
  EXPECT_TRUE(read->tokens[2].is_greedy);
}

TEST(ParseCompletion, RefusesReplies) {
  const char* usage = R"("usage": {"prompt_tokens": 3, "completion_tokens": 2})";
  const auto reply = [&](const std::string& choices, const std::string& tail) {
    return R"({"model": "m", "choices": [)" + choices + "], " + tail + "}";
  };
  const std::string good = R"({"text": "x", "finish_reason": "length"})";
  const struct {
    std::string body;
    ErrorReason reason;
    std::vector<std::string> expected;  // contained in the message
    bool logprobs = false;
  } cases[] = {
      {"<html>", ErrorReason::kEndpointBadReply, {}},
      {"[]", ErrorReason::kEndpointBadReply, {"\"model\""}},
      {R"({"model": "n"})", ErrorReason::kEndpointOtherModel, {"\"n\"", "\"m\""}},
      {reply("", usage), ErrorReason::kEndpointBadReply, {"0"}},
      {reply(good + "," + good, usage), ErrorReason::kEndpointBadReply, {"2"}},
      {reply(R"({"finish_reason": "length"})", usage), ErrorReason::kEndpointBadReply, {}},
      {reply(R"({"text": "x", "finish_reason": "abort"})", usage), ErrorReason::kEndpointBadReply, {"abort"}},
      {reply(good, R"("usage": null)"), ErrorReason::kEndpointBadReply, {}},
      {reply(good, R"("usage": {"prompt_tokens": -1, "completion_tokens": 2})"), ErrorReason::kEndpointBadReply, {}},
      {reply(good, R"("usage": {"prompt_tokens": 4, "completion_tokens": 2})"),
       ErrorReason::kEndpointWrongCount,
       {"4", "3"}},
      {reply(good, R"("usage": {"prompt_tokens": 3, "completion_tokens": 3})"),
       ErrorReason::kEndpointWrongCount,
       {"2"}},
      {reply(good, R"("usage": {"prompt_tokens": 3, "completion_tokens": 1})"),
       ErrorReason::kEndpointWrongCount,
       {"1", "2"}},
      {reply(good, usage), ErrorReason::kEndpointWithoutLogprobs, {}, true},
      {reply(R"({"text": "x", "finish_reason": "length", "logprobs": {"token_logprobs": [-1]}})", usage),
       ErrorReason::kEndpointWithoutLogprobs,
       {"1", "2"},
       true},
      {reply(R"({"text": "x", "finish_reason": "length", "logprobs": {"token_logprobs": [-1, 0.5]}})", usage),
       ErrorReason::kEndpointBadReply,
       {"0"},
       true},
  };
  for (const auto& c : cases) {
    CompletionRequest request = Request();
    request.logprobs = c.logprobs;
    const auto read = ParseCompletion(request, c.body);
    ASSERT_FALSE(read.ok()) << c.body;
    EXPECT_TRUE(HasReason(read.status(), c.reason)) << read.status();
    EXPECT_THAT(read.status().message(), MessageMatcher(c.expected)) << c.body;
  }
}

TEST(ErrorText, FindsTheSentenceInTheFormsOfServers) {
  EXPECT_EQ(ErrorText(R"({"error": {"message": "too long", "type": "x"}})"), "too long");
  EXPECT_EQ(ErrorText(R"({"error": "no"})"), "no");
  EXPECT_EQ(ErrorText(R"({"message": "vllm"})"), "vllm");
  EXPECT_EQ(ErrorText(R"({"detail": [{"loc": ["prompt"]}]})"), R"([{"loc":["prompt"]}])");
  EXPECT_EQ(ErrorText("a\nb\x01"), "a b");
  EXPECT_EQ(ErrorText(std::string(1000, 'x')).size(), 300u);
  EXPECT_EQ(ErrorText(""), "");
}

TEST(ParseModels, ReadsNamesOwnersAndLengths) {
  const auto models = ParseModels(R"({"data": [{"id": "a", "owned_by": "vllm", "max_model_len": 4096}, {"id": "b"},
                                          {"id": "c", "meta": {"n_ctx": 512}}]})");
  ASSERT_TRUE(models.ok());
  ASSERT_EQ(models->size(), 3u);
  EXPECT_EQ((*models)[2].context_length, 512);
  EXPECT_EQ((*models)[0].owner, "vllm");
  EXPECT_EQ((*models)[0].context_length, 4096);
  EXPECT_EQ((*models)[1].context_length, 0);
  EXPECT_FALSE(ParseModels("<html>").ok());
  EXPECT_FALSE(ParseModels(R"({"models": []})").ok());
}

}  // namespace
}  // namespace varifocal
