// What a row of a comparison is read with: the two sides beside the numbers.
#pragma once

#include <cstdint>

#include "db/reader.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::report {

class AnswerTable;
class GroupTable;
class ThinkingTable;

// Properties of the two sides that are not part of a comparison.
struct ResultContext {
  int64_t baseline_job = 0, candidate_job = 0;
  bool baseline_is_imported = false, candidate_is_imported = false;
  const AnswerTable* answers = nullptr;
  const GroupTable* groups = nullptr;
  const stats::TestedLengths* tested = nullptr;
  const ThinkingTable* thinking = nullptr;
  db::JobEpochs baseline_epochs = {}, candidate_epochs = {};
};

}  // namespace varifocal::report
