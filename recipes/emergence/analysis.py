"""The analysis registered in docs/studies/recall_from_scratch.md: ratios of tokens until recall, paired by seed, on the log scale."""

import dataclasses
import itertools
import math
from typing import Any, Sequence

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from emergence.config import Study

CONFIDENCE, POWER, MARGIN = 0.95, 0.8, 1.25

# Each is a sum of arms' log tokens, weights in the order named; a ratio is exp of it.
CONTRASTS: dict[str, dict[str, float]] = {
    "focal / baseline": {"focal": 1, "baseline": -1},
    "init-only / baseline": {"init-only": 1, "baseline": -1},
    "rate-only / baseline": {"rate-only": 1, "baseline": -1},
    "rate-only / focal": {"rate-only": 1, "focal": -1},
    "init-only / focal": {"init-only": 1, "focal": -1},
    "effect of W_q's start": {"focal": 0.5, "init-only": 0.5, "rate-only": -0.5, "baseline": -0.5},
    "effect of W_q's rate": {"focal": 0.5, "rate-only": 0.5, "init-only": -0.5, "baseline": -0.5},
    "interaction": {"focal": 1, "baseline": 1, "init-only": -1, "rate-only": -1},
}


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A geometric mean over seeds with its interval. `p` is the t test's, `flip` that of all sign flips."""

    seeds: int
    mean: float
    low: float
    high: float
    p: float
    flip: float
    detectable: float  # the ratio above 1 that such an experiment finds with probability POWER

    @property
    def outcome(self) -> str:
        """Different and equivalent do not exclude each other: a small difference may be found."""
        found = ["fewer"] if self.high < 1 else ["more"] if self.low > 1 else []
        if 1 / MARGIN < self.low and self.high < MARGIN:
            found.append("equivalent")
        return ", ".join(found) or "undecided"


def sign_flips(d: np.ndarray) -> float:
    """Two-sided, over all 2^n assignments of signs."""
    sums = [abs(float(np.dot(s, d))) for s in itertools.product((1.0, -1.0), repeat=len(d))]
    return float(np.mean([x >= abs(float(d.sum())) - 1e-12 for x in sums]))


@dataclasses.dataclass(frozen=True)
class Paired:
    """A mean of paired differences with Student's interval; `detectable`: the difference that is found with probability POWER."""

    mean: float
    half_width: float
    low: float
    high: float
    p: float
    detectable: float


def paired(differences: Sequence[float] | np.ndarray) -> Paired:
    """At least two."""
    d = np.asarray(differences, dtype=np.float64)
    freedom, mean, error = len(d) - 1, float(d.mean()), float(d.std(ddof=1) / math.sqrt(len(d)))
    wide = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom))
    p = float(stats.ttest_1samp(d, 0.0).pvalue) if error > 0 else float(d[0] == 0)
    return Paired(mean, wide * error, mean - wide * error, mean + wide * error, p, (wide + float(stats.t.ppf(POWER, freedom))) * error)


def ratio(d: np.ndarray) -> Ratio:
    """Of paired log ratios, one a seed; at least two."""
    on_log = paired(d)
    return Ratio(len(d), math.exp(on_log.mean), math.exp(on_log.low), math.exp(on_log.high), on_log.p, sign_flips(d), math.exp(on_log.detectable))


def holm(p: list[float]) -> list[float]:
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = largest
    return adjusted


def tables(study: Study, rows: list[dict[str, Any]]) -> str:
    """Markdown for every block. A seed counts in a contrast when all arms of the contrast have finished it."""
    out = []
    for block in study.blocks:
        arms = ("baseline",) + block.arms if block.extension else block.arms
        mine = {(r["arm"], r["seed"]): r for r in rows
                if r["learning_rate"] == block.learning_rate and r["arm"] in arms and r["seed"] in block.seed_numbers()}  # fmt: skip
        if not any(arm in block.arms for arm, _ in mine):
            continue
        out.append(f"### Learning rate {block.learning_rate:g}{', extension' if block.extension else ''}, seeds {block.first_seed} to {block.seed_numbers()[-1]}\n")
        contrasts = {f"{arm} / baseline": {arm: 1.0, "baseline": -1.0} for arm in block.arms} if block.extension else CONTRASTS
        out += arms_table(arms, mine) + [""] + contrasts_table(mine, contrasts) + [""]
    return "\n".join(out)


