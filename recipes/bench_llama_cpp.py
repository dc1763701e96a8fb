"""llama.cpp as a peer: a llama checkpoint as GGUF, its logits compared with transformers', and llama-bench's timings.

    bench_llama_cpp.py write DIRECTORY DTYPE FILE.gguf            needs the gguf package, as `convert`
    bench_llama_cpp.py check DIRECTORY DTYPE BINARIES             llama-results against transformers
    bench_llama_cpp.py convert DIRECTORY DTYPE FILE.gguf          with the directory's tokenizer and chat template, to be served

The vocabulary of `write` is synthetic: one token per byte, the rest unused words, no useful merges. So a text of n ASCII
characters is n known ids, and llama-results' output for it can be compared with transformers.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

GGUF_TYPES = {"f32": "F32", "bf16": "BF16"}
TEXT = "The keys turned up behind the clock; 1,729 of them, all alike."
BOTH_TOKENS_MAX = 16384
# What transformers calls a tensor of a layer, and what llama.cpp does.
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}


def read_json(directory, name):
    return json.loads(pathlib.Path(directory, name + ".json").read_text())


def byte_words():
    """The 256 characters by which byte-level vocabularies name bytes: printable ones themselves, the rest from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b if b in printable else next(others)) for b in range(256)]


def interleaved(matrix, heads):
    """llama.cpp rotates neighbours, Hugging Face halves: rows of each head, first and second half in turn."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add_byte_vocabulary(writer, directory, size):
    import gguf

    words = byte_words()
    words += [f"<{i}>" for i in range(len(words), size)]
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.NORMAL] * len(words))
    writer.add_token_merges([f"{words[0]} {words[0]}"])  # one is required; no text has two zero bytes
    writer.add_add_bos_token(False)


def add_own_vocabulary(writer, directory, size):
    """Byte-level BPE as GPT-2 splits words, or with digits apart as SmolLM2 does."""
    import gguf

    tokenizer, chat_template = read_json(directory, "tokenizer"), read_json(directory, "tokenizer_config")["chat_template"]
    rules = tokenizer["pre_tokenizer"]
    splits = tuple(rule["type"] for rule in rules.get("pretokenizers", [rules]))
    known = {("ByteLevel",): "gpt-2", ("Digits", "ByteLevel"): "smollm"}
    if splits not in known or tokenizer["model"]["type"] != "BPE":
        raise ValueError(f"{directory} splits words by {', '.join(splits)}; only those of GPT-2 and SmolLM2 are written as GGUF")
    words = {index: (word, gguf.TokenType.NORMAL) for word, index in tokenizer["model"]["vocab"].items()}
    for token in tokenizer["added_tokens"]:
        words[token["id"]] = (token["content"], gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED)
    unused = [(f"<{i}>", gguf.TokenType.UNUSED) for i in range(size)]
    words = [words.get(i, unused[i]) for i in range(size)]
    writer.add_tokenizer_pre(known[splits])
    writer.add_token_list([word for word, _ in words])
    writer.add_token_types([kind for _, kind in words])
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_add_bos_token(tokenizer["post_processor"] is not None)  # of these families only <bos> before a text
    writer.add_chat_template(chat_template)


def write(directory, dtype, path, add_vocabulary=add_byte_vocabulary):
    import gguf
    import torch
    from safetensors.torch import load_file

    config = read_json(directory, "config")
    if config["model_type"] != "llama":
        raise ValueError(f"{directory} is a {config['model_type']}; only llama is written as GGUF")
    tensors = {name: tensor.to(torch.float32).numpy() for name, tensor in load_file(f"{directory}/model.safetensors").items()}
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(path, "llama")
    keys = {"context_length": "max_position_embeddings", "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
            "feed_forward_length": "intermediate_size", "head_count": "num_attention_heads", "head_count_kv": "num_key_value_heads",
            "rope_dimension_count": "head_dim", "rope_freq_base": "rope_theta", "layer_norm_rms_eps": "rms_norm_eps", "vocab_size": "vocab_size"}
    for name, key in keys.items():
        getattr(writer, "add_" + name)((config | (config.get("rope_parameters") or {}))[key])
    writer.add_tokenizer_model("gpt2")
    add_vocabulary(writer, directory, config["vocab_size"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    quantization = gguf.GGMLQuantizationType[GGUF_TYPES[dtype]]
    for name, tensor in sorted(tensors.items()):
        if name.startswith("model.layers."):
            layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
            to = f"blk.{layer}.{LAYER_NAMES[part]}.weight"
        else:
            part, to = "", NAMES[name]
        if part in ("self_attn.q_proj", "self_attn.k_proj"):
            tensor = interleaved(tensor, heads if part.endswith("q_proj") else kv_heads)
        tensor = np.ascontiguousarray(tensor)
        kind = quantization if tensor.ndim == 2 else gguf.GGMLQuantizationType.F32
        if kind != gguf.GGMLQuantizationType.F32:
            tensor = gguf.quants.quantize(tensor, kind)
        writer.add_tensor(to, tensor, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def convert(directory, dtype, path):
    write(directory, dtype, path, add_own_vocabulary)


class LlamaCpp:
    """Timings by llama-bench. A file is written and its logits compared before the first timing of a format."""

    def __init__(self, binaries, threads):
        self.binaries, self.threads, self.files, self.better = binaries, threads, {}, {}

    def file(self, directory, dtype):
        if (directory, dtype) not in self.files:
            path = f"{directory}/{dtype}.gguf"
            if not os.path.exists(path):
                write(directory, dtype, path + ".partial")
                os.rename(path + ".partial", path)
            check(directory, dtype, self.binaries)
            self.files[directory, dtype] = path
        return self.files[directory, dtype]

    def bench(self, directory, dtype, kind, tokens, *arguments):
        """Seconds of the better of -fa 0 and 1; above BOTH_TOKENS_MAX of the one that was better so far."""
        known = self.better.get((dtype, kind))
        tried = [known] if known is not None and tokens > BOTH_TOKENS_MAX else [0, 1]
        seconds = {}
        for flash in tried:
            command = [f"{self.binaries}/llama-bench", "-m", self.file(directory, dtype), "-t", str(self.threads), "-o", "json"]
            command += ["-r", "1", "-fa", str(flash), *map(str, arguments)]
            if tokens > 8192:
                command.append("--no-warmup")
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
            (result,) = json.loads(done.stdout)
            seconds[flash] = result["avg_ns"] * 1e-9
            print(f"llama-bench {kind} {tokens} {dtype} -fa {flash}: {seconds[flash]:.3f} s", file=sys.stderr)
        self.better[dtype, kind] = min(seconds, key=seconds.get)
        return min(seconds.values())

    def prefill(self, directory, tokens, dtype):
        return lambda: self.bench(directory, dtype, "prefill", tokens, "-p", tokens, "-n", 0)

    def decode(self, directory, depth, tokens, dtype):
        return lambda: self.bench(directory, dtype, "decode", depth, "-p", 0, "-n", tokens, "-d", depth)


def check(directory, dtype, binaries):
    """Fails unless llama.cpp's logits of TEXT are transformers' of the same weights, to the rounding of the format."""
    import gguf
    import torch
    from transformers import AutoModelForCausalLM

    words = byte_words()
    ids = [words.index(c if c != " " else words[32]) for c in TEXT]
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    # Weights as rounded by the format; arithmetic in float32 on our side.
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=kind).eval().float()
    with torch.inference_mode():
        want = model(input_ids=torch.tensor([ids])).logits[0].numpy()
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/logits.gguf"
        command = [f"{binaries}/llama-results", "-m", f"{directory}/{dtype}.gguf", "-o", out, "-p", TEXT, "-t", "1"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        tensors = {t.name: t.data for t in gguf.GGUFReader(out).tensors}
    (got,) = [np.array(data).reshape(want.shape) for data in tensors.values() if data.size == want.size]
    error = float(np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)))
    # Keys and values are f16 in llama.cpp, 2^-11; bf16 weights meet activations rounded to 2^-9.
    allowed = {"f32": 2e-3, "bf16": 2e-2}[dtype]
    print(f"llama.cpp's logits, {dtype}: relative error {error:.2g}, allowed {allowed}", file=sys.stderr)
    if not error <= allowed:
        raise ValueError(f"llama.cpp's logits of {directory} in {dtype} are {error:.2g} off, allowed are {allowed}")


def main():
    verbs = {"write": write, "check": check, "convert": convert}
    if len(sys.argv) != 5 or sys.argv[1] not in verbs:
        sys.exit(__doc__)
    verbs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
