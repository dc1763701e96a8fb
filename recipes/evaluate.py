"""Scores checkpoints on the native tasks with this directory's own generators, for monitoring training.

One question at the end of each context, asked as docs/tasks.md writes it; greedy, exact match of the answer's token.

    python recipes/evaluate.py --dir=models/baseline --lengths=2048,4096 --samples=40
"""

import argparse
import pathlib

import numpy as np
import torch

import training_data
import model as models

SEED = 977  # not a training seed


def contexts(words, task, length, samples):
    """(ids up to the answer, answer id) of single questions at any depth, at most 16 tokens short of `length`."""
    rng = np.random.default_rng([SEED, length, list(training_data.TASKS).index(task)])
    out = []
    while len(out) < samples:
        ids, marks = training_data.TASKS[task](rng, words, length, 0.0, 1 - 60 / length)
        spots = [i for i, m in enumerate(marks) if m]
        if spots:
            # The first question after the context; where every line is one, the last.
            spot = spots[-1] if task == "icl_labels" else spots[0]
            out.append((ids[: spot + 1], ids[spot + 1]))
    return out


@torch.no_grad()
def accuracy(net, items):
    hits = []
    for ids, gold in items:
        hidden = net.hidden(torch.tensor([ids]))[:, -1]
        hits.append(int(net.logits(hidden).argmax()) == gold)
    return float(np.mean(hits)), float(np.mean([len(i) for i, _ in items]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192")
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--tasks", default=",".join(training_data.TASKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    words = training_data.Words()
    nets = {str(d): models.load(d) for d in options.dir}
    for length in map(int, options.lengths.split(",")):
        for task in options.tasks.split(","):
            items = contexts(words, task, length, options.samples if length <= 8192 else max(8, options.samples // 2))
            for name, net in nets.items():
                score, tokens = accuracy(net, items)
                print(f"{name:40} {task:14} {length:6} tokens {tokens:8.0f} n {len(items):3} score {score:.3f}", flush=True)


if __name__ == "__main__":
    main()
