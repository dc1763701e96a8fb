"""The estimator on curves whose ratio is known: exact without noise, coverage with it, bounds outside of the range."""

import math

import numpy as np
import pytest

from emergence import analysis
from scaling import ratio

AXIS = (1, 2, 4, 8)


def curve(axis: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """A floor and a power law; an arm with `factor` needs so many times the tokens."""
    found: np.ndarray = 1.6 + 2.6 * (axis / factor) ** -0.28
    return found


def test_power_laws_are_exact() -> None:
    axis = np.array(AXIS, dtype=float)
    for true in (0.7, 0.95, 1.0, 1.2):
        found = ratio.factor(AXIS, list(3 * (axis / true) ** -0.1), list(3 * axis**-0.1))
        assert found.value == pytest.approx(true) and found.bound == 0


def test_a_floor_biases_little() -> None:
    axis = np.array(AXIS, dtype=float)
    for true in (0.67, 0.9, 1.1, 1.5):
        assert ratio.factor(AXIS, list(curve(axis, true)), list(curve(axis))).value == pytest.approx(true, rel=0.002)


def test_bounds_outside_of_the_range() -> None:
    base = [4.0, 3.8, 3.6, 3.4]
    first = ratio.factor(AXIS, [3.3, 3.2, 3.1, 3.0], base)  # the arm is there before its first checkpoint
    assert first.value == pytest.approx(1 / 8) and first.bound == -1
    other = ratio.factor(AXIS, base, [3.3, 3.2, 3.1, 3.0])
    assert other.value == pytest.approx(8) and other.bound == 1
    assert ratio.place(AXIS, base, 3.0) == ratio.Place(8, 1) and ratio.place(AXIS, base, 4.0) == ratio.Place(1, 0)
    found = ratio.over_seeds(AXIS, [[3.3, 3.2, 3.1, 3.0], base], [base, base])
    assert found.over_seeds is None and found.outcome() == "undecided" and "or less" in found.shown()


def test_a_run_that_diverged_has_no_interval() -> None:
    base, lost = [4.0, 3.8, 3.6, 3.4], [4.0, math.nan, math.nan, math.nan]
    assert not any(ratio.factor(AXIS, a, b).known for a, b in ((lost, base), (base, lost), (lost, lost)))
    for lost in (lost, [4.0, 3.8, 3.6, math.inf]):
        found = ratio.over_seeds(AXIS, [base, lost], [base, base])
        assert found.outcome() == "undecided" and found.shown() == "1.00, unknown"


def test_a_curve_that_gets_worse_again_has_one_answer() -> None:
    assert ratio.place(AXIS, [4.0, 3.5, 3.7, 3.4], 3.6).at < 2
    # The arm is the worse of the two at the end, at 3.6: it was there between its first two checkpoints, the baseline at its third.
    arm, base = [4.0, 3.5, 3.7, 3.6], [4.0, 3.8, 3.6, 3.5]
    first = math.exp(math.log(2) * math.log(4.0 / 3.6) / math.log(4.0 / 3.5))
    assert ratio.factor(AXIS, arm, base).value == pytest.approx(first / 4)
    # The better one at the end does not fall everywhere: 3.6 is first met by it on a line, by the other one at its end.
    assert ratio.factor(AXIS, [4.0, 3.5, 3.7, 3.4], [4.0, 3.8, 3.7, 3.6]).value == pytest.approx(first / 8)


def test_curves_that_rise_have_bounds_or_nothing() -> None:
    rising, base = [3.5, 3.6, 3.7, 3.8], [4.0, 3.8, 3.6, 3.4]
    found = ratio.factor(AXIS, rising, base)  # 3.8: before the first checkpoint, and at the second
    assert found.value == pytest.approx(1 / 2) and found.bound == -1
    assert ratio.factor(AXIS, base, rising).bound == 1
    both = ratio.factor(AXIS, rising, [3.5, 3.6, 3.7, 3.9])
    assert math.isnan(both.value) and not both.known


def test_roles_exchanged_give_the_inverse() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        a, b = (sorted(rng.uniform(3, 4, 4), reverse=True) for _ in range(2))
        one, two = ratio.factor(AXIS, a, b), ratio.factor(AXIS, b, a)
        assert one.value * two.value == pytest.approx(1) and one.bound == -two.bound


@pytest.mark.parametrize("seeds", (3, 5))
@pytest.mark.parametrize("true", (0.85, 1.0, 1.15))
def test_coverage(true: float, seeds: int) -> None:
    """Seeds share most of their noise between arms; 95 % intervals, 1,000 experiments: within four standard errors, 2.8 points."""
    rng, axis, inside = np.random.default_rng(7), np.array(AXIS, dtype=float), 0
    for _ in range(1000):
        arms, bases = [], []
        for _ in range(seeds):
            shared = rng.normal(0, 0.01)
            own = rng.normal(0, 0.004, (2, 4))
            arms.append(list(curve(axis, true) + shared + own[0]))
            bases.append(list(curve(axis) + shared + own[1]))
        found = ratio.over_seeds(AXIS, arms, bases).over_seeds
        assert found is not None
        inside += found.low <= true <= found.high
    assert abs(inside / 1000 - 0.95) < 0.028


def test_outcomes() -> None:
    def found(*values: float) -> ratio.Found:
        return ratio.Found(tuple(ratio.Factor(v) for v in values), analysis.ratio(np.log(values)))

    assert found(0.80, 0.81, 0.79).outcome() == "fewer"
    assert found(0.96, 0.97, 0.965).outcome() == "fewer, equivalent"
    assert found(0.96, 0.97, 0.965).outcome(p=0.2) == "equivalent"
    assert found(1.3, 1.31, 1.32).outcome(p=0.01) == "more"
    assert found(0.7, 1.0, 1.3).outcome() == "undecided"
    assert math.isclose(found(0.8, 0.8001).over_seeds.mean, 0.80005, rel_tol=1e-4)  # type: ignore[union-attr]
