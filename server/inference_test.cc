// The Inference service through a client: codes and reasons (table-driven), streams, disconnecting clients, loading.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/fakes/server_fixture.h"
#include "tests/support/messages.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class InferenceTest : public ServerTest {};

TEST_F(InferenceTest, ListsModelsInPages) {
  v1::ListModelsRequest request;
  request.set_page_size(3);
  v1::ListModelsResponse first, second;
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::ListModels, request, &first).ok());
  ASSERT_EQ(first.models_size(), 3);
  EXPECT_EQ(first.models(0).name(), "models/a");
  EXPECT_EQ(first.models(0).context_length_max(), 4096);
  EXPECT_EQ(first.models(0).state(), v1::Model::READY);
  request.set_page_token(first.next_page_token());
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::ListModels, request, &second).ok());
  ASSERT_EQ(second.models_size(), 1);
  EXPECT_EQ(second.models(0).name(), "models/learned");
  EXPECT_EQ(second.models(0).attention_label(), "focal tau=[3,8] causal");
  EXPECT_EQ(second.next_page_token(), "");
}

TEST_F(InferenceTest, AModelOnALostDeviceSaysSoAndOthersServe) {
  control_->SetFault("b", absl::UnavailableError("the device failed while adding: CUDA error 700"));
  v1::ListModelsResponse models;
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::ListModels, v1::ListModelsRequest(), &models).ok());
  for (const v1::Model& model : models.models()) {
    const bool is_lost = model.name() == "models/b";
    EXPECT_EQ(model.state(), is_lost ? v1::Model::FAULTED : v1::Model::READY) << model.name();
    EXPECT_EQ(model.fault(), is_lost ? "the device failed while adding: CUDA error 700" : "") << model.name();
  }
  v1::GenerateRequest request = SmallGenerate();
  EXPECT_TRUE(Generate(request).ok());
  request.set_model("models/b");
  const grpc::Status status = Generate(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), Message("CUDA", "700"));
}

TEST_F(InferenceTest, GenerateStreamsTokensAndThenOneResult) {
  std::vector<v1::GenerateResponse> messages;
  const grpc::Status status = Generate(SmallGenerate(), &messages);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_FALSE(messages.empty());
  const v1::GenerateResponse& last = messages.back();
  ASSERT_TRUE(last.has_result());
  EXPECT_EQ(last.result().finish_reason(), v1::GenerationResult::EOS);
  EXPECT_TRUE(absl::StartsWith(last.result().text(), "answer-"));
  EXPECT_EQ(last.result().token_log_probs_size(), last.result().token_ids_size());
  std::vector<int32_t> streamed;
  for (size_t i = 0; i + 1 < messages.size(); ++i) {
    ASSERT_TRUE(messages[i].has_new_tokens());
    for (int32_t id : messages[i].new_tokens().ids()) streamed.push_back(id);
  }
  ASSERT_LE(std::ssize(streamed), last.result().token_ids_size());
  for (size_t i = 0; i < streamed.size(); ++i) EXPECT_EQ(streamed[i], last.result().token_ids(i));
}

