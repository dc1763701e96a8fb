#!/usr/bin/env bash
# Checks the CUDA backend on a GPU machine in at most ten minutes: build, conformance on the device, same bits,
# compute-sanitizer if installed, the daemon if its binaries were copied, then timings compared with PyTorch and Hugging
# Face if available in Python. Needs nvcc, CMake and a C++ compiler; no network, no package.
#
#   deploy/gpu_check.sh [--only=STEP,..] [--seconds=590] [--suite=quick] [--emulate]
#
#   --only     of: conformance, bits, sanitizers, daemon, times (the build always happens)
#   --suite    the suite for the daemon's three shipped models (standard takes longer)
#   --emulate  the whole script on the emulator with tiny shapes, the peers on the CPU: tests the script
#
# The daemon is taken from build/cuda-portable/bin, build/cuda/bin or VARIFOCAL_BIN. Prints the table last and saves
# docs/gpu/DEVICE-DATE.json. Exit 0: success; 1: failure; 2: invalid usage; 3: built, but no device.
set -euo pipefail
cd "$(dirname "$0")/.."
only=conformance,bits,sanitizers,daemon,times seconds=590 suite=quick emulate=0
for flag in "$@"; do
  case $flag in
    --only=*) only=${flag#*=} ;;
    --seconds=*) seconds=${flag#*=} ;;
    --suite=*) suite=${flag#*=} ;;
    --emulate) emulate=1 ;;
    *) echo "error: unknown flag $flag; the flags are --only= --seconds= --suite= --emulate" >&2; exit 2 ;;
  esac
done
for step in ${only//,/ }; do
  case $step in conformance | bits | sanitizers | daemon | times) ;; *)
    echo "error: unknown step $step; the steps are conformance, bits, sanitizers, daemon, times" >&2; exit 2 ;;
  esac
done
wanted() { [[ ,$only, == *,$1,* ]]; }
left() { echo $((seconds - SECONDS)); }
notes=() failed=0
# note WORDS..: prints a line and adds it to the report.
note() { echo "-- $*"; notes+=("--note=$*"); }
# step NAME LIMIT COMMAND..: runs it for at most LIMIT seconds; its last line goes into the report.
step() {
  local name=$1 limit=$2 status=0 log=$build/$1.log
  shift 2
  timeout -k 5 "$limit" "$@" >"$log" 2>&1 || status=$?
  tail -n 6 "$log"
  if [ $status -eq 0 ]; then note "$name: $(tail -n 1 "$log")"
  elif [ $status -ge 124 ]; then note "$name: NOT FINISHED in $limit s: $(tail -n 1 "$log")"; failed=1
  else note "$name: FAILED with $status: $(tail -n 1 "$log")"; failed=1; fi
}

build=build/gpu-check
generator=$(command -v ninja >/dev/null && echo Ninja || echo 'Unix Makefiles')
mkdir -p $build
cmake -G "$generator" -DVARIFOCAL_KERNELS_ONLY=ON -DVARIFOCAL_CUDA=ON -DCMAKE_BUILD_TYPE=Release -B $build >$build/configure.log 2>&1 ||
  { tail -n 20 $build/configure.log; exit 1; }
cmake --build $build -j "$(nproc)" --target cuda_selfcheck gpu_bench >$build/build.log 2>&1 || { tail -n 40 $build/build.log; exit 1; }
note "built in $SECONDS s"
step gates 30 $build/bin/cuda_selfcheck gate

device=cuda:0 table=device out=docs/gpu tiny=()
if [ $emulate -eq 1 ]; then
  device=cpu table=emulated out=$build tiny=(--tiny)
else
  # No cell has this name: gpu_bench exits with 3 and prints the reason when there is no device.
  reason=$($build/bin/gpu_bench --cell=none 2>&1 >/dev/null) || { echo "no device, so nothing was run on one: ${reason#error: }"; exit 3; }
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,memory.free --format=csv,noheader
  fi
fi

if wanted conformance; then step conformance 120 $build/bin/cuda_selfcheck ${table/device/device_conformance}; fi
# With the backend's own products instead of the library's, which the cases before covered.
if wanted bits && [ $emulate -eq 0 ]; then step same-bits-own-products 60 env VARIFOCAL_CUBLASLT=off $build/bin/cuda_selfcheck device_same_bits; fi

