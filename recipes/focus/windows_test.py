"""Paired differences by window: the interval against numbers worked out by hand, resuming, and refusal of unlike windows."""

import csv
import pathlib

import numpy as np
import pytest
import torch

from emergence.analysis import paired
from focus import windows
from focus.attention import attach
from focus.settings import FocusSettings


def test_interval_is_students() -> None:
    d = paired(np.array([1.0, 2.0, 3.0, 6.0]) - 1.0)
    # Differences 0, 1, 2, 5: mean 2, standard deviation sqrt(14/3), t(0.975; 3) = 3.182446, t(0.8; 3) = 0.978472.
    error = (14 / 3) ** 0.5 / 2
    assert d.mean == pytest.approx(2.0)
    assert d.half_width == pytest.approx(3.182446 * error, rel=1e-6)
    assert d.detectable == pytest.approx((3.182446 + 0.978472) * error, rel=1e-6)


class Rows:
    def held_out(self) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.randint(3, 60, (3, 40), generator=torch.Generator().manual_seed(7))
        weights = torch.ones(ids.shape)
        weights[:, -1] = 0
        return ids, weights


def test_windows_are_measured_once_and_every_pair_visible_is_dense(tmp_path: pathlib.Path, checkpoint) -> None:  # type: ignore[no-untyped-def]
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint("llama"))
    mode = attach(model, FocusSettings(group_count=4, top_k=1, window=2), seed=1)
    path = tmp_path / "rows.csv"

    def measured() -> str:
        windows.measure_windows(model, mode, Rows(), "run", 9, path, [1, 4], [], True)  # type: ignore[arg-type]
        return path.read_text()

    whole = measured()
    assert measured() == whole
    lines = whole.splitlines()
    assert "hard" not in [s.name for s in windows.settings_of(model, 0, [1], [], True)]
    path.write_text("\n".join(lines[:7]) + "\n")  # dense and soft alone
    assert measured() == whole
    with path.open() as file:
        rows = list(csv.DictReader(file))
    loss = {(r["setting"], r["parameter"], r["row"]): float(r["loss"]) for r in rows}
    assert len(rows) == 3 * len({(r["setting"], r["parameter"]) for r in rows}) == 18  # dense, soft, hard 1 and 4, window, random 1
    for row in "012":
        assert loss["hard", "4", row] == loss["dense", "", row]
        assert loss["hard", "1", row] != loss["dense", "", row] and loss["window", "", row] != loss["hard", "1", row]
    assert "| run | 9 | hard | 4 |" in windows.table([path]) and "+0.0000 ± 0.0000" in windows.table([path])
    assert "minus hard:1" in windows.table([path], "hard:1")
    with pytest.raises(ValueError, match="no rows of hard:3"):
        windows.table([path], "hard:3")
    assert "hard" not in [s.name for s in windows.settings_of(model, 0, [1], [], True)]
    path.write_text("\n".join(line for line in whole.splitlines() if ",hard,1,2,1," not in line) + "\n")
    with pytest.raises(ValueError, match="different windows"):
        windows.table([path])


def test_a_constant_factor_of_one_is_dense(tmp_path: pathlib.Path, checkpoint) -> None:  # type: ignore[no-untyped-def]
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint("llama"))
    mode = attach(model, FocusSettings(group_count=4, top_k=1, window=2, gate="constant_gate"), seed=1)
    before = {name: p.clone() for name, p in model.named_parameters() if name.endswith("focus.gate")}
    path = tmp_path / "rows.csv"
    windows.measure_windows(model, mode, Rows(), "run", 0, path, [1], [0.25, 1.0], False)  # type: ignore[arg-type]
    with path.open() as file:
        loss = {(r["setting"], r["parameter"], r["row"]): float(r["loss"]) for r in csv.DictReader(file)}
    for row in "012":
        assert loss["factor", "1.0", row] == loss["dense", "", row] != loss["factor", "0.25", row]
    assert before and all(torch.equal(p, before[name]) for name, p in model.named_parameters() if name in before)


def test_lora_is_paired_with_another_run_on_the_same_windows(tmp_path: pathlib.Path, checkpoint) -> None:  # type: ignore[no-untyped-def]
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    def rows_of(run: str, path: pathlib.Path) -> dict[tuple[str, str], float]:
        with path.open() as file:
            return {(r["setting"], r["row"]): float(r["loss"]) for r in csv.DictReader(file) if r["run"] == run}

    plain = AutoModelForCausalLM.from_pretrained(checkpoint("llama"))
    mode = attach(plain, FocusSettings(group_count=4, top_k=1, window=2), seed=1)
    focus, adapted, fresh = tmp_path / "focus.csv", tmp_path / "lora.csv", tmp_path / "fresh.csv"
    windows.measure_windows(plain, mode, Rows(), "focus", 9, focus, [1], [], False)  # type: ignore[arg-type]
    settings = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    lora = get_peft_model(AutoModelForCausalLM.from_pretrained(checkpoint("llama")), settings)
    windows.measure_windows(lora, None, Rows(), "fresh", 0, fresh, [], [], False)  # type: ignore[arg-type]
    for name, p in lora.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(p, std=0.3)
    windows.measure_windows(lora, None, Rows(), "lora", 5, adapted, [], [], False)  # type: ignore[arg-type]
    start, end, theirs = rows_of("fresh", fresh), rows_of("lora", adapted), rows_of("focus", focus)
    for row in "012":
        assert start["lora", row] == start["dense", row] == end["dense", row] == pytest.approx(theirs["dense", row], abs=2e-6)
        assert end["lora", row] != end["dense", row]
    d = paired([end["lora", row] - theirs["hard", row] for row in "012"])
    table = windows.table([focus, adapted], "focus/hard:1")
    assert f"| lora | 5 | lora |  | {np.mean([end['lora', r] for r in '012']):.4f} | {d.mean:+.4f} ± {d.half_width:.4f} |" in table
    adapted.write_text(adapted.read_text().replace(f"{end['dense', '1']:.6f}", f"{end['dense', '1'] + 0.01:.6f}"))
    with pytest.raises(ValueError, match="windows are not the same"):
        windows.table([focus, adapted], "focus/hard:1")
