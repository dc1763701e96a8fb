"""Training of one run: seeded, resumable, one line of JSON a step.

A step's batch depends only on the seed and the step, dropout is off, and the state includes the optimizer; so a
resumed run has the same losses and weights as an uninterrupted one.
"""

import dataclasses
import hashlib
import json
import math
import pathlib
import time
from typing import Any

import torch
from torch import nn

from focus import measure
from focus.attention import FocusMode
from focus.build import build, describe, set_trained, trained_length
from focus.checkpoint import export
from focus.config import Phase, RunConfig
from focus.data import Source, source


def rate(phase: Phase, step: int) -> float:
    """Of `step` steps into the phase: a straight warm-up, then a cosine down to a tenth."""
    warm = min(1.0, (step + 1) / max(1, phase.warmup))
    done = min(1.0, max(0.0, (step - phase.warmup) / max(1, phase.steps - phase.warmup)))
    return phase.learning_rate * warm * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


def phase_at(run: RunConfig, step: int) -> tuple[int, int]:
    """(index of the phase, steps into it)."""
    for index, phase in enumerate(run.phases):
        if step < phase.steps:
            return index, step
        step -= phase.steps
    return len(run.phases), 0


def identity(run: RunConfig, base: pathlib.Path) -> str:
    """Of what decides the losses and weights of a run: its configuration, but for how often it logs, measures and saves, and the base's weights."""
    digest = hashlib.sha256(repr(dataclasses.replace(run, log_every=1, evaluate_every=0, save_every=1)).encode())
    for file in sorted(base.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Log:
    """log.jsonl; on resuming, lines of steps after the saved one are dropped."""

    def __init__(self, path: pathlib.Path, step: int) -> None:
        kept = []
        if path.exists():
            kept = [line for line in path.read_text().splitlines() if json.loads(line)["step"] <= step]
        path.write_text("".join(line + "\n" for line in kept))
        self.path = path

    def put(self, record: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")


class Trainer:
    def __init__(self, run: RunConfig, out: pathlib.Path, cache: pathlib.Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.run, self.out = run, out
        self.model: nn.Module
        self.mode: FocusMode | None
        self.model, self.mode, self.base = build(run, out)
        self.identity = identity(run, self.base)
        self.data: Source = source(run, self.base, cache)
        self.step, self.seconds = 0, 0.0
        self.phase, self.optimizer = -1, None
        self.state_file = out / "state.pt"
        if self.state_file.exists():
            self.resume()
        self.log = Log(out / "log.jsonl", self.step)

    def enter(self, index: int) -> None:
        """A phase starts with a new optimizer: no decay on what Focus adds or on vectors."""
        phase = self.run.phases[index]
        chosen = {id(p) for p in set_trained(self.model, phase.trains)}
        decayed, plain = [], []
        for name, p in self.model.named_parameters():
            if id(p) in chosen:
                (decayed if p.ndim >= 2 and ".focus." not in name and "lora_" not in name else plain).append(p)
        groups = [{"params": plain, "weight_decay": 0.0}]
        if decayed:
            groups.append({"params": decayed, "weight_decay": phase.weight_decay})
        self.optimizer = torch.optim.AdamW(groups, lr=phase.learning_rate, betas=(0.9, 0.98))
        self.phase = index

    def resume(self) -> None:
        state = torch.load(self.state_file, weights_only=True)
        if state.get("identity") != self.identity:
            raise ValueError(f"{self.out} has a run of another configuration, seed or base; choose another --out, or remove it")
        own = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        with torch.no_grad():
            for name, w in state["tensors"].items():
                own[name].copy_(w)
        self.step, self.seconds = state["step"], state["seconds"]
        if state["phase"] >= 0:
            self.enter(state["phase"])
            assert self.optimizer is not None
            self.optimizer.load_state_dict(state["optimizer"])

    def save(self) -> None:
        """All that any phase so far has trained, and the biases."""
        full = self.run.model.regime in ("full", "scratch")
        tensors = {n: p.detach() for n, p in self.model.named_parameters() if full or ".focus." in n or "lora_" in n}
        tensors |= {n: b for n, b in self.model.named_buffers() if n.endswith("group_bias")}
        state = {"identity": self.identity, "step": self.step, "seconds": self.seconds, "phase": self.phase, "tensors": tensors}
        state["optimizer"] = self.optimizer.state_dict() if self.optimizer else None
        torch.save(state, self.state_file.with_suffix(".new"))
        self.state_file.with_suffix(".new").rename(self.state_file)

    def one_step(self) -> dict[str, Any]:
        index, into = phase_at(self.run, self.step)
        if index != self.phase:
            self.enter(index)
        assert self.optimizer is not None
        phase, began = self.run.phases[index], time.monotonic()
        lr = rate(phase, into)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        ids, weights = self.data.batch(self.step, phase.rows)
        total = weights[:, :-1].sum()
        value = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for start in range(0, phase.rows, phase.rows_at_once):
            part = slice(start, start + phase.rows_at_once)
            some = measure.weighted_losses(self.model, ids[part], weights[part])[0].sum()
            (some / total).backward()
            value += some.item() / total.item()
        norm = nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.requires_grad], 1.0)
        if not math.isfinite(value) or not math.isfinite(norm.item()):
            raise FloatingPointError(f"step {self.step}: loss {value}, gradient norm {norm.item()}")
        self.optimizer.step()
        self.step += 1
        self.seconds += time.monotonic() - began
        return {"step": self.step, "trains": phase.trains, "loss": value, "rate": lr, "norm": norm.item(),
                "tokens": ids.numel(), "seconds": round(self.seconds, 2)}  # fmt: skip

    def evaluate(self) -> dict[str, Any]:
        phase = self.run.phases[max(self.phase, 0)]
        ids, weights = self.data.held_out()
        found = measure.evaluate(self.model, self.mode, ids, weights, self.data.calibration(), phase.rows_at_once)
        return {"step": self.step, "held_out": found}

    def train(self, steps: int | None = None) -> None:
        """To the end of the run, or `steps` further."""
        end = self.run.steps if steps is None else min(self.run.steps, self.step + steps)
        if self.step == 0:
            trains = dict.fromkeys(p.trains for p in self.run.phases)
            self.log.put({"step": 0, "describes": [describe(self.run, self.model, t) for t in trains]})
            if self.run.evaluate_every:
                self.log.put(self.evaluate())
        while self.step < end:
            record = self.one_step()
            if self.step % self.run.log_every == 0 or self.step == end:
                self.log.put(record)
            last = self.step == self.run.steps
            if last or (self.run.evaluate_every and self.step % self.run.evaluate_every == 0):
                self.log.put(self.evaluate())
            if last or self.step == end or self.step % self.run.save_every == 0:
                self.save()

    def export(self, directory: pathlib.Path) -> None:
        """A checkpoint the engine loads; the biases are those of the last evaluation, which every run ends with."""
        if self.mode is None:
            raise ValueError("a LoRA run has no Focus to export")
        if self.step < self.run.steps:
            raise ValueError(f"the run is at step {self.step} of {self.run.steps}; finish it first")
        export(self.model, self.run.focus, self.base, directory, trained_length(self.base, self.run), self.run.model.regime)  # type: ignore[arg-type]
