#!/usr/bin/env bash
# Checks the CUDA backend on a GPU machine: build, conformance on the device, same bits, compute-sanitizer if installed,
# the daemon if its binaries were carried along, then timings compared with PyTorch and Hugging Face if Python has them.
# Needs nvcc, CMake and a C++ compiler, or carried programs (--bin); no network, no package.
#
#   deploy/gpu_check.sh [--only=STEP,..] [--seconds=590] [--out=DIR] [--bin=DIR] [--cells=REGEX] [--suite=quick] [--jobs=4] [--emulate]
#                       [--attention-kernel=auto] [--archive=FILE]
#   deploy/gpu_check.sh --plan [the same flags]
#   deploy/gpu_check.sh --pack=DIR
#
#   --plan     prints the steps in their order, with cases and seconds, and runs nothing
#   --archive  everything in --out as this one file, at the end and when the run is stopped
#   --only     of: sm90, gathered, decode, conformance, bits, turns, daemon, plans, products, times, sanitizers, evaluation. turns: a decode step
#              of one model alone and beside a prompt of 8K and of 32K of another, with turns and without. plans, products and evaluation are
#              run only where they are named. evaluation: questions an hour beside HELMET's way, transformers and vLLM (recipes/whole_evaluation.py).
#              plans: rows of kernels/cuda/product_plans.h, into DIR/plans/rows.txt. sm90: the attention kernel of compute capability 9.0
#              against float64 and the same bits, 10 s a case, then its prefill cells, their variants and the kernel mma's. products: the
#              product kernel of compute capability 9.0, in the same way, beside the library. gathered: attention by groups with
#              gathered keys, in the same way, then its cells beside dense attention and the test of every pair. decode: steps of at most
#              8 rows by fused kernels and by separate ones, then their cells in turns, with and without weights asked for ahead
#   --attention-kernel  of the other steps (cuda/attention_choice.h)
#   --out      results (build/gpu-check/results/DATE-TIME); a directory of an earlier run: what passed there is not repeated
#   --bin      cuda_selfcheck, gpu_bench, varifocald and varifocal from there, or what --pack wrote there; nothing is built
#   --pack     builds these four to be carried (static but for the C library) into DIR/programs.tar.gz and prints its size
#   --cells    only timings whose name matches
#   --jobs     conformance cases and sanitizers at once (4; with --emulate 1, and 1 must be given for a device in
#              exclusive-process mode); the daemon and the timings have the device to themselves
#   --suite    the suite for the daemon's three shipped models (standard takes longer)
#   --emulate  the whole script on the emulator with tiny shapes, the peers on the CPU: tests the script
#   --inject=STEP/NAME:hang|crash|wrong    makes a conformance case or a cell (times/NAME) do so, to rehearse what is left then
#
# Each case is a process of its own with a limit; its name is printed when it starts, its log and its line in
# DIR/results.jsonl are written when it ends, and the run continues whatever happened. Each step has a share of --seconds, so that
# no step takes another's; a step alone has them all. The table comes last, also after SIGTERM. Exit 0: success; 1: failure;
# 2: invalid usage; 3: built, but no device; 130: stopped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
steps=sm90,gathered,decode,conformance,bits,turns,daemon,plans,products,times,sanitizers,evaluation  # in this order
only=sm90,gathered,decode,conformance,bits,turns,daemon,times,sanitizers seconds=590 suite=quick jobs='' emulate=0 out='' bin='' cells='' pack='' kernel=auto plan=0 archive=''
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
    --suite=*) suite=${flag#*=} ;;
    --jobs=*) jobs=${flag#*=} ;;
    --attention-kernel=*) kernel=${flag#*=} ;;
    --emulate) emulate=1 ;;
    --plan) plan=1 ;;
    --archive=*) archive=${flag#*=} ;;
    --inject=*:*) injected=${flag#*=}; inject[${injected%%:*}]=${injected#*:} ;;
    *) usage "unknown flag $flag; the flags are --only= --seconds= --out= --bin= --pack= --cells= --suite= --jobs= --emulate --plan --archive= --attention-kernel= --inject=" ;;
  esac
