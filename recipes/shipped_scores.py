#!/usr/bin/env python3
"""Writes the scores of the shipped models into models/README.md, between its two markers.

    recipes/shipped_scores.py             # writes the tables
    recipes/shipped_scores.py --check     # exit 1 where the page has others
    recipes/shipped_scores.py --answered  # differences at 8K over the questions that both models answered with text

They are functions of recipes/llama/results: quick_counts.csv by llama/counts.sql, quick_seed2.csv and standard.csv by llama/rows.sql.
Standard library only.
"""

import collections
import csv
import dataclasses
import pathlib
import sys
from typing import Iterable

from flags import parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "recipes/llama/results"
PAGE = ROOT / "models/README.md"
BEGIN, END = "<!-- begin: written by recipes/shipped_scores.py -->", "<!-- end -->"
ARMS = ("baseline", "focal-constant", "focal-learned")
TASKS = {"recall_kv": "`recall_kv`", "icl_labels": "`icl_labels`", "icl_labels_noisy": "`icl_labels` with a noise word",
         "rag_facts": "`rag_facts`", "longqa_story": "`longqa_story`", "longqa_story_choices": "`longqa_story`, four choices"}


@dataclasses.dataclass
class Count:
    samples: int = 0
    right: int = 0
    empty: int = 0


Cells = dict[tuple[str, str, int], Count]  # task, variant, length


def read(name: str) -> Cells:
    """Counts of a file over its data seeds; a row without `samples` is one answer."""
    cells: Cells = collections.defaultdict(Count)
    with (RESULTS / name).open() as file:
        for row in csv.DictReader(file):
            cell = cells[row["task"], row["variant"], int(row["length"])]
            cell.samples += int(row.get("samples", 1))
            cell.right += int(row["right"]) if "right" in row else round(float(row["value"]))
            cell.empty += int(row["empty"])
    return cells


def share(count: Count) -> str:
    """Three digits, halves up, as `varifocal compare` prints them."""
    return f"{(2000 * count.right + count.samples) // (2 * count.samples) / 1000:.3f}"


def table(cells: Cells, lengths: Iterable[int]) -> list[str]:
    """Shares of right answers; the last rows count answers of white space alone over all tasks."""
    lengths = list(lengths)
    lines = ["| task | arm | " + " | ".join(f"{n // 1024}K" for n in lengths) + " |", "| --- | --- |" + " ---: |" * len(lengths)]
    for task, label in TASKS.items():
        for arm in ARMS:
            counts = [cells[task, arm, n] for n in lengths if (task, arm, n) in cells]
            if counts:
                shares = " | ".join(share(c) for c in counts)
                lines.append(f"| {label if arm == ARMS[0] else ''} | {arm} | {shares} |")
    for arm in ARMS:
        totals = [[c for (_, variant, m), c in cells.items() if (variant, m) == (arm, n)] for n in lengths]
        shares = " | ".join(f"{sum(c.empty for c in t):,} of {sum(c.samples for c in t):,}" for t in totals)
        lines.append(f"| {'empty answers' if arm == ARMS[0] else ''} | {arm} | {shares} |")
    return lines


def answered(name: str, candidate: str, length: int = 8192) -> str:
    """Minus the baseline, over questions of which neither answer is empty: by question, and as a mean over tasks."""
    with (RESULTS / name).open() as file:
        rows = {(r["variant"], r["task"], r["sample"]): r for r in csv.DictReader(file) if int(r["length"]) == length}
    differences: dict[str, list[float]] = collections.defaultdict(list)
    for (variant, task, sample), row in rows.items():
        other = rows[candidate, task, sample]
        if variant == ARMS[0] and row["empty"] == other["empty"] == "0":
            differences[task].append(float(other["value"]) - float(row["value"]))
    each = [d for by_task in differences.values() for d in by_task]
    by_task = sum(sum(d) / len(d) for d in differences.values()) / len(differences)
    return f"{name}, {candidate}: {len(each)} questions, {sum(each) / len(each):+.3f} by question, {by_task:+.3f} as a mean over tasks"


def text() -> str:
    return "\n".join([
        BEGIN, "", "Suite `quick`, data seed 1 (`deploy/demo.sh`):", "", *table(read("quick_counts.csv"), (1024, 2048, 4096, 8192)), "",
        "Suite `standard` in bf16, data seed 1; at 32K five contexts a task instead of 25:", "",
        *table(read("standard.csv"), (8192, 16384, 32768)), "", END])  # fmt: skip


def main() -> int:
    options = parse(__doc__, check=dict(action="store_true", help="write nothing; exit 1 where the page differs"),
                    answered=dict(action="store_true", help="print differences where both answered with text"))  # fmt: skip
    if options.answered:
        print(*(answered(name, arm) for name in ("quick_seed2.csv", "standard.csv") for arm in ARMS[1:]), sep="\n")
        return 0
    page = PAGE.read_text()
    start, stop = page.index(BEGIN), page.index(END) + len(END)
    if options.check:
        if page[start:stop] != text():
            print("models/README.md: the scores differ from recipes/llama/results; run recipes/shipped_scores.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page[:start] + text() + page[stop:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
