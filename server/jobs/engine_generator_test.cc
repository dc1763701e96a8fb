// EngineGenerator: its token ids for the short benchmarks against those of lm-evaluation-harness, for a tokenizer of each
// kind (recipes/goldens/make_short_tasks.py); on a recording engine, how the answers of several requests are merged,
// cancelled or refused; and gold answers scored on the shipped baseline.
#include "server/jobs/engine_generator.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <sstream>

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "eval_tasks/gold_answer.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"
#include "gtest/gtest.h"
#include "server/hosting/continuations.h"
#include "tests/fakes/fake_engine.h"

namespace varifocal {
namespace {

namespace fs = std::filesystem;

// Records requests; completes them when the test calls it.
class RecordingEngine : public Engine {
 public:
  struct Asked {
    EngineRequest request;
    EngineCallbacks callbacks;
  };

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override {
    if (std::ssize(asked) == room) return absl::ResourceExhaustedError("the queue is full");
    asked.push_back({std::move(request), std::move(callbacks)});
    return asked.size() - 1;
  }
  void Cancel(Handle handle) override {
    if (done.count(handle) == 0) Finish(handle, absl::CancelledError("cancelled"));
  }
  void Finish(Handle handle, absl::StatusOr<EngineResult> result) {
    done.insert(handle);
    asked[handle].callbacks.on_done(std::move(result));
  }
  // A score encodes its request and continuation.
  void Answer(Handle handle) {
    EngineResult result;
    result.prompt_token_count = asked[handle].request.token_ids.size();
    result.prefill_us = 100 - handle;
    for (const auto& tokens : Scored(handle)) {
      EngineContinuationScore score;
      score.log_likelihood = -10.0 * handle - result.continuations.size();
      score.token_count = tokens.size();
      result.continuations.push_back(std::move(score));
    }
    Finish(handle, std::move(result));
  }
  const std::vector<std::vector<int32_t>>& Scored(Handle handle) const {
    return std::get<ScoreContinuationsWork>(asked[handle].request.work).continuations;
  }

  const LoadedModel& model() const override { std::abort(); }
  EngineDescription Describe() const override { return {}; }
  EngineStatus Status() const override { return {}; }
  absl::StatusOr<EngineEstimate> Estimate(int64_t, int64_t, int64_t) override { return EngineEstimate(); }
  void DropPrefixCache() override {}
  absl::Status Fault() const override { return absl::OkStatus(); }

