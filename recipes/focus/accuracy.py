"""Accuracy of a Focus checkpoint on the native tasks, by this directory's own questions (recipes/llama/evaluate.py): dense attention, the
hard mask at several k, and the controls, on the same questions.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import torch

from emergence.analysis import paired
from focus.attention import routers
from focus.checkpoint import load_model


@torch.no_grad()
def hits(model: Any, items: list[tuple[list[int], int]]) -> np.ndarray:
    return np.array([int(model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits[0, -1].argmax()) == gold
                     for ids, gold in items], dtype=float)  # fmt: skip


def main(checkpoint: pathlib.Path, lengths: list[int], samples: int, top_k: list[int]) -> None:
    from llama import data, evaluate

    words = data.Words(checkpoint / "tokenizer.json")
    model, mode = load_model(checkpoint)
    own = next(routers(model)).settings
    settings: list[tuple[str, str | None, dict[str, Any]]] = [("dense", None, {})]
    settings += [(f"hard, k = {k}", "hard", {"top_k": k}) for k in top_k or [own.top_k]]
    settings += [("window", "hard", {"groups": "none"}), (f"random, k = {own.top_k}", "hard", {"groups": "random"})]
    print("| task | tokens | setting | right | minus dense, 95 % |\n| --- | --- | --- | --- | --- |")
    for length in lengths:
        for task in data.TASKS:
            items = evaluate.contexts(words, task, length, samples)
            dense = np.empty(0)
            for name, gate, over in settings:
                mode.gate = gate
                for router in routers(model):
                    router.settings = dataclasses.replace(own, **over)
                found = hits(model, items)
                dense = found if gate is None else dense
                d = paired(found - dense)
                shown = "" if gate is None else f"{d.mean:+.3f} ± {d.half_width:.3f}"
                print(f"| {task} | {length} | {name} | {int(found.sum())} of {samples} | {shown} |", flush=True)
