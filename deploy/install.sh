#!/usr/bin/env bash
# Installs the Debian packages of deploy/packages.txt that are missing. Needs root (or sudo) only when one is.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
while read -r package; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep 'install ok installed' >/dev/null || missing+=("$package")
done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' deploy/packages.txt)

if [ "${#missing[@]}" -eq 0 ]; then
  echo "packages: all installed"
  exit 0
fi
echo "packages: installing ${#missing[@]}: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "error: installing packages needs root: run this once as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
