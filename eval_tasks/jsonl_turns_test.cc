// Rows that are asked by messages, and rows shown with their answers before the asked one: what models get, by literals; which
// rows are drawn, by their properties and by a literal that is the same on every machine; bad ones by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/reason.h"
#include "eval_tasks/fakes.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/tasks/jsonl.h"
#include "eval_tasks/testing_samples.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using Rows = std::map<std::string, std::string>;

absl::StatusOr<TaskSpec> SpecOf(Rows parameters) {
  parameters.insert({{"path", "rows.jsonl"}, {"gold", "a"}});
  return Completed({.name = "mine", .kind = "jsonl", .parameters = std::move(parameters)}, 512);
}

std::unique_ptr<Task> TaskOf(absl::string_view rows, Rows parameters) {
  return MakeJsonlTask(SpecOf(std::move(parameters)).value(), "rows.jsonl", rows).value();
}

std::shared_ptr<const TokenCounter> ChatCounter(std::optional<ChatFormat::Turns> turns) {
  ChatFormat format = Chat();
  format.with_system = {
      .prefix = "<|begin|>system\n", .between = "<|end|>\nuser\n", .suffix = format.without_system.suffix};
  format.turns = std::move(turns);
  return MakeTokenCounter(Tokenizer::Load("models/baseline/tokenizer.json").value(),
                          std::make_shared<const ChatFormat>(format));
}

std::string Shown(const Sample& sample) {
  std::vector<std::string> parts;
  for (const ChatTurn& turn : sample.turns) parts.push_back(absl::StrCat(turn.role, ":", turn.content));
  return absl::StrJoin(parts, "|");
}

constexpr char kTalk[] =
    R"({"m":[{"role":"user","content":"Who?"},{"role":"assistant","content":"She."},{"role":"user","content":"When?"}],"a":"now"})";

TEST(JsonlTurnsTest, MessagesAreAConversationInTheChatFormat) {
  const auto task = TaskOf(kTalk, {{"messages", "m"}});
  EXPECT_TRUE(SpecOf({{"messages", "m"}})->chat) << "there is no other way to ask them";
  EXPECT_TRUE(task->turn_roles().assistant);
  EXPECT_FALSE(task->turn_roles().system);
  const auto counter = ChatCounter(ChatFormat::Turns{.to_assistant = "<|end|>\nmodel\n", .to_user = "<|end|>\nuser\n"});
  const Sample sample = task->MakeSample({1, 512, 0}, *counter).value();
  EXPECT_EQ(Shown(sample), "user:Who?|assistant:She.|user:When?");
  EXPECT_EQ(sample.prompt, "[user]\nWho?\n\n[assistant]\nShe.\n\n[user]\nWhen?");
  const std::string text = absl::StrCat(Chat().without_system.prefix, "Who?<|end|>\nmodel\nShe.<|end|>\nuser\nWhen?",
                                        Chat().without_system.suffix);
  const auto tokenizer = Tokenizer::Load("models/baseline/tokenizer.json").value();
  EXPECT_EQ(sample.token_ids, tokenizer->Encode(text, {.add_special_tokens = false}).value());
  EXPECT_EQ(sample.shortfall_tokens, 512 - sample.prompt_token_count() - 32);
  // Without texts between turns, and without a format, it cannot be asked.
  EXPECT_THAT(task->MakeSample({1, 512, 0}, *ChatCounter({})).status(),
              IsError(absl::StatusCode::kFailedPrecondition, Message(3, "\"turns\"", "chat_format.py")));
  EXPECT_EQ(task->MakeSample({1, 512, 0}, Bytes()).status().code(), absl::StatusCode::kFailedPrecondition);
  // One message is what a prompt is.
  const auto single = TaskOf(R"({"m":[{"role":"user","content":"Who?"}],"a":"x"})", {{"messages", "m"}});
  EXPECT_EQ(single->MakeSample({1, 512, 0}, *ChatCounter({}))->token_ids,
            ChatCounter({})->EncodePrompt("Who?").value());
}

