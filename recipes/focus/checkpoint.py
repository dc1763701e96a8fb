"""Checkpoint directories with Focus: config.json's `focus_attention` and the tensors stored with the layer's own."""

import json
import pathlib
import shutil
import tempfile
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from focus.attention import FocusMode, attach, focus_layers, routers
from focus.settings import FocusSettings

COMPANIONS = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "special_tokens_map.json", "chat_format.json")


def tensor_files(directory: pathlib.Path) -> list[pathlib.Path]:
    """The safetensors files of a checkpoint, single or in shards."""
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return [directory / "model.safetensors"]
    return [directory / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]


def read_tensors(directory: pathlib.Path, part: str = "") -> dict[str, Tensor]:
    """Tensors whose name contains `part`, as stored."""
    out = {}
    for path in tensor_files(directory):
        with safe_open(path, "pt") as file:
            out.update({name: file.get_tensor(name) for name in file.keys() if part in name})
    return out


def router_names(model: PreTrainedModel) -> dict[int, str]:
    """By layer, the prefix of the router's tensors."""
    names = {id(m): name for name, m in model.named_modules()}
    return {router.layer: names[id(router)] + "." for router in routers(model)}


def load_focus(model: PreTrainedModel, directory: pathlib.Path, settings: FocusSettings) -> None:
    """Copies the tensors of a checkpoint into the routers of a model that has them attached."""
    stored = read_tensors(directory, ".focus.")
    names = router_names(model)
    unread = set(stored)
    for router in routers(model):
        start = names[router.layer]
        if start + "centroids" not in stored:  # gpt2 files without the model's own prefix
            start = start.removeprefix("transformer.")
        wanted = {"projection.weight": router.projection.weight, "centroids": router.centroids}
        if settings.bias == "calibrated":
            wanted["group_bias"] = router.group_bias
        for name, into in wanted.items():
            if start + name not in stored:
                raise ValueError(f"{directory}: no tensor {start + name}")
            if stored[start + name].shape != into.shape:
                raise ValueError(f"{directory}: {start + name} is {list(stored[start + name].shape)}, not {list(into.shape)}")
            with torch.no_grad():
                into.copy_(stored[start + name].to(into.dtype))
            unread.discard(start + name)
    if unread:
        raise ValueError(f"{directory}: tensors not implied by the setting: {', '.join(sorted(unread))}")


def load_model(directory: str | pathlib.Path, dtype: torch.dtype = torch.float32) -> tuple[PreTrainedModel, FocusMode]:
    """A checkpoint with Focus in transformers, computing the hard mask as it is served."""
    directory = pathlib.Path(directory)
    config = json.loads((directory / "config.json").read_text())
    if "focus_attention" not in config:
        raise ValueError(f"{directory}/config.json has no focus_attention")
    settings = FocusSettings.from_config(config["focus_attention"])
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)
    mode = attach(model, settings)
    mode.gate = "hard"
    load_focus(model, directory, settings)
    return model.eval(), mode


def focus_tensors(model: PreTrainedModel, settings: FocusSettings) -> dict[str, Tensor]:
    """The routers' tensors in float32 under the names of the format."""
    out, names = {}, router_names(model)
    for router in routers(model):
        start = names[router.layer]
        out[start + "projection.weight"] = router.projection.weight
        out[start + "centroids"] = router.centroids
        if settings.bias == "calibrated":
            out[start + "group_bias"] = router.group_bias
    return {name: w.detach().float().cpu().clone().contiguous() for name, w in out.items()}


def base_tensors(model: PreTrainedModel, base: pathlib.Path, regime: str) -> dict[str, Tensor]:
    """The model's own tensors: the base's to the bit when frozen, else as trained, in the base's names and types."""
    if regime == "frozen":
        return read_tensors(base)
    with tempfile.TemporaryDirectory() as directory:  # transformers' own writer gives the names of files
        model.save_pretrained(directory)
        saved = {name: w for name, w in read_tensors(pathlib.Path(directory)).items() if ".focus." not in name}
    if not tensor_files(base)[0].exists():
        return saved
    out = {}
    for name, w in read_tensors(base).items():
        own = name if name in saved else "transformer." + name
        if own not in saved:
            raise ValueError(f"{base}: the trained model has no tensor {name}")
        out[name] = saved[own].to(w.dtype).contiguous()
    return out


def export(
    model: PreTrainedModel, settings: FocusSettings, base: str | pathlib.Path, out: str | pathlib.Path,
    trained_context_length: int, regime: str,
) -> None:  # fmt: skip
    """Writes a checkpoint directory: the base's configuration and companions, its tensors, and Focus."""
    base, out = pathlib.Path(base), pathlib.Path(out)
    config: dict[str, Any] = json.loads((base / "config.json").read_text())
    if settings.gate == "constant_gate":
        raise ValueError("gate = 'constant_gate' is a control of training and has no checkpoint format")
    config.pop("training", None)  # the base's: with it the checkpoint would be grouped with the runs of the base's arm
    config["focus_attention"] = settings.to_config(trained_context_length, regime)
    if settings.layers is None:
        focus_layers(model, settings)  # refuses a model without a full layer, as the engine does
    tensors = base_tensors(model, base, regime) | focus_tensors(model, settings)
    bad = [name for name, w in tensors.items() if ".focus." in name and not torch.isfinite(w).all()]
    if bad:
        raise ValueError(f"values that are not finite in {', '.join(bad)}")
    out.mkdir(parents=True, exist_ok=True)
    for name in COMPANIONS:
        if (base / name).exists():
            shutil.copyfile(base / name, out / name)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
