// Rows that upstream's scripts wrote: both layouts, lengths as labels, row numbers, and rows that cannot be asked.
#include "eval_tasks/ruler/rows.h"

#include "base/file_roots.h"
#include "eval_tasks/ruler/fixture.h"
#include "gmock/gmock.h"
#include "tests/support/messages.h"

namespace varifocal::ruler {
namespace {

using ::testing::ElementsAre;

// `index` is a place in the text and repeats, as upstream's does.
std::string Row(const std::string& input, const std::string& output, int length) {
  return Json({{"index", 7},
               {"input", input},
               {"outputs", Json::array({output})},
               {"length", length},
               {"answer_prefix", " The"}})
             .dump() +
         "\n";
}

class RowsTest : public RulerFolderTest {
 protected:
  absl::StatusOr<std::unique_ptr<Task>> Open(std::map<std::string, std::string> more = {}, bool chat = false) {
    more.insert({{"task", "niah_single_2"}, {"path", folder_}});
    return OpenRuler("ruler_rows", std::move(more), chat);
  }
};

TEST_F(RowsTest, ReadsBothLayouts) {
  Write("4096/niah_single_2/validation.jsonl", Row("a", "1", 4096) + Row("b", "2", 4000));
  Write("8192/data/niah_single_2/validation.jsonl", Row("c", "3", 8192));
  Write("notes/niah_single_2/validation.jsonl", "x");
  const auto task = Open().value();
  EXPECT_EQ(task->QuestionCountAt(4096).value(), 2);
  EXPECT_EQ(task->QuestionCountAt(8192).value(), 1);
  EXPECT_THAT(task->QuestionCountAt(1024).status().message(), Message("4096, 8192", "1024"));
  const auto counter = CounterOf("models/baseline");
  const Sample sample = task->MakeSample({1, 4096, 1}, *counter).value();
  EXPECT_EQ(sample.prompt, "b The");
  EXPECT_EQ(sample.row_id, "1") << "rows are numbered by line";
  EXPECT_NE(sample.question_id, task->Identify({1, 4096, 0}).question_id);
  EXPECT_EQ(sample.max_new_tokens, 128);
  EXPECT_THAT(sample.gold, ElementsAre("2"));
  EXPECT_EQ(sample.token_ids, counter->EncodePrompt("b The").value());
  EXPECT_EQ(task->Note(), "");
}

TEST_F(RowsTest, APromptMayExceedItsLength) {
  Write("4/niah_single_2/validation.jsonl", Row("one two three four five six seven", "1", 4));
  const Sample sample = Open().value()->MakeSample({1, 4, 0}, *CounterOf("models/baseline")).value();
  EXPECT_LT(sample.shortfall_tokens, 0);
}

TEST_F(RowsTest, AFolderOfTasksHasAStatedLength) {
  Write("niah_single_2/validation.jsonl", Row("a", "1", 4096));
  EXPECT_THAT(Open().status().message(), Message("rows_length"));
  EXPECT_EQ(Open({{"rows_length", "4096"}}).value()->QuestionCountAt(4096).value(), 1);
}

TEST_F(RowsTest, ReadsWhatIsPreparedForNeMoSkills) {
  Write("4096/niah_single_2/test.jsonl",
        R"({"question":"q","expected_answer":["x","y"],"generation":" It is","length":4000})");
  const auto task = Open({{"subset", "test"}}).value();
  const Sample sample = task->MakeSample({1, 4096, 0}, *CounterOf("models/baseline")).value();
  EXPECT_EQ(sample.prompt, "q It is");
  EXPECT_THAT(sample.gold, ElementsAre("x", "y"));
}

TEST_F(RowsTest, ThePrefixBeginsTheAnswerOrIsLeftOut) {
  Write("4096/niah_single_2/validation.jsonl", Row("a", "1", 4096));
  const auto counter = CounterOf("models/baseline");
  EXPECT_EQ(Open({{"answer_prefix", "left_out"}}).value()->MakeSample({1, 4096, 0}, *counter).value().prompt, "a");
  const Sample chat = Open({}, true).value()->MakeSample({1, 4096, 0}, *counter).value();
  EXPECT_EQ(chat.prompt, "a");
  EXPECT_EQ(chat.answer_prefix, "The");
}

TEST_F(RowsTest, RowsOfAnotherTokenizerAreRefusedOnRequest) {
  const auto counter = CounterOf("models/baseline");
  const int own = std::ssize(counter->EncodePiece("a The").value()) + 128;
  Write("4096/niah_single_2/validation.jsonl", Row("a", "1", own) + Row("a", "1", own + 1));
  const auto task = Open({{"tokens", "own"}}).value();
  EXPECT_TRUE(task->MakeSample({1, 4096, 0}, *counter).ok());
  EXPECT_THAT(task->MakeSample({1, 4096, 1}, *counter).status().message(), Message("row 2", own + 1, own));
  EXPECT_TRUE(Open().value()->MakeSample({1, 4096, 1}, *counter).ok());
}

TEST_F(RowsTest, NotesShortAndRepeatedRows) {
  Write("4096/niah_single_2/validation.jsonl", Row("a", "1", 4096) + Row("a", "2", 3489) + Row("b", "2", 3400));
  EXPECT_THAT(Open().value()->Note(), Message("2 of 3", "4096", "3400", "1 of 3"));
}

TEST_F(RowsTest, QuestionsAreScoredByAnyAnswer) {
  Write("4096/qa_1/validation.jsonl", Row("a", "1", 4096));
  const auto spec = RulerSpec("ruler_rows", {{"task", "qa_1"}, {"path", folder_}}).value();
  EXPECT_THAT(spec.metrics, ElementsAre("ruler/string_match_part", "ruler/string_match_all"));
  EXPECT_EQ(MakeTask(spec).value()->Identify({1, 4096, 0}).max_new_tokens, 32);
}

TEST_F(RowsTest, BadRowsAreNamedByTheirLine) {
  const std::string good = Row("a", "1", 4096);
  const std::vector<std::string> bad = {
      R"({"input":"a","answer_prefix":" x"})",
      R"({"input":"a","outputs":[]})",
      R"({"input":"a","outputs":["1",""]})",
      R"({"input":"a","outputs":[1]})",
      R"({"outputs":["1"]})",
      R"({"input":"a","outputs":["1"],"answer_prefix":3})",
      good.substr(0, good.size() / 2),  // a file that was cut
  };
  for (const std::string& row : bad) {
    Write("4096/niah_single_2/validation.jsonl", good + row);
    const absl::Status status = Open().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), Message("row 2"));
  }
}

