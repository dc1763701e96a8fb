"""A pair of arms trains side by side and is compared by the product; a wrong plan is one sentence and exit code 2."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from llama import pair, run
from llama.llama_test import ROOT, TINY_PLAN, VARIFOCAL

RECIPES = ROOT / "recipes"


def llama(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "llama", *map(str, arguments)], cwd=RECIPES, capture_output=True, text=True)


@pytest.fixture
def plan(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "plan.toml").write_text(TINY_PLAN)
    return tmp_path / "plan.toml"


def test_two_arms_are_trained_and_the_same_command_resumes(plan: pathlib.Path) -> None:
    out = plan.parent / "my pair"
    for _ in range(2):
        said = llama("pair", "--config", plan, "--out", out)
        assert said.returncode == 0, said.stderr
    for arm in ("baseline", "focal"):
        assert json.loads((out / arm / "export/config.json").read_text())["training"]["arm"] == arm
        assert len((out / arm / "log.jsonl").read_text().splitlines()) == 1, "the second command trains nothing"
    for command in pair.commands(out, ["baseline", "focal"]):
        assert command in said.stdout


def test_an_interruption_is_one_sentence_and_ends_both(plan: pathlib.Path) -> None:
    plan.write_text(TINY_PLAN.replace("steps = 3", "steps = 100000", 1))
    arguments = [sys.executable, "-m", "llama", "pair", "--config", str(plan), "--out", str(plan.parent / "out")]
    process = subprocess.Popen(arguments, cwd=RECIPES, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and "training baseline and focal" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and errors.count("\n") == 1 and "the same command resumes" in errors, errors
    assert not any(str(plan) in line for line in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines())


@pytest.mark.skipif(not VARIFOCAL.exists(), reason=f"{VARIFOCAL} is not built")
def test_the_product_runs_what_the_last_lines_say(plan: pathlib.Path) -> None:
    out = plan.parent / "my pair"
    assert llama("pair", "--config", plan, "--out", out, "--arms", "baseline", "focal").returncode == 0
    first, *others = pair.commands(out, ["baseline", "focal"])
    environment = os.environ | {"PATH": f"{VARIFOCAL.parent}:{os.environ['PATH']}"}
    said = subprocess.run(["bash", "-c", " && ".join([f"{first} --limit=4", *others])], env=environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    for task in ("recall_kv", "icl_labels", "longqa_story"):
        assert re.search(rf"^{task} +256 ", said.stdout, re.M), said.stdout


def test_without_a_command_the_first_is_the_pair() -> None:
    said = llama()
    assert said.returncode == 2 and re.findall(r"python -m llama (\w+)", said.stdout)[0] == "pair"


def test_the_pair_is_asked_at_its_trained_length_and_beyond() -> None:
    assert run.read(pair.PLAN, "focal").shape.trained_context_length == 288
    assert "lengths: [256, 512]" in pair.SUITE.read_text()


@pytest.mark.parametrize("change, words", [
    (("steps = 3", "steps = true"), "Phase's steps is True, not of type int"),
    (("steps = 3\n", ""), "Phase lacks steps"),
    (("learning_rate = 0.001", "learning_rate = '1'"), "Plan's learning_rate is '1', not of type float"),
    (("warmup = 2", ""), "Plan lacks warmup"),
    (("seed = 5", ""), "is not a plan: it has no seed"),
    (("[[phases]]", "[[stages]]"), "is not a plan: it has no phases"),
    (("warmup = 2", "warmup = "), "is not TOML"),
    (("warmup = 2", "warmup = 2\ntypo = 1"), "Plan has unknown keys: typo"),
])  # fmt: skip
def test_a_wrong_plan_is_one_sentence(change: tuple[str, str], words: str, plan: pathlib.Path) -> None:
    plan.write_text(TINY_PLAN.replace(*change))
    with pytest.raises(ValueError, match=re.escape(words)):
        run.read(plan, "focal")


def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(plan: pathlib.Path) -> None:
    out = plan.parent / "out"
    for arguments, words in (
        (["train", plan, "typo", "--out", out], "no arm 'typo'"),
        (["train", plan.parent / "none.toml", "focal", "--out", out], "none.toml: No such file or directory; llama/configs has first.toml, one_plan.toml"),
        (["pair", "--config", plan, "--arms", "focal", "focal", "--out", out], "an arm is named twice"),
        (["pair", "--config", plan, "--arms", "baseline", "typo", "--out", out], "no arm 'typo'"),
        (["fold", plan.parent, plan.parent / "folded"], "config.json"),
    ):
        said = llama(*arguments)
        assert said.returncode == 2 and words in said.stderr and said.stderr.count("\n") == 1, said.stderr
    assert not out.exists(), "nothing was begun"
