"""Rows and tables of stage 1's answers. From recipes/:

    python -m response.gold collect NAME DB     writes response/results/gold/NAME.csv: one line a variant, task and question
    python -m response.gold show                the registered tables from every such file
    python -m response.gold pool NAME NAME..    the same of all contexts of these files, for the variants that all of them have

The unit is a context: the mean over its questions. Differences from the variant without `@` are paired by context.
"""

import csv
import pathlib
import sqlite3

import numpy as np

from emergence.analysis import holm, paired
from flags import Commands, Path, commands

RESULTS = pathlib.Path(__file__).parent / "results/gold"
FIELDS = ("variant", "task", "context", "question", "log_likelihood", "score")
GOLD = "gold/log_likelihood_per_token"
Context = tuple[str, str]  # task, context
Values = dict[tuple[str, str], dict[Context, float]]  # (variant, measure): mean over a context's questions


def collect(name: str, database: pathlib.Path, results: pathlib.Path) -> None:
    """Of a job of one length; a question without one of the two values is an error: nothing is left out silently."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as opened:
        unfinished = opened.execute("SELECT count(*) FROM jobs WHERE end_us IS NULL").fetchone()[0]
        lengths = opened.execute("SELECT DISTINCT context_length FROM v_samples").fetchall()
        rows = opened.execute(
            "SELECT gold.variant, gold.task, gold.cluster, gold.sample_index, gold.value, score.value FROM v_samples gold "
            "JOIN v_samples score USING (job_id, variant, task, context_length, sample_index) "
            "WHERE gold.metric = ? AND score.is_primary ORDER BY 1, 2, 4", (GOLD,)).fetchall()  # fmt: skip
    if unfinished:
        raise ValueError(f"{database} has {unfinished} unfinished jobs")
    if len(lengths) != 1 or not rows or any(None in row for row in rows):
        raise ValueError(f"{database} has {len(lengths)} lengths and {sum(None in row for row in rows)} of {len(rows)} questions without a value")
    numbers = {c: i for i, c in enumerate(sorted({(task, cluster) for _, task, cluster, *_ in rows}, key=str))}
    results.mkdir(parents=True, exist_ok=True)
    with (results / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows((v, task, numbers[task, cluster], i, f"{gold:.6f}", f"{score:g}") for v, task, cluster, i, gold, score in rows)
    print(f"{name}.csv: {len(rows)} rows")


def read(path: pathlib.Path) -> Values:
    found: dict[tuple[str, str], dict[Context, list[float]]] = {}
    with path.open() as file:
        for r in csv.DictReader(file):
            for measure in ("log_likelihood", "score"):
                found.setdefault((r["variant"], measure), {}).setdefault((r["task"], r["context"]), []).append(float(r[measure]))
    return {k: {c: float(np.mean(x)) for c, x in by.items()} for k, by in found.items()}


def pool(names: list[str], results: pathlib.Path) -> Values:
    found = {name: read(results / f"{name}.csv") for name in names}
    shared = set.intersection(*(set(values) for values in found.values()))
    first = next(iter(found.values()))
    return {k: {(task, f"{name}/{c}"): x for name, values in found.items() for (task, c), x in values[k].items()} for k in first if k in shared}


def lines(values: Values, measure: str, task: str | None) -> list[str]:
    """A line a variant; over all tasks (each has as many contexts) the log-likelihood is adjusted over the variants."""
    base = next(v for v, _ in values if "@" not in v)
    chosen = {v: {c: x for c, x in by.items() if task in (None, c[0])} for (v, m), by in values.items() if m == measure}
    tests = {v: paired([x - chosen[base][c] for c, x in by.items()]) for v, by in chosen.items() if v != base}
    is_primary = measure == "log_likelihood" and task is None
    adjusted = dict(zip(tests, holm([t.p for t in tests.values()]))) if is_primary else {}
    out = []
    for v in sorted(chosen, key=lambda v: (v != base, v)):
        line = f"| {task or 'all'} | {v.removeprefix(base) or 't = 1'} | {len(chosen[v])} | {np.mean(list(chosen[v].values())):.4f} |"
        if v in tests:
            t = tests[v]
            if all(x == chosen[base][c] for c, x in chosen[v].items()):  # an interval from no spread at all would claim too much
                out.append(f"{line} equal in every context | | | |")
                continue
            line += f" {t.mean:+.4f} ({t.low:+.4f} to {t.high:+.4f}) | {t.p:.4f} | {f'{adjusted[v]:.4f}' if v in adjusted else ''} | {t.detectable:.4f} |"
        out.append(line if v in tests else line + " | | | |")
    return out


def tables(name: str, values: Values) -> str:
    tasks = sorted({task for by in values.values() for task, _ in by})
    out = []
    for measure, title in (("log_likelihood", "log-likelihood of the gold answer, nats per token"), ("score", "score")):
        out += [f"{name}: {title}", "", "| task | variant | contexts | mean | minus t = 1, 95 % | p | Holm | seen from |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
        for task in [None, *tasks]:
            out += lines(values, measure, task)
        out.append("")
    return "\n".join(out)


def main() -> None:
    table: Commands = {"collect": ({"name": str, "database": Path}, {}), "show": ({}, {}), "pool": ({"names": dict(nargs="+")}, {})}
    options = commands(__doc__, table, results=RESULTS).parse_args()
    if options.command == "collect":
        collect(options.name, options.database, options.results)
        return
    if options.command == "pool":
        print(tables(" and ".join(options.names), pool(options.names, options.results)))
        return
    for path in sorted(options.results.glob("*.csv")):
        print(tables(path.stem, read(path)))


if __name__ == "__main__":
    main()