done
[ -n "$jobs" ] || jobs=$((emulate ? 1 : 4))
[[ $jobs =~ ^[1-9][0-9]*$ ]] || usage "--jobs=$jobs is not a number of processes"
for step in ${only//,/ }; do
  [[ ,$steps, == *,$step,* ]] || usage "unknown step $step; the steps are ${steps//,/, }"
done
[[ $only == evaluation || ,$only, != *,evaluation,* ]] || usage "--only=$only: evaluation takes all of the time, so it is a run of its own"
wanted() { [[ ,$only, == *,$1,* ]]; }
# Shares of the steps that are wanted; times has what the others leave besides.
declare -A share=([sm90]=120 [gathered]=45 [decode]=60 [conformance]=80 [bits]=45 [turns]=50 [daemon]=45 [plans]=60 [products]=80 [times]=105 [sanitizers]=40 [evaluation]=590)
shares=0
for step in ${steps//,/ }; do ! wanted "$step" || shares=$((shares + share[$step])); done
share_of() { echo $((share[$1] * seconds / shares)); }
step_end=$seconds
# begin STEP: whether it is wanted; then its time begins.
begin() {
  wanted "$1" || return 1
  step_end=$((SECONDS + $(share_of "$1")))
  [ "$1" != times ] || step_end=$((seconds - $(wanted sanitizers && share_of sanitizers || echo 0)))
  [ $step_end -le "$seconds" ] || step_end=$seconds
}
left() { echo $((step_end - SECONDS)); }

build=build/gpu-check
programs=(cuda_selfcheck gpu_bench varifocald varifocal)
if [ -n "$pack" ]; then
  cmake --preset cuda-portable >/dev/null && cmake --build --preset cuda-portable --target "${programs[@]}" || exit 1
  mkdir -p "$pack"
  stripped=$(mktemp -d) || exit 1
  trap 'rm -rf "$stripped"' EXIT
  for program in "${programs[@]}"; do strip -o "$stripped/$program" "build/cuda-portable/bin/$program" || exit 1; done
  tar -C "$stripped" -czf "$pack/programs.tar.gz" "${programs[@]}" || exit 1
  bytes=$(stat -c %s "$pack/programs.tar.gz")
  echo "$pack/programs.tar.gz: ${#programs[@]} programs, $((bytes >> 20)) MiB of 64; they need $(ldd "$stripped/gpu_bench" | awk '{print $1}' | tr '\n' ' ')"
  [ "$bytes" -le $((64 << 20)) ] || { echo "error: $bytes bytes exceed 64 MiB" >&2; exit 1; }
  exit 0
fi

if [ $plan -eq 1 ]; then
  checker=$build/bin/cuda_selfcheck
  [ -z "$bin" ] || checker=$bin/cuda_selfcheck
  [ -x "$checker" ] || echo "(no program $checker yet, so cases are not counted)"
  declare -A list=([products]=products [sm90]=wide-attention [gathered]=gathered [decode]=decode [conformance]=conformance [bits]=same-bits [sanitizers]=sanitizers)
  declare -A what=([sm90]="cases 10 s each, then its cells, its variants and mma in turns"
    [gathered]="cases 10 s each, then cells of Focus gathered, masked and dense in turns" [decode]="fused and separate kernels, 10 s each, then cells in turns"
    [conformance]="against float64, 60 s each"
    [bits]="again with our own products, 60 s each" [turns]="a step alone and beside a prompt, 3 rounds a cell" [daemon]="suite $suite on three models"
    [products]="cases 60 s each, then layer products and a layer, own and the library's in turns" [plans]="fastest of cuBLASLt's algorithms with equal bits, for 20 shapes" [times]="cells, most important first, in turns with their peers" [sanitizers]="memcheck, racecheck, synccheck, 60 s each"
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
mkdir -p "$out" || exit 2
results=$out/results.jsonl
touch "$results"

# Of a case that ran twice the last result counts.
last() { tac "$results" | awk -F'"' '!seen[$4, $8]++' | tac; }
# The table, the archive, and whether all passed.
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
  if [ -n "$archive" ]; then
    tar -C "$out" --exclude=model -czf "$archive" . && echo "$archive: $(($(stat -c %s "$archive") >> 10)) KiB"
  fi
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
  local step=$1 list=$2 limit=$3 name extra case_kernel=$kernel case_products=auto
  case $step in
    sm90) case_kernel=sm90 ;;
    gathered) case_kernel=mma:focus=gathered ;;
    products) case_products=sm90 ;;
  esac
  shift 3
  for name in $("$selfcheck" --list="$list" --device=$device); do
    extra=() case_limit=$limit
    if [ -n "${inject[$step/$name]:-}" ]; then extra=(--inject="${inject[$step/$name]}") case_limit=6; fi
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    run_case "$step" "$name" "$case_limit" "$@" "$selfcheck" --case="$name" --device=$device --attention-kernel="$case_kernel" --product-kernel=$case_products "${extra[@]}" &
  done
  wait
}

