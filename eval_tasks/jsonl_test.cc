// A user's rows: templates, grouping and truncation by literals over a byte tokenizer; every malformed row by name.
#include "eval_tasks/tasks/jsonl.h"

#include <unistd.h>

#include <cstdio>
#include <map>

#include "absl/strings/match.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/testing_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

const TokenCounter& Bytes() {
  static const FakeTokenizer tokenizer = FakeTokenizer::Bytes();
  return tokenizer;
}

TaskSpec JsonlSpec(std::map<std::string, std::string> more = {}) {
  more.insert({{"path", "rows.jsonl"}, {"prompt", "{q}?"}, {"gold", "a"}});
  return Completed({.name = "mine", .kind = "jsonl", .parameters = std::move(more)}, 64).value();
}

std::unique_ptr<Task> MakeFromRows(absl::string_view rows, std::map<std::string, std::string> more = {}) {
  return MakeJsonlTask(JsonlSpec(std::move(more)), "rows.jsonl", rows).value();
}

TEST(JsonlTest, FillsTheTemplateAndNamesTheRow) {
  const auto task = MakeFromRows(R"({"q":"who","a":"me","id":"r1"})"
                                 "\n\n"
                                 R"({"q":5,"a":["x","y"],"id":"r2"})"
                                 "\n",
                                 {{"prompt", "{{Q}} {q}?\nA:"}, {"id", "id"}, {"max_new_tokens", "3"}});
  EXPECT_EQ(task->question_count(), 2);
  const Sample first = task->MakeSample({1, 64, 0}, Bytes()).value();
  EXPECT_EQ(first.prompt, "{Q} who?\nA:");
  EXPECT_EQ(first.row_id, "r1");
  EXPECT_EQ(first.question_id, "mine/r1");
  EXPECT_EQ(first.gold, std::vector<std::string>{"me"});
  EXPECT_EQ(first.stop_strings, std::vector<std::string>{"\n"});
  EXPECT_EQ(first.shortfall_tokens, 64 - (1 + 11) - 3);
  const Sample second = task->MakeSample({1, 64, 1}, Bytes()).value();
  EXPECT_EQ(second.prompt, "{Q} 5?\nA:");
  EXPECT_EQ(second.gold, (std::vector<std::string>{"x", "y"}));
  EXPECT_NE(first.cluster, second.cluster);
  EXPECT_EQ(task->data_sha256().size(), 64u);
}

TEST(JsonlTest, RowsOfOneContextAreGrouped) {
  const auto task = MakeFromRows(R"({"c":"book one","q":"1","a":"x"})"
                                 "\n"
                                 R"({"c":"book two","q":"2","a":"x"})"
                                 "\n"
                                 R"({"c":"book one","q":"3","a":"x"})"
                                 "\n",
                                 {{"prompt", "{c} | {q}"}, {"context", "c"}});
  EXPECT_EQ(task->GroupOf(0).count, 2);
  EXPECT_EQ(task->GroupOf(1).first_index, 0);
  EXPECT_EQ(task->GroupOf(2).count, 1);
  const auto group = task->MakeGroup({1, 64, 1}, Bytes());
  ASSERT_EQ(group.size(), 2u);
  EXPECT_EQ(group[0]->prompt, "book one | 1");
  EXPECT_EQ(group[1]->prompt, "book one | 3");
  EXPECT_EQ(group[1]->row_id, "3") << "rows keep their line numbers";
  EXPECT_EQ(group[0]->shared_prefix_bytes, 11);
  EXPECT_EQ(group[0]->cluster, group[1]->cluster);
}

TEST(JsonlTest, ChoicesAreScored) {
  const auto task = MakeFromRows(R"({"q":"w","a":"no","o":["yes","no","well"]})", {{"choices", "o"}});
  const Sample sample = task->MakeSample({1, 64, 0}, Bytes()).value();
  EXPECT_EQ(sample.continuations, (std::vector<std::string>{"yes", "no", "well"}));
  EXPECT_EQ(sample.gold_continuation_indices, std::vector<int>{1});
  EXPECT_EQ(sample.max_new_tokens, 4) << "space for the longest continuation is reserved";
  EXPECT_EQ(sample.metrics[0], "multiple_choice_accuracy");
}

