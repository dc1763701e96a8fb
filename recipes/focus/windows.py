"""The loss of every held-out window under several masks, and paired differences with intervals over windows.

`measure_windows` appends one row of CSV for each setting and window, setting by setting, so that an interrupted run can
resume. `table` reads such files: the difference of each setting from dense attention is taken window by window, and the
interval is Student's over windows. Windows of one text are what it generalizes to: other windows of that text. A base of another
run, `RUN/SETTING`, must have been measured on the same windows.
"""

import contextlib
import csv
import dataclasses
import pathlib
from typing import Any, Iterator

import numpy as np
import torch
from torch import nn

from emergence.analysis import paired
from focus import measure
from focus.attention import FocusMode, routers
from focus.data import Source

FIELDS = ("run", "step", "setting", "parameter", "window", "row", "loss", "tokens", "largest_group_share", "pairs_visible")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One way to compute the same windows. `gate` as in FocusMode; `over` replaces keys of FocusSettings under the hard mask;
    `factor` is the number that a constant gate multiplies far scores with, in every layer."""

    name: str
    gate: str | None
    over: tuple[tuple[str, Any], ...] = ()
    factor: float | None = None

    @property
    def parameter(self) -> str:
        """k or the factor, in the column of that name."""
        return str(dict(self.over).get("top_k", "" if self.factor is None else self.factor))


def settings_of(model: nn.Module, step: int, top_k: list[int], factors: list[float], controls: bool) -> Iterator[Setting]:
    """Dense and the training gate; the hard mask at each k, once groups are trained; constant gates; the controls: the window
    alone, random groups at each k."""
    own = next(routers(model)).settings
    yield Setting("dense", None)
    yield Setting("soft", own.gate)
    if own.gate == "constant_gate":
        for factor in factors:
            yield Setting("factor", "constant_gate", factor=factor)
    elif step:
        for k in top_k:
            yield Setting("hard", "hard", (("top_k", k),))
    if controls:
        yield Setting("window", "hard", (("groups", "none"),))
        for k in top_k:
            if 2 * k <= own.group_count:
                yield Setting("random", "hard", (("groups", "random"), ("top_k", k)))


LORA_SETTINGS = (Setting("dense", None), Setting("lora", None))  # without and with the adapters


def adapters(model: nn.Module, setting: Setting) -> contextlib.AbstractContextManager[Any]:
    """Of a LoRA run: on under `lora` alone. Otherwise nothing."""
    off = setting.name == "dense" and hasattr(model, "disable_adapter")
    return model.disable_adapter() if off else contextlib.nullcontext()  # type: ignore[operator]


@contextlib.contextmanager
def constant_factor(model: nn.Module, factor: float | None) -> Iterator[None]:
    """Every layer's constant gate at one value, for a while."""
    kept = [(router, router.gate.detach().clone()) for router in routers(model)] if factor is not None else []
    for router, value in kept:
        router.gate.data = torch.logit(torch.tensor(factor, dtype=value.dtype))
    try:
        yield
    finally:
        for router, value in kept:
            router.gate.data = value


def measure_windows(
    model: nn.Module, mode: FocusMode | None, source: Source, run: str, step: int, path: pathlib.Path, top_k: list[int],
    factors: list[float], controls: bool,
) -> None:  # fmt: skip
    """Biases are those the model has: a run ends with a calibration. Without a mode it is a LoRA run."""
    model.eval()
    done = set()
    if path.exists():
        with path.open() as file:
            done = {(r["setting"], r["parameter"]) for r in csv.DictReader(file) if r["run"] == run and int(r["step"]) == step}
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(",".join(FIELDS) + "\n")
    ids, weights = source.held_out()
    for setting in LORA_SETTINGS if mode is None else settings_of(model, step, top_k, factors, controls):
        over = dict(setting.over)
        if (setting.name, setting.parameter) in done:
            continue
        share, visible, window = "", "", ""
        if mode is None:
            with adapters(model, setting):
                total, count = measure.row_losses(model, ids, weights)
        elif setting.gate == "hard":
            total, count, groups = measure.hard_row_losses(model, mode, ids, weights, **over)
            share, visible = f"{max(groups.largest_group_share):.4f}", f"{np.mean(groups.pairs_visible):.4f}"
        else:
            gate, mode.gate = mode.gate, setting.gate
            with constant_factor(model, setting.factor):
                total, count = measure.row_losses(model, ids, weights)
            mode.gate = gate
        if setting.gate is not None:
            window = str(next(routers(model)).settings.window)
        rows = [(run, step, setting.name, setting.parameter, window, i, f"{(a / b).item():.6f}", int((weights[i, :-1] > 0).sum()), share, visible)
                for i, (a, b) in enumerate(zip(total.double(), count.double()))]  # fmt: skip
        with path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


Key = tuple[str, str, str, str]  # run, step, setting, parameter


def read(paths: list[pathlib.Path]) -> dict[Key, list[dict[str, str]]]:
    """Rows of the files by what was measured, each in the order of windows."""
    out: dict[Key, list[dict[str, str]]] = {}
    for path in paths:
        with path.open() as file:
            for row in csv.DictReader(file):
                out.setdefault((row["run"], row["step"], row["setting"], row["parameter"]), []).append(row)
    return {key: sorted(rows, key=lambda r: int(r["row"])) for key, rows in out.items()}


def base_of(found: dict[Key, list[dict[str, str]]], run: str, step: str, base: str) -> list[dict[str, str]]:
    """The rows that those of a run are compared with. `base` is SETTING, SETTING:PARAMETER, or either after RUN/; of another
    run, whose dense losses must be this one's."""
    other, _, setting = base.rpartition("/")
    name, _, parameter = setting.partition(":")
    runs = {(r, s) for r, s, *_ in found if r == (other or run)}
    at = (run, step) if (run, step) in runs else max(runs, key=lambda key: int(key[1]), default=(other, step))
    rows = found.get((*at, name, parameter))
    if rows is None:
        raise ValueError(f"{at[0]} has no rows of {setting}")
    if at != (run, step):
        ours, theirs = ([float(r["loss"]) for r in found.get((*key, "dense", ""), [])] for key in ((run, step), at))
        if len(ours) != len(theirs) or not np.allclose(ours, theirs, rtol=0, atol=1e-4):
            raise ValueError(f"{run} and {at[0]} differ in their dense losses, so their windows are not the same")
    return rows


def table(paths: list[pathlib.Path], base: str = "dense") -> str:
    """Markdown: loss of each setting, and its difference from `base`: see `base_of`."""
    found = read(paths)
    lines = [f"| run | step | setting | k or factor | loss | minus {base}, 95 % | seen from | pairs visible | largest group | windows |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for (run, step, setting, parameter), rows in found.items():
        losses = np.array([float(r["loss"]) for r in rows])
        against = base_of(found, run, step, base)
        if [r["row"] for r in against] != [r["row"] for r in rows]:
            raise ValueError(f"{run}: {setting} and {base} are of different windows")
        difference = seen = ""
        if rows is not against:
            d = paired(losses - np.array([float(r["loss"]) for r in against]))
            difference, seen = f"{d.mean:+.4f} ± {d.half_width:.4f}", f"{d.detectable:.4f}"
        pairs, share = rows[0]["pairs_visible"], rows[0]["largest_group_share"]
        shown = (run, step, setting, parameter, f"{losses.mean():.4f}", difference, seen, pairs, "" if setting == "window" else share, len(rows))
        lines.append("| " + " | ".join(map(str, shown)) + " |")
    return "\n".join(lines) + "\n"
