"""The analysis registered in docs/notebook/2026-11-28-toy-grid.md and 2026-11-28-toy-grid-test.md. Nothing is printed while runs are missing."""

import math

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from emergence import censored, chart, grid
from emergence.analysis import MARGIN, holm, paired
from emergence.config import Grid
from emergence.grid import Key, Row

PAPERS = 0.67  # 33 % less data
FAMILY = ("focal", "focal-0.6", "focal-0.8", "rate-only", "init-only")  # each against the baseline; the first is primary
EXPLAIN = (("rate-only", "focal"), ("init-only", "focal"))
STEPS = (500, 1000, 2000, 3000)  # of the counts of arrivals


def tables(study: Grid, rows: list[Row]) -> str:
    finished, of = grid.count(study, rows)
    if finished < of:
        return f"running: {finished} of {of} runs; tables when all are finished\n"
    done = grid.by_key(rows)
    best = {arm: grid.chosen(study, done, arm, grid.rates_of(study, done, arm)) for arm in study.arms}
    parts = [selection(study, done, best), arrivals(study, done, best), contrasts(study, done, best), likelihoods(study, done, best)]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def times(study: Grid, done: dict[Key, Row], best: dict[str, float], arm: str) -> np.ndarray:
    """Of the test seeds in order; infinite where a run was censored."""
    return np.array([done[arm, best[arm], seed]["tokens"] or math.inf for seed in study.test], dtype=np.float64)


def selection(study: Grid, done: dict[Key, Row], best: dict[str, float]) -> list[str]:
    rates = sorted({rate for _, rate, _ in done})
    lines = ["| arm, selection seeds: tokens until recall, geometric mean (arrived) | " + " | ".join(f"{r:g}" for r in rates) + " | chosen |",
             "| --- |" + " --- |" * (len(rates) + 1)]  # fmt: skip
    for arm in study.arms:
        cells = []
        for rate in rates:
            mine = [done[arm, rate, s] for s in study.selection if (arm, rate, s) in done]
            mean = math.exp(sum(grid.log_tokens(r, study.limit) for r in mine) / len(mine)) if mine else 0.0
            cells.append(f"{mean / 1e6:.2f} M ({sum(r['tokens'] is not None for r in mine)} of {len(mine)})" if mine else "")
        mine_rates = grid.rates_of(study, done, arm)
        edge = ", at an edge" if best[arm] in (mine_rates[0], mine_rates[-1]) else ""
        lines.append(f"| {arm} | " + " | ".join(cells) + f" | {best[arm]:g}{edge} |")
    return lines


def arrivals(study: Grid, done: dict[Key, Row], best: dict[str, float]) -> list[str]:
    ends = [s * study.study.rows * study.study.length for s in STEPS]
    lines = ["| arm, test seeds | rate | seeds | " + " | ".join(f"arrived by {e / 1e6:.2f} M" for e in ends) + " | median tokens | range |",
             "| --- |" + " --- |" * (len(ends) + 4)]  # fmt: skip
    for arm in study.arms:
        tokens = np.sort(times(study, done, best, arm))
        middle, first, last = (f"{t:,.0f}" if math.isfinite(t) else "not reached" for t in (np.median(tokens), tokens[0], tokens[-1]))
        lines.append(f"| {arm} | {best[arm]:g} | {len(tokens)} | " + " | ".join(str(int(np.sum(tokens <= e))) for e in ends) + f" | {middle} | {first} to {last} |")
    return lines


def p_shown(p: float) -> str:
    return f"{p:.4f}" if p >= 1e-4 else "< 0.0001"


def outcome(found: censored.Contrast, p: float | None) -> str:
    """`p` is Holm's; without one the interval alone decides the direction."""
    direction = "fewer" if found.high < 1 else "more" if found.low > 1 else ""
    names = [direction] if direction and (p is None or p < censored.LEVEL) else []
    if 1 / MARGIN < found.low and found.high < MARGIN:
        names.append("equivalent")
    return ", ".join(names) or "undecided"


