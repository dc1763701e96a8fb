#!/usr/bin/env bash
# Builds the wheel, installs it in a fresh environment, checks its types and runs its tests and its example against a daemon.
# Needs a network for pip.
#
#   client/python/check.sh FOLDER BIN      FOLDER for the environment, BIN with varifocal and varifocald
set -euo pipefail
folder=$(realpath -m "$1")
export VARIFOCAL_BIN
VARIFOCAL_BIN=$(realpath "$2")
cd "$(dirname "$0")/../.."

rm -rf "$folder/dist"
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip wheel --no-deps --wheel-dir "$folder/dist" client/python
pip install --force-reinstall --no-deps "$folder"/dist/varifocal-*.whl
pip install "$folder"/dist/varifocal-*.whl mypy pandas-stubs types-PyYAML types-protobuf types-grpcio types-grpcio-status
"$folder/venv/bin/python" -m mypy --strict --python-executable "$folder/venv/bin/python" -p varifocal
"$folder/venv/bin/python" client/python/tests/test_package.py
