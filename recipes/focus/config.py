"""One TOML file per run: the model, Focus, the data and the phases of training. Unknown keys are refused by name."""

import dataclasses
import os
import pathlib
import tomllib
from typing import Any

from focus.settings import FocusSettings
from llama.run import Made, build as built

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGIMES = ("frozen", "full", "scratch", "lora")
TRAINS = ("focus", "all", "lora")
# What a phase of each regime may train.
ALLOWED = {"frozen": {"focus"}, "full": {"focus", "all"}, "scratch": {"all"}, "lora": {"lora"}}


def located(name: str) -> pathlib.Path:
    """A path of a configuration: relative to the repository, or after `cache:` to what deploy/get_*.sh fetch into."""
    if name.startswith("cache:"):
        cache = os.environ.get("VARIFOCAL_CACHE") or "~/.cache/varifocal"
        return pathlib.Path(cache).expanduser() / name.removeprefix("cache:")
    return ROOT / name


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """`base` is a checkpoint directory (see `located`); for `scratch` its config.json alone is read, unless
    `shape` gives the keys of `recipes/llama/config.py`, whose structured start is then taken."""

    regime: str
    base: str = ""
    shape: dict[str, Any] | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.regime not in REGIMES:
            raise ValueError(f"regime is {self.regime!r}, not one of {', '.join(REGIMES)}")
        if bool(self.base) == (self.shape is not None):
            raise ValueError("model needs either base or shape")
        if self.shape is not None and self.regime != "scratch":
            raise ValueError(f"shape is for regime 'scratch', not {self.regime!r}")


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """`text`: windows of `length` tokens from files; `synthetic`: recipes/llama/data.py, whose
    keys are mix and easy. Names of files are read by `located`."""

    kind: str
    length: int
    files: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    held_out_rows: int = 16
    calibration_rows: int = 32
    begin_token_id: int | None = None
    mix: dict[str, float] | None = None
    easy: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("text", "synthetic"):
            raise ValueError(f"data kind is {self.kind!r}, not text or synthetic")
        if self.kind == "text" and not (self.files and self.held_out):
            raise ValueError("data of kind text needs files and held_out")
        if self.kind == "text" and set(self.files) & set(self.held_out):
            raise ValueError(f"trained on and held out: {', '.join(sorted(set(self.files) & set(self.held_out)))}")
        if self.kind == "synthetic" and not self.mix:
            raise ValueError("data of kind synthetic needs mix")


@dataclasses.dataclass(frozen=True)
class Phase:
    """`rows` sequences a step, `rows_at_once` of them in one pass. The rate warms up, then falls along a cosine to a
    tenth."""

    trains: str
    steps: int
    rows: int
    learning_rate: float
    warmup: int = 20
    rows_at_once: int = 1
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.trains not in TRAINS:
            raise ValueError(f"a phase trains {self.trains!r}, not one of {', '.join(TRAINS)}")
        if self.steps < 1 or self.rows < 1 or self.rows % self.rows_at_once:
            raise ValueError(f"a phase of {self.steps} steps of {self.rows} rows, {self.rows_at_once} at once")


@dataclasses.dataclass(frozen=True)
class LoraSettings:
    """`rank` 0: the rank whose parameter count is nearest to that of Focus. Target names of the attention module."""

    rank: int = 0
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    alpha_over_rank: float = 2.0


@dataclasses.dataclass(frozen=True)
class RunConfig:
    name: str
    seed: int
    model: ModelConfig
    focus: FocusSettings
    data: DataConfig
    phases: tuple[Phase, ...]
    lora: LoraSettings = LoraSettings()
    log_every: int = 1
    evaluate_every: int = 0
    save_every: int = 50
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        if not self.phases:
            raise ValueError("a run needs a phase")
        for phase in self.phases:
            if phase.trains not in ALLOWED[self.model.regime]:
                raise ValueError(f"regime {self.model.regime!r} has no phase that trains {phase.trains!r}")

    @property
    def steps(self) -> int:
        return sum(phase.steps for phase in self.phases)


def build(kind: type[Made], values: dict[str, Any], where: str) -> Made:
    try:
        return built(kind, values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def read(path: str | pathlib.Path) -> RunConfig:
    """The run of a TOML file; a ValueError says what is wrong in one sentence."""
    raw = tomllib.loads(pathlib.Path(path).read_text())
    parts: dict[str, Any] = {}
    for name, kind in (("model", ModelConfig), ("focus", FocusSettings), ("data", DataConfig)):
        if name not in raw:
            raise ValueError(f"{path}: no section [{name}]")
        parts[name] = build(kind, raw.pop(name), f"{path}: [{name}]")
    parts["phases"] = tuple(build(Phase, p, f"{path}: [[phases]]") for p in raw.pop("phases", []))
    parts["lora"] = build(LoraSettings, raw.pop("lora", {}), f"{path}: [lora]")
    return build(RunConfig, raw | parts, str(path))
