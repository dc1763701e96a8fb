"""A random config.json of every supported type, for random_checkpoints.py: sizes, windows, RoPE scalings, biases, activations."""

import random

ACTIVATIONS = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2"]
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)


class Draw(random.Random):
    def one(self, *values):
        return self.choice(values)

    def maybe(self, share=0.5):
        return self.random() < share


def sizes(r, head_dim=True):
    heads = r.one(1, 2, 3, 4, 5, 6, 8)
    width = r.one(4, 8, 12, 16, 20, 24, 32, 40, 64, 80, 128)
    keys = dict(
        vocab_size=r.randint(61, 400), num_hidden_layers=r.randint(2, 5), num_attention_heads=heads, intermediate_size=r.randint(17, 150),
        num_key_value_heads=r.choice([k for k in range(1, heads + 1) if heads % k == 0]), max_position_embeddings=r.one(512, 1000, 4096),
        hidden_size=heads * (r.randint(24 // heads + 1, 130 // heads) if head_dim else width), tie_word_embeddings=r.maybe(), bos_token_id=0, eos_token_id=1, pad_token_id=None,
    )  # fmt: skip
    return keys | (dict(head_dim=width) if head_dim else {})


def width_of(keys):
    return keys.get("head_dim") or keys["hidden_size"] // keys["num_attention_heads"]


def rope(r, keys, partial=None, kinds=("default", "default", "linear", "dynamic", "yarn", "llama3", "longrope")):
    """As `rope_parameters`. Lengths lie on one side of a switch: transformers rotates a growing text anew, step by step."""
    kind, factor = r.choice(kinds), r.one(2.0, 4.0, 7.5)
    out = {"rope_type": kind, "rope_theta": r.one(1000.0, 10000.0, 500000.0)}
    rotated = width_of(keys)
    if partial:
        shares = [p for p in partial if int(rotated * p) % 2 == 0 and int(rotated * p) > 0]
        out["partial_rotary_factor"] = share = r.choice(shares) if shares else 1.0
        rotated = int(rotated * share)
    original = r.one(64, 100, 256)
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        out["factor"] = factor
    if kind in ("yarn", "llama3"):
        out["original_max_position_embeddings"] = original
    if kind == "llama3":
        out |= {"low_freq_factor": r.one(1.0, 1.5), "high_freq_factor": 4.0}
    if kind == "yarn":
        keys["max_position_embeddings"] = int(original * factor)
        if r.maybe():
            out |= {"mscale": r.one(0.7, 1.0), "mscale_all_dim": r.one(0.5, 1.0)}
        if r.maybe(0.3):
            out |= {"beta_fast": 16.0, "beta_slow": 2.0}
        if r.maybe(0.2):
            out["attention_factor"] = 1.3
        if r.maybe(0.2):
            out["truncate"] = False
    if kind == "longrope":
        keys["max_position_embeddings"] = 1024
        out["original_max_position_embeddings"] = r.one(32, 512)  # all texts beyond, or none
        for name in ("short_factor", "long_factor"):
            out[name] = [round(r.uniform(1, 4), 3) for _ in range(rotated // 2)]
    return out


def window(r):
    return r.one(5, 16, 33, 64, 100, 128, 130)


def layer_types(r, keys, other="sliding_attention"):
    types = [r.one("full_attention", other) for _ in range(keys["num_hidden_layers"])]
    types[r.randrange(len(types))] = "full_attention"
    return types


def hybrid_types(r, kinds, count):
    """The first two of the kinds occur."""
    types = [*kinds[:2], *(r.choice(kinds) for _ in range(count - 2))]
    r.shuffle(types)
    return types


def some_windows(r, keys, types_too=True):
    keys["use_sliding_window"] = r.maybe(0.7)
    if keys["use_sliding_window"]:
        keys |= dict(sliding_window=window(r), max_window_layers=r.randint(0, keys["num_hidden_layers"]))
        if types_too and r.maybe():
            keys["layer_types"] = layer_types(r, keys)
    return keys


def mixture(r, keys, count="num_experts", width=None, dense_layers=False, shared=False, norm=True):
    keys[count] = r.one(3, 4, 7, 8, 16)
    keys["num_experts_per_tok"] = r.randint(1, min(keys[count], 5))
    if norm:
        keys["norm_topk_prob"] = r.maybe()
    if width:
        keys[width] = r.randint(9, 50)
    if shared:
        keys["shared_expert_intermediate_size"] = r.randint(9, 50)
    if dense_layers:
        keys["decoder_sparse_step"] = r.one(1, 1, 2)
        keys["mlp_only_layers"] = [i for i in range(keys["num_hidden_layers"]) if r.maybe(0.2)]
    return keys


def recurrent(r, keys):
    groups = r.one(1, 2, 3)
    keys |= dict(
        linear_conv_kernel_dim=r.one(2, 3, 4), linear_key_head_dim=r.one(4, 8, 12, 16, 32, 64), linear_value_head_dim=r.one(4, 8, 12, 24, 40, 64),
        linear_num_key_heads=groups, linear_num_value_heads=groups * r.one(1, 2, 3), layer_types=layer_types(r, keys, "linear_attention"),
    )  # fmt: skip
    return keys


def state_space(r, keys):
    """Of Mamba-2; heads of all widths are the model's width times a number."""
    inner, groups = 2 * keys["hidden_size"], r.one(1, 1, 2, 3)
    heads = [h for h in range(groups, inner + 1, groups) if inner % h == 0 and inner // h <= 80] or [inner]
    return keys | dict(
        mamba_n_groups=groups if heads != [inner] else 1, mamba_n_heads=r.choice(heads), mamba_d_state=r.one(4, 8, 12, 16, 64, 100), mamba_d_conv=r.one(2, 3, 4),
        mamba_expand=2, mamba_chunk_size=r.one(16, 64, 256), mamba_conv_bias=r.maybe(), mamba_proj_bias=r.maybe(),
    )  # fmt: skip


def act(r):
    return dict(hidden_act=r.choice(ACTIVATIONS))


def with_rope(r, keys, **more):
    return keys | dict(rope_parameters=rope(r, keys, **more))


def per_type_rope(r, keys, kinds=("default",)):
    full, near = rope(r, keys, kinds=kinds), rope(r, keys, kinds=("default",))
    return keys | dict(rope_parameters={"full_attention": full, "sliding_attention": near})


PARTS = (0.25, 0.5, 0.75, 1.0)
PLAIN = ("default", "default", "linear", "yarn", "llama3")


def gemma(r):
    keys = sizes(r) | dict(query_pre_attn_scalar=r.one(16, 64, 100), attention_bias=r.maybe(0.3), hidden_activation=r.one("gelu_pytorch_tanh", "gelu", "silu"))
    keys |= dict(sliding_window=window(r), layer_types=layer_types(r, keys), tie_word_embeddings=r.maybe(0.7))
    return keys


def gemma4(r):
    """Heads by kind of layer, shared keys, inputs of each layer, experts; window layers beside full ones in any order."""
    keys = gemma(r)
    del keys["query_pre_attn_scalar"]
    heads = keys["num_attention_heads"]
    keys |= dict(
        attention_k_eq_v=r.maybe(), num_global_key_value_heads=r.choice([None] + [k for k in range(1, heads + 1) if heads % k == 0]),
        global_head_dim=r.one(8, 16, 20, 32, 48, 64, 128, 256, 512), final_logit_softcapping=r.one(None, 5.0, 30.0), hidden_size_per_layer_input=r.one(0, 7, 12, 32),
        use_bidirectional_attention=r.one(None, "vision"), use_double_wide_mlp=r.maybe(),
    )  # fmt: skip
    keys["vocab_size_per_layer_input"] = keys["vocab_size"] + r.one(0, 5)
    layers = keys["num_hidden_layers"]
    shared = r.randint(1, layers - 1) if r.maybe(0.6) else 0
    types = layer_types(r, keys)[: layers - 1] + ["full_attention"]
    types[layers - shared - 1] = "full_attention"  # has keys for the last one
    if "sliding_attention" not in types[: layers - shared]:
        types = ["full_attention"] * layers
    keys |= dict(layer_types=types, num_kv_shared_layers=shared, pad_token_id=0)
    if shared and not keys["hidden_size_per_layer_input"]:
        keys["hidden_size_per_layer_input"] = 9  # else transformers 5.24 fails
    if r.maybe(0.4):
        keys |= dict(enable_moe_block=True, num_experts=r.one(3, 4, 8, 16), top_k_experts=r.randint(1, 3), moe_intermediate_size=r.randint(9, 50), use_double_wide_mlp=False)
    if r.maybe():
        full = {"rope_type": "proportional", "rope_theta": r.one(1000.0, 1e6), "partial_rotary_factor": r.one(0.25, 0.5, 0.3, 1.0)}
        keys["rope_parameters"] = {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": r.one(500.0, 10000.0)}}
    return keys


def gemma3n(r):
    """Streams, cuts and widths by layer; the last layers share keys. Few gates above a cut, or one number, before a norm would
    make rounding large."""
    keys = gemma(r)
    del keys["query_pre_attn_scalar"]
    layers = keys["num_hidden_layers"]
    shared = r.randint(1, layers - 1) if r.maybe(0.6) else 0
    types = keys["layer_types"]
    if set(types[: layers - shared]) != set(types):
        shared = 0
    streams = r.randint(2, 6)
    keys |= dict(
        num_kv_shared_layers=shared, altup_num_inputs=streams, altup_active_idx=r.randrange(streams), altup_correct_scale=r.maybe(), laurel_rank=r.one(3, 5, 16, 33), intermediate_size=r.randint(60, 150),
        activation_sparsity_pattern=[r.one(0.0, 0.0, 0.3, 0.5, 0.9, 0.95) for _ in range(layers)], final_logit_softcapping=r.one(5.0, 30.0),
        hidden_size_per_layer_input=r.one(7, 12, 32), pad_token_id=0,
    )  # fmt: skip
    keys["vocab_size_per_layer_input"] = keys["vocab_size"] + r.one(-20, 0, 5)
    if r.maybe():
        keys["intermediate_size"] = [r.randint(60, 150) for _ in range(layers)]
    return keys


def published_heads(config):
    """The keys that published files of gemma4 have, where the newer ones say the same."""
    if by_layer := config.get("per_layer_config"):
        del config["per_layer_config"]
        of_full = next(iter(by_layer.values()))
        config |= dict(global_head_dim=of_full["head_dim"], num_global_key_value_heads=of_full.get("num_key_value_heads"))
    return config


def sections(r, keys):
    """Of a head's half, in three."""
    half = width_of(keys) // 2
    a = r.randint(1, max(1, half - 2))
    b = r.randint(0, half - a)
    return [a, b, half - a - b]


def granite_hybrid(r):
    keys = state_space(r, granite(r) | dict(hidden_act="silu", shared_intermediate_size=r.randint(17, 90), position_embedding_type=r.one("rope", "nope")))
    keys |= dict(layer_types=hybrid_types(r, ("full_attention", "linear_attention"), keys["num_hidden_layers"]), num_local_experts=0)
    if r.maybe(0.7):
        keys = mixture(r, keys, "num_local_experts", norm=False)
    return with_rope(r, keys, kinds=PLAIN) if keys["position_embedding_type"] == "rope" else keys


def falcon_h1(r):
    some = lambda *names: {f"{name}_multiplier": r.one(0.5, 0.9, 1.0, 2.0) for name in names if r.maybe()}
    keys = state_space(r, sizes(r)) | dict(mamba_proj_bias=False, mamba_rms_norm=r.maybe(), mamba_norm_before_gate=r.maybe(), mamba_d_ssm=None)
    keys |= some("lm_head", "embedding", "key", "attention_out", "attention_in", "ssm_in", "ssm_out")
    if r.maybe():
        keys |= dict(mlp_multipliers=[r.uniform(0.5, 2) for _ in range(2)], ssm_multipliers=[r.uniform(0.5, 2) for _ in range(5)])
    return with_rope(r, keys, kinds=PLAIN)


def bamba(r):
    keys = state_space(r, sizes(r)) | dict(attention_bias=r.maybe(), mlp_bias=r.maybe())
    types = hybrid_types(r, ("full_attention", "linear_attention"), keys["num_hidden_layers"])
    return with_rope(r, keys | dict(attn_layer_indices=[i for i, kind in enumerate(types) if kind == "full_attention"]), partial=(0.5,), kinds=PLAIN)


def grouped_experts(r, keys, groups=True):
    """Counts of DeepSeek's routers: groups of at least two, which leave a row its experts."""
    count, size = r.one(1, 1, 2, 3, 4), r.one(2, 3, 4)
    count, kept = (count, r.randint(1, count)) if groups else (1, 1)
    return keys | dict(
        n_routed_experts=count * size, n_group=count, topk_group=kept, num_experts_per_tok=r.randint(1, kept * size), moe_intermediate_size=r.randint(9, 50),
        routed_scaling_factor=r.one(1.0, 1.5, 2.5), norm_topk_prob=r.maybe(),
    )  # fmt: skip


def latent(r, even=False):
    """Sizes of latent attention; `head_dim` is that of the rotation. Complex rotation needs even ones before it."""
    keys = sizes(r, False)
    rotated = r.one(2, 4, 8, 16, 32)
    keys |= dict(num_key_value_heads=keys["num_attention_heads"], q_lora_rank=r.one(None, r.randint(5, 40)), kv_lora_rank=r.randint(5, 40))
    if even:
        keys["kv_lora_rank"] += keys["kv_lora_rank"] % 2
    return keys | dict(qk_rope_head_dim=rotated, qk_nope_head_dim=r.one(*((2, 4) if even else (1, 7)), 16, 24, 64), v_head_dim=r.one(3, 8, 16, 33, 64), attention_bias=r.maybe(0.3), head_dim=rotated)


def with_latent_rope(r, keys, kinds=("default", "linear", "yarn", "yarn")):
    keys = with_rope(r, keys, kinds=kinds)
    del keys["head_dim"]
    return keys


def deepseek_v3(r):
    keys = grouped_experts(r, latent(r) | act(r)) | dict(n_shared_experts=r.one(1, 2), rope_interleave=r.maybe(0.7))
    return with_latent_rope(r, keys | dict(first_k_dense_replace=r.randint(0, keys["num_hidden_layers"])))


def deepseek_v2(r):
    keys = grouped_experts(r, latent(r, even=True) | act(r)) | dict(n_shared_experts=r.one(1, 2), norm_topk_prob=False, topk_method=r.one("greedy", "group_limited_greedy"))
    return with_latent_rope(r, keys | dict(first_k_dense_replace=r.randint(0, keys["num_hidden_layers"])))


def minicpm3(r):
    keys = latent(r) | act(r) | dict(scale_emb=r.one(1, 3.0, 12), scale_depth=r.one(None, 1.4, 0.7), dim_model_base=r.one(None, 16, 256))
    return with_latent_rope(r, keys, kinds=("default", "linear", "yarn", "longrope"))


def nemotron_h(r):
    """A step that transformers draws is from 0.001 to 0.1."""
    keys, groups, parts = sizes(r), r.one(1, 2, 3), ("full_attention", "linear_attention", "mlp")
    del keys["num_hidden_layers"]
    if experts := r.maybe(0.6):
        keys = grouped_experts(r, keys) | dict(moe_shared_expert_intermediate_size=r.randint(9, 50), mlp_bias=False)
        parts = ("full_attention", "moe", "linear_attention", "mlp", "moe")
    return keys | dict(
        tie_word_embeddings=False, layers_block_type=hybrid_types(r, parts, r.randint(2, 7)), mlp_hidden_act=r.choice(ACTIVATIONS), mlp_bias=not experts and r.maybe(), use_bias=r.maybe(), use_conv_bias=r.maybe(), n_groups=groups,
        mamba_num_heads=groups * r.one(1, 2, 3, 5), mamba_head_dim=r.one(4, 8, 12, 24, 40, 64), ssm_state_size=r.one(4, 8, 12, 16, 64, 100),
        conv_kernel=r.one(2, 3, 4), chunk_size=r.one(16, 64, 128), time_step_min=r.one(0.001, 0.001, 0.02), layer_norm_epsilon=r.one(1e-5, 1e-3),
    )  # fmt: skip


def lfm2(r):
    keys = sizes(r, False) | dict(conv_bias=r.maybe(), conv_L_cache=r.one(2, 3, 4), norm_eps=r.one(1e-5, 1e-3))
    keys |= dict(block_auto_adjust_ff_dim=r.maybe(), block_multiple_of=r.one(8, 30), block_ffn_dim_multiplier=r.one(1.0, 1.3))
    return with_rope(r, keys | dict(layer_types=hybrid_types(r, ("full_attention", "conv"), keys["num_hidden_layers"])), kinds=PLAIN)


def cohere2(r):
    keys = sizes(r, False) | act(r) | dict(attention_bias=r.maybe(), logit_scale=r.one(0.0625, 0.3), sliding_window=window(r))
    return with_rope(r, keys | dict(layer_types=layer_types(r, keys)), kinds=PLAIN)


def exaone4(r):
    keys = sizes(r) | act(r) | dict(sliding_window=r.one(None, window(r)))
    keys["layer_types"] = layer_types(r, keys) if keys["sliding_window"] else ["full_attention"] * keys["num_hidden_layers"]
    return with_rope(r, keys, kinds=PLAIN)


def gpt2(r):
    heads, width = r.one(1, 2, 3, 5, 8), r.one(7, 8, 12, 20, 33, 64)
    return dict(
        vocab_size=r.randint(61, 400), n_positions=512, n_embd=heads * width, n_layer=r.randint(2, 4), n_head=heads, n_inner=r.one(None, 77, 40),
        activation_function=r.choice(ACTIVATIONS), scale_attn_weights=r.maybe(0.8), scale_attn_by_inverse_layer_idx=r.maybe(0.3),
        reorder_and_upcast_attn=False, tie_word_embeddings=r.maybe(0.8), bos_token_id=0, eos_token_id=1, layer_norm_epsilon=r.one(1e-5, 1e-3),
    )  # fmt: skip


def gpt_neox(r):
    keys = sizes(r, False) | act(r) | dict(use_parallel_residual=r.maybe(), attention_bias=r.maybe(0.7))
    del keys["num_key_value_heads"]
    return with_rope(r, keys, partial=PARTS, kinds=PLAIN)


def smollm3(r):
    keys = sizes(r) | act(r) | dict(attention_bias=r.maybe(), mlp_bias=r.maybe())
    del keys["head_dim"]
    keys["hidden_size"] = keys["num_attention_heads"] * r.one(8, 12, 16, 32)
    if r.maybe():
        keys["no_rope_layers"] = [r.randint(0, 1) for _ in range(keys["num_hidden_layers"])]
    else:
        keys["no_rope_layer_interval"] = r.one(2, 3, 4)
    if r.maybe():
        keys |= dict(use_sliding_window=True, sliding_window=window(r), layer_types=layer_types(r, keys))
    return with_rope(r, keys, kinds=PLAIN)


def ministral3(r):
    keys = sizes(r) | act(r) | dict(sliding_window=r.one(None, window(r)))
    keys = with_rope(r, keys, kinds=("yarn",))
    keys["rope_parameters"] |= dict(llama_4_scaling_beta=r.one(0.1, 0.6))
    return keys


def hunyuan(r):
    keys = sizes(r) | act(r) | dict(attention_bias=r.maybe())
    keys = with_rope(r, keys, kinds=("default", "linear", "llama3"))
    if r.maybe():
        keys["rope_parameters"] = {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 10000.0}
    return keys


def gpt_oss(r):
    keys = sizes(r) | dict(attention_bias=r.maybe(0.7), sliding_window=window(r), swiglu_limit=r.one(7.0, 2.0), swiglu_alpha=r.one(1.702, 1.2))
    keys = mixture(r, keys | dict(layer_types=layer_types(r, keys)), "num_local_experts", norm=False)
    return with_rope(r, keys, kinds=("yarn", "yarn", "default"))


def granite(r):
    numbers = dict(embedding_multiplier=r.one(3.0, 12.0), residual_multiplier=r.one(0.2, 0.6), logits_scaling=r.one(0.5, 3.0), attention_multiplier=r.one(0.1, 0.3))
    return sizes(r, False) | act(r) | numbers | dict(attention_bias=r.maybe())


def phi3(r):
    keys = sizes(r, False) | act(r) | dict(sliding_window=r.one(None, window(r)), original_max_position_embeddings=r.one(32, 512))
    keys = with_rope(r, keys, partial=PARTS, kinds=("default", "longrope"))
    keys["rope_parameters"].pop("original_max_position_embeddings", None)
    return keys


def named(*makers):
    return {make.__name__: make for make in makers}


TEXT = {
    "llama": lambda r: with_rope(r, sizes(r) | act(r) | dict(attention_bias=r.maybe(), mlp_bias=r.maybe())),
    "mistral": lambda r: with_rope(r, sizes(r) | act(r) | dict(sliding_window=r.one(None, window(r)))),
    "qwen2": lambda r: with_rope(r, some_windows(r, sizes(r, False) | act(r))),
    "qwen3": lambda r: with_rope(r, some_windows(r, sizes(r) | act(r) | dict(attention_bias=r.maybe()))),
    "qwen3_moe": lambda r: with_rope(r, some_windows(r, mixture(
        r, sizes(r) | act(r) | dict(attention_bias=r.maybe()), width="moe_intermediate_size", dense_layers=True), False)),
    "olmoe": lambda r: with_rope(r, mixture(r, sizes(r, False) | act(r) | dict(attention_bias=r.maybe(), clip_qkv=r.one(None, 0.9)))),
    "mixtral": lambda r: with_rope(r, mixture(r, sizes(r) | act(r) | dict(sliding_window=r.one(None, window(r))), "num_local_experts", norm=False)),
    "qwen2_moe": lambda r: with_rope(r, some_windows(r, mixture(
        r, sizes(r, False) | act(r) | dict(qkv_bias=r.maybe()), width="moe_intermediate_size", dense_layers=True, shared=True))),
    "qwen3_next": lambda r: with_rope(
        r, mixture(r, recurrent(r, sizes(r)), width="moe_intermediate_size", dense_layers=True, shared=True), partial=PARTS, kinds=PLAIN),
    "qwen3_5_text": lambda r: with_rope(r, recurrent(r, sizes(r)), partial=PARTS, kinds=PLAIN),
    "granitemoehybrid": granite_hybrid,
    **named(falcon_h1, bamba, nemotron_h, lfm2),
    "granitemoe": lambda r: with_rope(r, mixture(r, granite(r), "num_local_experts", norm=False)),
    "gpt_oss": gpt_oss,
    "gemma2": lambda r: with_rope(r, gemma(r) | dict(attn_logit_softcapping=r.one(None, 3.0, 50.0), final_logit_softcapping=r.one(None, 5.0, 30.0)), kinds=PLAIN),
    "gemma3_text": lambda r: per_type_rope(r, gemma(r), ("default", "linear")),
    "gemma3n_text": lambda r: per_type_rope(r, gemma3n(r), ("default", "linear")),
    "gemma4_text": gemma4,
    "olmo2": lambda r: with_rope(r, sizes(r, False) | act(r) | dict(attention_bias=r.maybe())),
    **named(gpt2, gpt_neox),
    "phi": lambda r: with_rope(r, sizes(r, False) | act(r), partial=PARTS, kinds=PLAIN),
    "phi3": phi3,
    "granite": lambda r: with_rope(r, granite(r) | dict(mlp_bias=r.maybe())),
    "olmo3": lambda r: (lambda k: per_type_rope(r, k | dict(sliding_window=window(r), layer_types=layer_types(r, k)), ("default", "yarn")))(sizes(r, False) | act(r) | dict(attention_bias=r.maybe())),
    "ministral": lambda r: (lambda k: with_rope(r, k | dict(sliding_window=window(r), layer_types=layer_types(r, k))))(sizes(r) | act(r)),
    "smollm3": smollm3,
    "seed_oss": lambda r: with_rope(r, sizes(r) | act(r) | dict(attention_bias=r.maybe(), attention_out_bias=r.maybe(), mlp_bias=r.maybe())),
    "arcee": lambda r: with_rope(r, sizes(r) | act(r) | dict(attention_bias=r.maybe(), mlp_bias=r.maybe())),
    "apertus": lambda r: with_rope(r, sizes(r, False) | dict(hidden_act="xielu", attention_bias=r.maybe())),
    "hunyuan_v1_dense": hunyuan,
    "ministral3": ministral3,
    "starcoder2": lambda r: with_rope(r, sizes(r, False) | act(r) | dict(use_bias=r.maybe(), sliding_window=r.one(None, window(r)))),
    "nemotron": lambda r: with_rope(r, sizes(r) | act(r) | dict(attention_bias=r.maybe(), mlp_bias=r.maybe()), partial=PARTS, kinds=PLAIN),
    "stablelm": lambda r: with_rope(r, sizes(r, False) | act(r) | dict(use_qkv_bias=r.maybe(), use_parallel_residual=r.maybe()), partial=PARTS, kinds=PLAIN),
    "ernie4_5": lambda r: with_rope(r, sizes(r) | act(r) | dict(use_bias=r.maybe()), kinds=PLAIN),
    "glm4": lambda r: with_rope(r, sizes(r) | act(r) | dict(attention_bias=r.maybe()), partial=(0.5, 1.0), kinds=("default",)),
    **named(cohere2, exaone4, deepseek_v2, deepseek_v3, minicpm3),
}  # fmt: skip


def qwen_vl(r, keys, **more):
    keys["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections(r, keys)} | more
    return keys


IDS = dict(image_token_id=10000, video_token_id=10001, vision_start_token_id=10002, vision_end_token_id=10003)
WHOLE = {
    "gemma3": lambda r: dict(text_config=TEXT["gemma3_text"](r) | dict(model_type="gemma3_text"), mm_tokens_per_image=4, vision_config=dict(
        model_type="siglip_vision_model", image_size=32, patch_size=8, **VISION)),
    "gemma4": lambda r: dict(text_config=TEXT["gemma4_text"](r) | dict(model_type="gemma4_text"), audio_config=None, vision_config=dict(
        model_type="gemma4_vision", num_key_value_heads=1, head_dim=8, patch_size=4, position_embedding_size=16, **VISION)),
    "mistral3": lambda r: (lambda kind: dict(image_token_index=10000, text_config=TEXT[kind](r) | dict(model_type=kind), vision_config=dict(
        model_type="pixtral", image_size=32, patch_size=8, head_dim=8, **VISION)))(r.one("mistral", "ministral3")),
    "qwen2_5_vl": lambda r: IDS | dict(text_config=qwen_vl(r, some_windows(r, sizes(r, False) | act(r), False)), vision_config=dict(
        depth=1, hidden_size=8, intermediate_size=8, num_heads=1, out_hidden_size=64, patch_size=4)),
    "qwen3_vl": lambda r: IDS | dict(text_config=qwen_vl(r, sizes(r) | act(r) | dict(attention_bias=r.maybe()), mrope_interleaved=True), vision_config=dict(
        depth=1, hidden_size=8, intermediate_size=8, num_heads=1, out_hidden_size=32, patch_size=4, num_position_embeddings=16, deepstack_visual_indexes=[0])),
    "qwen3_5": lambda r: IDS | dict(text_config=TEXT["qwen3_5_text"](r), vision_config=dict(
        depth=1, hidden_size=8, intermediate_size=8, num_heads=1, out_hidden_size=32, patch_size=4, num_position_embeddings=16)),
}  # fmt: skip
