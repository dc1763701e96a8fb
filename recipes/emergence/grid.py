"""The runs of toy.toml: selection, edges, test. Any number of processes may work on one grid at a time: a run belongs to who
holds the lock of its state. A finished run's state stays, so a row that was lost is written again without training.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import math
import multiprocessing
import pathlib
import signal
import sys
import time
from typing import Any, Iterator

from emergence.config import Grid
from emergence.train import Run, read_results

Row = dict[str, Any]
Key = tuple[str, float, int]
STATE = pathlib.Path.home() / ".cache/varifocal/toy"
WAIT_SECONDS = 5.0  # between looks at runs that others hold


@dataclasses.dataclass(frozen=True)
class Job:
    arm: str
    rate: float
    seed: int
    at_least: int = 0

    @property
    def key(self) -> Key:
        return self.arm, self.rate, self.seed


def key_of(row: Row) -> Key:
    return row["arm"], row["learning_rate"], row["seed"]


def log_tokens(row: Row, limit: int) -> float:
    return math.log(limit if row["tokens"] is None else row["tokens"])


def chosen(grid: Grid, done: dict[Key, Row], arm: str, rates: tuple[float, ...]) -> float:
    """The rate with the lowest mean log of censored tokens on the selection seeds; of equal ones that with the highest last
    log-likelihood, then the lower one."""

    def cost(rate: float) -> tuple[float, float, float]:
        rows = [done[arm, rate, seed] for seed in grid.selection]
        tokens = sum(log_tokens(r, grid.limit) for r in rows) / len(rows)
        return round(tokens, 9), -sum(r["last_log_likelihood"] for r in rows) / len(rows), rate

    return min(rates, key=cost)


def rates_of(grid: Grid, done: dict[Key, Row], arm: str) -> tuple[float, ...]:
    """The grid's rates, with the one beyond the edge that was chosen among them."""
    first = chosen(grid, done, arm, grid.rates)
    beyond = {grid.rates[0]: (grid.below,), grid.rates[-1]: (grid.above,)}.get(first, ())
    return tuple(sorted(grid.rates + beyond))


def by_key(rows: list[Row]) -> dict[Key, Row]:
    return {key_of(r): r for r in rows}


def phases(grid: Grid, rows: list[Row]) -> list[list[Job]]:
    """All jobs as far as they are known: a phase is known when those before it are finished."""
    done = by_key(rows)
    found = [[Job(arm, rate, seed) for seed in grid.selection for arm in grid.arms for rate in grid.rates]]
    if all(job.key in done for job in found[0]):
        wanted = {arm: [r for r in rates_of(grid, done, arm) if r not in grid.rates] for arm in grid.arms}
        found.append([Job(arm, rate, seed) for seed in grid.selection for arm in grid.arms for rate in wanted[arm]])
        if all(job.key in done for job in found[1]):
            best = {arm: chosen(grid, done, arm, rates_of(grid, done, arm)) for arm in grid.arms}
            found.append([Job(arm, best[arm], seed, grid.test_steps_min) for seed in grid.test for arm in grid.arms])
    return found


def missing(grid: Grid, rows: list[Row]) -> list[Job]:
    """Of the first phase that is not finished."""
    done = by_key(rows)
    for phase in phases(grid, rows):
        left = [job for job in phase if job.key not in done]
        if left:
            return left
    return []


def count(grid: Grid, rows: list[Row]) -> tuple[int, int]:
    """Finished and all runs; runs beyond an edge are counted once they are known."""
    done, known = by_key(rows), phases(grid, rows)
    test = len(grid.arms) * grid.test_seeds if len(known) < 3 else 0
    return sum(job.key in done for phase in known for job in phase), sum(map(len, known)) + test


@contextlib.contextmanager
def lock(path: pathlib.Path, wait: bool = False) -> Iterator[bool]:
    """Whether the file's lock was got; it is released at the end, and by the process's death."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def record(grid: Grid, job: Job, state: pathlib.Path) -> Row:
    run = Run(grid.study, job.arm, job.rate, job.seed, state)
    row = run.train(job.at_least)
    kept = slice(grid.record_every // grid.study.evaluate_every - 1, None, grid.record_every // grid.study.evaluate_every)
    return row | {"recall": row["recall"][kept], "log_likelihood": run.log_likelihoods[kept], "last_log_likelihood": run.log_likelihoods[-1]}


def expected_steps(grid: Grid, job: Job, rows: list[Row]) -> float:
    """The mean of the most similar finished runs."""
    tokens = grid.study.rows * grid.study.length
    for like in (lambda r: key_of(r)[:2] == job.key[:2], lambda r: r["arm"] == job.arm, lambda r: True):
        steps = [r["trained_tokens"] / tokens for r in rows if like(r)]
        if steps:
            return float(max(job.at_least, sum(steps) / len(steps)))
    return grid.study.steps_max / 2


def remaining_steps(grid: Grid, rows: list[Row]) -> float:
    done, known = by_key(rows), phases(grid, rows)
    left = sum(expected_steps(grid, job, rows) for phase in known for job in phase if job.key not in done)
    return left + (len(grid.arms) * grid.test_seeds * grid.test_steps_min if len(known) < 3 else 0)


def state_of(grid: Grid, state: pathlib.Path) -> pathlib.Path:
    """A directory of this recipe: states of another one are not resumed. A later end of the runs is the same recipe."""
    recipe = {k: v for k, v in dataclasses.asdict(grid.study).items() if k not in ("steps_max", "blocks")}
    return state / hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:8]


def work(grid: Grid, state: pathlib.Path, results: pathlib.Path) -> None:
    """Until no run is missing."""
    import torch

    torch.set_num_threads(1)
    began, first = time.time(), read_results(results)
    while left := missing(grid, read_results(results)):
        for job in left:
            with lock(state / f"{job.arm}-{job.rate:g}-{job.seed}.lock") as mine:
                if not mine or job.key in by_key(read_results(results)):
                    continue
                row = record(grid, job, state)
                with lock(state / "results.lock", wait=True), results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            rows = read_results(results)
            finished, of = count(grid, rows)
            steps = sum(r["trained_tokens"] for r in rows[len(first) :]) / (grid.study.rows * grid.study.length)
            hours = remaining_steps(grid, rows) * (time.time() - began) / max(steps, 1) / 3600
            print(f"{finished} of {of}: {job.arm} {job.rate:g} seed {job.seed}, {row['trained_tokens']:,} tokens, {row['seconds']:.0f} s; "
                  f"about {hours:.1f} h to go", flush=True)  # fmt: skip
            break
        else:
            time.sleep(WAIT_SECONDS)


def run_all(grid: Grid, state: pathlib.Path, results: pathlib.Path, workers: int) -> None:
    """This process and `workers` - 1 more, one thread each."""
    state = state_of(grid, state)
    state.mkdir(parents=True, exist_ok=True)
    results.parent.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=work, args=(grid, state, results), daemon=True) for _ in range(workers - 1)]
    for other in others:
        other.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit ends the others, a signal alone does not
    work(grid, state, results)
    for other in others:
        other.join()
