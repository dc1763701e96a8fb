// The stored answers of a job, for programs and models that score them, and the scores' way back.
//
// Errors: NOT_FOUND for a job, variant or task that does not exist, or where nothing is left to score.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "client/console.h"
#include "client/flags.h"
#include "client/verb.h"
#include "db/reader.h"

namespace varifocal::client {

// JOB, --db, --variants, --tasks; `out`, the file of scores, is the verb's.
struct StoredAnswerFlags {
  std::string db, job, variants, tasks, out;

  void AddTo(FlagSet& flags);
};

struct StoredAnswer {
  std::string variant;
  db::SampleDetail detail;

  // What identifies it in a file of `import --judgments`.
  Json Identity() const;
};

// In running order: answers with text. Failed samples and choices, which have none, are left out.
absl::StatusOr<int64_t> EachStoredAnswer(const StoredAnswerFlags& flags,
                                         const std::function<absl::Status(const StoredAnswer&)>& use);

// Imports the file of scores `flags.out` into the job, as `import --judgments` does, and prints what was stored. A database
// that a daemon writes gets them through it, where --daemon names it.
absl::Status StoreScores(const StoredAnswerFlags& flags, int64_t job_id, const std::string& source,
                         const GlobalFlags& global, Console& console);

}  // namespace varifocal::client
