"""What the golden files would notice: deliberate mistakes, one at a time, in the formulas of reference.py.

A mistake applies to a checkpoint when it changes any log-probability at all. It is seen when it moves one by more than
the bound that server/engine/golden_test.cc allows there. Every mistake must be seen by at least one checkpoint, ten
times over; where it is seen by none that it applies to, the table says so.

    python recipes/goldens mutation_test [NAME...]      (writes tests/testdata/goldens/architectures/mutation_test.txt;
                                                         with names, their rows of it)
"""

import json
import re

import reference
from cases import CASES
from make_architectures import OUT
from reference import flat
from shapes import MULTIPLIERS

F32_FLOOR = 64 * 8 * 2.0**-24
MARGIN = 10


def mistakes():
    """All names that the reference and its parts know."""
    names = set()
    for module in ("reference", "shapes", "states", "feed_forward", "rope", "tensor_names", "gemma4", "gemma3n"):
        text = (OUT.parents[3] / f"recipes/goldens/{module}.py").read_text()
        names |= set(re.findall(r'"([^"\n]+)" (?:not )?in (?:self\.|model\.)?mistakes', text))
    biases = {f"no {what} bias" for what in ("q", "k", "v", "o", "mlp", "router")} | {f"no bias of {what}" for what in ("experts", "gates and ups")}
    biases |= {"no bias around the convolution", "no bias around the state"} | {f"no multiplier of {what}" for what in (*MULTIPLIERS, "gates", "the MLP's outputs")}
    attention = {n for n in names if any(w in n for w in ("tau", "temperature", "clip", "sequence taken", "begin token", "log n", "trained", "head's scale", "sink under the cap", "own cap"))}
    return sorted((names | biases) - attention - {"no bias"})


def times_bound(moved, run, runs):
    """In multiples of what golden_test.cc allows, of f32 and of bf16."""
    largest, rms = moved.abs().max().item(), moved.pow(2).mean().sqrt().item()
    return (
        largest / max(8 * run["float32_difference"], F32_FLOOR),
        largest,
        max(largest / (3 * max(r["bfloat16_difference"] for r in runs)), rms / (1.6 * max(r["bfloat16_rms"] for r in runs))),
    )


def written(lines):
    """The rows of a table: [(times the bounds and moved, checkpoint)] of each mistake."""
    rows, found = {}, None
    for line in lines:
        if row := re.fullmatch(r"    (\S+) +(\S+)  x f32 +(\S+)  x bf16 +(\S+)", line):
            name, moved, f32, bf16 = row.groups()
            found.append(((float(f32), float(moved), float(bf16)), name))
        elif head := re.fullmatch(r"(.+): \d+ checkpoints?(, .*)?", line):
            found = rows.setdefault(head[1], [])
    return rows


def main(only):
    rows = {m: [] for m in mistakes()}
    if only:
        for mistake, found in written((OUT / "mutation_test.txt").read_text().splitlines()).items():
            if mistake in rows:
                rows[mistake] = [row for row in found if row[1] not in only]
    for case in CASES:
        if only and case["name"] not in only:
            continue
        directory = OUT / case["name"]
        runs = json.loads((directory / "golden.json").read_text())["runs"]
        for mistake, found in rows.items():
            best = (0.0, 0.0, 0.0)
            for run in runs:
                try:
                    wrong = reference.run(directory, run["token_ids"], 0, mistakes=(mistake,))
                except (RuntimeError, KeyError, IndexError):
                    continue  # shapes do not allow this mistake here
                moved = flat(wrong) - flat(run)
                best = max(best, times_bound(moved, run, runs)) if moved.abs().max() > 1e-10 else best
            if best[0]:
                found.append((best, case["name"]))
        print(case["name"], flush=True)
    lines = [
        "What each deliberate mistake moves a log-probability by, the largest over a checkpoint's runs;",
        "x f32 and x bf16: in multiples of what the test allows there. Below 1 the mistake is not seen.",
        "Made by: python recipes/goldens mutation_test",
        "",
    ]
    unseen = []
    for mistake, found in rows.items():
        if not found:
            unseen.append(f"{mistake}: applies nowhere")
            continue
        found.sort(reverse=True)
        if found[0][0][0] < MARGIN:
            unseen.append(f"{mistake}: {found[0][0][0]:.1f}")
        blind = sum(best[0] < 1 for best, _ in found)
        lines.append(f"{mistake}: {len(found)} checkpoints" + (f", {blind} of them blind" if blind else ""))
        lines += [f"    {name:28} {best[1]:8.1e}  x f32 {best[0]:9.1f}  x bf16 {best[2]:7.2f}" for best, name in found]
    (OUT / "mutation_test.txt").write_text("\n".join(lines) + "\n")
    seen = sum(bool(found) for found in rows.values())
    pairs = [best for found in rows.values() for best, _ in found]
    print(f"{len(rows)} mistakes, {seen} apply; {len(pairs)} pairs, seen in f32 {sum(b[0] >= 1 for b in pairs)}, in bf16 {sum(b[2] >= 1 for b in pairs)}")
    if unseen:
        raise SystemExit("not seen ten times over: " + "; ".join(unseen))
