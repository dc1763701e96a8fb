"""Planted differences are found by context, and rows of a database are kept or refused, never left out."""

import pathlib
import sqlite3

import numpy as np
import pytest

from response import gold

COLUMNS = "job_id, variant, task, context_length, sample_index, cluster, metric, value, is_primary"


def database(path: pathlib.Path, effect: dict[str, float], contexts: int = 6, missing: bool = False, unfinished: bool = False) -> pathlib.Path:
    rng = np.random.default_rng(5)
    shared = {(task, i): float(rng.normal(-2, 1)) for task in ("a", "b") for i in range(4 * contexts)}
    with sqlite3.connect(path) as opened:
        opened.execute(f"CREATE TABLE v_samples ({COLUMNS})")
        opened.execute("CREATE TABLE jobs (end_us)")
        opened.execute("INSERT INTO jobs VALUES (?)", (None if unfinished else 7,))
        for variant, by in effect.items():
            for (task, i), base in shared.items():
                value = None if missing and (variant, task, i) == ("m@t=0.8", "b", 3) else base + by + float(rng.normal(0, 0.01))
                for metric, x, primary in ((gold.GOLD, value, 0), ("exact_match", float(base > -2), 1), ("token_f1", 0.5, 0)):
                    opened.execute("INSERT INTO v_samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (1, variant, task, 8192, i, i // 4, metric, x, primary))
    return path


def test_planted_differences_are_found(tmp_path: pathlib.Path) -> None:
    gold.collect("m", database(tmp_path / "m.db", {"m": 0.0, "m@t=0.8": -0.1, "m@t=0.9": 0.0}), tmp_path)
    values = gold.read(tmp_path / "m.csv")
    assert {len(by) for by in values.values()} == {12}  # six contexts of each of two tasks
    text = gold.tables("m", values).split("m: score")[0]
    cells = {line.split("|")[2].strip(): [c.strip() for c in line.split("|")] for line in text.splitlines() if line.startswith("| all")}
    assert float(cells["@t=0.8"][5].split(" ")[0]) == pytest.approx(-0.1, abs=0.01) and float(cells["@t=0.8"][7]) < 0.001
    assert float(cells["@t=0.9"][6]) > 0.01 and cells["t = 1"][5] == ""
    assert text.count("| a | @t=0.9 | 6 |") == 1  # each task apart, without Holm
    scores = gold.tables("m", values).split("m: score")[1]
    assert "| b | @t=0.8 | 6 | 0.3750 | equal in every context | | | |" in scores


def test_contexts_of_several_jobs_are_pooled(tmp_path: pathlib.Path) -> None:
    for name, effect in (("first", {"m": 0.0, "m@t=0.8": -0.1, "m@t=0.9": 0.0}), ("second", {"m": 0.0, "m@t=0.8": -0.3})):
        gold.collect(name, database(tmp_path / f"{name}.db", effect), tmp_path)
    values = gold.pool(["first", "second"], tmp_path)
    assert {variant for variant, _ in values} == {"m", "m@t=0.8"} and {len(by) for by in values.values()} == {24}
    (line,) = (line for line in gold.lines(values, "log_likelihood", None) if "@t=0.8" in line)
    assert float(line.split("|")[5].split("(")[0]) == pytest.approx(-0.2, abs=0.01)


def test_a_question_without_a_value_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="1 of 96 questions without a value"):
        gold.collect("m", database(tmp_path / "m.db", {"m": 0.0, "m@t=0.8": 0.0}, missing=True), tmp_path)


def test_an_unfinished_job_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="1 unfinished jobs"):
        gold.collect("m", database(tmp_path / "m.db", {"m": 0.0, "m@t=0.8": 0.0}, unfinished=True), tmp_path)
