"""The analysis registered in docs/notebook/2026-11-30-scaling.md. No loss is printed before the runs of its stage are finished."""

import math
from typing import Any, Iterable

import numpy as np

from emergence.analysis import holm, paired
from emergence.grid_report import p_shown
from scaling import plan, ratio
from scaling.config import Stage, Study
from scaling.train import Row, edges

PAPERS_TOKENS, PAPERS_PARAMETERS = 0.67, 0.58  # 33 % less data, 42 % fewer parameters
FAMILY = ("focal", "rate-only")  # each against the baseline; the first is primary
EXPLAIN = (("rate-only", "focal"), ("focal-preserving", "rate-only"))  # unadjusted

Rows = dict[tuple[str, int], Row]  # by arm and seed


def tables(study: Study, rows: list[Row]) -> str:
    plan.devices(rows)  # refuses a pair of two devices
    parts = [state(study, rows)]
    if all(plan.count(study, rows, s.name)[0] == plan.count(study, rows, s.name)[1] for s in study.stages[:2]):
        parts += [rates(study, rows)]
        for stage in study.stages:
            finished, of = plan.count(study, rows, stage.name)
            if not stage.selects and finished == of:
                adapted = any(study.adaptation(a) for a in stage.arms)
                parts += adaptation(study, rows, stage) if adapted else stage_tables(study, rows, stage)
        parts += parameters(study, rows) + contexts(study, rows)
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def state(study: Study, rows: list[Row]) -> list[str]:
    counts = [(s.name, *plan.count(study, rows, s.name)) for s in study.stages]
    lines = ["| stage | finished | runs |", "| --- | ---: | ---: |"] + [f"| {n} | {f} | {of} |" for n, f, of in counts]
    first = counts[:2]
    if any(f < of for _, f, of in first):
        lines += ["", "Losses and contrasts are printed when both parts of stage 1 are finished."]
    return lines


def rates(study: Study, rows: list[Row]) -> list[str]:
    done = plan.by_key(rows)
    lines = ["| arm, selection seeds: held-out loss (nats a token) by rate | chosen |", "| --- | --- |"]
    for arm in dict.fromkeys(a for s in study.stages for a in s.arms):
        stage = plan.selection_of(study, arm)
        best = plan.chosen(study, done, arm)
        if stage is None or best is None:
            continue
        mine = plan.rates_of(study, stage, done, arm)
        cells = [f"{r:g}: {mean_spread([done[plan.selection_job(stage, arm, r, s).key]['loss'][-1] for s in stage.seeds], spread=False)}" for r in mine]
        edge = ", at an edge" if best in (mine[0], mine[-1]) else ""
        lines.append(f"| {arm} | " + "; ".join(cells) + f" | {best:g}{edge} |")
    return lines


def cell(study: Study, rows: list[Row], stage: Stage, size: str, context: int) -> Rows:
    """The stage's rows, and those of the same seeds that its arms are compared with, at their own rates: the baseline's and those of EXPLAIN."""
    done = plan.by_key(rows)
    arms = dict.fromkeys(("baseline", *(b for a, b in EXPLAIN if a in stage.arms and b not in stage.arms), *stage.arms))
    found: Rows = {}
    for arm in arms:
        shared = stage.shared_rate and arm in stage.arms
        rate = plan.chosen(study, done, "baseline" if shared else arm)
        for seed in stage.seeds:
            match = [r for r in rows if (r["arm"], r["size"], r["context"], r["rate"], r["seed"]) == (arm, size, context, rate, seed)
                     and r["millions"] == list(stage.millions)]  # fmt: skip
            if match:
                found[arm, seed] = match[0]
    return found


def seeds_of(found: Rows, arms: Iterable[str]) -> list[int]:
    every = [{s for a, s in found if a == arm} for arm in arms]
    return sorted(set.intersection(*every)) if every else []


def stage_tables(study: Study, rows: list[Row], stage: Stage) -> list[list[str]]:
    parts = []
    for size in stage.sizes:
        for context in stage.contexts:
            found = cell(study, rows, stage, size, context)
            arms = tuple(dict.fromkeys(a for a, _ in found))
            parts.append([f"### Stage {stage.name}: {size}, context {context}"])
            parts.append(losses(found, arms, stage))
            parts.append(contrasts(found, arms, stage))
            parts.append(positions(found, stage, context))
    return parts


