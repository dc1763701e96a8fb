"""Rows and tables of stage 1. From recipes/:

    python -m response.table collect DB ..     writes response/results/MODEL.csv: one line a variant, length, window and metric
    python -m response.table show              the registered tables from them
    python -m response.table figures DIR       differences against the temperature, DIR/response-MODEL-METRIC.svg

Variants are NAME, NAME@t=0.8, NAME@full-t=0.8, NAME@log-n=8192. Differences from NAME are paired by window.
"""

import csv
import pathlib
import sqlite3
from typing import Iterable

import numpy as np

from emergence import chart
from emergence.analysis import holm, paired
from flags import Commands, Path, commands

RESULTS = pathlib.Path(__file__).parent / "results"
FIELDS = ("variant", "length", "window", "metric", "value")
METRICS = ("context_gain", "long_context_log_likelihood")
PRIMARY = ("@t=0.8", "@t=0.9", "@t=1.1")
PRIMARY_LENGTH = 32768
MARGIN = 0.01  # nats per token
LAYERS = {"all layers": "@t=", "full layers": "@full-t="}
Key = tuple[str, int, str, str]  # variant, length, window, metric


def read_database(path: pathlib.Path) -> dict[Key, float]:
    """Answered samples. A window is named by its data seed and index: two jobs of other seeds have other windows."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        rows = database.execute(
            "SELECT variant, context_length, data_seed, sample_index, metric, value FROM v_content WHERE value IS NOT NULL"
        ).fetchall()
    return {(v, length, f"{seed}-{index}", metric): value for v, length, seed, index, metric, value in rows}


def read_csv(path: pathlib.Path) -> dict[Key, float]:
    if not path.exists():
        return {}
    with path.open() as file:
        return {(r["variant"], int(r["length"]), r["window"], r["metric"]): float(r["value"]) for r in csv.DictReader(file)}


def collect(databases: Iterable[pathlib.Path], results: pathlib.Path) -> None:
    """Adds the rows of databases to those there are; a file for each model."""
    results.mkdir(parents=True, exist_ok=True)
    found: dict[Key, float] = {}
    for path in databases:
        found |= read_database(path)
    for model in sorted({key[0].split("@")[0] for key in found}):
        rows = read_csv(results / f"{model}.csv") | {k: v for k, v in found.items() if k[0].split("@")[0] == model and k[3] in METRICS}
        with (results / f"{model}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(FIELDS)
            writer.writerows((*key, f"{value:.6f}") for key, value in sorted(rows.items()))
        print(f"{model}.csv: {len(rows)} rows")


def differences(rows: dict[Key, float], variant: str, base: str, length: int, metric: str) -> list[float]:
    windows = sorted(w for v, n, w, m in rows if (v, n, m) == (variant, length, metric) and (base, length, w, metric) in rows)
    return [rows[variant, length, w, metric] - rows[base, length, w, metric] for w in windows]


def slopes(rows: dict[Key, float], model: str, length: int, mark: str = "@t=") -> dict[str, float]:
    """By window: log-likelihood of the long context at t = 0.9 minus that at t = 1.1."""
    sharp, soft = (f"{model}{mark}{t}" for t in ("0.9", "1.1"))
    return {w: rows[sharp, n, w, m] - rows[soft, n, w, m] for v, n, w, m in rows
            if (v, n, m) == (sharp, length, METRICS[1]) and (soft, n, w, m) in rows}  # fmt: skip


def outcome(low: float, high: float, adjusted: float | None) -> str:
    """As registered: better or worse by the adjusted p of a primary test; equivalent inside the margin."""
    found = [] if adjusted is None or adjusted >= 0.05 else ["better" if low > 0 else "worse"]
    return ", ".join(found + (["equivalent"] if -MARGIN < low and high < MARGIN else [])) or "undecided"


def slope_lines(model: str, rows: dict[Key, float], layers: str, mark: str) -> list[str]:
    """Of every length, the best t of the parabola through the means at 0.9, 1 and 1.1, and the registered contrast of two lengths."""
    lines = []
    by_length = {n: s for n in sorted({n for _, n, _, _ in rows}) if len(s := slopes(rows, model, n, mark)) > 1}
    for n, s in by_length.items():
        t = paired(list(s.values()))
        sharp, soft = (np.mean(differences(rows, f"{model}{mark}{v}", model, n, METRICS[1])) for v in ("0.9", "1.1"))
        peak = f"; best t of a parabola {1 - 0.05 * (soft - sharp) / (soft + sharp):.3f}" if soft + sharp < 0 else ""
        lines.append(f"- {layers}, slope at {n:,} tokens: {t.mean:+.4f} ({t.low:+.4f} to {t.high:+.4f}), {len(s)} windows{peak}")
    if len(by_length) > 1:
        short, long = min(by_length), max(by_length)
        both = [by_length[long][w] - by_length[short][w] for w in by_length[long] if w in by_length[short]]
        if len(both) > 1:
            t = paired(both)
            lines.append(f"- {layers}, slope at {long:,} minus slope at {short:,}: {t.mean:+.4f} ({t.low:+.4f} to {t.high:+.4f}), p {t.p:.4f}, seen from {t.detectable:.4f}, {len(both)} windows")
    return lines


def halves(model: str, rows: dict[Key, float]) -> list[str]:
    """The first look at the primary endpoint, four windows, and the windows after it; the slope's contrast likewise."""
    lines = []
    first = {f"{seed}-{i}" for seed in {w.split("-")[0] for _, _, w, _ in rows} for i in range(4)}
    for part, name in ((first, "windows 1 to 4"), ({w for _, _, w, _ in rows} - first, "the others")):
        some = {k: v for k, v in rows.items() if k[2] in part}
        for t in PRIMARY:
            if len(d := differences(some, model + t, model, PRIMARY_LENGTH, METRICS[0])) > 1:
                test = paired(d)
                lines.append(f"- {METRICS[0]} at {PRIMARY_LENGTH:,}, {t}, {name}: {test.mean:+.4f} ({test.low:+.4f} to {test.high:+.4f}), p {test.p:.4f}")
        for layers, mark in LAYERS.items():
            lines += [f"{line}; {name}" for line in slope_lines(model, some, layers, mark) if " minus slope" in line]
    return lines


