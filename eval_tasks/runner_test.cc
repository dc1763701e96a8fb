// The runner with fakes: answers in any order give the same records; failures become records; transient errors are
// retried within bounds; cancellation leaves exactly the unanswered samples missing; the in-flight bound holds.
#include "eval_tasks/runner.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/str_replace.h"
#include "base/random.h"
#include "eval_tasks/metrics/gold_metrics.h"
#include "eval_tasks/testing_jobs.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

JobSpec ThinkingSpecOf(bool force = false) {
  JobSpec spec;
  spec.suite.name = "small";
  spec.suite.lengths = {512};
  spec.suite.samples = 8;
  spec.suite.tasks = {{.name = "facts", .kind = "rag_facts"}};
  spec.suite.answer = {.max_new_tokens = 20, .thinking_max_tokens = 200};
  spec.suite.thinking = {.begin = "<think>", .end = "</think>", .force = force};
  spec.variants = {{"baseline"}};
  spec.in_flight = 1;
  return ValidateJobSpec(spec).value();
}

// Every kind of block: what is stored, what is scored, and that the text of a block is never right.
TEST(RunnerTest, ThinkingIsLeftOutOfTheScores) {
  struct Case {
    const char* text;  // % is the gold answer
    ThinkingState state;
    double score;  // substring_exact_match
  };
  const Case cases[] = {
      {"<think>\nwrong\n</think>\n\n%.", ThinkingState::kClosed, 1},
      {"<think>\n%\n</think>\n\nnothing.", ThinkingState::kClosed, 0},
      {"<think>\n% is it", ThinkingState::kUnfinished, 0},
      {"%.", ThinkingState::kNone, 1},
      {"<think></think>%", ThinkingState::kEmpty, 1},
      {"<think>a<think>b</think>c</think> %", ThinkingState::kNested, 1},
      {"<think>%</think><think>%</think> nothing", ThinkingState::kRepeated, 0},
      {"<think>a</think>%<think>", ThinkingState::kUnfinished, 0},
  };
  FakeGenerator generator;
  generator.on_start = [&](FakeGenerator& of) {
    const auto held = of.held().back();
    Generation generation = FakeGenerator::Answer(held.request);
    const Sample& sample = *held.request.sample;
    generation.text = absl::StrReplaceAll(cases[sample.index].text, {{"%", sample.gold[0]}});
    generation.thinking_token_count = 3;
    of.Release(held.id, generation);
  };
  FakeSink sink;
  const auto tokenizer = std::make_shared<const FakeTokenizer>(FakeTokenizer::Words());
  Runner runner(ThinkingSpecOf(), {{&generator, tokenizer}}, &sink);
  ASSERT_TRUE(runner.Run().ok());
  ASSERT_EQ(sink.records.size(), 8u);
  for (const auto& [key, record] : sink.records) {
    const Case& c = cases[key.second];
    EXPECT_EQ(record.generation->thinking, c.state) << c.text;
    EXPECT_EQ(record.scores[0].metric, "substring_exact_match");
    EXPECT_EQ(record.scores[0].value, c.score) << c.text;
    EXPECT_EQ(record.generation->text, absl::StrReplaceAll(c.text, {{"%", record.sample->gold[0]}})) << "it is kept";
    EXPECT_EQ(record.answer.empty(), c.state == ThinkingState::kUnfinished) << c.text;
    EXPECT_EQ(record.sample->max_new_tokens, 20);
    EXPECT_EQ(record.sample->later_tokens_max(), 220);
    EXPECT_FALSE(record.sample->thinking->rule.is_opened);
  }
}

