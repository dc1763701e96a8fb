#!/usr/bin/env python3
"""clang-tidy-14 over the files that have not passed yet as they are now.

    deploy/tidy.py [--max=N]     at most N translation units (all unless given)

deploy/tidy.sums names every file that passed by a hash of its text and of .clang-tidy; commit it with the files. A header is
checked through one unit that includes it, a source of a unity build through that build's file. Needs
build/release/compile_commands.json (deploy/test.sh).
"""

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/release"
SUMS = ROOT / "deploy/tidy.sums"
ROOMS = ("base", "kernels", "tokenizer", "eval_tasks", "wire", "db", "server", "client", "bench", "tests")
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def sum_of(path):
    return hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + path.read_bytes()).hexdigest()[:16]


@functools.cache
def headers_of(path):
    """The headers of this repository that `path` includes itself."""
    found = (ROOT / name.decode() for name in INCLUDE.findall(path.read_bytes()))
    return frozenset(header for header in found if header.is_file())


@functools.cache
def closure_of(unit):
    """The files of this repository that `unit` is compiled from, itself included."""
    seen, waiting = {unit}, [unit]
    while waiting:
        for header in headers_of(waiting.pop()) - seen:
            seen.add(header)
            waiting.append(header)
    return frozenset(seen)


def chosen(units, dirty):
    """For each dirty file a unit that includes it: with its name where there is one, else the one with the fewest files."""
    units_to_check, covered = [], set()
    for path in sorted(dirty, key=lambda path: (path.suffix == ".h", path)):  # sources first: most cover their headers
        including = [unit for unit in units if path in closure_of(unit)]
        if including and path not in covered:
            unit = min(including, key=lambda unit: (unit.stem != path.stem, len(closure_of(unit)), unit))
            units_to_check.append(unit)
            covered |= closure_of(unit)
    return units_to_check


def check(unit):
    # A file of a unity build includes sources.
    ran = subprocess.run(["clang-tidy-14", "-p", BUILD, "--quiet", "--checks=-bugprone-suspicious-include", unit],
                         cwd=ROOT, capture_output=True, text=True)
    return unit, ran.returncode, ran.stdout


def main(args):
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    limit = int(args[0].removeprefix("--max=")) if args else len(commands)
    named = {pathlib.Path(command["file"]) for command in commands}
    units = sorted(unit for unit in named if "Unity" in unit.parts or not unit.is_relative_to(BUILD))
    rooms = tuple(ROOT / room for room in ROOMS)
    files = {path for unit in units for path in closure_of(unit) if any(path.is_relative_to(room) for room in rooms)}
    sums = {path: sum_of(path) for path in files}
    passed = dict(reversed(line.split()) for line in SUMS.read_text().splitlines()) if SUMS.exists() else {}
    dirty = {path for path in sums if passed.get(str(path.relative_to(ROOT))) != sums[path]}

    to_check = chosen(units, dirty)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for unit, code, output in pool.map(check, to_check[:limit]):
            if code == 0:
                dirty -= closure_of(unit)
            else:
                failed += 1
                print(f"{unit.relative_to(ROOT)}:\n{output}")
            clean = sorted(str(path.relative_to(ROOT)) for path in sums if path not in dirty)
            SUMS.write_text("".join(f"{sums[ROOT / name]} {name}\n" for name in clean))  # now, to resume after an interruption
    asked = min(limit, len(to_check))
    print(f"-- clang-tidy: {len(sums) - len(dirty)} of {len(sums)} files pass; {asked} units checked now, {failed} with findings, "
          f"{len(to_check) - asked} left")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
