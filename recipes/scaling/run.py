"""Runs what is missing until the budget's end, most informative first. Any number of processes may work at a time: a run belongs to who holds its lock."""

import dataclasses
import json
import multiprocessing
import pathlib
import signal
import sys
import tempfile
import time
from typing import Any

from emergence.grid import lock
from emergence.train import read_results
from scaling import plan
from scaling.config import Study, read
from scaling.corpus import digest, made
from scaling.data import Corpus
from scaling.train import Job, OutOfTime, Row, Run, job_of, key_of

WAIT_SECONDS = 5.0


def opened(folder: pathlib.Path, expected: dict[str, Any] | None) -> Corpus:
    """The corpus, whose training part must be that of corpus.json."""
    corpus = Corpus(folder)
    if expected is not None:
        for name, array in (("train", corpus.train), ("held_out", corpus.held_out)):
            if digest(array.tobytes()) != expected[name]:
                raise ValueError(f"{folder}/{name}.npy is not that of corpus.json")
    return corpus


def states_of(study: Study, corpus: str, cache: pathlib.Path) -> pathlib.Path:
    """A directory of this recipe and corpus: states of another one are not resumed. Stages, rates and speeds are no part of it."""
    recipe = {k: v for k, v in dataclasses.asdict(study).items() if k not in ("stages", "speeds", "rates", "below", "above", "same_rate", "adaptations")}
    return cache / "runs" / digest(json.dumps([recipe, corpus], sort_keys=True).encode())[:8]


def write(row: Row, results: pathlib.Path, cache: pathlib.Path) -> None:
    with lock(cache / "results.lock", wait=True), results.open("a") as file:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


def device_of(states: pathlib.Path, rows: list[Row], job: Job, mine: str) -> str:
    """The type of device of the job's cell: that of its rows, else the one that has claimed it. `mine` claims a cell without either."""
    if (found := plan.devices(rows).get(job.cell)) is not None:
        return found
    with lock(states / "devices.lock", wait=True):
        claim = states / f"{job.size}-{job.context}-{job.seed}.device"
        if not claim.exists():  # runs that were begun before there were claims are the CPU's
            begun = any(states.glob(f"*-{job.size}-{job.context}-*-{job.seed}.*"))
            claim.write_text("cpu" if begun else mine)
        return claim.read_text()


def work(config: pathlib.Path, cache: pathlib.Path, results: pathlib.Path, deadline: float, device: str, checked: bool) -> None:
    import torch

    torch.set_num_threads(1)
    study, expected = read(config), made() if checked else None
    corpus, kind = opened(cache / "corpus", expected), torch.device(device).type
    states = states_of(study, expected["corpus"] if expected else "", cache)
    states.mkdir(parents=True, exist_ok=True)
    while time.monotonic() < deadline and (left := plan.missing(study, rows := read_results(results), kind != "cpu")):
        others: dict[str, str] = {}  # runs of cells that were begun on another device, and which
        for job in left:
            if (theirs := device_of(states, rows, job, kind)) != kind:
                others[job.name] = theirs
                continue
            with lock(states / f"{job.name}.lock") as mine:
                if not mine or job.key in plan.by_key(read_results(results)):
                    continue
                try:
                    row = Run(study, job, corpus, states, device).train(deadline, lambda words: print(words, flush=True))
                except OutOfTime:
                    print(f"the budget's end: {job.name} is saved and resumes", flush=True)
                    return
                write(row | {"corpus": expected["corpus"][:12] if expected else ""}, results, cache)
                print(f"{job.name}: {row['seconds']} s; {len(plan.missing(study, read_results(results), kind != 'cpu'))} runs known to be left", flush=True)
            break
        else:
            if len(others) == len(left):
                name, theirs = next(iter(others.items()))
                raise ValueError(f"the {len(left)} runs that can start are of seeds begun on another device, the first {name} on {theirs}; this is {kind}")
            time.sleep(WAIT_SECONDS)


def repeated(study: Study, rows: list[Row], name: str, corpus: Corpus) -> list[float]:
    """A finished run again, from its beginning: held-out losses by checkpoint, minus those of its row. Zeros where nothing has changed."""
    row = next((r for r in rows if key_of(r)[0] == name), None)
    if row is None:
        raise ValueError(f"no finished run {name}")
    with tempfile.TemporaryDirectory() as folder:
        again = Run(study, job_of(row), corpus, pathlib.Path(folder)).train()
    return [round(b - a, 6) for a, b in zip(row["loss"], again["loss"], strict=True)]


def run_all(config: pathlib.Path, cache: pathlib.Path, results: pathlib.Path, budget: float, device: str, workers: int, checked: bool = True) -> None:
    """This process and `workers` - 1 more, one thread each; of a GPU all share it."""
    cache.mkdir(parents=True, exist_ok=True)
    results.parent.mkdir(parents=True, exist_ok=True)
    arguments = (config, cache, results, time.monotonic() + budget, device, checked)
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=work, args=arguments, daemon=True) for _ in range(workers - 1)]
    for other in others:
        other.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit ends the others, a signal alone does not
    work(*arguments)
    for other in others:
        other.join()
