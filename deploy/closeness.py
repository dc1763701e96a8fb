#!/usr/bin/env python3
"""Writes docs/closeness.md: for each checkpoint type the error against transformers in float64, and the mutations detected.

    deploy/closeness.py [--bin=build/release/bin] [--cuda-bin=build/cuda/bin]     # minutes

Runs the tests that measure it and reads their lines: engine_test (reference and CPU backends), cuda_engine_test (the
emulated CUDA device); and tests/testdata/goldens/architectures/mutation_test.txt, which `python recipes/goldens
mutation_test` wrote. It fails when a test fails, or when a checkpoint has no line.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests/testdata/goldens"
LINE = re.compile(
    r"^(?P<name>\S+/\S+)\s+(?P<kernels>\S+)\s+(?P<dtype>f32|bf16)\s+\d+ tokens: largest difference (?P<difference>\S+) "
    r"\(bound (?P<bound>\S+)\), rms (?P<rms>\S+) \(bound (?P<rms_bound>[^)]+)\)"
    r"(, greedy steps compared (?P<steps>\d+) of (?P<of>\d+))?"
)
PAGE = """# Closeness: every checkpoint type against float64

For researchers: how far each type's log-probabilities lie from those of transformers in float64, and which deliberate
mistakes its checkpoints show.

[checkpoints.md](checkpoints.md#how-close-is-every-architecture-to-float64)
says how prompts, expected values and bounds come about.

    deploy/closeness.py

runs the tests and writes this page. {machine}

- **Difference**: the largest of any log-probability of a type's checkpoints: all targets, and the whole row after a
  prompt. **Share**: of its bound, the largest; **rms**: of the bound of the root mean square.
- **Steps**: greedy tokens that were compared and are equal. In bf16 those before the first whose two best tokens are
  closer than rounding.
{cuda}- **Mistakes**: pairs of a deliberate mistake and a checkpoint, of which so many are beyond the bound.

{table}

In all: {seen32} of {pairs} pairs of mistake and checkpoint are seen in f32, {seen16} in bf16; {mistakes} mistakes.
Not seen in f32: {unseen}.
"""


CUDA_NOTE = "- **CUDA**: the kernels on the emulated device. They have no head width of 8, 12, 20 or 24; such checkpoints are left out.\n"


def lines_of(program, pattern):
    if not program.exists():
        print(f"{program} is not built: the page has no columns of it")
        return []
    done = subprocess.run([str(program), f"--gtest_filter={pattern}"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{program.name} failed:\n" + "\n".join(done.stdout.splitlines()[-30:]))
    return [found.groupdict() for found in map(LINE.match, done.stdout.splitlines()) if found]


def mistakes():
    """(mistake, checkpoint, multiple of the f32 bound, of the bf16 bound)."""
    name, rows = "", []
    for line in (GOLDENS / "architectures/mutation_test.txt").read_text().splitlines():
        head = re.match(r"^(\S.*): \d+ checkpoints?(, \d+ of them blind)?$", line)
        row = re.match(r"^    (\S+)\s+\S+\s+x f32\s+(\S+)\s+x bf16\s+(\S+)$", line)
        if head:
            name = head[1]
        elif row:
            rows.append((name, row[1], float(row[2]), float(row[3])))
    return rows


def type_of(name):
    folder, _, checkpoint = name.partition("/")
    if folder != "architectures":
        return None
    return json.loads((GOLDENS / name / "config.json").read_text())["model_type"]


def cell(rows, steps=True):
    """Difference, share, rms, steps of one backend and format."""
    if not rows:
        return ["", "", ""] + [""] * steps
    share = max(float(r["difference"]) / float(r["bound"]) for r in rows)
    rms = max(float(r["rms"]) / float(r["rms_bound"]) for r in rows)
    out = [f"{max(float(r['difference']) for r in rows):.1e}", f"{share:.2f}", f"{rms:.2f}"]
    if steps:
        out.append(f"{sum(int(r['steps']) for r in rows)} of {sum(int(r['of']) for r in rows)}")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--cuda-bin", type=pathlib.Path, default=ROOT / "build/cuda/bin")
    options = parser.parse_args()
    on_device = lines_of(options.cuda_bin / "cuda_engine_test", "CudaGoldenTest.*")
    measured = lines_of(options.bin / "engine_test", "*Golden*") + on_device
    by_type, checkpoints = collections.defaultdict(list), collections.defaultdict(set)
    for line in measured:
        if kind := type_of(line["name"]):
            by_type[kind].append(line)
            checkpoints[kind].add(line["name"])
    for config in GOLDENS.glob("architectures/*/config.json"):
        name = f"architectures/{config.parent.name}"
        if not any(line["name"] == name for line in measured):
            raise SystemExit(f"{name} has no line")
    pairs = mistakes()
    titles = ["Checkpoints", "Reference, f32", "CPU, f32", "Share", "Steps", "CPU, bf16", "Share", "rms", "Steps"]
    titles += ["CUDA, bf16", "Share", "rms"] * bool(on_device) + ["Mistakes, f32", "bf16"]
    table = [f"| `model_type` | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(titles)]
    for kind in sorted(by_type):
        of = lambda start, dtype: [r for r in by_type[kind] if r["kernels"].startswith(start) and r["dtype"] == dtype]
        of_cpu = [r for r in of("cpu", "f32") if not r["kernels"].startswith("cpu-portable")] or of("cpu", "f32")
        cpu = cell(of_cpu)
        cuda = cell(of("cuda", "bf16"), steps=False) if on_device else []
        own = [p for p in pairs if f"architectures/{p[1]}" in checkpoints[kind]]
        seen = [f"{sum(p[column] >= 1 for p in own)} of {len(own)}" for column in (2, 3)]
        row = [f"`{kind}`", str(len(checkpoints[kind])), cell(of("reference", "f32"))[0], cpu[0], cpu[1], cpu[3], *cell(of("cpu", "bf16")), *cuda, *seen]
        table.append("| " + " | ".join(row) + " |")
    kernels = sorted({r["kernels"] for r in measured if r["kernels"].startswith("cpu") and "portable" not in r["kernels"]})
    unseen = [f"{name} in {checkpoint}" for name, checkpoint, f32, _ in pairs if f32 < 1]
    (ROOT / "docs/closeness.md").write_text(PAGE.format(
        machine=f"CPU kernels of the rows: {', '.join(f'`{k}`' for k in kernels)}.", table="\n".join(table), cuda=CUDA_NOTE if on_device else "", pairs=f"{len(pairs):,}",
        seen32=f"{sum(p[2] >= 1 for p in pairs):,}", seen16=f"{sum(p[3] >= 1 for p in pairs):,}", mistakes=len({p[0] for p in pairs}),
        unseen="; ".join(unseen) or "none"))  # fmt: skip
    print(f"docs/closeness.md: {len(by_type)} types, {len(measured)} measurements, {len(pairs)} pairs")


if __name__ == "__main__":
    main()
