"""The arms are what their names promise, runs resume, and the analysis finds what was put in."""

import dataclasses
import math
import pathlib
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from emergence import analysis, chart, config, data, mass, train
from llama.arms import ARMS, Arm, make

torch.set_num_threads(1)
STUDY = config.read()
TINY = dataclasses.replace(STUDY, vocabulary=32, length=16, rows=4, hidden=16, evaluation_rows=4, steps_max=6, evaluate_every=2, warmup=2)
FOUR = STUDY.blocks[0].arms
SCALED = Arm(q_start=2.5, q_rate=2.5)


# Initial weights are float32 and the steps float64, so equal runs differ by the rounding of the weights.
def losses(arm: Arm, path: pathlib.Path, steps: int = 25) -> np.ndarray:
    run = train.Run(TINY, arm, 0.003, 1, path)
    run.net.double()
    return np.array([run.one_step() for _ in range(steps)])


def test_focal_is_the_baseline_with_start_and_rate_of_queries_scaled(tmp_path: pathlib.Path) -> None:
    focal = losses(ARMS["focal"], tmp_path)
    assert np.abs(losses(SCALED, tmp_path) - focal).max() < 1e-6
    for other in ("baseline", "init-only", "rate-only"):
        assert np.abs(losses(ARMS[other], tmp_path) - focal).max() > 1e-4, other


def test_rate_only_is_the_function_preserving_start(tmp_path: pathlib.Path) -> None:
    preserving = ARMS["focal-preserving"]
    assert np.abs(losses(ARMS["rate-only"], tmp_path) - losses(preserving, tmp_path)).max() < 1e-6


def test_marks_are_determined_by_what_came_before() -> None:
    rng = np.random.default_rng(3)
    for ids, marks in (data.recall(rng, 8, 64, 32), data.copy(rng, 8, 64, 32)):
        assert marks.any(1).all() and not marks[:, -1].any()
        for row, at in zip(*np.nonzero(marks)):
            seen = list(ids[row, : at + 1])
            first = seen.index(seen[-1])
            # The token asked about has one earlier place; what followed there is the answer, at the list's end its start.
            follower = ids[row, first + 1] if not (marks[row, 16:31].all() and first == 15) else ids[row, 0]
            assert ids[row, at + 1] == follower


def test_batches_depend_on_seed_and_step_alone() -> None:
    a, b, c, d = (data.batch(s, t, 4, 32, 16)[0] for s, t in ((1, 5), (1, 5), (2, 5), (1, 6)))
    assert torch.equal(a, b) and not torch.equal(a, c) and not torch.equal(a, d)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: pathlib.Path) -> None:
    whole = train.Run(TINY, "focal", 0.003, 1, tmp_path / "whole").train()
    run = train.Run(TINY, "focal", 0.003, 1, tmp_path / "parts")
    run.one_step()
    run.save()
    parts = train.Run(TINY, "focal", 0.003, 1, tmp_path / "parts").train()
    assert {**whole, "seconds": 0} == {**parts, "seconds": 0} and len(whole["recall"]) == 3


def test_results_are_paired_and_not_repeated(tmp_path: pathlib.Path) -> None:
    study = dataclasses.replace(TINY, blocks=(config.Block(0.003, 2, FOUR),))
    rows = tmp_path / "runs.jsonl"
    for _ in range(2):
        train.run_all(study, tmp_path, rows)
    assert [(r["arm"], r["seed"]) for r in train.read_results(rows)] == [(a, s) for s in (1, 2) for a in FOUR]
    assert all(r["tokens"] is None for r in train.read_results(rows))  # six steps reach nothing
    assert "a run is censored" in analysis.tables(study, train.read_results(rows))


def test_recall_needs_two_evaluations_in_a_row(tmp_path: pathlib.Path) -> None:
    run = train.Run(TINY, "baseline", 0.003, 1, tmp_path)
    run.curve = [(10, 0.96, 0.0), (20, 0.90, 0.0), (30, 0.95, 0.0), (40, 0.99, 0.0)]
    assert run.emerged() == 30
    run.curve.pop()
    assert run.emerged() is None