  std::vector<Asked> asked;
  std::set<Handle> done;
  int room = -1;  // requests it takes; below 0 any number
};

struct Fixture {
  std::shared_ptr<HostedModel> model;
  RecordingEngine* engine = nullptr;
  std::unique_ptr<EngineGenerator> generator;
};

Fixture MakeFixture(const std::string& tokenizer_path) {
  Fixture fixture;
  fixture.model = std::make_shared<HostedModel>();
  fixture.model->tokenizer = Tokenizer::Load(tokenizer_path).value();
  auto engine = std::make_unique<RecordingEngine>();
  fixture.engine = engine.get();
  fixture.model->engine = std::move(engine);
  fixture.generator = std::make_unique<EngineGenerator>(fixture.model);
  return fixture;
}

Json ReadGolden(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return ParseJson(text.str()).value();
}

std::string WriteRows(const std::string& name, const Json& rows) {
  const std::string path = fs::path(testing::TempDir()) / absl::StrCat("generator_", getpid(), "_", name, ".jsonl");
  std::ofstream file(path);
  for (const Json& row : rows) file << row.dump() << "\n";
  return path;
}

std::unique_ptr<Task> MakeShort(std::map<std::string, std::string> parameters) {
  SuiteSpec suite;
  suite.name = "s";
  suite.lengths = {4096};
  TaskSpec task;
  task.name = task.kind = "short";
  task.parameters = std::move(parameters);
  suite.tasks = {task};
  return MakeTask(ValidateSuiteSpec(std::move(suite)).value().tasks[0]).value();
}

TEST(EngineGeneratorTest, RunsAndScoresTheTokensOfTheHarness) {
  const Json rows = ReadGolden("eval_tasks/testdata/short_tasks.json");
  const Json golden = ReadGolden("server/jobs/testdata/short_tokens.json");
  int compared = 0, refused = 0;
  for (const auto& [name, data] : rows.items()) {
    const std::string path = WriteRows(name, data["rows"]), pool = WriteRows(name + "_train", data["pool"]);
    for (const std::string shots : {"0", "2"}) {
      std::map<std::string, std::string> parameters = {{"task", name}, {"path", path}, {"shots", shots}};
      if (shots != "0" && name != "lambada") parameters["shots_path"] = pool;
      const std::unique_ptr<Task> task = MakeShort(parameters);
      for (const auto& [tokenizer, by_task] : golden.items()) {
        const bool is_shipped = absl::StrContains(tokenizer, "/");
        const Fixture fixture =
            MakeFixture(is_shipped ? tokenizer : absl::StrCat("tests/testdata/goldens/tokenizers/", tokenizer));
        const auto counter = MakeTokenCounter(fixture.model->tokenizer);
        for (const auto& [row, requests] : by_task[name][shots].items()) {
          const std::string where = absl::StrCat(tokenizer, ", ", name, " ", shots, " shots, row ", row);
          const auto sample =
              std::make_shared<const Sample>(task->MakeSample({1, 4096, std::stoi(row)}, *counter).value());
          fixture.engine->asked.clear();
          fixture.engine->done.clear();
          absl::StatusOr<Generation> answer = absl::UnknownError("none");
          fixture.generator->Start({sample, {}, {}, false, ""},
                                   [&](absl::StatusOr<Generation> a) { answer = std::move(a); });
          bool has_empty = false;
          for (const Json& request : requests) has_empty = has_empty || request[1].empty();
          if (has_empty) {  // nothing left to score: the harness fails there
            EXPECT_EQ(ReasonOf(answer.status()).name, "EMPTY_CONTINUATION") << where;
            ++refused;
            continue;
          }
          // By their continuation, which the answers encode.
          for (size_t handle = 0; handle < fixture.engine->asked.size(); ++handle) fixture.engine->Answer(handle);
          ASSERT_TRUE(answer.ok()) << where << ": " << answer.status();
          ASSERT_EQ(answer->continuation_scores.size(), requests.size()) << where;
          for (size_t i = 0; i < requests.size(); ++i) {
            const int marker = -answer->continuation_scores[i].log_likelihood;
            const std::vector<int32_t>& context = fixture.engine->asked[marker / 10].request.token_ids;
            EXPECT_EQ(Sha256Hex(Json(context).dump()).substr(0, 16), requests[i][0].get<std::string>()) << where;
            EXPECT_EQ(fixture.engine->Scored(marker / 10)[marker % 10], requests[i][1].get<std::vector<int32_t>>())
                << where;
            ++compared;
          }
          EXPECT_EQ(fixture.engine->asked.size(), sample->given_bytes.empty() || row == "13" ? 1u : 2u) << where;
        }
      }
    }
    fs::remove(path);
    fs::remove(pool);
  }
  EXPECT_GE(compared, 700);
  EXPECT_GT(refused, 0);
}

// The shipped baseline, a prompt of every kind: the gold answer beside the written one has the bits of the log-likelihood
// that the service computes of the same text, costs no second run of the prompt, and changes nothing of the answer.
TEST(GoldTest, HasTheBitsOfScoringTheSameText) {
  const std::shared_ptr<HostedModel> model =
      MakeModelFactory({.cache_directory = testing::TempDir()}, {})("baseline", "models/baseline").value();
  EngineGenerator generator(model);
  const auto counter = MakeTokenCounter(model->tokenizer);
  const auto run = [&](const Sample& sample) {
    std::promise<absl::StatusOr<Generation>> answer;
    generator.Start({std::make_shared<const Sample>(sample), {}, {}, false, ""},
                    [&](absl::StatusOr<Generation> done) { answer.set_value(std::move(done)); });
    return answer.get_future().get().value();
  };
  int greedy_count = 0, other_count = 0;
  // The shipped models were not trained on the last, and answer it wrongly.
  for (const char* kind : {"recall_kv", "icl_labels", "rag_facts", "longqa_story", "variable_tracking"}) {
    SuiteSpec suite;
    suite.name = "s";
    suite.lengths = {700};
    suite.tasks = {{"", kind, {}, {}, 4}};
    const auto task = MakeTask(ValidateSuiteSpec(suite)->tasks[0]).value();
    for (int index = 0; index < 4; ++index) {
      Sample sample = task->MakeSample({7, 700, index}, *counter).value();
      const Generation plain = run(sample);
      EXPECT_FALSE(plain.gold_score.has_value());
      const std::string text = GoldContinuation(sample.prompt, sample.gold, false);
      sample.gold_token_ids = GoldTokenIds(sample, std::nullopt, false, *counter).value();
      model->engine->DropPrefixCache();
      const Generation both = run(sample);
      EXPECT_EQ(both.cached_token_count, 0) << "the prompt ran, and once";
      EXPECT_EQ(both.text, plain.text);
      EXPECT_EQ(both.token_ids, plain.token_ids);
      EXPECT_EQ(both.token_log_probs, plain.token_log_probs);

      const auto score = [&](const std::string& continuation) {
        const SplitContinuations split =
            SplitPromptAndContinuations(*model->tokenizer, {.text = sample.prompt, .plain_parts = {}}, {continuation})
                .value();
        return model->engine
            ->Run({.token_ids = split.prompt_token_ids, .work = ScoreContinuationsWork{split.continuations}})
            ->continuations[0];
      };
      const EngineContinuationScore alone = score(text);
      ASSERT_TRUE(both.gold_score.has_value());
      EXPECT_EQ(both.gold_score->log_likelihood, alone.log_likelihood) << kind;
      EXPECT_EQ(both.gold_score->token_count, alone.token_count);
      EXPECT_EQ(both.gold_score->is_greedy, alone.is_greedy);
      // Control: with the space before the answer wrong, it is another number.
      const std::string other = text[0] == ' ' ? text.substr(1) : " " + text;
      EXPECT_NE(both.gold_score->log_likelihood, score(other).log_likelihood) << kind;
      // What greedy decoding writes begins with the gold answer exactly where that is greedy.
      const auto& gold = sample.gold_token_ids;
      const bool begins =
          both.token_ids.size() >= gold.size() && std::equal(gold.begin(), gold.end(), both.token_ids.begin());
      EXPECT_EQ(both.gold_score->is_greedy, begins);
      (begins ? greedy_count : other_count) += 1;
    }
  }
  EXPECT_GT(greedy_count, 0);
  EXPECT_GT(other_count, 0);
}

// Of a tokenizer with added tokens, that the model has no row for.
TEST(GoldTest, AGoldAnswerWithATokenThatTheModelLacksIsNotScored) {
  Fixture fixture = MakeFixture("models/baseline");
  fixture.model->config.vocabulary_size = 120;
  fixture.model->config.max_position = 4096;
  for (const auto& [gold, is_scored] :
       std::vector<std::pair<std::vector<int32_t>, bool>>{{{5, 119}, true}, {{5, 120}, false}, {{400, 5}, false}}) {
    Sample sample;
    sample.token_ids = {3, 4};
    sample.max_new_tokens = 4;
    sample.gold_token_ids = gold;
    fixture.generator->Start({std::make_shared<const Sample>(sample), {}, {}, false, ""},
                             [](const absl::StatusOr<Generation>&) {});
    const GenerateWork& work = std::get<GenerateWork>(fixture.engine->asked.back().request.work);
    EXPECT_EQ(work.scored.size(), is_scored ? 1u : 0u) << gold.front();
    EXPECT_EQ(work.max_new_tokens, 4) << "the question is asked";
    fixture.engine->Finish(fixture.engine->asked.size() - 1, absl::CancelledError("ended"));
  }
}

// Tokens that a task gives are run as they are, each after its own context.
TEST(TokensTest, AreRunAsGiven) {
  Fixture fixture = MakeFixture("models/baseline");
  auto sample = std::make_shared<Sample>();
  sample->continuations = {"b", "b"};
  sample->context_token_ids = {{5, 6, 7}, {7}};
  sample->continuation_token_ids = {{8, 9}, {8, 9}};
  absl::StatusOr<Generation> answer = absl::UnknownError("none");
  fixture.generator->Start({sample, {}, {}, false, ""}, [&](absl::StatusOr<Generation> a) { answer = std::move(a); });
  ASSERT_EQ(fixture.engine->asked.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(fixture.engine->asked[i].request.token_ids, sample->context_token_ids[i]);
    EXPECT_EQ(fixture.engine->Scored(i)[0], sample->continuation_token_ids[i]);
    fixture.engine->Answer(i);
  }
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->continuation_scores[1].log_likelihood, -10);
}

// The engine is asked for the spans and bins of the sample, and its heads become rows; else nothing is asked.
TEST(EngineGeneratorTest, InspectionIsAskedForAndSummarized) {
  const Fixture fixture = MakeFixture("models/baseline");
  fixture.model->config.max_position = 4096;
  fixture.model->config.head_count = 2;
  Sample sample;
  sample.task = "t";
  sample.token_ids.assign(40, 7);
  sample.max_new_tokens = 2;
  sample.evidence = {{.token_begin = 10, .token_end = 14}};
  sample.question = {{.token_begin = 30, .token_end = 40}};
  const auto shared = std::make_shared<const Sample>(sample);
  absl::StatusOr<Generation> answer = absl::UnknownError("none");
  const auto start = [&](bool inspect) {
    GenerationRequest request{.sample = shared, .decode = {}, .inspect = inspect};
    fixture.generator->Start(request, [&](absl::StatusOr<Generation> a) { answer = std::move(a); });
  };
  start(false);
  EXPECT_TRUE(fixture.engine->asked[0].request.inspected_boundaries.empty());
  fixture.engine->Finish(0, EngineResult());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->attention.empty());

