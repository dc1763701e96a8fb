// Tasks of imported rows whose files are missing, changed or invalid, requests that no row answers, and errors of the
// tokenizer.
#include "eval_tasks/helmet/task.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/sha256.h"
#include "eval_tasks/helmet/rows.h"
#include "eval_tasks/testing_samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::helmet {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kImported = 120, kMissing = 240, kUnknown = 7;

class HelmetTaskTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const int sentence_count : {1, 40}) {  // the second is truncated
      ImportedRow row;
      row.id = absl::StrCat("id", sentence_count);
      row.question = absl::StrCat("q", sentence_count);
      row.cluster = absl::StrCat("c", sentence_count);
      for (int i = 0; i < sentence_count; ++i) absl::StrAppend(&row.context, "The city is number ", i, ". ");
      row.values = {{"question", "Which city?"}, {"start", "The answer"}};
      row.gold = {"0"};
      row.reference = row.gold;
      rows_.push_back(ToJson(row));
    }
    index_.kind = "default";
    index_.user_template = "{context}\n{question}";
    index_.system_template = "{start}:";
    index_.separator = "\n";
    index_.settings = Json::object();
    index_.lengths[kImported] = {"rows.jsonl", "", 2, 20, "d", "t", "d", ""};
    index_.lengths[kMissing].missing = "its file is missing";
  }

  std::string IndexPath() const { return (folder_ / "index.json").string(); }
  TaskSpec Spec(bool chat) const {
    TaskSpec spec;
    spec.name = "t";
    spec.kind = "helmet";
    spec.chat = chat;
    spec.parameters["path"] = IndexPath();
    return spec;
  }
  void Write() {
    std::string rows;
    for (const Json& row : rows_) rows += row.dump() + "\n";
    testing_support::WriteFile(folder_ / "rows.jsonl", rows);
    index_.lengths[kImported].rows_sha256 = Sha256Hex(rows);
    testing_support::WriteFile(folder_ / "index.json", DumpTaskIndex(index_));
  }
  std::unique_ptr<Task> Open(bool chat = false) {
    Write();
    return MakeHelmetTask(Spec(chat)).value();
  }
  absl::StatusOr<Sample> Made(int row, int length = kImported) {
    return Open()->MakeSample({1, length, row}, Shipped());
  }

  testing_support::TemporaryDirectory directory_;
  fs::path folder_ = directory_.path();
  TaskIndex index_;
  std::vector<Json> rows_;
};

TEST_F(HelmetTaskTest, RequestsWithoutARowAreRejected) {
  EXPECT_EQ(Made(0)->row_id, "id1");
  for (const int index : {-1, 2}) {
    const absl::Status status = Open()->MakeGroup({1, kImported, index}, Shipped())[0].status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(status.message(), Message("\"t\"", "2 rows at 120", index));
  }
  for (const int length : {kMissing, kUnknown}) {
    const absl::Status status = Made(0, length).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), Message("\"t\"", length));
  }
  const std::unique_ptr<Task> task = Open();
  EXPECT_EQ(task->question_count(), 2);
  EXPECT_EQ(task->QuestionCountAt(kMissing).value(), 0);
  EXPECT_EQ(task->WhyNoQuestionsAt(kMissing), "its file is missing");
  EXPECT_EQ(task->WhyNoQuestionsAt(kUnknown), "");
  EXPECT_THAT(task->QuestionCountAt(kUnknown).status().message(), Message("\"t\"", "120, 240", 7));
  EXPECT_EQ(task->Identify({1, kImported, 1}).question_id, "t/q40");
  EXPECT_EQ(task->Identify({1, kImported, 2}).question_id, "t/2");
  EXPECT_EQ(task->Identify({1, kImported, 2}).max_new_tokens, 20);
  EXPECT_EQ(task->Identify({1, kUnknown, 0}).cluster, "t/0");
}

