// Rows that RULER's scripts wrote, from a folder of the user's: LENGTH/TASK/validation.jsonl, LENGTH/data/TASK/validation.jsonl,
// or TASK/validation.jsonl of one stated length.
//
// Fields are NVIDIA's (input, answer_prefix, outputs or output, length) or those of `--prepare_for_ns` in NeMo-Skills
// (question, generation, expected_answer). Rows are numbered by line: upstream's `index` is a place in the text.
//
// Errors:  NOT_FOUND for a folder without rows of the task; INVALID_ARGUMENT "PATH: row N: .." for a row that cannot be
//          asked, and for a number of rows other than the expected one.
// Threads: RowFiles is immutable.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/json_scan.h"
#include "eval_tasks/ruler/kinds.h"

namespace varifocal::ruler {

struct RowFilesRequest {
  std::string folder;
  std::string subset = "validation";  // of the files' names
  int stated_length = 0;              // of a folder without folders by length; 0: none
  int expected_rows = 0;              // of each file; 0: any number
};

class RowFiles {
 public:
  static absl::StatusOr<std::unique_ptr<RowFiles>> Open(const RulerTaskInfo& task, const RowFilesRequest& request);

  std::vector<int> Lengths() const;
  int RowCount(int length) const;  // 0: no file
  absl::StatusOr<RulerRow> Row(int length, int index) const;
  const std::string& sha256() const { return sha256_; }  // of lengths and files
  // Repeated prompts, and rows far below the length, which upstream writes where a sample misses by a token.
  std::string Note() const;

 private:
  struct LengthFile {
    std::unique_ptr<JsonRowFile> file;
    int shortest = 0, longest = 0;
    int short_count = 0, repeat_count = 0;
  };
  absl::Status Read(const RulerTaskInfo& task, int length, const std::string& path, int expected_rows);

  std::string name_, sha256_;
  std::map<int, LengthFile> files_;
};

}  // namespace varifocal::ruler
