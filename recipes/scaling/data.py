"""Batches and the held-out part of the corpus, as tensors of token ids.

The training stream is cut into windows of 4,096 tokens, and the windows are put into an order that (seed, epoch) draws. GROUP windows are
dealt out together: at every context length the same groups of steps (eight of 4,096 tokens) see the same tokens, in another order. A batch of 4,096 tokens
holds pieces of 4,096 / context windows: of eight at 512, of one at 4,096.
"""

import pathlib

import numpy as np
import torch
from torch import Tensor

from scaling.config import WINDOW, Study

GROUP = 8


class Corpus:
    def __init__(self, folder: pathlib.Path) -> None:
        missing = [n for n in ("train", "held_out", "starts") if not (folder / f"{n}.npy").exists()]
        if missing:
            raise ValueError(f"{folder} lacks {', '.join(missing)}: run `python -m scaling corpus`")
        self.train, self.held_out = (np.load(folder / f"{n}.npy", mmap_mode="r") for n in ("train", "held_out"))
        self.starts = np.load(folder / "starts.npy")
        self.order: tuple[tuple[int, int], np.ndarray] | None = None
        self.groups = (len(self.train) - 1) // WINDOW // GROUP
        if self.groups == 0:
            raise ValueError(f"{folder} has {len(self.train)} tokens, less than the {GROUP * WINDOW + 1} of a group")

    def windows(self, seed: int, epoch: int) -> np.ndarray:
        if self.order is None or self.order[0] != (seed, epoch):
            self.order = (seed, epoch), np.random.default_rng([seed, epoch]).permutation(self.groups * GROUP)
        return self.order[1]

    def group(self, seed: int, number: int, context: int) -> np.ndarray:
        """[rows, context + 1]: first the first pieces of all windows, then the second ones, and so on."""
        epoch, at = divmod(number, self.groups)
        chosen = self.windows(seed, epoch)[at * GROUP : (at + 1) * GROUP]
        starts = (np.arange(WINDOW // context)[:, None] * context + chosen * WINDOW).reshape(-1)
        found: np.ndarray = np.asarray(self.train[starts[:, None] + np.arange(context + 1)], dtype=np.int64)
        return found

    def batch(self, study: Study, seed: int, step: int, context: int) -> Tensor:
        """[rows, context + 1] of tokens_per_step tokens."""
        per_group = GROUP * WINDOW // study.tokens_per_step
        rows = study.tokens_per_step // context
        number, part = divmod(step, per_group)
        return torch.from_numpy(self.group(seed, number, context)[part * rows : (part + 1) * rows])

    def evaluated(self, study: Study, seed: int) -> np.ndarray:
        """[documents, evaluation_tokens + 1]: the beginnings of the first held-out documents that are long enough; for a seed that rates are
        chosen on, of those that come after them, so that the choice does not see the documents of the endpoint."""
        length = study.evaluation_tokens + 1
        long = [s for s, e in zip(self.starts, self.starts[1:]) if e - s >= length]
        count = study.evaluation_documents
        if len(long) <= count:
            raise ValueError(f"{len(long)} held-out documents have {length} tokens; {count} and others for the choice of rates are wanted")
        chosen = long[count : 2 * count] if seed in study.selection_seeds else long[:count]
        return np.stack([np.asarray(self.held_out[s : s + length], dtype=np.int64) for s in chosen])