TEST(JsonlTurnsTest, BadMessagesNameTheRowAndTheMessage) {
  const auto refusal = [](const std::string& messages) {
    const std::string rows = absl::StrCat(kTalk, "\n", R"({"m":)", messages, R"(,"a":"x"})");
    const absl::Status status = MakeJsonlTask(SpecOf({{"messages", "m"}}).value(), "rows.jsonl", rows).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << messages;
    EXPECT_TRUE(absl::StartsWith(status.message(), "rows.jsonl: row 2: ")) << status.message();
    return std::string(status.message());
  };
  const std::string user = R"({"role":"user","content":"q"})", assistant = R"({"role":"assistant","content":"r"})";
  EXPECT_THAT(refusal("\"q\""), Message("\"m\"", "a text"));
  EXPECT_THAT(refusal("[]"), Message("\"m\"", "1"));
  EXPECT_THAT(refusal("[3]"), Message("message 1", "\"m\""));
  EXPECT_THAT(refusal(R"([{"role":"user"}])"), Message("\"content\"", "message 1"));
  EXPECT_THAT(refusal(R"([{"role":"user","content":[{"type":"text"}]}])"), Message("\"content\"", "a list"));
  EXPECT_THAT(refusal(R"([{"role":"user","content":"q","name":"x"}])"), Message("\"name\""));
  EXPECT_THAT(refusal(R"([{"role":"tool","content":"q"}])"), Message("message 1", "\"tool\"", "assistant"));
  EXPECT_THAT(refusal(absl::StrCat("[", user, ",", user, "]")), Message("message 2", "user"));
  EXPECT_THAT(refusal(absl::StrCat("[", assistant, ",", user, "]")), Message("message 1", "assistant"));
  EXPECT_THAT(refusal(absl::StrCat("[", user, ",", assistant, "]")), Message("message 2", "last"));
  EXPECT_THAT(refusal(absl::StrCat("[", user, R"(,{"role":"system","content":"s"}])")), Message("message 2", "system"));
  EXPECT_THAT(refusal(R"([{"role":"system","content":"s"}])"), Message("message 1", "system"));
  EXPECT_THAT(refusal(R"([{"role":"user","content":" "}])"), Message("\"content\"", "empty"));
}

TEST(JsonlTurnsTest, ParametersThatDoNotGoTogetherAreRefused) {
  const struct {
    Rows parameters;
    const char* field;
    std::vector<std::string> values;
  } cases[] = {
      {{}, "prompt", {"prompt", "messages"}},
      {{{"prompt", "{q}"}, {"messages", "m"}}, "messages", {"prompt"}},
      {{{"messages", "m"}, {"choices", "c"}}, "choices", {"choices"}},
      {{{"messages", "m"}, {"context", "c"}}, "context", {"context"}},
      {{{"messages", "m"}, {"evidence", "c"}}, "evidence", {"evidence"}},
      {{{"prompt", "{q}"}, {"shots_path", "x"}}, "shots_path", {"shots"}},
      {{{"prompt", "{q}"}, {"shots_seed", "2"}}, "shots_seed", {"shots"}},
      {{{"prompt", "{q}"}, {"shots", "2"}, {"shots_as", "turns"}, {"choices", "c"}}, "shots_as", {"choices"}},
      {{{"prompt", "{q}"}, {"shots", "2"}, {"shots_as", "turns"}, {"shots_separator", "-"}}, "shots_separator", {}},
      {{{"prompt", "{q}"}, {"shots", "65"}}, "shots", {"65", "64"}},
      {{{"prompt", "{q}"}, {"stop", ""}}, "stop", {"form: chat"}},
      {{{"prompt", "{q}"}, {"shots", "0"}}, "shots", {"0", "1"}},
  };
  for (const auto& c : cases) {
    const absl::Status status = SpecOf(c.parameters).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), absl::StrCat("tasks[0].parameters.", c.field));
    EXPECT_THAT(status.message(), MessageMatcher(c.values));
  }
}

std::string NumberedRows(int count, absl::string_view prefix = "q") {
  std::string rows;
  for (int i = 0; i < count; ++i) absl::StrAppend(&rows, "{\"q\":\"", prefix, i, "\",\"a\":\"a", i, "\"}\n");
  return rows;
}

// The literals are those of every machine and standard library: digests decide, no generator of random numbers.
TEST(JsonlShotsTest, AreDrawnBySeedAndNeverTheAskedRow) {
  const Rows parameters = {{"prompt", "{q}?"}, {"shots", "2"}};
  const auto task = TaskOf(NumberedRows(12), parameters);
  std::map<std::string, int> shown;
  for (int i = 0; i < 12; ++i) {
    const Sample sample = task->MakeSample({1, 512, i}, Bytes()).value();
    const std::string asked = absl::StrCat("q", i, "?");
    EXPECT_TRUE(absl::EndsWith(sample.prompt, asked));
    const std::string before = sample.prompt.substr(0, sample.prompt.size() - asked.size());
    EXPECT_FALSE(absl::StrContains(before, asked)) << sample.prompt;
    ++shown[before];
    EXPECT_EQ(task->MakeSample({99, 512, i}, Bytes())->prompt, sample.prompt) << "the data seed changes no row";
  }
  EXPECT_EQ(shown["q2? a2\n\nq6? a6\n\n"], 10) << absl::StrJoin(shown, ",", absl::PairFormatter("="));
  EXPECT_EQ(shown.size(), 3u) << "the two that are shown otherwise have the next one in their place";
  Rows other = parameters;
  other["shots_seed"] = "2";
  EXPECT_NE(TaskOf(NumberedRows(12), other)->MakeSample({1, 512, 0}, Bytes())->prompt,
            task->MakeSample({1, 512, 0}, Bytes())->prompt);
  EXPECT_EQ(TaskOf(NumberedRows(12), {{"prompt", "{q}?"}})->MakeSample({1, 512, 0}, Bytes())->prompt, "q0?");
}

