"""Results as pandas frames, from the database file; a daemon may be writing it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import urllib.parse
from collections.abc import Sequence
from typing import Any, Union

import pandas as pd

_SQLITE_NEEDED = (3, 37)  # of tables that are STRICT; older Pythons have 3.34
_Value = Union[int, float, str, None]


def _find_program() -> str:
    """$VARIFOCAL, `varifocal` on PATH, or beside this Python, where a wheel puts it."""
    beside = pathlib.Path(sys.executable).parent / "varifocal"
    return os.environ.get("VARIFOCAL") or shutil.which("varifocal") or (str(beside) if beside.is_file() else "varifocal")


def _literal(value: _Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else repr(value)


def _with_values(sql: str, parameters: Sequence[_Value]) -> str:
    """Every ? outside of quotes and comments is the next of the values."""
    parts = re.split(r"""('[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\?)""", sql, flags=re.DOTALL)
    if parts.count("?") != len(parameters):
        raise ValueError(f"the query has {parts.count('?')} ?, and there are {len(parameters)} parameters")
    values = iter(parameters)
    return "".join(_literal(next(values)) if part == "?" else part for part in parts)


_READING_ORDER = ["kind", "task", "metric", "context_length", "baseline", "candidate", "baseline_mean", "candidate_mean",
                  "difference", "low", "high", "p_value", "p_adjusted", "outcome", "detectable_difference", "sample_count",
                  "cluster_count"]


class Database:
    """A results database, opened read-only for every call.

    Rows are those of the documented views (docs/formats.md). Intervals, tests and outcomes are not in the file:
    compare and report run the program `varifocal`, which computes them.
    program: that program; unless given $VARIFOCAL, `varifocal` on PATH, or the one beside this Python. It reads the file as well
    where this Python's SQLite is too old for it.
    """

    def __init__(self, path: str | os.PathLike[str], program: str | None = None) -> None:
        self.path = pathlib.Path(path)
        self.program = program or _find_program()
        if not self.path.is_file():
            raise FileNotFoundError(f"{self.path} is no results database: there is no such file")

    def query(self, sql: str, parameters: Sequence[int | float | str | None] = ()) -> pd.DataFrame:
        """One SELECT."""
        if sqlite3.sqlite_version_info < _SQLITE_NEEDED:
            return self._query_by_program(_with_values(sql, parameters))
        uri = f"file:{urllib.parse.quote(str(self.path.absolute()))}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=30)) as connection:
            return pd.read_sql_query(sql, connection, params=list(parameters))

    def jobs(self) -> pd.DataFrame:
        """A row a job, the newest first; times in UTC."""
        frame = self.query("SELECT job_id, suite, data_seed, state, error, create_us, start_us, end_us FROM jobs"
                           " ORDER BY job_id DESC")
        for name in ("create", "start", "end"):
            frame[f"{name}_time"] = pd.to_datetime(frame.pop(f"{name}_us"), unit="us", utc=True)
        return frame

    def latest_job(self) -> int:
        frame = self.query("SELECT max(job_id) AS job_id FROM jobs")
        if frame["job_id"].isna().all():
            raise ValueError(f"{self.path} has no jobs")
        return int(frame["job_id"].iloc[0])

    def scores(self, job: int | None = None) -> pd.DataFrame:
        """v_scores_by_length: means of every cell and metric. job: the newest unless given."""
        return self._view("v_scores_by_length", job)

    def samples(self, job: int | None = None, primary_only: bool = True) -> pd.DataFrame:
        """v_samples: a row a question, variant and metric; without the prompts of a job that keeps them (query has them)."""
        frame = self._view("v_samples", job, without="prompt")
        return frame[frame["is_primary"] == 1].reset_index(drop=True) if primary_only else frame

    def pairs(self, baseline: str, candidate: str, job: int | None = None) -> pd.DataFrame:
        """v_pairs: the same question answered by both."""
        return self.query(
            "SELECT * FROM v_pairs WHERE job_id = ? AND baseline_variant = ? AND candidate_variant = ?",
            [self.latest_job() if job is None else job, baseline, candidate])

    def compare(self, baseline: str, candidate: str, job: int | None = None, margin: float | None = None,
                metric: str | None = None, epochs_statistic: str | None = None) -> pd.DataFrame:
        """Differences with interval, p, adjusted p and outcome: a row a cell, a mean over tasks, a contrast or slope over the lengths.

        Columns are those of `varifocal compare --format=json` (docs/result_rows.md), what a reader looks for first.
        margin: of equivalence, in points. metric: this one as the primary one, for example "imported/NAME".
        epochs_statistic: the value of a question with several answers: "mean" (unless given), "pass@4" or "majority". The
        columns baseline_epochs, candidate_epochs and epochs_statistic state it.
        """
        arguments = ["compare", f"--db={self.path}", f"--baseline={baseline}", f"--candidate={candidate}", "--format=json"]
        if job is not None:
            arguments.append(f"--job={job}")
        if margin is not None:
            arguments.append(f"--margin={margin}")
        if metric is not None:
            arguments.append(f"--metric={metric}")
        if epochs_statistic is not None:
            arguments.append(f"--epochs-statistic={epochs_statistic}")
        rows: list[dict[str, Any]] = json.loads(self._run(arguments))
        frame = pd.DataFrame(rows)
        first = [name for name in _READING_ORDER if name in frame.columns]
        return frame[first + [name for name in frame.columns if name not in first]]

    def report_rows(self, job: int | None = None) -> pd.DataFrame:
        """The table of `varifocal report` for all variants of a job; scores alone when it has one variant."""
        job_id = self.latest_job() if job is None else job
        return pd.read_csv(io.StringIO(
            self._run(["report", f"--db={self.path}", f"--job={job_id}", "--out=-", "--format=csv"])))

    def write_report(self, out: str | os.PathLike[str], job: int | None = None, *, epochs_statistic: str | None = None) -> None:
        """The report of a job; its extension selects the format: .html, .csv, .json, .md or .tex. epochs_statistic as in compare."""
        arguments = ["report", f"--db={self.path}", f"--out={os.fspath(out)}"]
        if job is not None:
            arguments.append(f"--job={job}")
        if epochs_statistic is not None:
            arguments.append(f"--epochs-statistic={epochs_statistic}")
        self._run(arguments)

    def _view(self, name: str, job: int | None, without: str = "") -> pd.DataFrame:
        columns = [column for column in self.query(f"SELECT * FROM {name} LIMIT 0").columns if column != without]
        return self.query(f"SELECT {', '.join(columns)} FROM {name} WHERE job_id = ?",
                          [self.latest_job() if job is None else job])

    def _query_by_program(self, sql: str) -> pd.DataFrame:
        # JSON has types and no order of columns, CSV has the order.
        none = f"SELECT * FROM ({sql.strip().rstrip(';')}\n) LIMIT 0"
        columns = pd.read_csv(io.StringIO(self._run(["query", f"--db={self.path}", "--format=csv", none]))).columns
        return pd.DataFrame(json.loads(self._run(["query", f"--db={self.path}", "--format=json", sql])), columns=columns)

    def _run(self, arguments: list[str]) -> str:
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"{self.program} ended with {done.returncode}")
        return done.stdout
