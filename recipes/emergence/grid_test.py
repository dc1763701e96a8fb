"""The exact test against scipy and brute force, the interval's coverage with censored runs, the choice of rates, and the grid's runs."""

import dataclasses
import fcntl
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from emergence import analysis, censored, config, grid, grid_report, train
from emergence.grid import Row

GRID = config.read_grid()
LIMIT = float(GRID.limit)
TINY_STUDY = dataclasses.replace(GRID.study, vocabulary=32, length=16, rows=4, hidden=16, evaluation_rows=4, steps_max=6, evaluate_every=2, warmup=2)
TINY = dataclasses.replace(GRID, study=TINY_STUDY, arms=("baseline", "focal"), rates=(0.001, 0.003), selection_seeds=1, test_seeds=2, test_steps_min=4,
                           record_every=2, budgets=(2, 4))  # fmt: skip


def drawn(seed: int, n: int, limit: float = 4.0) -> np.ndarray:
    """Times with ties, about a third of them censored at the limit."""
    times = np.round(np.random.default_rng(seed).exponential(3.0, n), 1) + 0.1
    return np.where(times <= limit, times, np.inf)


def log_rank_z(arm: np.ndarray, base: np.ndarray, limit: float) -> float:
    """Observed minus expected over the hypergeometric deviation, as textbooks have it."""
    pooled, first = np.concatenate([arm, base]), np.arange(len(arm) + len(base)) < len(arm)
    expected = variance = 0.0
    for t in np.unique(pooled[np.isfinite(pooled)]):
        n, n1, d = np.sum(pooled >= t), np.sum(pooled[first] >= t), np.sum(pooled == t)
        expected += d * n1 / n
        variance += d * n1 / n * (1 - n1 / n) * (n - d) / (n - 1) if n > 1 else 0.0
    assert np.isclose(np.isfinite(arm).sum() - expected, censored.scores(np.minimum(pooled, limit), np.isfinite(pooled))[first].sum())
    return float((np.isfinite(arm).sum() - expected) / math.sqrt(variance))


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_scipys_log_rank(seed: int) -> None:
    arm, base = drawn(seed, 9), drawn(seed + 100, 9)
    assert np.isinf(np.concatenate([arm, base])).any()
    sets = [stats.CensoredData.right_censored(np.minimum(t, 4.0), np.isinf(t)) for t in (arm, base)]
    assert abs(log_rank_z(arm, base, 4.0)) == pytest.approx(abs(stats.logrank(*sets).statistic))
    assert grid_report.log_rank(arm, base, 4.0) == pytest.approx(stats.logrank(*sets).pvalue)
    assert censored.log_ranks(base, arm, 4.0).sum() == pytest.approx(-censored.log_ranks(arm, base, 4.0).sum())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("of_pairs", (censored.log_ranks, censored.differences))
def test_p_is_the_share_of_exchanges_by_brute_force(seed: int, of_pairs: Callable[[np.ndarray, np.ndarray, float], np.ndarray]) -> None:
    """Labels are exchanged in the times themselves, and all is computed again."""
    arm, base = drawn(seed, 6), drawn(seed + 50, 6) * 1.5
    base = np.where(base <= 4.0, base, np.inf)
    seen = abs(of_pairs(arm, base, 4.0).sum())
    as_far = []
    for swap in itertools.product((False, True), repeat=6):
        a, b = np.where(swap, base, arm), np.where(swap, arm, base)
        as_far.append(abs(of_pairs(a, b, 4.0).sum()) >= seen - 1e-9)
    assert censored.exchanges(of_pairs(arm, base, 4.0)) == np.mean(as_far)


