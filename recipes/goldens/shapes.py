"""What the config.json of any architecture asks for, in one vocabulary: sizes, places of norms, windows, rotated layers."""

import math

import gemma3n
import gemma4
import rope

PARTS = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
LATENT = ("deepseek_v2", "deepseek_v3", "minicpm3")
OF_LAYERS = {"gemma4_text": gemma4.Layers, "gemma3n_text": gemma3n.Layers}
MULTIPLIERS = {
    "keys": "key_multiplier", "attention's inputs": "attention_in_multiplier", "attention's outputs": "attention_out_multiplier",
    "the state's inputs": "ssm_in_multiplier", "the state's outputs": "ssm_out_multiplier",
}  # fmt: skip


class Shape:
    """What config.json says, in one vocabulary for all architectures and both generations of keys."""

    def __init__(self, c, mistakes=()):
        kind = self.kind = c["model_type"]
        self.width = c.get("hidden_size", c.get("n_embd"))
        # In nemotron_h a layer has one part: a state (M), attention (*) or an MLP (-).
        self.parts = c.get("hybrid_override_pattern") or "".join(PARTS[kind] for kind in c.get("layers_block_type", []))
        self.layers = len(self.parts) or c.get("num_hidden_layers", c.get("n_layer"))
        self.heads = c.get("num_attention_heads", c.get("n_head"))
        self.kv_heads = c.get("num_key_value_heads") or self.heads
        self.head_width = c.get("head_dim") or self.width // self.heads
        # Latent attention: the width of a head is that of its rotated dimensions.
        self.latent = c.get("kv_lora_rank") if kind in LATENT else None
        if self.latent:
            self.query_latent, self.head_width, self.unrotated = c.get("q_lora_rank"), c["qk_rope_head_dim"], c["qk_nope_head_dim"]
            self.value_width, self.kv_heads = c.get("v_head_dim") or self.width // self.heads, self.heads
        spellings = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
        self.eps = next(c[key] for key in spellings if key in c)
        self.layer_norm = kind in ("gpt2", "gpt_neox", "starcoder2", "nemotron", "stablelm", "cohere2", "phi")
        self.one_plus = int(kind in ("gemma2", "gemma3_text", "nemotron", "qwen3_next", "qwen3_5_text"))
        self.parallel = kind in ("cohere2", "phi") or c.get("use_parallel_residual", kind == "gpt_neox")
        self.one_norm = self.parallel and kind != "gpt_neox"
        # Pairs of rotated dimensions: (2i, 2i + 1), or (i, i + half).
        self.neighbours = kind in ("glm4", "cohere2", "ernie4_5", "deepseek_v2") or kind == "deepseek_v3" and c.get("rope_interleave", True)
        # Where norms stand: on what enters a block, on what leaves it, or both.
        after = kind in ("olmo2", "olmo3", "exaone4")
        self.pre_norm, self.post_norm = not after, after or kind in ("gemma2", "gemma3_text", "glm4")
        self.head_norm = {
            "qwen3": "head", "gemma3_text": "head", "olmo2": "width", "olmo3": "width", "exaone4": "head",
            "qwen3_vl_text": "head", "qwen3_moe": "head", "olmoe": "width", "apertus": "head", "hunyuan_v1_dense": "head",
            "qwen3_next": "head", "qwen3_5_text": "head", "lfm2": "head",
        }.get(kind)  # fmt: skip
        self.norm_after_rope = kind == "hunyuan_v1_dense"
        self.gated = kind not in ("gpt2", "gpt_neox", "arcee", "starcoder2", "nemotron", "nemotron_h", "phi", "apertus")
        activation = c.get("hidden_act", c.get("hidden_activation", c.get("activation_function", c.get("mlp_hidden_act", "silu"))))
        self.activation = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "erf", "silu": "silu", "relu2": "relu2", "xielu": "xielu"}[activation]
        # gpt_oss clamps gates and ups.
        self.gate_limit, self.gate_slope = (c.get("swiglu_limit", 7.0), c.get("swiglu_alpha", 1.702)) if kind == "gpt_oss" else (None, None)
        self.embedding_scale = c.get("embedding_multiplier", math.sqrt(self.width) if kind.startswith("gemma") else 1.0)
        self.residual_scale = c.get("residual_multiplier", 1.0)
        self.score_cap, self.logit_cap = (
            c.get(key, missing if kind in caps else None)
            for key, missing, caps in (("attn_logit_softcapping", 50.0, ("gemma2",)), ("final_logit_softcapping", 30.0, ("gemma2", "gemma3n_text")))
        )
        self.logits_divisor = c.get("logits_scaling", 1.0) / c.get("logit_scale", c.get("lm_head_multiplier", 1.0))
        self.base = (self.head_width + self.unrotated if self.latent else self.head_width) ** -0.5
        self.score_factor = rope.score_factor(c) if self.latent else 1.0
        if kind.startswith("gemma"):
            self.base = c.get("query_pre_attn_scalar", 256) ** -0.5
        if kind in OF_LAYERS:
            self.base = 1.0
        if kind in ("granite", "granitemoe", "granitemoehybrid"):
            self.base = c.get("attention_multiplier", 1.0)
        self.clip = c.get("clip_qkv")  # of queries, keys and values, after the norms
        self.experts = c.get("num_experts", c.get("num_local_experts", c.get("n_routed_experts", 0)))
        # Scores of experts; groups of them, of which some are kept, by the sum of this many of their best.
        self.sigmoid_experts = kind in ("deepseek_v3", "nemotron_h")
        self.expert_scale = c.get("routed_scaling_factor", 2.5 if kind == "deepseek_v3" else 1.0)
        grouped = self.sigmoid_experts or c.get("topk_method") == "group_limited_greedy"
        missing = (8, 4) if kind == "deepseek_v3" else (1, 1)
        self.groups, self.groups_kept = (c.get("n_group", missing[0]), c.get("topk_group", missing[1])) if grouped else (1, 1)
        self.group_best = 2 if self.sigmoid_experts else 1
        self.experts_per_token = c.get("num_experts_per_tok", 0)
        # Otherwise the weights of the chosen experts are their shares of all.
        self.renormalised = kind in ("mixtral", "granitemoe", "granitemoehybrid", "gpt_oss") or c.get("norm_topk_prob", kind == "qwen3_next" or self.sigmoid_experts)
        if kind == "minicpm3":
            self.embedding_scale = c.get("scale_emb", 12)
            depth, wide = c.get("scale_depth", 1.4), c.get("dim_model_base", 256)
            self.residual_scale = 1.0 if depth is None else depth / math.sqrt(self.layers)
            self.logits_divisor = 1.0 if wide is None else self.width / wide
        # Layers with a recurrent state in place of keys and values; attention of the others has a gate.
        self.output_gate = kind in ("qwen3_next", "qwen3_5_text")
        self.recurrent = [False] * self.layers
        if self.output_gate:
            every = c.get("full_attention_interval", 4)
            types = c.get("layer_types") or ["linear_attention" if (i + 1) % every else "full_attention" for i in range(self.layers)]
            self.recurrent = [t == "linear_attention" for t in types]
            self.key_heads, self.value_heads = c.get("linear_num_key_heads", 16), c.get("linear_num_value_heads", 32)
            self.key_dim, self.value_dim = c.get("linear_key_head_dim", 128), c.get("linear_value_head_dim", 128)
        if kind == "lfm2":
            attends = c.get("full_attn_idxs", range(self.layers))
            types = c.get("layer_types") or ["full_attention" if i in attends else "conv" for i in range(self.layers)]
            self.recurrent = [t == "conv" for t in types]
        if kind in ("granitemoehybrid", "bamba"):
            attends = c.get("attn_layer_indices") or []
            types = c.get("layer_types") or ["attention" if i in attends else "mamba" for i in range(self.layers)]
            self.recurrent = [t in ("mamba", "linear_attention") for t in types]
            self.key_heads, self.value_heads = c.get("mamba_n_groups", 1), c.get("mamba_n_heads", 128)
            self.key_dim, self.value_dim = c.get("mamba_d_state", 256), c.get("mamba_expand", 2) * self.width // self.value_heads
        # In falcon_h1 every layer has attention and a state, both of the same norm; nearly everything has a multiplier.
        self.both = kind == "falcon_h1"
        self.state_norm, self.gate_first, self.step_min = True, kind in ("granitemoehybrid", "nemotron_h", "bamba"), 0.0
        if kind == "nemotron_h":
            self.recurrent = [part == "M" for part in self.parts]
            self.key_heads, self.value_heads = c.get("n_groups", 8), c.get("mamba_num_heads", 128)
            self.key_dim, self.value_dim = c.get("ssm_state_size", 128), c.get("mamba_head_dim", 64)
            self.step_min = c.get("time_step_min", 0.001)
        self.multipliers = {what: c.get(key, 1.0) for what, key in MULTIPLIERS.items()}
        self.multipliers |= dict(zip(("gates", "the MLP's outputs"), c.get("mlp_multipliers") or (1.0, 1.0)))
        self.state_parts = c.get("ssm_multipliers") or [1.0] * 5  # of z, u, B, C and d
        if self.both:
            self.recurrent = [True] * self.layers
            self.key_heads, self.value_heads = c.get("mamba_n_groups", 1), c.get("mamba_n_heads", 128)
            wide = c.get("mamba_d_ssm", 1024) or c.get("mamba_expand", 2) * self.width
            self.key_dim, self.value_dim = c.get("mamba_d_state", 256), wide // self.value_heads
            self.state_norm, self.gate_first = c.get("mamba_rms_norm", False), not c.get("mamba_norm_before_gate", True)
        # gpt2 may divide the scores of layer i by i + 1.
        self.by_layer = c.get("scale_attn_by_inverse_layer_idx", False)
        self.windows = self.window_of_layers(c, mistakes)
        self.rotated = self.rotated_layers(c, mistakes)
        # Of heads in full and in window layers.
        self.kind_width = {sliding: self.head_width for sliding in (False, True)}
        self.of_layers = OF_LAYERS[kind](c, self.sliding, mistakes) if kind in OF_LAYERS else None
        if self.of_layers:
            self.kind_width = {sliding: self.of_layers.width(sliding, self.sliding) for sliding in (False, True)}

    def window_of_layers(self, c, mistakes):
        """Per layer, how many keys a query sees, itself included; None for all of them."""
        window = c.get("sliding_window")
        types = c.get("layer_types")
        if "old pattern wins over layer_types" in mistakes and "_sliding_window_pattern" in c:
            types, c = None, c | {"sliding_window_pattern": c["_sliding_window_pattern"]}
        if types:
            sliding = [t == "sliding_attention" for t in types]
        elif self.kind in ("gemma2", "gemma3_text", "gemma4_text", "gemma3n_text", "olmo3", "cohere2", "gpt_oss") or self.kind == "exaone4" and window is not None:
            pattern = c.get("sliding_window_pattern", {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "gemma4_text": 6, "gemma3n_text": 5}.get(self.kind, 4))
            shift = 0 if "layer pattern shifted by one" in mistakes else 1
            sliding = [(i + shift) % pattern != 0 for i in range(self.layers)]
        elif self.kind in ("qwen2", "qwen3", "qwen2_5_vl_text"):
            first = c.get("max_window_layers", 28)
            if "max_window_layers counts the window layers" in mistakes:
                sliding = [c.get("use_sliding_window", False) and i < first for i in range(self.layers)]
            else:
                sliding = [c.get("use_sliding_window", False) and i >= first for i in range(self.layers)]
            if "use_sliding_window ignored" in mistakes:
                sliding = [window is not None and i >= first for i in range(self.layers)]
        elif self.kind == "qwen3_moe":
            sliding = [c.get("use_sliding_window", False) and window is not None] * self.layers
        elif self.kind == "smollm3":
            used = c.get("use_sliding_window", False) and window is not None
            sliding = [used and not r for r in self.rotated_layers(c, mistakes)]
        else:
            sliding = [self.kind in ("mistral", "mixtral", "phi3", "ministral", "ministral3", "starcoder2") and window is not None] * self.layers
        if self.kind == "gemma4_text":
            sliding[-1] = False
        if "layer types shifted by one" in mistakes:
            sliding = sliding[-1:] + sliding[:-1]
        self.sliding = sliding
        if "window one wider" in mistakes and window:
            window += 1
        if "window one narrower" in mistakes and window:
            window -= 1
        if "window in every layer" in mistakes and any(sliding):
            return [window] * self.layers
        return [window if s and "no window" not in mistakes else None for s in sliding]


    def rotated_layers(self, c, mistakes):
        """Per layer, whether queries and keys are rotated; smollm3 states it, 1 for rotated, exaone4 by its windows."""
        rotated = [True] * self.layers
        if self.kind == "smollm3":
            every = c.get("no_rope_layer_interval", 4)
            shift = 0 if "unrotated layers shifted by one" in mistakes else 1
            rotated = [bool(f) for f in c.get("no_rope_layers") or [(i + shift) % every for i in range(self.layers)]]
        elif self.kind == "nemotron_h":
            rotated = [False] * self.layers
        elif self.kind == "granitemoehybrid":
            rotated = [c.get("position_embedding_type") == "rope"] * self.layers
        elif self.kind in ("exaone4", "cohere2") and c.get("sliding_window") is not None:
            rotated = list(self.sliding)
        if "rotated and unrotated layers swapped" in mistakes and not all(rotated):
            rotated = [not r for r in rotated]
        if "every layer rotated" in mistakes and self.kind not in ("granitemoehybrid", "nemotron_h") or "rotation where there is none" in mistakes:
            rotated = [True] * self.layers
        return rotated
