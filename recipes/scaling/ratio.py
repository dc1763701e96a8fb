"""Equal-loss ratios: the factor of tokens, or of parameters, at which two arms reach the same loss; decision 65.

Between two checkpoints of a run the logarithm of the axis is a monotone cubic (Fritsch and Carlson) of the logarithm of the loss, which errs by 0.2 % or less on
power laws with a floor, where a line errs by up to 1.2 % towards 1; a curve that does not fall everywhere gets lines. Nothing is extrapolated: outside of the
measured range there is a bound.
"""

import dataclasses
import math
from typing import Sequence

import numpy as np
from scipy.interpolate import PchipInterpolator  # type: ignore[import-untyped]

from emergence.analysis import Ratio, ratio

MARGIN = 1.1  # ratios within are equivalent


@dataclasses.dataclass(frozen=True)
class Place:
    """Where on the axis a loss is reached; `bound`: -1 where it was reached before the first point, 1 where not by the last."""

    at: float
    bound: int = 0


def place(axis: Sequence[float], losses: Sequence[float], target: float) -> Place:
    """The first place that is as good as `target`."""
    if losses[0] <= target:
        return Place(axis[0], -1 if losses[0] < target else 0)
    x, y = np.log(losses), np.log(axis)
    if np.all(np.diff(x) < 0):
        return Place(math.exp(PchipInterpolator(x[::-1], y[::-1])(math.log(target)))) if losses[-1] <= target else Place(axis[-1], 1)
    for i in range(1, len(axis)):
        if losses[i] <= target:
            share = (x[i - 1] - math.log(target)) / (x[i - 1] - x[i])
            return Place(math.exp(y[i - 1] + share * (y[i] - y[i - 1])))
    return Place(axis[-1], 1)


@dataclasses.dataclass(frozen=True)
class Factor:
    """The arm's place over the baseline's; `bound` 1: or more, -1: or less. NaN where nothing is known."""

    value: float
    bound: int = 0

    @property
    def known(self) -> bool:
        return self.bound == 0 and math.isfinite(self.value)


def factor(axis: Sequence[float], arm: Sequence[float], base: Sequence[float]) -> Factor:
    """At the loss of the worse of the two at their last point, so that both have reached it; each where it was first as good, which is before
    the last point where a curve does not fall everywhere. Nothing is known of a run that diverged, nor if both were there before the first point."""
    if not np.all(np.isfinite([*arm, *base])):
        return Factor(math.nan)
    target = max(arm[-1], base[-1])
    a, b = place(axis, arm, target), place(axis, base, target)
    if a.bound and b.bound:
        return Factor(math.nan)
    return Factor(a.at / b.at, a.bound - b.bound)


@dataclasses.dataclass(frozen=True)
class Found:
    """Over seeds. Without an interval where a seed has a bound alone or diverged, or where there are fewer than two seeds."""

    factors: tuple[Factor, ...]
    over_seeds: Ratio | None

    def shown(self) -> str:
        if self.over_seeds is not None:
            return f"{self.over_seeds.mean:.3f} ({self.over_seeds.low:.3f} to {self.over_seeds.high:.3f})"
        return ", ".join("unknown" if math.isnan(f.value) else f"{f.value:.2f}" + {1: " or more", -1: " or less", 0: ""}[f.bound] for f in self.factors)

    def outcome(self, p: float | None = None) -> str:
        """`p` is Holm's; without one the interval alone decides the direction."""
        if self.over_seeds is None:
            return "undecided"
        r = self.over_seeds
        direction = "fewer" if r.high < 1 else "more" if r.low > 1 else ""
        names = [direction] if direction and (p is None or p < 0.05) else []
        if 1 / MARGIN < r.low and r.high < MARGIN:
            names.append("equivalent")
        return ", ".join(names) or "undecided"


def over_seeds(axis: Sequence[float], arms: Sequence[Sequence[float]], bases: Sequence[Sequence[float]]) -> Found:
    """Paired: the i-th curves share a seed."""
    factors = tuple(factor(axis, a, b) for a, b in zip(arms, bases))
    if len(factors) < 2 or not all(f.known for f in factors):
        return Found(factors, None)
    return Found(factors, ratio(np.log([f.value for f in factors])))
