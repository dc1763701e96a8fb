"""A compact llama in PyTorch whose attention has any setting of llama/config.py.

It computes what Hugging Face's LlamaForCausalLM computes (RMSNorm, half-rotation RoPE, grouped queries, SwiGLU, tied
embedding) and saves the same tensor names, so that a baseline loads there unchanged.
"""

import json
import math
import pathlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from llama.cpu_kernels import attend
from llama.config import Attention as Setting
from llama.config import Config, Tau


def rope_table(config: Config, length: int) -> tuple[Tensor, Tensor]:
    frequency = config.rope_theta ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos().float(), angle.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def clipped(raw: Tensor, low: float, high: float, clip: str) -> Tensor:
    """raw within [low, high]; with "straight_through" the gradient is that of the identity everywhere."""
    inside = raw.clamp(low, high)
    return inside if clip == "plain" else raw + (inside - raw).detach()


def tau_of(raw: Tensor, tau: Tau, head_dim: int) -> Tensor:
    """[B, T] divisors of the logits from raw = x.w + b of every position. The running sum is in float64, as in the engine."""
    if tau.mean == "causal":
        count = torch.arange(1, raw.shape[1] + 1, dtype=torch.float64)
        raw = (raw.double().cumsum(1) / count).float()
    elif tau.mean == "sequence":
        raw = raw.double().mean(1, keepdim=True).float().expand_as(raw)
    root = math.sqrt(head_dim)
    return clipped(raw, tau.floor * root, tau.ceiling * root, tau.clip)


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = c = config
        self.setting: Setting = c.attention
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)
        if self.setting.tau is not None:
            self.tau_proj = nn.Linear(c.hidden_size, 1, bias=self.setting.tau.bias)
        if self.setting.log_n == 0:
            start = torch.full((c.num_attention_heads,), 1 / math.log(c.trained_context_length))
            self.log_n_scale = nn.ParameterDict({"weight": nn.Parameter(start)})

    def row_scales(self, x: Tensor) -> Tensor:
        """[B or 1, H or 1, T or 1, 1]: what multiplies q.k."""
        s, c = self.setting, self.config
        with torch.autocast(x.device.type, enabled=False):
            scale = torch.tensor(1 / (math.sqrt(c.head_dim) * s.temperature)).view(1, 1, 1, 1)
            if s.tau is not None:
                scale = 1 / tau_of(self.tau_proj(x.float()).squeeze(-1), s.tau, c.head_dim)[:, None, :, None]
            if s.log_n is not None:
                visible = torch.arange(1, x.shape[1] + 1, dtype=torch.float64).log().float()
                factor = self.log_n_scale["weight"][None, :, None, None] if s.log_n == 0 else 1 / math.log(s.log_n)
                scale = scale * factor * visible[None, None, :, None]
            return scale

    def queries_and_keys(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """[B, H, T, D], rotated, without the scale."""
        c, (b, t, _) = self.config, x.shape
        q = self.q_proj(x).view(b, t, c.num_attention_heads, c.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, t, c.num_key_value_heads, c.head_dim).transpose(1, 2)
        group = c.num_attention_heads // c.num_key_value_heads
        return rotate(q, cos, sin), rotate(k, cos, sin).repeat_interleave(group, 1)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        c, (b, t, _) = self.config, x.shape
        q, k = self.queries_and_keys(x, cos, sin)
        v = self.v_proj(x).view(b, t, c.num_key_value_heads, c.head_dim).transpose(1, 2)
        v = v.repeat_interleave(c.num_attention_heads // c.num_key_value_heads, 1)
        scale = c.head_dim**-0.5 / self.setting.temperature
        if self.setting.tau is not None or self.setting.log_n is not None:
            q, scale = q * self.row_scales(x), 1.0
        y = attend(q.to(v.dtype), k.to(v.dtype), v, scale)
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(b, t, -1))
        return out


class MLP(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Block(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Llama(nn.Module):
    """Weights are PyTorch's until llama/start.py fills them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.table: tuple[Tensor, Tensor] | None = None

    def blocks(self) -> list[Block]:
        return [layer for layer in self.layers if isinstance(layer, Block)]

    def rope(self, length: int) -> tuple[Tensor, Tensor]:
        if self.table is None or self.table[0].shape[0] < length:
            self.table = rope_table(self.config, length)
        return self.table[0][:length], self.table[1][:length]

    def hidden(self, ids: Tensor, inputs: list[Tensor] | None = None) -> Tensor:
        """`inputs`, where given, receives the input of every layer."""
        cos, sin = self.rope(ids.shape[1])
        x: Tensor = self.embed_tokens(ids)
        for layer in self.layers:
            if inputs is not None:
                inputs.append(x)
            x = layer(x, cos, sin)
        out: Tensor = self.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embed_tokens.weight)

    def save(self, directory: pathlib.Path, training: dict[str, Any] | None = None) -> None:
        """config.json, with a `training` block where given, and model.safetensors, in Hugging Face's names."""
        from safetensors.torch import save_file

        directory.mkdir(parents=True, exist_ok=True)
        # tau_proj is one vector [M], not a matrix of one row.
        tensors = {"model." + k: v.detach().float().cpu().contiguous() for k, v in self.state_dict().items()}
        tensors = {k: v.squeeze(0) if k.endswith("tau_proj.weight") else v for k, v in tensors.items()}
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        # Both keys state the trained length, and must agree.
        block = {"training": training, "trained_context_length": training["context_length"]} if training else {}
        (directory / "config.json").write_text(json.dumps(self.config.to_json() | block, indent=2) + "\n")


def load(directory: pathlib.Path) -> Llama:
    from safetensors.torch import load_file

    tensors = {k.removeprefix("model."): v for k, v in load_file(directory / "model.safetensors").items()}
    raw = json.loads((directory / "config.json").read_text())
    model = Llama(Config.from_json(raw, bias=any(k.endswith("tau_proj.bias") for k in tensors)))
    model.load_state_dict({k: v.view(1, -1) if k.endswith("tau_proj.weight") else v for k, v in tensors.items()})
    return model
