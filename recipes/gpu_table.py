"""The tables to paste into docs/gpu/README.md, from a directory of results of deploy/gpu_check.sh: what passed, then every figure
with its goal. Cells are those of gpu_peers.py; steps that time variants in turns left a log of gpu_bench's lines each.

    python3 recipes/gpu_table.py build/gpu-check/results/DIR
"""

import glob
import json
import os
import pathlib
import re
import statistics
import sys

from gpu_goals import IN_ROW, STEPS, complete, floor_ms, goal_of


def json_lines(path):
    with open(path, errors="replace") as file:
        for line in file:
            if line.startswith("{"):
                try:
                    yield json.loads(line)
                except ValueError:
                    pass  # the process was killed as it wrote this one


def measured(ms, other, goal, rate=0):
    words = f"{other / ms:.3g} ({ms:.4g} of {other:.4g} ms{f', {rate:.0f} TFLOP/s' if rate >= 1 else ''})"
    return words if goal is None else words + (", met" if other / ms >= goal else ", MISSED")


def table(title, head, rows):
    if rows:
        print("\n".join(["", f"### {title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]))
        for row in rows:
            print("| " + " | ".join(str(x).replace("|", "/") for x in row) + " |")


def checks(directory):
    """Of each step: cases that passed, of those that the device supports."""
    last = {(row["step"], row["case"]): row for row in json_lines(os.path.join(directory, "results.jsonl"))}
    steps = {}
    for (step, case), row in last.items():
        if not case.startswith("times-") and row["status"] != "skipped":
            steps.setdefault(step, []).append(row)
    for step, rows in steps.items():
        bad = [f"{r['case']} ({r['status']})" for r in rows if r["status"] != "ok"]
        yield step, f"{len(rows) - len(bad)} of {len(rows)}", ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")


def cells(report):
    for row in report["cells"]:
        if "wrong" in row or "refused" in row:
            yield row["cell"], "", "", "WRONG: " + row["wrong"] if "wrong" in row else "not run: " + row["refused"]
        elif not row["against"]:
            yield row["cell"], "-", "-", f"{row['ms']:.4g} ms" + (f", {row['tflops']:.0f} TFLOP/s" if row.get("tflops", 0) >= 1 else "")
        for name, found in row.get("against", {}).items():
            goal = found["goal"]
            yield row["cell"], name, "-" if goal is None else f"{goal:g}", measured(row["ms"], found["ms"], goal, row.get("tflops", 0))


def turns(directory, step, ceilings):
    """Each variant of each cell: medians over all its rounds, held against the step's variant and what the row has itself."""
    found = {}  # (cell, variant): rows, in order of their first turn
    known = {}
    for path in sorted(glob.glob(os.path.join(directory, step, "t*.log")), key=lambda p: [int(x) for x in re.findall(r"-(\d+)-", p)[:1]]):
        name = os.path.basename(path)[:-4]
        variant = re.match(r"(?:times-)?(?:\d+-)?([^-]*)", name).group(1)
        backend = ""
        for row in json_lines(path):
            if "cells" in row:
                backend = row["backend"]
                known.update({cell["cell"]: cell for cell in row["cells"]})
            elif row.get("cell") in known:
                found.setdefault((row["cell"], variant), []).append({**row, "backend": backend})
    base, base_goal = STEPS.get(step, (None, None))
    middle = lambda rows, key: statistics.median(r.get(key, 0) for r in rows)
    for (cell, variant), rows in found.items():
        label = cell if variant == cell or cell.startswith(variant) else f"{cell}, {variant}"
        bad = [r.get("wrong") or r.get("refused", "") for r in rows if not r.get("right")]
        if bad:
            yield label, "", "", ("not run: " if "refused" in rows[0] else "WRONG: ") + bad[0]
            continue
        others = [(name, middle(rows, key), goal_of(complete(dict(known[cell]), rows[0]["backend"], rows[0]), name))
                  for key, name in IN_ROW if key in rows[0]]
        against = [r for r in found.get((cell, base), []) if r.get("right")]
        if against and variant != base:
            others.insert(0, (base, middle(against, "ms"), base_goal))
        if ceilings and rows[0]["cell"].startswith("model"):
            floor = complete(dict(known[cell]), rows[0]["backend"], rows[0])
            others.append(("floor", floor_ms(rows[0], *ceilings), goal_of(floor, "floor")))
        ms, rate = middle(rows, "ms"), middle(rows, "tflops")
        if not others:
            yield label, "-", "-", f"{ms:.4g} ms" + (f", {rate:.0f} TFLOP/s" if rate >= 1 else "")
        for name, other, goal in others:
            yield label, name, "-" if goal is None else f"{goal:g}", measured(ms, other, goal, rate)


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: gpu_table.py DIRECTORY    of results of deploy/gpu_check.sh")
    directory = sys.argv[1]
    reports = [json.loads(path.read_text()) for path in pathlib.Path(directory, "times").glob("*.json")]
    report = max(reports, key=lambda r: (len(r["cells"]), r["date"]), default=None)
    rows = {row["cell"]: row for row in report["cells"]} if report else {}
    ceilings = (rows.get("ceiling_product", {}).get("tflops"), rows.get("ceiling_copy", {}).get("gbps"))
    if report:
        steady = {None: "not known to be steady", True: "steady", False: "NOT STEADY: discard"}[report.get("steady")]
        print(f"{report['device']}, {report['backend']}, {report['date'][:10]}; ceilings {ceilings[0]} TFLOP/s, {ceilings[1]} GB/s, {steady}; "
              + ", ".join(f"{k} {v}" for k, v in report["versions"].items() if v))
    table("Checks", ["step", "passed", "not"], checks(directory))
    head = ["cells", "against", "goal, times as fast", "measured"]
    for step in sorted(os.listdir(directory)):
        if step != "times" and os.path.isdir(os.path.join(directory, step)):
            table("Step " + step, head, list(turns(directory, step, ceilings if all(ceilings) else None)))
    if report:
        table("Cells beside their peers", head, list(cells(report)))
        if report.get("left_out"):
            print("\nLeft out for lack of time: " + ", ".join(report["left_out"]) + ".")


if __name__ == "__main__":
    main()
