"""One run: an arm at a size, context, learning rate and seed; a trunk at a constant rate, and at every checkpoint a branch that decays.

A checkpoint of N tokens is the trunk's first 80 % of N, then 20 % in which the rate falls linearly to zero: a whole schedule of its own, of which only the
trunk is shared. No weight decay and no clipping, as in emergence/train.py, whose optimizer this is: the equivalences of the arms are exact.
A run resumes at the step of its last state, bit for bit on a CPU, and only on the type of device where it was begun.
"""

import copy
import dataclasses
import json
import pathlib
import time
from typing import Any, Callable

import numpy as np
import torch
import torch.nn.functional as F

from emergence.train import optimizer_of
from llama.arms import Arm, make, named
from llama.cpu_kernels import cross_entropy
from scaling.config import Study
from scaling.data import Corpus

Row = dict[str, Any]
Cell = tuple[str, int, int]  # size, context and seed: the arms of one are paired
SAVE_SECONDS = 120.0
ROWS_AT_ONCE = 8192  # tokens of one forward pass of an evaluation


class OutOfTime(Exception):
    """The deadline has come; the state is saved."""


@dataclasses.dataclass(frozen=True)
class Job:
    """`rate` is that of the reference width."""

    arm: str
    size: str
    context: int
    rate: float
    seed: int
    millions: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.arm}-{self.size}-{self.context}-{self.rate:g}-{self.seed}"

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.millions[-1]

    @property
    def cell(self) -> Cell:
        return self.size, self.context, self.seed


def job_of(row: Row) -> Job:
    return Job(row["arm"], row["size"], row["context"], row["rate"], row["seed"], tuple(row["millions"]))


def key_of(row: Row) -> tuple[str, int]:
    return f"{row['arm']}-{row['size']}-{row['context']}-{row['rate']:g}-{row['seed']}", row["millions"][-1]


def edges(context: int) -> list[int]:
    """Positions are put together between these: 1 to 8, to 16, to 32 and so on."""
    found = [0, 8]
    while found[-1] < context:
        found.append(min(context, 2 * found[-1]))
    return found


