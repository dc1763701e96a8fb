// For tests of the verbs: the program run in this process on string streams.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
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

// What a run that succeeded has printed.
inline Ran Done(Ran ran) {
  EXPECT_EQ(ran.code, ExitCode::kDone) << ran.err;
  return ran;
}

// EXPECT_THAT(Varifocal({"delete", "x"}), IsWrongUsage(Message("x")))
template <typename Matcher>
auto Prints(const Matcher& out) {
  return testing::AllOf(testing::Field("code", &Ran::code, ExitCode::kDone), testing::Field("out", &Ran::out, out));
}
template <typename Matcher>
auto FailsWith(const Matcher& err) {
  return testing::AllOf(testing::Field("code", &Ran::code, ExitCode::kFailed), testing::Field("err", &Ran::err, err));
}
template <typename Matcher>
auto IsWrongUsage(const Matcher& err) {
  return testing::AllOf(testing::Field("code", &Ran::code, ExitCode::kWrongUsage),
                        testing::Field("err", &Ran::err, err));
}

inline void PrintTo(const Ran& ran, std::ostream* os) { *os << "out: " << ran.out << "\nerr: " << ran.err; }

}  // namespace varifocal::client