TEST(JsonlShotsTest, RowsOfTheAskedContextAreNotShown) {
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&rows, "{\"c\":\"c", i / 2, "\",\"q\":\"q", i, "\",\"a\":\"a", i, "\"}\n");
  }
  const auto task = TaskOf(rows, {{"prompt", "{c} {q}"}, {"context", "c"}, {"shots", "3"}, {"shots_separator", ";"}});
  for (int first = 0; first < 8; first += 2) {
    const auto group = task->MakeGroup({1, 512, first}, Bytes());
    ASSERT_EQ(group.size(), 2u);
    const std::string context = absl::StrCat("c", first / 2, " ");
    for (const absl::StatusOr<Sample>& sample : group) {
      EXPECT_EQ(sample->prompt.find(context), sample->prompt.rfind(context)) << sample->prompt;
      EXPECT_EQ(std::count(sample->prompt.begin(), sample->prompt.end(), ';'), 3);
    }
    EXPECT_GE(group[0]->shared_prefix_bytes, group[0]->prompt.rfind(context)) << "one prefix for the context";
  }
}

TEST(JsonlShotsTest, ComeFromAnotherFileWhoseDigestIsRecorded) {
  const testing_support::TemporaryDirectory directory;
  const std::string shots = directory.File("shots.jsonl");
  testing_support::WriteFile(shots, absl::StrCat(NumberedRows(2, "s"), R"({"q":"q0","a":"leaked"})"));
  const Rows parameters = {{"prompt", "{q}?"}, {"shots", "2"}, {"shots_path", shots}};
  const auto task = TaskOf(NumberedRows(3), parameters);
  for (int i = 0; i < 3; ++i) {
    const std::string prompt = task->MakeSample({1, 512, i}, Bytes())->prompt;
    EXPECT_FALSE(i == 0 && absl::StrContains(prompt, "leaked")) << "a row with the asked text is the asked row";
    EXPECT_EQ(absl::StrContains(prompt, absl::StrCat("q", i, "? a", i)), false);
  }
  const std::string digest = task->data_sha256();
  EXPECT_NE(digest, TaskOf(NumberedRows(3), {{"prompt", "{q}?"}})->data_sha256());
  testing_support::WriteFile(shots, NumberedRows(4, "s"));
  EXPECT_NE(TaskOf(NumberedRows(3), parameters)->data_sha256(), digest);
  testing_support::WriteFile(shots, absl::StrCat(NumberedRows(1, "s"), R"({"q":"q0","a":"x"})"));
  EXPECT_THAT(MakeJsonlTask(SpecOf(parameters).value(), "rows.jsonl", NumberedRows(3)).status(),
              IsError(absl::StatusCode::kInvalidArgument, Message("shots.jsonl", "1 row", "row 1", "shots is 2")));
}

TEST(JsonlShotsTest, AsTurnsTheyAreMessages) {
  const auto counter = ChatCounter(ChatFormat::Turns{.to_assistant = "<|end|>\nmodel\n", .to_user = "<|end|>\nuser\n"});
  const auto task = TaskOf(NumberedRows(3), {{"prompt", "{q}?"}, {"shots", "2"}, {"shots_as", "turns"}});
  EXPECT_TRUE(task->turn_roles().assistant);
  const std::set<std::string> either = {"user:q1?|assistant:a1|user:q2?|assistant:a2|user:q0?",
                                        "user:q2?|assistant:a2|user:q1?|assistant:a1|user:q0?"};
  EXPECT_EQ(either.count(Shown(task->MakeSample({1, 512, 0}, *counter).value())), 1u);
  // The asked row's system message is first, the others' are left out.
  const auto talks = TaskOf(R"({"m":[{"role":"system","content":"s1"},{"role":"user","content":"q1"}],"a":"a1"})"
                            "\n"
                            R"({"m":[{"role":"system","content":"s2"},{"role":"user","content":"q2"}],"a":"a2"})",
                            {{"messages", "m"}, {"shots", "1"}});
  EXPECT_TRUE(talks->turn_roles().system);
  EXPECT_EQ(Shown(talks->MakeSample({1, 512, 0}, *counter).value()), "system:s1|user:q2|assistant:a2|user:q1");
}

}  // namespace
}  // namespace varifocal
