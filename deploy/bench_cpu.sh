#!/usr/bin/env bash
# The CPU kernels against this machine's limits and, with a Python that has torch and transformers, against those, in
# one run. Writes docs/cpu/bench.{json,md,svg} unless --out says otherwise.
#
#   deploy/bench_cpu.sh [--python=PATH] [--threads=N] [--rounds=N] [--longest=TOKENS] [--model=DIRECTORY].. [--out=PREFIX]
set -euo pipefail
cd "$(dirname "$0")/.."
deploy/install.sh
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
ninja -C build/release -j2 cpu_bench
build/release/bin/cpu_bench --threads="$(nproc)" --out=docs/cpu/bench "$@"
