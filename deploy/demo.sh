#!/usr/bin/env bash
# Demo: installs missing packages, builds, starts the daemon with the three shipped models, runs the `quick` suite on them
# over gRPC, and writes demo/report.html. If interrupted, it resumes where it stopped.
#
#   deploy/demo.sh [suite]                `quick` (1K to 8K) unless another suite is named
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-quick}
models=baseline,focal-constant,focal-learned

deploy/install.sh
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset release --target varifocald varifocal
bin=build/release/bin
mkdir -p demo

flags=()
for name in ${models//,/ }; do flags+=("--model=$name=models/$name"); done
port_file=demo/daemon.port
rm -f "$port_file"
"$bin/varifocald" --db=demo/results.db "${flags[@]}" --listen=127.0.0.1:0 --port-file="$port_file" 2>demo/daemon.log &
daemon=$!
trap 'kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true' EXIT
for _ in $(seq 300); do
  [ -s "$port_file" ] && break
  kill -0 "$daemon" 2>/dev/null || { echo "error: the daemon did not start; the last line of demo/daemon.log:" >&2; tail -n 1 demo/daemon.log >&2; exit 1; }
  sleep 0.1
done
address=127.0.0.1:$(cat "$port_file")

"$bin/varifocal" submit "$suite" --daemon="$address" --models="$models" --wait
kill "$daemon"; wait "$daemon" || true
trap - EXIT

for candidate in focal-constant focal-learned; do
  "$bin/varifocal" compare --db=demo/results.db --baseline=baseline --candidate="$candidate"
done
"$bin/varifocal" report --db=demo/results.db --out=demo/report.html
echo "The report is demo/report.html; every answer is a row in demo/results.db."
