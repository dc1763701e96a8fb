#!/usr/bin/env python3
"""clang-tidy-14 over the files that changed since every file passed.

    deploy/tidy.py                the files that differ from the commit of deploy/tidy_base, uncommitted ones included
    deploy/tidy.py --all          every file
    deploy/tidy.py --max=N        at most N translation units; a repeated call goes on where the last one ended
    deploy/tidy.py --move-base    the same and deploy/thread_safety.py; where all pass and nothing is uncommitted, HEAD becomes the base

All files are checked where .clang-tidy differs or the base is not in the history (a shallow clone). A header is checked
through one unit that includes it, a source of a unity build through that build's file. What passed is remembered in
build/release by the text of the unit and of all it includes. Needs build/release/compile_commands.json (deploy/test.sh).
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import thread_safety
from changed_units import BASE, ROOT, changed_files, closure_of, git

BUILD = ROOT / "build/release"
PASSED = BUILD / "tidy_passed.json"
ROOMS = ("base", "kernels", "tokenizer", "eval_tasks", "wire", "db", "server", "client", "bench", "tests")


def hash_of(unit):
    """Of the configuration and of every file that `unit` is compiled from."""
    text = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for path in sorted(closure_of(unit)):
        text.update(path.read_bytes())
    return text.hexdigest()


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--max", type=int)
    parser.add_argument("--move-base", action="store_true")
    options = parser.parse_args()

    commands = json.loads((BUILD / "compile_commands.json").read_text())
    named = {pathlib.Path(command["file"]) for command in commands}
    units = sorted(unit for unit in named if "Unity" in unit.parts or not unit.is_relative_to(BUILD))
    rooms = tuple(ROOT / room for room in ROOMS)
    files = {path for unit in units for path in closure_of(unit) if any(path.is_relative_to(room) for room in rooms)}
    changed = None if options.all else changed_files(".clang-tidy")
    dirty = files if changed is None else files & changed

    passed = json.loads(PASSED.read_text()) if PASSED.exists() else {}
    hashes = {unit: hash_of(unit) for unit in chosen(units, dirty)}
    waiting = [unit for unit in hashes if passed.get(str(unit)) != hashes[unit]]
    asked = waiting[: options.max]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for unit, code, output in pool.map(check, asked):
            if code == 0:
                passed[str(unit)] = hashes[unit]
                PASSED.write_text(json.dumps(passed))  # now, to go on after an interruption
            else:
                failed += 1
                print(f"{unit.relative_to(ROOT)}:\n{output}")
    left = len(waiting) - len(asked)
    print(f"-- clang-tidy: {len(dirty)} of {len(files)} files changed, in {len(hashes)} units: {len(asked)} checked now, "
          f"{failed} with findings, {left} left")
    if options.move_base and not failed and not left and thread_safety.check():
        if git("status", "--porcelain").stdout:
            print("-- clang-tidy: the base stays, since changes are not committed")
        else:
            BASE.write_text(git("rev-parse", "HEAD").stdout)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
