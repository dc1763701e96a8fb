"""Fits t = exp(theta) of every head; all weights are frozen. Resumable; a step's batch depends on seed and step alone.

q.k / (t sqrt(d)): the output of each layer's q_proj is divided by its heads' t, which `llama/fold.py` folds into W_q. Models
whose queries pass a norm after the projection are refused: the norm would undo it.
"""

import dataclasses
import json
import pathlib
import time
import tomllib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focus.config import DataConfig, located
from focus.data import Text
from llama.run import build


@dataclasses.dataclass(frozen=True)
class FitConfig:
    base: str
    seed: int
    steps: int
    rows: int
    learning_rate: float
    warmup: int
    data: DataConfig

    @property
    def directory(self) -> pathlib.Path:
        return located(self.base)


def read(path: pathlib.Path) -> FitConfig:
    raw = tomllib.loads(path.read_text())
    return build(FitConfig, raw | {"data": build(DataConfig, raw.pop("data"))})


class HeadTemperatures(nn.Module):
    """theta [L, H] from zero, applied in the model's q_proj by hooks."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        projections = [m.q_proj for m in model.modules() if hasattr(m, "q_proj")]
        if not projections or any(hasattr(m, "q_norm") for m in model.modules()):
            raise ValueError("temperatures of heads need layers with q_proj and without q_norm")
        self.heads = model.config.num_attention_heads
        self.theta = nn.Parameter(torch.zeros(len(projections), self.heads))
        for layer, projection in enumerate(projections):
            projection.register_forward_hook(self.hook(layer))

    def hook(self, layer: int) -> Any:
        def divide(_: nn.Module, __: Any, out: Tensor) -> Tensor:
            scale = torch.exp(-self.theta[layer]).to(out.dtype)
            return (out.view(*out.shape[:-1], self.heads, -1) * scale[:, None]).view(out.shape)

        return divide

    def temperatures(self) -> list[list[float]]:
        rows: list[list[float]] = self.theta.detach().double().exp().tolist()
        return rows


def loss_of(model: Any, ids: Tensor, weights: Tensor) -> Tensor:
    """Mean negative log-likelihood, nats per token, of each row."""
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    each = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    return (each * weights[:, :-1]).sum(1) / weights[:, :-1].sum(1)


class Fitter:
    def __init__(self, config: FitConfig, out: pathlib.Path, dtype: torch.dtype = torch.bfloat16) -> None:
        from transformers import AutoModelForCausalLM

        out.mkdir(parents=True, exist_ok=True)
        self.config, self.out = config, out
        self.model: Any = AutoModelForCausalLM.from_pretrained(config.directory, dtype=dtype).requires_grad_(False)
        self.heads = HeadTemperatures(self.model)
        self.source = Text(config.data, config.seed, config.directory / "tokenizer.json", out / "cache")
        self.optimizer = torch.optim.Adam(self.heads.parameters(), lr=config.learning_rate, betas=(0.9, 0.98))
        self.step, self.seconds = 0, 0.0
        self.file = out / "state.pt"
        if self.file.exists():
            state = torch.load(self.file, weights_only=True)
            self.heads.load_state_dict(state["heads"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.seconds = state["step"], state["seconds"]

    def save(self) -> None:
        state = {"heads": self.heads.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step, "seconds": self.seconds}
        torch.save(state, self.file.with_suffix(".new"))
        self.file.with_suffix(".new").rename(self.file)
        (self.out / "temperatures.json").write_text(json.dumps(self.heads.temperatures()) + "\n")

    def one_step(self) -> float:
        c = self.config
        ids, weights = self.source.batch(self.step, c.rows)
        # Warms up, then falls linearly to zero.
        rate = c.learning_rate * min((self.step + 1) / c.warmup, 1 - self.step / c.steps)
        self.optimizer.param_groups[0]["lr"] = rate
        loss = loss_of(self.model, ids, weights).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def fit(self) -> None:
        """To the last step; saves after each, which costs nothing beside it."""
        c = self.config
        while self.step < c.steps:
            began = time.process_time()
            loss = self.one_step()
            self.seconds += time.process_time() - began
            t = self.heads.theta.detach().exp()
            line = {"step": self.step, "tokens": self.step * c.rows * c.data.length, "seconds": round(self.seconds, 1),
                    "loss": round(loss, 4), "mean_t": round(float(self.heads.theta.detach().mean().exp()), 4),
                    "least_t": round(float(t.min()), 4), "largest_t": round(float(t.max()), 4)}  # fmt: skip
            with (self.out / "log.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            self.save()

    @torch.no_grad()
    def held_out(self) -> list[dict[str, float]]:
        """Of every held-out window: loss at t = 1 and as fitted."""
        ids, weights = self.source.held_out()
        fitted = self.heads.theta.detach().clone()
        rows = []
        for i in range(len(ids)):
            pair = {}
            for name, theta in (("base", torch.zeros_like(fitted)), ("fitted", fitted)):
                self.heads.theta.copy_(theta)
                pair[name] = loss_of(self.model, ids[i : i + 1], weights[i : i + 1]).item()
            rows.append(pair)
        self.heads.theta.copy_(fitted)
        return rows


def summary(temperatures: list[list[float]], rows: list[dict[str, float]]) -> str:
    """Where the optimum is, and what it gains on other text: geometric means by layer, Student's interval over windows."""
    from emergence.analysis import paired

    t = torch.tensor(temperatures, dtype=torch.float64)
    out = [f"{t.numel()} heads: geometric mean of t {t.log().mean().exp():.3f}; {(t < 1).double().mean():.0%} below 1; from {t.min():.3f} to {t.max():.3f}", "",
           "| layer | geometric mean of t | least | largest |", "| --- | --- | --- | --- |"]  # fmt: skip
    out += [f"| {i} | {row.log().mean().exp():.3f} | {row.min():.3f} | {row.max():.3f} |" for i, row in enumerate(t)]
    if len(rows) > 1:
        d = paired([r["fitted"] - r["base"] for r in rows])
        base = sum(r["base"] for r in rows) / len(rows)
        out += ["", f"held-out loss {base:.4f} at t = 1, fitted minus that {d.mean:+.4f} ({d.low:+.4f} to {d.high:+.4f}) nats per token, {len(rows)} windows"]
    return "\n".join(out) + "\n"
