"""The product asks a finished stage's checkpoints, and nothing of an unfinished one."""

import csv
import dataclasses
import os
import pathlib
import shutil
import subprocess

import pytest

from llama.llama_test import ROOT, VARIFOCAL
from scaling import data, plan, product, train
from scaling.scaling_test import TINY, rows_of, write_corpus

STUDY = dataclasses.replace(TINY, vocabulary=2023)


@pytest.fixture
def cache(tmp_path: pathlib.Path) -> pathlib.Path:
    """Checkpoints without training."""
    corpus = data.Corpus(write_corpus(tmp_path / "corpus"))
    shutil.copy(ROOT / "models/baseline/tokenizer.json", tmp_path / "corpus")
    for planned in plan.stage_runs(STUDY, STUDY.stages[1], plan.by_key(rows_of(STUDY, {}, 2))):
        assert planned.job is not None
        one = train.Run(STUDY, planned.job, corpus, tmp_path / "runs/0")
        for millions in planned.job.millions:
            one.export(millions)
    return tmp_path


def test_an_unfinished_stage_is_not_looked_at(cache: pathlib.Path) -> None:
    rows = rows_of(STUDY, {}, 2)
    for kept, stage, words in ((rows[:-1], "1", "5 of 6 runs"), (rows, "9", "no stage '9' but 1, rates; 1")):
        with pytest.raises(ValueError, match=words):
            product.prepare(STUDY, kept, stage, cache, cache / "out")
    assert not (cache / "out").exists()


def test_the_baseline_of_an_earlier_stage_is_asked_beside_a_later_one(tmp_path: pathlib.Path) -> None:
    first = STUDY.stages[1]
    later = dataclasses.replace(first, name="2", arms=("focal-preserving",), seeds=(1,))
    other = dataclasses.replace(later, name="3", millions=(2,))
    study = dataclasses.replace(STUDY, stages=(*STUDY.stages, later, other))
    found = product.jobs(study, rows_of(study, {}, 4), "2")
    assert {(job.arm, job.seed) for job in found} == {(arm, 1) for arm in ("baseline", "focal-preserving")}
    with pytest.raises(ValueError, match="stage '3' has no baseline with the same checkpoints"):
        product.jobs(study, rows_of(study, {}, 4), "3")


@pytest.mark.skipif(not VARIFOCAL.exists(), reason=f"{VARIFOCAL} is not built")
def test_the_product_draws_every_arm_against_tokens(cache: pathlib.Path) -> None:
    out = cache / "my stage"
    commands = " && ".join(product.prepare(STUDY, rows_of(STUDY, {}, 2), "1", cache, out))
    environment = os.environ | {"PATH": f"{VARIFOCAL.parent}:{os.environ['PATH']}"}
    said = subprocess.run(["bash", "-c", commands], env=environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    with (out / "figures/tokens-Loss-at-512.csv").open() as lines:
        points = {(row["series"], float(row["x"])) for row in csv.DictReader(lines)}
    assert points == {(arm, m * STUDY.million) for arm in STUDY.stages[1].arms for m in (1, 2)}
