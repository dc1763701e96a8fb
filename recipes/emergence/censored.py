"""Times that may be censored, paired by seed: exact tests over the exchanges of labels, and the ratios that are not rejected.

Times are tokens, infinite where a run has not arrived by `limit`, which is the same for all runs.
"""

import dataclasses
import functools
import math

import numpy as np

LEVEL = 0.05
RATIOS = np.exp(np.arange(-498, 499) * 0.005)  # 1/12 to 12, steps of 0.5 %


def scores(times: np.ndarray, arrived: np.ndarray) -> np.ndarray:
    """Log-rank scores: 1 for an arrival, 0 for a censored time, minus Nelson and Aalen's cumulative hazard. Their sum is zero;
    over one of two groups it is that group's observed minus expected arrivals."""
    hazard = np.zeros(len(times))
    for t in np.unique(times[arrived]):
        hazard[times >= t] += np.sum(arrived & (times == t)) / np.sum(times >= t)
    found: np.ndarray = arrived - hazard
    return found


@functools.cache
def signs(pairs: int) -> np.ndarray:
    """All 2^pairs assignments of -1 and 1, one a row."""
    return 1.0 - 2.0 * (np.arange(2**pairs)[:, None] >> np.arange(pairs) & 1)


def exchanges(of_pairs: np.ndarray) -> float:
    """Two-sided p of their sum over all exchanges of the two labels within pairs."""
    n = len(of_pairs)
    if n > 20:
        raise ValueError(f"{n} pairs have too many exchanges; 20 are the most")
    return float(np.mean(np.abs(signs(n) @ of_pairs) >= abs(of_pairs.sum()) - 1e-9))


def log_ranks(arm: np.ndarray, base: np.ndarray, limit: float) -> np.ndarray:
    """Differences of the pooled runs' scores by pair; a positive sum: the arm arrives earlier."""
    pooled = np.concatenate([arm, base])
    found = scores(np.minimum(pooled, limit), pooled <= limit)
    by_pair: np.ndarray = found[: len(arm)] - found[len(arm) :]
    return by_pair


def differences(arm: np.ndarray, base: np.ndarray, limit: float, ratio: float = 1.0) -> np.ndarray:
    """ln base - ln arm by pair, once the arm's times are divided by `ratio` and both groups are cut at the lower of their limits. A
    positive sum: the arm arrives earlier than `ratio` times the base. A larger `ratio` never lowers it."""
    end = min(limit, limit / ratio)
    found: np.ndarray = np.log(np.minimum(base, end)) - np.log(np.minimum(arm / ratio, end))
    return found


@dataclasses.dataclass(frozen=True)
class Contrast:
    """`ratio` of the arm's time to the base's, None where too few arrived for one; an open end of the interval is 0 or infinite."""

    seeds: int
    ratio: float | None
    low: float
    high: float
    p: float
    p_log_rank: float

    def shown(self) -> str:
        middle = "-" if self.ratio is None else f"{self.ratio:.2f}"
        if self.low == 0:
            return f"{middle} (any)" if math.isinf(self.high) else f"{middle} ({self.high:.2f} or less)"
        return f"{middle} ({self.low:.2f} or more)" if math.isinf(self.high) else f"{middle} ({self.low:.2f} to {self.high:.2f})"


def contrast(arm: np.ndarray, base: np.ndarray, limit: float) -> Contrast:
    """The interval is the hull of the ratios that are not rejected. The estimate is the middle, on the log scale, between the
    largest ratio with a negative statistic and the smallest with a positive one."""
    by_ratio = [differences(arm, base, limit, float(r)) for r in RATIOS]
    kept = [i for i, d in enumerate(by_ratio) if exchanges(d) > LEVEL]
    sums = np.array([d.sum() for d in by_ratio])
    below, above = np.flatnonzero(sums < -1e-9), np.flatnonzero(sums > 1e-9)
    ratio = float(np.sqrt(RATIOS[below[-1]] * RATIOS[above[0]])) if len(below) and len(above) else None
    # Without a kept ratio the interval is where the statistic changes its sign: the step of RATIOS is wider than it.
    change = below[-1] if len(below) else 0, above[0] if len(above) else len(RATIOS) - 1
    ends = (kept[0], kept[-1]) if kept else change
    low = 0.0 if ends[0] == 0 else float(RATIOS[ends[0]])
    high = math.inf if ends[1] == len(RATIOS) - 1 else float(RATIOS[ends[1]])
    return Contrast(len(arm), ratio, low, high, exchanges(differences(arm, base, limit)), exchanges(log_ranks(arm, base, limit)))
