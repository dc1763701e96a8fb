// Words of Chinese text as the Python package jieba cuts them (accurate mode, with its hidden Markov model), by the
// dictionary and the tables of the user's own installation.
//
// Source: jieba 0.42.1, Tokenizer.cut and finalseg.cut, to which the words are equal (recipes/goldens).
// Errors: of base/files.h; INVALID_ARGUMENT with file and line for what is no dictionary or table.
// Threads: a Jieba is immutable; Open keeps those that were loaded.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/python/text.h"

namespace varifocal {

class Jieba {
 public:
  // The folder of the package: dict.txt, finalseg/prob_start.py, prob_trans.py, prob_emit.py.
  static absl::StatusOr<std::shared_ptr<const Jieba>> Open(const std::string& folder);

  std::vector<std::string> Cut(absl::string_view text) const;
  const std::string& sha256() const { return sha256_; }  // of dictionary and tables

 private:
  static constexpr int kStateCount = 4;  // B, E, M, S: begin, end, middle of a word, a word alone

  absl::Status Load(const std::string& folder);
  absl::Status LoadDictionary(absl::string_view text);
  int64_t Frequency(const PythonText& text, size_t begin, size_t end) const;  // -1: no word begins so
  void CutBlock(const PythonText& block, std::vector<std::string>& words) const;
  void CutUnknown(const PythonText& text, std::vector<std::string>& words) const;
  void CutByModel(const PythonText& text, std::vector<std::string>& words) const;

  std::unordered_map<std::string, int64_t> frequencies_;  // 0: the start of a word
  double log_total_ = 0;
  double start_[kStateCount] = {}, transition_[kStateCount][kStateCount] = {};
  std::unordered_map<CodePoint, double> emission_[kStateCount];
  std::string sha256_;
};

}  // namespace varifocal
