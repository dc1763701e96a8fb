// Converts a checkout of HELMET and its data to suites: rows, task indices, one YAML suite per configuration, and a
// manifest of files read, files written and problems.
//
// A dataset that cannot be imported at a length is a problem in the manifest; everything else is written.
//
// Errors: NOT_FOUND and INVALID_ARGUMENT when the checkout has no data.py or a configuration cannot be read; problems
//         of a dataset are in the result.
// Cost:   a pass over each data file (about the speed of SHA-256), one row in memory; on disk at most about 4 bytes per
//         prompt token.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tokenizer/token_rules.h"

namespace varifocal::helmet {

struct ImportOptions {
  std::string checkout;
  std::string data;
  std::string out;
  std::string length_tokenizer;  // directory; "" for none
  TokenizerRules tokenizer_rules = TokenizerRules::kAgreed;
  std::vector<std::string> configs;  // names of configs/NAME.yaml; empty: the families of the paper
  std::vector<int> lengths;          // empty: all
  bool stop_at_newline = false;      // profile "newline": as configured upstream, not as implemented
  bool no_chat = false;              // as upstream's --use_chat_template False, for base models
  std::function<void(const std::string& line)> on_progress;
};

struct ImportedTask {
  std::string task;
  int context_length = 0;
  int row_count = 0;
  int cut_row_count = 0;  // by the length tokenizer
  int gold_lost_count = 0;
};

struct ImportResult {
  std::vector<ImportedTask> tasks;
  std::vector<std::string> suites;    // paths
  std::vector<std::string> changes;   // upstream's texts that differ from the known ones
  std::vector<std::string> problems;  // one sentence each
};

absl::StatusOr<ImportResult> ImportHelmet(const ImportOptions& options);

}  // namespace varifocal::helmet