def mean_spread(values: list[float], spread: bool = True) -> str:
    """Of the runs that did not diverge; those that did are counted."""
    finite = [x for x in values if math.isfinite(x)]
    shown = [f"{np.mean(finite):.4f}" + (f" ± {np.std(finite, ddof=1):.4f}" if spread and len(finite) > 1 else "")] if finite else []
    return ", ".join(shown + ([f"{len(values) - len(finite)} of {len(values)} diverged"] if len(finite) < len(values) else []))


def interval(gaps: list[float] | np.ndarray, digits: int) -> str:
    """Of paired differences; with one pair the difference alone."""
    if not np.all(np.isfinite(gaps)):
        return "a run diverged"
    if len(gaps) < 2:
        return ", ".join(f"{g:+.{digits}f}" for g in gaps)
    t = paired(gaps)
    return f"{t.mean:+.{digits}f} ({t.low:+.{digits}f} to {t.high:+.{digits}f})"


def losses(found: Rows, arms: tuple[str, ...], stage: Stage) -> list[str]:
    lines = ["| held-out loss, nats a token: mean ± deviation of seeds | rate | seeds | diverged | " + " | ".join(f"{m} M" for m in stage.millions) + " |",
             "| --- | --- | --- | --- |" + " --- |" * len(stage.millions)]  # fmt: skip
    for arm in arms:
        mine = [r for (a, _), r in found.items() if a == arm]
        cells = [mean_spread([r["loss"][i] for r in mine]) for i in range(len(stage.millions))]
        diverged = sum(not np.all(np.isfinite(r["loss"])) for r in mine)
        lines.append(f"| {arm} | {mine[0]['rate']:g} | {len(mine)} | {diverged} | " + " | ".join(cells) + " |")
    return lines


def contrasts(found: Rows, arms: tuple[str, ...], stage: Stage) -> list[str]:
    lines = ["| contrast | seeds | ratio of tokens at equal loss, 95 % | p | Holm | sign flips | seen from | contains 0.67 | outcome | loss at the end, difference, 95 % |",
             "| --- |" + " --- |" * 9]  # fmt: skip
    pairs = [(a, "baseline") for a in arms if a != "baseline" and a in stage.arms] + [p for p in EXPLAIN if set(p) <= set(arms)]
    curves: list[tuple[ratio.Found, str]] = []
    for a, b in pairs:
        seeds = seeds_of(found, (a, b))
        mine, base = ([found[x, s]["loss"] for s in seeds] for x in (a, b))
        gaps = [x[-1] - y[-1] for x, y in zip(mine, base)]
        curves.append((ratio.over_seeds(stage.millions, mine, base), interval(gaps, 4)))
    family = [i for i, (a, b) in enumerate(pairs) if b == "baseline" and a in FAMILY]
    p = [c.over_seeds.p if (c := curves[i][0]).over_seeds else 1.0 for i in family]
    adjusted = dict(zip(family, holm(p)))
    for i, ((a, b), (c, gap)) in enumerate(zip(pairs, curves)):
        r = c.over_seeds
        numbers = f"{p_shown(r.p)} | {p_shown(adjusted[i]) if i in adjusted else ''} | {r.flip:.3f} | {r.detectable:.3f}" if r else "| | |"
        inside = ("yes" if r.low <= PAPERS_TOKENS <= r.high else "no") if r else "?"
        lines.append(f"| {a} / {b} | {len(c.factors)} | {c.shown()} | {numbers} | {inside} | {c.outcome(adjusted.get(i))} | {gap} |")
    return lines


