// Short tasks: prompts and continuations against the requests of lm-evaluation-harness for the same synthetic rows
// (recipes/goldens/make_short_tasks.py), without and with demonstrations; bad rows by hand.
#include "eval_tasks/tasks/short.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

#include <unistd.h>

#include "base/json.h"
#include "eval_tasks/testing_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/json_changes.h"
#include "tests/support/messages.h"
#include "tests/support/read_json.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

fs::path WriteRows(const std::string& name, const Json& rows) {
  const fs::path path = fs::path(testing::TempDir()) / absl::StrCat("short_", getpid(), "_", name, ".jsonl");
  std::ofstream file(path);
  for (const Json& row : rows) file << row.dump() << "\n";
  return path;
}

absl::StatusOr<std::unique_ptr<Task>> MakeShort(std::map<std::string, std::string> parameters) {
  ASSIGN_OR_RETURN(const TaskSpec spec, Completed({.kind = "short", .parameters = std::move(parameters)}, 4096));
  return MakeTask(spec);
}

TEST(ShortTaskTest, EqualsTheHarness) {
  const Json golden = testing_support::ReadJson("eval_tasks/testdata/short_tasks.json");
  const auto tokenizer = MakeTokenCounter(Tokenizer::Load("models/baseline").value());
  int request_count = 0;
  for (const auto& [name, data] : golden.items()) {
    const fs::path rows = WriteRows(name, data["rows"]), pool = WriteRows(name + "_train", data["pool"]);
    for (const int shots : {0, 2}) {
      std::map<std::string, std::string> parameters = {
          {"task", name}, {"path", rows.string()}, {"shots", absl::StrCat(shots)}};
      if (shots > 0 && name != "lambada") parameters["shots_path"] = pool.string();
      const auto task = MakeShort(parameters).value();
      const Json& requests = data[absl::StrCat("requests", shots)];
      ASSERT_EQ(task->question_count(), std::ssize(requests));
      for (int i = 0; i < task->question_count(); ++i) {
        const Sample sample = task->MakeSample({1, 4096, i}, *tokenizer).value();
        ASSERT_EQ(sample.continuations.size(), requests[i].size()) << name;
        for (size_t c = 0; c < requests[i].size(); ++c) {
          EXPECT_EQ(absl::StrCat(sample.prompt, sample.Given(c)), requests[i][c][0].get<std::string>())
              << name << " " << shots << " shots, row " << i;
          EXPECT_EQ(sample.Scored(c), requests[i][c][1].get<std::string>()) << name << " row " << i;
          ++request_count;
        }
      }
    }
    fs::remove(rows);
    fs::remove(pool);
  }
  EXPECT_GE(request_count, 290);
}

