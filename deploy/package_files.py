#!/usr/bin/env python3
"""Is everything that is installed from the build directory a part of the target package_files? The rules are those of
cmake_install.cmake, the parts those of build.ninja.

    deploy/package_files.py build/release
"""

import pathlib
import re
import subprocess
import sys


def installed(build: pathlib.Path) -> set[str]:
    """Files and directories below `build` that a rule installs, relative to it."""
    text = "".join(script.read_text() for script in sorted(build.rglob("cmake_install.cmake")))
    rules = re.findall(r"^ *file\(INSTALL (.*?)\)$", text, re.M | re.S)
    paths = [pathlib.Path(path) for rule in rules for path in re.findall(r'"(/[^"$]+)"', rule)]
    return {str(path.relative_to(build)) for path in paths if path.is_relative_to(build)}


def made(build: pathlib.Path) -> set[str]:
    """What ninja makes for package_files."""
    found, left = set(), ["package_files"]
    while left:
        said = subprocess.run(["ninja", "-C", str(build), "-t", "query", *left], check=True, capture_output=True, text=True).stdout
        inputs = {line.strip().lstrip("| ") for line in re.findall(r"^  input:.*\n((?:    .*\n)*)", said, re.M) for line in line.splitlines()}
        # A phony target or a product; no compiler's inputs.
        left = sorted(name for name in inputs - found if not re.search(r"\.(o|a|cc|h|so)$|^/", name))
        found.update(left)
    return found


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    wanted, have = installed(build), made(build)
    lacking = sorted(wanted - have)
    for path in lacking:
        print(f"error: {path} is installed and no part of the target package_files (cmake/VarifocalInstall.cmake)", file=sys.stderr)
    if not wanted:
        print(f"error: nothing is installed from {build}", file=sys.stderr)
    else:
        print(f"{len(wanted) - len(lacking)} of {len(wanted)} installed files are parts of package_files")
    return 1 if lacking or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
