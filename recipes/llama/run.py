"""One TOML file a training, which every arm runs. Unknown keys are refused by name."""

import dataclasses
import pathlib
import tomllib
import typing
from typing import Any

from llama import arms, data
from llama.config import Config

Made = typing.TypeVar("Made")  # a data class
CONFIGS = pathlib.Path(__file__).parent / "configs"


@dataclasses.dataclass(frozen=True)
class Phase:
    """`steps` of `rows` sequences of `length` tokens; `mix` gives the share of each family, `data_options` what they are like;
    `hop_loss` and `move_loss` are the weights of the attention supervision of llama/hops.py and llama/moves.py."""

    steps: int
    rows: int
    length: int
    mix: dict[str, float]
    data_options: data.DataOptions = data.DataOptions()
    hop_loss: float = 0.0
    move_loss: float = 0.0

    def __post_init__(self) -> None:
        unknown = sorted(set(self.mix) - set(data.FAMILIES))
        if unknown:
            raise ValueError(f"mix has unknown families: {', '.join(unknown)}")
        if min(self.steps, self.rows, self.length) < 1 or not self.mix:
            raise ValueError("a phase needs steps, rows and length of 1 or more, and a mix")


@dataclasses.dataclass(frozen=True)
class Plan:
    """The rate warms up, then is interpolated linearly between `points`, (share of all steps, share of the rate).
    `last_move_heads`: the heads of llama/moves.py are added to the initial weights."""

    learning_rate: float
    muon_factor: float
    warmup: int
    points: tuple[tuple[float, float], ...]
    phases: tuple[Phase, ...]
    bf16: bool = True
    structured: bool = True
    last_move_heads: bool = False

    @property
    def steps(self) -> int:
        return sum(p.steps for p in self.phases)

    def phase_at(self, step: int) -> Phase:
        for phase in self.phases:
            if step < phase.steps:
                return phase
            step -= phase.steps
        raise IndexError("past the last phase")

    def rate_at(self, step: int) -> float:
        at = step / self.steps
        share = self.points[0][1] if at < self.points[0][0] else self.points[-1][1]
        for (a, x), (b, y) in zip(self.points, self.points[1:]):
            if a <= at < b:
                share = x + (y - x) * (at - a) / (b - a)
        return self.learning_rate * min((step + 1) / self.warmup, share)


@dataclasses.dataclass(frozen=True)
class Run:
    arm: str
    seed: int
    plan: Plan
    shape: Config = Config()

    @property
    def recipe(self) -> arms.Arm:
        return arms.named(self.arm)


def build(kind: type[Made], values: dict[str, Any]) -> Made:
    """Keys are those of the data class, and numbers, texts and switches of its types; lists become tuples."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    unknown = sorted(set(values) - {f.name for f in fields})
    if unknown:
        raise ValueError(f"{kind.__name__} has unknown keys: {', '.join(unknown)}")
    has_none = (dataclasses.MISSING, dataclasses.MISSING)
    missing = [f.name for f in fields if f.name not in values and (f.default, f.default_factory) == has_none]
    if missing:
        raise ValueError(f"{kind.__name__} lacks {', '.join(missing)}")
    types = typing.get_type_hints(kind)
    for name, value in values.items():
        wanted = types[name]
        if wanted in (int, float, bool, str) and type(value) is not wanted and not (wanted is float and type(value) is int):
            raise ValueError(f"{kind.__name__}'s {name} is {value!r}, not of type {wanted.__name__}")
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def build_plan(raw: dict[str, Any]) -> Plan:
    phases = []
    for values in raw.pop("phases"):
        phases.append(build(Phase, values | {"data_options": build(data.DataOptions, values.pop("data_options", {}))}))
    points = tuple((float(a), float(b)) for a, b in raw.pop("points"))
    return build(Plan, raw | {"phases": tuple(phases), "points": points})


def load(path: pathlib.Path) -> dict[str, Any]:
    """A plan's keys, as read."""
    try:
        raw = tomllib.loads(path.read_text())
    except OSError as error:
        there = ", ".join(sorted(file.name for file in CONFIGS.glob("*.toml")))
        raise ValueError(f"cannot read the plan {path}: {error.strerror}; llama/configs has {there}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from error
    lacks = [key for key in ("seed", "points", "phases") if not raw.get(key)]
    if lacks:
        raise ValueError(f"{path} is not a plan: it has no {', '.join(lacks)}")
    return raw


def read(path: pathlib.Path, arm: str) -> Run:
    """`shape` are keys of llama/config.py; the trained length is that of the longest phase."""
    values = load(path)
    seed, shape = values.pop("seed"), values.pop("shape", {})
    plan = build_plan(values)
    shape = {"trained_context_length": max(p.length for p in plan.phases)} | shape
    arms.named(arm)
    return Run(arm, seed, plan, build(Config, shape))
