#!/usr/bin/env bash
# Builds the project and runs the table of faults (docs/faults.md): every row with its trials, violations and bound.
#
#   deploy/faults.sh [quick|full] [--rows=1,7] [--seed=TEXT] [--trials=N] [--minutes=M]
#
# quick takes minutes, full takes days; exit 1 on a violation.
set -euo pipefail
cd "$(dirname "$0")/.."
deploy/install.sh
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset release
exec build/release/bin/fault_table "$@"
