"""The model of a run: loaded or started, Focus or LoRA attached, and what each phase may train."""

import json
import pathlib

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from focus.attention import FocusMode, attach, attention_modules, routers
from focus.config import LoraSettings, RunConfig, located


def base_directory(run: RunConfig, out: pathlib.Path) -> pathlib.Path:
    """Where the base checkpoint is; a start from `shape` is written into the run's directory first."""
    if run.model.base:
        return located(run.model.base)
    start = out / "start"
    if not (start / "config.json").exists():
        from llama.config import Config
        from llama.start import started

        started(Config(**(run.model.shape or {})), run.seed).save(start)
    return start


def no_dropout(model: nn.Module) -> None:
    """So that a step depends on its batch alone, and a resumed run computes what an uninterrupted one does."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout") and isinstance(module.attention_dropout, float):
            module.attention_dropout = 0.0


def base_model(run: RunConfig, base: pathlib.Path) -> PreTrainedModel:
    dtype = getattr(torch, run.model.dtype)
    if run.model.regime == "scratch" and run.model.base:
        torch.manual_seed(run.seed)
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base), dtype=dtype)
    return AutoModelForCausalLM.from_pretrained(base, dtype=dtype)


def focus_parameter_count(model: PreTrainedModel, run: RunConfig) -> int:
    """What Focus adds to this model: layers x routing_dim x (width + groups)."""
    from focus.attention import focus_layers

    s = run.focus
    return len(focus_layers(model, s)) * s.routing_dim * (model.config.hidden_size + s.group_count)


def lora_rank(model: PreTrainedModel, lora: LoraSettings, wanted: int) -> int:
    """The rank whose parameter count is nearest to `wanted`; at least 1."""
    per_rank = 0
    for attention in attention_modules(model):
        for name in lora.targets:
            target = getattr(attention, name, None)
            if target is None:
                raise ValueError(f"{type(attention).__name__} has no {name} to adapt")
            per_rank += sum(target.weight.shape)
    return max(1, round(wanted / per_rank))


def attach_lora(model: PreTrainedModel, run: RunConfig) -> tuple[nn.Module, int]:
    """The LoRA baseline: adapters of equal size, dense attention. Returns the wrapped model and the rank."""
    from peft import LoraConfig, get_peft_model

    rank = run.lora.rank or lora_rank(model, run.lora, focus_parameter_count(model, run))
    torch.manual_seed(run.seed)
    config = LoraConfig(
        r=rank, lora_alpha=run.lora.alpha_over_rank * rank, target_modules=list(run.lora.targets), lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    return get_peft_model(model, config), rank


def build(run: RunConfig, out: pathlib.Path) -> tuple[nn.Module, FocusMode | None, pathlib.Path]:
    """The model in float32 or as configured, its mode (None for LoRA) and the base directory."""
    base = base_directory(run, out)
    model = base_model(run, base)
    no_dropout(model)
    if run.model.regime == "lora":
        wrapped, _ = attach_lora(model, run)
        return wrapped, None, base
    mode = attach(model, run.focus, run.seed)
    if run.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.train()  # checkpointing is off in eval mode
    return model, mode, base


def set_trained(model: nn.Module, trains: str) -> list[nn.Parameter]:
    """Marks what a phase trains and returns it. Where no centroids take part, they are not trained."""
    for name, p in model.named_parameters():
        own = ".focus." in name
        if trains == "lora":
            p.requires_grad_("lora_" in name)
        else:
            p.requires_grad_(own or trains == "all")
    if trains != "lora":
        for router in routers(model):
            used = router.settings.has_centroids and router.settings.gate != "hard"
            router.projection.requires_grad_(used)
            router.centroids.requires_grad_(used)
    chosen = [p for p in model.parameters() if p.requires_grad]
    if not chosen:
        raise ValueError("this phase has nothing to train: its groups are fixed or its gate is hard")
    return chosen


def describe(run: RunConfig, model: nn.Module, phase_trains: str) -> dict[str, object]:
    trained = sum(p.numel() for p in set_trained(model, phase_trains))
    every = sum(p.numel() for p in model.parameters())
    return {"run": run.name, "regime": run.model.regime, "trains": phase_trains, "parameters": every, "trained": trained}


def trained_length(base: pathlib.Path, run: RunConfig) -> int:
    """The length for config.json; never more than the base was trained at, where the base says so."""
    return min(run.data.length, json.loads((base / "config.json").read_text()).get("trained_context_length", run.data.length))
