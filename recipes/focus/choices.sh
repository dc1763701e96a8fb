#!/usr/bin/env bash
# Choices before and after the frozen retrofit of SmolLM2: k = 8 (dense, bit for bit), 2 and 4 in the product; resumes.
#
#   recipes/focus/choices.sh RUNS SUITE [run flags]    RUNS: that of study.sh, whose run smollm2-frozen is exported;
#                                                      SUITE: choices.yaml of recipes/choice_rows.py; BIN: the programs
set -euo pipefail
mkdir -p "$1"
runs=$(cd "$1" && pwd)
suite=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
bin=$(realpath "${BIN:-../build/release/bin}")
python=${PYTHON:-python3}
export OMP_NUM_THREADS=1
checkpoint=$runs/smollm2-focus
if [ ! -e "$checkpoint/config.json" ]; then
  "$python" -m focus export focus/configs/smollm2-frozen.toml --out "$runs/smollm2-frozen" --cache "$runs/ids" --checkpoint "$checkpoint"
fi
"$bin/varifocal" run "$suite" --model=focus="$checkpoint" --models=focus@focus-top-k=8,focus@focus-top-k=2,focus@focus-top-k=4 \
  --db="$runs/choices.db" --threads=1 "$@"
for k in 2 4; do
  "$bin/varifocal" compare --db="$runs/choices.db" --baseline=focus@focus-top-k=8 --candidate="focus@focus-top-k=$k"
done