TEST(ShortTaskTest, BadRowsAreNamed) {
  const std::pair<const char*, std::pair<Json, const char*>> cases[] = {
      {"arc",
       {{{"question", "q"}, {"answerKey", "E"}, {"choices", {{"text", {"a", "b"}}, {"label", {"A", "B"}}}}},
        "\"answerKey\" is not the label of a choice"}},
      {"arc",
       {{{"question", "q"}, {"answerKey", ""}, {"choices", {{"text", {"a", "b"}}, {"label", {"A", "B"}}}}},
        "\"answerKey\" is empty; rows without"}},
      {"arc",
       {{{"question", "q"}, {"answerKey", "A"}, {"choices", {{"text", {"a"}}, {"label", {"A"}}}}},
        "\"choices\" has 1; a choice needs at least 2"}},
      {"arc",
       {{{"question", "q"}, {"answerKey", "A"}, {"choices", {{"text", {"a", "b"}}, {"label", {"A"}}}}},
        "\"choices\" has 1 label for 2 texts"}},
      {"hellaswag",
       {{{"activity_label", "x"}, {"ctx_a", "a"}, {"ctx_b", "b"}, {"label", "1"}, {"endings", {"c"}}},
        "\"endings\" has 1; a choice needs at least 2"}},
      {"winogrande",
       {{{"sentence", "_ b"}, {"option1", "a"}, {"option2", ""}, {"answer", "1"}}, "\"option2\" is empty"}},
      {"boolq", {{{"passage", "p"}, {"question", "q"}, {"label", 2}}, "\"label\" must be from 0 to 1"}},
      {"hellaswag",
       {{{"activity_label", "x"}, {"ctx_a", "a"}, {"ctx_b", "b"}, {"label", "0"}}, "\"endings\" must be a list"}},
      {"boolq",
       {{{"passage", "p"}, {"question", "q"}, {"label", 1}, {"answer", false}},
        "the fields \"answer\" and \"label\" disagree"}},
      {"boolq",
       {{{"passage", "p"}, {"question", "q"}, {"label", "0"}, {"answer", 1}},
        "the fields \"answer\" and \"label\" disagree"}},
      {"boolq",
       {{{"passage", "p"}, {"question", "q"}, {"label", ""}, {"answer", true}}, "\"label\" is empty; rows without"}},
      {"arc",
       {{{"question", "q"}, {"answerKey", "A"}, {"choices", {{"text", {"a", "b"}}, {"label", {"A", "A"}}}}},
        "\"answerKey\" is the label of several choices"}},
      {"lambada", {{{"text", "word"}}, "fewer than 2 words"}},
      {"piqa", {{{"goal", "g"}, {"sol1", "s"}, {"label", 0}}, "sol2"}},
      {"arc", {{{"question", {{"stem", "q"}, {"choices", {1}}}}, {"answerKey", "A"}}, "\"choices\" must hold objects"}},
      {"arc", {{{"question", "q"}, {"answerKey", "A"}}, "\"choices\" must be an object of two lists"}},
      {"boolq", {{{"passage", "p"}, {"question", "q"}}, "\"label\" is missing; rows without their answer"}},
      {"boolq", {{{"passage", "p"}, {"question", "q"}, {"answer", "yes"}}, "\"answer\" is not a whole number"}},
      {"hellaswag",
       {{{"activity_label", "x"}, {"ctx_a", "a"}, {"ctx_b", "b"}, {"label", ""}, {"endings", {"a", "b"}}},
        "\"label\" is empty; rows without their answer"}},
      {"piqa", {{{"goal", "g"}, {"sol1", "s"}, {"sol2", "t"}, {"label", -1}}, "\"label\" must be from 0 to 1"}},
      {"piqa", {{{"goal", "g"}, {"sol1", "s"}, {"sol2", "t"}}, "\"label\" is missing; rows without their answer"}},
      {"winogrande",
       {{{"sentence", "a _ b"}, {"option1", "a"}, {"option2", "b"}, {"answer", ""}}, "\"answer\" is empty; rows"}},
      {"winogrande",
       {{{"sentence", "a _ b"}, {"option1", "a"}, {"option2", "b"}, {"answer", "3"}}, "\"answer\" must be 1 or 2"}},
      {"winogrande", {{{"sentence", "no blank"}, {"option1", "a"}, {"option2", "b"}, {"answer", "1"}}, "has no \"_\""}},
  };
  for (const auto& [name, bad] : cases) {
    const fs::path rows = WriteRows(absl::StrCat("bad_", name), Json::array({bad.first}));
    EXPECT_THAT(std::string(MakeShort({{"task", name}, {"path", rows.string()}}).status().message()),
                testing::AllOf(HasSubstr(": row 1"), HasSubstr(bad.second)))
        << name;
    fs::remove(rows);
  }
  for (const auto& [name, bytes, message] : std::vector<std::tuple<const char*, std::string, const char*>>{
           {"list", "[1]", ": row 1: is a list, not a JSON object"},
           {"gzip", "\x1F\x8B", ": is compressed (gzip); unpack it first"},
           {"utf16", "\xFE\xFF", ": is UTF-16; convert it to UTF-8 first"}}) {
    const fs::path path = WriteRows(name, Json::array());
    std::ofstream(path) << bytes;
    EXPECT_THAT(std::string(MakeShort({{"task", "arc"}, {"path", path.string()}}).status().message()),
                HasSubstr(message));
    fs::remove(path);
  }
  const fs::path rows = WriteRows("few", Json::array({{{"text", "two words"}}}));
  EXPECT_THAT(MakeShort({{"task", "lambada"}, {"path", rows.string()}, {"shots", "3"}}).status().message(),
              Message("1", "3"));
  EXPECT_FALSE(MakeShort({{"task", "squad"}, {"path", rows.string()}}).ok());
  fs::remove(rows);
}

