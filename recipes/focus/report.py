"""Statistics of a Focus checkpoint's groups: shares, pairs visible, tokens of each group, and purity by part of speech.

Purity of a layer: the share of tokens (each in its first group) whose part of speech is their group's most frequent one.
Also the purity of random groups of the same sizes (parts of speech shuffled over the tokens), as a reference: one part
is always the most frequent.
"""

import collections
import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focus.attention import routers
from focus.checkpoint import load_model
from focus.measure import statistics
from focus.words import NAMES, part_of_speech

SHUFFLES = 20


@dataclasses.dataclass
class LayerReport:
    layer: int
    largest_group_share: float
    pairs_visible: float
    purity: float
    purity_at_random: float
    parts: list[dict[str, int]]  # per group, tokens by part of speech
    common: list[list[tuple[str, int]]]  # per group, its most frequent tokens


def purity(table: np.ndarray) -> float:
    """Of counts [group, part]."""
    return float(table.max(1).sum() / max(1, table.sum()))


def first_group(member: Tensor, ranked: Tensor) -> np.ndarray:
    """The highest-ranked group of each token, [tokens]."""
    return ranked.masked_fill(~member, -torch.inf).argmax(-1).flatten().numpy()


def layer_report(layer: int, member: Tensor, first: np.ndarray, window: int, tokens: list[str], seed: int = 0) -> LayerReport:
    """`member` [B, T, K]; `first` and `tokens` over all B x T tokens."""
    parts = np.array([NAMES.index(part_of_speech(t)) for t in tokens])
    count = member.shape[-1]

    def table(of: np.ndarray) -> np.ndarray:
        out = np.zeros((count, len(NAMES)), dtype=np.int64)
        np.add.at(out, (first, of), 1)
        return out

    found = table(parts)
    random = np.random.default_rng(seed)
    chance = float(np.mean([purity(table(random.permutation(parts))) for _ in range(SHUFFLES)]))
    share, pairs = statistics(member, window)
    words = [collections.Counter(t for t, g in zip(tokens, first) if g == group).most_common(12) for group in range(count)]
    by_part = [{NAMES[i]: int(n) for i, n in enumerate(row) if n} for row in found]
    return LayerReport(layer, share, pairs, purity(found), chance, by_part, words)


@torch.no_grad()
def observe(checkpoint: pathlib.Path, ids: Tensor, tokens: list[str]) -> list[LayerReport]:
    model, _ = load_model(checkpoint)
    ranked: dict[int, list[Tensor]] = {}
    for router in routers(model):
        router.observed = []
        original = router.logits

        def noted(h: Tensor, original: Any = original, layer: int = router.layer, bias: Any = router.read_bias) -> Tensor:
            logits = original(h)
            ranked.setdefault(layer, []).append(logits + bias(logits))
            return logits

        router.logits = noted  # type: ignore[method-assign]
    for row in ids:
        model(input_ids=row[None], use_cache=False)
    out = []
    for router in routers(model):
        member = torch.cat(router.observed or [])
        first = first_group(member, torch.cat(ranked[router.layer]))
        out.append(layer_report(router.layer, member, first, router.settings.window, tokens))
    return out


def printed(reports: list[LayerReport]) -> str:
    """Two tables in Markdown."""
    lines = ["| layer | largest group share | pairs visible | purity | at random |", "| --- | --- | --- | --- | --- |"]
    for r in reports:
        lines.append(f"| {r.layer} | {r.largest_group_share:.3f} | {r.pairs_visible:.3f} | {r.purity:.3f} | {r.purity_at_random:.3f} |")
    lines += ["", "| layer | group | tokens | parts of speech | most frequent tokens |", "| --- | --- | --- | --- | --- |"]
    for r in reports:
        for group, (parts, words) in enumerate(zip(r.parts, r.common)):
            total = sum(parts.values())
            top = ", ".join(f"{k} {v / total:.2f}" for k, v in sorted(parts.items(), key=lambda p: -p[1])[:3]) if total else ""
            text = " ".join(repr(t).replace("|", "\\|") for t, _ in words[:8])
            lines.append(f"| {r.layer} | {group} | {total} | {top} | {text} |")
    return "\n".join(lines) + "\n"


def drawn(report: LayerReport) -> str:
    """One layer as SVG: a bar a group, its parts of speech stacked."""
    colors = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#882255", "#44aa99", "#999933",
              "#332288", "#dd7788", "#117733", "#88ccee"]  # fmt: skip
    height, left, bar, width = 240, 40, 36, 40 + 44 * len(report.parts) + 130
    most = max(1, max(sum(p.values()) for p in report.parts))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + 50}" font-family="sans-serif" font-size="11">']
    out.append(f'<text x="{left}" y="14">layer {report.layer}: tokens per group by part of speech, purity {report.purity:.2f} (at random {report.purity_at_random:.2f})</text>')
    for group, parts in enumerate(report.parts):
        y, x = height + 20.0, left + 44 * group
        for index, name in enumerate(NAMES):
            tall = parts.get(name, 0) / most * (height - 10)
            y -= tall
            if tall:
                out.append(f'<rect x="{x}" y="{y:.1f}" width="{bar}" height="{tall:.1f}" fill="{colors[index % len(colors)]}"><title>{name} {parts[name]}</title></rect>')
        out.append(f'<text x="{x + bar / 2}" y="{height + 36}" text-anchor="middle">{group}</text>')
    for index, name in enumerate(NAMES):
        y = 30 + 15 * index
        out.append(f'<rect x="{width - 120}" y="{y}" width="10" height="10" fill="{colors[index % len(colors)]}"/><text x="{width - 105}" y="{y + 9}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main(
    checkpoint: pathlib.Path, text: pathlib.Path, length: int, rows: int, json_file: pathlib.Path | None, svg: pathlib.Path | None
) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    ids = tokenizer.encode(text.read_text(), add_special_tokens=False).ids
    rows = min(rows, len(ids) // length)
    if rows == 0:
        raise ValueError(f"{text} has {len(ids)} tokens, fewer than {length}")
    ids = ids[: rows * length]
    tokens = [tokenizer.decode([i], skip_special_tokens=False) for i in ids]
    reports = observe(checkpoint, torch.tensor(ids).view(rows, length), tokens)
    setting = json.loads((checkpoint / "config.json").read_text())["focus_attention"]
    shown = ", ".join(f"{k} {setting[k]}" for k in ("group_count", "top_k", "window", "bias", "regime", "trained_context_length") if k in setting)
    print(f"{rows} x {length} tokens of {text.name}; {shown}\n\n{printed(reports)}")
    if json_file:
        json_file.write_text(json.dumps({"setting": setting, "rows": rows, "length": length, "layers": [dataclasses.asdict(r) for r in reports]}) + "\n")
    if svg:
        svg.write_text(drawn(max(reports, key=lambda r: r.purity - r.purity_at_random)))
