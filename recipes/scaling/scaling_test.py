"""The arms are what their names promise on text, runs resume bit for bit, plans fit their budgets, and nothing is printed early."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch

from emergence.train import read_results
from llama import model
from llama.arms import ARMS, T, Arm
from scaling import config, data, plan, report, run, train
from scaling.config import WINDOW

torch.set_num_threads(1)
STUDY = config.read()
TINY = dataclasses.replace(
    STUDY, vocabulary=32, head_dim=8, reference_width=16, tokens_per_step=WINDOW, million=10 * WINDOW, warmup=3, rates=(0.001, 0.003, 0.009), below=0.0005,
    above=0.02, evaluation_documents=2, evaluation_tokens=WINDOW, bf16=False,
    sizes=(config.Size("1M", 16, 32, 1), config.Size("3M", 32, 32, 1)),
    stages=(dataclasses.replace(STUDY.stages[0], millions=(1,)), dataclasses.replace(STUDY.stages[1], seeds=(1, 2), millions=(1, 2))))  # fmt: skip
JOB = train.Job("focal", "1M", 512, 0.003, 1, (1, 2))


def write_corpus(folder: pathlib.Path) -> pathlib.Path:
    rng = np.random.default_rng(5)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "train.npy", rng.integers(0, 32, 3 * data.GROUP * WINDOW + 1).astype(np.uint16))
    np.save(folder / "held_out.npy", rng.integers(0, 32, 3 * WINDOW + 3 + 100).astype(np.uint16))
    np.save(folder / "starts.npy", np.array([0, WINDOW + 1, WINDOW + 101, 2 * WINDOW + 102, 3 * WINDOW + 103]))
    return folder


@pytest.fixture
def corpus(tmp_path: pathlib.Path) -> data.Corpus:
    return data.Corpus(write_corpus(tmp_path / "corpus"))


# W_q's start is multiplied in float64 here: float32 would round it. Epsilon would have to be divided by t as well, so it is almost zero.
def losses(arm: Arm, corpus: data.Corpus, path: pathlib.Path, q_start: float = 1.0, steps: int = 20) -> np.ndarray:
    job = dataclasses.replace(JOB, arm="unnamed")
    one = train.Run(TINY, job, corpus, path, recipe=arm)
    one.net.double()
    for group in one.optimizer.param_groups:
        group["eps"] = 1e-30
    with torch.no_grad():
        for block in one.net.blocks():
            block.self_attn.q_proj.weight *= q_start
    return np.array([one.one_step() for _ in range(steps)])


def test_constant_t_is_the_baseline_with_start_and_rate_of_queries_divided_by_t(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    focal = losses(ARMS["focal"], corpus, tmp_path)
    assert np.abs(losses(Arm(q_rate=1 / T), corpus, tmp_path, q_start=1 / T) - focal).max() < 1e-9
    preserving = losses(ARMS["focal"], corpus, tmp_path, q_start=T)
    assert np.abs(losses(ARMS["rate-only"], corpus, tmp_path) - preserving).max() < 1e-9
    others = [losses(ARMS["baseline"], corpus, tmp_path), losses(ARMS["baseline"], corpus, tmp_path, q_start=1 / T), preserving]
    for other in others:
        assert np.abs(other - focal).max() > 1e-6


def test_steps_see_the_same_tokens_at_every_context(corpus: data.Corpus) -> None:
    study = dataclasses.replace(TINY, tokens_per_step=2048)
    per_group = data.GROUP * WINDOW // study.tokens_per_step
    for group in range(4):  # the fourth is of the second epoch
        seen = []
        for context in (512, 1024, 2048):
            batches = [corpus.batch(study, 7, group * per_group + i, context) for i in range(per_group)]
            assert all(b.shape == (2048 // context, context + 1) for b in batches)
            seen.append(np.sort(torch.cat([b[:, :-1].flatten() for b in batches]).numpy()))
        assert all(np.array_equal(seen[0], s) for s in seen)
    first = [np.sort(corpus.windows(7, e)) for e in (0, 1)]
    assert all(np.array_equal(w, np.arange(3 * data.GROUP)) for w in first)
    assert not np.array_equal(corpus.windows(7, 0), corpus.windows(8, 0))
    row = corpus.batch(study, 7, 0, 512)
    at = corpus.windows(7, 0)[:4] * WINDOW
    assert np.array_equal(row.numpy(), np.stack([corpus.train[a : a + 513] for a in at]))


def test_rates_of_trunk_and_branches(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    one = train.Run(TINY, JOB, corpus, tmp_path)
    assert [TINY.steps(1), TINY.branch_step(1), TINY.branch_step(2)] == [10, 8, 16]
    shares: list[tuple[int, int | None, float]] = []
    whole = one.share
    one.share = lambda: shares.append((one.step, one.branch, round(whole(), 3))) or whole()  # type: ignore[method-assign, func-returns-value]
    one.train()
    trunk = [(s, x) for s, b, x in shares if b is None]
    assert trunk == [(0, 0.333), (1, 0.667)] + [(s, 1.0) for s in range(2, 16)]
    assert [(s, x) for s, b, x in shares if b == 2] == [(16, 1.0), (17, 0.75), (18, 0.5), (19, 0.25)]


def test_a_branch_is_a_run_of_its_own(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    """A run with the later checkpoint alone has the same one."""
    both = train.Run(TINY, JOB, corpus, tmp_path / "both").train()
    alone = train.Run(TINY, dataclasses.replace(JOB, millions=(2,)), corpus, tmp_path / "alone").train()
    assert both["loss"][1] == alone["loss"][0] and both["by_document"][1] == alone["by_document"][0]


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return {**a, "seconds": 0} == {**b, "seconds": 0}


@pytest.mark.parametrize("at", (2, 8, 9, 13, 20))
def test_a_run_that_is_stopped_anywhere_has_the_same_row(corpus: data.Corpus, tmp_path: pathlib.Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trunk, first branch, trunk again and second branch; steps count over all of them."""
    whole = train.Run(TINY, JOB, corpus, tmp_path / "whole").train()
    monkeypatch.setattr(train, "SAVE_SECONDS", -1.0)  # at every step
    one, steps = train.Run(TINY, JOB, corpus, tmp_path / "parts"), 0
    step = one.one_step

    def killed() -> float:
        nonlocal steps
        if (steps := steps + 1) > at:
            raise KeyboardInterrupt
        return step()

    one.one_step = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        one.train()
    resumed = train.Run(TINY, JOB, corpus, tmp_path / "parts")
    assert resumed.step > 0
    assert same(resumed.train(), whole)
    assert same(train.Run(TINY, JOB, corpus, tmp_path / "parts").train(), whole)  # a row that was lost is written again


