"""One GGUF file of a public model into a Hugging Face directory, without torch and transformers.

    python recipes/public_models/convert.py MODEL.gguf DIRECTORY

Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json and model.safetensors in bf16.
compare_conversion.py compares them with what transformers' own loader makes of the file. The families are the rows of
FAMILIES, by the file's general.architecture: Gemma 3, and the llama SmolLM2.
"""

import dataclasses
import json
import pathlib
import sys
from typing import Any, Callable

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors import TensorSpec, serialize_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

Value = Callable[[str], Any]  # a metadata field of the file, by name

# GGUF keeps each tensor under a short name.
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
COMMON = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GEMMA3_NAMES = COMMON | {
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
LLAMA_NAMES = COMMON | {"ffn_norm": "post_attention_layernorm"}
CONTROL, USER_DEFINED = 3, 4  # token types
WINDOW_LAYERS_BETWEEN = 6  # every sixth layer sees everything; GGUF does not say so, Gemma 3 is made so


def hugging_face_name(name: str, inside: dict[str, str]) -> str:
    stem, kind = name.rsplit(".", 1)
    if kind == "weight" and stem in OUTSIDE:
        return OUTSIDE[stem] + ".weight"
    parts = stem.split(".")
    if kind == "weight" and len(parts) == 3 and parts[0] == "blk" and parts[2] in inside:
        return f"model.layers.{parts[1]}.{inside[parts[2]]}.weight"
    raise SystemExit(f"the GGUF file holds a tensor {name}, which its family does not have")


def bfloat16(x: np.ndarray) -> np.ndarray:
    """The upper halves of float32, rounded to nearest even."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def gemma3_tensor(name: str, x: np.ndarray, value: Value) -> np.ndarray:
    """GGUF stores what a norm multiplies with, Hugging Face that minus one."""
    return x - np.float32(1) if name.endswith("norm.weight") else x


def llama_tensor(name: str, x: np.ndarray, value: Value) -> np.ndarray:
    """GGUF interleaves the two halves that RoPE rotates, in each head's rows of queries and keys."""
    heads = {"q_proj": "llama.attention.head_count", "k_proj": "llama.attention.head_count_kv"}.get(name.split(".")[-2])
    return x if heads is None else x.reshape(value(heads), -1, 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)


# Keys of config.json, and what GGUF calls them behind the family's name.
SIZES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "num_attention_heads": "attention.head_count",
    "num_hidden_layers": "block_count",
    "num_key_value_heads": "attention.head_count_kv",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
TOKENS = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}


def common_config(value: Value, family: str) -> dict[str, Any]:
    tokens = {f"{name}_token_id": value(f"tokenizer.ggml.{key}_token_id") for name, key in TOKENS.items()}
    return tokens | {key: value(f"{family}.{theirs}") for key, theirs in SIZES.items()} | {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "dtype": "bfloat16",
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": len(value("tokenizer.ggml.tokens")),
    }  # fmt: skip


def gemma3_config(value: Value) -> dict[str, Any]:
    layers, theta = value("gemma3.block_count"), value("gemma3.rope.freq_base")
    full = lambda i: (i + 1) % WINDOW_LAYERS_BETWEEN == 0
    return common_config(value, "gemma3") | {
        "_sliding_window_pattern": WINDOW_LAYERS_BETWEEN,
        "architectures": ["Gemma3ForCausalLM"],
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "head_dim": value("gemma3.attention.key_length"),
        "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": ["full_attention" if full(i) else "sliding_attention" for i in range(layers)],
        "model_type": "gemma3_text",
        "query_pre_attn_scalar": 256,
        "rope_parameters": {
            "full_attention": {"rope_theta": theta, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        "sliding_window": value("gemma3.attention.sliding_window"),
        "use_bidirectional_attention": False,
    }


def llama_config(value: Value) -> dict[str, Any]:
    common = common_config(value, "llama")
    return common | {
        "architectures": ["LlamaForCausalLM"],
        "head_dim": common["hidden_size"] // common["num_attention_heads"],
        "hidden_act": "silu",
        "mlp_bias": False,
        "model_type": "llama",
        "pretraining_tp": 1,
        "rope_parameters": {"rope_theta": value("llama.rope.freq_base"), "rope_type": "default"},
    }


def special_tokens(value: Value, tokens: list[str]) -> dict[str, str]:
    return {name: tokens[value(f"tokenizer.ggml.{key}_token_id")] for name, key in TOKENS.items()}


def gemma3_tokenizer(value: Value) -> tuple[Tokenizer, dict[str, Any]]:
    stored = value("tokenizer.ggml.tokens")
    # A token of several spaces is stored as spaces, but looked up after spaces became ▁.
    tokens = ["\u2581" * len(t) if " " in t and not t.strip() else t for t in stored]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    # The file lists no merges: a token comes of any two that spell it, earlier tokens first, the longer left part first.
    merges = [
        (token[:cut], token[cut:])
        for token in tokens
        for cut in range(len(token) - 1, 0, -1)
        if token[:cut] in vocabulary and token[cut:] in vocabulary
    ]
    special = special_tokens(value, tokens)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=special["unk"], fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    bos = special["bos"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos}:0 $A:0", pair=f"{bos}:0 $A:0 {bos}:1 $B:1", special_tokens=[(bos, vocabulary[bos])]
    )
    # Those of spaces alone are reached by merges, and need not be found beforehand.
    kinds = [(token, kind) for token, kind in zip(stored, value("tokenizer.ggml.token_type")) if token in vocabulary]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t, kind in kinds if kind == CONTROL])
    tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t, kind in kinds if kind == USER_DEFINED])
    names = {name + "_token": token for name, token in sorted(special.items())}
    return tokenizer, names | {"tokenizer_class": "GemmaTokenizer"}


