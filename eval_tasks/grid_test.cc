// The grid of a job: its order, seeds, epochs, shards and limits, by literals.

#include <iterator>
#include <map>
#include <set>

#include "base/sha256.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/seeds.h"
#include "eval_tasks/suites.h"
#include "eval_tasks/testing_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SuitesTest, AreCompiledIn) {
  EXPECT_THAT(BuiltInSuiteNames(), ElementsAre("babilong", "quick", "real", "ruler", "ruler_128k", "ruler_like",
                                               "ruler_prose", "ruler_quick", "standard", "standard_128k"));
  EXPECT_THAT(std::string(*BuiltInSuiteText("quick")), HasSubstr("name: quick"));
  EXPECT_FALSE(BuiltInSuiteText("quik").has_value());
}

TEST(GridTest, QuestionsOfAContextAreAdjacentAndVariantsAdvanceTogether) {
  const Grid grid = MakeGrid(ValidateJobSpec(SmallJob()).value()).value();
  ASSERT_EQ(grid.cells.size(), 8u);  // 2 tasks x 2 lengths x 2 variants
  EXPECT_EQ(grid.cells[0].key, (CellKey{"baseline", "recall_kv", 1024}));
  EXPECT_EQ(grid.cells[1].key, (CellKey{"focal@t=0.7", "recall_kv", 1024}));
  EXPECT_EQ(grid.cells[2].key, (CellKey{"baseline", "recall_kv", 2048}));
  EXPECT_EQ(grid.cells[7].key, (CellKey{"focal@t=0.7", "story", 2048}));
  EXPECT_EQ(grid.SampleCount(), 2 * 2 * 6 + 2 * 2 * 2);
  std::vector<std::string> order;
  for (const GridGroup& group : grid.groups) {
    order.push_back(
        absl::StrCat(group.task_index, "/", group.context_length, "/", group.first_index, "+", group.count));
  }
  EXPECT_THAT(order, ElementsAre("0/1024/0+4", "0/1024/4+2", "0/2048/0+4", "0/2048/4+2", "1/1024/0+2", "1/2048/0+2"));
  JobSpec limited = SmallJob();
  limited.limit = 3;
  EXPECT_EQ(MakeGrid(ValidateJobSpec(limited).value())->cells[0].planned_count, 3);
}

// Data seeds of one job: each has all questions of generated tasks, the indices of a cell run through them, and no question or
// context is of two seeds; rows of a user's file are asked once. One seed is what a job without seeds has.
TEST(GridTest, EverySeedHasItsOwnQuestions) {
  const testing_support::TemporaryDirectory directory;
  const std::string rows = directory.File("replicated.jsonl");
  testing_support::WriteFile(rows, "{\"q\": \"Where?\", \"a\": \"Rome\"}\n");
  JobSpec spec = SmallJob();
  spec.suite.tasks.push_back({.kind = "jsonl", .parameters = {{"path", rows}, {"prompt", "{q}"}, {"gold", "a"}}});
  const Grid one = MakeGrid(ValidateJobSpec(spec).value()).value();
  spec.suite.seeds = 1;
  EXPECT_EQ(ToCanonicalJson(ValidateJobSpec(spec).value()).find("seeds"), std::string::npos);
  spec.suite.seeds = 3;
  const JobSpec valid = ValidateJobSpec(spec).value();
  EXPECT_EQ(FromCanonicalJson(ToCanonicalJson(valid))->suite.seeds, 3);
  const Grid grid = MakeGrid(valid).value();
  ASSERT_EQ(grid.cells.size(), one.cells.size());
  for (size_t i = 0; i < grid.cells.size(); ++i) {
    const bool is_generated = grid.cells[i].task_index < 2;
    EXPECT_EQ(grid.cells[i].planned_count, one.cells[i].planned_count * (is_generated ? 3 : 1));
  }
  std::set<std::string> questions, clusters_of_others;
  std::map<std::string, int64_t> seed_of_cluster;
  int64_t expected_index = 0;
  for (const GridGroup& group : grid.groups) {
    if (group.task_index != 0 || group.context_length != 1024) continue;
    for (int place = 0; place < group.count; ++place) {
      const Sample sample = grid.Identify(group, place);
      EXPECT_EQ(sample.index, expected_index++);
      EXPECT_TRUE(questions.insert(sample.question_id).second) << sample.question_id;
      EXPECT_EQ(seed_of_cluster.try_emplace(sample.cluster, group.seed).first->second, group.seed);
      // The question of that seed alone.
      EXPECT_EQ(sample.question_id, grid.tasks[0]->Identify(group.Request(place)).question_id);
    }
  }
  EXPECT_EQ(questions.size(), 18u);
  EXPECT_EQ(seed_of_cluster.size(), 6u) << "two contexts of each seed";
  spec.suite.seeds = kSeedCountMax + 1;
  EXPECT_THAT(ValidateJobSpec(spec).status().message(), Message("seeds", 101, 0, 100));
}

