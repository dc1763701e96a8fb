#!/usr/bin/env bash
# Installs what is missing, builds the release preset, and runs every test that needs no label.
#
#   deploy/test.sh [ctest arguments]      e.g. deploy/test.sh -R tokenizer
set -euo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS

deploy/install.sh
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset release
built=$SECONDS
# Tests with a label need time, a device, a network or a fetched input; they are run by name (ctest -L slow). Two at a time for each
# core: half of a test's time is waiting.
ctest --test-dir build/release -LE 'slow|device|network|real' -j$((2 * $(nproc))) --output-on-failure "$@"
echo "deploy/test.sh: build $((built - started)) s, tests $((SECONDS - built)) s"
