// Job specs: defaults are filled in, equal jobs have equal JSON, and every invalid value is one sentence with its limit;
// variants, suggestions, suites and the grid's order by literals.
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/suggest.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/metrics/gold_metrics.h"
#include "eval_tasks/overrides.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/seeds.h"
#include "eval_tasks/suites.h"
#include "eval_tasks/task.h"
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

SuiteSpec SmallSuite() {
  SuiteSpec suite;
  suite.name = "small";
  suite.lengths = {2048, 1024};
  suite.samples = 6;
  suite.tasks = {{"", "recall_kv", {}, {}, 0}, {"story", "longqa_story", {{"format", "multiple_choice"}}, {}, 2}};
  return suite;
}

JobSpec SmallJob() {
  JobSpec spec;
  spec.suite = SmallSuite();
  spec.variants = {{"baseline"}, {"focal", {{"t", {0.70}}}}};
  return spec;
}

TEST(VariantTest, FurtherSettings) {
  const auto variant = ParseVariant("m@log-n=4096@t=0.5,1@full-t=0.70");
  ASSERT_TRUE(variant.ok()) << variant.status();
  EXPECT_EQ(variant->overrides, (OverrideMap{{"t", {0.5, 1}}, {"full-t", {0.7}}, {"log-n", {4096}}}));
  EXPECT_EQ(variant->Name(), "m@t=0.5,1@full-t=0.7@log-n=4096");
  EXPECT_EQ(*ParseVariant(variant->Name()), *variant);
  const auto list = ParseVariantList("a@log-n=64,b@t=0.5,0.6@log-n=64,c");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ((*list)[1].Name(), "b@t=0.5,0.6@log-n=64");
  EXPECT_EQ(WithTemperatures({(*list)[0]}, {0.5})[1].Name(), "a@t=0.5@log-n=64");
}

// The table that the test of the Python client reads, too: a text and the variant's name in results, or none where it is refused.
TEST(VariantTest, TheTableOfTexts) {
  std::ifstream file("eval_tasks/testdata/variants.json");
  const Json table = *ParseJson(std::string(std::istreambuf_iterator<char>(file), {}));
  int refused_count = 0;
  for (const Json& row : table) {
    const std::string text = row.at("text").get<std::string>();
    const absl::StatusOr<Variant> variant = ParseVariant(text);
    if (row.at("name").is_null()) {
      ++refused_count;
      EXPECT_EQ(variant.status().code(), absl::StatusCode::kInvalidArgument) << text;
      continue;
    }
    ASSERT_TRUE(variant.ok()) << variant.status();
    EXPECT_EQ(variant->Name(), row.at("name").get<std::string>());
    EXPECT_EQ(*ParseVariant(variant->Name()), *variant);
  }
  EXPECT_GE(refused_count, 20);
  EXPECT_GE(std::ssize(table) - refused_count, 10);
}

// Every row of the table of overrides: its kind of value, and whether a list is one.
TEST(VariantTest, EveryOverrideChecksItsValue) {
  for (const OverrideInfo& info : OverrideTable()) {
    const auto is_read = [&](absl::string_view values) {
      return ParseVariant(absl::StrCat("m@", info.name, "=", values)).ok();
    };
    const bool is_switch = info.kind == OverrideKind::kChatSwitch;
    EXPECT_EQ(is_read("on"), is_switch) << info.name;
    EXPECT_EQ(is_read("2"), !is_switch) << info.name;
    EXPECT_EQ(is_read("2,3"), info.may_be_list) << info.name;
    EXPECT_EQ(is_read("-2"), !IsAboveZero(info) && !is_switch) << info.name;
    EXPECT_EQ(info.layers_flag != nullptr, info.kind == OverrideKind::kTemperature) << info.name;
    EXPECT_EQ(info.focus_setting != nullptr, info.kind == OverrideKind::kGroups) << info.name;
    EXPECT_EQ(FindOverride(info.name), &info) << "names are unique";
  }
  EXPECT_EQ(FindOverride("T"), nullptr);
}

TEST(VariantTest, ParsesAndWritesCanonically) {
  EXPECT_EQ(ParseVariant("m@t=0.1")->overrides.at("t")[0], 0.1);
  EXPECT_EQ(ParseVariant("m@t=-1").status().message(),
            "the variant \"m@t=-1\": t is \"-1\"; it must be a finite number above 0");
  EXPECT_EQ(ParseVariant("m@t=inf").status().message(),
            "the variant \"m@t=inf\": t is \"inf\"; it must be a finite number above 0");
  EXPECT_EQ(ParseVariant("m@log-n=1,2").status().message(),
            "the variant \"m@log-n=1,2\": log-n has 2 values; it must have 1");
}

TEST(VariantTest, ANumberInAListContinuesTheTemperatures) {
  const auto list = ParseVariantList("a,b@t=0.5,0.6,c,d@t=2").value();
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[1].Name(), "b@t=0.5,0.6");
  EXPECT_EQ(list[2].Name(), "c");
  EXPECT_FALSE(ParseVariantList("a,0.5").ok()) << "0.5 follows no temperature";
  EXPECT_FALSE(ParseVariantList("a,,b").ok());
  EXPECT_FALSE(ParseVariantList("").ok());
}