TEST(JsonlTest, AnyGoldAnswerAmongTheChoicesIsRight) {
  const auto right = [](const char* gold) {
    return MakeFromRows(absl::StrCat(R"({"q":"w","a":)", gold, R"(,"o":["red","blue",3]})"), {{"choices", "o"}})
        ->Identify({1, 64, 0});
  };
  EXPECT_EQ(right(R"(["red","blue","3"])").gold_continuation_indices, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(right(R"(["a colour","blue"])").gold_continuation_indices, std::vector<int>{1}) << "not the first one";
  EXPECT_EQ(right(R"([3,"red"])").gold_continuation_indices, (std::vector<int>{0, 2}));
  EXPECT_EQ(right("3").gold, std::vector<std::string>{"3"});
}

// Numbers beyond 64 bits (2^64 is 18446744073709551616), and with more digits than a double has.
TEST(JsonlTest, NumbersAreTextsAsWritten) {
  const auto task = MakeFromRows(R"({"q":12345678901234567890123,"a":12345678901234567890123,"i":18446744073709551617})"
                                 "\n"
                                 R"({"q":"w","a":[18446744073709551615,9007199254740993,1.0,1,true,-0.5],)"
                                 R"("i":18446744073709551618})"
                                 "\n"
                                 R"({"q":"w","a":3.14159265358979323846,"i":100000000000000000000})",
                                 {{"id", "i"}});
  const Sample first = task->MakeSample({1, 64, 0}, Bytes()).value();
  EXPECT_EQ(first.gold, std::vector<std::string>{"12345678901234567890123"});
  EXPECT_EQ(first.prompt, "12345678901234567890123?");
  EXPECT_EQ(first.row_id, "18446744073709551617");
  const Sample second = task->MakeSample({1, 64, 1}, Bytes()).value();
  EXPECT_EQ(second.row_id, "18446744073709551618");
  EXPECT_EQ(second.gold,
            (std::vector<std::string>{"18446744073709551615", "9007199254740993", "1.0", "1", "true", "-0.5"}));
  const Sample third = task->MakeSample({1, 64, 2}, Bytes()).value();
  EXPECT_EQ(third.gold, std::vector<std::string>{"3.14159265358979323846"});
  EXPECT_EQ(third.row_id, "100000000000000000000");
}

// A template that shows nothing of the row, or not the context that it groups by, asks another question than was meant.
TEST(JsonlTest, TheTemplateShowsTheRow) {
  const std::string rows = R"({"q":"w","a":"x","c":"k","o":["x","y"]})";
  const auto error = [&](std::map<std::string, std::string> parameters) {
    return std::string(MakeJsonlTask(JsonlSpec(std::move(parameters)), "rows.jsonl", rows).status().message());
  };
  EXPECT_EQ(
      error({{"context", "c"}}),
      "context: the prompt has no {c}, so no model would see the context; rows that are not independent are named "
      "by `cluster` instead");
  EXPECT_EQ(error({{"context", "c"}, {"choices", "o"}}), error({{"context", "c"}}));
  EXPECT_EQ(error({{"prompt", "What?"}}),
            "prompt: it has no field such as {question}, so every row would ask the same");
  EXPECT_EQ(error({{"prompt", "{{q}}"}}), error({{"prompt", "What?"}})) << "braces are no field";
  EXPECT_EQ(error({{"context", "c"}, {"prompt", "{c}"}}), "");
  EXPECT_EQ(error({{"prompt", "\n"}, {"choices", "o"}}), "") << "the choices are the row's";
}

TEST(JsonlTest, GoldAnswersInTheContextAreFoundWithoutTheirWhiteSpace) {
  const auto task =
      MakeFromRows(absl::StrCat(R"({"c":")", std::string(50, 'x'), R"( Paris","q":"1","a":"Paris\n"})"),
                   {{"prompt", "{c} {q}"}, {"context", "c"}, {"truncate", "end"}, {"max_new_tokens", "1"}});
  EXPECT_FALSE(task->MakeSample({1, 30, 0}, Bytes())->truncation.gold_survived);
}

TEST(JsonlTest, ARowThatDoesNotFitFailsAloneWithBothCounts) {
  const std::string context(40, 'x');
  const auto task = MakeFromRows(absl::StrCat(R"({"c":")", context, R"(","q":"1","a":"g"})", "\n", R"({"c":")", context,
                                              R"(","q":"a much longer question","a":"g"})"),
                                 {{"prompt", "{c} {q}"}, {"context", "c"}, {"max_new_tokens", "8"}});
  const auto group = task->MakeGroup({1, 60, 0}, Bytes());
  EXPECT_TRUE(group[0].ok());
  EXPECT_EQ(group[1].status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(HasReason(group[1].status(), ErrorReason::kPromptTooLong));
  EXPECT_THAT(group[1].status().message(), Message("row 2", "\"mine\"", 64, 8, 60));
}

