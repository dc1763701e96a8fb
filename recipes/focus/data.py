"""Sequences to train and to measure on. A batch is drawn by seed and step alone, so a resumed run sees the same ones."""

import hashlib
import pathlib
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from focus.config import DataConfig, RunConfig, located


class Source(Protocol):
    """Batches of ids [R, T] with weights [R, T]: weight t belongs to the prediction of id t + 1."""

    def batch(self, step: int, rows: int) -> tuple[Tensor, Tensor]: ...

    def held_out(self) -> tuple[Tensor, Tensor]: ...

    def calibration(self) -> Tensor: ...


def cached_ids(path: pathlib.Path, tokenizer: pathlib.Path, cache: pathlib.Path) -> np.ndarray:
    """Token ids of a text file, kept under the digest of the file and the tokenizer."""
    digest = hashlib.sha256(path.read_bytes() + tokenizer.read_bytes()).hexdigest()[:24]
    kept = cache / f"{digest}.npy"
    if not kept.exists():
        from tokenizers import Tokenizer

        ids = Tokenizer.from_file(str(tokenizer)).encode(path.read_text(), add_special_tokens=False).ids
        cache.mkdir(parents=True, exist_ok=True)
        np.save(kept, np.array(ids, dtype=np.int32))
    ids_kept: np.ndarray = np.load(kept)
    return ids_kept


class Text:
    """Windows of text files: random ones to train, evenly spaced ones, without overlap, to measure and to calibrate."""

    def __init__(self, config: DataConfig, seed: int, tokenizer: pathlib.Path, cache: pathlib.Path) -> None:
        self.config, self.seed = config, seed
        self.train, self.rest = (
            np.concatenate([cached_ids(located(name), tokenizer, cache) for name in names])
            for names in (config.files, config.held_out)
        )
        self.body = config.length - (config.begin_token_id is not None)
        wanted = config.held_out_rows + config.calibration_rows
        if len(self.rest) // self.body < wanted:
            raise ValueError(f"held_out has {len(self.rest)} tokens; {wanted} rows of {self.body} need {wanted * self.body}")
        if len(self.train) < self.body:
            raise ValueError(f"files have {len(self.train)} tokens, fewer than the length {self.body}")

    def rows(self, ids: np.ndarray, starts: list[int]) -> tuple[Tensor, Tensor]:
        begin = [] if self.config.begin_token_id is None else [self.config.begin_token_id]
        out = np.stack([np.concatenate([begin, ids[s : s + self.body]]) for s in starts]).astype(np.int64)
        weights = torch.ones(out.shape)
        weights[:, -1] = 0
        return torch.from_numpy(out), weights

    def batch(self, step: int, rows: int) -> tuple[Tensor, Tensor]:
        last = len(self.train) - self.body
        starts = [int(np.random.default_rng([self.seed, step, row]).integers(last + 1)) for row in range(rows)]
        return self.rows(self.train, starts)

    def spaced(self) -> list[int]:
        wanted = self.config.held_out_rows + self.config.calibration_rows
        step = len(self.rest) // wanted
        return [i * step for i in range(wanted)]

    def held_out(self) -> tuple[Tensor, Tensor]:
        return self.rows(self.rest, self.spaced()[: self.config.held_out_rows])

    def calibration(self) -> Tensor:
        return self.rows(self.rest, self.spaced()[self.config.held_out_rows :])[0]


class Synthetic:
    """The shipped models' training data; steps that training never reaches give what is held out."""

    HELD_OUT_STEP = 10_000_000

    def __init__(self, config: DataConfig, seed: int) -> None:
        from llama import data

        self.config, self.seed, self.make, self.words = config, seed, data.batch, data.Words()
        self.data_options = data.DataOptions(easy=config.easy)

    def batch(self, step: int, rows: int) -> tuple[Tensor, Tensor]:
        ids, marks = self.make(
            self.words, self.seed, step, rows, self.config.length, self.config.mix or {}, self.data_options
        )
        weights = torch.from_numpy(marks).float()
        # Every row counts alike, as in recipes/llama/train.py.
        return torch.from_numpy(ids).long(), weights / weights.sum(1, keepdim=True).clamp(min=1).sqrt()

    def held_out(self) -> tuple[Tensor, Tensor]:
        return self.batch(self.HELD_OUT_STEP, self.config.held_out_rows)

    def calibration(self) -> Tensor:
        return self.batch(self.HELD_OUT_STEP + 1, self.config.calibration_rows)[0]


def source(run: RunConfig, base: pathlib.Path, cache: pathlib.Path) -> Source:
    if run.data.kind == "synthetic":
        return Synthetic(run.data, run.seed)
    return Text(run.data, run.seed, base / "tokenizer.json", cache)
