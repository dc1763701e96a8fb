"""Planted differences are found, the family is the registered one, and the product's databases are read."""

import math
import pathlib
import sqlite3
from xml.etree import ElementTree

import numpy as np
import pytest

from emergence.analysis import paired
from response import make_text, table


def planted(effects: dict[str, float], length: int = 32768, windows: int = 8) -> dict[table.Key, float]:
    rng = np.random.default_rng(3)
    shared = rng.normal(0, 1, windows)  # what pairing by window removes
    return {(f"m{v}", length, f"18-{w}", metric): float(shared[w] + effect + rng.normal(0, 0.001))
            for v, effect in effects.items() for w in range(windows) for metric in table.METRICS}  # fmt: skip


def test_planted_differences_are_found() -> None:
    text = table.tables("m", planted({"": 0, "@t=0.8": -0.2, "@t=0.9": 0.002, "@t=1.1": 0.05, "@full-t=0.9": 0.0}))
    lines = {line.split("|")[2].strip(): [c.strip() for c in line.split("|")] for line in text.split("long_context")[0].splitlines() if line.startswith("| 32")}
    assert [lines[v][-2] for v in ("@t=0.8", "@t=0.9", "@t=1.1", "@full-t=0.9")] == ["worse", "better, equivalent", "better", "equivalent"]
    assert lines["@full-t=0.9"][7] == "" and float(lines["@t=0.8"][5].split(" ")[0]) == pytest.approx(-0.2, abs=0.003)
    assert lines["t = 1"][5] == "" and "slope at 32,768 tokens: -0.04" in text  # 0.9 minus 1.1


def test_tests_without_rows_count_in_the_family() -> None:
    rows = planted({"": 0, "@t=0.9": 0.0015})
    alone = paired(table.differences(rows, "m@t=0.9", "m", 32768, "context_gain")).p
    line = next(line for line in table.tables("m", rows).splitlines() if "@t=0.9" in line)
    assert f"| {min(1.0, 3 * alone):.4f} |" in line


def test_slopes_are_compared_between_lengths() -> None:
    rows = planted({"": 0, "@t=0.9": 0.0, "@t=1.1": 0.0}, 8192) | planted({"": 0, "@t=0.9": 0.03, "@t=1.1": 0.0})
    assert "all layers, slope at 32,768 minus slope at 8,192: +0.03" in table.tables("m", rows)


def test_best_temperature_of_a_parabola() -> None:
    curve = {f"@full-t={t}": -2 * (t - 0.95) ** 2 + 2 * 0.05**2 for t in (0.9, 1.1)}
    text = table.tables("m", planted({"": 0} | curve))
    assert "- full layers, slope at 32,768 tokens: +0.04" in text and "best t of a parabola 0.95" in text and "all layers, slope" not in text


def test_rows_of_databases_are_added_to_those_there_are(tmp_path: pathlib.Path) -> None:
    columns = "variant, context_length, data_seed, sample_index, metric, value"
    for name, seed, value in (("a", 18, 0.5), ("b", 19, 0.25)):
        with sqlite3.connect(tmp_path / f"{name}.db") as database:
            database.execute(f"CREATE TABLE v_content ({columns})")
            rows = [("m@t=0.9", 8192, seed, 0, "context_gain", value), ("m", 8192, seed, 1, "context_gain", None), ("m", 8192, seed, 2, "other", 1.0)]
            database.executemany("INSERT INTO v_content VALUES (?, ?, ?, ?, ?, ?)", rows)
        table.collect([tmp_path / f"{name}.db"], tmp_path / "results")
    assert (tmp_path / "results/m.csv").read_text() == (
        "variant,length,window,metric,value\nm@t=0.9,8192,18-0,context_gain,0.500000\nm@t=0.9,8192,19-0,context_gain,0.250000\n")  # fmt: skip


def test_text_is_what_is_newer_and_written_by_hand(tmp_path: pathlib.Path) -> None:
    for name, text in (("a.py", "# Copyright 2026 X\n# licence\n\nimport a\n"), ("b.py", "# Copyright 2025 X\nimport b\n"),
                       ("c/d.py", "# Copyright 2026\n# This file was automatically generated\nimport c\n"), ("c/e.py", "# Copyright 2026\nimport e")):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert sorted(make_text.collect(tmp_path).split("\n\n\n")) == ["# a.py\n\nimport a", "# c/e.py\n\nimport e\n"] or sorted(
        make_text.collect(tmp_path).split("\n\n\n")) == ["# a.py\n\nimport a\n", "# c/e.py\n\nimport e"]  # fmt: skip


def test_figure_has_a_line_for_each_length_and_layers() -> None:
    rows = planted({"": 0, "@t=0.9": -0.2, "@t=1.1": 0.1, "@full-t=0.9": 0.0}, 8192) | planted({"": 0, "@t=0.9": -0.3})
    root = ElementTree.fromstring(table.figure("m", rows, table.METRICS[1]))
    names = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert [n for n in names if n and "K, " in n] == ["8K, all layers", "8K, full layers", "32K, all layers"]
    lines = [node.attrib["points"].split() for node in root.iter() if node.tag.endswith("polyline")]
    assert [len(points) for points in lines] == [3, 2, 2]
    heights = [float(p.split(",")[1]) for p in lines[0]]  # t = 0.9, 1, 1.1; down is less
    assert heights[0] > heights[1] > heights[2] and heights[0] - heights[1] == pytest.approx(2 * (heights[1] - heights[2]), rel=0.1)


def test_outcomes_as_registered() -> None:
    assert table.outcome(0.02, 0.04, 0.01) == "better" and table.outcome(-0.04, -0.02, 0.01) == "worse"
    assert table.outcome(-0.004, 0.004, 0.9) == "equivalent" and table.outcome(-0.02, 0.004, math.inf) == "undecided"
    assert table.outcome(0.02, 0.04, None) == "undecided"  # not a primary test: nothing is decided
