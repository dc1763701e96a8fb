// For tests of the verbs: the program run in this process on string streams.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "client/program.h"

namespace varifocal::client {

struct Ran {
  ExitCode code;
  std::string out, err;
};

inline Ran Varifocal(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const ExitCode code = RunProgram(args, console);
  return {code, out.str(), err.str()};
}

}  // namespace varifocal::client
