#!/usr/bin/env bash
# Runs one of four shards of a gtest program and prints one line; its output too when it fails (checks.sh calls this).
#
#   deploy/run_shard.sh BIN TEST SHARD
set -uo pipefail
started=$SECONDS
if output=$(GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$3 "$1/$2" --gtest_brief=1 2>&1); then
  echo "-- $1/$2, shard $3 of 4: $(grep -oE '[0-9]+ tests?' <<<"$output" | sed -n 1p), $((SECONDS - started)) s"
else
  echo "$output"
  echo "error: $1/$2 failed; once more: GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$3 $1/$2" >&2
  exit 255  # xargs starts no further shard
fi
