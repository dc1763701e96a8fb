"""The study's one configuration file, study.toml."""

import dataclasses
import pathlib
import tomllib

from llama.arms import named
from llama.run import build

STUDY = pathlib.Path(__file__).parent / "study.toml"


@dataclasses.dataclass(frozen=True)
class Block:
    """Runs of `arms` at one learning rate; `seeds` is how many, counted from `first_seed`. A block that adds arms to one of the
    same rate is an extension: its arms are compared with that one's baseline."""

    learning_rate: float
    seeds: int
    arms: tuple[str, ...]
    extension: bool = False
    first_seed: int = 1

    def seed_numbers(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    def __post_init__(self) -> None:
        for arm in self.arms:
            named(arm)
        if not self.extension and self.arms[:1] != ("baseline",):
            raise ValueError("the first arm must be the baseline: differences are from it")


@dataclasses.dataclass(frozen=True)
class Study:
    """`rows` sequences of `length` tokens a step, half of them recall and half rotated copies."""

    vocabulary: int
    length: int
    rows: int
    hidden: int
    layers: int
    heads: int
    warmup: int
    evaluate_every: int
    evaluation_rows: int
    threshold: float
    steps_max: int
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if self.length % 4 or self.rows % 2 or self.hidden % self.heads:
            raise ValueError("length must be a multiple of 4, rows of 2, hidden of heads")
        if self.vocabulary < self.length:
            raise ValueError(f"vocabulary is {self.vocabulary}, below the length ({self.length}): keys would repeat")


def read(path: pathlib.Path = STUDY) -> Study:
    raw = tomllib.loads(path.read_text())
    blocks = tuple(build(Block, b | {"arms": tuple(b.get("arms", ()))}) for b in raw.pop("blocks"))
    study: Study = build(Study, raw | {"blocks": blocks})
    return study
