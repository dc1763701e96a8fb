// Short tasks: prompts and continuations against the requests that lm-evaluation-harness made of the same invented rows
// (recipes/goldens/make_short_tasks.py), without and with demonstrations; bad rows by hand.
#include "eval_tasks/tasks/short.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "eval_tasks/fakes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

absl::StatusOr<std::unique_ptr<Task>> Make(std::map<std::string, std::string> parameters) {
  SuiteSpec suite;
  suite.name = "s";
  suite.lengths = {4096};
  TaskSpec task;
  task.name = task.kind = "short";
  task.parameters = std::move(parameters);
  suite.tasks = {task};
  const absl::StatusOr<SuiteSpec> valid = ValidateSuiteSpec(std::move(suite));
  if (!valid.ok()) return valid.status();
  return MakeTask(valid->tasks[0]);
}

TEST(ShortTaskTest, AsksWhatTheHarnessAsks) {
  std::ifstream file("eval_tasks/testdata/short_tasks.json");
  std::stringstream text;
  text << file.rdbuf();
  const Json golden = ParseJson(text.str()).value();
  const auto tokenizer = MakeTokenCounter(Tokenizer::Load("models/baseline").value());
  int request_count = 0;
  for (const auto& [name, data] : golden.items()) {
    const fs::path rows = WriteRows(name, data["rows"]), pool = WriteRows(name + "_train", data["pool"]);
    for (const int shots : {0, 2}) {
      std::map<std::string, std::string> parameters = {
          {"task", name}, {"path", rows.string()}, {"shots", absl::StrCat(shots)}};
      if (shots > 0 && name != "lambada") parameters["shots_path"] = pool.string();
      const auto task = Make(parameters).value();
      const Json& requests = data[absl::StrCat("requests", shots)];
      ASSERT_EQ(task->question_count(), static_cast<int>(requests.size()));
      for (int i = 0; i < task->question_count(); ++i) {
        const Sample sample = task->MakeSample({1, 4096, i}, *tokenizer).value();
        for (size_t c = 0; c < requests[i].size(); ++c) {
          std::string context = sample.prompt, continuation = sample.continuations[c];
          if (name == "winogrande") {  // the harness has the option in the context
            const std::string& option = sample.continuations[c + 2];
            context += option;
            continuation = continuation.substr(option.size());
          }
          EXPECT_EQ(context, requests[i][c][0].get<std::string>()) << name << " " << shots << " shots, row " << i;
          EXPECT_EQ(continuation, requests[i][c][1].get<std::string>()) << name << " row " << i;
          ++request_count;
        }
      }
    }
    fs::remove(rows);
    fs::remove(pool);
  }
  EXPECT_GE(request_count, 200);
}

TEST(ShortTaskTest, BadRowsAreNamed) {
  const std::pair<const char*, std::pair<Json, const char*>> cases[] = {
      {"arc",
       {{{"question", "q"}, {"answerKey", "E"}, {"choices", {{"text", {"a"}}, {"label", {"A"}}}}}, "labels no choice"}},
      {"boolq", {{{"passage", "p"}, {"question", "q"}, {"label", 2}}, "\"label\" is 2; it must be from 0 to 1"}},
      {"hellaswag",
       {{{"activity_label", "x"}, {"ctx_a", "a"}, {"ctx_b", "b"}, {"label", "0"}}, "\"endings\" must be a list"}},
      {"lambada", {{{"text", "word"}}, "fewer than 2 words"}},
      {"piqa", {{{"goal", "g"}, {"sol1", "s"}, {"label", 0}}, "sol2"}},
      {"winogrande", {{{"sentence", "no blank"}, {"option1", "a"}, {"option2", "b"}, {"answer", "1"}}, "has no \"_\""}},
  };
  for (const auto& [name, bad] : cases) {
    const fs::path rows = WriteRows(absl::StrCat("bad_", name), Json::array({bad.first}));
    EXPECT_THAT(std::string(Make({{"task", name}, {"path", rows.string()}}).status().message()),
                testing::AllOf(HasSubstr(": row 1"), HasSubstr(bad.second)))
        << name;
    fs::remove(rows);
  }
  const fs::path rows = WriteRows("few", Json::array({{{"text", "two words"}}}));
  EXPECT_THAT(std::string(Make({{"task", "lambada"}, {"path", rows.string()}, {"shots", "3"}}).status().message()),
              HasSubstr("has 1 rows; 3 demonstrations for each question need at least 3"));
  EXPECT_FALSE(Make({{"task", "squad"}, {"path", rows.string()}}).ok());
  fs::remove(rows);
}

}  // namespace
}  // namespace varifocal
