// Scores of stored answers from elsewhere, such as a user's metric or a judge model: which answers they belong to.
//
// A judgment names an answer by the SHA-256 of its prompt's token ids, and by variant, task, context length and index where
// that is ambiguous. Joined to the answers of a job it is a db::ScoreImport for Writer::ImportScores.
//
// Errors: INVALID_ARGUMENT with the judgment's place: a bad hash or name, a value out of range, a variant that is missing or
//         that the job does not have, two values for one answer; NOT_FOUND no such job, or no judgment belongs to an answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/reader.h"
#include "db/records.h"

namespace varifocal::db {

struct Judgment {
  std::string place;  // for errors: file and line, or file and item
  std::string token_ids_sha256;
  std::optional<std::string> variant, task;
  std::optional<int64_t> context_length, sample_index;
  std::map<std::string, double> scores;  // by name without kImportedPrefix, from 0 to 1
};

struct Judgments {
  std::string source, source_sha256, import_id;  // as in ScoreImport
  std::optional<int64_t> job_id;                 // else the newest job
  std::optional<std::string> variant;            // of all of them, instead of their own; else the job's only one
  std::vector<Judgment> judgments;
};

struct JoinedJudgments {
  int64_t job_id = 0;
  std::vector<ScoreImport> imports;
  int64_t value_count = 0;
  int64_t unknown_count = 0;         // judgments without an answer in the job
  std::vector<std::string> metrics;  // sorted
};

absl::StatusOr<JoinedJudgments> JoinJudgments(Reader& reader, const Judgments& judgments);

// 64 lower-case hexadecimal digits.
absl::Status CheckPromptDigest(const std::string& digest);
// 1 to 64 letters, digits, _, -, ., @ and /.
absl::Status CheckScoreName(const std::string& name);

}  // namespace varifocal::db
