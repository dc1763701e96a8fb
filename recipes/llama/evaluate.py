"""Scores checkpoints on the native tasks with this directory's own generators, for monitoring training.

One question at the end of each context, asked as docs/tasks.md writes it; greedy, exact match of the answer's first token.
"""

import pathlib

import numpy as np
import torch

from llama import data
from llama.model import Llama, load

SEED = 977  # not a training seed
Item = tuple[list[int], int]


def contexts(words: data.Words, task: str, length: int, samples: int) -> list[Item]:
    """(ids up to the answer, answer id) of single questions at any depth, at most 16 tokens short of `length`."""
    rng = np.random.default_rng([SEED, length, list(data.TASKS).index(task)])
    out: list[Item] = []
    while len(out) < samples:
        ids, marks = data.TASKS[task](rng, words, length, data.DataOptions(), 1 - 60 / length)
        spots = [i for i, m in enumerate(marks) if m]
        if spots:
            # The first question after the context; where every line is one, the last.
            spot = spots[-1] if task == "icl_labels" else spots[0]
            out.append((ids[: spot + 1], ids[spot + 1]))
    return out


@torch.no_grad()
def hits(net: Llama, items: list[Item]) -> list[bool]:
    return [int(net.logits(net.hidden(torch.tensor([ids]))[:, -1]).argmax()) == gold for ids, gold in items]


def table(directories: list[pathlib.Path], lengths: list[int], samples: int, tasks: list[str]) -> None:
    words = data.Words()
    nets = {str(d): load(d) for d in directories}
    print("| checkpoint | task | tokens | questions | right |\n| --- | --- | --- | --- | --- |")
    for length in lengths:
        for task in tasks:
            items = contexts(words, task, length, samples)
            parts = {task: items}
            if task == "rag_facts":
                parts = {task: [], task + ", two documents": []}
                for ids, gold in items:
                    is_hop = data.asks_two_documents(words, ids, len(ids) - 1)
                    parts[task + ", two documents" * is_hop].append((ids, gold))
            for name, net in nets.items():
                for part, mine in parts.items():
                    print(f"| {name} | {part} | {length} | {len(mine)} | {sum(hits(net, mine))} |", flush=True)
