#!/usr/bin/env bash
# Fetches six novels of Jane Austen (public domain, 4 MB) into the cache, for haystacks and longqa_novel.
# Source: Debian's package r-cran-janeaustenr, unpacked without installing; R is not needed.
#
#   deploy/get_novels.sh                  into ${VARIFOCAL_CACHE:-~/.cache/varifocal}/novels
set -euo pipefail
cd "$(dirname "$0")/.."
package=r-cran-janeaustenr
target=${VARIFOCAL_CACHE:-$HOME/.cache/varifocal}/novels

digests=$PWD/deploy/novels.sha256
if (cd "$target" 2>/dev/null && sha256sum --status --check "$digests" 2>/dev/null); then
  echo "novels: in $target already"
  exit 0
fi
deploy/install.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
fetch() { (cd "$work" && apt-get download -qq "$package" 2>"$work/apt.log"); }
if ! fetch; then
  # The package lists are missing or outdated.
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq
  fetch || { echo "error: apt-get download $package failed: $(tail -n 1 "$work/apt.log")" >&2; exit 1; }
fi
dpkg -x "$work"/"$package"_*.deb "$work/unpacked"
mkdir -p "$target"
python3 recipes/extract_novels.py "$work/unpacked/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb" "$digests" "$target"
echo "novels: six files in $target"
