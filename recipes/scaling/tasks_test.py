"""The task training is the same for all arms, asks the same questions, and its table waits for all runs."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest
import torch

from llama import data
from llama.arms import make, named
from scaling import config, corpus, tasks, train
from scaling.tasks import AT

torch.set_num_threads(1)
STUDY = config.read()


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> tasks.Words:
    """A tokenizer of a text in which 160 words are frequent, bare and after a space."""
    letters = "abcdefghijklmnop"
    made = [a + b + c for a in letters for b in "xyz" for c in "aeiou"][:160]
    lines = [f'{w}" {w} = {i % 10} @,@{w}@:@{w}@]\n\n- {w} = {i % 10}\n{w}' for i, w in enumerate(made)]
    text = "\n".join(lines).replace("@", '"').replace("]", "}") + "\n"
    doc = corpus.Document("0" * 64, "p", "prose", text * 3)
    path = tmp_path_factory.mktemp("words") / "tokenizer.json"
    corpus.train_tokenizer([doc], 1000).save(str(path))
    return tasks.Words(path)


def test_words_are_single_tokens_in_two_halves(words: tasks.Words) -> None:
    assert min(len(words.first), len(words.second)) >= 40 and not set(words.first) & set(words.second)
    for bare, spaced in ((words.first, words.first_sp), (words.second, words.second_sp)):
        for b, s in zip(bare, spaced):
            assert words.tokenizer.decode([int(s)]).strip() == words.tokenizer.decode([int(b)])


def test_questions_are_the_same_and_held_out(words: tasks.Words) -> None:
    one, two = tasks.questions(words, 256), tasks.questions(words, 256)
    for task in tasks.TASKS:
        assert torch.equal(one[task].ids, two[task].ids) and one[task].marks.any() and one[task].ids.shape == (tasks.ROWS, 256)
    first = data.batch(words, 1, 0, 4, 256, {t: 1.0 for t in tasks.TASKS})[0]
    assert not any(np.array_equal(r, q) for r in first for t in tasks.TASKS for q in one[t].ids.numpy())


@pytest.mark.parametrize("arm", ("baseline", "focal", "tau-causal", "log-n"))
def test_an_export_is_trained_and_asked(words: tasks.Words, tmp_path: pathlib.Path, arm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CONTEXT", 256)
    monkeypatch.setattr(tasks, "ROWS", 4)
    study = dataclasses.replace(STUDY, vocabulary=1000, head_dim=8, reference_width=16, tokens_per_step=1024, bf16=False, sizes=(config.Size("s", 16, 32, 1),), stages=())
    job = train.Job(arm, "s", 256, 0.01, 1, (8,))
    net = make(named(arm), study.shape("s", 256), 1, structured=False)
    net.save(tmp_path)
    row = tasks.trained(study, job, tmp_path, words, steps=40, at=(0, 40))
    assert row == {**tasks.trained(study, job, tmp_path, words, steps=40, at=(0, 40)), "seconds": row["seconds"]}
    assert set(row["scores"]) == {f"{t}-{n}" for t in tasks.TASKS for n in (256, 512)}
    assert all(after[0] > before[0] for before, after in row["scores"].values())  # it learns what an answer looks like
    before = tasks.asked(net, tasks.questions(words, 256)["recall_kv"])
    assert row["scores"]["recall_kv-256"][0] == [round(x, 4) for x in before]


def rows(gain: float) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    out = []
    for seed in STUDY.stages[1].seeds:
        for arm in tasks.ARMS:
            last = -1 + gain * (arm == "focal") + rng.normal(0, 0.01)
            scores = {f"{t}-{n}": [[-5.0, 0.0]] * (len(AT) - 1) + [[last, 0.5]] for n in (512, 1024) for t in tasks.TASKS}
            out.append({"arm": arm, "size": "1M", "context": 512, "rate": 0.004, "seed": seed, "millions": [1, 2, 4, 8], "steps": list(AT), "scores": scores})
    return out


def test_the_table_waits_for_all_runs_and_finds_a_difference() -> None:
    found = rows(-0.5)
    assert tasks.table(STUDY, found[:-1]) == "tasks: 14 of 15 runs; tables when all are finished\n"
    line = next(x for x in tasks.table(STUDY, found).splitlines() if x.startswith("| recall_kv-512 | focal |"))
    assert "-0.5" in line and "< 0.0001" in line


def test_finished_runs_of_stage_1_are_wanted_once() -> None:
    done = [{"arm": a, "size": "1M", "context": 512, "rate": r, "seed": s, "millions": [2], "loss": [4 + abs(r - 0.004)]}
            for a in tasks.ARMS for r in STUDY.rates for s in (101, 102)]  # fmt: skip
    done += [{"arm": a, "size": "1M", "context": 512, "rate": 0.004, "seed": 1, "millions": [1, 2, 4, 8], "loss": [4, 3, 2, 1]} for a in ("baseline", "focal")]
    assert [j.arm for j in tasks.wanted(STUDY, done, [])] == ["baseline", "focal"]
    assert [j.arm for j in tasks.wanted(STUDY, done, [r for r in rows(0.0) if r["arm"] == "baseline"])] == ["focal"]
