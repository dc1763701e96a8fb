// Jobs of models that think, over a JobManager: an engine that answers every recall_kv question right, with a block first,
// scores as one without; every kind of block is counted; on and off are variants; budgets and markers are refused by name.
// Method: the engine reads the value out of the prompt and feeds its text token by token to what the engine does with blocks.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/reason.h"
#include "db/reader.h"
#include "eval_tasks/job_spec.h"
#include "server/engine/thinking.h"
#include "tests/fakes/job_manager_fixture.h"
#include "tests/support/messages.h"
#include "tests/support/recall_value.h"

namespace varifocal {
namespace {

// Writes `text` with the value in the place of "%", and ends at its end or where the request ends it.
class WritingEngine : public Engine {
 public:
  WritingEngine(std::shared_ptr<const Tokenizer> tokenizer, std::function<std::string(const std::string&)> write)
      : tokenizer_(std::move(tokenizer)), write_(std::move(write)) {}

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override {
    const auto& work = std::get<GenerateWork>(request.work);
    const std::string prompt = *tokenizer_->Decode(request.token_ids, {.keep_special_tokens = true});
    std::string text = write_(prompt);
    if (absl::StrContains(text, "%")) text = absl::StrReplaceAll(text, {{"%", RecallValue(prompt)}});
    EngineResult result;
    result.prompt_token_count = std::ssize(request.token_ids);
    ThinkingProgress progress;
    if (work.thinking.has_value()) progress = BeginThinking(*tokenizer_, *work.thinking);
    const std::vector<int32_t> ids = *tokenizer_->Encode(text, {.add_special_tokens = false});
    for (const int32_t id : ids) {
      if (result.finish_reason != EngineFinishReason::kNone) break;
      result.new_token_ids.push_back(id);
      if (work.thinking.has_value()) {
        EXPECT_TRUE(FollowThinking(*tokenizer_, work, progress, result).ok());
      } else {
        result.text = *tokenizer_->Decode(result.new_token_ids);
        for (const std::string& stop : work.stop) {
          if (result.text.find(stop) == std::string::npos) continue;
          result.text.resize(result.text.find(stop));
          result.finish_reason = EngineFinishReason::kStop;
        }
        if (std::ssize(result.new_token_ids) == work.max_new_tokens) result.finish_reason = EngineFinishReason::kLength;
      }
    }
    if (work.thinking.has_value()) CompleteThinking(*tokenizer_, {}, work, progress, result);
    if (result.finish_reason == EngineFinishReason::kNone) result.finish_reason = EngineFinishReason::kEos;
    result.new_token_count = std::ssize(result.new_token_ids);
    callbacks.on_done(std::move(result));
    return next_handle_++;
  }
  void Cancel(Handle) override {}
  const LoadedModel& model() const override { std::abort(); }
  EngineDescription Describe() const override {
    EngineDescription description;
    description.cache_tokens_max = description.context_tokens_max = 1 << 20;
    return description;
  }
  EngineStatus Status() const override { return {}; }
  absl::StatusOr<EngineEstimate> Estimate(int64_t, int64_t, int64_t) override { return EngineEstimate(); }
  void DropPrefixCache() override {}
  absl::Status Fault() const override { return absl::OkStatus(); }

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::function<std::string(const std::string&)> write_;
  std::atomic<Handle> next_handle_ = 0;
};

class ThinkingJobTest : public JobManagerTest {
 protected:
  static ChatFormat Format(const std::string& suffix) {
    ChatFormat format;
    format.template_sha256 = std::string(64, 'a');
    format.without_system = {.prefix = "<|begin|>user\n", .suffix = suffix};
    return format;
  }
  // With a chat format whose default is `suffix`, and a switch that closes the block.
  void Load(const std::string& name, const std::string& suffix, std::function<std::string(const std::string&)> write,
            const ThinkingMarkers& markers = {"<think>", "</think>"}) {
    const ModelFactory fake = MakeFakeModelFactory(control_);
    const auto loaded = host_.LoadWith(
        name, name,
        [&](const std::string& model_name, const std::string&) -> absl::StatusOr<std::unique_ptr<HostedModel>> {
          auto model = fake(model_name, "fake");
          if (!model.ok()) return model;
          ChatFormat format = Format(suffix);
          format.thinking = markers;
          format.thinking_switch = ChatFormat::Switch{"enable_thinking",
                                                      {format.without_system, {}},
                                                      {Format(suffix + "<think>\n\n</think>\n\n").without_system, {}}};
          (*model)->chat_format = std::make_shared<const ChatFormat>(std::move(format));
          (*model)->engine = std::make_unique<WritingEngine>((*model)->tokenizer, write);
          return model;
        });
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }
  void Load(const std::string& name, const std::string& suffix, const std::string& text) {
    Load(name, suffix, [text](const std::string&) { return text; });
  }
  static JobSpec Spec(std::vector<Variant> variants) {
    JobSpec spec = SmallSpec();
    spec.suite.lengths = {256};
    spec.suite.tasks = {{.kind = "recall_kv", .chat = true}};
    spec.suite.answer = {.thinking_max_tokens = 200};
    spec.variants = std::move(variants);
    return spec;
  }
  // The mean of the primary metric, and the counts, of one variant.
  double Mean(int64_t job_id, const std::string& variant) {
    const auto reader = *db::Reader::Open(options_.database_path);
    double sum = 0;
    int64_t count = 0;
    EXPECT_TRUE(reader
                    ->EachAnswer(job_id, variant,
                                 [&](const db::AnswerRow& row) {
                                   sum += row.value.value_or(0);
                                   ++count;
                                   return absl::OkStatus();
                                 })
                    .ok());
    return count == 0 ? -1 : sum / static_cast<double>(count);
  }
  db::AnswerCounts Counts(int64_t job_id, const std::string& variant) {
    const auto reader = *db::Reader::Open(options_.database_path);
    const std::vector<db::AnswerCounts> cells = *reader->CountAnswers(job_id);
    for (const db::AnswerCounts& counts : cells) {
      if (counts.variant == variant) return counts;
    }
    return {};
  }
};

constexpr char kMark[] = "<|end|>\nmodel\n";

// The finding: an engine that answers every question right scored 0 as soon as it thought first.
TEST_F(ThinkingJobTest, AThinkingModelScoresAsItAnswers) {
  const std::string block = "<think>\nThe \"key\" is there.\nIs it \"x\"? No.\n</think>\n\n%\"";
  Load("plain", kMark, "%\"");
  Load("think", kMark, block);
  JobSpec without = Spec({{"plain"}, {"think"}});
  without.suite.answer = {};
  const int64_t before = Submit(without);
  WaitForState(before, db::JobState::kSucceeded);
  EXPECT_EQ(Mean(before, "plain"), 1);
  EXPECT_EQ(Mean(before, "think"), 0);
  EXPECT_EQ(Counts(before, "think").scored_thinking_count, 8) << "and it is counted";
  EXPECT_EQ(Counts(before, "plain").scored_thinking_count, 0);

  const int64_t job_id = Submit(Spec({{"plain"}, {"think"}}));
  WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(Mean(job_id, "plain"), 1);
  EXPECT_EQ(Mean(job_id, "think"), 1);
  EXPECT_EQ(Counts(job_id, "think").scored_thinking_count, 0);
  const auto reader = *db::Reader::Open(options_.database_path);
  const auto costs = *reader->ThinkingCosts(job_id);
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_EQ(costs[0].thinking_tokens, 0);
  EXPECT_GT(costs[1].thinking_tokens, 10);
  EXPECT_EQ(costs[1].right_count, 8);
  EXPECT_EQ(*costs[1].tokens_per_right, costs[1].thinking_tokens + costs[1].answer_tokens);
}

TEST_F(ThinkingJobTest, TheTemplateMayHaveOpenedTheBlock) {
  Load("opened", absl::StrCat(kMark, "<think>\n"), "It is \"x\"?\nNo.\n</think>\n\n%\"");
  const int64_t job_id = Submit(Spec({{"opened"}}));
  WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(Mean(job_id, "opened"), 1);
}

TEST_F(ThinkingJobTest, EveryKindOfBlockIsCounted) {
  struct Case {
    const char* name;
    const char* text;
    double mean;
    int64_t db::AnswerCounts::*count;
  };
  const Case cases[] = {
      {"unfinished", "<think>\n% is it, or is it", 0, &db::AnswerCounts::unfinished_count},
      {"empty", "<think>\n\n</think>\n\n%\"", 1, &db::AnswerCounts::empty_block_count},
      {"nested", "<think>a<think>b</think>c</think>%\"", 1, &db::AnswerCounts::nested_count},
      {"repeated", "<think>a</think>\n<think>b</think>\n%\"", 1, &db::AnswerCounts::repeated_count},
  };
  std::vector<Variant> variants;
  for (const Case& c : cases) {
    Load(c.name, kMark, c.text);
    variants.push_back({c.name});
  }
  const int64_t job_id = Submit(Spec(variants));
  WaitForState(job_id, db::JobState::kSucceeded);
  for (const Case& c : cases) {
    const db::AnswerCounts counts = Counts(job_id, c.name);
    EXPECT_EQ(counts.answered_count, 8) << c.name;
    EXPECT_EQ(Mean(job_id, c.name), c.mean) << c.name;
    for (const Case& other : cases)
      EXPECT_EQ(counts.*other.count, other.name == c.name ? 8 : 0) << c.name << other.name;
    EXPECT_EQ(counts.empty_count + counts.cut_count + counts.scored_thinking_count, 0) << c.name;
  }
}

// The model thinks without end: at its budget the answers are unfinished, or their end is forced.
TEST_F(ThinkingJobTest, AForcedEndIsSaid) {
  std::string endless = "<think>\n";
  for (int i = 0; i < 100; ++i) endless += "Is it there? ";
  Load("endless", kMark, [&](const std::string&) { return endless; });
  JobSpec spec = Spec({{"endless"}});
  const int64_t cut = Submit(spec);
  WaitForState(cut, db::JobState::kSucceeded);
  EXPECT_EQ(Counts(cut, "endless").unfinished_count, 8);
  spec.suite.thinking.force = true;
  const int64_t forced = Submit(spec);
  WaitForState(forced, db::JobState::kSucceeded);
  EXPECT_EQ(Mean(cut, "endless"), 0);
  EXPECT_EQ(Counts(forced, "endless").unfinished_count, 0);
  EXPECT_EQ(Counts(forced, "endless").forced_count, 8);
}

// One model, two prompts: the switch closes the block in the prompt, and the engine then answers at once. Both are paired.
TEST_F(ThinkingJobTest, OnAndOffAreVariants) {
  Load("m", kMark, [](const std::string& prompt) {
    return absl::StrContains(prompt, "</think>") ? "nothing\"" : "<think>a</think>%\"";
  });
  JobSpec spec = Spec({{"m"}, {"m", {{"thinking", {1}}}}, {"m", {{"thinking", {0}}}}});
  const int64_t job_id = Submit(spec);
  const JobView view = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.failed_count, 0);
  EXPECT_EQ(Mean(job_id, "m"), 1);
  EXPECT_EQ(Mean(job_id, "m@thinking=on"), 1);
  EXPECT_EQ(Mean(job_id, "m@thinking=off"), 0);
  const auto reader = *db::Reader::Open(options_.database_path);
  const auto variants = *reader->Variants(job_id);
  EXPECT_EQ(variants[0].model.tokenizer_sha256, variants[1].model.tokenizer_sha256) << "on is this template's default";
  EXPECT_NE(variants[0].model.tokenizer_sha256, variants[2].model.tokenizer_sha256);
  int64_t pairs = 0;
  EXPECT_TRUE(reader
                  ->EachPair(job_id, "m@thinking=on", "m@thinking=off",
                             [&](const db::PairRow&) {
                               ++pairs;
                               return absl::OkStatus();
                             })
                  .ok());
  EXPECT_EQ(pairs, 16) << "8 questions, 2 metrics";
  const auto stored = FromCanonicalJson(view.row.spec_json);
  EXPECT_EQ(stored->thinking_markers.at("m@thinking=off"), R"(["<think>","</think>"])");
  // The switch would change no prompt.
  spec.suite.tasks = {{.kind = "recall_kv"}};
  EXPECT_THAT(manager_->Submit(spec, {}).status(), RefusedFor("BAD_THINKING", Message("m@thinking=on", "--form=chat")));
  spec = Spec({});
  // A template without a switch.
  spec.variants = {{"a", {{"thinking", {0}}}}};
  EXPECT_THAT(manager_->Submit(spec, {}).status(),
              RefusedFor("BAD_ATTENTION_OVERRIDE", Message("a@thinking=off", "chat_format.json")));
}

// A model that reasons before the last line, also with a block first, is scored by the last line; one that never writes it has
// all its answers counted as such, and none right, although they name the value.
TEST_F(ThinkingJobTest, AChatFormIsScoredByTheLastLine) {
  Load("reasons", kMark, "The key \"x\" is there.\nIts value: %.\n\n**Answer:** %");
  Load("thinks", kMark, "<think>\nAnswer: wrong\n</think>\n\nAnswer: %");
  Load("talks", kMark, "The value is %.\nI hope that this helps.");
  JobSpec spec = Spec({{"reasons"}, {"thinks"}, {"talks"}});
  spec.suite.lengths = {512};
  spec.suite.tasks = {{.kind = "recall_kv"}};
  spec.suite.form = "chat";
  const int64_t job_id = Submit(spec);
  WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(Mean(job_id, "reasons"), 1);
  EXPECT_EQ(Mean(job_id, "thinks"), 1);
  EXPECT_EQ(Mean(job_id, "talks"), 0);
  EXPECT_EQ(Counts(job_id, "talks").unextracted_count, 8);
  EXPECT_EQ(Counts(job_id, "talks").empty_count, 0);
  EXPECT_EQ(Counts(job_id, "reasons").unextracted_count, 0);
  const auto reader = *db::Reader::Open(options_.database_path);
  EXPECT_THAT(reader->Job(job_id)->spec_json, testing::HasSubstr("\"filters\":[{\"filter\":\"regex\",\"group\":1"));
  // A model without a chat format cannot be asked so.
  spec.variants = {{"a"}};
  EXPECT_THAT(manager_->Submit(spec, {}).status(),
              RefusedFor("MODEL_WITHOUT_CHAT_FORMAT", Message("\"a\"", "chat_format.json")));
}

// Rows with messages need texts for every role of theirs in the format of every model.
TEST_F(ThinkingJobTest, ConversationsNeedAFormatThatHasTurns) {
  Load("m", kMark, "now");
  const std::string path = directory_.File("rows.jsonl");
  const std::string user = R"({"role":"user","content":"Who?"})";
  WriteFile(path, absl::StrCat(R"({"a":"now","m":[)", user, "]}"));
  JobSpec spec = Spec({{"m"}});
  spec.suite.answer = {};
  spec.suite.tasks = {
      {.name = "talk", .kind = "jsonl", .parameters = {{"path", path}, {"messages", "m"}, {"gold", "a"}}}};
  const int64_t job_id = Submit(spec);
  WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(Mean(job_id, "m"), 1) << "one message of the user is what every format has";
  const auto refusal = [&](const std::string& more) {
    WriteFile(path, absl::StrCat(R"({"a":"now","m":[)", more, user, "]}"));
    return manager_->Submit(spec, {}).status();
  };
  const absl::Status turns = refusal(absl::StrCat(user, R"(,{"role":"assistant","content":"She."},)"));
  EXPECT_THAT(turns, RefusedFor("BAD_CHAT", Message("\"m\"", "\"turns\"")));
  const absl::Status system = refusal(R"({"role":"system","content":"Be brief."},)");
  EXPECT_THAT(system, RefusedFor("BAD_CHAT", Message("\"m\"", "system")));
}

// Two models with one tokenizer share their samples, and with them the markers.
TEST_F(ThinkingJobTest, OneTokenizerHasOnePairOfMarkers) {
  const auto write = [](const std::string&) -> std::string { return "[THINK]a[/THINK]%\""; };
  Load("m", kMark, write);
  Load("other", kMark, write, {"[THINK]", "[/THINK]"});
  JobSpec spec = Spec({{"m"}, {"other"}});
  EXPECT_THAT(manager_->Submit(spec, {}).status(),
              RefusedFor("CHAT_FORMATS_DIFFER", Message("\"other\"", "thinking: {begin, end}")));
  spec.suite.thinking = {.begin = "[THINK]", .end = "[/THINK]"};
  const int64_t job_id = Submit(spec);
  WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(Mean(job_id, "m"), 1);
  EXPECT_EQ(Mean(job_id, "other"), 1);
}

TEST_F(ThinkingJobTest, BudgetsAndMarkersAreRefusedWithTheirNumbers) {
  Load("m", kMark, "%\"");
  JobSpec spec = Spec({{"m"}});
  spec.suite.answer = {.max_new_tokens = 40, .thinking_max_tokens = 3801};
  EXPECT_THAT(manager_->Submit(spec, {}).status(),
              RefusedFor("CONTEXT_TOO_LONG", Message("recall_kv", 256, 3841, 3801, 4097, "\"m\"", 4096)));
  spec.suite.answer.thinking_max_tokens = 3800;
  EXPECT_TRUE(manager_->Submit(spec, {}).ok()) << "exactly the window";
  // No markers are known.
  spec.variants = {{"a"}};
  spec.suite.tasks[0].chat = false;
  spec.suite.answer.thinking_max_tokens = 100;
  EXPECT_THAT(manager_->Submit(spec, {}).status(),
              RefusedFor("BAD_THINKING", Message("\"a\"", "thinking: {begin, end}")));
  // A tokenizer that writes lower case cannot write these.
  const ModelFactory fake = MakeFakeModelFactory(control_);
  ASSERT_TRUE(host_
                  .LoadWith("lower", "lower",
                            [&](const std::string& name, const std::string&) {
                              auto model = fake(name, "fake");
                              (*model)->tokenizer = *Tokenizer::Load("tests/testdata/goldens/tokenizers/bert");
                              return model;
                            })
                  .ok());
  spec.variants = {{"lower"}};
  spec.suite.thinking = {.begin = "[THINK]", .end = "[/THINK]"};
  EXPECT_THAT(manager_->Submit(spec, {}).status(),
              RefusedFor("BAD_THINKING", Message("[THINK]", "\"lower\"", "[ think ]")));
}

}  // namespace
}  // namespace varifocal
