"""The committed configurations, and the shipped models' training data through a whole small run."""

import dataclasses
import json
import pathlib

import pytest

from focus import config, report
from focus.checkpoint import load_model
from focus.train import Trainer

CONFIGS = sorted((pathlib.Path(__file__).parent / "configs").glob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_configuration_is_valid(path: pathlib.Path) -> None:
    run = config.read(path)
    assert run.name == path.stem and run.steps > 0


def small(name: str) -> config.RunConfig:
    """A committed run, cut to two steps of short rows."""
    run = config.read(next(p for p in CONFIGS if p.stem == name))
    data = dataclasses.replace(run.data, length=160, held_out_rows=2, calibration_rows=2)
    phases = tuple(dataclasses.replace(p, steps=1, rows=2, warmup=1) for p in run.phases)
    return dataclasses.replace(run, data=data, phases=phases, evaluate_every=0)


@pytest.mark.parametrize("name", ["small-full", "small-scratch"])
def test_synthetic_data_trains_a_shipped_model(tmp_path: pathlib.Path, name: str) -> None:
    run = small(name)
    trainer = Trainer(run, tmp_path / "run", tmp_path / "ids")
    trainer.train()
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])["held_out"]
    assert 0 < last["hard"] < 20 and len(last["pairs_visible"]) == 4 and last["top_k"] == run.focus.top_k
    trainer.export(tmp_path / "made")
    # models/baseline states its training, of which this checkpoint is no further seed.
    assert "training" not in json.loads((tmp_path / "made" / "config.json").read_text())
    model, mode = load_model(tmp_path / "made")
    assert mode.gate == "hard" and model.config.num_hidden_layers == 4


def test_report_of_an_exported_checkpoint(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = small("small-frozen")
    trainer = Trainer(run, tmp_path / "run", tmp_path / "ids")
    trainer.train()
    trainer.export(tmp_path / "made")
    (tmp_path / "text.txt").write_text(" the key in JSON object and copy its value" * 40)
    report.main(tmp_path / "made", tmp_path / "text.txt", 100, 2, tmp_path / "r.json", tmp_path / "r.svg")
    assert "| 3 | 7 |" in capsys.readouterr().out
    layers = json.loads((tmp_path / "r.json").read_text())["layers"]
    assert len(layers) == 4 and all(0 < layer["pairs_visible"] <= 1 for layer in layers)
    assert (tmp_path / "r.svg").read_text().startswith("<svg")
