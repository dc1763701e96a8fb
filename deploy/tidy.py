#!/usr/bin/env python3
"""clang-tidy-14 over the files that have not passed yet as they are now.

    deploy/tidy.py [--max=N]     at most N translation units (60 unless given)

deploy/tidy.sums names every file that passed by a hash of its text and of .clang-tidy; commit it with the files. A header is
checked through one unit that includes it. Needs build/release/compile_commands.json (deploy/test.sh).
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
    seen, waiting = set(), [unit]
    while waiting:
        for header in headers_of(waiting.pop()) - seen:
            seen.add(header)
            waiting.append(header)
    return frozenset(seen)


def chosen(units, dirty):
    """Dirty units, and for each dirty header that none of them includes the unit with the fewest headers that does."""
    units_to_check = [unit for unit in units if unit in dirty]
    covered = frozenset().union(*map(closure_of, units_to_check))
    for header in sorted(dirty - covered - set(units)):
        including = [unit for unit in units if header in closure_of(unit)]
        if including and header not in covered:
            unit = min(including, key=lambda unit: (unit.stem != header.stem, len(closure_of(unit)), unit))
            units_to_check.append(unit)
            covered |= closure_of(unit)
    return units_to_check


def check(unit):
    ran = subprocess.run(["clang-tidy-14", "-p", BUILD, "--quiet", unit], cwd=ROOT, capture_output=True, text=True)
    return unit, ran.returncode, ran.stdout


def main(args):
    limit = int(args[0].removeprefix("--max=")) if args else 60
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    named = {pathlib.Path(command["file"]) for command in commands}
    units = sorted(unit for unit in named if unit.suffix == ".cc" and unit.is_relative_to(ROOT) and not unit.is_relative_to(BUILD))
    headers = {header for room in ROOMS for header in (ROOT / room).rglob("*.h")}
    headers &= frozenset().union(*map(closure_of, units))
    sums = {path: sum_of(path) for path in {*units, *headers}}
    passed = dict(reversed(line.split()) for line in SUMS.read_text().splitlines()) if SUMS.exists() else {}
    dirty = {path for path in sums if passed.get(str(path.relative_to(ROOT))) != sums[path]}

    to_check = chosen(units, dirty)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for unit, code, output in pool.map(check, to_check[:limit]):
            if code == 0:
                dirty -= {unit, *closure_of(unit)}
            else:
                failed += 1
                print(f"{unit.relative_to(ROOT)}:\n{output}")
    clean = sorted(str(path.relative_to(ROOT)) for path in sums if path not in dirty)
    SUMS.write_text("".join(f"{sums[ROOT / name]} {name}\n" for name in clean))
    asked = min(limit, len(to_check))
    print(f"-- clang-tidy: {len(clean)} of {len(sums)} files pass; {asked} units checked now, {failed} with findings, "
          f"{len(to_check) - asked} left")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
