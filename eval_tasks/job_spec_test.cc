// Job specs: defaults are filled in, equal jobs have equal JSON, and every invalid value is one sentence with its limit;
// variants, suggestions, suites and the grid's order by literals.

#include <limits>

#include "absl/strings/str_join.h"
#include "base/reason.h"
#include "base/suggest.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/metrics/gold_metrics.h"
#include "eval_tasks/task.h"
#include "eval_tasks/testing_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/json_changes.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(JobSpecTest, ValidationCompletesDefaults) {
  const JobSpec spec = ValidateJobSpec(SmallJob()).value();
  EXPECT_THAT(spec.suite.lengths, ElementsAre(1024, 2048));
  EXPECT_EQ(spec.suite.tasks[0].name, "recall_kv");
  EXPECT_EQ(spec.suite.tasks[0].samples, 6);
  EXPECT_EQ(spec.suite.tasks[1].samples, 2);
  EXPECT_THAT(spec.suite.tasks[0].metrics, ElementsAre("exact_match", "substring_exact_match"));
  EXPECT_THAT(spec.suite.tasks[1].metrics,
              ElementsAre("multiple_choice_accuracy", "multiple_choice_accuracy_normalized"));
  EXPECT_EQ(spec.suite.tasks[1].parameters.at("names"), "24");
}

// A suite's numbers by length are those of its tasks without numbers of their own; entries of lengths that are left out
// are removed.
TEST(JobSpecTest, SamplesByLength) {
  JobSpec job = SmallJob();
  job.suite.samples_at = {{1024, 40}};
  const JobSpec spec = ValidateJobSpec(job).value();
  EXPECT_THAT(spec.suite.tasks[0].samples_at, ElementsAre(std::pair(1024, 40)));
  EXPECT_THAT(spec.suite.tasks[1].samples_at, IsEmpty());
  const std::string json = ToCanonicalJson(spec);
  EXPECT_THAT(json, HasSubstr("\"samples_at\":{\"1024\":40}"));
  EXPECT_EQ(ToCanonicalJson(FromCanonicalJson(json).value()), json);
  EXPECT_THAT(ToCanonicalJson(ValidateJobSpec(SmallJob()).value()), Not(HasSubstr("samples_at")));
  const Grid grid = MakeGrid(spec).value();
  for (const GridCell& cell : grid.cells) {
    const bool has_own = cell.key.task != "recall_kv";
    EXPECT_EQ(cell.planned_count, has_own ? 2 : cell.key.context_length == 1024 ? 40 : 6) << cell.key.context_length;
  }
  const SuiteSpec longer = SelectFromSuite(spec.suite, {}, {2048}).value();
  EXPECT_THAT(longer.samples_at, IsEmpty());
  EXPECT_TRUE(ValidateSuiteSpec(longer).ok());
}

TEST(JobSpecTest, CanonicalJsonIsAFixedPointAndUnique) {
  const JobSpec spec = ValidateJobSpec(SmallJob()).value();
  const std::string json = ToCanonicalJson(spec);
  EXPECT_EQ(ToCanonicalJson(FromCanonicalJson(json).value()), json);
  JobSpec spelled = SmallJob();
  spelled.suite.lengths = {1024, 2048};
  spelled.suite.tasks[0].name = "recall_kv";
  spelled.suite.tasks[1].parameters["names"] = "024";
  EXPECT_EQ(ToCanonicalJson(ValidateJobSpec(spelled).value()), json) << "the same job with explicit defaults";
  spelled.suite.seed = 2;
  EXPECT_NE(ToCanonicalJson(ValidateJobSpec(spelled).value()), json);
  EXPECT_EQ(json.find("inspect"), std::string::npos) << "a job that does not ask keeps its identity";
  JobSpec inspected = SmallJob();
  inspected.inspect = true;
  const std::string inspected_json = ToCanonicalJson(ValidateJobSpec(inspected).value());
  EXPECT_THAT(inspected_json, HasSubstr("\"inspect\":true"));
  EXPECT_TRUE(FromCanonicalJson(inspected_json).value().inspect);
  inspected.inspected_rows = "last";
  EXPECT_EQ(ToCanonicalJson(ValidateJobSpec(inspected).value()), inspected_json) << "the default by name";
  inspected.inspected_rows = "question";
  EXPECT_EQ(FromCanonicalJson(ToCanonicalJson(ValidateJobSpec(inspected).value()))->inspected_rows, "question");
  for (const char* rows : {"first", "0", "65", "-1", "question "}) {
    inspected.inspected_rows = rows;
    EXPECT_THAT(ValidateJobSpec(inspected).status().message(), Message(rows, "last", "question", 1, 64));
  }
  inspected.inspected_rows = "8";
  inspected.inspect = false;
  EXPECT_THAT(ValidateJobSpec(inspected).status().message(), Message("inspect", 8));
  JobSpec sampled = SmallJob();
  sampled.decode.sampling_temperature = 0;
  EXPECT_NE(ToCanonicalJson(ValidateJobSpec(sampled).value()), json) << "unset is not zero";
  EXPECT_THAT(json, HasSubstr("\"variants\":[\"baseline\",\"focal@t=0.7\"]"));
  for (const char* wrong : {"", "[]", "{}", "{\"suite\":{}}", "{\"suite\":{},\"decode\":{}}"}) {
    EXPECT_FALSE(FromCanonicalJson(wrong).ok()) << wrong;
  }
}