  start(true);
  const std::vector<int32_t> boundaries = fixture.engine->asked[1].request.inspected_boundaries;
  ASSERT_EQ(boundaries.size(), 41u) << "a bin a token";
  EngineResult result;
  for (int i = 0; i < 4; ++i) {  // two layers of two heads; head i is on token 10 + i alone
    result.inspected.heads.push_back({.visible_count = 40, .scale = 0.5f, .entropy = 0.25 * i, .largest_weight = 1});
    for (int token = 0; token < 40; ++token) result.inspected.masses.push_back(token == 10 + 2 * i ? 1 : 0);
  }
  fixture.engine->Finish(1, std::move(result));
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->attention.size(), 4u);
  const HeadInspection& last = answer->attention[3];
  EXPECT_EQ(last.layer, 1);
  EXPECT_EQ(last.head, 1);
  EXPECT_EQ(last.entropy, 0.75);
  EXPECT_EQ(last.evidence_mass, 0.0);
  EXPECT_EQ(answer->attention[1].evidence_mass, 1.0);
  EXPECT_EQ(last.question_mass, 0.0);
  EXPECT_FALSE(last.distractor_mass.has_value());
}

class SeveralTest : public testing::Test {
 protected:
  SeveralTest() : asking_(MakeFixture("models/baseline")) {
    const std::string path = WriteRows(
        "several",
        Json::array({{{"sentence", "_ sang."}, {"option1", "Ann"}, {"option2", "Bo and Cy"}, {"answer", "1"}}}));
    const auto counter = MakeTokenCounter(asking_.model->tokenizer);
    sample_ = std::make_shared<const Sample>(
        MakeShort({{"task", "winogrande"}, {"path", path}})->MakeSample({1, 4096, 0}, *counter).value());
    fs::remove(path);
  }

