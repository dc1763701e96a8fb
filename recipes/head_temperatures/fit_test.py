"""Temperatures of heads compute what folding them gives, are found where they were planted, and fits resume."""

import dataclasses
import json
import math
import pathlib
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM

from focus.config import DataConfig
from head_temperatures import fit
from llama import fold

torch.set_num_threads(1)


@pytest.fixture
def setup(tmp_path: pathlib.Path) -> fit.FitConfig:
    """A tiny llama, a tokenizer of letters, and text in which every line repeats a word: something for attention to find."""
    base = tmp_path / "base"
    shape: dict[str, Any] = dict(vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **shape))  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                p.normal_(0, 0.3)
    model.save_pretrained(base)
    letters = {c: i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz ?")}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.save(str(base / "tokenizer.json"))
    for name, shift in (("train", 0), ("rest", 7)):
        words = ["".join(chr(97 + (i * j + shift) % 26) for j in range(1, 5)) for i in range(1, 400)]
        (tmp_path / f"{name}.txt").write_text(" ".join(f"{w} {w}" for w in words))
    data = DataConfig(kind="text", length=24, files=(str(tmp_path / "train.txt"),), held_out=(str(tmp_path / "rest.txt"),), held_out_rows=4, calibration_rows=0)
    return fit.FitConfig(base=str(base), seed=1, steps=6, rows=2, learning_rate=0.05, warmup=2, data=data)


def fitter(config: fit.FitConfig, out: pathlib.Path) -> fit.Fitter:
    return fit.Fitter(config, out, torch.float32)


def test_hooks_compute_what_folding_gives(setup: fit.FitConfig, tmp_path: pathlib.Path) -> None:
    one = fitter(setup, tmp_path / "out")
    ids = one.source.held_out()[0]
    plain = one.model(ids).logits
    assert torch.equal(plain, AutoModelForCausalLM.from_pretrained(setup.directory, dtype=torch.float32)(ids).logits)  # t = 1 changes nothing
    with torch.no_grad():
        one.heads.theta.normal_(0, 0.5, generator=torch.Generator().manual_seed(2))
    one.save()
    fold.fold(setup.directory, tmp_path / "folded", json.loads((tmp_path / "out/temperatures.json").read_text()))
    folded = AutoModelForCausalLM.from_pretrained(tmp_path / "folded", dtype=torch.float32)
    assert torch.allclose(folded(ids).logits, one.model(ids).logits, atol=1e-4)
    assert not torch.allclose(plain, one.model(ids).logits, atol=1e-2)


def test_only_temperatures_are_trained_and_loss_falls(setup: fit.FitConfig, tmp_path: pathlib.Path) -> None:
    one = fitter(dataclasses.replace(setup, steps=60, rows=8), tmp_path / "out")
    before = [p.clone() for p in one.model.parameters()]
    one.fit()
    assert all(torch.equal(a, b) for a, b in zip(before, one.model.parameters()))
    assert one.heads.theta.numel() == 8 and float(one.heads.theta.detach().abs().max()) > 0.05
    batches = [one.source.batch(step, 8) for step in range(60)]
    with torch.no_grad():
        fitted = sum(fit.loss_of(one.model, *batch).mean().item() for batch in batches)
        one.heads.theta.zero_()
        assert fitted < sum(fit.loss_of(one.model, *batch).mean().item() for batch in batches) - 0.1


def test_a_planted_temperature_is_found(setup: fit.FitConfig, tmp_path: pathlib.Path) -> None:
    """The model's own samples at t = 2 in every head are best explained by t near 2."""
    one = fitter(dataclasses.replace(setup, steps=80, rows=8, learning_rate=0.05), tmp_path / "out")
    with torch.no_grad():
        one.heads.theta.fill_(math.log(2))
        generator = torch.Generator().manual_seed(5)
        ids = torch.randint(40, (64, 1), generator=generator)
        for _ in range(47):
            ids = torch.cat([ids, torch.multinomial(one.model(ids).logits[:, -1].softmax(-1), 1, generator=generator)], 1)
        one.heads.theta.zero_()
    weights = torch.ones(ids.shape)
    one.source.batch = lambda step, rows: (ids, weights)  # type: ignore[method-assign]
    one.fit()
    mean = float(one.heads.theta.detach().mean().exp())
    assert 1.4 < mean < 2.8, mean


def test_a_resumed_fit_equals_an_uninterrupted_one(setup: fit.FitConfig, tmp_path: pathlib.Path) -> None:
    whole = fitter(setup, tmp_path / "whole")
    whole.fit()
    first = fitter(setup, tmp_path / "parts")
    first.one_step()
    first.save()
    second = fitter(setup, tmp_path / "parts")
    second.fit()
    assert torch.equal(whole.heads.theta, second.heads.theta)
    line = json.loads((tmp_path / "parts/log.jsonl").read_text().splitlines()[-1])
    assert line["step"] == 6 and line["tokens"] == 6 * 2 * 24 and line["least_t"] <= line["mean_t"] <= line["largest_t"]


def test_held_out_windows_are_measured_at_one_and_as_fitted(setup: fit.FitConfig, tmp_path: pathlib.Path) -> None:
    one = fitter(setup, tmp_path / "out")
    assert all(r["base"] == r["fitted"] for r in one.held_out())
    with torch.no_grad():
        one.heads.theta.fill_(0.7)
    rows = one.held_out()
    assert len(rows) == 4 and all(r["base"] != r["fitted"] for r in rows) and float(one.heads.theta.detach()[0, 0]) == pytest.approx(0.7)
    text = fit.summary(one.heads.temperatures(), rows)
    assert "8 heads: geometric mean of t 2.014; 0% below 1" in text and "4 windows" in text


def test_models_with_a_norm_of_queries_are_refused() -> None:
    shape: dict[str, Any] = dict(vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=8)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3", **shape))  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="without q_norm"):
        fit.HeadTemperatures(model)


def test_the_configuration_of_the_study_is_read() -> None:
    config = fit.read(pathlib.Path(__file__).parent / "smollm2-2k.toml")
    assert config.data.length == 2048 and config.steps * config.rows * config.data.length == 499_712