TEST(VariantTest, TemperaturesMultiplyPlainVariants) {
  const auto all = WithTemperatures({{"a"}, {"b", {{"t", {0.5}}}}}, {0.5, 0.7});
  std::vector<std::string> names;
  for (const Variant& variant : all) names.push_back(variant.Name());
  EXPECT_THAT(names, ElementsAre("a", "a@t=0.5", "a@t=0.7", "b@t=0.5"));
  EXPECT_EQ(WithTemperatures({{"a", {{"late-t", {2}}}}}, {0.5}, {"early-t"})[1].Name(), "a@early-t=0.5@late-t=2");
}

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
  std::vector<std::string> kinds;
  for (const TaskKind& kind : TaskKinds()) kinds.push_back(kind.name);
  const WrongJob cases[] = {
      {"unknown task", [](JobSpec& s) { s.suite.tasks[0].kind = "recal_kv"; },
       "unknown task \"recal_kv\"; did you mean \"recall_kv\"?"},
      {"no such task", [](JobSpec& s) { s.suite.tasks[0].kind = "chess"; },
       absl::StrCat("unknown task \"chess\"; known are ", absl::StrJoin(kinds, ", "))},
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
  EXPECT_EQ(AddGoldMetrics(spec.suite).message(),
            "no task of the suite \"small\" writes answers, so there is no gold answer to score");
  spec.suite.tasks = {{"", "recall_kv", {}, {"gold/is_greedy", "exact_match"}, 0}};
  EXPECT_EQ(ValidateJobSpec(spec).status().message(),
            "task \"recall_kv\": the first metric is the primary one, which \"gold/is_greedy\" cannot be: it is of the "
            "gold answer, not of the one written");
}

TEST(JobSpecTest, SelectsTasksAndLengths) {
  const SuiteSpec some = SelectFromSuite(SmallSuite(), {"story"}, {512}).value();
  EXPECT_EQ(some.tasks.size(), 1u);
  EXPECT_THAT(some.lengths, ElementsAre(512));
  EXPECT_EQ(SelectFromSuite(SmallSuite(), {"stori"}, {}).status().message(),
            "the suite \"small\" has no task \"stori\"; did you mean \"story\"?");
}

TEST(ParametersTest, NumbersAndListsAreCanonical) {
  EXPECT_EQ(FormatNumber(0.1), "0.1");
  EXPECT_EQ(FormatNumber(8), "8");
  EXPECT_EQ(ParseNumber("1e-3").value(), 0.001);
  EXPECT_FALSE(ParseNumber("1e999").ok());
  EXPECT_FALSE(ParseNumber("").ok());
  const ParameterInfo stop = {"stop", ParameterType::kTextList, "[\"\\n\"]", false, 0, 0, {}, ""};
  EXPECT_EQ(ValidateParameters("t", {stop}, {})->at("stop"), "[\"\\n\"]");
  const Parameters one = ValidateParameters("t", {stop}, {{"stop", "END"}}).value();
  EXPECT_EQ(one.at("stop"), "[\"END\"]");
  EXPECT_THAT(GetTextList(one, "stop"), ElementsAre("END"));
  const Parameters two = ValidateParameters("t", {stop}, {{"stop", "[ \".\", \"\\n\" ]"}}).value();
  EXPECT_THAT(GetTextList(two, "stop"), ElementsAre(".", "\n"));
  EXPECT_FALSE(ValidateParameters("t", {stop}, {{"stop", "[1]"}}).ok());
}

TEST(SuggestTest, OnlyNearMatches) {
  const std::vector<std::string> words = {"report", "resume", "compare"};
  EXPECT_EQ(Nearest("reprot", words), "report");
  EXPECT_EQ(Nearest("resum", words), "resume");
  EXPECT_EQ(Nearest("comapre", words), "compare");
  EXPECT_EQ(Nearest("zebra", words), "");
  EXPECT_EQ(Nearest(std::string(100000, 'x'), words), "");
  EXPECT_EQ(DidYouMean("x", {}), "");
}

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
  const std::string rows = absl::StrCat(testing::TempDir(), "/replicated_", getpid(), ".jsonl");
  std::ofstream(rows) << R"({"q": "Where?", "a": "Rome"})"
                      << "\n";
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

TEST(JobSpecTest, ShardsAreReadAndChecked) {
  EXPECT_EQ(*ParseShard("2/8"), (Shard{2, 8}));
  for (const char* text : {"", "2", "0/8", "9/8", "1/0", "1/10001", "a/b", "1/2/3", "-1/2"}) {
    EXPECT_FALSE(ParseShard(text).ok()) << text;
  }
  EXPECT_EQ(ParseShard("9/8").status().message(), "the shard is 9; it must be from 1 to 8");
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