def test_without_censored_runs_it_is_the_sign_flips_of_log_ratios() -> None:
    arm, base = (np.random.default_rng(s).exponential(1.0, 8) + 0.1 for s in (1, 2))
    flips = stats.permutation_test((np.log(arm) - np.log(base),), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert censored.exchanges(censored.differences(arm, base, 50.0)) == pytest.approx(flips.pvalue)
    found = censored.contrast(arm, base, 1000.0)
    assert found.p == censored.exchanges(censored.differences(arm, base, 1000.0))
    assert found.p_log_rank == censored.exchanges(censored.log_ranks(arm, base, 1000.0)) != found.p
    assert found.ratio == pytest.approx(analysis.ratio(np.log(arm / base)).mean, rel=0.006)


def test_a_larger_ratio_never_lowers_the_sum() -> None:
    arm, base = drawn(3, 12), drawn(4, 12)
    sums = [censored.differences(arm, base, 4.0, float(r)).sum() for r in censored.RATIOS]
    assert np.diff(sums).min() >= -1e-9 and sums[0] < 0 < sums[-1]


def test_p_by_hand() -> None:
    early, never = np.array([1.0, 2.0, 3.0, 1.5]), np.full(4, np.inf)
    for of_pairs in (censored.log_ranks, censored.differences):
        assert censored.exchanges(of_pairs(early, never, 4.0)) == 2 / 16  # what four pairs can have at best
        assert censored.exchanges(of_pairs(never, never, 4.0)) == 1.0
    with pytest.raises(ValueError, match="20 are the most"):
        censored.exchanges(np.ones(21))


def test_all_baselines_arrive_and_no_arm_does() -> None:
    """What stage 2 called undecided."""
    base = np.array([0.98, 1.25, 1.21, 1.27, 0.90, 1.19, 1.02, 0.86])
    found = censored.contrast(np.full(8, np.inf), base, 4.096)
    assert found.p == found.p_log_rank == 2 / 256 and found.ratio is None and math.isinf(found.high) and 3.2 < found.low < 4.8
    assert grid_report.outcome(found, 5 * found.p) == "more" and grid_report.outcome(found, 0.06) == "undecided"
    assert found.shown() == f"- ({found.low:.2f} or more)"
    other = censored.contrast(base, np.full(8, np.inf), 4.096)
    assert other.low == 0 and other.high == pytest.approx(1 / found.low, rel=0.011) and other.shown().endswith("or less)")


def test_a_ratio_is_recovered_with_and_without_censoring() -> None:
    rng = np.random.default_rng(5)
    shared = rng.normal(0, 0.2, 12)
    base = np.exp(shared + rng.normal(0, 0.03, 12))
    arm = 1.5 * np.exp(shared + rng.normal(0, 0.03, 12))
    for limit in (9.0, 1.6):  # the lower limit censors some of the arm's
        late = np.where(arm <= limit, arm, np.inf)
        assert np.isinf(late).any() == (limit < 2)
        found = censored.contrast(late, np.where(base <= limit, base, np.inf), limit)
        assert found.ratio is not None and found.ratio == pytest.approx(1.5, rel=0.1)
        assert 1.2 < found.low < 1.5 < found.high < 1.9 and found.p < 0.01
        assert grid_report.outcome(found, None) == "more"
        # The ends are kept, and the next ratios of the grid beyond them are rejected at 0.05.
        ends = [(found.low, -0.005), (found.high, 0.005)]
        early = np.where(base <= limit, base, np.inf)
        p = [[censored.exchanges(censored.differences(late, early, limit, end * math.exp(s))) for s in (0.0, step)] for end, step in ends]
        assert all(kept > 0.05 >= rejected for kept, rejected in p)
    near = censored.contrast(base * 0.95, base, 9.0)
    assert near.ratio == pytest.approx(0.95, rel=0.01) and grid_report.outcome(near, near.p) == "fewer, equivalent"


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    """The truth is covered when the test does not reject it; half of the arm's runs are censored."""
    rng, truth, inside, cut = np.random.default_rng(8), 1.4, [], 0
    for _ in range(1500):
        shared = rng.normal(0, 0.2, 10)
        base, arm = (np.exp(shared + rng.normal(0, 0.2, 10)) for _ in range(2))
        arm = np.where(arm * truth <= 1.5, arm * truth, np.inf)
        cut += int(np.isinf(arm).sum())
        base = np.where(base <= 1.5, base, np.inf)
        inside.append(censored.exchanges(censored.differences(arm, base, 1.5, truth)) > censored.LEVEL)
    assert 0.3 < cut / 15000 < 0.6
    assert 0.94 < np.mean(inside) < 0.975


def row(arm: str, rate: float, seed: int, tokens: float | None, last: float = -1.0) -> Row:
    return {"arm": arm, "learning_rate": rate, "seed": seed, "tokens": tokens, "trained_tokens": int(tokens or LIMIT), "seconds": 1.0, "recall": [0.5] * 20,
            "log_likelihood": [last] * 20, "last_log_likelihood": last}  # fmt: skip


def planted(effects: dict[str, dict[float, float | None]]) -> list[Row]:
    """A finished grid; effects[arm][rate] multiplies a million tokens, None: never arrives."""
    rows: list[Row] = []
    while left := grid.missing(GRID, rows):
        for job in left:
            rng = np.random.default_rng([7, job.seed])
            shared, own = rng.normal(0, 0.1), np.random.default_rng([8, job.seed, GRID.arms.index(job.arm)]).normal(0, 0.02)
            factor = effects[job.arm].get(job.rate)
            rows.append(row(job.arm, job.rate, job.seed, None if factor is None else 1e6 * factor * math.exp(shared + own), -(factor or 9.0)))
    return rows


INNER: dict[float, float | None] = {0.0012: 1.4, 0.003: 1.0, 0.007: 1.2}
PLANTED: dict[str, dict[float, float | None]] = {
    "baseline": INNER, "rate-only": {0.0012: 1.1, 0.003: 0.9, 0.007: 1.0}, "focal-0.8": {0.0012: 1.3, 0.003: 1.05, 0.007: 2.0},
    "focal-0.6": {0.0012: 1.4, 0.003: None}, "focal": {0.0002: 4.0, 0.0005: 3.0, 0.0012: 3.5}, "init-only": {},
}  # fmt: skip


def test_each_arm_is_tested_at_its_own_rate() -> None:
    rows = planted(PLANTED)
    best = {arm: {r["learning_rate"] for r in rows if r["arm"] == arm and r["seed"] in GRID.test} for arm in GRID.arms}
    assert best == {"baseline": {0.003}, "rate-only": {0.003}, "focal-0.8": {0.003}, "focal-0.6": {0.0012}, "focal": {0.0005}, "init-only": {0.0002}}
    below = {r["arm"] for r in rows if r["learning_rate"] == GRID.below}
    assert below == {"focal", "init-only"} and not any(r["learning_rate"] == GRID.above for r in rows)
    assert len(rows) == 96 + 2 * 4 + 72 == grid.count(GRID, rows)[1]
    # Test seeds change no choice.
    done = grid.by_key([r | {"tokens": 1.0} if r["seed"] in GRID.test else r for r in rows])
    assert grid.chosen(GRID, done, "focal", grid.rates_of(GRID, done, "focal")) == 0.0005


def test_ties_of_rates_go_to_the_likelier_then_to_the_lower() -> None:
    done = grid.by_key([row("focal", rate, seed, None, last) for seed in GRID.selection for rate, last in zip(GRID.rates, (-3.0, -2.0, -2.0, -4.0))])
    assert grid.chosen(GRID, done, "focal", GRID.rates) == 0.0012


def test_report_finds_what_was_planted_and_waits_for_the_end() -> None:
    rows = planted(PLANTED)
    lines = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")[1:-1]] for line in grid_report.tables(GRID, rows).splitlines() if "/" in line}
    assert lines["focal / baseline"][8] == "more" and lines["focal / baseline"][7] == "no"
    assert lines["focal-0.8 / baseline"][8] == "more, equivalent" and lines["rate-only / baseline"][8] == "fewer, equivalent"
    assert lines["init-only / baseline"][2].endswith("or more)") and lines["init-only / baseline"][8] == "more" and lines["init-only / baseline"][4] != ""
    assert lines["rate-only / focal"][4] == "" and lines["rate-only / focal"][8] == "fewer"
    low, high = map(float, lines["focal / baseline"][2].split("(")[1].rstrip(")").split(" to "))
    assert low < 3.0 < high
    drawing = ElementTree.fromstring(grid_report.figure(GRID, rows))
    curves = [[tuple(map(float, p.split(","))) for p in n.attrib["points"].split()] for n in drawing.iter() if n.tag.endswith("polyline")]
    assert len(curves) == 6 and {c[0] for c in curves} == {curves[0][0]}  # all begin at the origin
    assert curves[GRID.arms.index("rate-only")][1][0] < curves[0][1][0] < curves[GRID.arms.index("focal")][1][0]
    assert len(curves[GRID.arms.index("init-only")]) == 2 and curves[-1][1][1] == curves[0][0][1]  # nobody arrives
    assert grid_report.tables(GRID, rows[:-1]) == "running: 175 of 176 runs; tables when all are finished\n"
    with pytest.raises(ValueError, match="175 of 176"):
        grid_report.figure(GRID, rows[:-1])


def test_the_family_decides_by_holms_p(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_report, "holm", lambda p: [1.0] * len(p))
    lines = {line.split("|")[1].strip(): line.split("|")[-2].strip() for line in grid_report.tables(GRID, planted(PLANTED)).splitlines() if "/" in line}
    assert lines["focal / baseline"] == "undecided" and lines["rate-only / baseline"] == "equivalent" and lines["rate-only / focal"] == "fewer"


def test_edges_are_named_in_the_table() -> None:
    text = grid_report.tables(GRID, planted(PLANTED))
    lines = {line.split("|")[1].strip(): line for line in text.split("\n\n")[0].splitlines()}
    assert "0.0002, at an edge" in lines["init-only"] and "edge" not in lines["focal"]


def test_the_grid_runs_once_resumes_and_keeps_what_is_compared(tmp_path: pathlib.Path) -> None:
    results = tmp_path / "toy.jsonl"
    for _ in range(2):
        grid.run_all(TINY, tmp_path, results, workers=1)
    rows = train.read_results(results)
    first = [("baseline", 0.001, 101), ("baseline", 0.003, 101), ("focal", 0.001, 101), ("focal", 0.003, 101)]
    assert [grid.key_of(r) for r in rows][:4] == first and grid.missing(TINY, rows) == [] and len(rows) == len({grid.key_of(r) for r in rows})
    assert all(r["trained_tokens"] == 6 * 64 and len(r["log_likelihood"]) == len(r["recall"]) == 3 for r in rows)
    # The log-likelihood is that of the right answers: no better than chance on 16 values, and no infinity.
    assert all(-8 < r["log_likelihood"][0] < -2 and r["last_log_likelihood"] == r["log_likelihood"][-1] for r in rows)
    # A row that was lost is written again from the run's state, without training.
    results.write_text("\n".join(results.read_text().splitlines()[1:]) + "\n")
    grid.run_all(TINY, tmp_path, results, workers=1)
    assert {grid.key_of(r): r for r in train.read_results(results)} == {grid.key_of(r): r for r in rows}


def test_two_processes_share_a_grid(tmp_path: pathlib.Path) -> None:
    text = config.TOY.read_text()
    for name in ("arms", "rates", "selection_seeds", "test_seeds", "test_steps_min", "record_every", "budgets"):
        text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {json.dumps(getattr(TINY, name))}", text)
    for name in ("vocabulary", "length", "rows", "hidden", "evaluation_rows", "steps_max", "evaluate_every", "warmup"):
        text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {getattr(TINY_STUDY, name)}", text)
    (tmp_path / "tiny.toml").write_text(text)
    assert config.read_grid(tmp_path / "tiny.toml") == TINY
    results, common = tmp_path / "rows.jsonl", [f"--config={tmp_path}/tiny.toml", f"--results={tmp_path}/rows.jsonl"]
    run = [sys.executable, "-m", "emergence"]
    home = pathlib.Path(__file__).parent.parent
    before = subprocess.run([*run, "grid-report", *common], cwd=home, check=True, capture_output=True, text=True).stdout
    assert before == "running: 0 of 8 runs; tables when all are finished\n"
    done = subprocess.run([*run, "grid", "--workers=2", f"--state={tmp_path}", *common], cwd=home, check=True, capture_output=True, text=True).stdout
    keys = [grid.key_of(r) for r in train.read_results(results)]
    assert len(keys) == len(set(keys)) == done.count(" h to go") and not grid.missing(TINY, train.read_results(results))
    after = subprocess.run([*run, "grid-report", f"--figure={tmp_path}/f.svg", *common], cwd=home, check=True, capture_output=True, text=True).stdout
    assert "| focal / baseline | 2 |" in after and ElementTree.parse(tmp_path / "f.svg")


def test_a_run_that_another_process_holds_is_left_to_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "held.lock"
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with grid.lock(path) as mine:
            assert not mine
    with grid.lock(path) as mine:
        assert mine


def test_a_run_goes_on_after_its_arrival_where_that_was_asked(tmp_path: pathlib.Path) -> None:
    study = dataclasses.replace(TINY_STUDY, threshold=0.0, steps_max=10)
    assert train.Run(study, "baseline", 0.003, 1, tmp_path / "a").train()["trained_tokens"] == 4 * 64
    assert train.Run(study, "baseline", 0.003, 1, tmp_path / "b").train(at_least=8)["trained_tokens"] == 8 * 64


def test_bad_grids_are_refused() -> None:
    for values, text in (({"rates": (0.003, 0.001)}, "must ascend"), ({"arms": ("focal",)}, "must be the baseline"), ({"budgets": (550,)}, "multiples"),
                         ({"budgets": (2500,)}, "at most"), ({"arms": ("baseline", "typo")}, "no arm 'typo'")):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            dataclasses.replace(GRID, **values)
    assert set(GRID.test).isdisjoint(GRID.selection) and len(GRID.test) == 12 and GRID.limit == 6_144_000