def tables(model: str, rows: dict[Key, float]) -> str:
    lines = []
    for metric in METRICS:
        lines += [f"{model}, {metric}, nats per token", "", "| tokens | variant | windows | mean | minus t = 1, 95 % | p | Holm over three | seen from | outcome |",
                  "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
        for length in sorted({n for _, n, _, m in rows if m == metric}):
            variants = sorted({v for v, n, _, m in rows if (n, m) == (length, metric)}, key=lambda v: (v != model, v))
            tests = {v: paired(d) for v in variants[1:] if len(d := differences(rows, v, model, length, metric)) > 1}
            is_primary = metric == METRICS[0] and length == PRIMARY_LENGTH
            family = [v for v in tests if is_primary and v.removeprefix(model) in PRIMARY]
            # A test without rows yet counts as one of the three.
            adjusted = dict(zip(family, holm([tests[v].p for v in family] + [1.0] * (len(PRIMARY) - len(family)))))
            for v in variants:
                values = [x for (w, n, _, m), x in rows.items() if (w, n, m) == (v, length, metric)]
                line = f"| {length:,} | {v.removeprefix(model) or 't = 1'} | {len(values)} | {sum(values) / len(values):.4f} |"
                if v in tests:
                    t = tests[v]
                    holm_p = f"{adjusted[v]:.4f}" if v in adjusted else ""
                    line += f" {t.mean:+.4f} ({t.low:+.4f} to {t.high:+.4f}) | {t.p:.4f} | {holm_p} | {t.detectable:.4f} | {outcome(t.low, t.high, adjusted.get(v))} |"
                lines.append(line if v in tests else line + " | | | | |")
        lines.append("")
    for layers, mark in LAYERS.items():
        lines += slope_lines(model, rows, layers, mark)
    return "\n".join(lines + halves(model, rows)) + "\n"


def figure(model: str, rows: dict[Key, float], metric: str) -> str:
    """Difference from t = 1 by temperature, a line for each length and for which layers the temperature applies to."""
    series = []
    for length in sorted({n for _, n, _, m in rows if m == metric}):
        for layers, mark in LAYERS.items():
            points = [chart.Point(1.0, 0.0)]
            for variant in sorted({v for v, n, _, _ in rows if n == length and v.startswith(model + mark)}):
                if len(d := differences(rows, variant, model, length, metric)) > 1:
                    t = paired(d)
                    points.append(chart.Point(float(variant.split("=")[1]), t.mean, t.low, t.high))
            if len(points) > 1:
                series.append(chart.Series(f"{length // 1024}K, {layers}", sorted(points, key=lambda p: p.x)))
    return chart.lines(f"{model}: {metric.replace('_', ' ')}, minus t = 1", "temperature", "nats per token", series)


def main() -> None:
    table: Commands = {"collect": ({"databases": dict(type=Path, nargs="+")}, {}), "show": ({}, {}), "figures": ({"directory": Path}, {})}
    options = commands(__doc__, table, results=RESULTS).parse_args()
    if options.command == "collect":
        collect(options.databases, options.results)
        return
    for path in sorted(options.results.glob("*.csv")):
        if options.command == "show":
            print(tables(path.stem, read_csv(path)))
            continue
        for metric in METRICS:
            (options.directory / f"response-{path.stem}-{metric}.svg").write_text(figure(path.stem, read_csv(path), metric))


if __name__ == "__main__":
    main()