TEST(JsonlTest, TheContextIsTruncatedAsConfigured) {
  std::string context;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&context, i % 10);
  context.replace(500, 6, "NEEDLE");
  const std::string rows = absl::StrCat(R"({"c":")", context, R"(","q":"1","a":"NEEDLE"})", "\n", R"({"c":")", context,
                                        R"(","q":"longer question","a":"012"})");
  struct Case {
    const char* policy;
    bool needle_survives;
  };
  for (const Case& c : {Case{"end", false}, Case{"start", false}, Case{"middle", false}}) {
    const auto task = MakeFromRows(rows, {{"prompt", "<{c}> {q}"}, {"context", "c"}, {"truncate", c.policy}});
    const auto group = task->MakeGroup({1, 400, 0}, Bytes());
    for (const auto& sample : group) {
      ASSERT_TRUE(sample.ok()) << sample.status();
      EXPECT_GE(sample->shortfall_tokens, 0);
      EXPECT_GT(sample->truncation.cut_token_count, 600);
    }
    EXPECT_LE(group[1]->shortfall_tokens, 16);
    EXPECT_EQ(group[0]->truncation.gold_survived, c.needle_survives) << c.policy;
    EXPECT_TRUE(group[1]->truncation.gold_survived);
    EXPECT_EQ(group[0]->truncation.cut_token_count, group[1]->truncation.cut_token_count) << "the same cut for all";
    EXPECT_EQ(absl::StartsWith(group[0]->prompt, "<0123"), absl::string_view(c.policy) != "start");
    EXPECT_EQ(absl::StrContains(group[0]->prompt, "6789> 1"), absl::string_view(c.policy) != "end");
  }
  const auto whole = MakeFromRows(rows, {{"prompt", "<{c}> {q}"}, {"context", "c"}, {"truncate", "end"}})
                         ->MakeSample({1, 4096, 0}, Bytes());
  EXPECT_EQ(whole->truncation.cut_token_count, 0);
  const auto hopeless = MakeFromRows(rows, {{"prompt", "<{c}> {q}"}, {"context", "c"}, {"truncate", "end"}})
                            ->MakeSample({1, 20, 1}, Bytes());
  EXPECT_EQ(hopeless.status().code(), absl::StatusCode::kOutOfRange);
}

