// A configuration of upstream: configs/NAME.yaml, whose values correspond to the options of its arguments.py.
//
// Keys that affect prompts and scores are parsed as PyYAML and argparse do; those that select model and paths are
// ignored. A configuration that cannot be reproduced (sampling, for example) is rejected by the key's name.
//
// Errors: INVALID_ARGUMENT with file, line, key and value.
// Source: HELMET commit 4526dfb, arguments.py and eval.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal::helmet {

// One run of upstream: a dataset at one length.
struct ConfigEntry {
  std::string config;   // file name without extension
  std::string dataset;  // upstream's name, such as kilt_nq or icl_nlu_510shot_balance
  std::string test_file;
  std::string demo_file;
  int input_max_length = 8192;  // defaults of upstream's arguments.py
  int generation_max_length = 10;
  std::optional<int> max_test_samples;
  int shots = 2;
  uint32_t seed = 42;
  bool chat = false;
  std::optional<std::string> system_message;  // sent with chat
  bool stop_newline = false;                  // the key read by upstream's program
  bool stop_new_line = false;                 // the key in its configurations
};
// `name` is for messages and ConfigEntry::config.
absl::StatusOr<std::vector<ConfigEntry>> ParseConfig(absl::string_view yaml, const std::string& name);

}  // namespace varifocal::helmet