def test_an_adaptation_is_its_start_until_it_changes(corpus: data.Corpus, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = dataclasses.replace(TINY, adaptations=(config.Adaptation("adapted", "baseline", "focal", 1),))
    job = dataclasses.replace(JOB, arm="adapted", millions=(2,))

    def losses_of(arm: str) -> list[float]:
        one = train.Run(study, dataclasses.replace(job, arm=arm), corpus, tmp_path / f"{arm}-losses")
        return [one.one_step() for _ in range(13)]

    adapted, baseline = losses_of("adapted"), losses_of("baseline")
    assert adapted[:10] == baseline[:10] and adapted[10] != baseline[10]
    whole = train.Run(study, job, corpus, tmp_path / "whole").train()
    monkeypatch.setattr(train, "SAVE_SECONDS", -1.0)
    for at in (10, 11, 18):  # before and after the change, and in the branch
        with pytest.raises(train.OutOfTime):
            one = train.Run(study, job, corpus, tmp_path / f"{at}")
            step, left = one.one_step, at

            def counted() -> float:
                nonlocal left
                if left == 0:
                    one.save()
                    raise train.OutOfTime
                left -= 1
                return step()

            one.one_step = counted  # type: ignore[method-assign]
            one.train()
        assert same(train.Run(study, job, corpus, tmp_path / f"{at}").train(), whole)
    exported = json.loads((tmp_path / "whole/exports/adapted-1M-512-0.003-1-2M/config.json").read_text())
    assert exported["focal_attention"]["temperature"] == T
    with pytest.raises(ValueError, match="after its first branch"):
        dataclasses.replace(study, stages=(dataclasses.replace(TINY.stages[1], arms=("adapted",)),))
    with pytest.raises(ValueError, match="constant temperature"):
        config.Adaptation("x", "baseline", "tau-causal", 1)


def test_a_longer_job_continues_the_trunk(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    short = dataclasses.replace(JOB, millions=(1,))
    train.Run(TINY, short, corpus, tmp_path / "a").train()
    longer = train.Run(TINY, JOB, corpus, tmp_path / "a").train()
    assert same(longer, train.Run(TINY, JOB, corpus, tmp_path / "b").train())
    with pytest.raises(ValueError, match="trunk is past the branch to 1 M"):
        one = train.Run(TINY, JOB, corpus, tmp_path / "c")
        one.step = 9
        one.train()


STUDY_FILE = """
vocabulary = 32
head_dim = 8
rope_theta = 1e4
reference_width = 16
tokens_per_step = 4096
million = 81920
warmup = 3
decay = 0.2
rates = [0.001, 0.003]
below = 0.0005
above = 0.02
evaluation_documents = 2
evaluation_tokens = 4096
bf16 = true
sizes = [{name = "s", hidden = 16, intermediate = 32, layers = 1}]
stages = [{name = "a", arms = ["baseline", "focal"], sizes = ["s"], contexts = [512], seeds = [9], millions = [1], selects = true},
          {name = "b", arms = ["baseline", "focal"], sizes = ["s"], contexts = [512], seeds = [1], millions = [1, 2]}]
"""


def test_a_killed_process_resumes_to_the_same_rows(tmp_path: pathlib.Path) -> None:
    """SIGKILL at whatever step it is, until the grid is finished; against one that was left alone."""
    (tmp_path / "study.toml").write_text(STUDY_FILE)
    found = []
    for name, deaths in (("alone", 0), ("killed", 3)):
        write_corpus(tmp_path / name / "corpus")
        command = [sys.executable, "-c", "from scaling import train; train.SAVE_SECONDS = 0.05\nfrom scaling.__main__ import main; raise SystemExit(main())", "run",
                   "--config", str(tmp_path / "study.toml"), "--cache", str(tmp_path / name), "--results", str(tmp_path / name / "rows.jsonl"),
                   "--budget=10m", "--unchecked"]  # fmt: skip
        for _ in range(deaths):
            process = subprocess.Popen(command, cwd=pathlib.Path(train.__file__).parents[1], stdout=subprocess.DEVNULL)
            before = {p: p.stat().st_mtime_ns for p in (tmp_path / name).glob("runs/*/*.pt")}
            while process.poll() is None and {p: p.stat().st_mtime_ns for p in (tmp_path / name).glob("runs/*/*.pt")} == before:
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        subprocess.run(command, cwd=pathlib.Path(train.__file__).parents[1], check=True, stdout=subprocess.DEVNULL)
        rows = read_results(tmp_path / name / "rows.jsonl")
        found.append({train.key_of(r): {**r, "seconds": 0} for r in rows})
        assert len(rows) == len(found[-1]) >= 6
    assert found[0] == found[1]


def test_states_are_of_one_recipe_and_corpus(tmp_path: pathlib.Path) -> None:
    def folder(corpus: str = "c", **changes: Any) -> pathlib.Path:
        return run.states_of(dataclasses.replace(STUDY, **changes), corpus, tmp_path)

    assert folder() == folder(stages=(), rates=(0.001, 0.002)) and folder() != folder("d") and folder() != folder(warmup=7)


def test_a_deadline_saves_and_stops(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    one = train.Run(TINY, JOB, corpus, tmp_path)
    one.one_step()
    with pytest.raises(train.OutOfTime):
        one.train(deadline=time.monotonic() - 1)
    assert train.Run(TINY, JOB, corpus, tmp_path).step == 1


def test_losses_by_position_and_document_have_the_same_mean(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    found = train.Run(TINY, JOB, corpus, tmp_path).evaluate()
    at = train.edges(512)
    widths = np.diff(at)
    assert at == [0, 8, 16, 32, 64, 128, 256, 512] and train.edges(24) == [0, 8, 16, 24]
    assert found["loss"] == pytest.approx(float(np.dot(widths, found["by_position"]) / 512), abs=1e-4)
    assert found["loss"] == pytest.approx(float(np.mean(found["by_document"])), abs=1e-4)
    assert len(found["by_document"]) == TINY.evaluation_documents


def test_rates_are_chosen_on_other_documents_than_the_endpoint(corpus: data.Corpus) -> None:
    first, second = corpus.evaluated(TINY, 1), corpus.evaluated(TINY, 101)
    long = [corpus.held_out[s : s + WINDOW + 1] for s in (0, WINDOW + 101, 2 * WINDOW + 102)]
    assert np.array_equal(first, np.stack(long[:2])) and np.array_equal(second, np.stack(long[2:]))
    with pytest.raises(ValueError, match="3 held-out documents have 4097 tokens"):
        corpus.evaluated(dataclasses.replace(TINY, evaluation_documents=3), 1)
    with pytest.raises(ValueError, match="chosen on one of its seeds"):
        dataclasses.replace(STUDY, stages=(STUDY.stages[0], dataclasses.replace(STUDY.stages[1], seeds=(101,))))


def test_exports_are_what_the_product_loads(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    one = train.Run(TINY, JOB, corpus, tmp_path)
    row = one.train()
    folder = tmp_path / "exports/focal-1M-512-0.003-1-2M"
    raw = json.loads((folder / "config.json").read_text())
    assert raw["focal_attention"] == {"mode": "constant", "temperature": T}
    assert raw["training"] == {"tokens": 20 * WINDOW, "seed": 1, "context_length": 512, "arm": "focal"}
    assert raw["training"]["context_length"] == raw["trained_context_length"]
    again = train.Run(TINY, dataclasses.replace(JOB, seed=2), corpus, tmp_path)
    again.net.load_state_dict(model.load(folder).state_dict())
    assert again.evaluate()["loss"] == row["loss"][1]


def test_a_run_is_repeated(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    row = train.Run(TINY, JOB, corpus, tmp_path).train()
    assert run.repeated(TINY, [row], JOB.name, corpus) == [0.0, 0.0]
    changed = row | {"loss": [row["loss"][0] - 0.25, row["loss"][1]]}
    assert run.repeated(TINY, [changed], JOB.name, corpus) == [0.25, 0.0]
    with pytest.raises(ValueError, match="no finished run x"):
        run.repeated(TINY, [row], "x", corpus)


def rows_of(study: config.Study, best: dict[str, float], stages: int) -> list[dict[str, Any]]:
    """As if all runs of the first stages were finished; loss rises with the distance from the arm's best rate."""
    found: list[dict[str, Any]] = []
    for _ in range(10):
        for planned in plan.runs(study, found):
            job = planned.job
            if job is None or planned.stage not in study.stages[:stages] or job.key in plan.by_key(found):
                continue
            base = 4 + abs(np.log(job.rate / best.get(job.arm, 0.004))) + 0.01 * (job.arm == "focal") + 0.001 * job.seed
            losses = [base * m**-0.05 for m in job.millions]
            found.append({"arm": job.arm, "size": job.size, "context": job.context, "rate": job.rate, "seed": job.seed, "millions": list(job.millions),
                          "device": "cpu", "parameters": 1000, "loss": losses, "by_position": [[x] * 7 for x in losses]})  # fmt: skip
    return found


def test_rates_are_chosen_by_arm_with_one_beyond_an_edge() -> None:
    rows = rows_of(STUDY, {"focal": 0.0006, "rate-only": 0.012}, 1)
    done = plan.by_key(rows)
    assert [plan.chosen(STUDY, done, a) for a in ("baseline", "focal", "rate-only", "focal-preserving", "log-n")] == [0.004, 0.0006, 0.01, 0.01, None]
    # 3 arms at 3 rates, and 2 at one more each, with two seeds.
    assert plan.count(STUDY, rows, "1, rates") == (22, 22)
    fewer = [r for r in rows if not (r["arm"] == "focal" and r["rate"] == 0.0006 and r["seed"] == 102)]
    assert plan.chosen(STUDY, plan.by_key(fewer), "focal") is None
    diverged = [{**r, "loss": [float("nan")]} if (r["arm"], r["rate"], r["seed"]) == ("baseline", 0.004, 101) else r for r in rows]
    assert plan.lowest(STUDY.stages[0], plan.by_key(diverged), "baseline", STUDY.rates) in (0.0015, 0.01)


def test_runs_are_paired_and_most_informative_first() -> None:
    rows = rows_of(STUDY, {}, 1)
    left = plan.missing(STUDY, rows)
    assert [(j.arm, j.seed) for j in left[:6]] == [(a, s) for s in (1, 2) for a in ("baseline", "focal", "rate-only")]
    assert {(j.size, j.context) for j in left[:15]} == {("1M", 512)}
    # All have the baseline's rate here, so that there is nothing more to run at it.
    assert not any(p.stage.shared_rate for p in plan.runs(STUDY, rows))
    assert plan.missing(STUDY, rows, cuda=True)[0].size == "8M"
    assert plan.missing(STUDY, [], cuda=True)[0].seed == 101


def test_a_plan_fits_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = (config.Speed("AVX2", "1M", 512, 4000), config.Speed("AVX-512", "1M", 512, 8000), config.Speed("H100", "8M", 512, 400_000, True))
    study = dataclasses.replace(STUDY, speeds=speeds)
    first = plan.runs(study, [])[0]
    cost = plan.minutes(study, "AVX-512", first)
    assert cost is not None and cost == pytest.approx((2e6 + 64 * 4096 / 2) / 8000 / 60, rel=1e-3)
    assert plan.minutes(study, "AVX2", first) == pytest.approx(2 * cost)
    assert plan.tokens(study, (1, 2, 4, 8)) == pytest.approx(9.4e6, rel=1e-3)
    for machine, fitting in (("AVX-512", 3), ("AVX2", 1)):
        monkeypatch.setattr(plan, "machine_of", lambda device: machine if device == "cpu" else "H100")
        minutes = plan.minutes(study, machine, first) or 0
        text = plan.table(study, [], 60 * 3.2 * cost, "cpu")
        assert f"- {fitting} of stage 1, rates: {fitting * minutes:.1f} minutes" in text, text
        rest = 3.2 * cost - fitting * minutes
        assert f"- and {rest:.0f} minutes of" in text and "nothing is left" not in text
    on_gpu = plan.table(study, rows_of(STUDY, {}, 1), 900, "cuda:0")
    assert "~" in on_gpu and "- 9 of stage 3, 8M" in on_gpu
    assert "nothing is left" in plan.table(study, rows_of(STUDY, {}, len(STUDY.stages)), 900, "cpu")
    assert [plan.seconds(b) for b in ("90s", "15m", "2h", "0.5h")] == [90, 900, 7200, 1800]
    for wrong in ("15", "m", "-1m", "0s", "1d"):
        with pytest.raises(ValueError, match="budget is"):
            plan.seconds(wrong)


def test_no_loss_is_printed_before_stage_1_is_finished() -> None:
    rows = rows_of(STUDY, {}, 2)
    early = report.tables(STUDY, rows[:-1])
    assert "Losses and contrasts are printed when" in early and "nats" not in early
    text = report.tables(STUDY, rows)
    assert "| focal / baseline | 5 |" in text and "### Parameters" not in text
    line = next(x for x in text.splitlines() if x.startswith("| focal / baseline"))
    # The loss is 0.25 % higher, the exponent 0.05: 5 % more tokens.
    assert "| 1.05" in line and "more, equivalent" in line


def test_later_stages_have_their_tables_when_finished() -> None:
    rows = rows_of(STUDY, {}, len(STUDY.stages))
    assert all(plan.count(STUDY, rows, s.name)[0] == plan.count(STUDY, rows, s.name)[1] for s in STUDY.stages)
    text = report.tables(STUDY, rows)
    for words in ("### Stage 2, contexts: 1M, context 2048", "### Parameters", "### Contexts", "focal-adapted minus focal (primary)", "parameters at 8 M tokens, sizes 1M, 3M, 8M"):
        assert words in text, words
    fewer = [r for r in rows if not (r["context"] == 2048 and r["seed"] == 2)]
    assert "context 2048" not in report.tables(STUDY, fewer) and "### Contexts" not in report.tables(STUDY, fewer)


def test_slopes_over_contexts_are_of_each_arm_at_its_own_rate() -> None:
    rows = rows_of(STUDY, {"focal": 0.0015}, len(STUDY.stages))
    assert plan.count(STUDY, rows, "2, at the baseline's rate") == (6, 6)
    for row in rows:
        if row["arm"] == "focal" and row["context"] > 512:
            row["loss"] = [x * 1.002 ** np.log2(row["context"] / 512) for x in row["loss"]]
    found = "\n".join("\n".join(lines) for lines in report.contexts(STUDY, rows))
    line = next(x for x in found.splitlines() if x.startswith("| focal"))
    assert float(line.split("|")[3].split()[0]) == pytest.approx(np.log(1.002) / 0.05, abs=1e-3)  # the exponent of rows_of is 0.05


def test_a_state_resumes_on_the_device_where_it_was_begun(corpus: data.Corpus, tmp_path: pathlib.Path) -> None:
    one = train.Run(TINY, JOB, corpus, tmp_path)
    one.save()
    state = torch.load(one.file, weights_only=True)
    assert state.pop("device") == "cpu"
    torch.save(state, one.file)  # as states were before
    assert train.Run(TINY, JOB, corpus, tmp_path).step == 0
    torch.save(state | {"device": "cuda"}, one.file)
    with pytest.raises(ValueError, match="focal-1M-512-0.003-1 was begun on cuda and resumes there alone, not on cpu"):
        train.Run(TINY, JOB, corpus, tmp_path)


def test_arms_of_a_seed_run_on_one_device(tmp_path: pathlib.Path) -> None:
    other = dataclasses.replace(JOB, arm="baseline", rate=0.009)
    assert run.device_of(tmp_path, [], JOB, "cuda") == "cuda" == run.device_of(tmp_path, [], other, "cpu")
    assert run.device_of(tmp_path, [], dataclasses.replace(JOB, seed=11), "cpu") == "cpu"
    (tmp_path / "baseline-1M-1024-0.003-1.lock").touch()  # of a run that was begun before cells had devices
    assert run.device_of(tmp_path, [], dataclasses.replace(JOB, context=1024), "cuda") == "cpu"
    assert run.device_of(tmp_path, [], dataclasses.replace(JOB, context=2048), "cuda") == "cuda"
    row = {"size": "3M", "context": 512, "seed": 1, "device": "cuda"}
    assert run.device_of(tmp_path, [row], dataclasses.replace(JOB, size="3M"), "cpu") == "cuda"
    with pytest.raises(ValueError, match="size 3M, context 512, seed 1 has rows of cuda and of cpu"):
        plan.devices([row, {**row, "device": "cpu"}])
    rows = rows_of(STUDY, {}, 2)
    rows[-1]["device"] = "cuda"
    with pytest.raises(ValueError, match="seed 5 has rows of cpu and of cuda"):
        report.tables(STUDY, rows)


def test_runs_of_another_device_are_left_to_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY_FILE)
    write_corpus(tmp_path / "corpus")
    states = run.states_of(config.read(tmp_path / "study.toml"), "", tmp_path)
    states.mkdir(parents=True)
    (states / "s-512-9.device").write_text("cuda")
    with pytest.raises(ValueError, match="the 4 runs that can start are of seeds begun on another device, the first baseline-s-512-0.001-9 on cuda; this is cpu"):
        run.run_all(tmp_path / "study.toml", tmp_path, tmp_path / "rows.jsonl", 60, "cpu", 1, checked=False)
    assert read_results(tmp_path / "rows.jsonl") == []
    rows = rows_of(STUDY, {}, 1)
    on_gpu = plan.table(STUDY, [*rows, {**rows[0], "seed": 1, "millions": [1, 2, 4, 8]}], 1e9, "cuda:0")
    # 18 for the rates of the other arms, whose seeds have rows of the CPU; of seed 1 the three arms, focal-preserving and the adaptation.
    assert "- 23 before that are of seeds that have rows of another device" in on_gpu


def test_focal_preserving_is_compared_with_rate_only_of_stage_1() -> None:
    rows = rows_of(STUDY, {}, len(STUDY.stages))
    for row in rows:
        if row["arm"] == "focal-preserving":
            row["loss"] = [x * 1.001 for x in row["loss"]]
    found = report.tables(STUDY, rows).split("### Stage 2, the other arms")[1].split("###")[0]
    lines = [x for x in found.splitlines() if x.startswith("| focal-preserving / rate-only | 3 | 1.020")]
    assert len(lines) == 1 and "| more, equivalent |" in lines[0] and lines[0].split("|")[5].strip() == ""  # no Holm
    assert "| rate-only / baseline |" not in found and "| rate-only | 0.004 | 3 | 0 |" in found


def test_adaptation_has_outcomes() -> None:
    rows = rows_of(STUDY, {}, len(STUDY.stages))

    def outcome(*gaps: float) -> list[str]:
        whole = {(r["arm"], r["seed"]): r["loss"][-1] for r in rows if r["millions"] == [1, 2, 4, 8] and (r["size"], r["context"]) == ("1M", 512)}
        changed = [{**r, "loss": [whole["focal", r["seed"]] + gaps[r["seed"] - 1]]} if r["arm"] == "focal-adapted" else r for r in rows]
        text = report.tables(STUDY, changed).split("### Stage 2, adaptation")[1].split("###")[0]
        return [x.split("|")[4].strip() for x in text.splitlines() if x.startswith("| focal-adapted minus")]

    assert outcome(0.10, 0.11, 0.12) == ["worse", "worse"] and outcome(-0.10, -0.11, -0.12) == ["better", "better"]
    assert outcome(-0.001, 0.0, 0.001) == ["undecided", "worse"]  # rows_of gives focal 0.01 more than the baseline
    assert outcome(-0.10, -0.11, float("nan")) == ["undecided", "undecided"]


def test_runs_that_diverged_are_counted() -> None:
    rows = rows_of(STUDY, {}, 2)
    for row in rows:
        if (row["arm"], row["seed"]) == ("focal", 2):
            row["loss"] = row["loss"][:2] + [float("nan")] * 2
            row["by_position"] = row["by_position"][:2] + [[float("nan")] * 7] * 2
        if (row["arm"], row["rate"], row["seed"]) == ("focal", 0.01, 101):
            row["loss"] = [float("nan")]
    text = report.tables(STUDY, rows)
    assert "nan" not in text and "| focal | 0.004 | 5 | 1 |" in text and "| baseline | 0.004 | 5 | 0 |" in text
    line = next(x for x in text.splitlines() if x.startswith("| focal | 0.004 | 5 | 1 |"))
    assert [("diverged" in x) for x in line.split("|")[5:-1]] == [False, False, True, True] and "1 of 5 diverged" in line
    line = next(x for x in text.splitlines() if x.startswith("| focal / baseline"))
    assert line.endswith("| undecided | a run diverged |") and "unknown" in line
    assert "1 of 2 diverged" in next(x for x in text.splitlines() if x.startswith("| focal | 0.0015: "))


def test_bad_settings_are_refused() -> None:
    for changes, words in (({"rates": (0.004, 0.001)}, "ascend"), ({"decay": 1.0}, "decay"), ({"tokens_per_step": 3000}, "tokens_per_step")):
        with pytest.raises(ValueError, match=words):
            dataclasses.replace(STUDY, **changes)
    with pytest.raises(ValueError, match="no size '2M'"):
        STUDY.size("2M")
    with pytest.raises(ValueError, match="must divide"):
        dataclasses.replace(STUDY.stages[0], contexts=(700,))