TEST(JsonlTest, EvidenceIsFoundInThePromptAndMissedWhenCut) {
  const std::string rows =
      R"({"c":"aaaaaaaaaa the key is under the mat bbbbbbbbbb","q":"1","a":"mat","e":["under the mat","the key"]})";
  std::map<std::string, std::string> parameters = {
      {"prompt", "{c} {q}"}, {"context", "c"}, {"evidence", "e"}, {"truncate", "end"}, {"max_new_tokens", "1"}};
  const Sample whole = MakeFromRows(rows, parameters)->MakeSample({1, 64, 0}, Bytes()).value();
  ASSERT_EQ(whole.evidence.size(), 2u);
  EXPECT_EQ(whole.prompt.substr(whole.evidence[0].byte_begin, 7), "the key");
  EXPECT_EQ(whole.evidence[0].token_begin, whole.evidence[0].byte_begin + 1) << "after the leading special token";
  EXPECT_EQ(whole.evidence[1].token_end, whole.evidence[1].byte_end + 1);
  EXPECT_TRUE(whole.truncation.gold_survived);
  const Sample cut = MakeFromRows(rows, parameters)->MakeSample({1, 30, 0}, Bytes()).value();
  EXPECT_EQ(cut.evidence.size(), 1u);
  EXPECT_FALSE(cut.truncation.gold_survived);
  parameters["evidence"] = "q";
  EXPECT_THAT(MakeJsonlTask(JsonlSpec(parameters), "rows.jsonl", rows).status().message(),
              Message("rows.jsonl: row 1"));
}

