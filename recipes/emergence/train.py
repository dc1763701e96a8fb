"""One run: an arm at a learning rate and a seed, trained until recall has emerged or `steps_max`; resumable.

A run with the same seed has the same initial weights (but for W_q's factor) and batches in every arm. No weight decay
and no clipping: with either, the equivalence of docs/studies/recall_from_scratch.md would hold approximately. Seconds are of the
process's own time.
"""

import json
import pathlib
import time
from typing import Any

import torch
import torch.nn.functional as F

from emergence import data
from emergence.config import Study
from llama.arms import Arm, make, named
from llama.config import Config
from llama.model import Llama

SAVE_EVERY = 200


def shape(study: Study) -> Config:
    return Config(
        vocab_size=study.vocabulary, hidden_size=study.hidden, intermediate_size=2 * study.hidden,
        num_hidden_layers=study.layers, num_attention_heads=study.heads, num_key_value_heads=study.heads,
        head_dim=study.hidden // study.heads, rope_theta=1e4, trained_context_length=study.length,
    )  # fmt: skip


def optimizer_of(net: Llama, arm: Arm) -> torch.optim.AdamW:
    queries = [p for n, p in net.named_parameters() if "q_proj" in n]
    rest = [p for n, p in net.named_parameters() if "q_proj" not in n]
    groups = [{"params": rest, "factor": 1.0}, {"params": queries, "factor": arm.q_rate}]
    return torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-12, weight_decay=0.0)


class Run:
    """`arm` is a name of llama/arms.py, or an arm of a test."""

    def __init__(self, study: Study, arm: str | Arm, learning_rate: float, seed: int, out: pathlib.Path) -> None:
        self.study, self.learning_rate, self.seed = study, learning_rate, seed
        self.name, recipe = (arm, named(arm)) if isinstance(arm, str) else ("unnamed", arm)
        self.net = make(recipe, shape(study), seed, structured=False)
        self.optimizer = optimizer_of(self.net, recipe)
        self.held_out = data.held_out(study.evaluation_rows, study.vocabulary, study.length)
        self.step, self.seconds = 0, 0.0
        self.curve: list[tuple[int, float, float]] = []  # step, share of right answers, training loss
        self.log_likelihoods: list[float] = []  # of the right answers, mean in nats, at the same steps
        self.file = out / f"{self.name}-{learning_rate:g}-{seed}.pt"
        if self.file.exists():
            self.resume()

    def resume(self) -> None:
        state = torch.load(self.file, weights_only=True)
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.curve = [tuple(point) for point in state["curve"]]
        self.log_likelihoods = list(state.get("log_likelihoods", []))

    def save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step,
                 "seconds": self.seconds, "curve": self.curve, "log_likelihoods": self.log_likelihoods}  # fmt: skip
        torch.save(state, self.file.with_suffix(".new"))
        self.file.with_suffix(".new").rename(self.file)

    def one_step(self) -> float:
        s = self.study
        ids, marks = data.batch(self.seed, self.step, s.rows, s.vocabulary, s.length)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * group["factor"] * min(1.0, (self.step + 1) / s.warmup)
        loss = F.cross_entropy(self.net.logits(self.net.hidden(ids)[marks]), ids.roll(-1, 1)[marks])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1
        return loss.item()

    @torch.no_grad()
    def recall(self) -> tuple[float, float]:
        """Of the held-out questions: the share answered rightly, and the mean log-likelihood of the right answers."""
        ids, marks = self.held_out
        logits, gold = self.net.logits(self.net.hidden(ids)[marks]), ids.roll(-1, 1)[marks]
        return (logits.argmax(-1) == gold).float().mean().item(), -F.cross_entropy(logits, gold).item()

    def emerged(self) -> int | None:
        """The step of the first evaluation at or above the threshold whose successor is so too."""
        for (step, a, _), (_, b, _) in zip(self.curve, self.curve[1:]):
            if min(a, b) >= self.study.threshold:
                return step
        return None

    def train(self, at_least: int = 0) -> dict[str, Any]:
        """Until recall has emerged and for `at_least` steps, at most `steps_max`; what the results file keeps of it. A censored run
        has no `tokens`."""
        while (self.step < at_least or self.emerged() is None) and self.step < self.study.steps_max:
            began = time.process_time()
            loss = self.one_step()
            if self.step % self.study.evaluate_every == 0:
                right, log_likelihood = self.recall()
                self.curve.append((self.step, round(right, 4), round(loss, 4)))
                self.log_likelihoods.append(round(log_likelihood, 4))
            self.seconds += time.process_time() - began
            if self.step % SAVE_EVERY == 0:
                self.save()
        self.save()
        at, per_step = self.emerged(), self.study.rows * self.study.length
        return {"arm": self.name, "learning_rate": self.learning_rate, "seed": self.seed,
                "tokens": None if at is None else at * per_step, "trained_tokens": self.step * per_step,
                "seconds": round(self.seconds, 1), "recall": [point[1] for point in self.curve]}  # fmt: skip


def run_all(study: Study, out: pathlib.Path, results: pathlib.Path) -> None:
    """Block by block, seed by seed over all arms, so that what an interrupted study leaves is paired. One line of JSON a
    run; runs of the file are not repeated."""
    results.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["arm"], r["learning_rate"], r["seed"]) for r in read_results(results)}
    for block in study.blocks:
        for seed in block.seed_numbers():
            for arm in block.arms:
                if (arm, block.learning_rate, seed) in done:
                    continue
                record = Run(study, arm, block.learning_rate, seed, out).train()
                with results.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(arm, block.learning_rate, seed, record["tokens"], record["seconds"], flush=True)


def read_results(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