def log_rank(arm: np.ndarray, base: np.ndarray, limit: float) -> float:
    """The usual p, unpaired."""
    sets = [stats.CensoredData.right_censored(np.minimum(t, limit), ~np.isfinite(t)) for t in (arm, base)]
    return float(stats.logrank(*sets).pvalue) if np.isfinite(np.concatenate([arm, base])).any() else 1.0


def contrasts(study: Grid, done: dict[Key, Row], best: dict[str, float]) -> list[str]:
    lines = ["| contrast | seeds | ratio of tokens, 95 % | p, exact | Holm | p, exact log-rank | p, unpaired log-rank | contains 0.67 | outcome |",
             "| --- |" + " --- |" * 8]  # fmt: skip
    pairs = [(arm, "baseline") for arm in FAMILY if arm in study.arms] + [p for p in EXPLAIN if set(p) <= set(study.arms)]
    found = [censored.contrast(times(study, done, best, a), times(study, done, best, b), study.limit) for a, b in pairs]
    family = [i for i, (_, b) in enumerate(pairs) if b == "baseline"]
    adjusted = dict(zip(family, holm([found[i].p for i in family])))
    for i, ((a, b), c) in enumerate(zip(pairs, found)):
        usual = log_rank(times(study, done, best, a), times(study, done, best, b), study.limit)
        inside = "yes" if c.low <= PAPERS <= c.high else "no"
        shown = p_shown(adjusted[i]) if i in adjusted else ""
        lines.append(f"| {a} / {b} | {c.seeds} | {c.shown()} | {p_shown(c.p)} | {shown} | {p_shown(c.p_log_rank)} | {p_shown(usual)} "
                     f"| {inside} | {outcome(c, adjusted.get(i))} |")  # fmt: skip
    return lines


def likelihoods(study: Grid, done: dict[Key, Row], best: dict[str, float]) -> list[str]:
    lines = ["| log-likelihood of the answer, nats | tokens | mean | minus the baseline's, 95 %, paired by seed | p |", "| --- |" + " --- |" * 4]
    for steps in study.budgets:
        at = steps // study.record_every - 1
        mine = {arm: np.array([done[arm, best[arm], s]["log_likelihood"][at] for s in study.test]) for arm in study.arms}
        for arm in study.arms:
            t = paired(mine[arm] - mine["baseline"])
            shown = f"{t.mean:+.3f} ({t.low:+.3f} to {t.high:+.3f}) | {p_shown(t.p)}" if arm != "baseline" else "|"
            lines.append(f"| {arm} | {steps * study.study.rows * study.study.length:,} | {mine[arm].mean():.3f} | {shown} |")
    return lines


def figure(study: Grid, rows: list[Row]) -> str:
    """The share of test runs that have arrived, against tokens."""
    finished, of = grid.count(study, rows)
    if finished < of:
        raise ValueError(f"the figure is of finished grids: {finished} of {of} runs are")
    done = grid.by_key(rows)
    best = {arm: grid.chosen(study, done, arm, grid.rates_of(study, done, arm)) for arm in study.arms}
    series = []
    for arm in study.arms:
        points, share = [chart.Point(0.0, 0.0)], 0.0
        for t in np.sort(times(study, done, best, arm)):
            if math.isfinite(t):
                points += [chart.Point(t / 1e6, share), chart.Point(t / 1e6, share := share + 1 / study.test_seeds)]
        points.append(chart.Point(study.limit / 1e6, share))
        series.append(chart.Series(f"{arm}, rate {best[arm]:g}", points, dots=False))
    title = f"share of {study.test_seeds} test seeds with 95 % recall, each arm at its own rate"
    return chart.lines(title, "tokens of training, millions", "share", series, x_ticks=tuple(range(math.floor(study.limit / 1e6) + 1)))
