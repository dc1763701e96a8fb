// The table of supported checkpoints: it equals the documentation's, and what it states holds.
#include "server/model/supported.h"

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "server/model/config.h"
#include "tokenizer/token_classes.h"

namespace varifocal {
namespace {

constexpr char kSupportedGoldens[] = "tests/testdata/goldens/architectures";

std::string ReadText(const std::string& path) {
  const auto text = ReadFile(path, kConfigFile);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

// As a table of Markdown.
std::string SupportedTable() {
  const auto code = [](const std::string& names) {
    return names.empty() ? std::string() : absl::StrCat("`", absl::StrReplaceAll(names, {{" ", "`, `"}}), "`");
  };
  std::string table =
      "| `model_type` | `architectures` | Text part | Public examples | Verified with | Refused |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const SupportedCheckpoint& row : SupportedCheckpoints()) {
    absl::StrAppend(&table, "| ", code(row.model_type), " | ", code(row.class_name), " | ", code(row.text_types), " | ",
                    row.examples, " | ", absl::StrReplaceAll(row.verified, {{" ", ", "}}), " | ", code(row.refused),
                    " |\n");
  }
  return absl::StrReplaceAll(table, {{"|  |", "| |"}});
}

TEST(SupportedTest, TheDocumentationHasTheTable) {
  EXPECT_THAT(ReadText("docs/checkpoints.md"), testing::HasSubstr(SupportedTable()))
      << "docs/checkpoints.md must contain:\n"
      << SupportedTable();
}

TEST(SupportedTest, EveryTypeHasItsTokenizerClass) {
  for (const SupportedCheckpoint& row : SupportedCheckpoints()) {
    EXPECT_TRUE(HasTokenizerClassRow(row.model_type))
        << row.model_type
        << ": a directory that names no class would be read as one of any type; tokenizer/token_classes.cc";
  }
}

TEST(SupportedTest, EveryGoldenIsNamedWhereItsTypeIs) {
  std::set<std::string> named;
  for (const SupportedCheckpoint& row : SupportedCheckpoints()) {
    for (const absl::string_view name : absl::StrSplit(row.verified, ' ')) {
      named.emplace(name);
      const auto config = ParseModelConfig(ReadText(absl::StrCat(kSupportedGoldens, "/", name, "/config.json")));
      ASSERT_TRUE(config.ok()) << name << ": " << config.status();
      EXPECT_TRUE(config->model_type == row.model_type || config->wrapper == row.model_type) << name;
      if (!row.text_types.empty()) {
        EXPECT_THAT(row.text_types, testing::HasSubstr(config->model_type));
      }
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(kSupportedGoldens)) {
    if (!entry.is_directory()) continue;
    EXPECT_TRUE(named.contains(entry.path().filename().string())) << entry.path();
  }
}

TEST(SupportedTest, WhatItCallsRefusedIsRefusedByName) {
  for (const SupportedCheckpoint& row : SupportedCheckpoints()) {
    const std::vector<std::string> names = absl::StrSplit(row.verified, ' ');
    const absl::StatusOr<Json> good =
        ParseJson(ReadText(absl::StrCat(kSupportedGoldens, "/", names[0], "/config.json")));
    ASSERT_TRUE(good.ok());
    for (const absl::string_view key : absl::StrSplit(row.refused, ' ')) {
      Json edited = *good;
      Json& place = edited.contains("text_config") && row.text_types.empty() ? edited["text_config"] : edited;
      place[std::string(key)] = 77;
      const auto config = ParseModelConfig(edited.dump());
      ASSERT_FALSE(config.ok()) << row.model_type << " " << key;
      EXPECT_TRUE(absl::IsUnimplemented(config.status())) << row.model_type << " " << key << " " << config.status();
      EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr(std::string(key))) << row.model_type;
    }
  }
}

}  // namespace
}  // namespace varifocal
