#!/usr/bin/env bash
# Everything a GPU machine can say about the CUDA backend, in one command of at most ten minutes: build, conformance on the
# device, compute-sanitizer where it is installed, then our times beside PyTorch's. Needs nvcc, CMake and a C++ compiler.
#
#   deploy/gpu_check.sh [--quick]     --quick: no times
#
# Prints the table last and saves docs/gpu/DEVICE-DATE.json. Exit 0: all right; 1: something is wrong; 3: built, and no device.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=0
for flag in "$@"; do
  case $flag in
    --quick) quick=1 ;;
    *) echo "error: unknown flag $flag; the only one is --quick" >&2; exit 2 ;;
  esac
done
started=$SECONDS
build=build/gpu-check
generator=$(command -v ninja >/dev/null && echo Ninja || echo 'Unix Makefiles')
cmake -G "$generator" -DVARIFOCAL_KERNELS_ONLY=ON -DVARIFOCAL_CUDA=ON -DCMAKE_BUILD_TYPE=Release -B $build -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build $build -j "$(nproc)" >$build/build.log 2>&1 || { tail -n 40 $build/build.log; exit 1; }
echo "-- built in $((SECONDS - started)) s; compiler gates:"
$build/bin/cuda_selfcheck gate

# One cell tells whether there is a device: gpu_bench exits with 3 and says why when there is none.
reason=$($build/bin/gpu_bench --cell=none 2>&1 >/dev/null) || { echo "no device, so nothing was run on one: ${reason#error: }"; exit 3; }
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw --format=csv,noheader

echo "-- conformance on the device, against float64"
timeout 240 $build/bin/cuda_selfcheck device_conformance
echo "-- the same bits with our own products in place of the library's"
VARIFOCAL_CUBLASLT=off timeout 120 $build/bin/cuda_selfcheck device_same_bits

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck; do
    echo "-- compute-sanitizer $tool"
    # Small shapes that pass through every kernel.
    timeout 90 compute-sanitizer --tool $tool --error-exitcode 1 --print-limit 5 $build/bin/cuda_selfcheck device_small | tail -n 3
  done
else
  echo "-- compute-sanitizer is not installed: not run"
fi
[ $quick -eq 0 ] || { echo "deploy/gpu_check.sh: $((SECONDS - started)) s, no times asked for"; exit 0; }

echo "-- times; peers where Python has PyTorch"
python=$(command -v python3 || true)
left=$((580 - (SECONDS - started)))
if [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null; then
  "$python" recipes/gpu_peers.py --bench=$build/bin/gpu_bench --out=docs/gpu --seconds=$left
else
  out=docs/gpu/alone-$(date -u +%Y%m%d-%H%M).jsonl
  timeout "$left" $build/bin/gpu_bench --rounds=5 | tee "$out"
  echo "PyTorch was not found, so there are no peers; saved $out"
fi
echo "deploy/gpu_check.sh: $((SECONDS - started)) s"