if wanted sanitizers; then
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  if [ -n "$sanitizer" ] && [ $emulate -eq 0 ]; then
    # Small shapes that cover every kernel, with the backend's own products only.
    for tool in memcheck racecheck synccheck; do
      step "$tool" 40 env VARIFOCAL_CUBLASLT=off "$sanitizer" --tool $tool --error-exitcode 1 --print-limit 5 $build/bin/cuda_selfcheck device_small
    done
  else
    note "compute-sanitizer: not here, not run"
  fi
fi

if wanted daemon; then
  bin=${VARIFOCAL_BIN:-}
  for folder in build/cuda-portable/bin build/cuda/bin; do
    if [ -z "$bin" ] && [ -x $folder/varifocald ]; then bin=$folder; fi
  done
  if [ -z "$bin" ]; then
    note "daemon: not carried along (build/cuda-portable/bin), not run"
  else
    serve() {
      rm -f $build/daemon.db* $build/daemon.port
      local models=()
      for name in baseline focal-constant focal-learned; do models+=("--model=$name=models/$name"); done
      "$bin/varifocald" --db=$build/daemon.db "${models[@]}" --device=$device --listen=127.0.0.1:0 --port-file=$build/daemon.port 2>$build/varifocald.log &
      local daemon=$! status=0
      for _ in $(seq 300); do
        [ -s $build/daemon.port ] && break
        kill -0 $daemon 2>/dev/null || { tail -n 1 $build/varifocald.log; return 1; }
        sleep 0.1
      done
      local address; address=127.0.0.1:$(cat $build/daemon.port)
      "$bin/varifocal" models --daemon="$address" || status=$?
      "$bin/varifocal" submit "$suite" --daemon="$address" --models=baseline,focal-constant,focal-learned ${SUITE_FLAGS:-} --wait || status=$?
      kill $daemon; wait $daemon || true
      return $status
    }
    limit=$(wanted times && echo 60 || left)
    # serve() always stops its daemon.
    started=$SECONDS status=0
    (set -m; serve >$build/daemon.log 2>&1 & echo $! >$build/daemon.pid; wait $!) & waiting=$!
    while kill -0 $waiting 2>/dev/null && [ $((SECONDS - started)) -lt "$limit" ]; do sleep 0.2; done
    if kill -0 $waiting 2>/dev/null; then kill -- -"$(cat $build/daemon.pid)" || true; fi
    wait $waiting || status=$?
    tail -n 6 $build/daemon.log
    if [ $status -eq 0 ]; then note "daemon: $suite on $device in $((SECONDS - started)) s: $(tail -n 1 $build/daemon.log)"
    else note "daemon: FAILED or not finished in $limit s: $(tail -n 1 $build/daemon.log)"; failed=1; fi
  fi
fi

if wanted times && [ "$(left)" -lt 60 ]; then
  note "times: no time left for them; deploy/gpu_check.sh --only=times takes them alone"
  failed=1
elif wanted times; then
  mkdir -p "$out"
  python=$(command -v "${PYTHON:-python3}" || true)
  if [ -n "$python" ]; then
    timeout -k 20 "$(left)" "$python" recipes/gpu_peers.py --bench=$build/bin/gpu_bench --out="$out" --seconds=$(($(left) - 20)) "${notes[@]}" "${tiny[@]}" || failed=1
  else
    file=$out/alone-$(date -u +%Y%m%d-%H%M).jsonl
    [ $emulate -eq 1 ] && tiny+=(--device=emulated)
    $build/bin/gpu_bench --rounds=5 --seconds=$(($(left) - 30)) "${tiny[@]}" | tee "$file" || failed=1
    echo "Python was not found, so there is no table and no peer; saved $file"
  fi
fi
printf '%s\n' "${notes[@]#--note=}"
echo "deploy/gpu_check.sh: $SECONDS s, $([ $failed -eq 0 ] && echo 'all right' || echo 'SOMETHING IS WRONG')"
exit $failed
