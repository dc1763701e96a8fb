"""The arms: what differs between two runs of one recipe. A new arm is a row of ARMS."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch

from llama.config import Attention, Config, Tau
from llama.model import Llama
from llama.start import started

T = 0.4  # the papers' best constant temperature
SOFT_T = 1.3


@dataclasses.dataclass(frozen=True)
class Arm:
    """`attention` as in config.json; `q_start` multiplies W_q's initial weights, `q_rate` its learning rate."""

    attention: Attention = Attention()
    q_start: float = 1.0
    q_rate: float = 1.0

    def __post_init__(self) -> None:
        for name in ("q_start", "q_rate"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, not positive and finite")


def tau(**settings: Any) -> Arm:
    return Arm(Attention(tau=Tau(**settings)))


ARMS: dict[str, Arm] = {
    "baseline": Arm(),
    # Constant t from the usual start, as in the paper: the baseline with W_q's start and rate divided by t.
    "focal": Arm(Attention(temperature=T)),
    "focal-0.6": Arm(Attention(temperature=0.6)),
    "focal-0.8": Arm(Attention(temperature=0.8)),
    # The same from a start that computes the baseline's function: the baseline with W_q's rate divided by t.
    "focal-preserving": Arm(Attention(temperature=T), q_start=T),
    # The other cells of {W_q's start, W_q's rate}, at t = 1.
    "init-only": Arm(q_start=1 / T),
    "rate-only": Arm(q_rate=1 / T),
    # Softer than the baseline by the mean of log-n's factor over the rows of 64 tokens, ln(64!) / (64 ln 64) = 0.77: by a constant
    # temperature, and at the start alone.
    "soft": Arm(Attention(temperature=SOFT_T)),
    "soft-init": Arm(q_start=1 / SOFT_T),
    # Learned tau; from sqrt(head width), except where a start is given.
    "tau-causal": tau(),
    "tau-token": tau(mean="token"),
    "tau-sequence": tau(mean="sequence"),
    "tau-causal-plain-clip": tau(clip="plain"),
    "tau-causal-no-bias": tau(bias=False),
    "tau-causal-no-bias-plain-clip": tau(bias=False, clip="plain"),
    "tau-causal-wide": tau(ceiling=2.0),
    "tau-token-wide": tau(mean="token", ceiling=2.0),
    "tau-sequence-wide": tau(mean="sequence", ceiling=2.0),
    # From the middle of its range, and from a start that computes the baseline's function.
    "tau-causal-preserving": Arm(Attention(tau=Tau(floor=0.442, start=0.721)), q_start=0.721),
    # Logits times ln(visible keys), divided by that of the trained length or times a learned number of each head.
    "log-n": Arm(Attention(log_n=0)),
    "log-n-constant": Arm(Attention(log_n=2048)),
}


def named(name: str) -> Arm:
    if name not in ARMS:
        raise ValueError(f"no arm {name!r}; the arms are {', '.join(ARMS)}")
    return ARMS[name]


def make(arm: Arm, config: Config, seed: int, structured: bool = True, add: Callable[[Llama], None] | None = None) -> Llama:
    """Arms of one seed have the same initial weights but for W_q's factor; `add` as of start.started."""
    attention = arm.attention
    if attention.log_n:  # the constant of a recipe is its own trained length
        attention = dataclasses.replace(attention, log_n=config.trained_context_length)
    net = started(dataclasses.replace(config, attention=attention), seed, structured, add)
    with torch.no_grad():
        for block in net.blocks():
            block.self_attn.q_proj.weight *= arm.q_start
    return net
