"""Sequences of the study, drawn by (seed, step) alone: arms of one seed see the same ones.

recall: length / 4 pairs of a key and a value, then the same keys in another order, each followed by its value. Keys are the
lower half of the vocabulary, values the upper. copy: distinct tokens, then the same rotated by a random amount. Marks are at
positions whose next token is determined by what came before, and is trained on.
"""

import numpy as np
import torch
from torch import Tensor

HELD_OUT = 10_000_000  # a step that training never reaches; seeds count from 0


def recall(rng: np.random.Generator, rows: int, vocabulary: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    half, n = vocabulary // 2, length // 4
    keys = rng.permuted(np.tile(np.arange(half), (rows, 1)), axis=1)[:, :n]
    values = half + rng.integers(half, size=(rows, n))
    order = np.argsort(rng.random((rows, n)), axis=1)
    asked = np.stack([np.take_along_axis(x, order, 1) for x in (keys, values)], axis=2)
    ids = np.concatenate([np.stack([keys, values], axis=2), asked], axis=1).reshape(rows, length)
    marks = np.zeros((rows, length), dtype=bool)
    marks[:, 2 * n :: 2] = True
    return ids, marks


def copy(rng: np.random.Generator, rows: int, vocabulary: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    n = length // 2
    first = rng.permuted(np.tile(np.arange(vocabulary), (rows, 1)), axis=1)[:, :n]
    second = np.take_along_axis(first, (np.arange(n) + rng.integers(n, size=(rows, 1))) % n, axis=1)
    marks = np.zeros((rows, length), dtype=bool)
    marks[:, n : length - 1] = True
    return np.concatenate([first, second], axis=1), marks


def tensors(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[Tensor, Tensor]:
    return tuple(torch.from_numpy(np.concatenate(p)) for p in zip(*parts))  # type: ignore[return-value]


def batch(seed: int, step: int, rows: int, vocabulary: int, length: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([seed, step])
    return tensors([make(rng, rows // 2, vocabulary, length) for make in (recall, copy)])


def held_out(rows: int, vocabulary: int, length: int) -> tuple[Tensor, Tensor]:
    """Recall alone, the same for every run."""
    return tensors([recall(np.random.default_rng([0, HELD_OUT]), rows, vocabulary, length)])
