#!/usr/bin/env bash
# gpu_check.sh on the emulator: its plan, one case, a second call that continues, a failing one, and what a killed call has left.
#
#   deploy/gpu_check_test.sh PROGRAMS        a folder of cuda_selfcheck and gpu_bench
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out=$scratch/out archive=$scratch/back/first.tar.gz
fail() { echo "error: $1" >&2; exit 1; }
flags=(--emulate --bin="$programs" --out="$out" --archive="$archive" --scratch="$scratch/weights")
check() { deploy/gpu_check.sh "${flags[@]}" "$@"; }
passes() { check "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "gpu_check.sh $* exits with $?"; }; }
lines() { grep -cF "\"case\": \"$1\"" "$out/results.jsonl" || true; }

deploy/gpu_check.sh --plan --bin="$programs" >"$scratch/plan"
for step in sm90 products gathered decode together conformance bits turns daemon times sanitizers plans evaluation; do
  grep -qE "^ +$step +[0-9-]+ +[0-9]+ +[0-9]+ " "$scratch/plan" || fail "the plan lacks the step $step"
done
# Every command of the plan is one that the script accepts.
grep -oE 'deploy/gpu_check.sh --only=.*' "$scratch/plan" >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" -eq 4 ] || fail "the plan has other than four commands"
while read -r command; do OUT=$scratch/back bash -c "${command/--bin=build\/pack/--bin=$programs} --plan" >/dev/null || fail "$command is refused"; done <"$scratch/commands"

passes --only=conformance '--cases=^gated$'
tar -tzf "$archive" ./results.jsonl >/dev/null || fail "the archive has no results.jsonl"
grep -qF '| conformance | 1 of 1 |' "$scratch/log" || fail "the table does not come last"
passes --only=conformance '--cases=^(gated|embed)$'
[ "$(lines gated) $(lines embed)" = "1 1" ] || fail "a case that had passed was run again, or another was not"

# A failing step: exit 1, and a step's results are in the archive while the next one runs.
rm "$archive"
status=0
check --only=conformance,sanitizers '--cases=^linear$' --inject=conformance/linear:wrong >"$scratch/log" 2>&1 || status=$?
[ $status -eq 1 ] || fail "a wrong case gives exit $status"
grep -qF 'linear (failed)' "$scratch/log" || fail "the table does not name the failing case"
mkfifo "$scratch/pipe"
rm "$archive"
deploy/gpu_check.sh "${flags[@]}" --only=decode,conformance '--cases=^(decode_bits_one_row|norm|linear)$' --inject=conformance/norm:hang >"$scratch/pipe" 2>&1 &
seen=0
while read -r line; do
  if [ "$line" = "conformance/norm .." ]; then [ -f "$archive" ] && seen=1; kill $!; fi
done <"$scratch/pipe"
status=0
wait $! || status=$?
[ $seen -eq 1 ] || fail "there is no archive before the last step ends"
[ $status -eq 130 ] || fail "a stopped run exits with $status"
[ "$(grep -c '"case": "linear", "status": "ok"' "$out/results.jsonl")" -eq 1 ] || fail "what had failed was not run again"

# A check that does not exist is no success.
! "$programs/cuda_selfcheck" no-such-check 2>/dev/null || fail "cuda_selfcheck accepts a name that nothing has"
echo "gpu_check.sh: plan, continuing, failure and stop as documented"
