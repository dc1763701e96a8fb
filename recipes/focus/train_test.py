"""Runs from their configuration to a checkpoint: regimes, resuming, calibration, export, LoRA and refusals."""

import dataclasses
import json
import pathlib
from typing import Callable

import pytest
import torch
from safetensors.torch import load_file, save_file

from focus import checkpoint as checkpoints
from focus import config, measure
from focus.attention import routers
from focus.train import Trainer

Checkpoint = Callable[[str], pathlib.Path]
HEAD = """
name = "test"
seed = 3
evaluate_every = 4
[model]
base = "{base}"
regime = "{regime}"
[focus]
group_count = 4
top_k = 1
window = 3
{focus}
[data]
kind = "text"
length = 32
files = ["{text}"]
held_out = ["{other}"]
held_out_rows = 2
calibration_rows = 3
"""
PHASE = """
[[phases]]
trains = "{trains}"
steps = {steps}
rows = 2
rows_at_once = 1
learning_rate = 0.01
warmup = 1
"""


@pytest.fixture
def write(tmp_path: pathlib.Path, checkpoint: Checkpoint) -> Callable[..., config.RunConfig]:
    """A run's configuration over a tiny model and two texts of random words."""

    def make(regime: str = "frozen", phases: tuple[tuple[str, int], ...] = (("focus", 4),), focus: str = "", family: str = "llama") -> config.RunConfig:
        names = {}
        for name in ("text", "other"):
            path = tmp_path / f"{name}.txt"
            seed = {"text": 1, "other": 2}[name]
            ids = torch.randint(3, 60, (400,), generator=torch.Generator().manual_seed(seed)).tolist()
            path.write_text(" ".join(f"w{i}" for i in ids))
            names[name] = str(path)
        text = HEAD.format(base=checkpoint(family), regime=regime, focus=focus, **names)
        text += "".join(PHASE.format(trains=t, steps=n) for t, n in phases)
        (tmp_path / "run.toml").write_text(text)
        return config.read(tmp_path / "run.toml")

    return make


def records(out: pathlib.Path) -> list[dict]:
    found = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    for record in found:
        record.pop("seconds", None)
    return found


def test_a_resumed_run_is_the_uninterrupted_one(write: Callable[..., config.RunConfig], tmp_path: pathlib.Path) -> None:
    run = write("full", (("focus", 3), ("all", 3)))
    whole = Trainer(run, tmp_path / "a", tmp_path / "ids")
    whole.train()
    Trainer(run, tmp_path / "b", tmp_path / "ids").train(2)
    with (tmp_path / "b" / "log.jsonl").open("a") as file:  # a line of a step that was never saved
        file.write('{"step": 3, "loss": 0}\n')
    Trainer(run, tmp_path / "b", tmp_path / "ids").train(3)
    again = Trainer(run, tmp_path / "b", tmp_path / "ids")
    again.train()
    assert records(tmp_path / "a") == records(tmp_path / "b")
    for (name, a), (_, b) in zip(whole.model.named_parameters(), again.model.named_parameters()):
        assert torch.equal(a, b), name


def test_a_frozen_run_trains_focus_alone_and_exports_the_base_to_the_bit(
    write: Callable[..., config.RunConfig], tmp_path: pathlib.Path, checkpoint: Checkpoint
) -> None:
    run = write()
    trainer = Trainer(run, tmp_path / "out", tmp_path / "ids")
    before = {n: p.clone() for n, p in trainer.model.named_parameters()}
    trainer.train()
    changed = {n for n, p in trainer.model.named_parameters() if not torch.equal(p, before[n])}
    assert changed and all(".focus." in n for n in changed)
    trainer.export(tmp_path / "export")
    base = checkpoints.read_tensors(checkpoint("llama"))
    made = checkpoints.read_tensors(tmp_path / "export")
    assert all(torch.equal(w, made[n]) for n, w in base.items())
    assert set(made) - set(base) == {
        f"model.layers.{i}.self_attn.focus.{n}" for i in range(2) for n in ("projection.weight", "centroids", "group_bias")
    }
    written = json.loads((tmp_path / "export" / "config.json").read_text())["focus_attention"]
    assert written["regime"] == "frozen" and written["trained_context_length"] == 32
    # What is loaded again computes what the log's last hard loss was.
    model, mode = checkpoints.load_model(tmp_path / "export")
    ids, weights = trainer.data.held_out()
    hard, _ = measure.hard_loss(model, mode, ids, weights)
    assert hard == pytest.approx(records(tmp_path / "out")[-1]["held_out"]["hard"], abs=1e-6)


def test_calibration_is_the_mean_of_centred_biases(write: Callable[..., config.RunConfig], tmp_path: pathlib.Path) -> None:
    trainer = Trainer(write(), tmp_path / "out", tmp_path / "ids")
    rows = trainer.data.calibration()
    measure.calibrate(trainer.model, rows)
    together = [router.group_bias.clone() for router in routers(trainer.model)]
    each = []
    for row in rows:
        measure.calibrate(trainer.model, row[None])
        each.append([router.group_bias.clone() for router in routers(trainer.model)])
    for layer, b in enumerate(together):
        assert b.abs().max() > 0 and abs(b.mean().item()) < 1e-6
        assert torch.allclose(b, torch.stack([e[layer] for e in each]).mean(0), atol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "qwen3"])