class Run:
    """`recipe` replaces the named arm's in tests."""

    def __init__(self, study: Study, job: Job, corpus: Corpus, folder: pathlib.Path, device: str = "cpu", recipe: Arm | None = None) -> None:
        self.study, self.job, self.corpus, self.folder = study, job, corpus, folder
        self.adaptation = study.adaptation(job.arm)
        arm = recipe or named(self.adaptation.start if self.adaptation else job.arm)
        torch.set_default_device("cpu")  # weights depend on the seed alone
        self.net = make(arm, study.shape(job.size, job.context), job.seed, structured=False)
        self.device = torch.device(device)
        self.net.to(self.device).table = None
        torch.set_default_device(self.device)
        self.optimizer = optimizer_of(self.net, arm)
        self.rate = study.rate_at_size(job.rate, job.size)
        self.step, self.seconds = 0, 0.0
        self.branch: int | None = None  # the checkpoint, in millions of tokens, whose decay is running
        self.trunk: dict[str, Any] | None = None  # where it left
        self.found: dict[int, Row] = {}  # finished checkpoints
        self.file = folder / f"{job.name}.pt"
        self.saved = time.monotonic()
        if self.file.exists():
            self.resume()

    def state(self) -> dict[str, Any]:
        return {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}

    def put(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        if self.adaptation and self.step > self.study.steps(self.adaptation.million):
            self.adapt(named(self.adaptation.arm))

    def adapt(self, arm: Arm) -> None:
        """Its constant temperature and its factor of W_q's rate from here on."""
        self.net.config = dataclasses.replace(self.net.config, attention=arm.attention)
        for block in self.net.blocks():
            block.self_attn.setting = arm.attention
        self.optimizer.param_groups[1]["factor"] = arm.q_rate

    def resume(self) -> None:
        state = torch.load(self.file, weights_only=True, map_location=self.device)
        began = state.get("device", "cpu")  # states without one are older than GPUs here
        if began != self.device.type:
            raise ValueError(f"{self.job.name} was begun on {began} and resumes there alone, not on {self.device.type}: their arithmetic differs")
        self.put(state)
        self.branch, self.trunk, self.seconds = state["branch"], state["trunk"], state["seconds"]
        self.found = {int(k): v for k, v in json.loads(state["found"]).items()}

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        state = self.state() | {"branch": self.branch, "trunk": self.trunk, "seconds": self.seconds, "found": json.dumps(self.found),
                                "device": self.device.type}  # fmt: skip
        torch.save(state, self.file.with_suffix(".new"))
        self.file.with_suffix(".new").rename(self.file)
        self.saved = time.monotonic()

    def share(self) -> float:
        """Of the rate, at this step."""
        if self.branch is None:
            return min(1.0, (self.step + 1) / self.study.warmup)
        end, start = self.study.steps(self.branch), self.study.branch_step(self.branch)
        return min(1.0, (self.step + 1) / self.study.warmup) * (end - self.step) / (end - start)

    def loss(self, ids: torch.Tensor) -> torch.Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.study.bf16):
            logits = self.net.logits(self.net.hidden(ids[:, :-1]))
        return cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    def one_step(self) -> float:
        began = time.process_time()
        if self.adaptation and self.step == self.study.steps(self.adaptation.million):
            self.adapt(named(self.adaptation.arm))
        ids = self.corpus.batch(self.study, self.job.seed, self.step, self.job.context).to(self.device)
        share = self.share()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * group["factor"] * share
        loss = self.loss(ids)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1
        self.seconds += time.process_time() - began
        return loss.item()

    def go_to(self, step: int, deadline: float) -> None:
        while self.step < step:
            if time.monotonic() > deadline:
                self.save()
                raise OutOfTime
            self.one_step()
            if time.monotonic() - self.saved > SAVE_SECONDS:
                self.save()

    def train(self, deadline: float = float("inf"), told: Callable[[str], None] = lambda _: None) -> Row:
        """All checkpoints of the job, and what the results file keeps of them."""
        for millions in self.job.millions:
            if millions in self.found:
                continue
            if self.branch is None:
                start = self.study.branch_step(millions)
                if self.step > start:
                    raise ValueError(f"{self.job.name}: the trunk is past the branch to {millions} M tokens")
                self.go_to(start, deadline)
                self.trunk, self.branch = copy.deepcopy(self.state()), millions
            self.go_to(self.study.steps(millions), deadline)
            self.found[millions] = self.evaluate()
            self.export(millions)
            assert self.trunk is not None
            self.put(self.trunk)
            self.branch = self.trunk = None
            self.save()
            told(f"{self.job.name}: {millions} M tokens")  # no loss: runs are not to be looked at
        return self.row()

    def row(self) -> Row:
        kept = [self.found[m] for m in self.job.millions]
        parameters = sum(p.numel() for p in self.net.parameters())
        return {"arm": self.job.arm, "size": self.job.size, "parameters": parameters, "context": self.job.context, "rate": self.job.rate,
                "seed": self.job.seed, "millions": list(self.job.millions), "seconds": round(self.seconds), "device": self.device.type,
                **{name: [k[name] for k in kept] for name in ("loss", "by_position", "by_document")}}  # fmt: skip

    @torch.no_grad()
    def evaluate(self) -> Row:
        """In float32: nats a token of the held-out documents' beginnings, in windows of the context; whole, by position, by document."""
        began = time.process_time()
        context, documents = self.job.context, self.corpus.evaluated(self.study, self.job.seed)
        count = self.study.evaluation_tokens // context
        starts = np.arange(count)[:, None] * context + np.arange(context + 1)
        rows = torch.from_numpy(documents[:, starts].reshape(-1, context + 1))
        losses = []
        for part in rows.split(max(1, ROWS_AT_ONCE // context)):  # type: ignore[no-untyped-call]
            part = part.to(self.device)
            logits = self.net.logits(self.net.hidden(part[:, :-1]))
            losses.append(F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="none").view(part.shape[0], -1).double().cpu())
        each = torch.cat(losses)
        at = edges(context)
        self.seconds += time.process_time() - began
        return {"loss": round(each.mean().item(), 6),
                "by_position": [round(each[:, a:b].mean().item(), 4) for a, b in zip(at, at[1:])],
                "by_document": [round(x, 4) for x in each.view(len(documents), -1).mean(1).tolist()]}  # fmt: skip

    def export(self, millions: int) -> None:
        """A checkpoint that the product loads."""
        training = {"tokens": self.study.steps(millions) * self.study.tokens_per_step, "seed": self.job.seed,
                    "context_length": self.job.context, "arm": self.job.arm}  # fmt: skip
        self.net.save(self.folder / "exports" / f"{self.job.name}-{millions}M", training)


def speed(study: Study, corpus: Corpus, size: str, context: int, steps: int = 8) -> float:
    """Tokens per second of processor time on one thread, of the baseline's first steps after two; keeps nothing."""
    torch.set_num_threads(1)
    run = Run(study, Job("baseline", size, context, study.rates[0], 0, (1,)), corpus, pathlib.Path("no state"))
    for _ in range(2):
        run.one_step()
    run.seconds = 0.0
    for _ in range(steps):
        run.one_step()
    return steps * study.tokens_per_step / run.seconds