TEST_F(RowsTest, MissingRowsAreNoticed) {
  EXPECT_THAT(Open().status().message(), Message("niah_single_2", "validation.jsonl"));
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
  Write("4096/niah_single_2/validation.jsonl", Row("a", "1", 4096));
  EXPECT_THAT(Open({{"expected_rows", "500"}}).status().message(), Message("1 row", "500"));
  Write("4096/niah_single_2/validation.jsonl", "");
  EXPECT_THAT(Open().status().message(), Message("0 rows"));
}

TEST_F(RowsTest, FoldersOutsideOfTheRootsAreRefusedAlikeWhetherTheyExistOrNot) {
  Write("rows/4096/niah_single_2/validation.jsonl", Row("a", "1", 4096));
  Write("allowed/x", "");
  FileRoots roots;
  roots.data_roots = {folder_ + "/allowed"};
  ASSERT_TRUE(ConfineFiles(roots).ok());
  for (const char* name : {"/rows", "/absent"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(Open({{"path", folder_ + name}}).status())) << name;
    const auto made = OpenRuler("ruler", {{"task", "vt"}, {"data", folder_ + name}});
    EXPECT_TRUE(absl::IsPermissionDenied(made.status())) << name;
  }
  UnconfineFilesForTesting();
}

TEST_F(RowsTest, OtherRowsAreOtherData) {
  Write("4096/niah_single_2/validation.jsonl", Row("a", "1", 4096));
  auto spec = RulerSpec("ruler_rows", {{"task", "niah_single_2"}, {"path", folder_}}).value();
  spec.parameters["sha256"] = MakeTask(spec).value()->data_sha256();
  EXPECT_TRUE(MakeTask(spec).ok());
  Write("4096/niah_single_2/validation.jsonl", Row("a", "2", 4096));
  EXPECT_TRUE(absl::IsFailedPrecondition(MakeTask(spec).status()));
}

}  // namespace
}  // namespace varifocal::ruler