def test_other_families_export_under_their_own_prefix(
    write: Callable[..., config.RunConfig], tmp_path: pathlib.Path, family: str
) -> None:
    trainer = Trainer(write("full", (("all", 2),), family=family), tmp_path / "out", tmp_path / "ids")
    trainer.train()
    trainer.export(tmp_path / "export")
    start = {"gpt2": "transformer.h.0.attn", "gpt_neox": "gpt_neox.layers.0.attention", "qwen3": "model.layers.0.self_attn"}[family]
    assert f"{start}.focus.centroids" in checkpoints.read_tensors(tmp_path / "export")
    model, mode = checkpoints.load_model(tmp_path / "export")
    ids, weights = trainer.data.held_out()
    assert measure.hard_loss(model, mode, ids, weights)[0] == pytest.approx(
        records(tmp_path / "out")[-1]["held_out"]["hard"], abs=1e-5
    )


@pytest.mark.parametrize(
    "regime, phases, focus",
    [
        ("frozen", (("focus", 3),), 'gate = "constant_gate"'),
        ("frozen", (("focus", 3),), 'gate = "log_gate"\nassignment = "softmax"'),
        ("full", (("all", 3),), 'groups = "random"\ngate = "hard"'),
        ("full", (("all", 3),), 'groups = "none"\ngate = "hard"'),
        ("lora", (("lora", 3),), ""),
    ],
)
def test_every_kind_of_run_lowers_its_training_loss(
    write: Callable[..., config.RunConfig], tmp_path: pathlib.Path, regime: str, phases: tuple[tuple[str, int], ...], focus: str
) -> None:
    trainer = Trainer(write(regime, phases, focus), tmp_path / "out", tmp_path / "ids")
    batch = trainer.data.batch(0, 2)
    trainer.data.batch = lambda step, rows: batch  # type: ignore[method-assign]
    first = measure.loss(trainer.model, *batch)
    trainer.train()
    assert measure.loss(trainer.model, *batch) < first
    assert "held_out" in records(tmp_path / "out")[-1]


def test_a_run_from_scratch_starts_anew_and_exports(write: Callable[..., config.RunConfig], tmp_path: pathlib.Path) -> None:
    trainer = Trainer(write("scratch", (("all", 3),)), tmp_path / "out", tmp_path / "ids")
    assert not torch.equal(trainer.model.get_input_embeddings().weight, checkpoints.read_tensors(trainer.base)["model.embed_tokens.weight"])  # type: ignore[operator]
    batch = trainer.data.batch(0, 2)
    trainer.data.batch = lambda step, rows: batch  # type: ignore[method-assign]
    first = measure.loss(trainer.model, *batch)
    trainer.train()
    assert measure.loss(trainer.model, *batch) < first
    trainer.export(tmp_path / "export")
    model, mode = checkpoints.load_model(tmp_path / "export")
    assert measure.hard_loss(model, mode, *batch)[0] == pytest.approx(
        measure.hard_loss(trainer.model.eval(), trainer.mode, *batch)[0], abs=1e-5  # type: ignore[arg-type]
    )


def test_lora_is_of_equal_size(write: Callable[..., config.RunConfig], tmp_path: pathlib.Path) -> None:
    lora = Trainer(write("lora", (("lora", 1),)), tmp_path / "a", tmp_path / "ids")
    focus = Trainer(write(), tmp_path / "b", tmp_path / "ids")
    from focus.build import set_trained

    ours = sum(p.numel() for p in set_trained(focus.model, "focus"))
    theirs = sum(p.numel() for p in set_trained(lora.model, "lora"))
    assert abs(ours - theirs) / ours < 0.15
    with pytest.raises(ValueError, match="no Focus to export"):
        lora.export(tmp_path / "x")


def test_what_cannot_be_is_refused(write: Callable[..., config.RunConfig], tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="regime 'frozen' has no phase that trains 'all'"):
        write("frozen", (("all", 1),))
    with pytest.raises(ValueError, match="unknown keys: gates"):
        write(focus='gates = "hard"')
    with pytest.raises(ValueError, match="nothing to train"):
        Trainer(write(focus='groups = "random"'), tmp_path / "out", tmp_path / "ids").train()
    with pytest.raises(ValueError, match="is at step 0 of 4"):
        Trainer(write(), tmp_path / "new", tmp_path / "ids").export(tmp_path / "x")
    done = Trainer(write(focus='gate = "constant_gate"'), tmp_path / "constant", tmp_path / "ids")
    done.train()
    with pytest.raises(ValueError, match="has no checkpoint format"):
        done.export(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_state_of_another_run_is_refused(write: Callable[..., config.RunConfig], tmp_path: pathlib.Path) -> None:
    run = write()
    trainer = Trainer(run, tmp_path / "out", tmp_path / "ids")
    trainer.train(1)
    assert Trainer(dataclasses.replace(run, evaluate_every=1), tmp_path / "out", tmp_path / "ids").step == 1
    weights = trainer.base / "model.safetensors"
    for other in (dataclasses.replace(run, seed=4), dataclasses.replace(run, phases=run.phases * 2)):
        with pytest.raises(ValueError, match="of another configuration, seed or base"):
            Trainer(other, tmp_path / "out", tmp_path / "ids")
    kept = weights.read_bytes()  # shared by the tests
    save_file({name: w + 1 for name, w in load_file(weights).items()}, weights, {"format": "pt"})
    try:
        with pytest.raises(ValueError, match="of another configuration, seed or base"):
            Trainer(run, tmp_path / "out", tmp_path / "ids")
    finally:
        weights.write_bytes(kept)
