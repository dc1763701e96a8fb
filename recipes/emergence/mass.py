"""Attention mass on the gold value against the number of pairs: docs/studies/attention_mass.md.

Models of equal training (exactly `steps_max` steps) are asked for one of n + 1 pairs, as in training but with other n. The row
that must give the value has, in the head that puts the largest mean mass on the gold value's token at the trained number of
pairs, the mass m; the law says m = 1 / (1 + n e^(-gap/t)), so log-odds(m) + ln n = gap/t at every n.
"""

import json
import math
import pathlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from emergence import chart
from emergence.analysis import paired
from emergence.config import Study
from emergence.train import Run, read_results
from llama.model import Llama

ARMS = ("baseline", "focal", "rate-only")
SEEDS, LEARNING_RATE = (1, 2, 3), 0.001
PAIRS, FITTED, CONTEXTS = (2, 4, 8, 16, 32, 64), (2, 4, 8, 16), 256
Row = dict[str, Any]


def questions(pairs: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """Contexts of `pairs` pairs and the key of one of them: ids, the place of the gold value, the value; the same for all runs."""
    rng, half = np.random.default_rng([0, pairs]), vocabulary // 2
    if pairs > half:
        raise ValueError(f"{pairs} pairs need as many keys; there are {half}")
    keys = rng.permuted(np.tile(np.arange(half), (CONTEXTS, 1)), axis=1)[:, :pairs]
    values = half + rng.integers(half, size=(CONTEXTS, pairs))
    asked = rng.integers(pairs, size=CONTEXTS)
    rows = np.arange(CONTEXTS)
    context = np.stack([keys, values], axis=2).reshape(CONTEXTS, 2 * pairs)
    ids = np.concatenate([context, keys[rows, asked][:, None]], axis=1)
    return torch.from_numpy(ids), torch.from_numpy(2 * asked + 1), torch.from_numpy(values[rows, asked])


@torch.no_grad()
def last_row(net: Llama, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of the last position, and [B, layers, heads, keys] of what it attends to."""
    x, (cos, sin) = net.embed_tokens(ids), net.rope(ids.shape[1])
    weights = []
    for block in net.blocks():
        normed = block.input_layernorm(x)
        q, k = block.self_attn.queries_and_keys(normed, cos, sin)
        scores = (q[:, :, -1:] @ k.transpose(2, 3)) * block.self_attn.row_scales(normed)[:, :, -1:]
        weights.append(scores.softmax(-1)[:, :, 0])
        x = block(x, cos, sin)
    return net.logits(net.norm(x[:, -1])), torch.stack(weights, 1)


def ask(net: Llama, study: Study) -> list[Row]:
    """One row a number of pairs: accuracy, mean mass in the chosen head, and its mean log-odds."""
    found = {}
    for pairs in PAIRS:
        ids, place, gold = questions(pairs, study.vocabulary)
        logits, weights = last_row(net, ids)
        mass = weights.gather(3, place[:, None, None, None].expand(*weights.shape[:3], 1))[..., 0]
        found[pairs] = (logits.argmax(-1) == gold).float().mean().item(), mass.double()
    layer, head = divmod(int(found[study.length // 4][1].mean(0).argmax()), study.heads)
    rows = []
    for pairs, (accuracy, masses) in found.items():
        m = masses[:, layer, head].clamp(1e-9, 1 - 1e-9)
        odds = (m / (1 - m)).log().mean().item()
        rows.append({"pairs": pairs, "layer": layer, "head": head, "accuracy": round(accuracy, 4), "mass": round(m.mean().item(), 4),
                     "log_odds": round(odds, 4)})  # fmt: skip
    return rows


def run_all(study: Study, out: pathlib.Path, results: pathlib.Path) -> None:
    """Seed by seed over all arms; resumes; one line of JSON a run and number of pairs."""
    results.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["arm"], r["seed"]) for r in read_results(results)}
    for seed in SEEDS:
        for arm in ARMS:
            if (arm, seed) in done:
                continue
            run = Run(study, arm, LEARNING_RATE, seed, out)
            run.train(at_least=study.steps_max)
            with results.open("a") as file:
                file.write("".join(json.dumps({"arm": arm, "seed": seed, "steps": run.step} | r) + "\n" for r in ask(run.net, study)))
            print(arm, seed, f"{run.seconds:.0f} s", flush=True)


def slope(rows: list[Row]) -> float:
    """Of the mean log-odds against ln n over the fitted numbers of pairs; the law says -1."""
    mine = [r for r in rows if r["pairs"] in FITTED]
    return float(np.polyfit([math.log(r["pairs"] - 1) for r in mine], [r["log_odds"] for r in mine], 1)[0])


def gap(rows: list[Row]) -> float:
    """gap/t of one run: the mean over the fitted numbers of pairs of the log-odds plus ln n."""
    return float(np.mean([r["log_odds"] + math.log(r["pairs"] - 1) for r in rows if r["pairs"] in FITTED]))


def figure(rows: list[Row]) -> str:
    """Mean mass against the number of pairs, and dashed the law with the arm's fitted gap/t."""
    series = []
    for arm in dict.fromkeys(r["arm"] for r in rows):
        mine = [r for r in rows if r["arm"] == arm]
        points = []
        for pairs in PAIRS:
            values = [r["mass"] for r in mine if r["pairs"] == pairs]
            points.append(chart.Point(pairs, float(np.mean(values)), min(values), max(values)))
        series.append(chart.Series(arm, points))
        fitted = gap(mine)
        series.append(chart.Series(f"law, gap/t = {fitted:.2f}", [chart.Point(n, 1 / (1 + (n - 1) * math.exp(-fitted))) for n in PAIRS], dashed=True))
    return chart.lines("mass on the gold value: mean and range of seeds", "pairs (16 as trained)", "mass", series, log_x=True)


def tables(rows: list[Row]) -> str:
    lines = ["| arm | pairs | seeds | accuracy | mass on the gold value | gap/t |", "| --- | --- | --- | --- | --- | --- |"]
    for arm in dict.fromkeys(r["arm"] for r in rows):
        for pairs in PAIRS:
            mine = [r for r in rows if r["arm"] == arm and r["pairs"] == pairs]
            at_n = np.mean([r["log_odds"] for r in mine]) + math.log(pairs - 1)
            lines.append(f"| {arm} | {pairs} | {len(mine)} | {np.mean([r['accuracy'] for r in mine]):.3f} | {np.mean([r['mass'] for r in mine]):.3f} | {at_n:.2f} |")
    lines += ["", "| arm | slope of the log-odds against ln n, 95 % over seeds | gap/t, mean over 2 to 16 pairs | minus the first arm's, 95 %, paired by seed | seen from |",
              "| --- | --- | --- | --- | --- |"]  # fmt: skip
    runs = {key: [r for r in rows if (r["arm"], r["seed"]) == key] for key in dict.fromkeys((r["arm"], r["seed"]) for r in rows)}
    first = rows[0]["arm"] if rows else ""
    for arm in dict.fromkeys(a for a, _ in runs):
        by_seed = {s: r for (a, s), r in runs.items() if a == arm}
        slopes = [slope(r) for r in by_seed.values()]
        shown = f"{(t := paired(slopes)).mean:.2f} ({t.low:.2f} to {t.high:.2f})" if len(slopes) > 1 else f"{slopes[0]:.2f}"
        line = f"| {arm} | {shown} | {np.mean([gap(r) for r in by_seed.values()]):.2f} |"
        both = [gap(r) - gap(runs[first, s]) for s, r in by_seed.items() if arm != first and (first, s) in runs]
        lines.append(line + (f" {(t := paired(both)).mean:+.2f} ({t.low:+.2f} to {t.high:+.2f}) | {t.detectable:.2f} |" if len(both) > 1 else " | |"))
    return "\n".join(lines) + "\n"
