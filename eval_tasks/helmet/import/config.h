// A configuration of upstream's: configs/NAME.yaml, whose values stand for the options of its arguments.py.
//
// Keys that change what is asked are read, as PyYAML and argparse would read them; those that say where and with which
// model a run happens are not. A run that cannot be repeated here (drawn answers, say) is refused by the key's name.
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

// One run of upstream's: a dataset at one length.
struct ConfigEntry {
  std::string config;   // file name without extension
  std::string dataset;  // as upstream calls it, such as kilt_nq or icl_nlu_510shot_balance
  std::string test_file;
  std::string demo_file;
  int input_max_length = 8192;  // these as upstream's arguments.py has them
  int generation_max_length = 10;
  std::optional<int> max_test_samples;
  int shots = 2;
  uint32_t seed = 42;
  bool chat = false;
  std::optional<std::string> system_message;  // sent when asked with chat
  bool stop_newline = false;                  // the key that upstream's program reads
  bool stop_new_line = false;                 // the key that its configurations have
};
// `name` is for messages and ConfigEntry::config.
absl::StatusOr<std::vector<ConfigEntry>> ParseConfig(absl::string_view yaml, const std::string& name);

}  // namespace varifocal::helmet
