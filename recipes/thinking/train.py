"""Trains the model, a llama of three layers with the shipped models' width and structured start, and resumes from DIR/state.pt."""

import dataclasses
import json
import pathlib
import time

import torch
import torch.nn.functional as F

from llama import optimizer
from llama.config import Config
from llama.model import Llama
from llama.start import started
from thinking import data

NAMES, CONTEXTS = 24, 48  # of the questions
SAVE_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Plan:
    steps: int = 87
    seed: int = 20261128
    rows: int = 16
    length: int = 192
    fewest: int = 5  # names in the notes
    most: int = 26
    learning_rate: float = 5e-4
    muon_factor: float = 2.0
    warmup: int = 20

    def rate_at(self, step: int) -> float:
        """Level after the warm-up, so that more steps continue a run."""
        return self.learning_rate * min((step + 1) / self.warmup, 1.0)


def shape(vocabulary: int, length: int) -> Config:
    return Config(vocab_size=vocabulary, num_hidden_layers=3, intermediate_size=192, trained_context_length=length, max_position_embeddings=4096)


def train(plan: Plan, out: pathlib.Path, export: pathlib.Path, threads: int) -> Llama:
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(threads)
    writer = data.Writer()
    net = started(shape(writer.tokenizer.get_vocab_size(), plan.length), plan.seed)
    every = optimizer.optimizers(net, q_rate=1.0, muon_factor=plan.muon_factor)
    step, seconds = 0, 0.0
    state_file = out / "state.pt"
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        net.load_state_dict(state["net"])
        for o, saved in zip(every, state["optimizers"]):
            o.load_state_dict(saved)
        step, seconds = state["step"], state["seconds"]

    def save() -> None:
        torch.save({"net": net.state_dict(), "optimizers": [o.state_dict() for o in every], "step": step, "seconds": seconds},
                   state_file.with_suffix(".new"))  # fmt: skip
        state_file.with_suffix(".new").rename(state_file)

    saved_at = time.monotonic()
    while step < plan.steps:
        began = time.process_time()
        raw_ids, raw_marks = writer.batch(plan.seed, step, plan.rows, plan.length, plan.fewest, plan.most)
        ids, marks = torch.from_numpy(raw_ids), torch.from_numpy(raw_marks)
        logits = net.logits(net.hidden(ids)[marks])
        gold = ids.roll(-1, 1)[marks]
        loss = F.cross_entropy(logits, gold)
        optimizer.step(every, net, plan.rate_at(step), loss)
        step += 1
        seconds += time.process_time() - began
        if step % 20 == 0 or step == plan.steps:
            right = (logits.argmax(-1) == gold).float().mean().item()
            line = {"step": step, "seconds": round(seconds, 1), "loss": round(loss.item(), 4), "right": round(right, 4)}
            with (out / "log.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{step} of {plan.steps} steps, loss {loss.item():.3f}, {right:.3f} of the tokens right, {seconds:.0f} s of a core", flush=True)
        if time.monotonic() - saved_at > SAVE_SECONDS or step == plan.steps:
            save()
            saved_at = time.monotonic()
    net.save(export, {"tokens": plan.steps * plan.rows * plan.length, "seed": plan.seed, "context_length": plan.length, "arm": "thinking"})
    return net
