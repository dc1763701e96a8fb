"""The study's one configuration file, study.toml."""

import dataclasses
import pathlib
import tomllib
from typing import Any

STUDY = pathlib.Path(__file__).parent / "study.toml"


@dataclasses.dataclass(frozen=True)
class Arm:
    """A cell of the design, as factors of the baseline: `temperature` divides the attention logits, `q_start` multiplies
    W_q's initial weights, `q_rate` its learning rate."""

    name: str
    temperature: float = 1.0
    q_start: float = 1.0
    q_rate: float = 1.0


@dataclasses.dataclass(frozen=True)
class Block:
    """Runs of every arm at one learning rate; `seeds` is how many, counted from 1."""

    learning_rate: float
    seeds: int


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
    arms: tuple[Arm, ...]
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if self.length % 4 or self.rows % 2 or self.hidden % self.heads:
            raise ValueError("length must be a multiple of 4, rows of 2, hidden of heads")
        if self.vocabulary < self.length:
            raise ValueError(f"vocabulary is {self.vocabulary}, below the length ({self.length}): keys would repeat")
        if self.arms[0] != Arm("baseline"):
            raise ValueError("the first arm must be the baseline: differences are from it")


def build(kind: Any, values: dict[str, Any]) -> Any:
    unknown = sorted(set(values) - {f.name for f in dataclasses.fields(kind)})
    if unknown:
        raise ValueError(f"{kind.__name__} has unknown keys: {', '.join(unknown)}")
    return kind(**values)


def read(path: pathlib.Path = STUDY) -> Study:
    raw = tomllib.loads(path.read_text())
    arms = tuple(build(Arm, a) for a in raw.pop("arms"))
    blocks = tuple(build(Block, b) for b in raw.pop("blocks"))
    return build(Study, raw | {"arms": arms, "blocks": blocks})
