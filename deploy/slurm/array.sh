#!/usr/bin/env bash
# A job of varifocal as a Slurm array: @SHARDS@ shards, then their merge and its report.
#
#   bash THIS          submits both and prints their numbers
#   bash THIS shard    what a task of the array runs, and
#   bash THIS join     what runs after all of them
#
# Every task has its own database in @DIRECTORY@, on a file system that all nodes see and whose locks work across them. A
# task that is requeued, because its node failed or it was preempted, continues with the samples that are missing there;
# so does the array when this script is submitted again. The join fails, and writes nothing, unless every shard is
# complete.
set -euo pipefail

directory=@DIRECTORY@
program=@PROGRAM@
cd @WORKING_DIRECTORY@

shard() {
  local index=${SLURM_ARRAY_TASK_ID:?is set in a task of the array}
  exec "$program" run @RUN_ARGUMENTS@ --shard="$index/@SHARDS@" --db="$directory/shard-$index.db"
}

join() {
  local shards=() index
  for ((index = 1; index <= @SHARDS@; ++index)); do shards+=("$directory/shard-$index.db"); done
  if [[ ! -e $directory/all.db ]]; then  # requeued after the merge
    "$program" merge --out="$directory/all.db" "${shards[@]}"
  fi
  "$program" report --db="$directory/all.db" --out="$directory/report.html"
}

submit() {
  mkdir -p "$directory/log"
  local script array
  script=$(realpath "$0")
  # --requeue: after a failure of its node a task goes back into the queue; --open-mode keeps the log of the first start.
  array=$(sbatch --parsable --job-name=varifocal --array=1-@SHARDS@ --requeue --open-mode=append \
    --output="$directory/log/shard-%a.txt" @SHARD_OPTIONS@ "$script" shard)
  array=${array%%;*}
  echo "array $array: @SHARDS@ shards"
  local joined
  joined=$(sbatch --parsable --job-name=varifocal-join --dependency="afterok:$array" --kill-on-invalid-dep=yes --requeue \
    --output="$directory/log/join.txt" @JOIN_OPTIONS@ "$script" join)
  echo "join ${joined%%;*}: $directory/all.db and $directory/report.html"
}

case ${1:-submit} in
  submit | shard | join) "${1:-submit}" ;;
  *)
    echo "usage: bash $0 [submit|shard|join]" >&2
    exit 2
    ;;
esac
