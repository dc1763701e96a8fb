"""Focus in transformers models: equality with dense attention, gates, causality and gradients."""

import dataclasses
import pathlib
from typing import Callable

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from focus import attention, routing
from focus.conftest import FAMILIES
from focus.settings import GATES, FocusSettings

Checkpoint = Callable[[str], pathlib.Path]
SETTING = FocusSettings(group_count=4, top_k=1, window=3, bias="calibrated")


def attached(directory: pathlib.Path, settings: FocusSettings) -> tuple[PreTrainedModel, attention.FocusMode]:
    model = AutoModelForCausalLM.from_pretrained(directory)
    mode = attention.attach(model, settings)
    with torch.no_grad():
        for router in attention.routers(model):
            router.centroids.mul_(10)
    return model.eval(), mode


def ids_of(length: int = 150) -> torch.Tensor:
    return torch.randint(2, 60, (1, length), generator=torch.Generator().manual_seed(9))


@torch.no_grad()
def logits(model: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    return model(input_ids=ids, use_cache=False).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_dense_mode_is_the_model_without_focus(checkpoint: Checkpoint, family: str) -> None:
    plain = logits(AutoModelForCausalLM.from_pretrained(checkpoint(family), attn_implementation="eager").eval(), ids_of())
    model, mode = attached(checkpoint(family), SETTING)
    mode.gate = None
    assert torch.allclose(logits(model, ids_of()), plain, atol=2e-5)
    mode.gate = "hard"
    assert (logits(model, ids_of()) - plain).abs().max() > 1e-2


@pytest.mark.parametrize("keys", [dict(top_k=4), dict(window=150), dict(top_k=3, window=0)])
def test_settings_that_see_every_pair_equal_dense_to_the_bit(checkpoint: Checkpoint, keys: dict[str, int]) -> None:
    model, mode = attached(checkpoint("llama"), dataclasses.replace(SETTING, **keys))
    mode.gate = "hard"
    hard = logits(model, ids_of())
    mode.gate = None
    assert torch.equal(hard, logits(model, ids_of()))


@pytest.mark.parametrize("gate", GATES)
def test_gates_differ_from_dense_and_reach_only_far_pairs(checkpoint: Checkpoint, gate: str) -> None:
    model, mode = attached(checkpoint("llama"), dataclasses.replace(SETTING, gate=gate))
    out = logits(model, ids_of())
    mode.gate = None
    dense = logits(model, ids_of())
    assert (out - dense).abs().max() > 1e-3
    assert torch.allclose(out[:, :4], dense[:, :4], atol=1e-5)  # rows 0 to w see near keys alone


def test_gates_follow_the_formulas() -> None:
    from focus.gates import gated

    s = FocusSettings(group_count=4, top_k=1, window=2, gate="literal", gate_strength=5.0)
    router = routing.Router(s, 8, 0, torch.Generator().manual_seed(1))
    h = torch.randn(1, 7, 8, generator=torch.Generator().manual_seed(2))
    scores = torch.randn(1, 2, 7, 7, generator=torch.Generator().manual_seed(3))
    g = router.soft_groups(h)[0]
    assert torch.allclose(g.sum(-1), torch.ones(7), atol=1e-6)
    agreement = (g[6] @ g[1]).item()
    score = scores[0, 1, 6, 1].item()
    sigmoid = lambda x: 1 / (1 + torch.tensor(-x).exp().item())  # noqa: E731
    expected = {
        "literal": score * sigmoid(5 * agreement),
        "shifted": score * sigmoid(5 * (agreement - 0.5)),
        "log_gate": score + torch.tensor(sigmoid(5 * (agreement - 0.5))).log().item(),
    }
    for gate, value in expected.items():
        out = gated(scores, router, h, gate)
        assert out[0, 1, 6, 1].item() == pytest.approx(value, abs=1e-5)
        assert torch.equal(out[..., 6, 4:7], scores[..., 6, 4:7])
    hard = gated(scores, router, h, "hard")
    member = router.hard_groups(h)[0]
    seen = bool((member[6] & member[1]).any())
    assert hard[0, 1, 6, 1].item() == (score if seen else float("-inf"))


@pytest.mark.parametrize("bias, leaks", [("calibrated", False), ("paged", False), ("prompt", True)])
def test_the_future_leaks_through_the_prompt_reading_alone(checkpoint: Checkpoint, bias: str, leaks: bool) -> None:
    model, mode = attached(checkpoint("llama"), dataclasses.replace(SETTING, bias=bias))
    mode.gate = "hard"
    ids = ids_of(280)
    changed = ids.clone()
    changed[0, 200:] = 5
    moved = (logits(model, ids)[:, :200] - logits(model, changed)[:, :200]).abs().max().item()
    assert (moved > 1e-3) == leaks


def test_sliding_layers_keep_their_window_and_have_no_groups_unless_named() -> None:
    from transformers import AutoConfig

    keys = dict(FAMILIES["qwen3"], use_sliding_window=True, sliding_window=8, layer_types=["full_attention", "sliding_attention"])
    config = AutoConfig.for_model("qwen3", **keys)
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config).eval()
    assert attention.focus_layers(model, SETTING) == [0]
    mode = attention.attach(model, dataclasses.replace(SETTING, layers=(1,), window=100, top_k=4))
    mode.gate = "hard"
    everything = logits(model, ids_of(40))
    mode.gate = None
    assert torch.equal(everything, logits(model, ids_of(40)))  # the layer's own window is still applied
    config.layer_types = ["sliding_attention", "sliding_attention"]
    with pytest.raises(ValueError, match="every layer has a window"):
        attention.focus_layers(AutoModelForCausalLM.from_config(config), SETTING)


@pytest.mark.parametrize("gradient", [True, False])
def test_centroids_get_a_gradient(checkpoint: Checkpoint, gradient: bool) -> None:
    model, _ = attached(checkpoint("llama"), dataclasses.replace(SETTING, sinkhorn_gradient=gradient))
    model(input_ids=ids_of(40), labels=ids_of(40), use_cache=False).loss.backward()
    for router in attention.routers(model):
        assert router.centroids.grad is not None and router.centroids.grad.abs().max() > 0
        assert torch.isfinite(router.centroids.grad).all()
