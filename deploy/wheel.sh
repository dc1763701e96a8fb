#!/usr/bin/env bash
# Makes one wheel of everything: varifocal and varifocald for the path, the Python package, the shipped models. Installing it
# needs neither root nor Debian.
#
#   deploy/wheel.sh [--cuda] [--out=DIR]
#
#   --cuda    the daemon with the CUDA backend, where nvcc is; the C library is not linked in then, so the machine's own must be as new
#   --out     where the wheel is written (build/dist)
#
# The platform tag is that of the highest glibc symbol which the programs need; wholly static ones need none and get the oldest
# tag in use. Needs a network for pip.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=portable out=build/dist
for flag in "$@"; do
  case $flag in
    --cuda) preset=cuda-portable ;;
    --out=*) out=${flag#*=} ;;
    *) echo "error: unknown flag $flag; the flags are --cuda --out=" >&2; exit 2 ;;
  esac
done
jobs=${JOBS:-$(nproc)}

deploy/install.sh
cmake --preset "$preset" -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build "build/$preset" -j "$jobs" --target package_files
installed=$PWD/build/$preset/installed
rm -rf "$installed"
cmake --install "build/$preset" --prefix "$installed" --strip >"build/$preset/install.log"

# "GLIBC_2.34 sem_post", a line a symbol; a wholly static program has no table of them.
symbols=$(for program in "$installed"/bin/*; do
  file -L "$program" | grep 'statically linked' >/dev/null || objdump -T "$program" | sed -nE 's/.*\b(GLIBC_[0-9.]+)\)? +([^ ]+)$/\1 \2/p'
done | sort -uV)
highest=$(tail -n 1 <<<"$symbols" | cut -d' ' -f1)
version=${highest#GLIBC_}
version=${version:-2.17}
platform=manylinux_${version/./_}_$(uname -m)

# The stubs of this generator work with this protobuf and the next major version, on every Python from 3.9.
python3 -m venv build/dist-tools
pip() { build/dist-tools/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
pip install 'setuptools>=70,<81' wheel grpcio-tools==1.71.0 protobuf==5.29.4 mypy-protobuf==3.6.0
rm -rf client/python/build
mkdir -p "$out"
rm -f "$out"/varifocal-*.whl  # of another variant or version
PATH=$PWD/build/dist-tools/bin:$PATH VARIFOCAL_INSTALLED=$installed VARIFOCAL_PLATFORM=$platform \
  pip wheel --no-deps --no-build-isolation --wheel-dir "$out" client/python
rm -rf client/python/build

echo "highest glibc symbol: ${highest:-none, the programs are static}"
[ -z "$highest" ] || awk -v highest="$highest" '$1 == highest && n++ < 3 {print "  for example " $2}' <<<"$symbols"
wheel=$(ls -t "$out"/varifocal-*.whl | sed -n 1p)
echo "$wheel: $(($(stat -c %s "$wheel") >> 20)) MiB"