def rows(effects: dict[str, float], seeds: int, noise: float) -> list[dict[str, Any]]:
    rng = np.random.default_rng(4)
    out = []
    for seed in range(1, seeds + 1):
        shared = rng.normal(0, 1.0)  # what pairing removes
        for arm, effect in effects.items():
            tokens = math.exp(13 + shared + effect + rng.normal(0, noise))
            out.append({"arm": arm, "learning_rate": 0.003, "seed": seed, "tokens": tokens, "seconds": 1.0})
    return out


def test_planted_effects_are_found() -> None:
    start, rate = math.log(0.9), math.log(0.5)
    made = rows({"baseline": 0, "init-only": start, "rate-only": rate, "focal": start + rate}, 8, 0.02)
    lines = {line.split("|")[1].strip(): line for line in analysis.tables(STUDY, made).splitlines() if line.startswith("|")}
    for name, truth, outcome in (("focal / baseline", 0.45, "fewer"), ("init-only / focal", 2.0, "more"), ("rate-only / focal", 1 / 0.9, "more, equivalent"),
                                 ("effect of W_q's rate", 0.5, ""), ("interaction", 1.0, "")):  # fmt: skip
        cells = [c.strip() for c in lines[name].split("|")[1:-1]]
        low, high = map(float, cells[2].split("(")[1].rstrip(")").split(" to "))
        assert low < truth < high and cells[7] == outcome, lines[name]


def test_an_extension_is_compared_with_the_baseline_of_its_seeds() -> None:
    made = rows({"baseline": 0, "focal": 0, "init-only": 0, "rate-only": 0}, 8, 0.02)
    made += rows({"tau-causal": math.log(0.5), "log-n": math.log(2)}, 3, 0.02)[:6]
    shared = {(r["seed"]): r["tokens"] for r in made if r["arm"] == "baseline"}
    for r in made:
        if r["arm"] in ("tau-causal", "log-n"):
            r["tokens"] = shared[r["seed"]] * (0.5 if r["arm"] == "tau-causal" else 2) * (1 + 0.01 * r["seed"])
    text = analysis.tables(STUDY, made).split("extension")[1]
    assert "| tau-causal / baseline | 3 | 0.51" in text and "| log-n / baseline | 3 | 2.04" in text
    assert "| baseline | 3 | 0 |" in text and "focal" not in text


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(6)
    inside = [r.low < 1 < r.high for r in (analysis.ratio(rng.normal(0, 0.3, 8)) for _ in range(600))]
    assert 0.92 < np.mean(inside) < 0.98


def test_holm_and_sign_flips_by_hand() -> None:
    assert analysis.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert analysis.sign_flips(np.array([1.0, 2.0, 3.0])) == 2 / 8
    assert analysis.sign_flips(np.array([1.0, -1.0])) == 1.0


def test_bad_studies_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="keys would repeat"):
        dataclasses.replace(STUDY, vocabulary=32)
    with pytest.raises(ValueError, match="must be the baseline"):
        config.Block(0.003, 2, FOUR[1:])
    with pytest.raises(ValueError, match="no arm 'typo'"):
        config.Block(0.003, 2, ("baseline", "typo"))
    path = tmp_path / "study.toml"
    path.write_text("typo = 1\n" + config.STUDY.read_text())
    with pytest.raises(ValueError, match="unknown keys: typo"):
        config.read(path)


def test_a_censored_contrast_has_a_bound_for_every_seed() -> None:
    made = rows({"baseline": 0, "init-only": 0, "rate-only": 0, "focal": 0}, 2, 0.0)
    for row in made:
        row["trained_tokens"], row["tokens"] = (4000, None) if row["arm"] == "focal" else (0, 1000 * row["seed"])
    lines = {line.split("|")[1].strip(): line for line in analysis.tables(STUDY, made).splitlines() if line.startswith("|")}
    assert "2 of 2 censored; 2.00 or more in every seed" in lines["focal / baseline"]
    assert "see the arms" in lines["rate-only / focal"] and "see the arms" in lines["interaction"]


