#!/usr/bin/env bash
# Checks the CUDA backend on a GPU machine: build, conformance on the device, same bits, compute-sanitizer if installed,
# the daemon if its binaries were carried along, then timings compared with PyTorch and Hugging Face if Python has them.
# Needs nvcc, CMake and a C++ compiler, or carried programs (--bin); no network, no package.
#
#   deploy/gpu_check.sh [--only=STEP,..] [--seconds=590] [--out=DIR] [--bin=DIR] [--cases=REGEX] [--cells=REGEX] [--suite=quick] [--jobs=8]
#                       [--emulate] [--attention-kernel=auto] [--scratch=DIR] [--archive=FILE]
#   deploy/gpu_check.sh --plan [the same flags]
#   deploy/gpu_check.sh --pack=DIR [--lean]
#
#   --plan     prints the steps in their order, with cases and seconds, and runs nothing; without --only the two calls of a lease of 15
#              minutes and the later ones, as commands
#   --archive  everything in --out as this one file, after every step, at the end and when the run is stopped
#   --only     of: sm90, products, gathered, decode, together, conformance, bits, turns, daemon, times, sanitizers, plans, evaluation.
#              turns: a decode step of one model alone and beside a prompt of 8K and of 32K of another, with turns and without. plans and
#              evaluation are run only where they are named. evaluation: questions an hour beside HELMET's way, transformers and vLLM
#              (recipes/whole_evaluation.py).
#              plans: rows of kernels/cuda/product_plans.h, into DIR/plans/rows.txt. sm90: the attention kernel of compute capability 9.0
#              against float64 and the same bits, 10 s a case, then its prefill cells, their variants and the kernel mma's. products: the
#              product kernel of compute capability 9.0, in the same way, beside the library and with its epilogues apart. gathered: attention
#              by groups with gathered keys, in the same way, by mma and by sm90, then its cells beside dense attention and the test of
#              every pair. decode: steps of at most 8 rows by fused kernels and by separate ones, then their cells in turns, with and
#              without weights asked for ahead.
#              together: whole prompts and a prompt's bits by mma, by sm90 attention, and by sm90 products too
#   --attention-kernel  of the steps after these (cuda/attention_choice.h); auto: sm90 with gathered keys and fused decode steps where
#              their cases passed, for the head dims that did
#   --out      results (build/gpu-check/results/DATE-TIME); a directory of an earlier run: what passed there is not repeated
#   --bin      cuda_selfcheck, gpu_bench, varifocald and varifocal from there, or what --pack wrote there; nothing is built
#   --pack     builds these four to be carried (static but for the C library) into DIR/programs.tar.xz; fails when it and the working
#              tree exceed 64 MiB. --lean takes tests/ and models/focus, which no step reads, out of the working tree then
#              (git sparse-checkout disable brings them back)
#   --cases    only conformance cases whose name matches
#   --cells    only timings of the step times whose name matches
#   --scratch  models' random weights (build/gpu-check/scratch), kept: a later process or call does not write them again
#   --jobs     conformance cases and sanitizers at once (8; with --emulate 1, and 1 must be given for a device in
#              exclusive-process mode); the daemon and the timings have the device to themselves
#   --suite    the suite for the daemon's three shipped models (standard takes longer)
#   --emulate  the whole script on the emulator with tiny shapes, the peers on the CPU: tests the script
#   --inject=STEP/NAME:hang|crash|wrong    makes a conformance case or a cell (times/NAME) do so, to rehearse what is left then
#
# Each case is a process of its own with a limit; its name is printed when it starts, its log and its line in
# DIR/results.jsonl are written when it ends, and the run continues whatever happened. Each step has a share of --seconds, so that
# no step takes another's; a step alone has them all. Tables come last, also after SIGTERM (DIR/tables.md: recipes/gpu_table.py). Exit 0: success; 1: failure;
# 2: invalid usage; 3: built, but no device; 130: stopped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
steps=sm90,products,gathered,decode,together,conformance,bits,turns,daemon,times,sanitizers,plans,evaluation  # in this order
only='' seconds=590 suite=quick jobs='' emulate=0 out='' bin='' cells='' cases='' pack='' lean=0 kernel=auto plan=0 archive='' scratch=''
declare -A inject=()
usage() { echo "error: $1" >&2; exit 2; }
for flag in "$@"; do
  case $flag in
    --only=*) only=${flag#*=} ;;
    --seconds=*) seconds=${flag#*=} ;;
    --out=*) out=${flag#*=} ;;
    --bin=*) bin=${flag#*=} ;;
    --pack=*) pack=${flag#*=} ;;
    --cells=*) cells=${flag#*=} ;;
    --cases=*) cases=${flag#*=} ;;
    --scratch=*) scratch=${flag#*=} ;;
    --lean) lean=1 ;;
    --suite=*) suite=${flag#*=} ;;
    --jobs=*) jobs=${flag#*=} ;;
    --attention-kernel=*) kernel=${flag#*=} ;;
    --emulate) emulate=1 ;;
    --plan) plan=1 ;;
    --archive=*) archive=${flag#*=} ;;
    --inject=*:*) injected=${flag#*=}; inject[${injected%%:*}]=${injected#*:} ;;
    *) usage "unknown flag $flag; the flags are --only= --seconds= --out= --bin= --pack= --lean --cases= --cells= --scratch= --suite= --jobs= --emulate --plan --archive= --attention-kernel= --inject=" ;;
  esac
