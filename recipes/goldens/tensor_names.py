"""Every architecture's tensors under one set of names; matrices are [outputs, inputs], biases end in .bias."""

import torch


def names(**groups):
    """Of the tensors under each of these prefixes theirs and ours, as `theirs:ours`, or `name` of both."""
    pairs = [(prefix, pair.partition(":")) for prefix, text in groups.items() for pair in text.split()]
    return {(prefix + "." if prefix != "layer" else "") + theirs: ours or theirs for prefix, (theirs, _, ours) in pairs}


LLAMA = names(
    layer="input_layernorm:input post_attention_layernorm:pre_ffn",
    self_attn="q_proj:q k_proj:k v_proj:v o_proj:o q_norm k_norm tau_proj:tau log_n_scale sinks q_a_proj:q_a q_a_layernorm:q_a_norm"
    " q_b_proj:q_b kv_a_proj_with_mqa:kv_a kv_a_layernorm:kv_a_norm kv_b_proj:kv_b",
    mlp="gate_proj:gate up_proj:up down_proj:down act_fn:xielu",
)
POST_NORMS = {"post_attention_layernorm": "post_attention", "post_feedforward_layernorm": "post_ffn"}
DELTA = LLAMA | names(
    linear_attn="in_proj_qkv:delta_qkv in_proj_z:delta_z in_proj_b:delta_b in_proj_a:delta_a in_proj_qkvz:delta_qkvz in_proj_ba:delta_ba"
    " conv1d:delta_conv A_log:delta_log dt_bias:delta_bias norm:delta_norm out_proj:delta_o"
)
LFM2 = LLAMA | names(
    layer="operator_norm:input ffn_norm:pre_ffn", self_attn="out_proj:o q_layernorm:q_norm k_layernorm:k_norm",
    feed_forward="w1:gate w3:up w2:down", conv="in_proj:conv_in conv out_proj:conv_o",
)  # fmt: skip
SPACE = LLAMA | names(
    mamba="in_proj:space_in conv1d:space_conv A_log:space_log dt_bias:space_bias D:space_skip norm:space_norm out_proj:space_o"
)
SPACE_BESIDE_GATES = SPACE | names(layer="pre_ff_layernorm:pre_ffn", feed_forward="gate_proj:gate up_proj:up down_proj:down")
LAYER = {
    "nemotron_h": {name.replace("self_attn.", "mixer.").replace("mamba.", "mixer.").replace("mlp.", "mixer."): what for name, what in SPACE.items()}
    | {"norm": "input"},
    "falcon_h1": SPACE_BESIDE_GATES, "bamba": SPACE_BESIDE_GATES,
    "lfm2": LFM2,
    "granitemoehybrid": SPACE | {"shared_mlp.input_linear": "gate_up", "shared_mlp.output_linear": "down"},
    "qwen3_next": DELTA,
    "qwen3_5_text": DELTA,
    "gemma3_text": LLAMA | POST_NORMS | {"pre_feedforward_layernorm": "pre_ffn"},
    "gemma4_text": LLAMA | POST_NORMS | {
        "pre_feedforward_layernorm": "pre_ffn", "layer_scalar": "scale", "per_layer_input_gate": "input_gate", "per_layer_projection": "input_o",
        "post_per_layer_input_norm": "input_norm", "router.proj": "router", "router.scale": "router_norm", "router.per_expert_scale": "expert_scales",
        "pre_feedforward_layernorm_2": "experts_norm", "post_feedforward_layernorm_2": "experts_post", "post_feedforward_layernorm_1": "mlp_post",
    },
    "gemma3n_text": LLAMA | POST_NORMS | {
        "pre_feedforward_layernorm": "pre_ffn", "per_layer_input_gate": "input_gate", "per_layer_projection": "input_o", "post_per_layer_input_norm": "input_norm",
        "laurel.linear_left": "low_left", "laurel.linear_right": "low_right", "laurel.post_laurel_norm": "low_norm", "altup.router_norm": "stream_norm",
        "altup.modality_router": "stream_router", "altup.prediction_coefs": "predict", "altup.correction_coefs": "correct", "altup.correct_output_scale": "stream_scale",
    },
    "gemma2": LLAMA | POST_NORMS | {"pre_feedforward_layernorm": "pre_ffn"},
    "olmo2": LLAMA | POST_NORMS,
    "olmo3": LLAMA | POST_NORMS,
    "exaone4": LLAMA | POST_NORMS,
    "starcoder2": LLAMA | {"mlp.c_fc": "up", "mlp.c_proj": "down"},
    "glm4": LLAMA | {
        "post_self_attn_layernorm": "post_attention", "post_mlp_layernorm": "post_ffn", "mlp.gate_up_proj": "gate_up",
    },
    "phi": LLAMA | {"self_attn.dense": "o", "mlp.fc1": "up", "mlp.fc2": "down"},
    "apertus": LLAMA | {"attention_layernorm": "input", "feedforward_layernorm": "pre_ffn"},
    "hunyuan_v1_dense": LLAMA | {"self_attn.query_layernorm": "q_norm", "self_attn.key_layernorm": "k_norm"},
    "phi3": LLAMA | {"self_attn.qkv_proj": "qkv", "mlp.gate_up_proj": "gate_up"},
    "gpt2": {
        "ln_1": "input", "ln_2": "pre_ffn", "attn.c_attn": "qkv", "attn.c_proj": "o", "mlp.c_fc": "up", "mlp.c_proj": "down",
    },
    "gpt_neox": {
        "input_layernorm": "input", "post_attention_layernorm": "pre_ffn", "attention.query_key_value": "qkv",
        "attention.dense": "o", "mlp.dense_h_to_4h": "up", "mlp.dense_4h_to_h": "down",
    },
}
OUTSIDE = {
    "model.embed_tokens": "embedding", "model.norm": "final_norm", "model.final_layernorm": "final_norm",
    "backbone.embeddings": "embedding", "backbone.norm_f": "final_norm", "model.embedding_norm": "final_norm", "lm_head": "head",
    "model.embed_tokens_per_layer": "layer_table", "model.per_layer_model_projection": "layer_projection",
    "model.per_layer_projection_norm": "layer_inputs_norm",
    **{f"model.altup_{theirs}.{i}": f"{ours}.{i}" for theirs, ours in (("projections", "stream_in"), ("unembed_projections", "stream_out")) for i in range(16)},
    "wte": "embedding", "wpe": "positions", "ln_f": "final_norm",
    "gpt_neox.embed_in": "embedding", "gpt_neox.final_layer_norm": "final_norm", "embed_out": "head",
}  # fmt: skip
# Of a mixture of experts, one tensor an expert or all of them stacked.
EXPERTS = ("mlp.experts", "block_sparse_moe.experts", "mixer.experts")
EXPERT = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}
STACKED = {
    "experts.gate_up_proj": "gate_up", "experts.down_proj": "down",
    "mlp.experts.gate_up_proj": "gate_up", "mlp.experts.down_proj": "down",
    "block_sparse_moe.input_linear": "gate_up", "block_sparse_moe.output_linear": "down",
    "mixer.experts.up_proj": "up", "mixer.experts.down_proj": "down",
}  # fmt: skip
MIXTURE = {
    "mlp.router": "router", "mlp.gate": "router", "block_sparse_moe.gate": "router", "block_sparse_moe.router.layer": "router",
    "mlp.shared_expert_gate": "shared_gate", "mlp.shared_expert.gate_proj": "shared.gate",
    "mlp.shared_expert.up_proj": "shared.up", "mlp.shared_expert.down_proj": "shared.down",
    "mlp.shared_experts.gate_proj": "shared.gate", "mlp.shared_experts.up_proj": "shared.up", "mlp.shared_experts.down_proj": "shared.down",
    "mlp.gate.e_score_correction_bias": "choice_bias", "mixer.gate.e_score_correction_bias": "choice_bias", "mixer.gate": "router",
    "mixer.shared_experts.up_proj": "shared.up", "mixer.shared_experts.down_proj": "shared.down",
}  # fmt: skip
LAYERS_START = {"nemotron_h": "backbone.layers.", "gpt2": "h.", "gpt_neox": "gpt_neox.layers."}