// A task without a stated answer keeps its canonical form; with one, the suite's is filled in.
TEST(JobSpecTest, AnswersAndThinkingAreWrittenWhereGiven) {
  const std::string json = ToCanonicalJson(ValidateJobSpec(SmallJob()).value());
  EXPECT_EQ(json.find("answer"), std::string::npos);
  EXPECT_EQ(json.find("thinking"), std::string::npos);
  JobSpec spec = SmallJob();
  spec.suite.answer = {.max_new_tokens = 64, .thinking_max_tokens = 512};
  spec.suite.tasks[0].answer = {.max_new_tokens = 16};
  spec.suite.thinking = {.begin = "<a>", .end = "</a>", .force = true, .answer_prefix = "So:"};
  spec.variants.push_back({"baseline", {{"thinking", {0}}}});
  const JobSpec valid = ValidateJobSpec(spec).value();
  EXPECT_EQ(valid.suite.tasks[0].answer, (AnswerSpec{.max_new_tokens = 16, .thinking_max_tokens = 512}));
  const std::string thinking_json = ToCanonicalJson(valid);
  EXPECT_THAT(thinking_json, HasSubstr(R"("answer":{"max_new_tokens":16,"thinking_max_tokens":512})"));
  EXPECT_THAT(thinking_json, HasSubstr("baseline@thinking=off"));
  const JobSpec again = FromCanonicalJson(thinking_json).value();
  EXPECT_EQ(ToCanonicalJson(again), thinking_json);
  EXPECT_EQ(again.suite.thinking, spec.suite.thinking);
  for (const TaskSpec& task : valid.suite.tasks) {
    const bool writes = !FindTaskKind(task.kind)->scores_continuations(task.parameters);
    EXPECT_EQ(task.answer.is_given(), writes) << task.name;
  }
  spec.suite.tasks[0].parameters = {};
  spec.suite.tasks[0].kind = "longqa_story";
  spec.suite.tasks[0].parameters["format"] = "multiple_choice";
  EXPECT_THAT(ValidateJobSpec(spec).status().message(), Message("answer"));
}

