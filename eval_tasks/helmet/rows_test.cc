// Every small change of an index and of a row of imported HELMET data: it is accepted, or rejected by name.
#include "eval_tasks/helmet/rows.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/support/json_changes.h"
#include "tests/support/messages.h"

namespace varifocal::helmet {
namespace {

using testing_support::ForEachChange;
using testing_support::JsonChange;

// The status of what reads the changed document.
void ExpectByName(const Json& valid, const std::function<absl::Status(const Json&)>& read) {
  const absl::Status read_as_it_is = read(valid);
  ASSERT_TRUE(read_as_it_is.ok()) << read_as_it_is;
  int rejected_count = 0;
  ForEachChange(valid, [&](const JsonChange& change) {
    const absl::Status status = read(change.changed);
    if (status.ok()) return;
    ++rejected_count;
    SCOPED_TRACE(absl::StrCat(change.path, ": ", change.what, ": ", status.ToString()));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    bool names_a_key = false;
    for (absl::string_view key : absl::StrSplit(change.path, '/', absl::SkipEmpty())) {
      names_a_key = names_a_key || absl::StrContains(status.message(), key);
    }
    EXPECT_TRUE(names_a_key);
  });
  EXPECT_GT(rejected_count, 50);
}

TEST(HelmetRowsTest, EveryChangeOfAnIndexIsAcceptedOrRejectedByName) {
  const Json index = *ParseJson(R"({"format": 1, "kind": "json_kv", "user_template": "{context}", "system_template": "",
    "separator": "\n", "stop_strings": ["\n"], "chat": true, "system_message": "", "settings": {"seed": 42},
    "lengths": {"8192": {"rows": "8192.jsonl", "sha256": "00", "row_count": 100, "max_new_tokens": 100,
                         "dataset": "json_kv", "test_file": "t", "demo_file": "d"},
                "16384": {"missing": "its file"}}})");
  ExpectByName(index, [](const Json& json) { return ParseTaskIndex(json.dump()).status(); });
  const TaskIndex read = *ParseTaskIndex(index.dump());
  EXPECT_EQ(read.lengths.at(16384).missing, "its file");
  EXPECT_EQ(*ParseJson(DumpTaskIndex(read)), index);
}

TEST(HelmetRowsTest, LengthsHaveLimits) {
  const auto with = [](absl::string_view lengths) {
    return std::string(
        ParseTaskIndex(absl::StrCat(R"({"format": 1, "kind": "json_kv", "user_template": "", "system_template": "",
          "separator": "", "stop_strings": [], "chat": false, "lengths": )",
                                    lengths, "}"))
            .status()
            .message());
  };
  const auto entry = [](absl::string_view counts) {
    return absl::StrCat(R"({"8": {"rows": "r", "sha256": "00", "dataset": "d", "test_file": "t", "demo_file": "d", )",
                        counts, "}}");
  };
  EXPECT_EQ(with(R"({"8": {"missing": "x"}})"), "");
  EXPECT_EQ(with("{}"), "\"lengths\" is empty");
  EXPECT_EQ(with(R"({"0": {}})"), "\"lengths\" has the key \"0\", which is not a length");
  EXPECT_EQ(with(R"({"x": {}})"), "\"lengths\" has the key \"x\", which is not a length");
  EXPECT_EQ(with(entry(R"("row_count": 10000001, "max_new_tokens": 1)")),
            "length 8: row_count is 10000001; it must be from 0 to 10000000");
  EXPECT_EQ(with(entry(R"("row_count": 1, "max_new_tokens": 65537)")),
            "length 8: max_new_tokens is 65537; it must be from 1 to 65536");
  EXPECT_THAT(ParseTaskIndex("[]").status().message(), Message("JSON object"));
  EXPECT_THAT(ParseTaskIndex(R"({"format": 2})").status().message(), Message("format 2", 1));
  EXPECT_FALSE(ParseTaskIndex("{").ok());
}

TEST(HelmetRowsTest, EveryChangeOfARowIsAcceptedOrRejectedByName) {
  const Json row =
      *ParseJson(R"({"id": "r", "question": "q", "cluster": "c", "context": "text", "values": {"slot": "v"},
    "gold": ["g"], "depth": 0.5, "reference": [1], "item": {"k": 1}, "length_cut_tokens": 3, "gold_survived_length_cut": false})");
  ExpectByName(row, [](const Json& json) { return RowFromJson(json).status(); });
  EXPECT_EQ(ToJson(*RowFromJson(row)), row);
  Json plain = row;
  plain.erase("length_cut_tokens");
  plain.erase("gold_survived_length_cut");
  EXPECT_EQ(ToJson(*RowFromJson(plain)), plain);
}

}  // namespace
}  // namespace varifocal::helmet
