"""A model's shape and attention, and their keys in config.json (docs/formats.md)."""

import dataclasses
import math
from typing import Any

TAU_MEANS = ("causal", "token", "sequence")
CLIPS = ("straight_through", "plain")


@dataclasses.dataclass(frozen=True)
class Tau:
    """Learned temperature: logits are q.k / tau, tau = clip(mean(x.w + b), floor, ceiling), x the input of W_q.

    `floor` and `ceiling` are in units of sqrt(head width). `clip` is the gradient outside of them: that of the identity, or
    none. Where there is a bias, it starts at `start` sqrt(head width) and w at zero; otherwise w starts at normal(0, 0.02).
    """

    mean: str = "causal"
    bias: bool = True
    clip: str = "straight_through"
    floor: float = 0.44
    ceiling: float = 1.0
    start: float = 1.0

    def __post_init__(self) -> None:
        if self.mean not in TAU_MEANS:
            raise ValueError(f"tau's mean is {self.mean!r}, not one of {', '.join(TAU_MEANS)}")
        if self.clip not in CLIPS:
            raise ValueError(f"tau's clip is {self.clip!r}, not one of {', '.join(CLIPS)}")
        if not 0 < self.floor <= self.start <= self.ceiling:
            raise ValueError(f"tau needs 0 < floor <= start <= ceiling, not {self.floor}, {self.start}, {self.ceiling}")


@dataclasses.dataclass(frozen=True)
class Attention:
    """What multiplies the logits: 1 / temperature, or tau, and ln(visible keys) times 1 / ln(log_n) or, where log_n is 0, a
    learned number of each head."""

    temperature: float = 1.0
    tau: Tau | None = None
    log_n: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature is {self.temperature}, not positive and finite")
        if self.tau is not None and self.temperature != 1:
            raise ValueError("a learned tau replaces the temperature; one of the two must be left out")
        if self.log_n is not None and (self.log_n < 0 or self.log_n == 1):
            raise ValueError(f"log_n is {self.log_n}, not 0 (learned) or a length of 2 or more")

    def keys(self, head_dim: int) -> dict[str, Any]:
        """Keys of config.json."""
        out: dict[str, Any] = {}
        root = math.sqrt(head_dim)
        if self.tau is not None:
            out["focal_attention"] = {"mode": "learned", "tau_min": self.tau.floor * root, "tau_max": self.tau.ceiling * root,
                                      "tau_mean": self.tau.mean}  # fmt: skip
        elif self.temperature != 1:
            out["focal_attention"] = {"mode": "constant", "temperature": self.temperature}
        if self.log_n is not None:
            out["log_n_attention"] = {"mode": "constant", "trained_length": self.log_n} if self.log_n else {"mode": "learned"}
        return out

    @staticmethod
    def from_keys(raw: dict[str, Any], head_dim: int, bias: bool) -> "Attention":
        """Of a config.json's keys; `bias`: whether the file has a bias of tau. How tau was started and clipped is not in it."""
        focal, scale = raw.get("focal_attention") or {}, raw.get("log_n_attention") or {}
        log_n = None if not scale else scale["trained_length"] if scale["mode"] == "constant" else 0
        if focal.get("mode") == "learned":
            root = math.sqrt(head_dim)
            low, high = focal["tau_min"] / root, focal["tau_max"] / root
            return Attention(tau=Tau(mean=focal["tau_mean"], bias=bias, floor=low, ceiling=high, start=high), log_n=log_n)
        if focal.get("mode", "constant") != "constant":
            raise ValueError(f"focal_attention.mode {focal['mode']!r} is not implemented here")
        return Attention(temperature=focal.get("temperature", 1.0), log_n=log_n)


@dataclasses.dataclass(frozen=True)
class Config:
    """Hugging Face's names; the defaults are those of the shipped models."""

    vocab_size: int = 2023
    hidden_size: int = 192
    intermediate_size: int = 384
    num_hidden_layers: int = 4
    num_attention_heads: int = 6
    num_key_value_heads: int = 6
    head_dim: int = 32
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e10
    max_position_embeddings: int = 65536
    trained_context_length: int = 2048
    attention: Attention = Attention()

    def to_json(self) -> dict[str, Any]:
        """config.json of a Hugging Face llama, with our keys where they apply."""
        shape = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "attention"}
        fixed = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rope_scaling": None,
                 "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True, "bos_token_id": 0,
                 "eos_token_id": 1, "torch_dtype": "float32"}  # fmt: skip
        return fixed | shape | self.attention.keys(self.head_dim)

    @staticmethod
    def from_json(raw: dict[str, Any], bias: bool = True) -> "Config":
        names = {f.name for f in dataclasses.fields(Config)} - {"attention"}
        attention = Attention.from_keys(raw, raw["head_dim"], bias)
        return Config(**{k: v for k, v in raw.items() if k in names}, attention=attention)
