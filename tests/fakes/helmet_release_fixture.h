// Test fixture: the small release (testing_release.h) in its own directory, imported and opened as tasks.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/import/config.h"
#include "eval_tasks/helmet/import/family.h"
#include "eval_tasks/helmet/import/importer.h"
#include "eval_tasks/helmet/import/testing_release.h"
#include "eval_tasks/helmet/import/upstream.h"
#include "eval_tasks/helmet/task.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::helmet {

namespace fs = std::filesystem;

inline constexpr const char* kTestData = kReleaseFolder;

using testing_support::ReadFile;
using testing_support::WriteFile;

class ReleaseTest : public testing::Test {
 protected:
  void SetUp() override { WriteRelease(root_); }

  ImportOptions Options(std::vector<std::string> configs) const {
    ImportOptions options;
    options.checkout = root_.string();
    options.data = (root_ / "data").string();
    options.out = (root_ / "out").string();
    options.length_tokenizer = absl::StrCat(kTestData, "/length_tokenizer");
    options.configs = std::move(configs);
    return options;
  }
  std::unique_ptr<Task> OpenTask(const std::string& name, bool chat) const {
    TaskSpec spec;
    spec.name = name;
    spec.kind = "helmet";
    spec.chat = chat;
    spec.parameters["path"] = (root_ / "out/tasks" / (name + ".json")).string();
    return MakeHelmetTask(spec).value();
  }
  void ChangeRow(const std::string& path, int row_number, const std::function<void(Json&)>& change) const {
    std::vector<std::string> lines = absl::StrSplit(ReadFile(root_ / path), '\n');
    Json row = ParseJson(lines[row_number - 1]).value();
    change(row);
    lines[row_number - 1] = row.dump();
    WriteFile(root_ / path, absl::StrJoin(lines, "\n"));
  }
  // Changes every row of a file.
  void ChangeRows(const std::string& path, const std::function<void(Json&)>& change) const {
    const std::string bytes = ReadFile(root_ / path);
    if (bytes[0] == '[') {
      Json rows = ParseJson(bytes).value();
      for (Json& row : rows) change(row);
      WriteFile(root_ / path, rows.dump());
      return;
    }
    std::string lines;
    for (absl::string_view line : absl::StrSplit(bytes, '\n', absl::SkipEmpty())) {
      Json row = ParseJson(line).value();
      change(row);
      lines += row.dump() + "\n";
    }
    WriteFile(root_ / path, lines);
  }

  testing_support::TemporaryDirectory directory_;
  fs::path root_ = directory_.path();
};

// Changes of a row.
inline std::function<void(Json&)> Erase(const std::string& field) {
  return [field](Json& row) { row.erase(field); };
}
inline std::function<void(Json&)> Set(const std::string& pointer, const Json& value) {
  return [pointer, value](Json& row) { row[Json::json_pointer(pointer)] = value; };
}

// Single datasets of the release, read by their family without the other datasets of a configuration.
class DatasetTest : public ReleaseTest {
 protected:
  void SetUp() override {
    ReleaseTest::SetUp();
    sources_ = {root_.string(),
                (root_ / "data").string(),
                &texts_,
                Tokenizer::Load(absl::StrCat(kTestData, "/length_tokenizer")).value(),
                {}};
    ReadTexts();
    const std::set<fs::path> configs(fs::directory_iterator(root_ / "configs"), fs::directory_iterator{});
    for (const fs::path& path : configs) {
      const std::vector<ConfigEntry> entries = ParseConfig(ReadFile(path), path.stem().string()).value();
      for (const ConfigEntry& entry : entries) entries_.emplace(entry.dataset, entry);
    }
  }
  void ReadTexts() { texts_ = UpstreamTexts::Read(root_.string()).value(); }

  // The rows read before an error are in rows_.
  absl::Status Import(const ConfigEntry& entry) {
    rows_.clear();
    const FamilyInfo& family = *FindFamily(entry.dataset);
    ASSIGN_OR_RETURN(const Prompting prompting, family.prompting(entry));
    for (const char* part : {".user", ".system"}) RETURN_IF_ERROR(texts_.Text(prompting.texts + part).status());
    return family.import(entry, sources_, [&](ImportedRow row) {
      rows_.push_back(std::move(row));
      return on_row_();
    });
  }
  absl::Status Import(const std::string& dataset) { return Import(entries_.at(dataset)); }

  UpstreamTexts texts_;
  Sources sources_;
  std::map<std::string, ConfigEntry> entries_;  // by dataset, the first of the configurations
  std::function<absl::Status()> on_row_ = [] { return absl::OkStatus(); };
  std::vector<ImportedRow> rows_;
};

}  // namespace varifocal::helmet