// What is scored is what the filters leave, and where they leave nothing no metric gives a point.
TEST(RunnerTest, TheExtractedAnswerIsScoredAlone) {
  JobSpec spec;
  spec.suite.name = "small";
  spec.suite.lengths = {512};
  spec.suite.samples = 8;
  spec.suite.tasks = {{.name = "facts", .kind = "rag_facts", .form = "chat"}};
  spec.variants = {{"baseline"}};
  spec.in_flight = 1;
  spec = ValidateJobSpec(spec).value();
  struct Case {
    const char* text;  // % is the gold answer
    const char* answer;
    double score;  // substring_exact_match
  };
  const Case cases[] = {
      {"The documents name % and others.\nAnswer: %", "%", 1},
      {"The documents name %.\nAnswer: nothing", "nothing", 0},
      {"Answer: nothing\nNo, wait.\n**Answer: %**", "%", 1},
      {"It is %.", "", 0},
      {"Answer:", "", 0},
      {"", "", 0},
      {"Answer: the % there", "the % there", 1},
      {"Answer: %\n\nDone.", "%", 1},
  };
  FakeGenerator generator;
  generator.on_start = [&](FakeGenerator& of) {
    const auto held = of.held().back();
    const Sample& sample = *held.request.sample;
    EXPECT_TRUE(held.request.chat);
    EXPECT_TRUE(sample.stop_strings.empty());
    EXPECT_EQ(sample.max_new_tokens, 256);
    Generation generation;
    generation.token_ids = {1};
    generation.text = absl::StrReplaceAll(cases[sample.index].text, {{"%", sample.gold[0]}});
    of.Release(held.id, generation);
  };
  FakeSink sink;
  const auto tokenizer = std::make_shared<const FakeTokenizer>(FakeTokenizer::Words());
  Runner runner(spec, {{&generator, tokenizer, tokenizer}}, &sink);
  ASSERT_TRUE(runner.Run().ok());
  ASSERT_EQ(sink.records.size(), 8u);
  for (const auto& [key, record] : sink.records) {
    const Case& c = cases[key.second];
    ASSERT_TRUE(record.error.ok()) << record.error;
    EXPECT_EQ(record.answer, absl::StrReplaceAll(c.answer, {{"%", record.sample->gold[0]}})) << c.text;
    EXPECT_EQ(record.scores[0].value, c.score) << c.text;
    EXPECT_EQ(record.generation->text, absl::StrReplaceAll(c.text, {{"%", record.sample->gold[0]}})) << "it is kept";
  }
}

// In a suite that forces the ends of blocks, a task without a thinking budget has no blocks whose end could be forced.
TEST(RunnerTest, AnEndIsForcedWhereThereIsABudget) {
  JobSpec spec = ThinkingSpecOf(true);
  spec.suite.answer = {};
  spec.suite.tasks = {{.name = "facts", .kind = "rag_facts", .answer = {.thinking_max_tokens = 200}},
                      {.name = "keys", .kind = "recall_kv"}};
  spec = ValidateJobSpec(spec).value();
  FakeGenerator generator;
  std::map<std::string, std::set<size_t>> forced;
  generator.on_start = [&](FakeGenerator& of) {
    const auto held = of.held().back();
    const Sample& sample = *held.request.sample;
    ASSERT_TRUE(sample.thinking.has_value());
    forced[sample.task].insert(sample.thinking->forced_ids.size());
    EXPECT_EQ(sample.thinking->rule.forced_answer.empty(), sample.thinking->forced_ids.empty());
    of.Release(held.id, FakeGenerator::Answer(held.request));
  };
  FakeSink sink;
  const auto tokenizer = std::make_shared<const FakeTokenizer>(FakeTokenizer::Words());
  Runner runner(spec, {{&generator, tokenizer}}, &sink);
  ASSERT_TRUE(runner.Run().ok());
  EXPECT_EQ(forced["keys"], std::set<size_t>{0});
  ASSERT_EQ(forced["facts"].size(), 1u);
  EXPECT_GT(*forced["facts"].begin(), 0u);
}

// Releases held requests in an order drawn from `seed` once `hold` of them wait.
void ReleaseInRandomOrder(FakeGenerator& generator, Random& random, size_t hold) {
  while (generator.held().size() >= hold && !generator.held().empty()) {
    const auto& held = generator.held()[random.Below(generator.held().size())];
    generator.Release(held.id, FakeGenerator::Answer(held.request));
  }
}

TEST(RunnerTest, RecordsDoNotDependOnTheOrderOfAnswers) {
  std::string first;
  for (int seed = 0; seed < 20; ++seed) {
    Random random(absl::StrCat("order ", seed));
    FakeGenerator generator;
    const size_t hold = 1 + random.Below(3);
    generator.on_start = [&](FakeGenerator& g) { ReleaseInRandomOrder(g, random, hold); };
    FakeSink sink;
    RunnerHooks hooks;
    // With fewer left than are held, no more start: release the rest.
    RunProgress last;
    hooks.on_progress = [&](const RunProgress& progress) {
      last = progress;
      if (progress.in_flight_count + progress.done_count == progress.planned_count)
        ReleaseInRandomOrder(generator, random, 1);
    };
    Runner runner(RunnerJob(), BothVariants(&generator), &sink, hooks);
    ASSERT_EQ(runner.Run().value(), RunOutcome::kFinished);
    EXPECT_EQ(std::ssize(sink.records), kRunnerCells * 6);
    EXPECT_EQ(sink.order.size(), sink.records.size()) << "each once";
    EXPECT_EQ(last.done_count, kRunnerCells * 6);
    EXPECT_EQ(last.failed_count, 0);
    EXPECT_GT(last.prompt_token_count, 0);
    for (const CellProgress& cell : last.cells) EXPECT_EQ(cell.done_count, 6);
    const std::string description = Describe(sink);
    if (first.empty()) first = description;
    EXPECT_EQ(description, first) << seed;
  }
  EXPECT_NE(first.find("exact_match=1"), std::string::npos);
  EXPECT_NE(first.find("multiple_choice_accuracy=0"), std::string::npos);
}