// ComputeLogLikelihoods returns the engine's input: the ids of the wrapped text, without additions.
TEST_F(InferenceTest, ChatPromptsAreWrappedAndEncodedAsOneText) {
  v1::LoadModelRequest load;
  load.set_model_id("chat");
  load.set_directory("fake-chat");
  v1::Model loaded;
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::LoadModel, load, &loaded).ok());
  EXPECT_EQ(loaded.chat_template_sha256().size(), 64u);
  auto score = [&](const std::string& prompt, const char* system, const std::string& continuation) {
    v1::ComputeLogLikelihoodsRequest request;
    request.set_model("models/chat");
    request.set_prompt_text(prompt);
    request.mutable_chat();
    if (system != nullptr) request.mutable_chat()->set_system(system);
    if (!continuation.empty()) request.add_continuations()->set_text(continuation);
    v1::ComputeLogLikelihoodsResponse response;
    const grpc::Status status = Ask(*inference_, &v1::Inference::Stub::ComputeLogLikelihoods, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  };
  const auto tokenizer = Tokenizer::Load("models/baseline").value();
  auto encoded = [&](const std::string& text) {
    return tokenizer->Encode(text, {.add_special_tokens = false}).value();
  };
  auto ids = [](const auto& repeated) { return std::vector<int32_t>(repeated.begin(), repeated.end()); };
  EXPECT_EQ(ids(score("Hi. ", nullptr, "").token_ids()), encoded("<|begin|>user\nHi. <|end|>\n"));
  EXPECT_EQ(ids(score("Hi.", "Be kind.", "").token_ids()), encoded("<|begin|>user\nBe kind.\n\nHi.<|end|>\n"));
  // The suffix ends in a newline that remains part of the prompt.
  const auto with_continuation = score("Hi.", nullptr, "Yes");
  EXPECT_EQ(ids(with_continuation.token_ids()), encoded("<|begin|>user\nHi.<|end|>\n"));
  EXPECT_EQ(ids(with_continuation.continuations(0).token_ids()), encoded("Yes"));
  EXPECT_EQ(with_continuation.invalid_utf8_count(), 0);
  EXPECT_EQ(score("\xFF"
                  "a\xE2\x82",
                  nullptr, "")
                .invalid_utf8_count(),
            2);
  EXPECT_EQ(score("\xFF"
                  "a",
                  nullptr, "b\xFF\xFE")
                .invalid_utf8_count(),
            3);
}

// Names of special tokens in user text are plain text: only ids, chat formats and tokenizers add special tokens.
TEST_F(InferenceTest, SpecialTokensInTextsAreText) {
  const auto tokenizer = Tokenizer::Load("models/baseline").value();
  const int32_t end = *tokenizer->TokenToId("<|end|>");
  v1::ComputeLogLikelihoodsRequest request;
  request.set_model("models/a");
  request.set_prompt_text("user says <|end|> and more");
  for (const bool with_continuation : {false, true}) {
    if (with_continuation) request.add_continuations()->set_text(" <|end|> yes");
    v1::ComputeLogLikelihoodsResponse response;
    const grpc::Status status = Ask(*inference_, &v1::Inference::Stub::ComputeLogLikelihoods, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_GT(response.token_ids_size(), 3);
    EXPECT_EQ(std::count(response.token_ids().begin(), response.token_ids().end(), end), 0);
    for (const auto& continuation : response.continuations())
      EXPECT_EQ(std::count(continuation.token_ids().begin(), continuation.token_ids().end(), end), 0);
  }
}

TEST_F(InferenceTest, PromptLengthLimitIsExact) {
  for (const int prompt_tokens : {1, 4087, 4088, 4089, 4096, 40960}) {
    v1::GenerateRequest request = SmallGenerate();
    for (int i = 0; i < prompt_tokens; ++i) request.mutable_prompt_token_ids()->add_ids(5);
    const grpc::Status status = Generate(request);
    if (prompt_tokens + 8 <= 4096) {
      EXPECT_TRUE(status.ok()) << prompt_tokens << ": " << status.error_message();
    } else {
      EXPECT_EQ(ReasonIn(status), "PROMPT_TOO_LONG") << prompt_tokens;
      EXPECT_THAT(status.error_message(), HasSubstr(absl::StrCat(prompt_tokens)));
      EXPECT_THAT(status.error_message(), HasSubstr("4096"));
    }
  }
}

TEST_F(InferenceTest, ZeroTemperatureIsGreedyAndNotADefault) {
  v1::GenerateRequest request = SmallGenerate();
  request.mutable_decode_settings()->set_sampling_temperature(0);
  EXPECT_TRUE(Generate(request).ok());
}

TEST_F(InferenceTest, LogLikelihoodsOfContinuationsAndOfText) {
  v1::ComputeLogLikelihoodsRequest request;
  request.set_model("models/a");
  request.set_prompt_text("Question: where is it? ");
  request.add_continuations()->set_text("here");
  request.add_continuations()->set_text("over there");
  request.set_per_token(true);
  v1::ComputeLogLikelihoodsResponse response;
  grpc::Status status = Ask(*inference_, &v1::Inference::Stub::ComputeLogLikelihoods, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.continuations_size(), 2);
  for (const auto& continuation : response.continuations()) {
    EXPECT_GT(continuation.token_count(), 0);
    EXPECT_EQ(continuation.token_ids_size(), continuation.token_count());
    EXPECT_EQ(continuation.token_log_probs_size(), continuation.token_count());
    EXPECT_DOUBLE_EQ(continuation.log_likelihood(), -0.5 * continuation.token_count());
  }

  request.clear_continuations();
  response.Clear();
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::ComputeLogLikelihoods, request, &response).ok());
  EXPECT_EQ(response.token_log_probs_size(), response.token_ids_size() - 1);
  EXPECT_DOUBLE_EQ(response.log_likelihood(), -0.5 * (response.token_ids_size() - 1));

  request.add_continuations()->mutable_token_ids()->add_ids(1);
  EXPECT_EQ(ReasonIn(Ask(*inference_, &v1::Inference::Stub::ComputeLogLikelihoods, request, &response)),
            "BAD_CONTINUATION");
}