TEST(JobSpecTest, BadAnswersAndMarkersAreOneSentence) {
  const auto message = [](void (*spoil)(SuiteSpec&)) {
    SuiteSpec suite = SmallJob().suite;
    spoil(suite);
    return std::string(ValidateSuiteSpec(suite).status().message());
  };
  EXPECT_THAT(message([](SuiteSpec& s) { s.answer.max_new_tokens = 65'537; }),
              Message("max_new_tokens", 65'537, 65'536));
  EXPECT_THAT(message([](SuiteSpec& s) { s.tasks[0].answer.thinking_max_tokens = -1; }),
              Message("thinking_max_tokens", -1, 65'536));
  EXPECT_THAT(message([](SuiteSpec& s) { s.thinking.begin = "<a>"; }), Message("begin"));
  EXPECT_THAT(message([](SuiteSpec& s) { s.thinking = {.begin = "<a>", .end = "<a>"}; }), Message("<a>"));
  EXPECT_THAT(message([](SuiteSpec& s) { s.thinking = {.begin = " ", .end = "b"}; }), Message("begin", 1, 256));
  EXPECT_THAT(message([](SuiteSpec& s) { s.thinking.force = true; }), Message("thinking_max_tokens"));
  EXPECT_THAT(message([](SuiteSpec& s) { s.thinking.answer_prefix = "x"; }), Message("answer_prefix", "force"));
  EXPECT_THAT(ParseVariant("m@thinking=maybe").status().message(), Message("thinking", "maybe", "on or off"));
  EXPECT_THAT(ParseVariant("m@thinking=1").status().message(), Message("thinking", "1", "on or off"));
  EXPECT_EQ(ParseVariant("m@thinking=off@t=0.5")->Name(), "m@t=0.5@thinking=off");
}

// What a chat form adds is written into the spec, which reads back the same; a spec without one is as before.
TEST(JobSpecTest, FormsAndFilters) {
  const std::string json = ToCanonicalJson(ValidateJobSpec(SmallJob()).value());
  EXPECT_EQ(json.find("form\""), std::string::npos);
  EXPECT_EQ(json.find("filters"), std::string::npos);
  JobSpec spec = SmallJob();
  spec.suite.tasks = {{.kind = "recall_kv"},
                      {.kind = "rag_facts", .form = "completion"},
                      {.kind = "niah", .answer = {.max_new_tokens = 600}, .filters = {{.filter = "last_line"}}},
                      {.kind = "jsonl", .parameters = {{"path", "x"}, {"prompt", "{q}"}, {"gold", "a"}}}};
  spec.suite.form = "chat";
  const JobSpec valid = ValidateJobSpec(spec).value();
  const std::vector<TaskSpec>& tasks = valid.suite.tasks;
  EXPECT_TRUE(tasks[0].chat);
  EXPECT_EQ(tasks[0].answer, (AnswerSpec{.max_new_tokens = 256}));
  EXPECT_EQ(tasks[0].filters, (std::vector<FilterSpec>{AnswerLineFilter()}));
  EXPECT_FALSE(tasks[1].chat || tasks[1].answer.is_given() || !tasks[1].filters.empty());
  EXPECT_EQ(tasks[2].answer, (AnswerSpec{.max_new_tokens = 600}));
  EXPECT_EQ(tasks[2].filters, (std::vector<FilterSpec>{{.filter = "last_line"}}));
  EXPECT_TRUE(tasks[3].chat);
  EXPECT_EQ(tasks[3].parameters.at("stop"), "[]");
  EXPECT_TRUE(tasks[3].filters.empty()) << "a user's prompt says nothing of a last line";
  const std::string chat_json = ToCanonicalJson(valid);
  EXPECT_EQ(ToCanonicalJson(FromCanonicalJson(chat_json).value()), chat_json);
  // Of a suite without a form, a completion is what tasks are anyway.
  spec.suite.form = "completion";
  spec.suite.tasks = {{.kind = "recall_kv", .form = "completion"}};
  EXPECT_EQ(ToCanonicalJson(ValidateJobSpec(spec).value()).find("form\""), std::string::npos);
}

TEST(JobSpecTest, BadFormsAndFiltersAreOneSentence) {
  const auto refusal = [](void (*spoil)(SuiteSpec&)) {
    SuiteSpec suite = SmallJob().suite;
    spoil(suite);
    return ValidateSuiteSpec(suite).status();
  };
  const absl::Status unknown = refusal([](SuiteSpec& s) { s.tasks[0].form = "chatt"; });
  EXPECT_THAT(unknown.message(), Message("chatt", "\"chat\""));
  EXPECT_EQ(FieldOf(unknown), "tasks[0].form");
  EXPECT_EQ(FieldOf(refusal([](SuiteSpec& s) { s.form = "x"; })), "form");
  EXPECT_THAT(refusal([](SuiteSpec& s) {
                s.tasks = {{.kind = "longqa_story", .parameters = {{"format", "multiple_choice"}}, .form = "chat"}};
              }).message(),
              Message("longqa_story", "choices"));
  EXPECT_THAT(refusal([](SuiteSpec& s) {
                s.tasks = {{.kind = "helmet", .parameters = {{"path", "x"}}, .form = "chat"}};
              }).message(),
              Message("helmet", "chat: true"));
  EXPECT_THAT(refusal([](SuiteSpec& s) {
                s.tasks = {{.kind = "recall_kv", .metrics = {"exact_match", "gold/is_greedy"}, .form = "chat"}};
              }).message(),
              Message("gold/is_greedy"));
  EXPECT_THAT(refusal([](SuiteSpec& s) {
                s.tasks = {{.kind = "longqa_story",
                            .parameters = {{"format", "multiple_choice"}},
                            .filters = {{.filter = "last_line"}}}};
              }).message(),
              Message("filters", "choices"));
  const absl::Status many = refusal([](SuiteSpec& s) { s.tasks[0].filters.resize(17, {.filter = "last_line"}); });
  EXPECT_THAT(many.message(), Message(17, 16));
  EXPECT_EQ(FieldOf(many), "tasks[0].filters");
  const absl::Status broken = refusal([](SuiteSpec& s) {
    s.tasks[0].filters = {{.filter = "last_line"}, {.filter = "regex", .pattern = "(\n"}};
  });
  EXPECT_THAT(broken.message(), Message("recall_kv", "(\\n"));
  EXPECT_EQ(FieldOf(broken), "tasks[0].filters[1].pattern");
}

struct WrongJob {
  const char* label;
  void (*spoil)(JobSpec&);
  std::string message;
};

TEST(JobSpecTest, EveryInvalidValueIsOneSentence) {
  const WrongJob cases[] = {
      {"unknown task", [](JobSpec& s) { s.suite.tasks[0].kind = "recal_kv"; },
       "unknown task \"recal_kv\"; did you mean \"recall_kv\"?"},
      {"no such task", [](JobSpec& s) { s.suite.tasks[0].kind = "chess"; },
       absl::StrCat("unknown task \"chess\"; known are ", absl::StrJoin(NamesOf(TaskKinds()), ", "))},
      {"unknown metric", [](JobSpec& s) { s.suite.tasks[0].metrics = {"exact_mach"}; },
       "task \"recall_kv\": unknown metric \"exact_mach\"; did you mean \"exact_match\"?"},
      {"metric of the other sort", [](JobSpec& s) { s.suite.tasks[0].metrics = {"multiple_choice_accuracy"}; },
       "task \"recall_kv\": the metric \"multiple_choice_accuracy\" scores choices, and this task has none"},
      {"metric twice",
       [](JobSpec& s) {
         s.suite.tasks[0].metrics = {"token_f1", "token_f1"};
       },
       "task \"recall_kv\": the metric \"token_f1\" is given twice"},
      {"unknown parameter", [](JobSpec& s) { s.suite.tasks[0].parameters["dept"] = "1"; },
       "task \"recall_kv\": unknown parameter \"dept\"; did you mean \"depth\"?"},
      {"depth", [](JobSpec& s) { s.suite.tasks[0].parameters["depth"] = "1.5"; },
       "task \"recall_kv\": depth is \"1.5\"; it must be a number from 0 to 1"},
      {"depth nan", [](JobSpec& s) { s.suite.tasks[0].parameters["depth"] = "nan"; },
       "task \"recall_kv\": depth is \"nan\"; it must be a number from 0 to 1"},
      {"names", [](JobSpec& s) { s.suite.tasks[1].parameters["names"] = "3"; },
       "task \"story\": names is \"3\"; it must be a whole number from 4 to 48"},
      {"format", [](JobSpec& s) { s.suite.tasks[1].parameters["format"] = "free"; },
       "task \"story\": format is \"free\"; it must be one of free_form, multiple_choice; did you mean \"free_form\"?"},
      {"missing parameter",
       [](JobSpec& s) {
         s.suite.tasks[0] = {"mine", "jsonl", {{"path", "x"}}, {}, 0};
       },
       "task \"mine\": the parameter \"gold\" is missing"},
      {"two names", [](JobSpec& s) { s.suite.tasks[1].name = "recall_kv"; },
       "two tasks are named \"recall_kv\"; give one another name"},
      {"task name", [](JobSpec& s) { s.suite.tasks[1].name = "a/b"; },
       "the task name \"a/b\" must be a letter and at most 62 more letters, digits, \"_\", \"-\" or \".\""},
      {"no tasks", [](JobSpec& s) { s.suite.tasks.clear(); }, "tasks has 0 entries; it must have from 1 to 64"},
      {"no lengths", [](JobSpec& s) { s.suite.lengths.clear(); }, "lengths has 0 values; it must have from 1 to 64"},
      {"length zero", [](JobSpec& s) { s.suite.lengths = {0}; }, "lengths is 0; it must be from 1 to 1048576"},
      {"length twice",
       [](JobSpec& s) {
         s.suite.lengths = {8192, 8192};
       },
       "lengths has 8192 twice"},
      {"samples", [](JobSpec& s) { s.suite.samples = 0; }, "samples is 0; it must be from 1 to 100000"},
      {"task samples", [](JobSpec& s) { s.suite.tasks[0].samples = -1; },
       "task \"recall_kv\": samples is -1; it must be from 1 to 100000"},
      {"samples at no length",
       [](JobSpec& s) {
         s.suite.samples_at = {{512, 8}};
       },
       "samples_at names 512, which is not one of the lengths"},
      {"samples at a length",
       [](JobSpec& s) {
         s.suite.tasks[0].samples_at = {{1024, 100'001}};
       },
       "task \"recall_kv\": samples_at 1024 is 100001; it must be from 1 to 100000"},
      {"limit", [](JobSpec& s) { s.limit = -1; }, "limit is -1; it must be from 0 to 100000"},
      {"in flight", [](JobSpec& s) { s.in_flight = 0; }, "in_flight is 0; it must be from 1 to 1024"},
      {"no variants", [](JobSpec& s) { s.variants.clear(); }, "variants has 0 entries; it must have from 1 to 64"},
      {"variant twice", [](JobSpec& s) { s.variants[1] = s.variants[0]; }, "the variant \"baseline\" is given twice"},
      {"temperature 0", [](JobSpec& s) { s.variants[1].overrides["t"] = {0}; },
       "the variant \"focal\": t is 0; it must be a finite number above 0"},
      {"temperature nan", [](JobSpec& s) { s.variants[1].overrides["t"] = {std::numeric_limits<double>::quiet_NaN()}; },
       "the variant \"focal\": t is nan; it must be a finite number above 0"},
      {"temperature inf",
       [](JobSpec& s) {
         s.variants[1].overrides["t"] = {1, std::numeric_limits<double>::infinity()};
       },
       "the variant \"focal\": t is inf; it must be a finite number above 0"},
      {"no temperature", [](JobSpec& s) { s.variants[1].overrides["t"] = {}; },
       "the variant \"focal\": t has 0 values; it must have 1, or one a layer"},
      {"a list",
       [](JobSpec& s) {
         s.variants[1].overrides["yarn"] = {2, 4};
       },
       "the variant \"focal\": yarn has 2 values; it must have 1"},
      {"sampling", [](JobSpec& s) { s.decode.sampling_temperature = -0.5; },
       "sampling_temperature is -0.5; it must be finite and at least 0"},
      {"top_p", [](JobSpec& s) { s.decode.top_p = 0; }, "top_p is 0; it must be above 0 and at most 1"},
      {"top_k", [](JobSpec& s) { s.decode.top_k = -1; }, "top_k is -1; it must be at least 0"},
      {"min_p", [](JobSpec& s) { s.decode.min_p = 1.5; }, "min_p is 1.5; it must be from 0 to 1"},
  };
  for (const WrongJob& wrong : cases) {
    JobSpec spec = SmallJob();
    wrong.spoil(spec);
    const auto result = ValidateJobSpec(spec);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << wrong.label;
    EXPECT_EQ(result.status().message(), wrong.message) << wrong.label;
  }
}

TEST(JobSpecTest, AnErrorNamesThePathOfItsField) {
  const struct {
    const char* field;
    void (*spoil)(SuiteSpec&);
  } cases[] = {
      {"name", [](SuiteSpec& s) { s.name = "a/b"; }},
      {"lengths", [](SuiteSpec& s) { s.lengths.clear(); }},
      {"lengths[2]", [](SuiteSpec& s) { s.lengths.push_back(2048); }},
      {"samples", [](SuiteSpec& s) { s.samples = 0; }},
      {"samples_at.512",
       [](SuiteSpec& s) {
         s.samples_at = {{512, 8}};
       }},
      {"tasks", [](SuiteSpec& s) { s.tasks.clear(); }},
      {"tasks[0].kind", [](SuiteSpec& s) { s.tasks[0].kind = "chess"; }},
      {"tasks[1].name", [](SuiteSpec& s) { s.tasks[1].name = "recall_kv"; }},
      {"tasks[0].samples", [](SuiteSpec& s) { s.tasks[0].samples = -1; }},
      {"tasks[1].samples_at.512",
       [](SuiteSpec& s) {
         s.tasks[1].samples_at = {{512, 8}};
       }},
      {"tasks[0].parameters.depth", [](SuiteSpec& s) { s.tasks[0].parameters["depth"] = "2"; }},
      {"tasks[0].parameters.dept", [](SuiteSpec& s) { s.tasks[0].parameters["dept"] = "1"; }},
      {"tasks[0].metrics[1]",
       [](SuiteSpec& s) {
         s.tasks[0].metrics = {"token_f1", "token_f1"};
       }},
      {"tasks[0].metrics[0]", [](SuiteSpec& s) { s.tasks[0].metrics = {"gold/is_greedy"}; }},
  };
  for (const auto& c : cases) {
    JobSpec spec = SmallJob();
    c.spoil(spec.suite);
    EXPECT_EQ(FieldOf(ValidateSuiteSpec(spec.suite).status()), c.field);
    EXPECT_EQ(FieldOf(ValidateJobSpec(spec).status()), absl::StrCat("suite.", c.field));
  }
}

TEST(JobSpecTest, GoldMetricsAreOfTasksThatWriteAnswers) {
  JobSpec spec = SmallJob();
  spec.suite.tasks = {{"", "recall_kv", {}, {}, 0},
                      {"choice", "longqa_story", {{"format", "multiple_choice"}}, {}, 0},
                      {"own", "recall_kv", {}, {"exact_match", "gold/is_greedy"}, 0}};
  spec = ValidateJobSpec(spec).value();
  EXPECT_EQ(ToCanonicalJson(spec).find("gold/log"), std::string::npos) << "only where they are asked for";
  ASSERT_TRUE(AddGoldMetrics(spec.suite).ok());
  const auto valid = ValidateJobSpec(spec);
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_EQ(valid->suite.tasks[0].metrics,
            (std::vector<std::string>{"exact_match", "substring_exact_match", "gold/log_likelihood",
                                      "gold/log_likelihood_per_token", "gold/token_count", "gold/is_greedy"}));
  EXPECT_EQ(valid->suite.tasks[1].metrics[0], "multiple_choice_accuracy");
  EXPECT_EQ(valid->suite.tasks[1].metrics.size(), 2u);
  EXPECT_EQ(valid->suite.tasks[2].metrics.size(), 5u);
  EXPECT_EQ(ToCanonicalJson(*FromCanonicalJson(ToCanonicalJson(*valid))), ToCanonicalJson(*valid));

  spec.suite.tasks = {spec.suite.tasks[1]};
  EXPECT_THAT(AddGoldMetrics(spec.suite).message(), Message("\"small\""));
  spec.suite.tasks = {{"", "recall_kv", {}, {"gold/is_greedy", "exact_match"}, 0}};
  EXPECT_THAT(ValidateJobSpec(spec).status().message(), Message("\"recall_kv\"", "\"gold/is_greedy\""));
}

TEST(JobSpecTest, SelectsTasksAndLengths) {
  const SuiteSpec some = SelectFromSuite(SmallSuite(), {"story"}, {512}).value();
  EXPECT_EQ(some.tasks.size(), 1u);
  EXPECT_THAT(some.lengths, ElementsAre(512));
  EXPECT_THAT(SelectFromSuite(SmallSuite(), {"stori"}, {}).status().message(),
              Message("\"small\"", "\"stori\"", "\"story\""));
}

TEST(JobSpecTest, EpochsNeedAnswersThatDiffer) {
  JobSpec spec = SmallJob();
  spec.suite.epochs = 4;
  const auto check = [&] { return CheckEpochs(ValidateJobSpec(spec).value()); };
  EXPECT_THAT(check().message(), Message("epochs is 4", "temperature is 0"));
  EXPECT_EQ(FieldOf(check()), "suite.epochs");
  spec.decode.sampling_temperature = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(check()));
  spec.decode.sampling_temperature = 0.7;
  EXPECT_THAT(check().message(), Message("epochs is 4", "\"story\"", "choices"));
  spec.suite.tasks.pop_back();
  EXPECT_TRUE(check().ok()) << check();
  spec.suite.epochs = 0;
  spec.decode = {};
  EXPECT_TRUE(check().ok()) << check();
}

TEST(JobSpecTest, ShardsAreReadAndChecked) {
  EXPECT_EQ(*ParseShard("2/8"), (Shard{2, 8}));
  for (const char* text : {"", "2", "0/8", "9/8", "1/0", "1/10001", "a/b", "1/2/3", "-1/2"}) {
    EXPECT_FALSE(ParseShard(text).ok()) << text;
  }
  EXPECT_THAT(ParseShard("9/8").status().message(), Message(9, 1, 8));
  JobSpec spec = SmallJob();
  spec.shard = {3, 0};
  EXPECT_FALSE(ValidateJobSpec(spec).ok());
}

TEST(JobSpecTest, NumbersAtTheirLimits) {
  struct Limit {
    const char* name;
    int64_t value;
    void (*set)(JobSpec&, int64_t);
  };
  const Limit limits[] = {
      {"samples", kSampleCountMax, [](JobSpec& s, int64_t value) { s.suite.samples = value; }},
      {"samples of a task", kSampleCountMax, [](JobSpec& s, int64_t value) { s.suite.tasks[0].samples = value; }},
      {"limit", kSampleCountMax, [](JobSpec& s, int64_t value) { s.limit = value; }},
      {"in_flight", kInFlightMax, [](JobSpec& s, int64_t value) { s.in_flight = value; }},
  };
  for (const Limit& limit : limits) {
    for (const int64_t value : {limit.value - 1, limit.value, limit.value + 1}) {
      SCOPED_TRACE(absl::StrCat(limit.name, " ", value));
      JobSpec spec = SmallJob();
      limit.set(spec, value);
      const absl::Status status = ValidateJobSpec(spec).status();
      EXPECT_EQ(status.ok(), value <= limit.value) << status;
      if (value > limit.value) {
        EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(" is ", value, "; it must be from ")));
      }
    }
  }
}

TEST(JobSpecTest, EveryChangeOfCanonicalJsonIsAcceptedOrRefused) {
  JobSpec job = SmallJob();
  job.inspect = true;
  job.suite.tasks[0].form = "chat";
  const Json json = *ParseJson(ToCanonicalJson(ValidateJobSpec(job).value()));
  int refused_count = 0;
  testing_support::ForEachChange(json, [&](const testing_support::JsonChange& change) {
    SCOPED_TRACE(absl::StrCat(change.path, ": ", change.what));
    const absl::StatusOr<JobSpec> read = FromCanonicalJson(change.changed.dump());
    if (read.ok()) {
      EXPECT_EQ(ToCanonicalJson(FromCanonicalJson(ToCanonicalJson(*read)).value()), ToCanonicalJson(*read));
      return;
    }
    ++refused_count;
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << read.status();
    EXPECT_THAT(std::string(read.status().message()), ::testing::Not(HasSubstr("\n")));
  });
  EXPECT_GT(refused_count, 100);
}

}  // namespace
}  // namespace varifocal
