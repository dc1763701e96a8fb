#!/usr/bin/env python3
"""clang-tidy-14 over translation units that have not passed yet as they are now.

    deploy/tidy.py [--max=N] [FILE..]     at most N units (16 unless given), those changed since origin/main first

A unit is named by the hash of its text, of every header of this repository that it includes, and of .clang-tidy; the names of
units that passed are kept in ${VARIFOCAL_CACHE:-~/.cache/varifocal}/tidy. Needs build/release/compile_commands.json.
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
PASSED = pathlib.Path(os.environ.get("VARIFOCAL_CACHE", pathlib.Path.home() / ".cache/varifocal")) / "tidy"
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@functools.cache
def text_and_includes(path):
    text = path.read_bytes()
    found = (ROOT / name.decode() for name in INCLUDE.findall(text))
    return text, [header for header in found if header.is_file()]


def name_of(unit):
    """The hash of the unit with its headers, each once, in the order in which they are found."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    seen, waiting = set(), [unit]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        text, headers = text_and_includes(path)
        digest.update(hashlib.sha256(text).digest())
        waiting.extend(headers)
    return digest.hexdigest()


def changed():
    def git(*args):
        return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)

    for base in (["merge-base", "HEAD", "origin/main"], ["rev-parse", "HEAD~1"]):
        found = git(*base)
        if found.returncode == 0:
            return {ROOT / name for name in git("diff", "--name-only", found.stdout.strip()).stdout.split()}
    return set()


def check(unit):
    ran = subprocess.run(["clang-tidy-14", "-p", BUILD, "--quiet", unit], cwd=ROOT, capture_output=True, text=True)
    return unit, ran.returncode, ran.stdout


def main(args):
    limit = 16
    if args and args[0].startswith("--max="):
        limit = int(args.pop(0).removeprefix("--max="))
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    units = sorted({pathlib.Path(c["file"]) for c in commands if c["file"].endswith(".cc")})
    units = [unit for unit in units if unit.is_relative_to(ROOT) and not unit.is_relative_to(BUILD)]
    first = {pathlib.Path(arg).resolve() for arg in args} or changed()
    if args:
        units = [unit for unit in units if unit in first]
    PASSED.mkdir(parents=True, exist_ok=True)
    names = {unit: name_of(unit) for unit in units}
    waiting = sorted((unit for unit in units if not (PASSED / names[unit]).exists()), key=lambda unit: unit not in first)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for unit, code, output in pool.map(check, waiting[:limit]):
            if code == 0:
                (PASSED / names[unit]).touch()
            else:
                failed += 1
                print(f"{unit.relative_to(ROOT)}:\n{output}")
    asked = min(limit, len(waiting))
    print(f"-- clang-tidy: {asked} of {len(units)} units checked, {failed} with findings, {len(waiting) - asked} not yet")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
