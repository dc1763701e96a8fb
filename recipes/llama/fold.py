"""Constant temperatures into the query projection, and out of it; any checkpoint with q_proj, of one or several files.

softmax(q.k / (t sqrt(d))) equals softmax((q/t).k / sqrt(d)): `fold` multiplies W_q and its bias by 1/t and removes the setting,
so that the result is an ordinary checkpoint; `unfold` multiplies by t and adds it. With a norm of the queries after the
projection (q_norm) its gain is scaled instead. A temperature is one number, one a layer, or one a layer and head ([L, H]).
A power of two is exact in every dtype, except for gains that are stored minus one (Gemma); otherwise each weight is rounded once to its dtype.
"""

import json
import pathlib
import re
import shutil
from typing import Any

import numpy as np
import torch
from torch import Tensor

Floats = np.ndarray[Any, np.dtype[np.float64]]

QUERY = re.compile(r"^(.*layers\.)(\d+)(\.self_attn\.)(q_proj|q_norm)\.(weight|bias)$")


def per_head(temperature: Any, layers: int, heads: int) -> Floats:
    """[layers, heads] of a number, a list of one a layer, or a list of lists."""
    t = np.asarray(temperature, dtype=np.float64)
    if t.shape not in ((), (layers,), (layers, heads)):
        raise ValueError(f"temperatures have the shape {t.shape}; the model has {layers} layers of {heads} heads")
    if not (np.isfinite(t).all() and (t > 0).all()):
        raise ValueError("a temperature is not positive and finite")
    return np.broadcast_to(t.reshape(t.shape + (1,) * (2 - t.ndim)), (layers, heads)).copy()


def row_factors(name: str, rows: int, factors: Floats, head_dim: int) -> Tensor:
    """One factor a row of a query tensor of a layer. A norm that the heads share has head_dim rows, one of all heads more."""
    if "q_norm" in name and rows == head_dim and len(factors) > 1:
        if not np.all(factors == factors[0]):
            raise ValueError(f"{name} is shared by the heads, whose temperatures differ")
        return torch.full((rows,), float(factors[0]), dtype=torch.float64)
    if rows != len(factors) * head_dim:
        raise ValueError(f"{name} has {rows} rows, not {len(factors)} heads of {head_dim}")
    return torch.from_numpy(np.repeat(factors, head_dim))


def scaled(value: Tensor, rows: Tensor, gain_is_offset: bool) -> Tensor:
    """Rows of a tensor times their factors, in float64; of a gain stored as gain - 1 where `gain_is_offset`."""
    wide = value.double()
    return (wide + 1) * rows - 1 if gain_is_offset else wide * (rows[:, None] if value.ndim == 2 else rows)


def names_of(file: pathlib.Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(file, "pt") as opened:
        return list(opened.keys())


def rewrite(source: pathlib.Path, target: pathlib.Path, factors: Floats, config: dict[str, Any]) -> float:
    """Copies a checkpoint with scaled queries; returns the largest relative rounding of a weight."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    target.mkdir(parents=True, exist_ok=True)
    if target.resolve() == source.resolve():
        raise ValueError("the result needs a directory of its own")
    files = sorted(source.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{source} has no .safetensors file")
    touched: set[int] = set()
    rounding = 0.0
    normed = any(".q_norm." in k for f in files for k in names_of(f))
    # Gemma stores the gain of a norm minus one.
    offset = normed and config["model_type"].startswith("gemma")
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    for file in files:
        tensors: dict[str, Tensor] = {}
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata()
            for name in opened.keys():
                value = opened.get_tensor(name)
                found = QUERY.match(name)
                if found and (found[4] == "q_norm") == normed:
                    layer = int(found[2])
                    exact = scaled(value, row_factors(name, value.shape[0], factors[layer], head_dim), offset)
                    value = exact.to(value.dtype)
                    touched.add(layer)
                    rounding = max(rounding, float(((value.double() - exact).abs() / exact.abs().clamp(min=1e-30)).max()))
                tensors[name] = value.contiguous()
        save_file(tensors, target / file.name, metadata=metadata)
    if touched != set(range(len(factors))):
        raise ValueError(f"{len(touched)} of {len(factors)} layers have a query projection of their own (self_attn.q_proj)")
    for file in source.iterdir():
        if file.is_file() and file.suffix != ".safetensors" and file.name != "config.json":
            shutil.copy(file, target / file.name)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return rounding


def read_config(source: pathlib.Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((source / "config.json").read_text())
    return config


def fold(source: pathlib.Path, target: pathlib.Path, temperatures: Any = None) -> float:
    """`temperatures`: of a checkpoint trained or fitted with them; those of its focal_attention when left out."""
    config = read_config(source)
    focal = config.pop("focal_attention", None)
    if (focal is None) == (temperatures is None):
        raise ValueError("give temperatures exactly where config.json has no focal_attention")
    if focal is not None and focal.get("mode") != "constant":
        raise ValueError(f"focal_attention.mode is {focal.get('mode')!r}; only constant temperatures can be folded")
    if focal is None:
        config.pop("training", None)  # another function than the training's: no replicate of its arm
    t = per_head(temperatures if focal is None else focal["temperature"], config["num_hidden_layers"], config["num_attention_heads"])
    return rewrite(source, target, 1 / t, config)


def unfold(source: pathlib.Path, target: pathlib.Path, temperature: Any) -> float:
    """The same function as a checkpoint with constant t: one number or one a layer, as config.json can hold."""
    config = read_config(source)
    if "focal_attention" in config:
        raise ValueError("config.json has focal_attention already")
    t = per_head(temperature, config["num_hidden_layers"], config["num_attention_heads"])
    if np.asarray(temperature).ndim > 1:
        raise ValueError("config.json has no temperatures of single heads")
    config["focal_attention"] = {"mode": "constant", "temperature": temperature}
    return rewrite(source, target, t, config)
