#!/usr/bin/env bash
# The CPU backend against this machine's limits and, with a Python that has torch and transformers, against those and
# llama.cpp, alternately. Merges the results into docs/cpu/bench.json (or --out=PREFIX) and renders .md and .svg from it.
#
#   deploy/bench_cpu.sh [--python=PYTHON [--llama-cpp=DIRECTORY]] [--only=SECTION,..] [--formats=bf16,f32] [--threads=N]
#                       [--rounds=N] [--lengths=TOKENS,..] [--cpu-isa=NAME] [--model=DIRECTORY].. [--out=PREFIX]
#
# Three runs: all threads; one thread, to 16K; all threads with AVX2 only, ours and PyTorch's, to 8K. With --threads or
# --cpu-isa one run. Sections: "attention", "products", "decode attention", "prefill" and "decode" of a
# 30M LLaMA, "experts" and "hybrid" (the same of a mixture of experts that uses as many weights, and of a model with
# recurrent layers), "models" (8K prefill of every --model; Gemma when deploy/get_gemma.sh has been run), "questions". The
# DIRECTORY of llama.cpp has llama-bench and llama-results; PYTHON then needs the gguf package too.
set -euo pipefail
cd "$(dirname "$0")/.."
deploy/install.sh
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
ninja -C build/release -j2 cpu_bench
gemma=${VARIFOCAL_CACHE:-$HOME/.cache/varifocal}/gemma-3-270m
case " $* " in
  *" --model="*) ;;
  *) [ ! -e "$gemma/model.safetensors" ] || set -- "--model=$gemma" "$@" ;;
esac
runs=("--threads=$(nproc)" "--threads=1 --lengths=2048,8192,16384" "--threads=$(nproc) --cpu-isa=avx2 --formats=f32 --lengths=2048,8192 --only=attention,prefill")
case " $* " in
  *" --threads="* | *" --cpu-isa="*) runs=("--threads=$(nproc)") ;;
esac
started=$SECONDS
for i in "${!runs[@]}"; do
  echo "run $((i + 1)) of ${#runs[@]}: ${runs[i]}"
  # shellcheck disable=SC2086  # words, not one
  build/release/bin/cpu_bench --out=docs/cpu/bench ${runs[i]} "$@"
done
echo "deploy/bench_cpu.sh: $((SECONDS - started)) s"
