"""Random bf16 weights of a llama's shape, with the tokenizer of models/baseline, written as one safetensors file by several threads.

    python recipes/random_llama.py --shape=8b --out=DIR [--device=cuda:0]

The LM head and the embeddings have 128,256 rows, as of Llama 3, beyond the tokenizer's 2,023 (the shape tiny: 4,096). Rows beyond are
zero, so that a step reads and multiplies them and no answer has their tokens. No token ends an answer.
"""

import concurrent.futures
import json
import math
import os
import pathlib
import shutil
import struct

from flags import Path, parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Layers, width, heads, KV heads, head dim, hidden units, rows of the LM head.
SHAPES = {
    "2.7b": (32, 2560, 20, 20, 128, 6912, 128256),
    "8b": (32, 4096, 32, 8, 128, 14336, 128256),
    "tiny": (2, 128, 4, 2, 32, 256, 4096),
}


def tensors(layers, width, heads, kv_heads, dim, hidden, words):
    """(name, sizes), in the file's order."""
    yield "model.embed_tokens.weight", (words, width)
    for layer in range(layers):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (width,)
        yield at + "self_attn.q_proj.weight", (heads * dim, width)
        yield at + "self_attn.k_proj.weight", (kv_heads * dim, width)
        yield at + "self_attn.v_proj.weight", (kv_heads * dim, width)
        yield at + "self_attn.o_proj.weight", (width, heads * dim)
        yield at + "post_attention_layernorm.weight", (width,)
        yield at + "mlp.gate_proj.weight", (hidden, width)
        yield at + "mlp.up_proj.weight", (hidden, width)
        yield at + "mlp.down_proj.weight", (width, hidden)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (words, width)


def write_model(directory, shape, positions, device="cpu", threads=8):
    """Nothing where it is there already. The weights' file gets its name last, so that half of one is never taken."""
    import torch

    if (directory / "model.safetensors").exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    known = json.loads((ROOT / "models/baseline/config.json").read_text())["vocab_size"]
    layers, width, heads, kv_heads, dim, hidden, words = SHAPES[shape]
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": words, "hidden_size": width, "intermediate_size": hidden,
              "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": dim, "hidden_act": "silu",
              "max_position_embeddings": positions, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "attention_bias": False, "mlp_bias": False,
              "bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "models/baseline" / name, directory)
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, sizes in tensors(*SHAPES[shape]):
        header[name] = {"dtype": "BF16", "shape": sizes, "data_offsets": [end, end + 2 * math.prod(sizes)]}
        end += 2 * math.prod(sizes)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = directory / "part"
    place = "cuda" if device.startswith("cuda") else "cpu"

    def write(file, index, name, sizes):
        if len(sizes) == 1:
            values = torch.ones(sizes, dtype=torch.bfloat16)
        else:
            generator = torch.Generator(place).manual_seed(index)
            values = torch.randn(sizes, generator=generator, device=place, dtype=torch.bfloat16).mul_(0.02)
            if sizes[0] == words:
                values[known:] = 0
        data, at = memoryview(values.cpu().view(torch.uint8).numpy().reshape(-1)), 8 + len(text) + header[name]["data_offsets"][0]
        while data:
            data = data[(done := os.pwrite(file, data[: 1 << 28], at)) :]
            at += done

    file = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    try:
        os.pwrite(file, struct.pack("<Q", len(text)) + text, 0)
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(write, file, i, *tensor) for i, tensor in enumerate(tensors(*SHAPES[shape]))]:
                done.result()
    finally:
        os.close(file)
    part.rename(directory / "model.safetensors")


if __name__ == "__main__":
    options = parse(__doc__, shape=dict(choices=SHAPES, required=True), out=Path, device="cpu", positions=36864)
    write_model(options.out, options.shape, options.positions, options.device)
