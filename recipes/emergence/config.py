"""The configuration files: study.toml, and toy.toml of the grid."""

import dataclasses
import pathlib
import tomllib

from llama.arms import named
from llama.run import build

STUDY = pathlib.Path(__file__).parent / "study.toml"
TOY = pathlib.Path(__file__).parent / "toy.toml"


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
    blocks: tuple[Block, ...] = ()

    def __post_init__(self) -> None:
        if self.length % 4 or self.rows % 2 or self.hidden % self.heads:
            raise ValueError("length must be a multiple of 4, rows of 2, hidden of heads")
        if self.vocabulary < self.length:
            raise ValueError(f"vocabulary is {self.vocabulary}, below the length ({self.length}): keys would repeat")


@dataclasses.dataclass(frozen=True)
class Grid:
    """Every arm at every rate on the selection seeds, then at its chosen rate on the test seeds, which follow them. An arm whose
    choice is the lowest or the highest rate gets `below` or `above` too. Test runs have `test_steps_min` steps at least;
    `budgets` are the steps whose log-likelihoods are compared, multiples of `record_every`."""

    study: Study
    arms: tuple[str, ...]
    rates: tuple[float, ...]
    below: float
    above: float
    first_seed: int
    selection_seeds: int
    test_seeds: int
    test_steps_min: int
    record_every: int
    budgets: tuple[int, ...]

    def __post_init__(self) -> None:
        for arm in self.arms:
            named(arm)
        if self.arms[:1] != ("baseline",):
            raise ValueError("the first arm must be the baseline: differences are from it")
        if not (0 < self.below < min(self.rates) and self.above > max(self.rates)) or list(self.rates) != sorted(self.rates):
            raise ValueError("rates must ascend, between below and above")
        if any(b % self.record_every or b > self.test_steps_min for b in self.budgets) or self.record_every % self.study.evaluate_every:
            raise ValueError("budgets must be multiples of record_every, that of evaluate_every, and at most test_steps_min")

    @property
    def selection(self) -> range:
        return range(self.first_seed, self.first_seed + self.selection_seeds)

    @property
    def test(self) -> range:
        return range(self.selection.stop, self.selection.stop + self.test_seeds)

    @property
    def limit(self) -> int:
        """Tokens after which a run is censored."""
        return self.study.steps_max * self.study.rows * self.study.length


def read_grid(path: pathlib.Path = TOY) -> Grid:
    raw = tomllib.loads(path.read_text())
    return build(Grid, raw.pop("grid") | {"study": build(Study, raw)})


def read(path: pathlib.Path = STUDY) -> Study:
    raw = tomllib.loads(path.read_text())
    return build(Study, raw | {"blocks": tuple(build(Block, b) for b in raw.pop("blocks"))})
