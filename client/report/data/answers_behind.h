// The kinds of answers that an outcome rests on: those without which it is another one, or none, as far as they can
// explain it (db/answer_kinds.h).
//
// One kind at a time; where none alone changes the outcome, all kinds that a row has and whose counts differ together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/report/data/answer_table.h"
#include "db/answer_kinds.h"
#include "db/stats/comparison.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

// The answers of a row at one of its lengths.
struct AnswerSides {
  db::AnswerCounts baseline, candidate;
  std::string length;  // "8K" where the row has several, else ""
};

// A change has two lengths, a slope all between its ends.
std::vector<AnswerSides> SidesOf(const stats::Comparison& row, const AnswerTable& answers,
                                 const stats::TestedLengths& tested);
std::vector<AnswerSides> SidesOf(const stats::SuiteComparison& row, const AnswerTable& answers,
                                 const stats::TestedLengths& tested);
std::vector<AnswerSides> SidesOf(const stats::LengthContrast& row, const AnswerTable& answers,
                                 const stats::TestedLengths& tested);

struct AnswersBehind {
  uint32_t marks = 0;
  std::string name;     // "empty"; db::kSeveralKinds
  std::string answers;  // "empty answers", "empty answers, refusals or cut answers"
};
std::vector<AnswersBehind> KindsBehind(const stats::Inference& row, const std::vector<AnswerSides>& sides);

// "55 of 240 of baseline"; at one of several lengths "baseline 55 of 240 at 8K". Of several kinds "5 empty, 4 refused of
// 40 of a".
std::string CountsBehind(uint32_t marks, const std::vector<AnswerSides>& sides);

}  // namespace varifocal::report
