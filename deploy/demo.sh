#!/usr/bin/env bash
# Demo: installs missing packages, builds, starts the daemon with the three shipped models, runs the `quick` suite on them
# over gRPC, and writes demo/report.html: when the shortest length is answered, again after every longer one, and at the end.
# If interrupted, it resumes where it stopped.
#
#   deploy/demo.sh [suite]                `quick` (1K to 8K) unless another suite is named
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-quick}
models=baseline,focal-constant,focal-learned
after() { printf '%d min %02d s' $((SECONDS / 60)) $((SECONDS % 60)); }

deploy/install.sh
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset release --target package_files
bin=build/release/bin
mkdir -p demo
built=$SECONDS
echo "built after $(after)"

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

# What a query of one number or name prints, without its heading.
ask() { "$bin/varifocal" query --db=demo/results.db --format=csv "$1" | tail -n +2; }
# The job of this suite is found again after an interruption.
job=$("$bin/varifocal" submit "$suite" --daemon="$address" --models="$models" --format=json | sed -n 's|.*"name": *"jobs/\([0-9]*\)".*|\1|p' | sed -n 1p)
trained=$(ask "SELECT min(trained_context_length) FROM v_variants WHERE job_id = $job")
lengths=$(ask "SELECT DISTINCT context_length FROM v_scores_by_length WHERE job_id = $job ORDER BY 1")
for length in $lengths; do
  [ "$length" -le "$trained" ] && where="within the models' training: decides" || where="beyond the models' training of $trained tokens: extrapolation"
  echo "  $length tokens, $where"
done
echo "all of it in a browser, live:  $bin/varifocal dashboard --db=demo/results.db"

"$bin/varifocal" watch "$job" --daemon="$address" &
watch=$!
written=0
while [ "$written" -lt "$(wc -w <<<"$lengths")" ]; do
  kill -0 "$watch" 2>/dev/null && sleep 2 || break
  answered=$(ask "SELECT count(*) FROM (SELECT min(answered_count + failed_count >= planned_count) AS whole FROM v_scores_by_length
                  WHERE job_id = $job GROUP BY context_length) WHERE whole")
  [ "$answered" -gt "$written" ] && [ "$answered" -lt "$(wc -w <<<"$lengths")" ] || continue
  written=$answered
  "$bin/varifocal" report --db=demo/results.db --job="$job" --out=demo/report.html >/dev/null
  echo "after $(after): demo/report.html has the first $written of $(wc -w <<<"$lengths") lengths, to $(sed -n "${written}p" <<<"$lengths") tokens"
done
wait "$watch"
kill "$daemon"; wait "$daemon" || true
trap - EXIT

for candidate in focal-constant focal-learned; do
  "$bin/varifocal" compare --db=demo/results.db --job="$job" --baseline=baseline --candidate="$candidate"
done
"$bin/varifocal" report --db=demo/results.db --job="$job" --out=demo/report.html
# Means over the tasks. Lengths within training decide; beyond it both models extrapolate.
for candidate in focal-constant focal-learned; do
  echo "$candidate against baseline:"
  "$bin/varifocal" compare --db=demo/results.db --job="$job" --baseline=baseline --candidate="$candidate" --format=csv |
    awk -F, -v trained="$trained" '
      NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
      $at["kind"] != "suite_mean" { next }
      { where = $at["context_length"] <= trained ? "within training" : "beyond training, an extrapolation"
        if ($at["baseline_empty_count"] + $at["candidate_empty_count"] > 0)
          where = where "; empty answers: " $at["baseline_empty_count"] " and " $at["candidate_empty_count"] " of " $at["sample_count"] " each"
        printf "  %6d tokens  %-10s  %+5.1f points  %s\n", $at["context_length"], $at["outcome"], 100 * $at["difference"], where }'
done
echo "after $(after), of which $((built / 60)) min $((built % 60)) s to build: the report is demo/report.html; every answer is a row in demo/results.db."
