"""Which runs there are, in which order, and what they cost. An arm's rate is known when its selection is finished."""

import dataclasses
import math
import pathlib
import re
from typing import Iterator

from scaling.config import Speed, Stage, Study
from scaling.train import Cell, Job, Row, key_of

EVALUATION = 3.0  # a forward pass is so many times faster than a step
EVALUATED_SLOWER = 1.5  # but in float32
MACHINES = ("AVX2", "AVX-512", "H100")
AT_ONCE = {"AVX2": 1, "AVX-512": 1, "H100": 3}  # runs side by side, as `run` starts them


@dataclasses.dataclass(frozen=True)
class Planned:
    """A run of a stage; without a rate while that is not chosen."""

    stage: Stage
    job: Job | None
    size: str
    context: int


def stages(study: Study, cuda: bool) -> list[Stage]:
    """The order of the file; with a GPU its stages come after the first selection."""
    return sorted(study.stages, key=lambda s: 0 if s is study.stages[0] else 1 if cuda and s.gpu else 2)


def selection_of(study: Study, arm: str) -> Stage | None:
    return next((s for s in study.stages if s.selects and arm in s.arms), None)


def selection_job(stage: Stage, arm: str, rate: float, seed: int) -> Job:
    return Job(arm, stage.sizes[0], stage.contexts[0], rate, seed, stage.millions)


def lowest(stage: Stage, done: dict[tuple[str, int], Row], arm: str, rates: tuple[float, ...]) -> float | None:
    """The rate with the lowest mean loss over the selection's seeds; of equal ones the lower. A run that diverged is the worst."""
    costs = {}
    for rate in rates:
        rows = [done.get(selection_job(stage, arm, rate, seed).key) for seed in stage.seeds]
        found = [r["loss"][-1] for r in rows if r is not None]
        if len(found) < len(rows):
            return None
        costs[rate] = sum(x if math.isfinite(x) else math.inf for x in found) / len(found)
    return min(costs, key=lambda r: (costs[r], r))


def rates_of(study: Study, stage: Stage, done: dict[tuple[str, int], Row], arm: str) -> tuple[float, ...]:
    """The three rates, and the one beyond the edge that is the best of them."""
    first = lowest(stage, done, arm, study.rates)
    beyond = {study.rates[0]: (study.below,), study.rates[-1]: (study.above,)}.get(first, ()) if first is not None else ()
    return tuple(sorted(study.rates + beyond))


def chosen(study: Study, done: dict[tuple[str, int], Row], arm: str) -> float | None:
    arm = dict(study.same_rate).get(arm, arm)
    stage = selection_of(study, arm)
    return None if stage is None else lowest(stage, done, arm, rates_of(study, stage, done, arm))


def by_key(rows: list[Row]) -> dict[tuple[str, int], Row]:
    return {key_of(r): r for r in rows}


def stage_runs(study: Study, stage: Stage, done: dict[tuple[str, int], Row]) -> Iterator[Planned]:
    """Seed by seed over all arms, so that what an interrupted stage leaves is paired."""
    for seed in stage.seeds:
        for size in stage.sizes:
            for context in stage.contexts:
                for arm in stage.arms:
                    if stage.selects:
                        rates: list[float | None] = list(rates_of(study, stage, done, arm))
                    else:
                        rates = [chosen(study, done, "baseline" if stage.shared_rate else arm)]
                    for rate in rates:
                        job = None if rate is None else Job(arm, size, context, rate, seed, stage.millions)
                        yield Planned(stage, job, size, context)


def runs(study: Study, rows: list[Row], cuda: bool = False) -> list[Planned]:
    """All, without those that an earlier stage has already."""
    done, seen, found = by_key(rows), set(), []
    for stage in stages(study, cuda):
        for planned in stage_runs(study, stage, done):
            if planned.job is None or planned.job.key not in seen:
                found.append(planned)
            if planned.job is not None:
                seen.add(planned.job.key)
    return found


def missing(study: Study, rows: list[Row], cuda: bool = False) -> list[Job]:
    """What can be started, in order. A stage whose rates are not chosen waits for the selection, also where others run that."""
    done, found = by_key(rows), []
    for planned in runs(study, rows, cuda):
        if planned.job is not None and planned.job.key not in done:
            found.append(planned.job)
    return found