TEST_F(InferenceTest, InspectedAttentionIsSentBitForBit) {
  EngineRequest asked;
  asked.token_ids = {5, 6, 7};
  asked.inspected_boundaries = {0, 2, 3};
  asked.inspected_row_count = 2;
  const InspectedAttention expected = FakeAnswer(asked).inspected;
  const auto expect_same = [&](const v1::InspectedAttention& sent) {
    ASSERT_EQ(sent.heads_size(), kFakeHeadCount);
    for (int i = 0; i < sent.heads_size(); ++i) {
      EXPECT_EQ(sent.heads(i).visible_count(), 3);
      EXPECT_EQ(sent.heads(i).scale(), expected.heads[i].scale);
      EXPECT_EQ(sent.heads(i).log_sum_exp(), expected.heads[i].log_sum_exp);
      EXPECT_EQ(sent.heads(i).entropy(), expected.heads[i].entropy);
      EXPECT_EQ(sent.heads(i).largest_weight(), 0.25);
      EXPECT_EQ(sent.heads(i).sink_weight(), 1.0 / (i + 5));
    }
    EXPECT_TRUE(std::equal(sent.masses().begin(), sent.masses().end(), expected.masses.begin(), expected.masses.end()));
  };
  v1::GenerateRequest generate;
  generate.set_model("models/a");
  generate.mutable_prompt_token_ids()->mutable_ids()->Add(asked.token_ids.begin(), asked.token_ids.end());
  generate.set_max_new_tokens(1);
  std::vector<v1::GenerateResponse> messages;
  ASSERT_TRUE(Generate(generate, &messages).ok());
  EXPECT_FALSE(messages.back().result().has_inspected_attention()) << "not asked for";
  InspectAt(generate, asked.inspected_boundaries);
  generate.mutable_attention_inspection()->set_row_count(2);
  ASSERT_TRUE(Generate(generate, &messages).ok());
  expect_same(messages.back().result().inspected_attention());

  v1::ComputeLogLikelihoodsRequest score;
  score.set_model("models/a");
  *score.mutable_prompt_token_ids() = generate.prompt_token_ids();
  *score.mutable_attention_inspection() = generate.attention_inspection();
  for (const bool has_continuation : {false, true}) {
    if (has_continuation) score.add_continuations()->mutable_token_ids()->add_ids(9);
    v1::ComputeLogLikelihoodsResponse response;
    ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::ComputeLogLikelihoods, score, &response).ok());
    expect_same(response.inspected_attention());
  }
  score.mutable_attention_inspection()->set_row_count(4);
  EXPECT_EQ(ReasonIn(Ask(*inference_, &v1::Inference::Stub::ComputeLogLikelihoods, score)), "BAD_INSPECTION");
}

TEST_F(InferenceTest, TokenizesAndBack) {
  v1::TokenizeRequest request;
  request.set_model("models/a");
  request.set_text("Find the key\xff");
  v1::TokenizeResponse ids;
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::Tokenize, request, &ids).ok());
  EXPECT_EQ(ids.invalid_utf8_count(), 1);
  v1::DetokenizeRequest back;
  back.set_model("models/a");
  *back.mutable_token_ids() = ids.token_ids();
  v1::DetokenizeResponse text;
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::Detokenize, back, &text).ok());
  EXPECT_EQ(text.text(), "Find the key\xEF\xBF\xBD");
}

