#!/usr/bin/env bash
# All runs of docs/studies/focus_small_model.md and focus_smollm2.md, sequentially, each resuming if interrupted: about two hours of one core.
#
#   recipes/focus/study.sh RUNS [seeds|small|smollm2]       RUNS: a directory for states and logs; PYTHON: the interpreter
#
# deploy/get_smollm2.sh and deploy/get_novels.sh fetch what the last part reads. Losses by window and answers go to recipes/focus/results;
# what has rows there is not measured again.
set -euo pipefail
mkdir -p "$1"
runs=$(cd "$1" && pwd)
part=${2:-all}
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
results=focus/results
export OMP_NUM_THREADS=1

run() {  # configuration, then flags of `windows`
  local config=focus/configs/$1.toml out=$runs/$1
  "$python" -m focus train "$config" --out "$out" --cache "$runs/ids"
  "$python" -m focus windows "$config" --out "$out" --cache "$runs/ids" --csv "$results/$1.csv" "${@:2}"
}

if [ "$part" = all ] || [ "$part" = seeds ]; then
  for seed in 1 2 3; do
    for config in small-frozen-short small-frozen; do
      out=$runs/$config-$seed answers=$results/$config-answers.csv
      [ -e "$answers" ] && grep -q "^$seed," "$answers" && continue
      "$python" -m focus train "focus/configs/$config.toml" --seed "$seed" --out "$out"
      "$python" -m focus export "focus/configs/$config.toml" --seed "$seed" --out "$out" --checkpoint "$out/export"
      "$python" -m focus accuracy "$out/export" --lengths 512 --samples 128 --run "$seed" --draw "$seed" --csv "$answers"
    done
  done
fi
if [ "$part" = all ] || [ "$part" = small ]; then
  run small-frozen-short --top-k 1 2 3 4 8 --controls
  run small-full-short --top-k 1 2 3 4 8 --controls
  run small-softmax-short --top-k 1 2 3 4 8
  run small-full --top-k 1 2 3 4 8 --controls
  run small-softmax --top-k 1 2 3 4 8
fi
if [ "$part" = all ] || [ "$part" = smollm2 ]; then
  run smollm2-frozen --top-k 1 2 3 4 8 --controls
  run smollm2-lora
  run smollm2-constant-gate
  run smollm2-untrained --top-k 2
  # Measurements without training, before the first step.
  "$python" -m focus windows focus/configs/smollm2-constant-gate.toml --out "$runs/smollm2-constant-untrained" --cache "$runs/ids" \
    --csv "$results/smollm2-constant-factors.csv" --factors 0.5 0.7 0.85
fi