// Four answers to each question: asked one after the other with the prompt of the question and seeds of their own, recorded by
// their index whatever the order of arrival; the next run asks exactly those that are missing.
TEST(RunnerTest, EpochsAreAskedWithSeedsOfTheirOwn) {
  JobSpec spec = RunnerJob(/*samples=*/6, /*in_flight=*/5);
  spec.suite.tasks.pop_back();  // choices
  FakeSink once;
  {
    FakeGenerator generator;
    generator.on_start = [](FakeGenerator& g) {
      g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request));
    };
    ASSERT_TRUE(Runner(spec, BothVariants(&generator), &once).Run().ok());
  }
  spec.suite.epochs = 4;
  Random random("epochs");
  FakeGenerator generator;
  std::vector<uint64_t> first_seeds;
  generator.on_start = [&](FakeGenerator& g) {
    if (first_seeds.size() < 4) first_seeds.push_back(g.held().back().request.sample->sampling_seed);
    ReleaseInRandomOrder(g, random, 3);
  };
  FakeSink sink;
  RunProgress last;
  RunnerHooks hooks;
  hooks.on_progress = [&](const RunProgress& progress) {
    last = progress;
    if (progress.in_flight_count + progress.done_count == progress.planned_count)
      ReleaseInRandomOrder(generator, random, 1);
  };
  ASSERT_EQ(Runner(spec, BothVariants(&generator), &sink, hooks).Run().value(), RunOutcome::kFinished);
  EXPECT_EQ(last.planned_count, 4 * 6 * 4);
  EXPECT_EQ(last.done_count, last.planned_count);
  EXPECT_EQ(sink.records.size(), 4u * 6 * 4);
  EXPECT_EQ(sink.order.size(), sink.records.size()) << "each once";
  std::set<uint64_t> seeds;
  for (const auto& [key, record] : sink.records) {
    const Sample& sample = *record.sample;
    const Sample& of_one = *once.records.at({key.first, key.second / 4}).sample;
    EXPECT_EQ(sample.index, key.second);
    EXPECT_EQ(sample.epoch, key.second % 4);
    EXPECT_EQ(sample.question_id, of_one.question_id);
    EXPECT_EQ(sample.prompt, of_one.prompt);
    EXPECT_EQ(sample.token_ids, of_one.token_ids);
    EXPECT_EQ(sample.sampling_seed == of_one.sampling_seed, sample.epoch == 0);
    seeds.insert(sample.sampling_seed);
  }
  EXPECT_EQ(seeds.size(), 6u * 4) << "the same at both lengths and of both variants";
  EXPECT_EQ(std::set<uint64_t>(first_seeds.begin(), first_seeds.end()).size(), 4u) << "one question after the other";

  const auto third = std::next(sink.records.begin(), 7);
  const auto missing = third->first;
  sink.records.erase(third);
  FakeGenerator again;
  again.on_start = [](FakeGenerator& g) { g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request)); };
  ASSERT_TRUE(Runner(spec, BothVariants(&again), &sink).Run().ok());
  EXPECT_EQ(again.started_count(), 1);
  EXPECT_EQ(sink.records.at(missing).sample->epoch, missing.second % 4);
}

TEST(RunnerTest, StartsTheQuestionsOfAContextTogetherWithinTheBound) {
  FakeGenerator generator;
  std::vector<std::string> asked;
  size_t most = 0;
  generator.on_start = [&](FakeGenerator& g) {
    most = std::max(most, g.held().size());
    asked.push_back(absl::StrCat(g.held().back().request.variant, " ", g.held().back().request.sample->index));
    if (g.held().size() == 3 || g.started_count() == kRunnerCells * 4) {
      while (!g.held().empty()) g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request));
    }
  };
  FakeSink sink;
  Runner runner(RunnerJob(4, 3), BothVariants(&generator), &sink);
  ASSERT_TRUE(runner.Run().ok());
  EXPECT_EQ(most, 3u);
  const std::vector<std::string> start(asked.begin(), asked.begin() + 9);
  EXPECT_EQ(start, (std::vector<std::string>{"baseline 0", "baseline 1", "baseline 2", "baseline 3", "focal@t=0.5 0",
                                             "focal@t=0.5 1", "focal@t=0.5 2", "focal@t=0.5 3", "baseline 0"}));
}

