"""Times that may be censored, paired by seed: an exact log-rank test and the ratios it does not reject.

Times are tokens, infinite where a run has not arrived by `limit`, which is the same for all runs.
"""

import dataclasses
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


def exchanges(differences: np.ndarray) -> float:
    """Two-sided p of their sum over all exchanges of the two labels within pairs."""
    n = len(differences)
    if n > 20:
        raise ValueError(f"{n} pairs have too many exchanges; 20 are the most")
    signs = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    return float(np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9))


def statistic(arm: np.ndarray, base: np.ndarray, limit: float, ratio: float = 1.0) -> np.ndarray:
    """Differences of scores, arm minus base, by pair, once the arm's times are divided by `ratio` and both groups are censored
    at the lower limit. A positive sum: the arm arrives earlier than `ratio` times the base."""
    end = min(limit, limit / ratio)
    pooled = np.concatenate([arm / ratio, base])
    arrived = pooled <= end
    found = scores(np.minimum(pooled, end), arrived)
    differences: np.ndarray = found[: len(arm)] - found[len(arm) :]
    return differences


@dataclasses.dataclass(frozen=True)
class Contrast:
    """`ratio` of the arm's time to the base's, None where too few arrived for one; an open end of the interval is 0 or infinite."""

    seeds: int
    ratio: float | None
    low: float
    high: float
    p: float

    def shown(self) -> str:
        middle = "-" if self.ratio is None else f"{self.ratio:.2f}"
        if self.low == 0:
            return f"{middle} (any)" if math.isinf(self.high) else f"{middle} ({self.high:.2f} or less)"
        return f"{middle} ({self.low:.2f} or more)" if math.isinf(self.high) else f"{middle} ({self.low:.2f} to {self.high:.2f})"


def contrast(arm: np.ndarray, base: np.ndarray, limit: float) -> Contrast:
    """The interval is the hull of the ratios that are not rejected. The estimate is the middle, on the log scale, between the
    largest ratio with a negative statistic and the smallest with a positive one."""
    by_ratio = [statistic(arm, base, limit, float(r)) for r in RATIOS]
    kept = [i for i, d in enumerate(by_ratio) if exchanges(d) > LEVEL]
    sums = np.array([d.sum() for d in by_ratio])
    below, above = np.flatnonzero(sums < -1e-9), np.flatnonzero(sums > 1e-9)
    ratio = float(np.sqrt(RATIOS[below[-1]] * RATIOS[above[0]])) if len(below) and len(above) else None
    # Without a kept ratio the interval is where the statistic changes its sign: the step of RATIOS is wider than it.
    change = below[-1] if len(below) else 0, above[0] if len(above) else len(RATIOS) - 1
    ends = (kept[0], kept[-1]) if kept else change
    low = 0.0 if ends[0] == 0 else float(RATIOS[ends[0]])
    high = math.inf if ends[1] == len(RATIOS) - 1 else float(RATIOS[ends[1]])
    return Contrast(len(arm), ratio, low, high, exchanges(statistic(arm, base, limit)))