// Answers to one question: planned as samples that follow each other, of the same context and so of the same shard. One epoch is
// what a job without epochs has.
TEST(GridTest, EpochsAreSamplesOfTheSameQuestion) {
  JobSpec spec = SmallJob();
  spec.suite.tasks.pop_back();  // choices
  const std::string digest = Sha256Hex(ToCanonicalJson(ValidateJobSpec(spec).value()));
  const Grid one = MakeGrid(ValidateJobSpec(spec).value()).value();
  spec.suite.epochs = 1;
  EXPECT_EQ(Sha256Hex(ToCanonicalJson(ValidateJobSpec(spec).value())), digest);
  spec.suite.epochs = 3;
  const JobSpec valid = ValidateJobSpec(spec).value();
  EXPECT_EQ(FromCanonicalJson(ToCanonicalJson(valid))->suite.epochs, 3);
  const Grid grid = MakeGrid(valid).value();
  ASSERT_EQ(grid.cells.size(), one.cells.size());
  for (size_t i = 0; i < grid.cells.size(); ++i) {
    EXPECT_EQ(grid.cells[i].planned_count, one.cells[i].planned_count * 3);
    EXPECT_EQ(grid.cells[i].asked_count, one.cells[i].asked_count * 3);
  }
  EXPECT_EQ(grid.SampleCount(), one.SampleCount() * 3);
  ASSERT_EQ(grid.groups.size(), one.groups.size());
  for (size_t i = 0; i < grid.groups.size(); ++i) {
    const Sample first = one.Identify(one.groups[i], 0), same = grid.Identify(grid.groups[i], 0);
    EXPECT_EQ(same.question_id, first.question_id);
    EXPECT_EQ(same.index, first.index * 3);
    EXPECT_EQ(same.sampling_seed, first.sampling_seed);
    std::set<uint64_t> seeds;
    for (int epoch = 0; epoch < 3; ++epoch) {
      Sample sample = same;
      SetEpoch(epoch, sample);
      EXPECT_EQ(sample.index, same.index + epoch);
      EXPECT_EQ(sample.epoch, epoch);
      seeds.insert(sample.sampling_seed);
    }
    EXPECT_EQ(seeds.size(), 3u);
    EXPECT_TRUE(seeds.contains(first.sampling_seed)) << "the first epoch's is that of a job with one";
  }
  spec.shard = {2, 2};
  EXPECT_EQ(MakeGrid(ValidateJobSpec(spec).value())->SampleCount() % 3, 0);
  spec.suite.epochs = kEpochCountMax + 1;
  EXPECT_THAT(ValidateJobSpec(spec).status().message(), Message("epochs", 1001, 0, 1000));
}

// By hand: the first 8 bytes of SHA-256("epoch\n5\n1\n"), little-endian, without the lowest bit of 64.
TEST(SeedsTest, ASeedOfAnEpochIsADigest) {
  EXPECT_EQ(EpochSeed(5, 0), 5u);
  const Sha256Digest digest = Sha256("epoch\n5\n1\n");
  uint64_t expected = 0;
  for (int i = 7; i >= 0; --i) expected = expected << 8 | digest[i];
  EXPECT_EQ(EpochSeed(5, 1), expected >> 1);
  EXPECT_NE(EpochSeed(5, 1), EpochSeed(5, 2));
  EXPECT_NE(EpochSeed(5, 1), EpochSeed(6, 1));
}

// Every group is in one shard, and the cells are those of the whole job.
TEST(GridTest, ShardsArePartsOfTheContexts) {
  const auto groups_of = [](const Grid& grid) {
    std::vector<std::string> groups;
    for (const GridGroup& group : grid.groups) {
      groups.push_back(absl::StrCat(group.task_index, "/", group.context_length, "/", group.first_index));
    }
    return groups;
  };
  const Grid whole = MakeGrid(ValidateJobSpec(SmallJob()).value()).value();
  for (const int count : {1, 2, 4, 50}) {
    std::vector<std::string> joined;
    int64_t sample_count = 0;
    for (int index = 1; index <= count; ++index) {
      JobSpec spec = SmallJob();
      spec.shard = {index, count};
      spec = ValidateJobSpec(spec).value();
      EXPECT_EQ(FromCanonicalJson(ToCanonicalJson(spec))->shard, spec.shard);
      const Grid shard = MakeGrid(spec).value();
      ASSERT_EQ(shard.cells.size(), whole.cells.size());
      for (size_t i = 0; i < whole.cells.size(); ++i) {
        EXPECT_EQ(shard.cells[i].planned_count, whole.cells[i].planned_count);
      }
      sample_count += shard.SampleCount();
      for (const std::string& group : groups_of(shard)) joined.push_back(group);
    }
    EXPECT_EQ(sample_count, whole.SampleCount()) << count;
    EXPECT_THAT(joined, ::testing::UnorderedElementsAreArray(groups_of(whole))) << count;
  }
  JobSpec second = SmallJob();
  second.shard = {2, 4};
  EXPECT_THAT(groups_of(MakeGrid(ValidateJobSpec(second).value()).value()), ElementsAre("0/1024/4", "1/2048/0"));
}

