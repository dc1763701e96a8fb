// A job of two arms with known values: runs of "plain" and "focal" at several numbers of training tokens.
//
// The log-likelihood of run s (from 1) of an arm at T tokens is log2(T / 1000) - 4, plus 0.1 s, plus for "focal" 0.4 + 0.1
// (s - 1), so that the plain arm reaches it with 2^0.4, 2^0.5, 2^0.6 times the tokens. exact_match is right in half of
// the questions, spread over contexts, and for "focal" in three more for each s.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varifocal::db {

struct FakeArmsOptions {
  int64_t seed_count = 3;
  std::vector<int64_t> tokens = {1000, 2000, 4000};
  int64_t question_count = 24;  // four to a context; no multiple of 7
  int64_t answered_count = 24;
};

// Variants "plain-s1-1000", "focal-s1-1000", ..; task "recall" at 1,024 tokens. The file must not exist.
void WriteFakeArms(const std::string& path, const FakeArmsOptions& options = {});

}  // namespace varifocal::db