def devices(rows: list[Row]) -> dict[Cell, str]:
    """The type of device of every cell: bf16 rounds otherwise on another one, which a contrast of its arms would contain."""
    found: dict[Cell, str] = {}
    for r in rows:
        cell = r["size"], r["context"], r["seed"]
        if found.setdefault(cell, r["device"]) != r["device"]:
            raise ValueError(f"size {cell[0]}, context {cell[1]}, seed {cell[2]} has rows of {found[cell]} and of {r['device']}; one device is allowed")
    return found


def count(study: Study, rows: list[Row], name: str) -> tuple[int, int]:
    """Finished and all runs of a stage."""
    done = by_key(rows)
    stage = next(s for s in study.stages if s.name == name)
    mine = list(stage_runs(study, stage, done))
    return sum(p.job is not None and p.job.key in done for p in mine), len(mine)


def tokens(study: Study, millions: tuple[int, ...]) -> int:
    """Trained on: the trunk to the last branch, and every branch."""
    steps = study.branch_step(millions[-1]) + sum(study.steps(m) - study.branch_step(m) for m in millions)
    return steps * study.tokens_per_step


def speed(study: Study, machine: str, size: str, context: int) -> Speed | None:
    return next((s for s in study.speeds if (s.machine, s.size, s.context) == (machine, size, context)), None)


def minutes(study: Study, machine: str, planned: Planned) -> float | None:
    """Of one run on one thread, or on a GPU beside two others."""
    found = speed(study, machine, planned.size, planned.context)
    if found is None:
        return None
    evaluated = study.evaluation_documents * study.evaluation_tokens * len(planned.stage.millions)
    work = tokens(study, planned.stage.millions) + evaluated * EVALUATED_SLOWER / EVALUATION
    return work / found.tokens_per_second / 60


def machine_of(device: str) -> str:
    if device != "cpu":
        return "H100"
    flags = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
    return "AVX-512" if "avx512_bf16" in flags else "AVX2"


def seconds(budget: str) -> float:
    """Of 90s, 15m or 2h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    if not found or float(found[1]) <= 0:
        raise ValueError(f"budget is {budget!r}, not a positive number with s, m or h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def shown(value: float | None, estimated: bool) -> str:
    return "?" if value is None else f"{'~' if estimated else ''}{value:.1f}"


def table(study: Study, rows: list[Row], budget: float, device: str) -> str:
    """The stages with their costs, then the runs that fit into the budget, at so many a time as the machine takes."""
    cuda, done = device != "cpu", by_key(rows)
    machine = machine_of(device)
    lines = ["| stage | size | context | runs | finished | minutes a run: " + " | ".join(MACHINES) + f" | hours left of one {'GPU' if cuda else 'core'} |",
             "| --- |" + " --- |" * (len(MACHINES) + 5)]  # fmt: skip
    everything = runs(study, rows, cuda)
    groups: dict[tuple[str, str, int], list[Planned]] = {}
    for p in everything:
        groups.setdefault((p.stage.name, p.size, p.context), []).append(p)
    for (name, size, context), mine in groups.items():
        costs = [shown(minutes(study, m, mine[0]), bool((s := speed(study, m, size, context)) and s.estimated)) for m in MACHINES]
        left = [p for p in mine if p.job is None or p.job.key not in done]
        each = minutes(study, machine, mine[0])
        hours = "?" if each is None else f"{each * len(left) / 60 / (AT_ONCE[machine] if cuda else 1):.1f}"
        lines.append(f"| {name} | {size} | {context} | {len(mine)} | {len(mine) - len(left)} | " + " | ".join(costs) + f" | {hours} |")
    lines += ["", f"In {budget / 60:g} minutes on {machine}, {AT_ONCE[machine]} at a time (~: an estimate; never measured):", ""]
    left_minutes, fitting = budget / 60 * AT_ONCE[machine], dict[str, list[float]]()
    kind, began, elsewhere = device.split(":")[0], devices(rows), 0
    for p in everything:
        each = minutes(study, machine, p)
        if (p.job is not None and p.job.key in done) or each is None:
            continue
        if p.job is not None and began.get(p.job.cell, kind) != kind:
            elsewhere += 1
            continue
        if each > left_minutes:
            rest = f"- and {left_minutes:.0f} minutes of {p.job.name if p.job else f'a run of stage {p.stage.name}'}, which resumes later"
            break
        left_minutes -= each
        fitting.setdefault(p.stage.name, []).append(each)
    else:
        rest = "- nothing is left then"
    lines += [f"- {len(each)} of stage {name}: {sum(each):.1f} minutes of runs" for name, each in fitting.items()] + [rest]
    if elsewhere:
        lines.append(f"- {elsewhere} before that are of seeds that have rows of another device, and stay there")
    return "\n".join(lines) + "\n"