  Generator::Id Start() {
    return asking_.generator->Start({sample_, {}, {}, false, ""}, [this](absl::StatusOr<Generation> answer) {
      ++done_count_;
      answer_ = std::move(answer);
    });
  }

  Fixture asking_;
  std::shared_ptr<const Sample> sample_;
  absl::StatusOr<Generation> answer_ = absl::UnknownError("none");
  int done_count_ = 0;
};

TEST_F(SeveralTest, AnswersAreOneWhenTheLastIsThere) {
  Start();
  ASSERT_EQ(asking_.engine->asked.size(), 2u);
  asking_.engine->Answer(1);
  EXPECT_EQ(done_count_, 0);
  asking_.engine->Answer(0);
  ASSERT_TRUE(answer_.ok());
  ASSERT_EQ(answer_->continuation_scores.size(), 2u);
  EXPECT_EQ(answer_->continuation_scores[0].log_likelihood, 0);
  EXPECT_EQ(answer_->continuation_scores[1].log_likelihood, -10);
  EXPECT_EQ(answer_->prompt_token_count, sample_->prompt_token_count()) << "the longer of the two";
  EXPECT_EQ(answer_->prefill_us, 100) << "the slower of the two";
  EXPECT_EQ(done_count_, 1);
}

TEST_F(SeveralTest, OneErrorIsTheAnswer) {
  Start();
  asking_.engine->Finish(1, absl::InternalError("broken"));
  asking_.engine->Answer(0);
  EXPECT_EQ(answer_.status(), absl::InternalError("broken"));
  EXPECT_EQ(done_count_, 1);
}

