"""The keys of `focus_attention` in config.json, and those used only in training."""

import dataclasses
from typing import Any

BIASES = ("calibrated", "paged", "prompt")
REGIMES = ("frozen", "full", "scratch")
GATES = ("literal", "shifted", "log_gate", "constant_gate", "hard")
GROUPS = ("learned", "random", "none")
ASSIGNMENTS = ("sinkhorn", "softmax")
GROUPS_MAX = 32


@dataclasses.dataclass(frozen=True)
class FocusSettings:
    """One setting of Focus, checked when it is made.

    `gate` is the score's change in training: see gates.py. `groups`: `random` gives every position fixed random groups
    of equal size in place of learned ones, `none` leaves the window alone. `assignment`: Sinkhorn over the sequence, or
    the softmax of the scores alone (b = 0), for contrast. `gate_strength` is the paper's lambda.
    """

    group_count: int
    top_k: int
    window: int
    bias: str = "calibrated"
    routing_dim: int = 16
    assignment_temperature: float = 0.1
    layers: tuple[int, ...] | None = None
    gate: str = "literal"
    gate_strength: float = 8.0
    groups: str = "learned"
    assignment: str = "sinkhorn"
    sinkhorn_rounds: int = 10
    sinkhorn_gradient: bool = True
    random_groups_seed: int = 0

    def __post_init__(self) -> None:
        def need(holds: bool, what: str) -> None:
            if not holds:
                raise ValueError(what)

        need(1 <= self.group_count <= GROUPS_MAX, f"group_count is {self.group_count}, outside 1 to {GROUPS_MAX}")
        need(1 <= self.top_k <= self.group_count, f"top_k is {self.top_k}, outside 1 to group_count ({self.group_count})")
        need(self.window >= 0, f"window is {self.window}, below 0")
        need(self.routing_dim >= 1, f"routing_dim is {self.routing_dim}, below 1")
        need(self.assignment_temperature > 0, f"assignment_temperature is {self.assignment_temperature}, not above 0")
        need(self.sinkhorn_rounds >= 1, f"sinkhorn_rounds is {self.sinkhorn_rounds}, below 1")
        need(self.gate_strength > 0, f"gate_strength is {self.gate_strength}, not above 0")
        for name, allowed in (("bias", BIASES), ("gate", GATES), ("groups", GROUPS), ("assignment", ASSIGNMENTS)):
            value = getattr(self, name)
            need(value in allowed, f"{name} is {value!r}, not one of {', '.join(allowed)}")
        if self.layers is not None:
            need(len(self.layers) > 0, "layers is empty")
            need(list(self.layers) == sorted(set(self.layers)), f"layers {list(self.layers)} do not rise")
            need(self.layers[0] >= 0, f"layers has {self.layers[0]}, below 0")

    @property
    def has_centroids(self) -> bool:
        """Whether projection and centroids take part in what is computed."""
        return self.groups == "learned" and self.gate != "constant_gate"

    def to_config(self, trained_context_length: int, regime: str) -> dict[str, Any]:
        """The value of `focus_attention` in config.json."""
        if self.groups != "learned":
            raise ValueError(f"groups = {self.groups!r} is a control of training and has no checkpoint format")
        if regime not in REGIMES:
            raise ValueError(f"regime is {regime!r}, not one of {', '.join(REGIMES)}")
        stored = ("group_count", "top_k", "window", "routing_dim", "assignment_temperature", "bias")
        out: dict[str, Any] = {name: getattr(self, name) for name in stored}
        if self.layers is not None:
            out["layers"] = list(self.layers)
        return out | {"trained_context_length": trained_context_length, "regime": regime}

    @staticmethod
    def from_config(value: dict[str, Any]) -> "FocusSettings":
        """The inverse; training-only keys get their defaults."""
        stored = {f.name for f in dataclasses.fields(FocusSettings)} - TRAINING_KEYS
        unknown = sorted(set(value) - stored - {"trained_context_length", "regime"})
        if unknown:
            raise ValueError(f"focus_attention has unknown keys: {', '.join(unknown)}")
        keys = {k: v for k, v in value.items() if k in stored}
        if keys.get("layers") is not None:
            keys["layers"] = tuple(keys["layers"])
        missing = [k for k in ("group_count", "top_k", "window", "bias") if k not in keys]
        if missing:
            raise ValueError(f"focus_attention lacks {', '.join(missing)}")
        return FocusSettings(**keys)


TRAINING_KEYS = {
    "gate", "gate_strength", "groups", "assignment", "sinkhorn_rounds", "sinkhorn_gradient", "random_groups_seed",
}  # fmt: skip
