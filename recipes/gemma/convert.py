"""One GGUF file of Gemma 3 into a Hugging Face directory, without torch and transformers.

Writes what `transformers` writes (config.json, generation_config.json, tokenizer.json, tokenizer_config.json,
model.safetensors in bf16): same weights, same tokenizer, same configuration; compare_conversion.py checks that.

    python recipes/gemma/convert.py MODEL.gguf DIRECTORY
"""

import json
import pathlib
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors import TensorSpec, serialize_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

# GGUF keeps each tensor under a short name.
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}
CONTROL, USER_DEFINED = 3, 4  # token types
WINDOW_LAYERS_BETWEEN = 6  # every sixth layer sees everything; GGUF does not say so, Gemma 3 is made so


def hugging_face_name(name):
    stem, kind = name.rsplit(".", 1)
    if kind == "weight" and stem in OUTSIDE:
        return OUTSIDE[stem] + ".weight"
    parts = stem.split(".")
    if kind == "weight" and len(parts) == 3 and parts[0] == "blk" and parts[2] in INSIDE:
        return f"model.layers.{parts[1]}.{INSIDE[parts[2]]}.weight"
    raise SystemExit(f"the GGUF file holds a tensor {name}, which Gemma 3 does not have")


def bfloat16(x):
    """The upper halves of float32, rounded to nearest even."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_weights(reader, path):
    out, kept = {}, []
    for tensor in reader.tensors:
        name = hugging_face_name(tensor.name)
        x = dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())
        # GGUF stores what a norm multiplies with, Hugging Face that minus one.
        x = x - np.float32(1) if name.endswith("norm.weight") else x
        kept.append(bfloat16(x))
        out[name] = TensorSpec(dtype="bfloat16", shape=list(x.shape), data_ptr=kept[-1].ctypes.data, data_len=kept[-1].nbytes)
    serialize_file(out, path, {"format": "pt"})


def write_config(value, path):
    layers, theta = value("gemma3.block_count"), value("gemma3.rope.freq_base")
    full = lambda i: (i + 1) % WINDOW_LAYERS_BETWEEN == 0
    config = {
        "_sliding_window_pattern": WINDOW_LAYERS_BETWEEN,
        "architectures": ["Gemma3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "dtype": "bfloat16",
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "final_logit_softcapping": None,
        "head_dim": value("gemma3.attention.key_length"),
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": value("gemma3.embedding_length"),
        "initializer_range": 0.02,
        "intermediate_size": value("gemma3.feed_forward_length"),
        "layer_types": ["full_attention" if full(i) else "sliding_attention" for i in range(layers)],
        "max_position_embeddings": value("gemma3.context_length"),
        "model_type": "gemma3_text",
        "num_attention_heads": value("gemma3.attention.head_count"),
        "num_hidden_layers": layers,
        "num_key_value_heads": value("gemma3.attention.head_count_kv"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        "query_pre_attn_scalar": 256,
        "rms_norm_eps": value("gemma3.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {
            "full_attention": {"rope_theta": theta, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        "sliding_window": value("gemma3.attention.sliding_window"),
        "tie_word_embeddings": True,
        "unk_token_id": value("tokenizer.ggml.unknown_token_id"),
        "use_bidirectional_attention": False,
        "use_cache": True,
        "vocab_size": len(value("tokenizer.ggml.tokens")),
    }
    write_json(config, path / "config.json")
    write_json({k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id", "use_cache")}, path / "generation_config.json")


def write_tokenizer(value, path):
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
    special = {name: tokens[value(f"tokenizer.ggml.{key}_token_id")] for name, key in
               (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown"))}  # fmt: skip
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
    tokenizer.save(str(path / "tokenizer.json"))
    names = {name + "_token": token for name, token in sorted(special.items())}
    write_json(names | {"tokenizer_class": "GemmaTokenizer"}, path / "tokenizer_config.json")


def write_json(value, path):
    path.write_text(json.dumps(value, indent=2) + "\n")


def main(source, target):
    reader, path = GGUFReader(source), pathlib.Path(target)
    value = lambda key: reader.fields[key].contents()
    if value("general.architecture") != "gemma3":
        raise SystemExit(f"{source} holds a {value('general.architecture')} model; gemma3 is what this converts")
    path.mkdir(parents=True, exist_ok=True)
    write_config(value, path)
    write_tokenizer(value, path)
    write_weights(reader, path / "model.safetensors")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__.strip())
    main(*sys.argv[1:])