TEST_F(SeveralTest, CancelReachesAll) {
  const Generator::Id id = Start();
  asking_.generator->Cancel(id);
  EXPECT_EQ(answer_.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(done_count_, 1);
  EXPECT_EQ(asking_.engine->done.size(), 2u);
  asking_.generator->Cancel(id);  // finished
  EXPECT_EQ(done_count_, 1);
}

TEST_F(SeveralTest, ARefusedHalfTakesTheOtherBack) {
  asking_.engine->room = 1;
  Start();
  EXPECT_EQ(answer_.status().code(), absl::StatusCode::kResourceExhausted) << "again, later";
  EXPECT_EQ(done_count_, 1);
  EXPECT_EQ(asking_.engine->done.size(), 1u) << "the first was cancelled";
}

// On an engine with its own thread, for thread sanitizers: every request is answered once, cancelled or not.
TEST_F(SeveralTest, AnswersComeFromAnotherThread) {
  const std::shared_ptr<HostedModel> model =
      MakeFakeModelFactory(std::make_shared<FakeEngineControl>())("fake", "fake").value();
  EngineGenerator generator(model);
  constexpr int kCount = 50;
  struct {
    Mutex mutex;
    CondVar changed;
    int done_count VF_GUARDED_BY(mutex) = 0;
  } run;
  for (int i = 0; i < kCount; ++i) {
    const Generator::Id id = generator.Start({sample_, {}, {}, false, ""}, [&](absl::StatusOr<Generation> answer) {
      const MutexLock lock(run.mutex);
      EXPECT_TRUE(answer.ok() ? answer->continuation_scores.size() == 2 : absl::IsCancelled(answer.status()));
      ++run.done_count;
      run.changed.NotifyAll();
    });
    if (i % 3 == 0) generator.Cancel(id);
  }
  MutexLock lock(run.mutex);
  run.changed.Wait(run.mutex, [&]() VF_REQUIRES(run.mutex) { return run.done_count == kCount; });
}

TEST_F(SeveralTest, TheHashKnowsBothContexts) {
  Sample other = *sample_;
  EXPECT_EQ(other.context_token_ids.size(), 2u);
  EXPECT_EQ(other.token_ids, other.context_token_ids[1]);
  other.context_token_ids[0].back() += 1;
  EXPECT_NE(other.TokenIdsSha256(), sample_->TokenIdsSha256());
  EXPECT_EQ(sample_->TokenIdsSha256(), Sha256Hex(Json(sample_->context_token_ids).dump()));
}

TEST_F(SeveralTest, OtherTokensThanTheSamplesAreNotRun) {
  auto other = std::make_shared<Sample>(*sample_);
  other->context_token_ids[1].push_back(5);
  sample_ = other;
  Start();
  EXPECT_EQ(answer_.status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(asking_.engine->asked.empty());
}

}  // namespace
}  // namespace varifocal
