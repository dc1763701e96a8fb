"""Focus in any transformers model that uses its attention interface.

`attach` gives each chosen layer a Router as the attention module's `focus`, so that state_dict() has the checkpoint
format's names, records the query projection's input rows, and installs the interface's function. The FocusMode selects
the computation: a training gate, the hard mask, or dense attention as without Focus. Without a KV cache: the whole
sequence each time.
"""

import dataclasses
from typing import Any, Iterator

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from focus.gates import gated
from focus.routing import Router
from focus.settings import FocusSettings

NAME = "focus"


@dataclasses.dataclass
class FocusMode:
    """The current computation, shared by all layers. `gate` None: dense. `prompt_tokens`: number of tokens that the bias
    `prompt` sums over, all by default."""

    gate: str | None
    prompt_tokens: int | None = None


def attention_modules(model: PreTrainedModel) -> list[nn.Module]:
    """The attention module of every layer, in order, for any family."""
    found = [m for _, m in model.named_modules() if type(m).__name__.endswith("Attention") and hasattr(m, "layer_idx")]
    if len(found) != model.config.num_hidden_layers:
        raise ValueError(f"{type(model).__name__} has {len(found)} attention modules and {model.config.num_hidden_layers} layers")
    return sorted(found, key=lambda m: m.layer_idx)  # type: ignore[arg-type, return-value]


def sliding_layers(model: PreTrainedModel) -> list[bool]:
    """Which layers have a window of their own."""
    types = getattr(model.config, "layer_types", None)
    if types:
        return [t == "sliding_attention" for t in types]
    window = getattr(model.config, "sliding_window", None)
    used = window is not None and getattr(model.config, "use_sliding_window", True)
    return [bool(used)] * model.config.num_hidden_layers


def focus_layers(model: PreTrainedModel, settings: FocusSettings) -> list[int]:
    """The setting's layers, or every layer without a window of its own."""
    count = model.config.num_hidden_layers
    if settings.layers is not None:
        if settings.layers[-1] >= count:
            raise ValueError(f"layers names {settings.layers[-1]}; the model has layers 0 to {count - 1}")
        return list(settings.layers)
    full = [i for i, sliding in enumerate(sliding_layers(model)) if not sliding]
    if not full:
        raise ValueError("every layer has a window of its own: name the layers of Focus in `layers`")
    return full


def keep_rows(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Before attention: the interface passes queries and keys alone, and the router needs the rows."""
    module.focus_rows = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]


def forget_rows(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
    module.focus_rows = None  # type: ignore[assignment]


def focus_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """The interface's function: query [B, H, T, D], key and value [B, G, T, D], additive mask [B or 1, 1, T, T]."""
    share = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    scores = scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
    router, mode = getattr(module, "focus", None), getattr(module, "focus_mode", None)
    if router is not None and mode is not None and mode.gate is not None:
        assert key.shape[2] == query.shape[2], "Focus is trained without a key/value cache"
        scores = gated(scores, router, module.focus_rows, mode.gate, mode.prompt_tokens)  # type: ignore[arg-type]
    if attention_mask is None:
        length = scores.shape[-1]
        attention_mask = torch.full((length, length), -torch.inf, device=scores.device).triu(1)
    # The mask's smallest number plus -inf stays -inf; a row always sees itself.
    weights = (scores + attention_mask).softmax(-1).to(value.dtype)
    return (nn.functional.dropout(weights, dropout, module.training) @ value).transpose(1, 2).contiguous(), None


def routers(model: nn.Module) -> Iterator[Router]:
    """Of all layers that have one, in order."""
    for module in model.modules():
        if isinstance(module, Router):
            yield module


def attach(model: PreTrainedModel, settings: FocusSettings, seed: int = 0) -> FocusMode:
    """Adds Focus to a model in place; it computes `settings.gate` until the returned mode says otherwise."""
    AttentionInterface.register(NAME, focus_attention)
    AttentionMaskInterface.register(NAME, eager_mask)
    generator = torch.Generator().manual_seed(seed)
    modules, mode = attention_modules(model), FocusMode(settings.gate)
    width = model.config.hidden_size
    for layer in focus_layers(model, settings):
        module = modules[layer]
        module.focus = Router(settings, width, layer, generator).to(model.device)
        module.focus_mode, module.focus_rows = mode, None  # type: ignore[assignment]
        module.register_forward_pre_hook(keep_rows, with_kwargs=True)
        module.register_forward_hook(forget_rows, with_kwargs=True)
    model.set_attn_implementation(NAME)
    model.config.use_cache = False
    return mode
