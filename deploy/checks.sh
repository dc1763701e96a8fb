#!/usr/bin/env bash
# Checks beyond the tests: formatting, documents, clang-tidy, locks, the benchmarks' build, the Debian package, sanitizers, and CUDA compile gates where nvcc exists.
#
#   deploy/checks.sh [format] [docs] [tidy] [thread-safety] [thread-safety-mutations] [benches] [package] [asan] [tsan] [cuda]    all ten unless some are named
#   deploy/checks.sh wheel                                     the wheel of deploy/wheel.sh in a fresh environment, with its own programs (needs a network)
#   deploy/checks.sh fuzz                                      libFuzzer, a minute a target or FUZZ_SECONDS (clang and its runtime library)
#
# tidy, thread-safety, thread-safety-mutations, benches and package need the build of deploy/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
deploy/install.sh
[ $# -gt 0 ] || set -- format docs tidy thread-safety thread-safety-mutations benches package asan tsan cuda

# Rooms without gRPC: ThreadSanitizer is not reliable in the others (Debian's gRPC is not instrumented).
core_tests="base_test kernels_test tokenizer_test db_test eval_tasks_test helmet_import_test model_test engine_test hosting_test jobs_test"
# One more model through the same code. Kept: dense in f32 and bf16, focal, windows, a learned sink, experts, states, latents, shared keys,
# MXFP4, Focus.
more_models=$(printf '*SameBitsTest*/%s:' architectures_{a,b,co,e,f,gpt_oss_auto,granite_,granitemoe_,h,l,mi,n,o,qwen2,qwen3_5,qwen3_l,s}'*' architectures_{deepseek_v2,gemma3n_auto,gemma4_auto,gemma4_experts}'*' architectures_{deepseek_v3_auto_bf16,gemma3n_shared_auto_bf16,gemma4_shared_auto_bf16,gemma3_newer_auto_bf16,qwen3_moe_auto_bf16,{qwen3_next,granitemoehybrid}_auto_bf16} \
  attention_{log,sink_capped}'*' focal_{per_layer,learned_s,learned_t}'*' focal_learned_causal_auto_bf16 focus_{g,llama_f,llama_p,m}'*' focus_llama_calibrated_auto_bf16 '*_reference_*')
simulations="Choice.IsUnbiased*:Compare.FalseAlarms*:EpochIntervals.Cover*:ReplicateSimulation.*:AdjustedIntervals.*:Family.AJob*:Power.*:BaseRates.*"

# build_and_run PRESET TEST...: every test in four shards, as many at a time as there are cores (the kernels' own threads make
# little of a second one). The output of a shard is shown when it fails. A test that does not exist is an error, never skipped.
build_and_run() {
  local preset=$1; shift
  cmake --preset "$preset" -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
  ninja -C "build/$preset" "$@"
  for test in "$@"; do printf "$test %s\n" 0 1 2 3; done |
    xargs -P "$(nproc)" -L 1 deploy/run_shard.sh "build/$preset/bin"
  echo "-- $preset: $* pass"
}

took=()
for check in "$@"; do
  began=$SECONDS
  case $check in
    format)
      git ls-files -z '*.cc' '*.h' '*.cu' | xargs -0 -P2 -n40 clang-format-14 --dry-run -Werror
      for script in $(git ls-files '*.sh'); do bash -n "$script"; done
      echo "-- clang-format: $(git ls-files '*.cc' '*.h' '*.cu' | wc -l) files" ;;
    docs)
      # Readers named, sentences short, links and generated tables right.
      deploy/docs_check.py
      python3 recipes/shipped_scores.py --check
      python3 recipes/scores.py --check
      python3 recipes/study_figures.py --check
      echo "-- docs: pass" ;;
    tidy)
      # The files that changed since the commit of deploy/tidy_base, where all passed.
      deploy/tidy.py ;;
    thread-safety)
      # Every function has the locks that its annotations ask for (base/mutex.h), in the files that changed likewise.
      deploy/thread_safety.py ;;
    thread-safety-mutations)
      # With locks that acquire nothing, and with lock orders reversed: clang must refuse each guarded member and the orders.
      deploy/thread_safety.py --mutations ;;
    benches)
      # They are not part of `all`, since no test needs them.
      ninja -C build/release benches
      echo "-- benches: built" ;;
    package)
      # What is installed is built for it. Packs the build as a Debian package and unpacks it again: both programs must start from there.
      deploy/package_files.py build/release
      package=build/release/package
      rm -rf "$package" && mkdir -p "$package"
      (cd build/release && cpack -G DEB -B package >package/cpack.log) || { cat "$package/cpack.log"; exit 1; }
      dpkg-deb -x "$package"/varifocal_*.deb "$package/root"
      for program in varifocal varifocald; do "$package/root/usr/bin/$program" --version; done
      for file in lib/systemd/system/varifocald.service share/man/man1/varifocal.1 share/man/man1/varifocald.1 share/bash-completion/completions/varifocal \
                  share/varifocal/models/baseline/config.json share/doc/varifocal/README.md; do
        test -s "$package/root/usr/$file" || { echo "error: the package lacks usr/$file" >&2; exit 1; }
      done
      bash -n "$package/root/usr/share/bash-completion/completions/varifocal"
      echo "-- package: $(basename "$package"/varifocal_*.deb), $(stat -c %s "$package"/varifocal_*.deb) bytes" ;;
    wheel)
      folder=build/wheel-check
      rm -rf "$folder" && deploy/wheel.sh --out="$folder"
      python3 -m venv "$folder/venv"
      "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$folder"/varifocal-*.whl
      for file in share/varifocal/models/baseline/config.json share/man/man1/varifocal.1 share/bash-completion/completions/varifocal; do
        test -s "$folder/venv/$file" || { echo "error: the wheel lacks $file" >&2; exit 1; }
      done
      # Without base/static_lookup.cc an unknown host name loads a library for another glibc, and can crash the program.
      for program in varifocal varifocald; do
        nm "build/portable/bin/$program" | grep __nss_configure_lookup >/dev/null || { echo "error: $program does not restrict where host names are looked up" >&2; exit 1; }
      done
      VARIFOCAL_BIN=$folder/venv/bin "$folder/venv/bin/python" client/python/tests/test_package.py
      echo "-- wheel: $(basename "$folder"/varifocal-*.whl)" ;;
    asan)
      # Without detect_stack_use_after_return: g++ 12 misaligns 64-byte vectors on the stack it uses for that.
      export ASAN_OPTIONS=detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
      # Left out, since ctest has them and they would be half of the time here: what repeats the same code for one more model, the
      # portable kernels (the same templates as the vector code), goldens on the reference, and the simulations of the statistics.
      # shellcheck disable=SC2086
      GTEST_FILTER="-Full/*:*Conformance*portable*attention*:*Conformance*portable*groups*:*Conformance*portable*same_bits*:*Conformance*portable*inspection*:\
$more_models*GoldenTest*_portable_*:*GoldenTest*_reference_*:*FunctionJsonTest*/architectures_*:$simulations" \
        build_and_run asan $core_tests ;;
    tsan)
      export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/deploy/tsan.supp"
      # For threads, golden tests, head dims, groups and what agrees with an oracle add nothing to the same-bits tests, nor one more
      # dense model to those with windows, pages and preemption; portable kernels run on the same thread pool as the others.
      GTEST_FILTER="-Full/*:*Golden*:*Conformance*head_dim_*:*Conformance*groups_?_of_*:*Conformance*portable*:*inspection_across_splits*:\
$more_models*SameBitsTest*_bf16:*SameBitsTest.ScoredBeside*:*SameBitsTest*/attention_*:*SameBitsTest*/tied_*:*SameBitsTest*gemma3_newer*:*SameBitsTest*deepseek*:\
ControlTest.*:*Test.AgreesWith*:FunctionJson*" \
        build_and_run tsan base_test kernels_test engine_test jobs_test ;;
    cuda)
      # With nvcc: every kernel is compiled for both architectures and checked against its resource limits. With or without: the
      # kernels run on the emulator.
      cmake --preset cuda -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
      ninja -C build/cuda -j2 varifocal_kernels cuda_test cuda_engine_test cuda_copies_test gpu_bench cuda_selfcheck
      echo "-- cuda: $(command -v nvcc >/dev/null && echo 'nvcc found' || echo 'nvcc is not on PATH: kernels are not compiled for a device')"
      # Of a failure all that is not a line of a test that passed.
      ctest --test-dir build/cuda -R '^cuda:' -LE slow -j2 --output-on-failure >build/cuda/ctest.log ||
        { grep -vE '^ +Start +[0-9]+|^ *[0-9]+/[0-9]+ Test .* Passed ' build/cuda/ctest.log | tail -n 100; exit 1; }
      tail -n 8 build/cuda/ctest.log ;;
    fuzz)
      cmake --preset fuzz -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
      ninja -C build/fuzz -j2 fuzzers
      for program in build/fuzz/bin/fuzz_*; do
        target=${program##*/fuzz_}
        mkdir -p "build/fuzz/corpus/$target"
        # The last line of libFuzzer has the number of executions.
        "$program" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=4000 -print_final_stats=1 \
          -artifact_prefix="build/fuzz/crash-$target-" "build/fuzz/corpus/$target" tests/fuzz/seeds >build/fuzz/log 2>&1 ||
          { tail -n 60 build/fuzz/log; exit 1; }
        echo "-- fuzz: $target, $(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/log) executions"
      done ;;
    *) echo "error: unknown check '$check'; the checks are format, docs, tidy, thread-safety, thread-safety-mutations, benches, package, wheel, asan, tsan, cuda, fuzz" >&2; exit 2 ;;
  esac
  took+=("$check $((SECONDS - began)) s")
done
echo "deploy/checks.sh: $(printf '%s, ' "${took[@]}" | sed 's/, $//')"