TEST(JsonlTest, AJobRecordsTheDigestOfItsData) {
  const testing_support::TemporaryDirectory directory;
  const std::string path = directory.File("rows.jsonl");
  testing_support::WriteFile(path, R"({"q":"w","a":"x"})");
  JobSpec spec;
  spec.suite.name = "s";
  spec.suite.lengths = {64};
  spec.suite.tasks = {JsonlSpec({{"path", path}})};
  spec.variants = {{"m", {}}};
  spec = ValidateJobSpec(spec).value();
  PinData(MakeGrid(spec).value(), spec);
  EXPECT_TRUE(MakeGrid(FromCanonicalJson(ToCanonicalJson(spec)).value()).ok());
  testing_support::WriteFile(path, R"({"q":"w","a":"y"})");
  EXPECT_EQ(MakeGrid(spec).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(JsonlTest, TruncatesAtCharacterBoundaries) {
  std::string context;
  for (int i = 0; i < 300; ++i) context += "é";
  for (const char* policy : {"end", "start", "middle"}) {
    const auto task = MakeFromRows(absl::StrCat(R"({"c":")", context, R"(","a":"x"})"),
                                   {{"prompt", "{c}"}, {"context", "c"}, {"truncate", policy}});
    for (int length = 100; length < 110; ++length) {
      const Sample sample = task->MakeSample({1, length, 0}, Bytes()).value();
      EXPECT_EQ(sample.prompt.size() % 2, 0u) << policy << length;
      EXPECT_LE(sample.shortfall_tokens, 16);
    }
  }
}

TEST(JsonlTest, MalformedDataIsRejectedWithTheRow) {
  struct Case {
    const char* label;
    std::string rows;
    const char* message;
  };
  const std::string good = R"({"q":"w","a":"x","i":"1","o":["x","y"],"c":"k"})"
                           "\n";
  const Case cases[] = {
      {"bad JSON", good + "{\"q\":", "rows.jsonl: row 2: not JSON at byte 6"},
      {"not an object", "[1]", "rows.jsonl: row 1: is a list, not a JSON object"},
      {"key twice", R"({"q":"w","q":"v"})", "rows.jsonl: row 1: duplicate key \"q\""},
      {"missing field", good + R"({"a":"x","i":"2"})", "rows.jsonl: row 2: the field \"q\" is missing"},
      {"null field", R"({"q":null,"a":"x"})", "rows.jsonl: row 1: the field \"q\" is null"},
      {"field of another type", R"({"q":{},"a":"x"})", "rows.jsonl: row 1: the field \"q\" is an object, not a text"},
      {"missing gold", R"({"q":"w","c":"k"})", "rows.jsonl: row 1: the field \"a\" is missing"},
      {"empty gold", R"({"q":"w","c":"k","a":" "})", "rows.jsonl: row 1: the field \"a\" is empty"},
      {"no gold", R"({"q":"w","c":"k","a":[]})", "rows.jsonl: row 1: the field \"a\" is an empty list"},
      {"one empty gold", R"({"q":"w","c":"k","a":["x",""]})", "rows.jsonl: row 1: text 2 of the field \"a\" is empty"},
      {"null gold", R"({"q":"w","c":"k","a":null})", "rows.jsonl: row 1: the field \"a\" is null"},
      {"a null among gold answers", R"({"q":"w","c":"k","a":["x",null]})",
       "rows.jsonl: row 1: text 2 of the field \"a\" is null"},
      {"lists of gold answers", R"({"q":"w","c":"k","a":[["x"]]})",
       "rows.jsonl: row 1: text 1 of the field \"a\" is a list, not a text"},
      {"gold of wide spaces", "{\"q\":\"w\",\"a\":\"\u3000\u00A0\"}", "rows.jsonl: row 1: the field \"a\" is empty"},
      {"number out of range", R"({"q":"w","a":1e999})", "rows.jsonl: row 1: not JSON: a number is out of range"},
      {"empty id", R"({"q":"w","a":"x","i":""})", "rows.jsonl: row 1: the field \"i\" is empty"},
      {"blank id", R"({"q":"w","a":"x","i":" "})", "rows.jsonl: row 1: the field \"i\" is empty"},
      {"empty cluster", R"({"q":"w","a":"x","i":"1","c":""})", "rows.jsonl: row 1: the field \"c\" is empty"},
      {"blank cluster", R"({"q":"w","a":"x","i":"1","c":"\n"})", "rows.jsonl: row 1: the field \"c\" is empty"},
      {"null cluster", R"({"q":"w","a":"x","i":"1","c":null})", "rows.jsonl: row 1: the field \"c\" is null"},
      {"no gold answer is a choice", R"({"q":"w","a":["u","v"],"i":"1","c":"k","o":["x","y"]})",
       "rows.jsonl: row 1: none of the gold answers is among the choices"},
      {"the same long id",
       R"({"q":"w","a":"x","i":18446744073709551617,"c":"k","o":["x","y"]})"
       "\n"
       R"({"q":"w","a":"x","i":18446744073709551617,"c":"k","o":["x","y"]})",
       "rows.jsonl: row 2: the id is already that of row 1"},
      {"compressed", "\x1F\x8B\x08", "rows.jsonl: is compressed (gzip); unpack it first"},
      {"UTF-16", std::string("\xFF\xFE{\0", 4), "rows.jsonl: is UTF-16; convert it to UTF-8 first"},
      {"UTF-16 without its mark", std::string("{\0\"\0", 4),
       "rows.jsonl: has a NUL byte at offset 1, which no text has; is it UTF-16, or not text at all?"},
      {"missing id", R"({"q":"w","a":"x","c":"k"})", "rows.jsonl: row 1: the field \"i\" is missing"},
      {"duplicate id", good + "\n" + good, "rows.jsonl: row 3: the id is already that of row 1"},
      {"missing cluster", R"({"q":"w","a":"x","i":"1"})", "rows.jsonl: row 1: the field \"c\" is missing"},
      {"one choice", R"({"q":"w","a":"x","i":"1","c":"k","o":["x"]})",
       "rows.jsonl: row 1: has 1 choice; at least 2 are needed"},
      {"gold is no choice", R"({"q":"w","a":"z","i":"1","c":"k","o":["x","y"]})",
       "rows.jsonl: row 1: the gold answer is not among the choices"},
      {"no rows", "\n \n", "rows.jsonl: has no rows; at least 1 is needed"},
      {"bad UTF-8", "{\"q\":\"\xff\",\"a\":\"x\"}",
       "rows.jsonl: row 1: not JSON at byte 7: it is not UTF-8, no character begins there"},
      {"Latin-1", "{\"q\":\"caf\xe9\",\"a\":\"x\"}",
       "rows.jsonl: row 1: not JSON at byte 10: it is not UTF-8, no character begins there"},
  };
  for (const Case& c : cases) {
    const auto task = MakeJsonlTask(JsonlSpec({{"id", "i"}, {"cluster", "c"}, {"choices", "o"}}), "rows.jsonl", c.rows);
    EXPECT_EQ(task.status().code(), absl::StatusCode::kInvalidArgument) << c.label;
    EXPECT_EQ(task.status().message(), c.message) << c.label;
  }
}

TEST(JsonlTest, ReferencesAreForMetricsOfBenchmarks) {
  const std::map<std::string, std::string> more = {{"reference", "r"}};
  const auto task = MakeFromRows(R"({"q":"w","a":"x","r":{"b":[1,"x"],"a":null}})", more);
  EXPECT_EQ(task->Identify({1, 64, 0}).reference_json, R"({"a":null,"b":[1,"x"]})");
  EXPECT_EQ(MakeFromRows(R"({"q":"w","a":"x"})")->Identify({1, 64, 0}).reference_json, "");
  for (const char* row : {R"({"q":"w","a":"x"})", R"({"q":"w","a":"x","r":["x"]})"}) {
    EXPECT_THAT(MakeJsonlTask(JsonlSpec(more), "rows.jsonl", row).status(),
                IsError(absl::StatusCode::kInvalidArgument, Message("rows.jsonl", "row 1", "\"r\"")));
  }
}

TEST(JsonlTest, PromptTokensNeedACutOfThePrompt) {
  EXPECT_THAT(
      MakeJsonlTask(JsonlSpec({{"prompt_tokens", "9"}, {"truncate", "end"}}), "rows.jsonl", R"({"q":"w","a":"x"})")
          .status(),
      IsError(absl::StatusCode::kInvalidArgument, Message("prompt_tokens", "end", "prompt_halves", "prompt_ends")));
}

TEST(JsonlTest, TurnsAreNotCut) {
  TaskSpec spec = JsonlSpec({{"truncate", "prompt_ends"}});
  spec.parameters.erase("prompt");
  spec.parameters["messages"] = "q";
  EXPECT_THAT(MakeJsonlTask(spec, "rows.jsonl", R"({"q":[{"role":"user","content":"w"}],"a":"x"})").status(),
              IsError(absl::StatusCode::kInvalidArgument, Message("prompt_ends")));
}

TEST(JsonlTest, MalformedTemplatesAndFilesAreRejected) {
  const std::string row = R"({"q":"w","a":"x"})";
  for (const char* prompt : {"{q", "q}", "{}", "{q}}", "q"}) {
    const auto task = MakeJsonlTask(JsonlSpec({{"prompt", prompt}}), "rows.jsonl", row);
    EXPECT_EQ(task.status().code(), absl::StatusCode::kInvalidArgument) << prompt;
  }
  const testing_support::TemporaryDirectory directory;
  const std::string absent = directory.File("rows.jsonl");
  EXPECT_THAT(MakeJsonlTask(JsonlSpec({{"path", absent}})).status().message(), Message(absent));
  EXPECT_FALSE(MakeJsonlTask(JsonlSpec({{"path", "."}})).ok()) << "a directory";
  EXPECT_EQ(MakeJsonlTask(JsonlSpec({{"sha256", "00"}}), "rows.jsonl", row).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(MakeJsonlTask(JsonlSpec({{"sha256", "00"}}), "rows.jsonl", row).status().message())
                .find(Sha256Hex(row)),
            std::string::npos)
      << "a caller may name any file that the daemon can read";
  EXPECT_TRUE(MakeJsonlTask(JsonlSpec({{"sha256", Sha256Hex(row)}}), "rows.jsonl", row).ok());
}

TEST(JsonlTest, ReadsAFile) {
  const testing_support::TemporaryDirectory directory;
  const std::string path = directory.File("rows.jsonl");
  testing_support::WriteFile(path, "{\"q\":\"w\",\"a\":\"x\"}\r\n{\"q\":\"v\",\"a\":\"y\"}");
  EXPECT_EQ(MakeTask(JsonlSpec({{"path", path}})).value()->question_count(), 2);
}

}  // namespace
}  // namespace varifocal