// A question in the hub's layout and in other published layouts, which must be equivalent.
TEST(ShortTaskTest, OtherLayoutsAreEquivalent) {
  const Json hub = {{"question", "q?"}, {"answerKey", "B"}, {"choices", {{"text", {"x", "y"}}, {"label", {"A", "B"}}}}};
  const Json choices = {{{"text", "x"}, {"label", "A"}}, {{"text", "y"}, {"label", "B"}}};
  const std::vector<std::pair<const char*, std::vector<Json>>> cases = {
      {"arc",
       {hub,
        {{"id", "1"}, {"question", {{"stem", "q?"}, {"choices", choices}}}, {"answerKey", "B"}},
        {{"question", "q?"}, {"choices", choices}, {"answerKey", "B"}}}},
      {"boolq",
       {{{"passage", "p"}, {"question", "q"}, {"answer", true}},
        {{"passage", "p"}, {"question", "q"}, {"label", true}, {"idx", 0}},
        {{"passage", "p"}, {"question", "q"}, {"label", 1}},
        {{"passage", "p"}, {"question", "q"}, {"label", 1}, {"answer", true}}}},
      {"hellaswag",
       {{{"activity_label", "x"}, {"ctx_a", "a"}, {"ctx_b", "b"}, {"endings", {"c", "d"}}, {"label", "1"}},
        {{"activity_label", "x"}, {"ctx_a", "a"}, {"ctx_b", "b"}, {"endings", {"c", "d"}}, {"label", 1}}}},
      {"winogrande",
       {{{"sentence", "a _ b"}, {"option1", "x"}, {"option2", "y"}, {"answer", "2"}},
        {{"sentence", "a _ b"}, {"option1", "x"}, {"option2", "y"}, {"answer", 2}}}},
  };
  for (const auto& [name, layouts] : cases) {
    std::vector<Sample> samples;
    for (const Json& row : layouts) {
      const fs::path rows = WriteRows(absl::StrCat("layout_", name), Json::array({row}));
      const auto task = MakeShort({{"task", name}, {"path", rows.string()}}).value();
      samples.push_back(task->Identify({1, 4096, 0}));
      const auto made = task->MakeSample({1, 4096, 0}, *MakeTokenCounter(Tokenizer::Load("models/baseline").value()));
      samples.back().prompt = made.value().prompt;
      fs::remove(rows);
    }
    for (const Sample& sample : samples) {
      EXPECT_EQ(sample.prompt, samples[0].prompt) << name;
      EXPECT_EQ(sample.continuations, samples[0].continuations) << name;
      EXPECT_EQ(sample.gold_continuation_indices, std::vector<int>{1}) << name;
    }
  }
}

