#!/usr/bin/env bash
# A public model on ordinary text: Gemma 3 270M as it is and at run-time temperatures 0.7, 0.85 and 1.15, on recall, ICL,
# RAG and questions on novels (suite `real`). Fetches what is missing into ${VARIFOCAL_CACHE:-~/.cache/varifocal}, prints
# an estimate of the run's cost, and writes demo/real.html. If interrupted, it resumes where it stopped.
#
#   deploy/real_demo.sh [run flags]       e.g. --lengths=8192,16384,32768 (2048,4096 unless given), --limit=8, --dry-run
set -euo pipefail
cd "$(dirname "$0")/.."
temperatures=0.7,0.85,1.15
cache=${VARIFOCAL_CACHE:-$HOME/.cache/varifocal}
started=$SECONDS

deploy/install.sh
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset release --target varifocal
deploy/get_novels.sh
deploy/get_gemma.sh
bin=build/release/bin
mkdir -p demo

ask=("$bin/varifocal" run real --model=gemma="$cache/gemma-3-270m" --focal-temperatures="$temperatures" --db=demo/real.db "$@")
"${ask[@]}" --dry-run
case " $* " in *" --dry-run "*) exit 0 ;; esac
"${ask[@]}"

for temperature in ${temperatures//,/ }; do
  "$bin/varifocal" compare --db=demo/real.db --baseline=gemma --candidate="gemma@t=$temperature"
done
"$bin/varifocal" report --db=demo/real.db --out=demo/real.html
echo "The report is demo/real.html; every answer is a row in demo/real.db. Gemma was run with these temperatures, not trained with them."
echo "deploy/real_demo.sh: $((SECONDS - started)) s"
