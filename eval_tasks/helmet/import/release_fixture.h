// Test fixture: the small release (testing_release.h) in its own directory, imported and opened as tasks.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "eval_tasks/helmet/import/importer.h"
#include "eval_tasks/helmet/import/testing_release.h"
#include "eval_tasks/helmet/task.h"
#include "gtest/gtest.h"

namespace varifocal::helmet {

namespace fs = std::filesystem;

inline constexpr const char* kTestData = kReleaseFolder;

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void WriteAll(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

class ReleaseTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            absl::StrCat("helmet_", testing::UnitTest::GetInstance()->current_test_info()->name(), "_", getpid());
    fs::remove_all(root_);
    WriteRelease(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

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
    std::vector<std::string> lines = absl::StrSplit(ReadAll((root_ / path).string()), '\n');
    Json row = ParseJson(lines[row_number - 1]).value();
    change(row);
    lines[row_number - 1] = row.dump();
    WriteAll(root_ / path, absl::StrJoin(lines, "\n"));
  }

  fs::path root_;
};

}  // namespace varifocal::helmet