// ARC's demonstrations come from the rows themselves without a pool, and then may be the asked row, as in the harness.
TEST(ShortTaskTest, TheAskedRowIsCountedAmongItsDemonstrationsOrLeftOut) {
  const auto arc = [](int i) {
    return Json{{"id", i},
                {"question", absl::StrCat("question ", i)},
                {"answerKey", "A"},
                {"choices", {{"text", {"x", "y"}}, {"label", {"A", "B"}}}}};
  };
  Json twice = arc(0);
  twice["id"] = "the same question under another id";
  const fs::path rows = WriteRows("asked", {arc(0), arc(1), arc(2), arc(3), twice});
  const auto tokenizer = MakeTokenCounter(Tokenizer::Load("models/baseline").value());
  const auto shown_count = [&](const Task& task) {
    int count = 0;
    for (int i = 0; i < task.question_count(); ++i) {
      const std::string prompt = task.MakeSample({1, 4096, i}, *tokenizer).value().prompt;
      const std::string asked = absl::StrCat("Question: question ", i % 4, "\nAnswer: x\n");
      count += prompt.find(asked) != std::string::npos;
    }
    return count;
  };
  std::map<std::string, std::string> parameters = {{"task", "arc"}, {"path", rows.string()}, {"shots", "2"}};
  const auto harness = MakeShort(parameters).value();
  const int count = shown_count(*harness);
  EXPECT_GT(count, 0);
  EXPECT_EQ(harness->Note(),
            absl::StrCat("task \"short\": ", count,
                         " of 5 prompts show the asked question with its answer among the "
                         "demonstrations, as in lm-evaluation-harness; asked_row: exclude leaves it out"));
  parameters["asked_row"] = "harness";
  EXPECT_EQ(MakeShort(parameters).value()->MakeSample({1, 4096, 4}, *tokenizer)->prompt,
            harness->MakeSample({1, 4096, 4}, *tokenizer)->prompt);
  parameters["asked_row"] = "exclude";
  const auto without = MakeShort(parameters).value();
  EXPECT_EQ(shown_count(*without), 0);
  EXPECT_EQ(without->Note(), "");
  parameters["shots"] = "4";
  EXPECT_THAT(MakeShort(parameters).status().message(), Message());
  parameters["asked_row"] = "no";
  EXPECT_FALSE(MakeShort(parameters).ok());
  fs::remove(rows);
}

// PIQA and WinoGrande come with their answers in a second file.
TEST(ShortTaskTest, AnswersMayBeInALabelsFile) {
  const Json row = {{"goal", "g"}, {"sol1", "a"}, {"sol2", "b"}};
  const fs::path rows = WriteRows("apart", {row, row, row});
  const fs::path labels = fs::path(rows).replace_extension().string() + "-labels.lst";
  std::ofstream(labels) << "0\r\n1\n1\n";
  const auto task = MakeShort({{"task", "piqa"}, {"path", rows.string()}}).value();
  EXPECT_EQ(task->Identify({1, 4096, 0}).gold_continuation_indices, std::vector<int>{0});
  EXPECT_EQ(task->Identify({1, 4096, 2}).gold_continuation_indices, std::vector<int>{1});
  const std::string digest = task->data_sha256();
  std::ofstream(labels) << "1\n1\n1\n";
  EXPECT_NE(MakeShort({{"task", "piqa"}, {"path", rows.string()}}).value()->data_sha256(), digest)
      << "the answers changed";
  std::ofstream(labels) << "0\n";
  EXPECT_THAT(MakeShort({{"task", "piqa"}, {"path", rows.string()}}).status().message(), Message("3", "1"));
  Json with_label = row;
  with_label["label"] = 1;
  const fs::path mixed = WriteRows("apart", {row, row, with_label});
  std::ofstream(labels) << "0\n1\n0\n";
  EXPECT_THAT(MakeShort({{"task", "piqa"}, {"path", mixed.string()}}).status().message(),
              Message("3", "\"label\"", "1"));
  fs::remove(labels);
  fs::remove(rows);
}

TEST(ShortTaskTest, EveryChangeOfARowIsAcceptedOrNamed) {
  const Json golden = testing_support::ReadJson("eval_tasks/testdata/short_tasks.json");
  int rejected_count = 0;
  for (const auto& item : golden.items()) {
    const std::string name = item.key();
    testing_support::ForEachChange(item.value()["rows"][0], [&](const testing_support::JsonChange& change) {
      const fs::path path = WriteRows("changed", Json::array({change.changed}));
      const absl::Status status = MakeShort({{"task", name}, {"path", path.string()}, {"shots", "0"}}).status();
      fs::remove(path);
      if (status.ok()) return;
      ++rejected_count;
      SCOPED_TRACE(absl::StrCat(name, change.path, ": ", change.what, ": ", status.ToString()));
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(path.string(), ": row 1")));
      EXPECT_THAT(std::string(status.message()), HasSubstr("\"")) << "a field is named";
    });
  }
  EXPECT_GT(rejected_count, 200);
}

}  // namespace
}  // namespace varifocal