// 17 lengths x 117,647 samples, 20 x 100,000 and 3 x 666,667 are the limit and its neighbours.
TEST(GridTest, SamplesOfAJobAtTheLimit) {
  const struct {
    int length_count;
    int64_t samples_per_length;
  } cases[] = {{17, 117'647}, {20, 100'000}, {3, 666'667}};
  for (const auto& c : cases) {
    JobSpec spec = SmallJob();
    spec.variants.pop_back();
    spec.suite.lengths.clear();
    for (int i = 0; i < c.length_count; ++i) spec.suite.lengths.push_back(1024 + i);
    spec.suite.tasks.clear();
    for (int64_t left = c.samples_per_length; left > 0; left -= kSampleCountMax) {
      spec.suite.tasks.push_back({.name = absl::StrCat("t", left),
                                  .kind = "recall_kv",
                                  .samples = static_cast<int>(std::min<int64_t>(left, kSampleCountMax))});
    }
    const int64_t total = c.length_count * c.samples_per_length;
    ASSERT_LE(std::abs(total - kJobSampleCountMax), 1);
    const auto grid = MakeGrid(ValidateJobSpec(spec).value());
    EXPECT_EQ(grid.ok(), total <= kJobSampleCountMax) << grid.status();
    if (grid.ok()) {
      EXPECT_EQ(grid->SampleCount(), total);
    }
  }
}

TEST(GridTest, CellsAndSamplesOfAJobAreLimited) {
  JobSpec spec;
  spec.suite.name = "large";
  spec.suite.samples = 100'000;
  spec.variants = {{"a"}};
  for (int i = 0; i < 20; ++i) spec.suite.lengths.push_back(1024 + i);
  for (int i = 0; i < 2; ++i) spec.suite.tasks.push_back({.name = absl::StrCat("t", i), .kind = "recall_kv"});
  const auto message = [](const JobSpec& job) {
    return std::string(MakeGrid(ValidateJobSpec(job).value()).status().message());
  };
  EXPECT_THAT(message(spec), Message(2000000, 2100000));
  spec.suite.tasks.pop_back();  // 20 lengths x 100,000 samples
  EXPECT_EQ(MakeGrid(ValidateJobSpec(spec).value())->SampleCount(), kJobSampleCountMax);

  spec.limit = 1;
  spec.suite.lengths.clear();
  for (int i = 0; i < 64; ++i) spec.suite.lengths.push_back(1024 + i);
  spec.suite.tasks.clear();
  for (int i = 0; i < 64; ++i) spec.suite.tasks.push_back({.name = absl::StrCat("t", i), .kind = "recall_kv"});
  spec.variants = {{"a"}, {"b"}, {"c"}, {"d"}};  // 16,384 cells
  EXPECT_EQ(std::ssize(MakeGrid(ValidateJobSpec(spec).value())->cells), kJobCellCountMax);
  spec.variants.push_back({"e"});
  EXPECT_THAT(message(spec), Message(20480, 5, 64, 16384));
}

// Of three factors of at most 64, the nearest products around the limit.
TEST(GridTest, CellsAroundTheLimit) {
  const auto cells = [](int variant_count, int task_count, int length_count) {
    JobSpec spec;
    spec.suite.name = "large";
    spec.suite.samples = 1;
    for (int i = 0; i < variant_count; ++i) spec.variants.push_back({absl::StrCat("v", i)});
    for (int i = 0; i < task_count; ++i)
      spec.suite.tasks.push_back({.name = absl::StrCat("t", i), .kind = "recall_kv"});
    for (int i = 0; i < length_count; ++i) spec.suite.lengths.push_back(1024 + i);
    return MakeGrid(ValidateJobSpec(spec).value());
  };
  EXPECT_EQ(cells(5, 52, 63)->cells.size(), 16'380u);
  EXPECT_EQ(std::ssize(cells(16, 16, 64)->cells), kJobCellCountMax);
  EXPECT_THAT(std::string(cells(23, 23, 31).status().message()), HasSubstr("16399 cells"));
}

}  // namespace
}  // namespace varifocal
