#!/usr/bin/env python3
"""A load test at 64K and 128K tokens: daemon, submit and report with a tiny checkpoint of random weights, on a CPU.

    recipes/long_load.py --out=DIR [--suite=standard_128k] [--lengths=65536,131072] [--tasks=..] [--limit=4] [--layers=1] [--width=32]

Prints what --dry-run says before, what the job took, the daemon's peak of memory, and the largest rows of the database. The
answers mean nothing: weights are random. Programs are looked for in build/release/bin, or in --bin. Standard library only.
"""

import json
import math
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import time

from flags import Path, parse
from helmet_side_by_side import Daemon
from random_llama import tensors

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD_WIDTH = 16


def write_model(to, layers, width, positions):
    """A llama of random weights with the shipped tokenizer."""
    to.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "models/baseline" / name, to / name)
    shipped = json.loads((ROOT / "models/baseline/config.json").read_text())
    heads = width // HEAD_WIDTH
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1,
              "torch_dtype": "float32", "vocab_size": shipped["vocab_size"], "hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": layers,
              "num_attention_heads": heads, "num_key_value_heads": 1, "head_dim": HEAD_WIDTH, "rms_norm_eps": 1e-6, "rope_theta": 1e7, "max_position_embeddings": positions}
    (to / "config.json").write_text(json.dumps(config))
    header, body, draw = {}, b"", random.Random(1)
    *shapes, _ = tensors(layers, width, heads, 1, HEAD_WIDTH, 2 * width, shipped["vocab_size"])  # without a head: it is tied
    for name, shape in shapes:
        count = math.prod(shape)
        values = [1.0] * count if len(shape) == 1 else [draw.gauss(0, 0.1) for _ in range(count)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + 4 * count]}
        body += struct.pack(f"<{count}f", *values)
    text = json.dumps(header).encode()
    (to / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    return heads


def main():
    options = parse(__doc__, out=Path, bin=ROOT / "build/release/bin", suite="standard_128k", lengths="65536,131072", tasks="", limit=4, layers=1,
                    width=32, threads=1)  # fmt: skip
    longest = max(int(text) for text in options.lengths.split(","))
    model, db = options.out / "model", options.out / "load.db"
    write_model(model, options.layers, options.width, longest)
    page = 128
    by_hand = -(-(longest - 1) // page) * page * options.layers * 2 * HEAD_WIDTH * 4
    print(f"keys and values of {longest:,} tokens by hand: {options.layers} layers x 2 x 1 head x {HEAD_WIDTH} x 4 bytes: {by_hand:,} bytes")
    with Daemon(options.bin, db, {"tiny": model}, f"--threads={options.threads}", f"--log-file={options.out / 'daemon.log'}", dtype=None) as daemon:
        job = [options.suite, "--models=tiny", f"--lengths={options.lengths}", f"--limit={options.limit}", f"--daemon={daemon.address}", *([f"--tasks={options.tasks}"] if options.tasks else [])]
        subprocess.run([options.bin / "varifocal", "submit", *job, "--dry-run"], check=True)
        begin = time.time()
        done = subprocess.run([options.bin / "varifocal", "submit", *job, "--wait"], stdout=subprocess.DEVNULL)
        status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
        peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
        print(f"submit --wait: exit code {done.returncode}, {time.time() - begin:.0f} s; the daemon's peak {int(peak) / 1024:.0f} MiB")
    for sql in ("SELECT context_length, planned_count, answered_count, failed_count, count(DISTINCT task) AS tasks FROM v_scores_by_length GROUP BY 1, 2, 3, 4",
                "SELECT context_length, min(prompt_token_count) AS prompt_tokens_min, max(prompt_token_count) AS prompt_tokens_max FROM v_samples GROUP BY 1",
                "SELECT context_length, round(sum(prefill_us) / 1e6, 1) AS prefill_s, round(sum(decode_us) / 1e6, 1) AS decode_s, count(*) AS answers FROM generations JOIN cells USING (cell_id) GROUP BY 1"):
        subprocess.run([options.bin / "varifocal", "query", f"--db={db}", sql])
    subprocess.run([options.bin / "varifocal", "report", f"--db={db}", f"--out={options.out / 'report.html'}"], check=True)
    sys.exit(done.returncode)


main()
