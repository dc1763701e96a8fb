"""scaling.toml: sizes, the recipe that all runs share, stages of runs, and how fast a machine is."""

import dataclasses
import pathlib
import tomllib

from llama.arms import named
from llama.config import Config
from llama.run import build

STUDY = pathlib.Path(__file__).parent / "scaling.toml"
WINDOW = 4096  # tokens; the longest context


@dataclasses.dataclass(frozen=True)
class Size:
    """`layers` of width `hidden`; a learning rate of the reference width is divided by the ratio of the widths."""

    name: str
    hidden: int
    intermediate: int
    layers: int


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """An arm whose trunk is that of `start` for so many tokens and then has the constant temperature of `arm`, W_q and the optimizer's
    state untouched: the papers' adaptation. It keeps the rate of `start`."""

    name: str
    start: str
    arm: str
    million: int

    def __post_init__(self) -> None:
        for arm in (named(self.start), named(self.arm)):
            if arm.attention.tau is not None or arm.attention.log_n is not None:
                raise ValueError(f"{self.name}: an adaptation is from and to a constant temperature")


@dataclasses.dataclass(frozen=True)
class Stage:
    """Every arm with every seed, seed by seed. `selects`: at every rate, to choose the arms' rates; otherwise each at its chosen one, or, where
    `shared_rate`, at the baseline's. `gpu`: these come first where there is one."""

    name: str
    arms: tuple[str, ...]
    sizes: tuple[str, ...]
    contexts: tuple[int, ...]
    seeds: tuple[int, ...]
    millions: tuple[int, ...]
    selects: bool = False
    shared_rate: bool = False
    gpu: bool = False

    def __post_init__(self) -> None:
        if list(self.millions) != sorted(set(self.millions)) or not self.millions:
            raise ValueError(f"stage {self.name}: millions of tokens must ascend")
        if any(WINDOW % c for c in self.contexts):
            raise ValueError(f"stage {self.name}: a context must divide {WINDOW}")


@dataclasses.dataclass(frozen=True)
class Speed:
    """Tokens per second of training one run; `estimated` where no machine has shown it."""

    machine: str
    size: str
    context: int
    tokens_per_second: float
    estimated: bool = False


@dataclasses.dataclass(frozen=True)
class Study:
    vocabulary: int
    head_dim: int
    rope_theta: float
    reference_width: int
    tokens_per_step: int
    million: int
    warmup: int
    decay: float
    rates: tuple[float, ...]
    below: float
    above: float
    evaluation_documents: int
    evaluation_tokens: int
    bf16: bool
    sizes: tuple[Size, ...]
    stages: tuple[Stage, ...]
    speeds: tuple[Speed, ...] = ()
    same_rate: tuple[tuple[str, str], ...] = ()
    adaptations: tuple[Adaptation, ...] = ()

    def __post_init__(self) -> None:
        if WINDOW % self.tokens_per_step and self.tokens_per_step % WINDOW:
            raise ValueError(f"tokens_per_step must divide {WINDOW} or be a multiple of it")
        if not (0 < self.below < min(self.rates) and self.above > max(self.rates)) or list(self.rates) != sorted(self.rates):
            raise ValueError("rates must ascend, between below and above")
        if not 0 < self.decay < 1:
            raise ValueError("decay must be a share between 0 and 1")
        for stage in self.stages:
            if not stage.selects and set(stage.seeds) & self.selection_seeds:
                raise ValueError(f"stage {stage.name}: rates are chosen on one of its seeds")
            for size in stage.sizes:
                self.size(size)
            for arm in stage.arms:
                found = self.adaptation(arm)
                if found is None:
                    named(arm)
                elif self.steps(found.million) >= self.branch_step(stage.millions[0]):
                    raise ValueError(f"stage {stage.name}: {arm} changes at {found.million} M tokens, after its first branch")

    def size(self, name: str) -> Size:
        found = [s for s in self.sizes if s.name == name]
        if not found:
            raise ValueError(f"no size {name!r}; the sizes are {', '.join(s.name for s in self.sizes)}")
        return found[0]

    @property
    def selection_seeds(self) -> set[int]:
        return {seed for stage in self.stages if stage.selects for seed in stage.seeds}

    def adaptation(self, arm: str) -> Adaptation | None:
        return next((a for a in self.adaptations if a.name == arm), None)

    def shape(self, name: str, context: int) -> Config:
        s = self.size(name)
        heads = s.hidden // self.head_dim
        return Config(
            vocab_size=self.vocabulary, hidden_size=s.hidden, intermediate_size=s.intermediate, num_hidden_layers=s.layers,
            num_attention_heads=heads, num_key_value_heads=heads, head_dim=self.head_dim, rope_theta=self.rope_theta,
            trained_context_length=context,
        )  # fmt: skip

    def rate_at_size(self, rate: float, size: str) -> float:
        return rate * self.reference_width / self.size(size).hidden

    def steps(self, millions: float) -> int:
        """A checkpoint's whole length, a multiple of what the decay needs."""
        return round(millions * self.million / self.tokens_per_step)

    def branch_step(self, millions: float) -> int:
        """Where the decay to this checkpoint begins."""
        return round(self.steps(millions) * (1 - self.decay))


def read(path: pathlib.Path = STUDY) -> Study:
    raw = tomllib.loads(path.read_text())
    parts = {key: tuple(build(kind, {k: tuple(v) if isinstance(v, list) else v for k, v in item.items()}) for item in raw.pop(key, []))
             for key, kind in (("sizes", Size), ("stages", Stage), ("speeds", Speed), ("adaptations", Adaptation))}  # fmt: skip
    same = tuple(raw.pop("same_rate", {}).items())
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    study: Study = build(Study, values | parts | {"same_rate": same})
    return study
