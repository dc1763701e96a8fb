// Joins the databases of a job's shards into one: `varifocal merge --out=ALL.db A.db B.db ..`.
//
// Every input has one job, which has ended and names its shard. The inputs must be of one specification, models, number
// formats, tokenizers and code, and no sample may be in two of them. The result is the job that one process would have
// run: equal rows of v_content. It is written to a file beside `out_path` in one transaction, checked, and renamed, so it is
// complete or not there.
//
// Errors:  INVALID_ARGUMENT (fewer than one input; an input that is no shard), FAILED_PRECONDITION (a difference, an overlap,
//          missing shards, a job that has not ended), ALREADY_EXISTS (out_path), and those of SQLite; each names the
//          files.
// Cost:    reads every input once; a few bytes of memory per answer of one input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace varifocal::db {

struct MergeOptions {
  bool allow_missing = false;  // join although shards are missing; their samples stay unanswered
  bool allow_mixed = false;    // join other code versions, backends and instruction sets; labels the result mixed
};

struct MergedJob {
  int64_t shard_count = 0;              // that were joined
  std::vector<int64_t> missing_shards;  // of 1 .. the job's count
  int64_t sample_count = 0;
  int64_t generation_count = 0;
};

absl::StatusOr<MergedJob> MergeShards(const std::vector<std::string>& paths, const std::string& out_path,
                                      const MergeOptions& options = {});

}  // namespace varifocal::db
