// For tests of RULER's tasks: the stand-in data folder, a writable copy of it, tasks by their suite's form.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/task.h"
#include "eval_tasks/testing_jobs.h"
#include "eval_tasks/token_counter.h"
#include "gtest/gtest.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::ruler {

inline constexpr const char* kStandIns = "eval_tasks/ruler/testdata/data";
inline constexpr const char* kJsonFolder = "RULER/scripts/data/synthetic/json";

inline std::shared_ptr<const TokenCounter> CounterOf(const std::string& model) {
  static auto* const counters = new std::map<std::string, std::shared_ptr<const TokenCounter>>();
  std::shared_ptr<const TokenCounter>& counter = (*counters)[model];
  if (counter == nullptr) counter = MakeTokenCounter(Tokenizer::Load(model).value());
  return counter;
}

inline absl::StatusOr<TaskSpec> RulerSpec(const std::string& kind, std::map<std::string, std::string> parameters,
                                          bool chat = false) {
  const std::string name = parameters["task"];
  return Completed({.name = name, .kind = kind, .parameters = std::move(parameters), .chat = chat});
}

inline absl::StatusOr<std::unique_ptr<Task>> OpenRuler(const std::string& kind,
                                                       std::map<std::string, std::string> parameters,
                                                       bool chat = false) {
  ASSIGN_OR_RETURN(const TaskSpec spec, RulerSpec(kind, std::move(parameters), chat));
  return MakeTask(spec);
}

// A folder of its own, removed at the end.
class RulerFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/ruler_", getpid(), "_",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void CopyStandIns() const { std::filesystem::copy(kStandIns, folder_, std::filesystem::copy_options::recursive); }
  void Write(const std::string& name, absl::string_view text) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

  std::string folder_;
};

}  // namespace varifocal::ruler
