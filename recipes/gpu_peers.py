"""Times our kernels and PyTorch's in turns on one device, and prints them side by side.

Method: random inputs; both sides warmed up; rounds A, B, A, B; medians with their spread; ceilings (a large product, a large
copy) first and last, and the run is marked unsteady when they differ by more than 3 %. Our side checks itself against
float64 before every timing (gpu_bench); PyTorch's output is checked the same way once per cell.

    python3 recipes/gpu_peers.py --bench=build/gpu-check/bin/gpu_bench --out=docs/gpu [--seconds=400] [--rounds=5]
    python3 recipes/gpu_peers.py --bench=... --out=/tmp --tiny       on the emulator and the CPU: tests this file
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import time

import torch

# Ours over theirs, by cell and peer: what docs/gpu asks for.
TARGETS = {("product", "matmul"): 0.98, ("decode_product", "matmul"): 1.1, ("attention", "flash"): 0.95,
           ("attention", "cudnn"): 0.50, ("suffix", "flash"): 1.0, ("decode", "flash"): 1.5}


class Bench:
    """gpu_bench as a server: a cell's name in, one round out."""

    def __init__(self, path, tiny):
        flags = ["--device=emulated", "--tiny"] if tiny else []
        self.process = subprocess.Popen([path, "--serve", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.info = json.loads(self.process.stdout.readline())

    def round(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("gpu_bench ended at cell " + name)
        return json.loads(line)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def time_one(operation, device, tiny):
    """Milliseconds of one call, many queued between two waits."""
    operation()
    wait(device)
    count = 1
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            operation()
        wait(device)
        seconds = time.perf_counter() - begin
        if tiny or seconds >= 0.02:
            return seconds / count * 1e3
        count *= 2


def attention_inputs(cell, device):
    keys = cell["context"] + cell["rows"]
    shape = lambda heads, rows: (cell["sequences"], heads, rows, cell["head_dim"])
    draw = lambda heads, rows: torch.randn(shape(heads, rows), device=device, dtype=torch.bfloat16)
    return draw(cell["heads"], cell["rows"]), draw(cell["kv_heads"], keys), draw(cell["kv_heads"], keys)


def attention_peer(cell, backend, device):
    q, k, v = attention_inputs(cell, device)
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kinds = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
    causal = cell["rows"] > 1
    options = {"enable_gqa": cell["heads"] != cell["kv_heads"]}
    if causal and cell["context"] > 0:
        # Bottom-right aligned: a suffix on a prefix.
        from torch.nn.attention.bias import causal_lower_right
        options["attn_mask"] = causal_lower_right(cell["rows"], cell["context"] + cell["rows"])
    else:
        options["is_causal"] = causal

    def run():
        with sdpa_kernel(kinds[backend]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    def check():
        row, group = cell["rows"] - 1, cell["heads"] // cell["kv_heads"]
        got = run()[0, 0, row].double().cpu()
        scores = (k[0, 0].double() @ q[0, 0, row].double()) / cell["head_dim"] ** 0.5
        want = (torch.softmax(scores, 0) @ v[0, 0].double()).cpu()
        assert group >= 1
        return float((got - want).norm() / want.norm())

    return run, check


def product_peer(cell, device):
    x = torch.randn(cell["rows"], cell["inner"], device=device, dtype=torch.bfloat16)
    w = torch.randn(cell["outputs"], cell["inner"], device=device, dtype=torch.bfloat16)
    run = lambda: torch.matmul(x, w.t())

    def check():
        want = x[0].double() @ w.double().t()
        return float((run()[0].double() - want).norm() / want.norm())

    return run, check


def peers_of(cell, device):
    if cell["kind"] in ("product", "decode_product"):
        return {"matmul": product_peer(cell, device)}
    if device == "cpu":
        return {"math": attention_peer(cell, "math", device)}
    peers = {"flash": attention_peer(cell, "flash", device)}
    if cell["rows"] > 1 and cell["context"] == 0:
        peers["cudnn"] = attention_peer(cell, "cudnn", device)
    return peers


def ceilings(device, tiny):
    n = 64 if tiny else 8192
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    size = 1 << (16 if tiny else 30)
    source, target = (torch.ones(size, device=device, dtype=torch.float32) for _ in range(2))
    product = statistics.median(time_one(lambda: torch.matmul(a, b), device, tiny) for _ in range(5))
    copy = statistics.median(time_one(lambda: target.copy_(source), device, tiny) for _ in range(5))
    return {"product_tflops": 2 * n**3 / product * 1e-9, "copy_gbps": 8 * size / copy * 1e-6}


def transformers_prefill(lengths, device, tiny):
    """Hugging Face's forward pass over a random LLaMA of 2.7B, one prompt; milliseconds by length."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return {}
    shape = (64, 1, 2, 96, 64) if tiny else (2560, 32, 20, 6912, 50257)
    config = LlamaConfig(hidden_size=shape[0], num_hidden_layers=shape[1], num_attention_heads=shape[2],
                         num_key_value_heads=shape[2], intermediate_size=shape[3], vocab_size=shape[4],
                         max_position_embeddings=32768, attn_implementation="sdpa")
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    found = {}
    with torch.no_grad():
        for length in lengths:
            ids = torch.randint(0, shape[4], (1, length), device=device)
            run = lambda: model(ids, logits_to_keep=1, use_cache=True)
            found[length] = statistics.median(time_one(run, device, True) for _ in range(1 if tiny else 3))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cells", default="", help="regular expression over names")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    started = time.monotonic()
    device = "cpu" if args.tiny else "cuda"
    bench = Bench(args.bench, args.tiny)
    report = {"device": bench.info["device"], "backend": bench.info["backend"], "torch": torch.__version__,
              "cuda": torch.version.cuda, "cudnn": None if args.tiny else torch.backends.cudnn.version(),
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "cells": []}
    report["ceilings_first"] = ceilings(device, args.tiny)
    for cell in bench.info["cells"]:
        if not re.search(args.cells, cell["cell"]):
            continue
        if time.monotonic() - started > args.seconds * 0.85:
            report.setdefault("left_out", []).append(cell["cell"])
            continue
        row = {"cell": cell["cell"], "kind": cell["kind"], "peers": {}}
        peers, errors = {}, {}
        for name, (run, check) in peers_of(cell, device).items():
            try:
                errors[name] = check()
                peers[name] = run
            except RuntimeError as problem:
                row["peers"][name] = {"refused": str(problem).splitlines()[0]}
        ours, theirs = [], {name: [] for name in peers}
        for _ in range(args.rounds):
            ours.append(bench.round(cell["cell"]))
            for name, run in peers.items():
                theirs[name].append(time_one(run, device, args.tiny))
        times = [r["ms"] for r in ours]
        row.update(right=all(r["right"] for r in ours), relative_error=max(r["relative_error"] for r in ours),
                   ms=statistics.median(times), ms_min=min(times), ms_max=max(times),
                   tflops=statistics.median(r["tflops"] for r in ours), gbps=statistics.median(r["gbps"] for r in ours))
        kind = "suffix" if cell["kind"] == "attention" and cell["context"] > 0 else cell["kind"]
        for name, found in theirs.items():
            ms = statistics.median(found)
            row["peers"][name] = {"ms": ms, "ms_min": min(found), "ms_max": max(found), "relative_error": errors[name],
                                  "ours_over_theirs": ms / row["ms"] if row["right"] and row["ms"] > 0 else 0.0,
                                  "target": TARGETS.get((kind, name))}
        report["cells"].append(row)
        del peers
    if not args.tiny and time.monotonic() - started < args.seconds * 0.7:
        report["transformers_prefill_ms"] = transformers_prefill([8192, 16384], device, False)
    report["ceilings_last"] = ceilings(device, args.tiny)
    first, last = report["ceilings_first"], report["ceilings_last"]
    report["steady"] = all(abs(last[key] / first[key] - 1) <= 0.03 for key in first)

    name = re.sub(r"[^A-Za-z0-9]+", "-", report["device"]).strip("-").lower()
    path = os.path.join(args.out, name + "-" + report["date"][:10] + ".json")
    with open(path, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    print(f"{report['device']}, {report['backend']}, torch {report['torch']}, CUDA {report['cuda']}, cuDNN {report['cudnn']}")
    print(f"ceilings: product {first['product_tflops']:.0f} -> {last['product_tflops']:.0f} TFLOP/s, "
          f"copy {first['copy_gbps']:.0f} -> {last['copy_gbps']:.0f} GB/s; {'steady' if report['steady'] else 'NOT STEADY: discard'}")
    print(f"{'cell':36} {'ms':>10} {'TFLOP/s':>8} {'GB/s':>7} {'of copy':>7} {'error':>8}  peers: ms, ours over theirs (target)")
    for row in report["cells"]:
        shown = ", ".join(f"{peer} " + (found["refused"] if "refused" in found else
                          f"{found['ms']:.3f} {found['ours_over_theirs']:.2f} ({found['target']})")
                          for peer, found in row["peers"].items())
        right = "" if row["right"] else "  WRONG"
        print(f"{row['cell']:36} {row['ms']:10.4f} {row['tflops']:8.1f} {row['gbps']:7.0f} "
              f"{row['gbps'] / first['copy_gbps']:7.2f} {row['relative_error']:8.1e}  {shown}{right}")
    if report.get("left_out"):
        print(f"left out for lack of time: {len(report['left_out'])} cells")
    print("saved", path)
    return 0 if all(row["right"] for row in report["cells"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