TEST(RunnerTest, TheShortestLengthOfAllTasksIsAskedFirst) {
  FakeGenerator generator;
  std::vector<std::string> asked;  // without repetitions
  generator.on_start = [&](FakeGenerator& g) {
    const Sample& sample = *g.held().back().request.sample;
    const std::string cell = absl::StrCat(sample.task, " ", sample.context_length);
    if (asked.empty() || asked.back() != cell) asked.push_back(cell);
    g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request));
  };
  JobSpec spec = RunnerJob();
  spec.suite.lengths = {1024, 512};
  FakeSink sink;
  Runner runner(spec, BothVariants(&generator), &sink);
  ASSERT_TRUE(runner.Run().ok());
  EXPECT_EQ(asked,
            (std::vector<std::string>{"recall_kv 512", "longqa_story 512", "recall_kv 1024", "longqa_story 1024"}));
}

TEST(RunnerTest, AnswersThatArriveTogetherAreRecordedTogether) {
  FakeGenerator generator;
  generator.on_start = [](FakeGenerator& g) {
    if (g.held().size() < 5 && g.started_count() < kRunnerCells * 5) return;
    while (!g.held().empty()) g.Release(g.held()[0].id, FakeGenerator::Answer(g.held()[0].request));
  };
  FakeSink sink;
  Runner runner(RunnerJob(5, 5), BothVariants(&generator), &sink);
  ASSERT_EQ(runner.Run().value(), RunOutcome::kFinished);
  EXPECT_EQ(sink.batch_sizes, std::vector<size_t>(kRunnerCells, 5));
  EXPECT_EQ(sink.order.size(), sink.records.size());
  EXPECT_EQ(std::ssize(sink.records), kRunnerCells * 5);
}

TEST(RunnerTest, VariantsShareTheSampleAndGetTheirTemperatures) {
  FakeGenerator generator;
  std::map<std::string, std::set<const Sample*>> samples;
  generator.on_start = [&](FakeGenerator& g) {
    const GenerationRequest request = g.held()[0].request;
    EXPECT_EQ(request.overrides, request.variant == "baseline" ? OverrideMap() : (OverrideMap{{"t", {0.5}}}));
    samples[absl::StrCat(request.sample->task, request.sample->context_length, request.sample->index)].insert(
        request.sample.get());
    g.Release(g.held()[0].id, FakeGenerator::Answer(request));
  };
  FakeSink sink;
  Runner runner(RunnerJob(), BothVariants(&generator), &sink);
  ASSERT_TRUE(runner.Run().ok());
  for (const auto& [name, made] : samples) EXPECT_EQ(made.size(), 1u) << name << " is built once for both variants";
}

TEST(RunnerTest, GoldAnswersAreScoredBesideWrittenOnes) {
  JobSpec spec = RunnerJob();
  ASSERT_TRUE(AddGoldMetrics(spec.suite).ok());
  for (const bool can_score : {true, false}) {
    FakeGenerator generator;
    generator.on_start = [&](FakeGenerator& self) {
      const FakeGenerator::Held held = self.held().back();
      Generation answer = FakeGenerator::Answer(held.request);
      EXPECT_EQ(held.request.sample->gold_token_ids.empty(), !held.request.sample->continuations.empty());
      if (!can_score) answer.gold_score.reset();
      self.Release(held.id, std::move(answer));
    };
    FakeSink sink;
    ASSERT_EQ(Runner(spec, BothVariants(&generator), &sink, {}).Run().value(), RunOutcome::kFinished);
    int gold_count = 0;
    for (const auto& [key, record] : sink.records) {
      ASSERT_TRUE(record.error.ok()) << record.error;
      std::map<std::string, double> scores;
      for (const MetricValue& score : record.scores) scores[score.metric] = score.value;
      EXPECT_EQ(scores.contains("gold/log_likelihood"), can_score && record.sample->continuations.empty());
      if (!scores.contains("gold/log_likelihood")) continue;
      ++gold_count;
      EXPECT_EQ(scores["gold/log_likelihood"], key.second % 2 == 0 ? -0.5 : -3.0);
      EXPECT_EQ(scores["gold/is_greedy"], scores["exact_match"]);
      EXPECT_EQ(scores["gold/token_count"], record.sample->gold_token_ids.size());
    }
    EXPECT_EQ(gold_count, can_score ? 24 : 0);
  }
}

TEST(RunnerTest, AScoreOfOtherGoldTokensIsAnError) {
  JobSpec spec = RunnerJob(1, 1);
  ASSERT_TRUE(AddGoldMetrics(spec.suite).ok());
  FakeGenerator generator;
  generator.on_start = [](FakeGenerator& self) {
    const FakeGenerator::Held held = self.held().back();
    Generation answer = FakeGenerator::Answer(held.request);
    if (answer.gold_score.has_value()) answer.gold_score->token_count += 1;
    self.Release(held.id, std::move(answer));
  };
  FakeSink sink;
  ASSERT_TRUE(Runner(spec, BothVariants(&generator), &sink, {}).Run().ok());
  for (const auto& [key, record] : sink.records)
    EXPECT_EQ(record.error.ok(), !record.sample->continuations.empty()) << record.error;
}

}  // namespace
}  // namespace varifocal
