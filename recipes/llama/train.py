"""Trains one run; resumes from DIR/state.pt, logs to DIR/log.jsonl, and writes DIR/export when done or asked."""

import dataclasses
import json
import pathlib
import shutil
import time
from typing import Any

import torch
import torch.nn.functional as F

from llama import arms, data, hops, moves
from llama.attention_loss import attention_loss
from llama.model import Llama
from llama.optimizer import optimizers, step
from llama.run import Run

LOG_EVERY = 25
# The first word of a sequence tells its family.
FIRST_WORDS = {"Find": "recall_kv", "Label": "icl_labels", "Answer": "rag_facts", "Read": "longqa_story"}


class Trainer:
    def __init__(self, run: Run, out: pathlib.Path, device: str = "cpu") -> None:
        """`device` becomes the default one: what a step creates is there. Weights are made on the CPU, so that they depend on the seed
        alone."""
        self.run, self.out, self.words = run, out, data.Words()
        arm = run.recipe
        self.file = out / "state.pt"
        torch.set_default_device("cpu")

        def add_heads(net: Llama) -> None:
            moves.add_heads(net, self.words, run.seed)

        self.net = arms.make(arm, run.shape, run.seed, run.plan.structured, add_heads if run.plan.last_move_heads else None)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.tally: dict[str, list[float]] = {}
        out.mkdir(parents=True, exist_ok=True)
        state: dict[str, Any] | None = None
        if self.file.exists():
            state = torch.load(self.file, weights_only=True, map_location="cpu")
            if state.get("run") != repr(run):
                raise ValueError(f"{out} has a run of another plan, arm or seed; choose another --out, or remove it")
            self.net.load_state_dict(state["net"])
            self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
            self.tally = state["tally"]
        self.device = torch.device(device)
        self.net.to(self.device).table = None
        torch.set_default_device(self.device)
        self.optimizers = optimizers(self.net, arm.q_rate, run.plan.muon_factor)
        if state is not None:
            for o, s in zip(self.optimizers, state["optimizers"]):
                o.load_state_dict(s)

    def save(self) -> None:
        state = {"run": repr(self.run), "net": self.net.state_dict(), "optimizers": [o.state_dict() for o in self.optimizers], "step": self.step,
                 "tokens": self.tokens, "seconds": self.seconds, "tally": self.tally}  # fmt: skip
        torch.save(state, self.file.with_suffix(".new"))
        self.file.with_suffix(".new").rename(self.file)

    def one_step(self) -> float:
        plan, phase = self.run.plan, self.run.plan.phase_at(self.step)
        raw_ids, raw_marks = data.batch(self.words, self.run.seed, self.step, phase.rows, phase.length, phase.mix, phase.data_options)
        ids, marks = torch.from_numpy(raw_ids).to(self.device), torch.from_numpy(raw_marks).to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=plan.bf16):
            inputs: list[torch.Tensor] = []
            logits = self.net.logits(self.net.hidden(ids, inputs)[marks])
        gold = ids.roll(-1, 1)[marks]
        each = F.cross_entropy(logits.float(), gold, reduction="none")
        # Every row counts by the square root of its marks, so that families with few are not dominated by those with many.
        row = torch.arange(phase.rows)[:, None].expand_as(marks)[marks]
        weight = 1.0 / marks.sum(1).clamp(min=1)[row].float().sqrt()
        loss = (each * weight).sum() / weight.sum()
        self.count("loss", loss.item(), 1)
        for name, factor, find in (("hop_loss", phase.hop_loss, hops.find), ("move_loss", phase.move_loss, moves.find)):
            if factor:
                auxiliary = attention_loss(self.net, inputs, find(self.words, raw_ids, raw_marks))
                self.count(name, auxiliary.item(), 1)
                loss = loss + factor * auxiliary
        step(self.optimizers, self.net, plan.rate_at(self.step), loss)
        self.count_hits(ids.cpu(), marks.cpu(), (logits.argmax(-1) == gold).float().cpu(), row.cpu())
        self.step += 1
        self.tokens += phase.rows * phase.length
        return loss.item()

    def count(self, name: str, value: float, n: int) -> None:
        total = self.tally.setdefault(name, [0.0, 0.0])
        total[0] += value
        total[1] += n

    def count_hits(self, ids: torch.Tensor, marks: torch.Tensor, hit: torch.Tensor, row: torch.Tensor) -> None:
        """By family; questions of rag_facts through two documents and those for the friend apart."""
        friend = self.words.one(" friend")
        for r in range(len(ids)):
            name = FIRST_WORDS.get(self.words.tokenizer.id_to_token(int(ids[r, 1])) or "", "copy")
            hits = hit[row == r]
            if name != "rag_facts":
                self.count(name, float(hits.sum()), len(hits))
                continue
            tokens = ids[r].tolist()
            for at, right in zip(marks[r].nonzero().flatten().tolist(), hits.tolist()):
                # Else at " is" of "The friend of <first> <second> is", or after it.
                hop = data.asks_two_documents(self.words, tokens, at)
                kind = "rag_facts, two documents" if hop else "rag_facts, friend" if friend in tokens[at - 5 : at] else name
                self.count(kind, right, 1)

    def log(self) -> None:
        shares = {k: round(v[0] / max(1.0, v[1]), 4) for k, v in sorted(self.tally.items())}
        line: dict[str, Any] = {"step": self.step, "tokens": self.tokens, "seconds": round(self.seconds, 1),
                                "length": self.run.plan.phase_at(self.step - 1).length} | shares  # fmt: skip
        tau = self.run.recipe.attention.tau
        if tau is not None and tau.bias:
            line["tau_bias"] = [round(b.self_attn.tau_proj.bias.item(), 3) for b in self.net.blocks()]
        with (self.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.tally = {}

    def train(self, save_seconds: float) -> None:
        saved = time.monotonic()
        while self.step < self.run.plan.steps:
            began = time.process_time()
            self.one_step()
            self.seconds += time.process_time() - began
            if self.step % LOG_EVERY == 0 or self.step == self.run.plan.steps:
                self.log()
            if time.monotonic() - saved > save_seconds:
                self.save()
                saved = time.monotonic()
        self.save()
        self.export(self.out / "export")

    def export(self, directory: pathlib.Path) -> None:
        """A checkpoint with its `training` block; of an unfinished run, the length that it has reached."""
        length = max(self.run.plan.phase_at(s).length for s in range(max(1, self.step)))
        self.net.config = dataclasses.replace(self.net.config, trained_context_length=length)
        self.net.save(directory, {"tokens": self.tokens, "seed": self.run.seed, "context_length": length, "arm": self.run.arm})
        shutil.copy(data.TOKENIZER, directory)