TEST_F(HelmetTaskTest, MissingAndChangedFilesAreRejected) {
  const std::unique_ptr<Task> task = Open();
  fs::remove(folder_ / "rows.jsonl");
  EXPECT_EQ(task->QuestionCountAt(kImported).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(task->MakeSample({1, kImported, 0}, Shipped()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(task->Identify({1, kImported, 0}).question_id, "t/0");
  index_.lengths[kImported].row_count = 3;
  EXPECT_THAT(Made(0).status(), IsError(absl::StatusCode::kFailedPrecondition, Message("rows.jsonl", "2", "3")));
  index_.lengths[kImported].row_count = 2;
  Write();
  std::ofstream(folder_ / "rows.jsonl", std::ios::app) << "\n";
  EXPECT_THAT(MakeHelmetTask(Spec(false)).value()->QuestionCountAt(kImported).status(),
              IsError(absl::StatusCode::kFailedPrecondition, Message()));
  // Truncated after it was opened.
  const std::unique_ptr<Task> opened = Open();
  ASSERT_EQ(opened->QuestionCountAt(kImported).value(), 2);
  fs::resize_file(folder_ / "rows.jsonl", 1);
  EXPECT_EQ(opened->MakeSample({1, kImported, 1}, Shipped()).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(HelmetTaskTest, InvalidRowsAreNamed) {
  const std::vector<Json> valid = rows_;
  for (const char* field : {"id", "question", "cluster", "context", "gold", "values"}) {
    rows_ = valid;
    rows_[0].erase(field);
    const absl::Status status = Made(0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("rows.jsonl: row 1"), HasSubstr(absl::StrCat("\"", field, "\""))));
  }
  for (const char* slot : {"question", "start"}) {
    rows_ = valid;
    rows_[0]["values"].erase(slot);
    EXPECT_THAT(std::string(Made(0).status().message()), HasSubstr(absl::StrCat("slot {", slot, "} has no value")));
  }
}

TEST_F(HelmetTaskTest, InvalidIndicesAreNamed) {
  EXPECT_EQ(MakeHelmetTask(Spec(false)).status().code(), absl::StatusCode::kNotFound);
  Write();
  TaskSpec spec = Spec(false);
  spec.parameters["sha256"] = std::string(64, '0');
  EXPECT_EQ(MakeHelmetTask(spec).status().code(), absl::StatusCode::kFailedPrecondition);
  index_.user_template = "}{context}";
  Write();
  EXPECT_THAT(MakeHelmetTask(Spec(false)).status().message(), Message("0"));
  index_.user_template = "{context}";
  index_.system_template = "Answer {";
  Write();
  EXPECT_THAT(MakeHelmetTask(Spec(true)).status().message(), Message("7"));
  testing_support::WriteFile(folder_ / "index.json", "{}");
  EXPECT_THAT(std::string(MakeHelmetTask(Spec(false)).status().message()),
              testing::AllOf(HasSubstr("index.json: "), HasSubstr("\"format\"")));
}

TEST_F(HelmetTaskTest, ErrorsOfTheTokenizerArePassedOn) {
  FailingTokenizer tokenizer(Shipped());
  const std::unique_ptr<Task> task = Open();
  const SampleRequest request = {1, kImported, 1};
  int call_count = 0;
  for (;; ++call_count) {
    tokenizer.FailAt(call_count + 1);
    const absl::StatusOr<Sample> sample = task->MakeSample(request, tokenizer);
    if (!tokenizer.HasFailed()) {
      EXPECT_EQ(sample->token_ids, task->MakeSample(request, Shipped())->token_ids);
      break;
    }
    EXPECT_THAT(sample.status(), IsError(absl::StatusCode::kAborted, Message()));
  }
  EXPECT_EQ(call_count, 3) << "the prompt, the context's offsets, the truncated prompt";
}

TEST_F(HelmetTaskTest, TruncationRecordsLostGold) {
  EXPECT_TRUE(Made(1)->truncation.gold_survived);
  rows_[1]["gold"] = {"", "number 39"};  // in the last sentence
  const Sample lost = Made(1).value();
  EXPECT_GT(lost.truncation.cut_token_count, 0);
  EXPECT_FALSE(lost.truncation.gold_survived);
  rows_[1]["gold"] = {"number 99"};  // in no sentence
  EXPECT_TRUE(Made(1)->truncation.gold_survived);
  rows_[1]["length_cut_tokens"] = 5;
  rows_[1]["gold_survived_length_cut"] = false;
  const Sample cut_twice = Made(1).value();
  EXPECT_EQ(cut_twice.truncation.cut_token_count, lost.truncation.cut_token_count + 5);
  EXPECT_FALSE(cut_twice.truncation.gold_survived);
  std::string question;
  for (int i = 0; i < 400; ++i) absl::StrAppend(&question, "word", i, " ");
  rows_[0]["values"]["question"] = question;
  EXPECT_THAT(Made(0).status(), IsError(absl::StatusCode::kOutOfRange, Message("id1", "\"t\"", "120")));
}

TEST(HelmetTemplateTest, ValuesAreShownAsPythonShowsThem) {
  const Json shown = {true, false, Json(), 7, 0.5, "a"};
  EXPECT_EQ(PythonRepr(shown).value(), "[True, False, None, 7, 0.5, 'a']");
  EXPECT_EQ(PythonStr(true).value(), "True");
  EXPECT_EQ(PythonStr(false).value(), "False");
  EXPECT_THAT(PythonStr(Json::object()).status().message(), Message("object"));
  EXPECT_THAT(PythonRepr(Json::array({Json::object()})).status().message(), Message("object"));
}

}  // namespace
}  // namespace varifocal::helmet
