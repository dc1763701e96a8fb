"""Writes a llama of random weights in eight shards, plain or packed, and measures how the daemon loads it.

    python recipes/random_shards.py DIRECTORY [--scheme=plain|fp8|gptq] [--layers=12] [--daemon=build/release/bin/varifocald]

With --daemon: seconds, processor seconds and the peak of the resident set until the model is loaded, each the median of
--rounds; first without a cache of hashes, then with one.
"""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

from flags import Path, parse
from random_llama import tensors

WIDTH, FEED_FORWARD, HEADS, KV_HEADS, VOCABULARY, SHARDS = 2048, 5632, 16, 4, 32000, 8


def bf16(rng, *shape):
    return ((rng.standard_normal(shape, dtype=np.float32) * 0.02).view(np.uint32) >> 16).astype(np.uint16)


def matrix(rng, name, rows, columns, scheme):
    """Tensors of one matrix as (name, dtype, array)."""
    if scheme == "fp8":
        bits = rng.integers(0, 0x78, (rows, columns), dtype=np.uint8) | rng.integers(0, 2, (rows, columns), dtype=np.uint8) << 7
        scales = np.full((-(-rows // 128), -(-columns // 128)), 1e-4, np.float32)
        return [(name + ".weight", "F8_E4M3", bits), (name + ".weight_scale_inv", "F32", scales)]
    if scheme == "gptq":
        words = lambda *shape: rng.integers(-(2**31), 2**31, shape, dtype=np.int64).astype(np.int32)
        zeros = np.full((columns // 128, rows // 8), 0x77777777, np.int32)
        return [
            (name + ".qweight", "I32", words(columns // 8, rows)),
            (name + ".qzeros", "I32", zeros),
            (name + ".scales", "F16", np.full((columns // 128, rows), 0.003, np.float16)),
        ]
    return [(name + ".weight", "BF16", bf16(rng, rows, columns))]


def write(path, tensors):
    header, offset = {}, 0
    for name, dtype, array in tensors:
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    with path.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, _, array in tensors:
            out.write(array.tobytes())


def load(daemon, directory, dtype, cache):
    """Wall seconds, processor seconds, peak and present resident set in MiB."""
    begin = time.monotonic()
    command = [daemon, f"--model=m={directory}", f"--dtype={dtype}", f"--db={cache}/load.db", "--listen=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"XDG_CACHE_HOME": cache}) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if " model_loaded " in line:
                break
        else:
            raise SystemExit("".join(lines))
        wall = time.monotonic() - begin
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        ticks = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        process.terminate()
        process.stdout.read()
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in status.splitlines()) if name in ("VmHWM", "VmRSS")}
    return wall, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), kib["VmHWM"] / 1024, kib["VmRSS"] / 1024


def measure(daemon, directory, dtype, rounds):
    size = sum(path.stat().st_size for path in directory.glob("*.safetensors")) / 2**20
    cold, warm = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(load(daemon, directory, dtype, cache))
            warm.append(load(daemon, directory, dtype, cache))
    for name, runs in (("no hashes cached", cold), ("hashes cached", warm)):
        wall, processor, peak, after = (statistics.median(column) for column in zip(*runs))
        print(f"{directory}, {size:.0f} MiB of files, {dtype}, {name}: {wall:.1f} s, processor {processor:.1f} s, peak {peak:.0f} MiB, then {after:.0f} MiB")


def main():
    daemon = dict(help="also measure how this program loads it")
    arguments = parse(__doc__, {"directory": Path}, scheme=("plain", "fp8", "gptq"), layers=12, daemon=daemon, dtype="bf16", rounds=3)
    rng = np.random.default_rng(1)
    shards = [[] for _ in range(SHARDS)]
    embedding, *inner, norm, head = tensors(arguments.layers, WIDTH, HEADS, KV_HEADS, WIDTH // HEADS, FEED_FORWARD, VOCABULARY)
    for name, sizes in (embedding, head, norm, *inner):
        to = shards[int(name.split(".")[2]) * SHARDS // arguments.layers if ".layers." in name else 0]
        if len(sizes) == 1:
            to.append((name, "BF16", np.full(WIDTH, 0x3F80, np.uint16)))
        elif ".layers." in name:
            to += matrix(rng, name.removesuffix(".weight"), *sizes, arguments.scheme)
        else:
            to.append((name, "BF16", bf16(rng, *sizes)))
    config = dict(
        model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=WIDTH, intermediate_size=FEED_FORWARD, num_hidden_layers=arguments.layers,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, vocab_size=VOCABULARY, max_position_embeddings=4096, rms_norm_eps=1e-5,
        rope_theta=10000.0, tie_word_embeddings=False, dtype="float16" if arguments.scheme == "gptq" else "bfloat16",
    )  # fmt: skip
    if arguments.scheme == "fp8":
        config["quantization_config"] = dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[128, 128])
    if arguments.scheme == "gptq":
        config["quantization_config"] = dict(quant_method="gptq", bits=4, group_size=128, desc_act=False)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    index = {}
    for i, made in enumerate(shards):
        name = f"model-{i + 1:05}-of-{SHARDS:05}.safetensors"
        write(arguments.directory / name, made)
        index |= {tensor: name for tensor, _, _ in made}
    (arguments.directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (arguments.directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if arguments.daemon:
        measure(arguments.daemon, arguments.directory, arguments.dtype, arguments.rounds)


main()