if [ -n "$bin" ]; then
  if [ -f "$bin/programs.tar.gz" ]; then
    mkdir -p $build/carried && tar -C $build/carried -xzf "$bin/programs.tar.gz" || exit 1
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

python=$(command -v "${PYTHON:-python3}" || true)
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

limit=60 tiny=()
[ $emulate -eq 0 ] || { limit=900 tiny=(--device=emulated --tiny); }
# A kernel that has not run on a device: a hang must end its case, not the run. Times are taken whatever the cases said, in turns
# with the kernel mma; the logs have a line of JSON a round.
if begin sm90; then
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
fi
# Each round of a cell has dense_ms, masked_ms and, as ms, that of gathered keys.
if begin gathered; then
  run_set gathered gathered $((emulate ? 900 : 10)) env
  for variant in mma:focus=gathered sm90:focus=gathered; do
    run_case gathered "times-$variant" $((emulate ? 900 : 40)) "$bench" --attention-kernel=$variant --cell=focus_attention --rounds=3 "${tiny[@]}"
  done
  cat "$out"/gathered/times-*.log 2>/dev/null | grep -E '"backend"|"masked_ms"' | cut -c1-300 >"$out/gathered/times.txt"
fi
# Kernels that have not run on a device, by default: the same bits as those that have, then steps in turns.
if begin decode; then
  run_set decode decode $((emulate ? 900 : 10)) env
  turn=0
  for cell in model_decode_2.7b_1x1024 model_decode_2.7b_8x1024 model_decode_2.7b_1x32768; do
    for variant in fused separate:prefetch=off fused:prefetch=off separate; do
      turn=$((turn + 1))
      run_case decode "times-$turn-$variant-$cell" $((emulate ? 900 : 30)) "$bench" --decode-kernels="$variant" --cell="$cell" --rounds=3 "${tiny[@]}"
    done
  done
  grep -HE '"ms"|"seconds"|_ms' "$out"/decode/times-*.log 2>/dev/null | cut -c1-300 >"$out/decode/times.txt"
fi
if begin conformance; then run_set conformance conformance $limit env; fi
# With the backend's own products instead of the library's, which the cases before covered.
if begin bits && [ $emulate -eq 0 ]; then run_set bits same-bits $limit env VARIFOCAL_CUBLASLT=off; fi

# Two models on one device: rows of alone_ms, ms (the mean beside the prompt, at most 10 times alone) and longest_ms.
if begin turns; then
  for rows in 8192 32768; do
    run_case turns "two_models_$rows" $((emulate ? 900 : 40)) "$bench" --attention-kernel="$kernel" --cell="two_models_2.7b_$rows" --rounds=3 "${tiny[@]}"
  done
fi

