#!/usr/bin/env python3
"""Branch coverage of the code that parses input or touches storage.

  deploy/coverage.py [--build] [--list] [--no-run] [FOLDER..]     e.g. deploy/coverage.py --build --list db tokenizer

Builds the programs below with clang's source-based coverage (--build; preset `coverage`), runs them, and prints for each
source file the branches that were taken, of all. --list adds the branches that were not; --no-run reads the profiles of the last run. A program that is not built is left
out and named. Folders: all of FOLDERS unless some are given.

A branch is one outcome, true or false, of a condition in our source text: of if, loops, ?:, && and ||, and of each case. The
compiler's own branches (exceptions, destructors, guards of statics, inlined libraries) are none. Left out:
  - conditions that are constants: `while (true)`, `if constexpr`
  - both outcomes of VF_CHECK: a failure is a defect and ends the process
  - the files of NOT_COUNTED, which neither parse input nor touch storage
The error of a call that RETURN_IF_ERROR or ASSIGN_OR_RETURN returns is a branch as any other.
"""

import collections
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path("build/coverage")
PROFILES = BUILD / "profiles"
# By folder, the program that contains all of its code.
FOLDERS = {
    "base": "base_test",
    "db": "db_test",
    "tokenizer": "tokenizer_test",
    "eval_tasks": "helmet_import_test eval_tasks_test",
    "server/model": "model_test",
}
# What runs this code.
PROGRAMS = (
    "base_test db_test tokenizer_test eval_tasks_test helmet_import_test model_test fuzz_test faults_test fault_loop_test client_fuzz_test"
    " client_test jobs_test server_test"
).split()
# Cases left out: simulations of many data sets, which take minutes and no further branch.
LEFT_OUT = {
    "db_test": "*Simulation*:BaseRates.*:Inference.*:Replicates.*:Permutation.*:MaxT.*:SignFlip.*:EffectiveLength.EachEnd*:Choice.IsUnbiased*",
}
# Files of the folders that neither parse input nor touch storage.
NOT_COUNTED = (
    r"_test\.cc$|/fake|fault_injection|instruction_count|simulation|_bench\.cc$|/testing_|fixture",  # of tests
    r"^base/(check\.h|clock|random)",
    r"^db/stats/",  # statistics of rows that were read
    # Prompts and measures from values that were read, and the order of requests.
    r"^eval_tasks/(metrics/|metrics\.cc|runner|grid|generator|sample_sink|token_counter|attention_inspection|python/)",
    r"^eval_tasks/tasks/(chunk_counter|context_plan|distinct_words|fact_|fit|haystack|icl_labels|lexicon|longqa_|native_task|niah|rag_|recall_kv|variable_|word_counts)",
    # Computation.
    r"^server/model/(forward|kernel_status|rope\.|rope_tables|transformer|attention/focal_full_layers|attention/log_n)",
)
CONSTANT = re.compile(r"^(true|false|0|1)$")


def main() -> None:
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    options = {argument for argument in sys.argv[1:] if argument.startswith("--")}
    folders = [argument for argument in sys.argv[1:] if argument not in options] or list(FOLDERS)
    if "--build" in options:
        subprocess.run(["cmake", "--preset", "coverage", "-DCMAKE_MESSAGE_LOG_LEVEL=WARNING"], check=True)
        subprocess.run(["ninja", "-C", BUILD, "-j2", *PROGRAMS], check=True)
    if "--no-run" not in options:
        run()
    branches = read([program for folder in folders for program in FOLDERS[folder].split()])
    for folder in folders:
        report_room(folder, branches, "--list" in options)


def run() -> None:
    """One profile per program; its child processes that end by themselves are merged into it."""
    PROFILES.mkdir(exist_ok=True)
    for profile in PROFILES.iterdir():
        profile.unlink()
    for program in PROGRAMS:
        if not (BUILD / "bin" / program).exists():
            print(f"without {program}, which is not built")
            continue
        subprocess.run([BUILD / "bin" / program, "--gtest_brief=1", f"--gtest_filter=-{LEFT_OUT.get(program, '')}"], check=True,
                       env=os.environ | {"LLVM_PROFILE_FILE": os.path.abspath(PROFILES / f"{program}-%m.profraw")})


def read(programs: list[str]) -> dict:
    """By file and place in it (line, column, condition) the outcomes: [true was taken, false was taken]."""
    merged = BUILD / "coverage.profdata"
    subprocess.run(["llvm-profdata", "merge", "-o", merged, *PROFILES.glob("*.profraw")], check=True)
    branches: dict[str, dict[tuple, list[bool]]] = collections.defaultdict(dict)
    for program in programs:
        text = subprocess.run(["llvm-cov", "export", f"-instr-profile={merged}", BUILD / "bin" / program], check=True,
                              capture_output=True).stdout
        for function in json.loads(text)["data"][0]["functions"]:
            add(function, branches)
    return branches


def add(function: dict, branches: dict) -> None:
    """A branch counts as taken when any program or instance of a template took it."""
    files = function["filenames"]
    # Where the macro that file number `to` is the text of was used.
    used_at = {to: (file, line, column) for line, column, _, _, _, file, to, kind in function["regions"] if kind == 1}
    root = os.getcwd() + "/"
    for line, column, end_line, end_column, if_true, if_false, file, _, _ in function["branches"]:
        if not files[file].startswith(root):
            continue
        condition = text_of(files[file], line, column, end_line, end_column)
        if CONSTANT.match(condition) or "if constexpr" in lines_of(files[file])[line - 1][:column]:
            continue
        macro = ""
        while file in used_at:
            file, line, column = used_at[file]
            macro = re.match(r"\w*", lines_of(files[file])[line - 1][column - 1:])[0]
        if macro == "VF_CHECK":
            continue
        path = files[file][len(root):]
        outcomes = branches[path].setdefault((line, column, condition, macro), [False, False])
        outcomes[0] |= if_true > 0
        outcomes[1] |= if_false > 0


def text_of(path: str, line: int, column: int, end_line: int, end_column: int) -> str:
    lines = lines_of(path)[line - 1:end_line]
    lines[-1] = lines[-1][:end_column - 1]
    lines[0] = lines[0][column - 1:]
    return " ".join(part.strip() for part in lines)


@functools.cache
def lines_of(path: str) -> list[str]:
    return pathlib.Path(path).read_text().split("\n")


def report_room(folder: str, branches: dict, listed: bool) -> None:
    total, hit, passed_on = 0, 0, 0
    for path in sorted(branches):
        if not path.startswith(folder + "/") or any(re.search(pattern, path) for pattern in NOT_COUNTED):
            continue
        of_file = sorted(branches[path].items())
        taken = sum(sum(outcomes) for _, outcomes in of_file)
        total += 2 * len(of_file)
        hit += taken
        if listed:
            for (line, _, condition, macro), outcomes in of_file:
                if not all(outcomes):
                    missing = " and ".join(name for name, is_taken in zip(("true", "false"), outcomes) if not is_taken)
                    print(f"    {path}:{line}: {macro or condition}: never {missing}")
        passed_on += sum(2 - sum(outcomes) for (_, _, _, macro), outcomes in of_file
                         if macro in ("RETURN_IF_ERROR", "ASSIGN_OR_RETURN"))
        print(f"{100 * taken / (2 * len(of_file)):6.1f} %  {taken:5} of {2 * len(of_file):5}  {path}")
    print(f"{100 * hit / total:6.1f} %  {hit:5} of {total:5}  {folder}; of the {total - hit} others {passed_on} return an error of a call")


if __name__ == "__main__":
    main()
