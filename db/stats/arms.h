// Which variants of a job are an arm: training runs that differ in their seed alone.
//
// A variant belongs to the arm that its checkpoint states ("training" in config.json, docs/formats.md); run-time settings
// are part of the arm's name: "focal@t=0.7". Runs with other numbers of tokens or parameters, another trained length or
// another attention are other points of the arm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/reader.h"

namespace varifocal::stats {

struct ArmRun {
  int64_t seed = 0;
  std::string variant;
};

struct Arm {
  std::string name;
  db::VariantRecord first;   // of the first seed: what all runs have in common
  std::vector<ArmRun> runs;  // by seed, each seed once

  std::string Label() const;  // "focal, 65,536 tokens, 4 seeds" for messages
};

struct Arms {
  std::vector<Arm> arms;  // by name in the order of the variants; of a name by parameters, tokens, trained length
  std::vector<std::string> notes;  // one sentence for each variant that states an arm and is in none

  std::vector<std::string> Names() const;
};
Arms FindArms(const std::vector<db::VariantRecord>& variants);

// Whether they are compared: equal tokens and trained length, and numbers of parameters within 5 %.
bool IsComparable(const Arm& a, const Arm& b);

}  // namespace varifocal::stats