done
[ -n "$jobs" ] || jobs=$((emulate ? 1 : 8))
named=$only
[ -n "$only" ] || only=${steps%,plans,*}
[[ $jobs =~ ^[1-9][0-9]*$ ]] || usage "--jobs=$jobs is not a number of processes"
for step in ${only//,/ }; do
  [[ ,$steps, == *,$step,* ]] || usage "unknown step $step; the steps are ${steps//,/, }"
done
[[ $only == evaluation || ,$only, != *,evaluation,* ]] || usage "--only=$only: evaluation takes all of the time, so it is a run of its own"
wanted() { [[ ,$only, == *,$1,* ]]; }
# Shares of the steps that are wanted; times has what the others leave besides.
declare -A share=([sm90]=100 [products]=75 [gathered]=40 [decode]=50 [together]=60 [conformance]=50 [bits]=25 [turns]=40 [daemon]=25 [times]=165
  [sanitizers]=50 [plans]=60 [evaluation]=590)
shares=0
for step in ${steps//,/ }; do ! wanted "$step" || shares=$((shares + share[$step])); done
share_of() { echo $((share[$1] * seconds / shares)); }
step_end=$seconds
# begin STEP: whether it is wanted; then its time begins.
begin() {
  wanted "$1" || return 1
  step_end=$((SECONDS + $(share_of "$1")))
  [ "$1" != times ] || step_end=$((seconds - $(wanted sanitizers && share_of sanitizers || echo 0) - $(wanted plans && share_of plans || echo 0)))
  [ $step_end -le "$seconds" ] || step_end=$seconds
}
left() { echo $((step_end - SECONDS)); }

build=build/gpu-check
programs=(cuda_selfcheck gpu_bench varifocald varifocal)
if [ -n "$pack" ]; then
  [ -d tests ] || git sparse-checkout disable || exit 1  # left out by --lean before; the build reads it
  cmake --preset cuda-portable >/dev/null && cmake --build --preset cuda-portable --target "${programs[@]}" || exit 1
  build/cuda-portable/bin/cuda_selfcheck gate || exit 1
  mkdir -p "$pack"
  stripped=$(mktemp -d) || exit 1
  trap 'rm -rf "$stripped"' EXIT
  for program in "${programs[@]}"; do strip -o "$stripped/$program" "build/cuda-portable/bin/$program" || exit 1; done
  # The programs have the same kernels, so the dictionary spans them all.
  tar -C "$stripped" -cf - "${programs[@]}" | xz -T1 --lzma2=preset=6,dict=128MiB >"$pack/programs.tar.xz" || exit 1
  bytes=$(stat -c %s "$pack/programs.tar.xz")
  [ $lean -eq 0 ] || git sparse-checkout set --no-cone '/*' '!/tests/' '!/models/focus/' || exit 1
  tree=$(git ls-files -z --cached --others --exclude-standard | xargs -0 stat -c %s 2>/dev/null | awk '{sum += $1} END {print sum + 0}')
  echo "$pack/programs.tar.xz: ${#programs[@]} programs, $((bytes >> 20)) MiB; they need $(ldd "$stripped/gpu_bench" | awk '{print $1}' | tr '\n' ' ')"
  echo "working tree $((tree >> 20)) MiB, with the archive $(((tree + bytes) >> 20)) of 64"
  [ $((tree + bytes)) -le $((64 << 20)) ] || { echo "error: tree and archive have $((tree + bytes)) bytes, above 64 MiB; --lean leaves tests/ and models/focus out" >&2; exit 1; }
  exit 0
fi

if [ $plan -eq 1 ]; then
  if [ -z "$named" ]; then
    flags="--bin=${bin:-build/pack} --out=build/gpu-check/results/lease"
    echo 'A lease of 15 minutes, after deploy/gpu_check.sh --pack=build/pack --lean; what lies in $OUT comes back, and build/ is left out by git:'
    calls=(400:sm90,products,gathered,decode,together,conformance,bits:first 280:turns,daemon,times,sanitizers:second
      480:plans,times,sanitizers:third 480:evaluation:fourth)
    for call in "${calls[@]}"; do
      IFS=: read -r seconds only name <<<"$call"
      [ $name != third ] || echo $'\nOther leases:'
      printf '\n  deploy/gpu_check.sh --only=%s --seconds=%d %s --archive=$OUT/%s.tar.gz\n' "$only" "$seconds" "$flags" $name
      "$0" --plan --only="$only" --seconds="$seconds" ${bin:+--bin="$bin"} | sed 's/^/    /'
    done
    exit 0
  fi
  checker=$build/bin/cuda_selfcheck
  [ -z "$bin" ] || checker=$bin/cuda_selfcheck
  [ -x "$checker" ] || echo "(no program $checker yet, so cases are not counted)"
  declare -A list=([products]=products [sm90]=wide-attention [gathered]=gathered [decode]=decode [conformance]=conformance [bits]=same-bits [sanitizers]=sanitizers)
  declare -A what=([sm90]="cases 10 s each, then its cells, its variants and mma in turns"
    [gathered]="cases by mma and by sm90, 10 s each, then cells of Focus gathered, masked and dense in turns" [decode]="fused and separate kernels, 10 s each, then cells in turns"
    [conformance]="against float64, 60 s each"
    [bits]="again with our own products, 60 s each" [turns]="a step alone and beside a prompt, 3 rounds a cell" [daemon]="suite $suite on three models"
    [products]="cases 60 s each, then layer products and a layer, own, its epilogues apart and the library's in turns" [plans]="fastest of cuBLASLt's algorithms with equal bits, for 20 shapes" [times]="cells, most important first, in turns with their peers" [together]="whole prompts of 8K and 16K and their bits: mma, sm90 attention, sm90 products too"
    [sanitizers]="racecheck and synccheck of the smallest and of gathered keys, then memcheck of all, 60 s each"
    [evaluation]="questions an hour, 2.7b or then 8b, at 8K to 32K, beside HELMET's way, transformers and vLLM")
  begins=0
  printf '%-12s %6s %8s %8s  %s\n' step cases 'from s' 'to s' what
  for step in ${steps//,/ }; do
    wanted "$step" || continue
    cases=-
    if [ -x "$checker" ] && [ -n "${list[$step]:-}" ]; then cases=$("$checker" --list="${list[$step]}" --device=emulated | wc -l); fi
    ends=$((begins + $(share_of "$step")))
    printf '%-12s %6s %8d %8d  %s\n' "$step" "$cases" $begins $ends "${what[$step]}"
    begins=$ends
  done
  echo "$jobs cases at once; what is left out continues with --out; the table comes last${archive:+, and $archive}"
  exit 0
fi

[ -n "$out" ] || out=$build/results/$(date -u +%Y%m%d-%H%M%S)
[ -n "$scratch" ] || scratch=$build/scratch$([ $emulate -eq 0 ] || echo -tiny)
mkdir -p "$out" "$scratch" || exit 2
python=$(command -v "${PYTHON:-python3}" || true)
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
[ $emulate -eq 0 ] || sanitizer=''
results=$out/results.jsonl
touch "$results"

# Of a case that ran twice the last result counts.
last() { tac "$results" | awk -F'"' '!seen[$4, $8]++' | tac; }
save_archive() {
  [ -n "$archive" ] || return 0
  mkdir -p "$(dirname "$archive")"
  tar -C "$out" --exclude=model -czf "$archive.new" . || [ $? -eq 1 ] && mv "$archive.new" "$archive"
}
# The tables, the archive, and whether all passed.
finish() {
  local step kind count failed
  echo
  for step in $(last | awk -F'"' '!seen[$4]++ {print $4}'); do
    printf '%-12s' "$step"
    for kind in ok failed crash hang left-out skipped; do
      count=$(last | awk -F'"' -v step="$step" -v kind=$kind '$4 == step && $12 == kind' | wc -l)
      [ "$count" -eq 0 ] || printf ' %s %s' "$count" "$kind"
    done
    echo
  done
  last | grep -vE '"status": "(ok|skipped|left-out)"' | sed 's/^/  /'
  failed=$(last | grep -cvE '"status": "(ok|skipped)"')
  echo "deploy/gpu_check.sh: $SECONDS s, results in $out, $([ "$failed" -eq 0 ] && echo 'no failure' || echo 'NOT all passed')"
  if [ -n "$python" ] && "$python" recipes/gpu_table.py "$out" >"$out/tables.md"; then cat "$out/tables.md"; fi
  save_archive && [ -z "$archive" ] || echo "$archive: $(($(stat -c %s "$archive") >> 10)) KiB"
  [ "$failed" -eq 0 ]
}
stop() {
  trap '' INT TERM
  kill $(jobs -p) 2>/dev/null
  wait
  echo "stopped after $SECONDS s"
  finish
  exit 130
}
trap stop INT TERM

# record STEP NAME STATUS EXIT SECONDS MESSAGE: a line of results.jsonl and of the terminal.
record() {
  local message
  message=$(printf '%s' "$6" | tr '\n\t' '  ' | tr -d '\000-\037' | sed 's/[\\"]/\\&/g' | cut -c1-400)
  printf '{"step": "%s", "case": "%s", "status": "%s", "exit": %d, "seconds": %d, "message": "%s"}\n' \
    "$1" "$2" "$3" "$4" "$5" "$message" >>"$results"
  echo "$1/$2: $3 ($5 s)${6:+: $6}"
}
# run_case STEP NAME LIMIT COMMAND..: one process; a name that passed in this directory before is not repeated.
run_case() {
  local step=$1 name=$2 limit=$3 log=$out/$1/$2.log status=0 started=$SECONDS kind message
  shift 3
  ! grep -qF "{\"step\": \"$step\", \"case\": \"$name\", \"status\": \"ok\"" "$results" || return 0
  echo "$step/$name .."
  [ "$limit" -le "$(left)" ] || limit=$(left)
  if [ "$limit" -lt 5 ]; then record "$step" "$name" left-out 0 0 "no time left; --out=$out continues from here"; return; fi
  mkdir -p "$out/$step"
  # In the background, so that a signal is answered at once; without the shell's own line about a signal.
  {
    timeout -k 5 "$limit" "$@" >"$log" 2>&1 </dev/null &
    [ $BASHPID = $$ ] || trap "kill $!; exit 143" TERM
    wait $! || status=$?
  } 2>/dev/null
  message=$(grep -aiE 'error|fail|skipped' "$log" | tail -n 1)
  [ -n "$message" ] || message=$(grep -av '^$' "$log" | tail -n 1)
  case $status in
    0) kind=ok; [[ $message != skipped* ]] || kind=skipped; [ $kind = skipped ] || message='' ;;
    124 | 137) kind=hang; message="not finished in $limit s; last line: $message" ;;
    13[0-9] | 14[0-9] | 15[0-9]) kind=crash; message="signal $((status - 128)); last line: $message" ;;
    *) kind=failed ;;
  esac
  record "$step" "$name" $kind $status $((SECONDS - started)) "$message"
}
# run_set STEP LIST LIMIT COMMAND..: every conformance case of a list, its --case and --device last.
run_set() {
  local step=$1 list=$2 limit=$3 name extra case_kernel case_products=auto
  case_kernel=$(best_attention)
  case $step in
    sm90) case_kernel=sm90 ;;
    gathered | *-mma) case_kernel=mma:focus=gathered ;;
    *-sm90) case_kernel=sm90:focus=gathered ;;
    products) case_products=sm90 ;;
    memcheck | racecheck | synccheck) ! passed products || case_products=sm90 ;;
  esac
  shift 3
  for name in $("$selfcheck" --list="$list" --device=$device | grep -E -- "$cases"); do
    extra=() case_limit=$limit
    if [ -n "${inject[$step/$name]:-}" ]; then extra=(--inject="${inject[$step/$name]}") case_limit=6; fi
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    run_case "$step" "$name" "$case_limit" "$@" "$selfcheck" --case="$name" --device=$device --attention-kernel="$case_kernel" --product-kernel=$case_products "${extra[@]}" &
  done
  wait
  # The first case that fails again, with its reason. A sanitizer's own cases are not run twice.
  name=$(last | awk -F'"' -v step="$step" '$4 == step && $8 !~ /^(times|memcheck)-/ && $12 ~ /^(failed|crash|hang)$/ {print $8; exit}')
  if [ -n "$name" ] && [ -n "$sanitizer" ] && [[ $* != *CUBLASLT* ]]; then
    run_case "$step" "memcheck-$name" 20 env VARIFOCAL_CUBLASLT=off "$sanitizer" --tool memcheck --error-exitcode 1 --print-limit 5 \
      "$selfcheck" --case="$name" --device=$device --attention-kernel="$case_kernel" --product-kernel=$case_products
  fi
}
# passed STEP [PART]: whether cases of a step (whose name has PART) were run in this directory and all are right.
passed() {
  last | awk -F'"' -v step="$1" -v part="${2:-}" '$4 == step && $8 !~ /^(times|memcheck)-/ && $8 ~ part {
    if ($12 == "ok") ok = 1; else if ($12 != "skipped") bad = 1 } END {exit !(ok && !bad)}'
}
# The attention of steps that do not choose theirs: sm90 for the head dims whose cases all passed, gathered keys where theirs did.
best_attention() {
  local dims=() dim best=mma
  [ "$kernel" = auto ] || { echo "$kernel"; return; }
  for dim in 64 80 96 112 128 192 256; do ! passed sm90 "(_|_d)$dim(_|\$)" || dims+=($dim); done
  if passed sm90; then best=sm90; elif [ ${#dims[@]} -gt 0 ]; then best=sm90:dims=$(IFS=+; echo "${dims[*]}"); fi
  if passed gathered$([ $best = mma ] || echo -sm90); then echo $best:focus=gathered; elif [ $best = mma ]; then echo auto; else echo $best; fi
}
best_decode() { if passed decode; then echo fused; else echo auto; fi; }

if [ -n "$bin" ]; then
  if [ -f "$bin/programs.tar.xz" ]; then
    mkdir -p $build/carried || exit 1
    if command -v xz >/dev/null; then
      xz -dc "$bin/programs.tar.xz"
    else
      "${PYTHON:-python3}" -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$bin/programs.tar.xz"
    fi | tar -C $build/carried -xf - || exit 1
    bin=$build/carried
  fi
  for program in cuda_selfcheck gpu_bench; do [ -x "$bin/$program" ] || usage "$bin has no program $program"; done
  selfcheck=$bin/cuda_selfcheck bench=$bin/gpu_bench
else
  generator=$(command -v ninja >/dev/null && echo Ninja || echo 'Unix Makefiles')
  build_programs() {  # other compilers than the tested one may warn of other things
    cmake -G "$generator" -DVARIFOCAL_KERNELS_ONLY=ON -DVARIFOCAL_CUDA=ON -DVARIFOCAL_WERROR=OFF -DCMAKE_BUILD_TYPE=Release -B $build &&
      cmake --build $build -j "$(nproc)" --target cuda_selfcheck gpu_bench
  }
  build_programs >"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log"; echo "error: the build failed, see $out/build.log" >&2; exit 1; }
  selfcheck=$build/bin/cuda_selfcheck bench=$build/bin/gpu_bench
  echo "built in $SECONDS s"
  run_case build gates 30 "$selfcheck" gate
fi

device=cuda:0 cuda_device=cuda:0
if [ $emulate -eq 1 ]; then
  device=emulated cuda_device=cpu
else
  # The library that multiplies: where the loader finds it, in the toolkit, or in a Python package nvidia-cublas.
  if [ -z "${VARIFOCAL_CUBLASLT:-}" ]; then
    for file in $(ldconfig -p 2>/dev/null | awk '/libcublasLt.so.13 /{print $NF}') /usr/local/cuda*/lib64/libcublasLt.so.13 \
      $([ -z "$python" ] || "$python" -c 'import glob, site, sys; print(*(f for p in sys.path + site.getsitepackages() for f in glob.glob(p + "/nvidia/*/lib/libcublasLt.so.13")))' 2>/dev/null); do
      if [ -e "$file" ]; then export VARIFOCAL_CUBLASLT=$file; break; fi
    done
  fi
  # No cell has this name: gpu_bench prints the device, or the reason why there is none.
  run_case device open 60 "$bench" --cell=none
  if ! grep -q '"case": "open", "status": "ok"' "$results"; then echo "no device, so nothing was run on one"; exit 3; fi
  if grep -q cublasLt "$out/device/open.log" || grep -qF '{"step": "device", "case": "cublaslt", "status": "ok"' "$results"; then
    record device cublaslt ok 0 0 "" >/dev/null
  else
    record device cublaslt failed 1 0 "libcublasLt.so.13 was not found; VARIFOCAL_CUBLASLT=FILE names it"
  fi
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,memory.free --format=csv,noheader | tee "$out/nvidia-smi.txt"
  fi
fi

limit=60 tiny=(--scratch="$scratch")
[ $emulate -eq 0 ] || { limit=900 tiny+=(--device=emulated --tiny); }
# A kernel that has not run on a device: a hang must end its case, not the run. Times are taken whatever the cases said, in turns
# with the kernel mma; the logs have a line of JSON a round.
run_sm90() {
  run_set sm90 wide-attention $((emulate ? 900 : 10)) env
  turn=0
  times_of() {  # KERNEL CELL: a turn
    turn=$((turn + 1))
    run_case sm90 "times-$turn-$1-$2" $((emulate ? 900 : 40)) "$bench" --attention-kernel="$1" --cell="$2" --rounds=3 "${tiny[@]}"
  }
  for variant in sm90 mma sm90:turns=off sm90:items=1 sm90:items=0 sm90:sections=off sm90 mma; do times_of $variant prefill_20_20_128; done
  for cell in prefill_16_16_64 prefill_32_8_128 prefill_16_16_96 prefill_8_8_256 focus_attention suffix_20_20_128; do
    for variant in sm90 mma; do times_of $variant $cell; done
  done
  cat "$out"/sm90/times-*.log 2>/dev/null | grep -E '"backend"|"tflops"' | cut -c1-200 >"$out/sm90/times.txt"
}
# Each round of a cell has dense_ms, masked_ms and, as ms, that of gathered keys.
run_gathered() {
  for variant in gathered gathered-sm90; do run_set $variant gathered $((emulate ? 900 : 10)) env; done
  for variant in mma:focus=gathered sm90:focus=gathered; do
    run_case gathered "times-$variant" $((emulate ? 900 : 40)) "$bench" --attention-kernel=$variant --cell=focus_attention --rounds=3 "${tiny[@]}"
  done
  cat "$out"/gathered/times-*.log 2>/dev/null | grep -E '"backend"|"masked_ms"' | cut -c1-300 >"$out/gathered/times.txt"
}
# Kernels that have not run on a device, by default: the same bits as those that have, then steps in turns.
run_decode() {
  run_set decode decode $((emulate ? 900 : 10)) env
  turn=0
  for cell in model_decode_2.7b_1x1024 model_decode_2.7b_8x1024 model_decode_2.7b_1x32768; do
    for variant in fused separate:prefetch=off fused:prefetch=off separate; do
      turn=$((turn + 1))
      run_case decode "times-$turn-$variant-$cell" $((emulate ? 900 : 30)) "$bench" --decode-kernels="$variant" --cell="$cell" --rounds=3 "${tiny[@]}"
    done
  done
  grep -HE '"ms"|"seconds"|_ms' "$out"/decode/times-*.log 2>/dev/null | cut -c1-300 >"$out/decode/times.txt"
}
# What sm90 attention and sm90 products are worth to a whole prompt, and whether its bits hold with both; only what passed its cases.
run_together() {
  turn=0
  for cell in model_prefill_2.7b_8192 model_prefill_2.7b_16384 determinism_2.7b; do
    for variant in mma sm90 sm90+products; do
      turn=$((turn + 1))
      if [ $variant != mma ] && ! passed sm90 || { [ $variant = sm90+products ] && ! passed products; }; then
        record together "times-$turn-$variant-$cell" skipped 0 0 "cases of its kernels did not pass in $out"
        continue
      fi
      run_case together "times-$turn-$variant-$cell" $((emulate ? 900 : 40)) "$bench" --attention-kernel="${variant%+*}" \
        --product-kernel="$([[ $variant == *+* ]] && echo sm90 || echo library)" --cell="$cell" --rounds=3 "${tiny[@]}"
    done
  done
}
run_conformance() { run_set conformance conformance $limit env; }
# With the backend's own products instead of the library's, which the cases before covered.
run_bits() { [ $emulate -eq 1 ] || run_set bits same-bits $limit env VARIFOCAL_CUBLASLT=off; }

# Two models on one device: rows of alone_ms, ms (the mean beside the prompt, at most 10 times alone) and longest_ms.
run_turns() {
  for rows in 8192 32768; do
    run_case turns "two_models_$rows" $((emulate ? 900 : 40)) "$bench" --attention-kernel="$(best_attention)" --cell="two_models_2.7b_$rows" --rounds=3 "${tiny[@]}"
    ratio=$(sed -n 's/.*"ms": \([0-9.e+-]*\),.*"alone_ms": \([0-9.e+-]*\).*/\1 \2/p' "$out/turns/two_models_$rows.log" | sort -g | awk '{all[NR] = $1 / $2} END {if (NR) printf "%.1f", all[int((NR + 1) / 2)]}')
    [ -n "$ratio" ] || continue
    verdict="a step takes $ratio times as long as alone; at most 10 are allowed"
    record turns "verdict_$rows" "$(awk -v r="$ratio" -v e=$emulate 'BEGIN {print (r <= 10 || e) ? "ok" : "failed"}')" 0 0 "$verdict"
  done
}

# serve PROGRAMS DEVICE DATABASE: the daemon with the three shipped models answers a suite. It always stops its daemon.
serve() {
  local models=() status=0 address
  rm -f "$out/daemon/$3".{db*,port}
  for name in baseline focal-constant focal-learned; do models+=("--model=$name=models/$name"); done
  "$1/varifocald" --attention-kernel="$attention" --db="$out/daemon/$3.db" "${models[@]}" --device="$2" --listen=127.0.0.1:0 --port-file="$out/daemon/$3.port" 2>"$out/daemon/$3.log" &
  local daemon=$!
  trap 'kill $daemon 2>/dev/null' EXIT TERM
  for _ in $(seq 300); do
    [ -s "$out/daemon/$3.port" ] && break
    kill -0 $daemon 2>/dev/null || { tail -n 1 "$out/daemon/$3.log"; return 1; }
    sleep 0.1
  done
  address=127.0.0.1:$(cat "$out/daemon/$3.port")
  "$1/varifocal" models --daemon="$address" || status=$?
  "$1/varifocal" submit "$suite" --daemon="$address" --models=baseline,focal-constant,focal-learned ${SUITE_FLAGS:-} --wait || status=$?
  kill $daemon; wait $daemon || true
  trap - EXIT TERM
  return $status
}
served=''
for folder in "$bin" build/cuda-portable/bin build/cuda/bin; do
  if [ -z "$served" ] && [ -n "$folder" ] && [ -x "$folder/varifocald" ]; then served=$folder; fi
done
run_daemon() {
  if [ -z "$served" ]; then
    record daemon suite skipped 0 0 "varifocald was not carried along (--bin, build/cuda-portable/bin)"
  else
    export -f serve
    export out suite cuda_device attention=auto
    [ $emulate -eq 1 ] || attention=$(best_attention)
    run_case daemon "$suite" "$(left)" bash -c 'serve "$0" "$cuda_device" daemon' "$served"
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
    if [ $emulate -eq 1 ] || [ "$gpus" -lt 2 ]; then
      record daemon two-devices skipped 0 0 "it needs two devices, and the machine has $gpus"
    else
      run_case daemon two-devices "$(left)" bash -c 'serve "$0" cuda:0,1 two && "$0/varifocal" diff "$out/daemon/daemon.db" "$out/daemon/two.db"' "$served"
    fi
  fi
}

# Algorithms of the product library to be recorded, by K of the shapes.
run_plans() {
  for inner in 2560 6912 4096 14336 2048 8192 768; do
    run_case plans "search-$inner" "$(left)" "$bench" --plans --cell=x$inner --seconds=$(($(left) - 10)) "${tiny[@]}"
  done
  cat "$out"/plans/search-*.log 2>/dev/null | grep '^RecordedPlan' >"$out/plans/rows.txt"
}

# The product kernel that has not run on a device, then its times beside the library's in the same run: auto may take it
# when every shape has 0.98 of the library's speed.
run_products() {
  run_set products products $((emulate ? 900 : limit)) env
  turn=0
  for cell in product_8192x product_2048x product_512x layer_ops ceiling_product; do
    for own in sm90 library sm90:epilogues=apart sm90; do
      turn=$((turn + 1))
      run_case products "times-$turn-$own-$cell" $((emulate ? 900 : 30)) "$bench" --product-kernel="$own" --cell=$cell --rounds=3 "${tiny[@]}"
    done
  done
  cat "$out"/products/times-*.log 2>/dev/null | grep -E '"backend"|"tflops"' | cut -c1-2000 >"$out/products/times.txt"
}

run_times() {
  mkdir -p "$out/times"
  injected=() kernels=(--attention-kernel="$(best_attention)" --decode-kernels="$(best_decode)")
  for name in "${!inject[@]}"; do
    [[ $name != times/* ]] || injected+=(--inject="${name#times/}:${inject[$name]}" --limit=20)
  done
  if [ "$(left)" -lt 30 ]; then
    record times cells left-out 0 0 "no time left; --only=times --out=$out takes them"
  elif [ -n "$python" ]; then
    started=$SECONDS status=0
    timeout -k 20 "$(left)" "$python" recipes/gpu_peers.py --bench="$bench" --out="$out/times" --seconds=$(($(left) - 20)) --cells="$cells" "${kernels[@]}" \
      --scratch="$scratch" $([ $emulate -eq 0 ] || echo --tiny) "${injected[@]}" > >(tee "$out/times/table.txt") 2>&1 &
    wait $! || status=$?
    record times cells "$([ $status -eq 0 ] && echo ok || echo failed)" $status $((SECONDS - started)) "$(grep -a '^goals met' "$out/times/table.txt")"
  else
    run_case times cells "$(left)" "$bench" --rounds=5 --seconds=$(($(left) - 30)) --cell="$cells" "${kernels[@]}" "${tiny[@]}"
    echo "Python was not found, so there is no table and no peer; the rounds are in $out/times/cells.log"
  fi
}

run_sanitizers() {
  [ -n "$sanitizer" ] || { record sanitizers tool skipped 0 0 "compute-sanitizer is not installed, or there is no device"; return; }
  for tool in racecheck:sanitizers-short synccheck:sanitizers-short memcheck:sanitizers; do
    checked=(env VARIFOCAL_CUBLASLT=off "$sanitizer" --tool ${tool%:*} --error-exitcode 1 --print-limit 5)
    run_set ${tool%:*} ${tool#*:} 60 "${checked[@]}"
    for variant in mma sm90; do run_set ${tool%:*}-$variant gathered-sanitizers 60 "${checked[@]}"; done
  done
}

# One shape a call: the first that has not passed; --out continues one that was begun. HELMET names a checkout of its release.
run_evaluation() {
  shapes=(2.7b 8b) flags=("--device=$cuda_device" "--daemon-flag=--attention-kernel=$(best_attention)" "--daemon-flag=--decode-kernels=$(best_decode)")
  declare -A questions=([2.7b]=40 [8b]=16 [tiny]=4)  # of a task and length: about a minute each
  if [ $emulate -eq 1 ]; then shapes=(tiny) flags+=(--lengths=1024 --goals=0,0); fi
  [ -z "${HELMET:-}" ] || flags+=("--helmet=$HELMET")
  if [ -z "$served" ] || [ -z "$python" ]; then
    record evaluation programs failed 1 0 "needs Python with torch and transformers, and varifocald and varifocal (--bin, build/cuda-portable/bin)"
  else
    for shape in "${shapes[@]}"; do
      ! grep -qF "{\"step\": \"evaluation\", \"case\": \"$shape\", \"status\": \"ok\"" "$results" || continue
      # shellcheck disable=SC2086  # EVALUATION_FLAGS are several words
      run_case evaluation "$shape" "$(left)" "$python" recipes/whole_evaluation.py --programs="$served" --out="$out/evaluation/$shape" \
        --shape="$shape" --questions=${questions[$shape]} --seconds=$(($(left) - 15)) "${flags[@]}" ${EVALUATION_FLAGS:-}
      cat "$out/evaluation/$shape.log" 2>/dev/null
      break
    done
  fi
}

for step in ${steps//,/ }; do
  if begin "$step"; then "run_$step"; save_archive; fi  # a call that is killed returns the steps before
done
finish