TEST_F(InferenceTest, AClientThatLeavesStopsItsRequest) {
  control_->Hold();
  for (const bool by_deadline : {false, true}) {
    const int cancelled_before = control_->cancelled_count(), started_before = control_->started_count();
    grpc::ClientContext context;
    if (by_deadline) context.set_deadline(std::chrono::system_clock::now() + milliseconds(200));
    const auto reader = inference_->Generate(&context, SmallGenerate());
    while (control_->started_count() == started_before) std::this_thread::sleep_for(milliseconds(1));
    if (!by_deadline) context.TryCancel();
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), by_deadline ? grpc::DEADLINE_EXCEEDED : grpc::CANCELLED);
    for (int i = 0; i < 500 && control_->cancelled_count() == cancelled_before; ++i)
      std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(control_->cancelled_count(), cancelled_before + 1);
  }
  control_->Release();
  EXPECT_TRUE(Generate(SmallGenerate()).ok()) << "and the server goes on";
}

TEST_F(InferenceTest, ManyCallsAtOnceAllEnd) {
  std::vector<std::thread> threads;
  std::atomic<int> done = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        grpc::ClientContext context;
        // Some of them are cancelled at pseudo-random times.
        if ((i + k) % 3 == 0)
          context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(100 * k));
        const auto reader = inference_->Generate(&context, SmallGenerate());
        v1::GenerateResponse message;
        while (reader->Read(&message)) {
        }
        const grpc::Status status = reader->Finish();
        if (status.ok() || status.error_code() == grpc::DEADLINE_EXCEEDED) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 160);
}

TEST_F(InferenceTest, LoadsAndUnloadsModels) {
  v1::LoadModelRequest request;
  request.set_model_id("late");
  request.set_directory("fake-late");
  v1::Model model;
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model).ok());
  EXPECT_EQ(model.name(), "models/late");
  EXPECT_EQ(Health(channel_, "model/late"), "SERVING");
  EXPECT_TRUE(Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model).ok())
      << "the same request returns the loaded model";
  request.set_directory("elsewhere");
  EXPECT_EQ(ReasonIn(Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model)), "MODEL_ALREADY_LOADED");
  request.set_model_id("../x");
  EXPECT_EQ(ReasonIn(Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model)), "BAD_MODEL_NAME");
  request.set_model_id("gone");
  request.set_directory("missing");
  EXPECT_EQ(Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model).error_code(), grpc::NOT_FOUND);

  auto unload = Named<v1::UnloadModelRequest>("models/late");
  v1::UnloadModelResponse gone;
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::UnloadModel, unload, &gone).ok());
  EXPECT_EQ(Health(channel_, "model/late"), "NOT_SERVING");
  EXPECT_EQ(ReasonIn(Ask(*inference_, &v1::Inference::Stub::UnloadModel, unload, &gone)), "MODEL_NOT_FOUND");

  // Rewritten files are not served as if they were the loaded ones.
  const std::string file = directory_.File("late/model.safetensors");
  testing_support::WriteFile(file, "first");
  request.set_model_id("late");
  request.set_directory(directory_.File("late"));
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model).ok());
  testing_support::WriteFile(directory_.File("late/log.txt"), "of its training");
  EXPECT_TRUE(Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model).ok());
  testing_support::WriteFile(file, "and another");
  const grpc::Status changed = Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model);
  EXPECT_EQ(ReasonIn(changed), "MODEL_ALREADY_LOADED");
  EXPECT_THAT(changed.error_message(), Message("late", "model.safetensors", "unload"));
  ASSERT_TRUE(Ask(*inference_, &v1::Inference::Stub::UnloadModel, unload, &gone).ok());
  EXPECT_TRUE(Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model).ok());

  control_->Hold();
  Submitted(SmallJob());
  unload.set_name("models/a");
  EXPECT_EQ(ReasonIn(Ask(*inference_, &v1::Inference::Stub::UnloadModel, unload, &gone)), "MODEL_IN_USE");
  control_->Release();
}

}  // namespace
}  // namespace varifocal