WRAPPERS = ("gemma3", "gemma3n", "gemma4", "mistral3", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
TIED = {"gemma3": True, "gemma3n": True, "gemma4": True, "mistral3": True}  # the default of the whole's key


def text_of(config):
    """The config of the text part of a multimodal checkpoint, as that of a text alone; another one as it is."""
    kind = config["model_type"]
    if kind not in WRAPPERS:
        return config
    text = dict(config.get("text_config") or config | {"model_type": "qwen2_5_vl_text"})
    text["tie_word_embeddings"] = config.get("tie_word_embeddings", TIED.get(kind, False))
    defaults = {"num_key_value_heads": 4, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6} if kind in ("gemma3", "gemma3n", "gemma4") else {}
    if kind == "gemma3n":
        defaults["num_key_value_heads"] = 2
    return defaults | text


def text_tensors(config, tensors):
    """Those of the text part, under the names of a text alone."""
    if config["model_type"] not in WRAPPERS:
        return tensors
    out = {}
    for name, w in tensors.items():
        if any(part in name for part in ("vision_tower", "embed_vision", "audio_tower", "embed_audio", "multi_modal_projector", "visual.")):
            continue
        name = name.replace("language_model.lm_head", "lm_head").replace("model.language_model.", "model.")
        out[name.replace("language_model.model.", "model.")] = w
    return out


E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def unpacked(blocks, scales, mistakes):
    """MXFP4: [E, rows, groups, 16] bytes, the input of the low half first, and powers of two [E, rows, groups]."""
    table = torch.tensor(E2M1 + (E2M1 if "sign of MXFP4 ignored" in mistakes else [-v for v in E2M1]))
    halves = [blocks & 15, blocks >> 4]
    if "halves of MXFP4 bytes swapped" in mistakes:
        halves.reverse()
    bias = 128 if "scale of MXFP4 off by one" in mistakes else 127
    values = table[torch.stack(halves, -1).flatten(-2).long()]
    return (values * 2.0 ** (scales[..., None].float() - bias)).flatten(-2)


def of_gpt_oss(tensors, mistakes):
    """Stacks as the other mixtures have them, outputs first and gates before ups; and the biases of each expert."""
    out, turns = {}, lambda w: torch.cat([w[:, 0::2], w[:, 1::2]], 1)
    if "gates and ups not in turns" in mistakes:
        turns = lambda w: w
    for name, w in tensors.items():
        if name.endswith("_blocks"):
            name, w = name.removesuffix("_blocks"), unpacked(w, tensors[name.replace("_blocks", "_scales")], mistakes)
        elif name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            w = w.transpose(1, 2)
        if name.endswith("experts.gate_up_proj"):
            w = turns(w)
        if name.endswith("_proj_bias"):
            layer, what = name.removeprefix("model.layers.").split(".")[0], name.split("experts.")[1].removesuffix("_proj_bias")
            out |= {f"{layer} {e} {what}": one for e, one in enumerate(turns(w) if what == "gate_up" else w)}
        elif not name.endswith("_scales"):
            out[name] = w
    return out


def canonical(config, tensors, mistakes=()):
    kind = config["model_type"]
    if kind == "gpt_oss":
        tensors = of_gpt_oss(tensors, mistakes)
    start, names, out = LAYERS_START.get(kind, "model.layers."), LAYER.get(kind, LLAMA), {}
    if kind == "granitemoehybrid" and config.get("num_local_experts", 8):
        names = names | {"shared_mlp.input_linear": "shared.gate_up", "shared_mlp.output_linear": "shared.down"}
    for name, w in tensors.items():
        if ".focus." in name:
            continue  # read by focus_reference.py
        if " " in name:
            layer, e, what = name.split(" ")
            out[f"layers.{layer}.experts.{e}.{what}.bias"] = w
            continue
        name = name.removeprefix("transformer.")
        if name.startswith("mtp."):
            continue  # predicts further tokens
        if name.endswith((".sinks", ".layer_scalar", ".correct_output_scale", "router.scale", ".per_expert_scale", "experts.gate_up_proj", "experts.up_proj", "experts.down_proj", ".A_log", ".dt_bias", ".D", "correction_bias")):
            name += ".weight"
        stem, what = name.rsplit(".", 1)
        ending = ".bias" if what == "bias" else "." + what if stem.endswith("act_fn") else ""
        if not stem.startswith(start):
            out[OUTSIDE[stem] + ending] = w
            continue
        layer, rest = stem.removeprefix(start).split(".", 1)
        if int(layer) >= config.get("num_hidden_layers", int(layer) + 1):
            continue  # predicts further tokens
        if kind == "gpt2" and w.dim() == 2 and not ("square matrices not transposed" in mistakes and w.shape[0] == w.shape[1]):
            w = w.T.contiguous()
        if rest in STACKED:
            out |= {f"layers.{layer}.experts.{e}.{STACKED[rest]}": one for e, one in enumerate(w)}
            continue
        out[f"layers.{layer}.{mixture_name(rest) or names[rest]}{ending}"] = w
    for name in [n for n in out if ".qkv" in n]:
        prefix, ending = name.split("qkv")
        for what, w in zip("qkv", split_qkv(config, out.pop(name), mistakes)):
            out[prefix + what + ending] = w
    for name in [n for n in out if n.endswith((".delta_qkvz", ".delta_ba"))]:
        split_by_key_head(config, out, name, mistakes)
    for name in [n for n in out if ".gate_up" in n]:
        gate, up = out.pop(name).chunk(2)
        prefix, ending = name.split("gate_up")
        out[prefix + "gate" + ending], out[prefix + "up" + ending] = gate, up
    if "experts shifted by one" in mistakes:
        out = {other_expert(name, out): w for name, w in out.items()}
    if "gate and up swapped" in mistakes:
        for name in [n for n in out if ".gate" in n]:
            other = name.replace(".gate", ".up")
            out[name], out[other] = out[other], out[name]
    if "embedding for the head" in mistakes:
        out.pop("head", None)
    return out


def split_by_key_head(config, out, name, mistakes):
    """qwen3_next's fused rows: q, k, v and z of the first key head, then of the second..; b and a likewise."""
    w, prefix = out.pop(name), name.rsplit(".", 1)[0] + ".delta_"
    heads, share = config["linear_num_key_heads"], config["linear_num_value_heads"] // config["linear_num_key_heads"]
    keys, values = config["linear_key_head_dim"], share * config["linear_value_head_dim"]
    sizes = [keys, keys, values, values] if name.endswith("qkvz") else [share, share]
    if "rows of key heads taken as flat" in mistakes:
        parts = w.split([heads * size for size in sizes])
    else:
        parts = [p.reshape(-1, w.shape[1]) for p in w.view(heads, -1, w.shape[1]).split(sizes, dim=1)]
    if name.endswith("ba"):
        out[prefix + "b"], out[prefix + "a"] = parts
    else:
        out[prefix + "qkv"], out[prefix + "z"] = torch.cat(parts[:3]), parts[3]


def mixture_name(rest):
    """Null of a tensor that is in every model."""
    for start in EXPERTS:
        if rest.startswith(start + "."):
            e, what = rest.removeprefix(start + ".").split(".")
            return f"experts.{e}.{EXPERT[what]}"
    return MIXTURE.get(rest)


def other_expert(name, names):
    if ".experts." not in name:
        return name
    before, rest = name.split(".experts.")
    e, what = rest.split(".", 1)
    after = f"{before}.experts.{int(e) + 1}.{what}"
    return after if after in names else f"{before}.experts.0.{what}"


def split_qkv(config, w, mistakes):
    """Fused rows: gpt_neox [H, 3, D], the others all of q, then k, then v."""
    heads = config.get("num_attention_heads", config.get("n_head"))
    neox = config["model_type"] == "gpt_neox"
    if neox != ("fused rows dealt the other way" in mistakes):
        width = w.shape[0] // (3 * heads)
        q, k, v = w.view(heads, 3, width, *w.shape[1:]).transpose(0, 1).reshape(3, heads * width, *w.shape[1:])
    else:
        groups = config.get("num_key_value_heads") or heads
        width = w.shape[0] // (heads + 2 * groups)
        q, k, v = w.split([heads * width, groups * width, groups * width])
    if "k and v swapped" in mistakes:
        k, v = v, k
    if "q and k swapped" in mistakes and q.shape == k.shape:
        q, k = k, q
    return q, k, v
