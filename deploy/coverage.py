#!/usr/bin/env python3
"""Branch coverage of the code that parses input or touches storage.

  deploy/coverage.py [--build] [FOLDER..]     e.g. deploy/coverage.py --build db tokenizer

Builds the tests of these rooms with gcov's counters (--build), runs them, and prints for each source file the branches that
were taken, of all; the arcs of calls that may throw are left out. Folders: db, base, tokenizer, eval_tasks,
server/model unless some are given. A test that is not built is left out and named.
"""

import collections
import functools
import glob
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path("build/coverage")
# The tests that run the code of a folder.
PROGRAMS = {
    "base": ["base_test"],
    "db": ["db_test", "faults_test", "fault_loop_test"],
    "tokenizer": ["tokenizer_test", "fuzz_test"],
    "eval_tasks": ["eval_tasks_test", "helmet_import_test", "fuzz_test"],
    "server/model": ["model_test", "fuzz_test"],
}

NOT_OF_A_ROOM = ("test", "fake", "fault_injection", "instruction_count", "simulation", "bench")


def main() -> None:
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    arguments = sys.argv[1:]
    build = "--build" in arguments
    folders = [argument for argument in arguments if argument != "--build"] or list(PROGRAMS)
    programs = sorted({program for folder in folders for program in PROGRAMS[folder]})
    if build:
        subprocess.run(["cmake", "--preset", "coverage", "-DCMAKE_MESSAGE_LOG_LEVEL=WARNING"], check=True)
        subprocess.run(["ninja", "-C", BUILD, "-j2", *programs], check=True)
    for counters in BUILD.glob("**/*.gcda"):
        counters.unlink()
    for program in programs:
        if not (BUILD / "bin" / program).exists():
            print(f"without {program}, which is not built")
            continue
        subprocess.run([BUILD / "bin" / program, "--gtest_brief=1"], check=True)

    taken: dict[str, dict[tuple[int, int], bool]] = collections.defaultdict(dict)
    with tempfile.TemporaryDirectory() as scratch:
        for counters in BUILD.glob("**/*.gcda"):
            subprocess.run(["gcov", "--branch-probabilities", "--json-format", counters.resolve()], cwd=scratch,
                           check=True, capture_output=True)
            for name in glob.glob(f"{scratch}/*.gcov.json.gz"):
                with gzip.open(name) as file:
                    add(json.load(file), taken)
                os.remove(name)
    for folder in folders:
        report_room(folder, taken)


def report_room(folder: str, taken: dict) -> None:
    """Lines of the files and of the room: RETURN_IF_ERROR and ASSIGN_OR_RETURN have a branch that returns an error of a call."""
    total, hit, passed_on = 0, 0, 0
    for path in sorted(taken):
        branches = taken[path]
        if not path.startswith(folder + "/") or any(word in path for word in NOT_OF_A_ROOM) or not branches:
            continue
        total += len(branches)
        hit += sum(branches.values())
        passed_on += sum(not is_taken and passes_on(path, line) for (line, _), is_taken in branches.items())
        print(f"{100 * sum(branches.values()) / len(branches):6.1f} %  {sum(branches.values()):5} of {len(branches):5}  {path}")
    print(f"{100 * hit / total:6.1f} %  {hit:5} of {total:5}  {folder}; of the {total - hit} others {passed_on} return an error of a call")


@functools.cache
def lines_of(path: str) -> list[str]:
    return pathlib.Path(path).read_text().split("\n")


def passes_on(path: str, line: int) -> bool:
    return any(name in lines_of(path)[line - 1] for name in ("RETURN_IF_ERROR", "ASSIGN_OR_RETURN"))


def add(report: dict, taken: dict) -> None:
    """A branch of a line counts as taken when any program or instance of a template took it."""
    root = os.getcwd() + "/"
    for file in report["files"]:
        path = os.path.normpath(os.path.join(report.get("current_working_directory", ""), file["file"]))
        if not path.startswith(root) or path.startswith(root + "build/"):
            continue
        of_file = taken[path[len(root):]]
        for line in file["lines"]:
            branches = line["branches"]
            for index, branch in enumerate(branches):
                # A call that may throw has two arcs, the way on and the exception: no decision of the source.
                if branch["throw"] or (index + 1 < len(branches) and branches[index + 1]["throw"]):
                    continue
                key = (line["line_number"], index)
                of_file[key] = of_file.get(key, False) or branch["count"] > 0


if __name__ == "__main__":
    main()
