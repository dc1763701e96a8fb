"""Golden files of every architecture: tiny checkpoints, log-probabilities and greedy texts of transformers in float64.

reference.py, written from the formulas, must agree with transformers to 1e-10, and continue with the same tokens; then
its single-precision and bf16 runs say how far rounding alone moves a log-probability.

    python recipes/goldens make architectures [NAME...]      (writes tests/testdata/goldens/architectures)
"""

import torch

import gemma4
import reference
import transformers64
from cases import CASES, NEW_TOKENS, VOCAB, config_of
from golden_files import GOLDENS, first_clear, save_checkpoint, text_of_runs
from shapes import Shape
from tensor_names import text_of

OUT = GOLDENS / "architectures"
AGREEMENT = 1e-10
GAP_MIN = 2e-3  # no greedy step may hang on rounding: the f32 bound is 1e-4
MARGIN_MIN = 0.08  # of router logits, which spread over 2.5: several times what rounding moves them by in bf16
BF16_STEPS_MIN = 4  # in bf16 the bound is large, but the first steps must be beyond it


def weights_of(case, generator):
    """In the names and layouts of the architecture's own files."""
    c, kind = case["keys"], case["kind"]
    s = Shape(text_of(config_of(case)))
    if s.of_layers:
        return gemma4.weights_of(case, s, VOCAB, generator)
    m, f = s.width, feed_forward_width(kind, c) or c.get("n_inner") or 4 * s.width
    queries, keys = s.heads * s.head_width, s.kv_heads * s.head_width
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    matrix = lambda rows, columns, gain=1.0: normal(rows, columns, std=gain * columns**-0.5)
    norm = lambda width, mean=1.0: mean - s.one_plus + normal(width, std=0.3)
    tied = text_of(config_of(case)).get("tie_word_embeddings", kind in ("gemma2", "gemma3_text", "smollm3", "starcoder2", "ernie4_5", "cohere2", "lfm2", "minicpm3"))

    def final_norm():
        """Of mixed signs under a tied head, else every token would foretell itself."""
        signs = torch.randint(0, 2, (m,), generator=generator) * 2.0 - 1.0 if tied else 1.0
        return signs * (norm(m) + s.one_plus) - s.one_plus

    out = {}

    def put(name, w, bias=None):
        out[name + ".weight"] = w
        if bias is not None:
            out[name + ".bias"] = bias

    # The wider the attention scale, the narrower the products, so that scores spread over about 1.5 everywhere.
    wide = 1.25 * (s.base * s.head_width**0.5) ** -0.5 if s.head_norm is None else 1.0
    bias = lambda width, on, mean=0.0: mean + normal(width, std=0.5) if on else None
    if kind in ("gpt2", "gpt_neox"):
        neox = kind == "gpt_neox"
        has_bias = c.get("attention_bias", True)
        ln = lambda name: put(name, norm(m), normal(m, std=0.3))
        turn = (lambda w: w) if neox else (lambda w: w.T.contiguous())
        start = "" if case["name"] == "gpt2-bare-names" else "transformer."
        put("gpt_neox.embed_in" if neox else start + "wte", normal(VOCAB, m, std=0.6 if neox else 0.2))
        if not neox:
            put(start + "wpe", normal(c["n_positions"], m, std=0.3))
        for i in range(s.layers):
            p = f"gpt_neox.layers.{i}." if neox else f"{start}h.{i}."
            ln(p + ("input_layernorm" if neox else "ln_1"))
            ln(p + ("post_attention_layernorm" if neox else "ln_2"))
            q, k, v = matrix(queries, m, wide), matrix(queries, m, wide), matrix(queries, m)
            qkv, b = torch.cat([q, k, v]), bias(3 * queries, has_bias)
            if neox:  # rows of a head together: its query, key and value
                qkv = torch.stack([x.view(s.heads, s.head_width, m) for x in (q, k, v)], 1).reshape(3 * queries, m)
            put(p + ("attention.query_key_value" if neox else "attn.c_attn"), turn(qkv), b)
            put(p + ("attention.dense" if neox else "attn.c_proj"), turn(matrix(m, queries)), bias(m, has_bias))
            # Around -2 tanh and erf GELU differ by a fiftieth of their value.
            put(p + ("mlp.dense_h_to_4h" if neox else "mlp.c_fc"), turn(matrix(f, m, 1.2)), bias(f, True, -1.5))
            put(p + ("mlp.dense_4h_to_h" if neox else "mlp.c_proj"), turn(matrix(m, f, 2.0)), bias(m, True))
        put("gpt_neox.final_layer_norm" if neox else start + "ln_f", final_norm(), normal(m, std=0.3))
        if neox:
            put("embed_out", normal(VOCAB, m, std=0.3))
        return out

    post = s.post_norm and s.pre_norm
    norm_bias = s.layer_norm and kind != "cohere2"
    # Gemma's gates have no bias to shift them, so all of its tokens share a direction, and every gate looks against it:
    # around -2 tanh and erf GELU differ by a fiftieth of their value. A tied head adds the same to all logits.
    shared = torch.randint(0, 2, (m,), generator=generator) * 2.0 - 1.0
    shift = 0.3 if s.activation == "tanh" else 0.0
    put("model.embed_tokens", normal(VOCAB, m, std=0.3 if tied else 0.8) + shift * shared)
    for i in range(s.layers):
        p = f"model.layers.{i}."
        names = ["input_layernorm"] * s.pre_norm + ["post_attention_layernorm"] * (not s.one_norm)
        if s.parts:
            names = ["input_layernorm"]
        elif kind == "apertus":
            names = ["attention_layernorm", "feedforward_layernorm"]
        elif kind == "glm4":
            names += ["post_self_attn_layernorm", "post_mlp_layernorm"]
        else:
            names += ["pre_feedforward_layernorm"] * post + ["post_feedforward_layernorm"] * s.post_norm
        for name in names:
            put(p + name, norm(m), normal(m, std=0.3) if norm_bias else None)
        if s.recurrent[i]:
            out |= {p + name: w for name, w in recurrent_of(case, s, generator).items()}
        if s.head_norm and not s.recurrent[i]:
            per_head = s.head_norm == "head"
            # Normed heads have unit rows, so the norm's weights alone set how wide scores spread.
            sharp = 1.2 * (s.base * s.head_width**0.5) ** -0.5
            names = ("query_layernorm", "key_layernorm") if s.norm_after_rope else ("q_norm", "k_norm")
            put(p + "self_attn." + names[0], norm(s.head_width if per_head else queries, sharp))
            put(p + "self_attn." + names[1], norm(s.head_width if per_head else keys, sharp))
        has_bias = kind in ("qwen2", "qwen2_5_vl_text") or c.get("qkv_bias", kind == "qwen2_moe") or c.get("attention_bias", c.get("use_bias", c.get("use_qkv_bias", kind in ("seed_oss", "glm4", "phi"))))
        out_bias = c.get("attention_out_bias", has_bias and kind not in ("qwen2", "qwen2_5_vl_text", "seed_oss", "glm4", "stablelm", "qwen2_moe"))
        if s.latent:
            out |= {p + "self_attn." + name: w for name, w in latent_of(case, s, generator).items()}
        q, k, v = matrix(queries, m, wide), matrix(keys, m, wide), matrix(keys, m)
        if s.output_gate:  # of each head its query and its gate
            q = torch.stack([q.view(s.heads, -1, m), matrix(queries, m, 1.5).view(s.heads, -1, m)], 1).reshape(2 * queries, m)
        has_heads = s.parts[i : i + 1] not in ("-", "E") and not s.latent
        if not has_heads or s.recurrent[i] and not s.both:
            pass
        elif kind == "phi3":
            put(p + "self_attn.qkv_proj", torch.cat([q, k, v]))
        else:
            for name, w in (("q_proj", q), ("k_proj", k), ("v_proj", v)):
                put(p + "self_attn." + name, w, bias(len(w), has_bias))
        if has_heads and (s.both or not s.recurrent[i]):
            put(p + "self_attn." + ("dense" if kind == "phi" else "o_proj"), matrix(m, queries), bias(m, out_bias))
        if s.parts and s.parts[i] not in "-E":
            continue
        if kind == "gpt_oss":
            out[p + "self_attn.sinks"] = normal(s.heads, std=1.5)
        if kind == "granitemoehybrid":
            put(p + "shared_mlp.input_linear", torch.cat([matrix(f, m, 1.2), matrix(f, m, 1.5)]))
            put(p + "shared_mlp.output_linear", matrix(m, f))
            if not s.experts:
                continue
        if s.experts and i not in dense_layers(c, s):
            out |= {p + name: w for name, w in mixture_of(case, s, generator).items()}
            continue
        gate, up, mlp_bias = matrix(f, m, 1.2) - shift * 5 / m * shared, matrix(f, m, 1.5), c.get("mlp_bias", c.get("use_bias", kind == "phi"))
        down_name = "down_proj"
        if kind in ("phi3", "glm4"):
            put(p + "mlp.gate_up_proj", torch.cat([gate, up]))
        else:
            if s.gated:
                put(p + "mlp.gate_proj", gate, bias(f, mlp_bias))
            up_name, down_name = {"starcoder2": ("c_fc", "c_proj"), "phi": ("fc1", "fc2")}.get(kind, ("up_proj", "down_proj"))
            put(p + "mlp." + up_name, up, bias(f, mlp_bias, -1.5 if kind == "phi" else 0.0))
        put(p + "mlp." + down_name, matrix(m, f, 2.0 if kind == "phi" else 1.0), bias(m, mlp_bias))
        if s.activation == "xielu":
            # As transformers stores them; alphas are learned from 0.8 on.
            out[p + "mlp.act_fn.alpha_p"], out[p + "mlp.act_fn.alpha_n"] = normal(1, std=0.7), normal(1, std=0.7)
            out[p + "mlp.act_fn.beta"], out[p + "mlp.act_fn.eps"] = torch.tensor(0.5), torch.tensor(-1e-6)
    put("model.final_layernorm" if kind == "phi" else "model.norm", final_norm(), normal(m, std=0.3) if norm_bias else None)
    if not tied:
        put("lm_head", normal(VOCAB, m, std=0.3), normal(VOCAB, std=0.5) if kind == "phi" else None)
    for layer in range(s.layers, s.layers + case.get("further", 0)):
        put(f"model.layers.{layer}.eh_proj", matrix(m, 2 * m))
    for old, other in RENAMED.get(kind, {}).items():
        out = {name.replace(old, other): w for name, w in out.items()}
    return out


