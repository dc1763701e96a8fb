"""Writes kernels/cuda/attention_measured.h from results of deploy/gpu_check.sh: the best prefill of each kind and head dim.

    python3 recipes/attention_table.py docs/gpu/*.json > kernels/cuda/attention_measured.h

Unsteady runs and cells with wrong results are ignored. Heads and lengths differ between cells: a kind's entry is its
median over the causal prefill cells of 16,384 tokens of that head dim, from the latest steady run of a device.
"""

import json
import os
import re
import statistics
import sys

HEADER = """// What attention kinds reached on devices, from the files that deploy/gpu_check.sh leaves in docs/gpu. Written by
//
//   python3 recipes/attention_table.py docs/gpu/*.json > kernels/cuda/attention_measured.h
{note}#pragma once

#include "kernels/cuda/attention_table.h"

namespace varifocal::kernels::cuda {{

inline constexpr MeasuredAttention kMeasuredAttention[] = {{
{rows}
}};

}}  // namespace varifocal::kernels::cuda
"""
NOTHING = """//
// Nothing has been measured on a device yet: the one row is no measurement, it keeps the table from being empty.
"""


def rows_of(path):
    with open(path) as file:
        report = json.load(file)
    capability = report["versions"].get("capability", "").replace(".", "")
    kind = re.fullmatch(r"cuda-(\w+)-bf16", report["backend"])
    if not report.get("steady") or not capability or not kind:
        return {}
    reached = {}
    for row in report["cells"]:
        cell = re.fullmatch(r"prefill_\d+_\d+_(\d+)_16384", row["cell"])
        if cell and "wrong" not in row and row.get("tflops"):
            reached.setdefault((kind[1], int(capability), int(cell[1])), []).append(row["tflops"])
    return {key: (report["date"], statistics.median(values), os.path.basename(path)) for key, values in reached.items()}


def main():
    best = {}
    for path in sys.argv[1:]:
        for key, found in rows_of(path).items():
            best[key] = max(best.get(key, found), found)
    rows = [f'    {{"{kind}", {capability}, {dim}, {tflops:.1f}, "{source}"}},'
            for (kind, capability, dim), (_, tflops, source) in sorted(best.items())]
    sys.stdout.write(HEADER.format(note="" if rows else NOTHING, rows="\n".join(rows or ['    {"", 0, 0, 0, ""},'])))


if __name__ == "__main__":
    main()