def positions(found: Rows, stage: Stage, context: int) -> list[str]:
    """At the last checkpoint, paired by seed."""
    at = edges(context)
    names = [f"{a + 1} to {b}" for a, b in zip(at, at[1:])]
    lines = ["| loss minus the baseline's by position | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for arm in stage.arms:
        seeds = seeds_of(found, (arm, "baseline"))
        if arm == "baseline" or not seeds:
            continue
        gaps = np.array([np.subtract(found[arm, s]["by_position"][-1], found["baseline", s]["by_position"][-1]) for s in seeds])
        lines.append(f"| {arm} | " + " | ".join(interval(g, 3) for g in gaps.T) + " |")
    return lines


def parameters(study: Study, rows: list[Row]) -> list[list[str]]:
    """At the tokens that all sizes of context 512 have in common: ratios of parameters. Of finished stages with three seeds or more."""
    cells: dict[str, Rows] = {}
    for stage in study.stages:
        finished, of = plan.count(study, rows, stage.name)
        if stage.selects or stage.shared_rate or finished < of or len(stage.seeds) < 3:
            continue
        for size in stage.sizes:
            if 512 in stage.contexts and set(FAMILY) <= set(stage.arms):
                cells[size] = cell(study, rows, stage, size, 512)
    if len(cells) < 2:
        return []
    common = max(set.intersection(*({m for r in c.values() for m in r["millions"]} for c in cells.values())))
    lines = [f"| contrast | seeds | ratio of parameters at {common} M tokens, sizes {', '.join(cells)}, 95 % | contains 0.58 | outcome |",
             "| --- |" + " --- |" * 4]  # fmt: skip

    def curve(arm: str, seed: int) -> tuple[list[int], list[float]]:
        mine: list[dict[str, Any]] = [c[arm, seed] for c in cells.values()]
        return [r["parameters"] for r in mine], [r["loss"][r["millions"].index(common)] for r in mine]

    for a in FAMILY:
        seeds = [s for s in seeds_of(next(iter(cells.values())), (a, "baseline")) if all((x, s) in c for x in (a, "baseline") for c in cells.values())]
        if not seeds:
            continue
        axis = curve("baseline", seeds[0])[0]
        c = ratio.over_seeds(axis, [curve(a, s)[1] for s in seeds], [curve("baseline", s)[1] for s in seeds])
        inside = ("yes" if c.over_seeds.low <= PAPERS_PARAMETERS <= c.over_seeds.high else "no") if c.over_seeds else "?"
        lines.append(f"| {a} / baseline | {len(seeds)} | {c.shown()} | {inside} | {c.outcome()} |")
    return [["### Parameters"], lines]


def better(gaps: list[float]) -> str:
    """A lower loss is better; by the interval alone."""
    if len(gaps) < 2 or not np.all(np.isfinite(gaps)):
        return "undecided"
    t = paired(gaps)
    return "better" if t.high < 0 else "worse" if t.low > 0 else "undecided"


def adaptation(study: Study, rows: list[Row], stage: Stage) -> list[list[str]]:
    """Adapted against the whole training of either arm, at the same tokens: differences of the loss, paired by seed, unadjusted."""
    whole = cell(study, rows, study.stages[1], stage.sizes[0], stage.contexts[0])
    mine = cell(study, rows, stage, stage.sizes[0], stage.contexts[0])
    lines = ["| held-out loss at the end | seeds | difference, 95 % | outcome |", "| --- | --- | --- | --- |"]
    for arm in stage.arms:
        for other in ("focal", "baseline"):  # the first is primary
            gaps = [mine[arm, s]["loss"][-1] - whole[other, s]["loss"][-1] for s in stage.seeds if (other, s) in whole]
            primary = " (primary)" if other == "focal" else ""
            lines.append(f"| {arm} minus {other}{primary} | {len(gaps)} | {interval(gaps, 4)} | {better(gaps)} |")
    return [[f"### Stage {stage.name}"], lines]


def contexts(study: Study, rows: list[Row]) -> list[list[str]]:
    """H3: by seed, the slope of ln ratio of tokens over log2 of the training context, at one size."""
    size, first = study.stages[1].sizes[0], study.stages[1]
    cells: dict[int, Rows] = {}
    for stage in study.stages:
        finished, of = plan.count(study, rows, stage.name)
        if size in stage.sizes and set(FAMILY) <= set(stage.arms) and not (stage.selects or stage.shared_rate) and finished == of:
            cells |= {c: cell(study, rows, stage, size, c) for c in stage.contexts}
    if len(cells) < 3:
        return []
    lines = ["| slope of ln ratio over log2 context: contexts " + ", ".join(map(str, sorted(cells))) + " | seeds | slope, 95 % |", "| --- | --- | --- |"]
    for arm in FAMILY:
        seeds = sorted(set.intersection(*(set(seeds_of(c, (arm, "baseline"))) for c in cells.values())))
        slopes = []
        for s in seeds:
            factors = [ratio.factor(first.millions, cells[c][arm, s]["loss"], cells[c]["baseline", s]["loss"]) for c in sorted(cells)]
            if all(f.known for f in factors):
                slopes.append(float(np.polyfit(np.log2(sorted(cells)), np.log([f.value for f in factors]), 1)[0]))
        t = paired(slopes) if len(slopes) == len(seeds) > 1 else None
        lines.append(f"| {arm} / baseline | {len(seeds)} | " + (f"{t.mean:+.4f} ({t.low:+.4f} to {t.high:+.4f})" if t else "a seed has a bound or diverged") + " |")
    return [["### Contexts"], lines]