def smollm_tokenizer(value: Value) -> tuple[Tokenizer, dict[str, Any]]:
    """Byte-level BPE that splits every digit off first: what the file calls the pre-tokenizer `smollm`.

    The tokenizer's class is the general one: transformers 5 rebuilds a GPT2Tokenizer without the digits' step.
    """
    if value("tokenizer.ggml.pre") != "smollm":
        raise SystemExit(f"the GGUF file's pre-tokenizer is {value('tokenizer.ggml.pre')}; smollm is the one converted here")
    tokens = value("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in value("tokenizer.ggml.merges")]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, value("tokenizer.ggml.token_type"))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t, kind in kinds if kind == CONTROL])
    names = {name + "_token": token for name, token in sorted(special_tokens(value, tokens).items())}
    return tokenizer, names | {
        "add_bos_token": value("tokenizer.ggml.add_bos_token"),
        "chat_template": value("tokenizer.chat_template"),
        "model_max_length": value("llama.context_length"),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


@dataclasses.dataclass(frozen=True)
class Family:
    inside: dict[str, str]
    tensor: Callable[[str, np.ndarray, Value], np.ndarray]
    config: Callable[[Value], dict[str, Any]]
    tokenizer: Callable[[Value], tuple[Tokenizer, dict[str, Any]]]


FAMILIES = {
    "gemma3": Family(GEMMA3_NAMES, gemma3_tensor, gemma3_config, gemma3_tokenizer),
    "llama": Family(LLAMA_NAMES, llama_tensor, llama_config, smollm_tokenizer),
}


def write_weights(reader: GGUFReader, family: Family, value: Value, path: pathlib.Path) -> None:
    out, kept = {}, []
    for tensor in reader.tensors:
        name = hugging_face_name(tensor.name, family.inside)
        x = dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())
        x = family.tensor(name, x, value)
        kept.append(bfloat16(x))
        out[name] = TensorSpec(dtype="bfloat16", shape=list(x.shape), data_ptr=kept[-1].ctypes.data, data_len=kept[-1].nbytes)
    serialize_file(out, path, {"format": "pt"})


def write_json(value: dict[str, Any], path: pathlib.Path) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def main(source: str, target: str) -> None:
    reader, path = GGUFReader(source), pathlib.Path(target)
    value = lambda key: reader.fields[key].contents()
    family = FAMILIES.get(value("general.architecture"))
    if family is None:
        raise SystemExit(f"{source} holds a {value('general.architecture')} model; {' and '.join(FAMILIES)} are converted")
    path.mkdir(parents=True, exist_ok=True)
    config = dict(sorted(family.config(value).items()))
    write_json(config, path / "config.json")
    write_json({k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id", "use_cache")}, path / "generation_config.json")
    tokenizer, names = family.tokenizer(value)
    tokenizer.save(str(path / "tokenizer.json"))
    write_json(names, path / "tokenizer_config.json")
    write_weights(reader, family, value, path / "model.safetensors")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__.strip())
    main(*sys.argv[1:])