RENAMED = {
    "nemotron_h": {
        "model.norm": "backbone.norm_f", "model.": "backbone.", "embed_tokens": "embeddings", "input_layernorm": "norm",
        "self_attn.": "mixer.", "mlp.": "mixer.", "mamba.": "mixer.",
    },
    "bamba": {"post_attention_layernorm": "pre_ff_layernorm", ".mlp.": ".feed_forward.", "model.norm": "model.final_layernorm"},
    "falcon_h1": {"post_attention_layernorm": "pre_ff_layernorm", ".mlp.": ".feed_forward.", "model.norm": "model.final_layernorm"},
    "lfm2": {
        "input_layernorm": "operator_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "feed_forward.w1",
        "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2", "self_attn.o_proj": "self_attn.out_proj",
        "q_norm": "q_layernorm", "k_norm": "k_layernorm", "model.norm": "model.embedding_norm",
    },
}  # fmt: skip


def feed_forward_width(kind, c):
    """Of the MLP that every row has. lfm2 takes two thirds, times a number, and rounds up."""
    if kind == "granitemoehybrid":
        return c["shared_intermediate_size"]
    width = c.get("block_ff_dim", c.get("intermediate_size"))
    if kind != "lfm2" or not c.get("block_auto_adjust_ff_dim", True):
        return width
    multiple = c.get("block_multiple_of", 256)
    return -(-int(c.get("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3)) // multiple) * multiple


def recurrent_of(case, s, generator):
    kind, c = case["kind"], case["keys"]
    if kind == "lfm2":
        return convolution_of(c, s, generator)
    if kind in ("granitemoehybrid", "falcon_h1", "nemotron_h", "bamba"):
        return {"mamba." + name: w for name, w in state_space_of(c, s, generator).items()}
    return {"linear_attn." + name: w for name, w in delta_of(kind, s, generator).items()}


def convolution_of(c, s, generator):
    m, width, biased = s.width, c.get("conv_L_cache", 3), c.get("conv_bias", False)
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    out = {
        "conv.in_proj.weight": normal(3 * m, m, std=1.5 * m**-0.5),
        "conv.conv.weight": normal(m, 1, width, std=0.6),
        "conv.out_proj.weight": normal(m, m, std=m**-0.5),
    }
    biases = {"conv.in_proj.bias": normal(3 * m, std=0.5), "conv.conv.bias": normal(m, std=0.5), "conv.out_proj.bias": normal(m, std=0.5)}
    return out | (biases if biased else {})


def state_space_of(c, s, generator):
    """Mamba-2. Decays as of the delta rule below; groups of unequal sizes, so that a norm over all of them is another."""
    m, keys, values, heads = s.width, s.key_heads * s.key_dim, s.value_heads * s.value_dim, s.value_heads
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    matrix = lambda rows, columns, gain=1.0: normal(rows, columns, std=gain * columns**-0.5)
    sizes = torch.linspace(0.5, 1.5, values)[:, None]
    out = {
        "in_proj.weight": torch.cat([matrix(values, m, 1.5), matrix(values, m, 2.0) * sizes, matrix(2 * keys, m, 2.0), matrix(heads, m)]),
        "conv1d.weight": normal(values + 2 * keys, 1, c.get("conv_kernel", c.get("mamba_d_conv", 4)), std=0.6),
        "A_log": torch.linspace(-3, 1, heads) + normal(heads, std=0.1),
        "dt_bias": normal(heads, std=0.5) - 2,
        "D": normal(heads, std=0.5),
        "out_proj.weight": matrix(m, values, 0.6),
    }
    if s.state_norm:
        out["norm.weight"] = 1 + normal(values, std=0.3)
    if c.get("use_conv_bias", c.get("mamba_conv_bias", True)):
        out["conv1d.bias"] = normal(values + 2 * keys, std=0.3)
    if c.get("use_bias", c.get("mamba_proj_bias", False)):
        out |= {"in_proj.bias": normal(2 * values + 2 * keys + heads, std=0.3), "out_proj.bias": normal(m, std=0.3)}
    return out


def delta_of(kind, s, generator):
    """Of a recurrent layer. Decays lie between 0.5 and 0.999 a row, so that states are neither forgotten at once nor kept."""
    m, keys, values = s.width, s.key_heads * s.key_dim, s.value_heads * s.value_dim
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    matrix = lambda rows, columns, gain=1.0: normal(rows, columns, std=gain * columns**-0.5)
    q, k, v, z = matrix(keys, m, 2.0), matrix(keys, m, 2.0), matrix(values, m, 2.0), matrix(values, m, 1.5)
    b, a = matrix(s.value_heads, m, 1.5), matrix(s.value_heads, m)
    out = {
        "conv1d.weight": normal(2 * keys + values, 1, 4, std=0.6),
        "A_log": torch.linspace(-3, 1, s.value_heads) + normal(s.value_heads, std=0.1),
        "dt_bias": normal(s.value_heads, std=0.5) - 2,
        "norm.weight": 1 + normal(s.value_dim, std=0.3),
        "out_proj.weight": matrix(m, values, 0.6),  # the norm before it enlarges rounding where a state is small
    }
    if kind == "qwen3_next":
        dealt = lambda ws: torch.cat([w.view(s.key_heads, -1, m) for w in ws], 1).reshape(-1, m)
        return out | {"in_proj_qkvz.weight": dealt([q, k, v, z]), "in_proj_ba.weight": dealt([b, a])}
    return out | {
        "in_proj_qkv.weight": torch.cat([q, k, v]), "in_proj_z.weight": z, "in_proj_b.weight": b, "in_proj_a.weight": a,
    }  # fmt: skip


def latent_of(case, s, generator):
    """Of a layer. Latents are normed, so that their products are as wide as those of the input."""
    m, c, heads, width = s.width, case["keys"], s.heads, s.head_width + s.unrotated
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    matrix = lambda rows, columns, gain=1.0: normal(rows, columns, std=gain * columns**-0.5)
    wide = 1.25 * (s.base * s.score_factor * width**0.5) ** -0.5
    q, out = s.query_latent, {}
    if q:
        out |= {"q_a_proj.weight": matrix(q, m), "q_a_layernorm.weight": 1 + normal(q, std=0.3), "q_b_proj.weight": matrix(heads * width, q, wide)}
    else:
        out["q_proj.weight"] = matrix(heads * width, m, wide)
    out["kv_a_proj_with_mqa.weight"] = torch.cat([matrix(s.latent, m), matrix(s.head_width, m, wide)])
    out["kv_a_layernorm.weight"] = 1 + normal(s.latent, std=0.3)
    kv = [torch.cat([matrix(s.unrotated, s.latent, wide), matrix(s.value_width, s.latent)]) for _ in range(heads)]
    out |= {"kv_b_proj.weight": torch.cat(kv), "o_proj.weight": matrix(m, heads * s.value_width)}
    if c.get("attention_bias"):
        out |= {"kv_a_proj_with_mqa.bias": normal(s.latent + s.head_width, std=0.5), "o_proj.bias": normal(m, std=0.5)}
        out |= {"q_a_proj.bias": normal(q, std=0.5)} if q else {}
    return out


def dense_layers(c, s):
    if s.parts:
        return [i for i, part in enumerate(s.parts) if part != "E"]
    if s.kind.startswith("deepseek"):
        return range(c.get("first_k_dense_replace", 3 if s.kind == "deepseek_v3" else 0))
    step = c.get("decoder_sparse_step", 1)
    return [i for i in range(c["num_hidden_layers"]) if i in c.get("mlp_only_layers", []) or (i + 1) % step]


def mixture_of(case, s, generator):
    """Of a layer, as stored: a tensor for each expert, or all of them stacked. The router is decisive, so that few
    tokens have an expert whose choice hangs on rounding."""
    c, kind, m = case["keys"], case["kind"], s.width
    f = c.get("moe_intermediate_size", c["intermediate_size"])
    matrix = lambda rows, columns, gain=1.0: torch.randn(rows, columns, generator=generator) * gain * columns**-0.5
    if kind == "gpt_oss":
        return mixture_of_gpt_oss(case, s, generator)
    old = kind in ("mixtral", "granitemoe", "granitemoehybrid")
    granite = kind.startswith("granite")
    start = "block_sparse_moe." if old else "mlp."
    out = {start + ("router.layer" if granite else "gate") + ".weight": matrix(s.experts, m, 2.5)}
    if s.sigmoid_experts:
        out["mlp.gate.e_score_correction_bias"] = torch.randn(s.experts, generator=generator) * 0.3
    if not s.gated:
        return out | ungated_of(case, s, generator)
    experts = [[matrix(f, m, 1.5), matrix(f, m, 1.5), matrix(m, f, 2.0)] for _ in range(s.experts)]
    gate_up = torch.stack([torch.cat(e[:2]) for e in experts])
    down = torch.stack([e[2] for e in experts])
    if granite:
        out |= {start + "input_linear.weight": gate_up, start + "output_linear.weight": down}
    elif case.get("experts") == "fused":
        out |= {"mlp.experts.gate_up_proj": gate_up, "mlp.experts.down_proj": down}
        if old:
            out = {name.replace(start, "mlp."): w for name, w in out.items()}
    else:
        names = ("w1", "w3", "w2") if old else ("gate_proj", "up_proj", "down_proj")
        out |= {f"{start}experts.{e}.{name}.weight": w for e, ws in enumerate(experts) for name, w in zip(names, ws)}
    deepseek = kind.startswith("deepseek")
    if deepseek or kind in ("qwen2_moe", "qwen3_next"):
        shared = f * c.get("n_shared_experts", 2 if kind == "deepseek_v2" else 1) if deepseek else c["shared_expert_intermediate_size"]
        if not deepseek:
            out["mlp.shared_expert_gate.weight"] = matrix(1, m, 1.5)
        for name, rows, columns in (("gate", shared, m), ("up", shared, m), ("down", m, shared)):
            out[f"mlp.shared_expert{'s' * deepseek}.{name}_proj.weight"] = matrix(rows, columns, 1.5)
    return out


def ungated_of(case, s, generator):
    """Experts of up and down alone, and the shared one."""
    c, m = case["keys"], s.width
    f, shared = c["moe_intermediate_size"], c["moe_shared_expert_intermediate_size"]
    matrix = lambda rows, columns, gain=1.0: torch.randn(rows, columns, generator=generator) * gain * columns**-0.5
    experts = [(matrix(f, m, 1.2), matrix(m, f, 1.2)) for _ in range(s.experts)]
    out = {"mlp.shared_experts.up_proj.weight": matrix(shared, m, 1.2), "mlp.shared_experts.down_proj.weight": matrix(m, shared)}
    if case.get("experts") == "fused":
        return out | {f"mlp.experts.{name}_proj": torch.stack([e[n] for e in experts]) for n, name in enumerate(("up", "down"))}
    return out | {f"mlp.experts.{e}.{name}_proj.weight": w for e, ws in enumerate(experts) for name, w in zip(("up", "down"), ws)}


def mixture_of_gpt_oss(case, s, generator):
    """Inputs first, gates and ups in turns, or MXFP4; gates and ups are wide enough to be clamped."""
    e, m, f = s.experts, s.width, case["keys"]["intermediate_size"]
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    out = {"mlp.router.weight": normal(e, m, std=2.5 * m**-0.5), "mlp.router.bias": normal(e, std=0.5)}
    out["mlp.experts.gate_up_proj_bias"] = normal(e, 2 * f, std=1.0)
    out["mlp.experts.down_proj_bias"] = normal(e, m, std=0.5)
    if case.get("experts") == "mxfp4":
        # A value is about 2.7 times its scale.
        for name, rows, columns, scale in (("gate_up_proj", 2 * f, m, 124), ("down_proj", m, f, 121)):
            out[f"mlp.experts.{name}_blocks"] = torch.randint(0, 256, (e, rows, columns // 32, 16), generator=generator, dtype=torch.uint8)
            out[f"mlp.experts.{name}_scales"] = torch.randint(scale - 1, scale + 2, (e, rows, columns // 32), generator=generator, dtype=torch.uint8)
        return out
    return out | {"mlp.experts.gate_up_proj": normal(e, m, 2 * f, std=1.5 * m**-0.5), "mlp.experts.down_proj": normal(e, f, m, std=0.6 * f**-0.5)}


def write_checkpoint(directory, case, generator):
    stored = case["stored"] if isinstance(case["stored"], tuple) else (case["stored"],) * 2
    matrices, vectors = (getattr(torch, name) for name in stored)
    kept = lambda v: v if v.dtype == torch.uint8 else v.to(matrices if v.dim() > 1 else vectors)
    weights = {k: kept(v) for k, v in weights_of(case, generator).items()}
    if wrapper := case.get("wrapper"):
        weights = wrapped(weights, config_of(case), wrapper, generator)
    save_checkpoint(directory, config_of(case), weights)


def wrapped(weights, config, wrapper, generator):
    """The text part under its prefix, beside the first tensors of images."""
    import transformers

    out = {}
    for name, w in weights.items():
        head = wrapper.get("head", "lm_head") + name.removeprefix("lm_head")
        out[head if name.startswith("lm_head") else wrapper["prefix"] + name.removeprefix("model.")] = w
    for name in wrapper.get("others", []):
        out[name] = (torch.randn(4, 8, generator=generator) * 0.1).to(torch.bfloat16)
    if "others" in wrapper:
        return out
    kind = getattr(transformers, config["architectures"][0])
    whole = kind(kind.config_class.from_dict(config)).state_dict()
    images = [name for name in whole if "vision_tower" in name or "multi_modal_projector" in name or "visual" in name]
    for name in images[:2] + images[-1:]:
        older = wrapper["prefix"] in ("language_model.model.", "model.")
        shape = whole[name].shape
        out[name.removeprefix("model.") if older else name] = (torch.randn(shape, generator=generator) * 0.1).to(torch.bfloat16)
    return out


@torch.no_grad()
def decided(directory, ids, generator):
    """The prompt without tokens whose choice of experts hangs on the rounding of bf16: others take their places."""
    for _ in range(20):
        model = reference.Reference(directory, length=len(ids))
        model.feed(ids)
        close = [row for row in range(1, len(ids)) if any(m[row] < MARGIN_MIN for m in model.margins)]
        if not close:
            break
        for row in close:
            ids[row] = int(torch.randint(2, VOCAB, (1,), generator=generator))
    return ids


def make(case, seed):
    directory = OUT / case["name"]
    generator = torch.Generator().manual_seed(seed)
    write_checkpoint(directory, case, generator)
    runs, worst = [], 0.0
    for length in case["runs"]:
        ids = [0] + torch.randint(2, VOCAB, (length - 1,), generator=generator).tolist()
        ids = decided(directory, ids, generator)
        result = reference.run(directory, ids, NEW_TOKENS)
        if min(result["continuation_gaps"]) < GAP_MIN or len(set(result["continuation"])) < NEW_TOKENS // 4:
            return None, worst
        if not reference.same_experts(directory, ids):
            return None, worst
        rounding = reference.rounding(directory, ids, result)
        if min(result["continuation_gaps"][:BF16_STEPS_MIN]) < 4 * rounding["bfloat16_difference"]:
            return None, worst
        rows, continuation = transformers64.run(directory, ids, NEW_TOKENS)
        theirs = {"token_log_probs": [None] + [rows[i, t].item() for i, t in enumerate(ids[1:])], "last_log_probs": rows[-1].tolist()}
        difference = (reference.flat(theirs) - reference.flat(result)).abs().max().item()
        assert difference < AGREEMENT, (case["name"], length, difference)
        assert continuation == result["continuation"], (case["name"], continuation, result["continuation"])
        worst = max(worst, difference)
        runs.append({"oracle": "transformers in float64", "focal_temperature": None, "token_ids": ids} | result | theirs | rounding)
    return runs, worst


def compact(runs):
    """Twelve digits are more than any bound requires."""
    return text_of_runs(runs, 12, ("_probs", "_gaps"))


def main(names):
    for case in CASES:
        if names and case["name"] not in names:
            continue
        seed, runs, worst = first_clear(case["name"], lambda seed: make(case, seed))
        (OUT / case["name"] / "golden.json").write_text(compact(runs))
        size = sum(f.stat().st_size for f in (OUT / case["name"]).iterdir())
        print(
            f"{case['name']:28} {size // 1024:4} KB  seed +{seed}  agree to {worst:.1e}  f32 {max(r['float32_difference'] for r in runs):.1e}"
            f"  bf16 {max(r['bfloat16_difference'] for r in runs):.1e}  smallest gap {min(min(r['continuation_gaps']) for r in runs):.1e}",
            flush=True,
        )