# serve PROGRAMS DEVICE DATABASE: the daemon with the three shipped models answers a suite. It always stops its daemon.
serve() {
  local models=() status=0 address
  rm -f "$out/daemon/$3".{db*,port}
  for name in baseline focal-constant focal-learned; do models+=("--model=$name=models/$name"); done
  "$1/varifocald" --attention-kernel="$kernel" --db="$out/daemon/$3.db" "${models[@]}" --device="$2" --listen=127.0.0.1:0 --port-file="$out/daemon/$3.port" 2>"$out/daemon/$3.log" &
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
if begin daemon; then
  if [ -z "$served" ]; then
    record daemon suite skipped 0 0 "varifocald was not carried along (--bin, build/cuda-portable/bin)"
  else
    export -f serve
    export out suite cuda_device kernel
    run_case daemon "$suite" "$(left)" bash -c 'serve "$0" "$cuda_device" daemon' "$served"
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
    if [ $emulate -eq 1 ] || [ "$gpus" -lt 2 ]; then
      record daemon two-devices skipped 0 0 "it needs two devices, and the machine has $gpus"
    else
      run_case daemon two-devices "$(left)" bash -c 'serve "$0" cuda:0,1 two && "$0/varifocal" diff "$out/daemon/daemon.db" "$out/daemon/two.db"' "$served"
    fi
  fi
fi

# Algorithms of the product library to be recorded, by K of the shapes.
if begin plans; then
  for inner in 2560 6912 4096 14336 2048 8192 768; do
    run_case plans "search-$inner" "$(left)" "$bench" --plans --cell=x$inner --seconds=$(($(left) - 10)) "${tiny[@]}"
  done
  cat "$out"/plans/search-*.log 2>/dev/null | grep '^RecordedPlan' >"$out/plans/rows.txt"
fi

# The product kernel that has not run on a device, then its times beside the library's in the same run: auto may take it
# when every shape has 0.98 of the library's speed.
if begin products; then
  run_set products products $((emulate ? 900 : limit)) env
  turn=0
  for cell in product_8192x product_2048x product_512x layer_ops ceiling_product; do
    for own in sm90 library sm90; do
      turn=$((turn + 1))
      run_case products "times-$turn-$own-$cell" $((emulate ? 900 : 30)) "$bench" --product-kernel=$own --cell=$cell --rounds=3 "${tiny[@]}"
    done
  done
  cat "$out"/products/times-*.log 2>/dev/null | grep -E '"backend"|"tflops"' | cut -c1-2000 >"$out/products/times.txt"
fi

if begin times; then
  mkdir -p "$out/times"
  tiny=() injected=()
  [ $emulate -eq 0 ] || tiny=(--tiny)
  for name in "${!inject[@]}"; do
    [[ $name != times/* ]] || injected+=(--inject="${name#times/}:${inject[$name]}" --limit=20)
  done
  if [ "$(left)" -lt 30 ]; then
    record times cells left-out 0 0 "no time left; --only=times --out=$out takes them"
  elif [ -n "$python" ]; then
    started=$SECONDS status=0
    timeout -k 20 "$(left)" "$python" recipes/gpu_peers.py --bench="$bench" --out="$out/times" --seconds=$(($(left) - 20)) --cells="$cells" --attention-kernel="$kernel" \
      "${tiny[@]}" "${injected[@]}" > >(tee "$out/times/table.txt") 2>&1 &
    wait $! || status=$?
    record times cells "$([ $status -eq 0 ] && echo ok || echo failed)" $status $((SECONDS - started)) "$(grep -a '^goals met' "$out/times/table.txt")"
  else
    [ $emulate -eq 0 ] || tiny+=(--device=emulated)
    run_case times cells "$(left)" "$bench" --rounds=5 --seconds=$(($(left) - 30)) --cell="$cells" --attention-kernel="$kernel" "${tiny[@]}"
    echo "Python was not found, so there is no table and no peer; the rounds are in $out/times/cells.log"
  fi
fi

if begin sanitizers; then
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  if [ -n "$sanitizer" ] && [ $emulate -eq 0 ]; then
    for tool in memcheck racecheck synccheck; do
      run_set $tool sanitizers 60 env VARIFOCAL_CUBLASLT=off "$sanitizer" --tool $tool --error-exitcode 1 --print-limit 5
    done
  else
    record sanitizers tool skipped 0 0 "compute-sanitizer is not installed, or there is no device"
  fi
fi

# One shape a call: the first that has not passed; --out continues one that was begun. HELMET names a checkout of its release.
if begin evaluation; then
  shapes=(2.7b 8b) flags=("--device=$cuda_device" "--daemon-flag=--attention-kernel=$kernel")
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
fi

finish