def test_mass_is_that_of_the_rows_softmax() -> None:
    """The last row's weights, and its logits, are the model's own, for every kind of scale."""
    for arm in ("baseline", "focal", "tau-causal", "log-n"):
        net = make(ARMS[arm], train.shape(TINY), 2, structured=False)
        ids, place, gold = mass.questions(4, TINY.vocabulary)
        logits, weights = mass.last_row(net, ids)
        with torch.no_grad():
            assert torch.allclose(logits, net.logits(net.hidden(ids)[:, -1]), atol=1e-5)
        assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:3]))
        # The head's output is its weights times the values: the other way to the same numbers.
        block = net.blocks()[0]
        with torch.no_grad():
            normed = block.input_layernorm(net.embed_tokens(ids))
            v = block.self_attn.v_proj(normed).view(*ids.shape, TINY.heads, -1).transpose(1, 2)
            mine = block.self_attn.o_proj((weights[:, 0, :, None] @ v).flatten(1))
            assert torch.allclose(mine, block.self_attn(normed, *net.rope(ids.shape[1]))[:, -1], atol=1e-5)
        assert torch.equal(ids.gather(1, place[:, None])[:, 0], gold) and torch.equal(ids.gather(1, place[:, None] - 1)[:, 0], ids[:, -1])


def test_the_law_is_recovered_from_masses_that_follow_it() -> None:
    made = []
    for arm, gap in (("baseline", 3.0), ("focal", 5.0)):
        for seed in (1, 2, 3):
            for pairs in mass.PAIRS:
                odds = gap + 0.01 * seed - math.log(pairs - 1)
                made.append({"arm": arm, "seed": seed, "pairs": pairs, "accuracy": 1.0, "mass": 1 / (1 + math.exp(-odds)), "log_odds": odds})
    assert mass.slope(made[:6]) == pytest.approx(-1)
    text = mass.tables(made)
    assert "| baseline | 16 | 3 | 1.000 | 0.577 | 3.02 |" in text and "| focal | -1.00 (-1.00 to -1.00) | 5.02 | +2.00 (+2.00 to +2.00) |" in text
    # The law's dashed line passes through masses that follow it.
    paths = [n.attrib["points"].split() for n in ElementTree.fromstring(mass.figure(made)).iter() if n.tag.endswith("polyline")]
    assert len(paths) == 4
    for measured, law in (paths[:2], paths[2:]):
        assert all(abs(float(a.split(",")[1]) - float(b.split(",")[1])) <= 0.11 for a, b in zip(measured, law))


def test_ticks_are_round_and_inside() -> None:
    assert chart.ticks(-0.037, 0.021) == [-0.03, -0.02, -0.01, 0.0, 0.01, 0.02] and chart.ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert "a &lt; b" in chart.lines("a < b", "x", "y", [chart.Series("s", [chart.Point(1, 2)])])
    with pytest.raises(ValueError, match="needs a point"):
        chart.lines("", "", "", [])


def test_models_are_asked_after_equal_training(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mass, "SEEDS", (1,))
    monkeypatch.setattr(mass, "PAIRS", (2, 4, 8))
    rows_file = tmp_path / "mass.jsonl"
    for _ in range(2):
        mass.run_all(dataclasses.replace(TINY, threshold=0.0), tmp_path, rows_file)
    found = train.read_results(rows_file)
    assert [(r["arm"], r["pairs"]) for r in found] == [(a, p) for a in mass.ARMS for p in (2, 4, 8)]
    assert all(r["steps"] == TINY.steps_max and 0 <= r["mass"] <= 1 for r in found)
    with pytest.raises(ValueError, match="there are 16"):
        mass.questions(17, 32)