def arms_table(arms: tuple[str, ...], mine: dict[tuple[str, int], dict[str, Any]]) -> list[str]:
    lines = ["| arm | seeds | censored | median tokens until recall | range | median seconds |", "| --- | --- | --- | --- | --- | --- |"]
    for arm in arms:
        runs = [r for (name, _), r in mine.items() if name == arm]
        if not runs:
            continue
        # A censored run counts as infinite: a median over less than half censored runs is exact.
        tokens = sorted(math.inf if r["tokens"] is None else r["tokens"] for r in runs)
        censored, seconds = sum(map(math.isinf, tokens)), np.median([r["seconds"] for r in runs])
        lines.append(f"| {arm} | {len(runs)} | {censored} | {np.median(tokens):,.0f} | {tokens[0]:,.0f} to {tokens[-1]:,.0f} | {seconds:.0f} |")
    return lines


def censored(mine: dict[tuple[str, int], dict[str, Any]], weights: dict[str, float], seeds: list[int]) -> str:
    """Of a ratio to an arm that is never censored: the smallest of the seeds' lower bounds, known where a run was ended."""
    above, below = [a for a, w in weights.items() if w == 1], [a for a, w in weights.items() if w == -1]
    if [len(above), len(below), len(weights)] != [1, 1, 2] or any(mine[below[0], s]["tokens"] is None for s in seeds):
        return "a run is censored: see the arms"
    bounds = [(mine[above[0], s]["tokens"] or mine[above[0], s]["trained_tokens"]) / mine[below[0], s]["tokens"] for s in seeds]
    count = sum(mine[above[0], s]["tokens"] is None for s in seeds)
    return f"{count} of {len(seeds)} censored; {min(bounds):.2f} or more in every seed"


def contrasts_table(mine: dict[tuple[str, int], dict[str, Any]], contrasts: dict[str, dict[str, float]]) -> list[str]:
    """A contrast with a censored run has no interval: its ratio is known by bounds alone. Holm's family is those with the baseline."""
    lines = ["| contrast | seeds | ratio of tokens, 95 % | p | Holm | sign flips | seen from | outcome |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    found: dict[str, Ratio | str] = {}
    for name, weights in contrasts.items():
        seeds = [s for s in sorted({s for _, s in mine}) if all((a, s) in mine for a in weights)]
        if any(mine[a, s]["tokens"] is None for a in weights for s in seeds):
            found[name] = f"| {name} | {len(seeds)} | {censored(mine, weights, seeds)} | | | | | undecided |"
        elif len(seeds) < 2:
            found[name] = f"| {name} | {len(seeds)} | too few seeds | | | | | undecided |"
        else:
            found[name] = ratio(np.array([sum(w * math.log(mine[a, s]["tokens"]) for a, w in weights.items()) for s in seeds]))
    # A contrast without a ratio is a test of the family all the same.
    names = [name for name in contrasts if name.endswith("/ baseline")]
    family = [found[name] for name in names]
    adjusted = dict(zip(names, holm([r.p if isinstance(r, Ratio) else 1.0 for r in family])))
    for name, r in found.items():
        if isinstance(r, str):
            lines.append(r)
            continue
        shown = f"{adjusted[name]:.4f}" if name in adjusted else ""
        # Of an effect or an interaction the margin was not registered.
        outcome = r.outcome if "/" in name else ""
        lines.append(f"| {name} | {r.seeds} | {r.mean:.3f} ({r.low:.3f} to {r.high:.3f}) | {r.p:.4f} | {shown} | {r.flip:.4f} | {r.detectable:.2f} | {outcome} |")
    return lines
