"""Every architecture and every focal mode in float64, written from the formulas and nothing else; slow and plain.

It exists because transformers knows no focal attention, and because a second implementation that agrees with
transformers shows that neither is wrong alone. Rows are computed with a key/value cache, so that the `sequence` reading
of the focal mean can be stated exactly: prompt rows use the mean over the whole prompt, a generated row i the mean over
rows 0..i, and rows already computed are not revisited.

`number_format`: "f64"; "f32", the same in single precision; "bf16 0" to "bf16 7", the product's bf16: matrices, what is
multiplied with them, queries, keys, values and attention weights are rounded to bf16, everything else is not. The eight
differ in where the steps of the rounding lie, so each is another draw of the rounding errors; odd ones round attention
weights before they are normalized. All but the first say what rounding alone does, and so bound what the product may
differ by.

`mistakes` switches on deliberate errors, by name: the goldens are only worth something if these move them.
"""

import json
import math
import pathlib

import torch
from safetensors.torch import load_file

import gemma3n
import gemma4
import rope
from tensor_names import canonical, text_of, text_tensors

BF16 = [f"bf16 {i}" for i in range(8)]
FORMATS = {"f64": torch.float64, "f32": torch.float32} | {name: torch.float64 for name in BF16}


def read_weights(directory):
    """All tensors of a checkpoint directory, single-file or sharded, as stored."""
    directory = pathlib.Path(directory)
    index = directory / "model.safetensors.index.json"
    names = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else {"model.safetensors"}
    out = {}
    for name in sorted(names):
        out.update(load_file(directory / name))
    return out


PARTS = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
LATENT = ("deepseek_v2", "deepseek_v3", "minicpm3")
LATENT_EPS = 1e-6
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


def rotate(x, table, positions, mistakes=(), neighbours=False):
    """x is [H, T, D]; the first R are rotated, halves paired: (i, i + R/2), or neighbours: (2i, 2i + 1)."""
    if "positions off by one" in mistakes:
        positions = (positions - 1).clamp(min=0)
    angle = positions.to(x.dtype)[:, None] * table.frequency.to(x.dtype)
    cos, sin = angle.cos() * table.scale, angle.sin() * table.scale
    width, half = x.shape[-1], table.frequency.shape[0]
    if "rotated part at the end of the head" in mistakes:
        kept, x = x[..., : width - 2 * half], x[..., width - 2 * half :]
    else:
        x, kept = x[..., : 2 * half], x[..., 2 * half :]
    if neighbours != ("interleaved rope" in mistakes):
        a, b = x[..., 0::2], x[..., 1::2]
        x = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    else:
        a, b = x[..., :half], x[..., half:]
        x = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    if "scale on the whole head" in mistakes:
        kept = kept * table.scale
    return torch.cat([kept, x] if "rotated part at the end of the head" in mistakes else [x, kept], dim=-1)


class Reference:
    """One sequence; `feed` appends rows and returns their log-probabilities [T, V].

    `length` is the number of positions for which length-dependent RoPE is settled; the first feed settles it otherwise.
    """

    def __init__(self, directory, focal_temperature=None, mistakes=(), number_format="f64", length=None):
        directory = pathlib.Path(directory)
        whole = json.loads((directory / "config.json").read_text())
        self.config = text_of(whole)
        self.shape = Shape(self.config, mistakes)
        self.dtype = FORMATS[number_format]
        self.rounds = number_format in BF16
        self.draw = int(number_format[5:]) if self.rounds else 0
        self.weights = {}
        for name, w in canonical(self.config, text_tensors(whole, read_weights(directory)), mistakes).items():
            matrix = self.rounds and w.dim() == 2 and not name.endswith(("router", "shared_gate", "predict", "correct"))
            self.weights[name] = (w.to(torch.bfloat16) if matrix else w).to(self.dtype)
        self.mistakes = mistakes
        self.focal = dict(self.config.get("focal_attention") or {})
        self.log_n = dict(self.config.get("log_n_attention") or {})
        self.sink = dict(self.config.get("attention_sink") or ({"mode": "learned"} if self.shape.kind == "gpt_oss" else {}))
        if focal_temperature is not None:
            assert self.focal.get("mode") != "learned", "a run-time temperature on learned tau is an error"
            self.focal = {"mode": "constant", "temperature": focal_temperature}
        self.rope_length, self.tables = length, None
        layers = self.shape.layers
        self.keys, self.values = [None] * layers, [None] * layers
        self.states, self.tails = [None] * layers, [None] * layers
        self.raw = [torch.zeros(0, dtype=self.dtype)] * layers  # x.w + b of every row so far
        self.taus = [[] for _ in range(layers)]  # (clipped, raw mean) of every row so far
        self.length = 0
        self.chosen = []  # the experts of every row, sorted, layer by layer
        self.margins = []  # how far the last chosen one's logit is above the next one's

    def operand(self, x):
        """What a matrix product reads."""
        stretch = 2 ** (self.draw / len(BF16))
        return (x * stretch).to(torch.bfloat16).to(self.dtype) / stretch if self.rounds else x

    def linear(self, x, name, bias_mistake="no bias"):
        y = self.operand(x) @ self.weights[name].T
        bias = self.weights.get(name + ".bias")
        dropped = bias_mistake in self.mistakes or "no bias" in self.mistakes
        return y if bias is None or dropped else y + bias

    def norm(self, x, name):
        eps = self.shape.eps * (100 if "norm eps" in self.mistakes else 1)
        weight = self.weights[name]
        if self.shape.one_plus and "norm weight without the one" not in self.mistakes:
            weight = 1 + weight
        if self.shape.layer_norm and "RMS norm for layer norm" not in self.mistakes:
            mean = 0 if "layer norm without mean" in self.mistakes else x.mean(-1, keepdim=True)
            variance = (x - mean).pow(2).mean(-1, keepdim=True)
            if "unbiased variance" in self.mistakes:
                variance = variance * (x.shape[-1] / (x.shape[-1] - 1))
            y = (x - mean) * torch.rsqrt(variance + eps) * weight
            return y if "layer norm without bias" in self.mistakes else y + self.weights.get(name + ".bias", 0)
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        return y * weight

    def log_n_factors(self, layer, positions):
        """What log_n_attention multiplies the logits with: [H or 1, T]."""
        visible = positions + 1
        if self.shape.windows[layer] is not None and "log n without the window" not in self.mistakes:
            visible = visible.clamp(max=self.shape.windows[layer])
        if "log n of the position" in self.mistakes:
            visible = visible - 1
        logs = visible.clamp(min=1).to(self.dtype).log()[None]
        if self.log_n["mode"] == "constant":
            length = 4096 if "no trained length" in self.mistakes else self.log_n["trained_length"]
            return logs / math.log(length)
        scales = self.weights[f"layers.{layer}.log_n_scale"].to(self.dtype)
        if "first head's scale for all" in self.mistakes:
            scales = scales[:1].expand(len(scales))
        return scales[:, None] * logs

    def query_factors(self, positions):
        """What ministral3 multiplies queries with, by their position: [T]."""
        p = rope.parameters(self.config, False) if self.shape.kind == "ministral3" else {}
        beta, length = p.get("llama_4_scaling_beta") or 0.0, p.get("original_max_position_embeddings") or 1
        if "no query scale" in self.mistakes:
            beta = 0.0
        if "query scale of the longest context" in self.mistakes:
            length = self.config["max_position_embeddings"]
        if "query scale counted from one" in self.mistakes:
            positions = positions + 1
        steps = positions.to(self.dtype) / length
        if "query scale without steps" not in self.mistakes:
            steps = steps.floor()
        if "query scale in base two" in self.mistakes:
            return 1 + beta * torch.log2(1 + steps)
        return 1 + beta * torch.log(1 + steps)

    def divisors(self, x, layer):
        """Of the logits, per new row: [T]."""
        rows, root = x.shape[0], 1 / self.shape.base
        if self.shape.latent and "scores scaled by the rotated width" in self.mistakes:
            root = math.sqrt(self.shape.head_width)
        if "no scale of scores by mscale" not in self.mistakes:
            root /= math.sqrt(self.shape.score_factor) if "scores scaled by mscale once" in self.mistakes else self.shape.score_factor
        if "attention scale from the head width" in self.mistakes:
            root = math.sqrt(self.shape.head_width)
        if self.shape.by_layer and "no attention scale by layer" not in self.mistakes:
            root *= layer + 1
        constant = self.focal.get("mode") == "constant"
        if self.focal.get("mode") == "full_layers_only":
            constant = self.shape.windows[layer] is None or "temperature in window layers" in self.mistakes
        if constant and "no temperature" not in self.mistakes:
            t = self.focal["temperature"]
            t = t[layer] if isinstance(t, list) else t
            if "temperature squared" in self.mistakes:
                t = t * t
            return torch.full((rows,), root * t, dtype=self.dtype)
        if self.focal.get("mode") != "learned" or "no temperature" in self.mistakes:
            return torch.full((rows,), root, dtype=self.dtype)
        prefix = f"layers.{layer}.tau"
        raw = x @ self.weights[prefix]
        if prefix + ".bias" in self.weights and "no tau bias" not in self.mistakes:
            raw = raw + self.weights[prefix + ".bias"]
        self.raw[layer] = torch.cat([self.raw[layer], raw])
        kind = self.focal["tau_mean"]
        if kind == "token":
            mean = raw
        else:
            everything = self.raw[layer]
            if "begin token left out of the mean" in self.mistakes:
                everything = torch.cat([torch.zeros(1, dtype=self.dtype), everything[1:]])
            count = torch.arange(1, len(everything) + 1, dtype=self.dtype)
            if "begin token left out of the mean" in self.mistakes:
                count = (count - 1).clamp(min=1)
            running = everything.cumsum(0) / count
            if "tau off by one position" in self.mistakes:
                running = torch.cat([running[:1], running[:-1]])
            mean = running[-rows:]
            if kind == "sequence" and "sequence taken as causal" not in self.mistakes:
                mean = mean[-1:].expand(rows)
        tau = mean if "no clip" in self.mistakes else mean.clamp(self.focal["tau_min"], self.focal["tau_max"])
        self.taus[layer].extend(zip(tau.tolist(), mean.tolist()))
        return tau * root if "tau on top of the root" in self.mistakes else tau

    def attention(self, h, layer, positions):
        s, name, rows = self.shape, f"layers.{layer}.", h.shape[0]
        table = self.tables[s.sliding[layer]] if s.rotated[layer] else None

        def split(x, n):
            return x.view(rows, n, s.head_width).transpose(0, 1)

        def normed(x, n, what):
            if s.head_norm is None or "no q/k norm" in self.mistakes:
                return split(x, n)
            if s.head_norm == "width" and "q/k norm per head" not in self.mistakes:
                return split(self.norm(x, name + what), n)
            if s.head_norm == "width":
                weight = self.weights[name + what].view(n, 1, s.head_width)
                x = split(x, n)
                return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + s.eps) * weight
            return self.norm(split(x, n), name + what)

        h = h * self.multiplier("attention's inputs")
        if s.latent:
            return self.attend(h, layer, positions, *self.latent_heads(h, layer, positions, table))
        q = self.linear(h, name + "q", "no q bias")
        gate = None
        if s.output_gate:  # of each head first the query, then the gate
            parts = q.view(rows, s.heads, 2 * s.head_width).split(s.head_width, -1)
            if "gates after all queries" in self.mistakes:
                parts = q.view(rows, 2, s.heads, s.head_width).unbind(1)
            q, gate = (part.reshape(rows, -1) for part in parts)
        k = self.linear(h, name + "k", "no k bias") * self.multiplier("keys")
        v = split(self.clipped(self.linear(h, name + "v", "no v bias")), s.kv_heads)
        if "q, k and v clamped before the norms" in self.mistakes:
            q, k = self.clipped(q), self.clipped(k)
        turned_round = "q/k norm on the other side of rope" in self.mistakes and s.head_norm == "head"
        if s.norm_after_rope != turned_round and table is not None:
            q = rotate(split(q, s.heads), table, positions, self.mistakes, s.neighbours)
            k = rotate(split(k, s.kv_heads), table, positions, self.mistakes, s.neighbours)
            q, k = self.norm(q, name + "q_norm"), self.norm(k, name + "k_norm")
        else:
            q, k = normed(q, s.heads, "q_norm"), normed(k, s.kv_heads, "k_norm")
            if "q, k and v clamped before the norms" not in self.mistakes:
                q, k = self.clipped(q), self.clipped(k)
            if table is not None:
                q = rotate(q, table, positions, self.mistakes, s.neighbours)
                if "rope scale on queries alone" in self.mistakes:
                    table = rope.Table(table.frequency, 1.0)
                k = rotate(k, table, positions, self.mistakes, s.neighbours)
        return self.attend(h, layer, positions, q, k, v, gate)

    def latent_heads(self, h, layer, positions, table):
        """Queries, keys and values [H, T, D] of latent attention; a head is [not rotated | rotated]."""
        s, name, rows = self.shape, f"layers.{layer}.", h.shape[0]

        def normed(x, what):
            if "no norms of latents" in self.mistakes:
                return x
            eps = s.eps if "model's epsilon in norms of latents" in self.mistakes else LATENT_EPS
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * self.weights[name + what]

        q = self.linear(normed(self.linear(h, name + "q_a", "no q bias"), "q_a_norm"), name + "q_b") if s.query_latent else self.linear(h, name + "q")
        latent, turned = self.linear(h, name + "kv_a", "no k bias").split([s.latent, s.head_width], -1)
        q = q.view(rows, s.heads, -1).transpose(0, 1)
        kv = self.linear(normed(latent, "kv_a_norm"), name + "kv_b").view(rows, s.heads, -1).transpose(0, 1)
        parts = [s.unrotated, s.head_width]
        q, q_turned = q.split(parts, -1)
        if "rotated part at the beginning of queries" in self.mistakes:
            q_turned, q = torch.cat([q, q_turned], -1).split(parts[::-1], -1)
        k, v = kv.split([s.unrotated, s.value_width], -1)
        if "values before keys in a latent's product" in self.mistakes:
            v, k = kv.split([s.value_width, s.unrotated], -1)
        q_turned = rotate(q_turned, table, positions, self.mistakes, s.neighbours)
        if "rope scale on queries alone" in self.mistakes:
            table = rope.Table(table.frequency, 1.0)
        # An operand of the product of keys and values.
        turned = rotate(self.operand(turned)[None], table, positions, self.mistakes, s.neighbours).expand(s.heads, -1, -1)
        if "rotated dimensions of the first head's key alone" in self.mistakes:
            turned = torch.cat([turned[:1], torch.zeros_like(turned[1:])])
        return torch.cat([q, q_turned], -1), torch.cat([k, turned], -1), v

    def attend(self, h, layer, positions, q, k, v, gate=None):
        s, name, rows = self.shape, f"layers.{layer}.", h.shape[0]
        q, k, v = self.operand(q), self.operand(k), self.operand(v)
        if self.keys[layer] is not None:
            k, v = torch.cat([self.keys[layer], k], 1), torch.cat([self.values[layer], v], 1)
        self.keys[layer], self.values[layer] = k, v
        share = s.heads // s.kv_heads
        if "heads dealt round" in self.mistakes:
            k, v = k.repeat(share, 1, 1), v.repeat(share, 1, 1)
        else:
            k, v = k.repeat_interleave(share, 0), v.repeat_interleave(share, 0)
        divisors = self.divisors(h, layer)
        logits = q @ k.transpose(1, 2)
        if "cap before the temperature" in self.mistakes and self.score_cap():
            cap = self.score_cap() / self.shape.base
            logits = cap * torch.tanh(logits / cap)
        logits = logits / divisors[None, :, None]
        logits = logits * self.query_factors(positions)[None, :, None]
        if self.log_n and "no log n" not in self.mistakes:
            logits = logits * self.log_n_factors(layer, positions)[:, :, None]
        key = torch.arange(k.shape[1])[None, :]
        hidden = key > positions[:, None]
        if s.windows[layer] is not None:
            hidden = hidden | (key <= positions[:, None] - s.windows[layer])
        cap = self.score_cap() if "no score cap" not in self.mistakes else None
        if "logit cap on scores" in self.mistakes:
            cap = s.logit_cap
        if cap and "score cap after the mask" in self.mistakes:
            logits = logits.masked_fill(hidden, -1e30)
            hidden = torch.zeros_like(hidden)
        if cap and "cap before the temperature" not in self.mistakes:
            logits = cap * torch.tanh(logits / cap)
        logits = self.group_masked(logits.masked_fill(hidden, -math.inf), h, layer, positions)
        sinks = self.sinks(layer, divisors)
        if sinks is not None:
            logits = torch.cat([logits, sinks], -1)
            # Its value is zero, as that of no key.
            v = torch.cat([v, torch.zeros_like(v[:, :1])], 1)
            if "sink with the first key's value" in self.mistakes:
                v[:, -1] = v[:, 0]
        if self.draw % 2:
            weights = (logits - logits.max(-1, keepdim=True).values).exp()
            weights = self.operand(weights) / weights.sum(-1, keepdim=True)
        else:
            weights = self.operand(logits.softmax(-1))
        y = (weights @ v).transpose(0, 1).reshape(rows, -1)
        if gate is not None and "no output gate" not in self.mistakes:
            y = y * (self.silu(gate) if "SiLU for the output gate's sigmoid" in self.mistakes else gate.sigmoid())
        return self.linear(y, name + "o", "no o bias") * self.multiplier("attention's outputs")

    def multiplier(self, what):
        mistake = f"no multiplier of {what}"
        return 1.0 if mistake in self.mistakes else self.shape.multipliers[what]

    @staticmethod
    def silu(x):
        return x * x.sigmoid()

    def convolved(self, x, what, layer):
        """Causal, one filter a channel; the last inputs of a step are kept for the next one."""
        conv = self.weights[what][:, 0].T  # [width, channels], of the row itself last
        width, rows = len(conv), len(x)
        tail = self.tails[layer] if self.tails[layer] is not None else x.new_zeros(width - 1, x.shape[1])
        padded = torch.cat([tail, x])
        self.tails[layer] = padded[-(width - 1) :]
        if "convolution turned round" in self.mistakes:
            conv = conv.flip(0)
        if "convolution without the row itself" in self.mistakes:
            padded = torch.cat([padded[:1] * 0, padded])
        y = sum(conv[j] * padded[j : j + rows] for j in range(width))
        bias = self.weights.get(what + ".bias")
        return y if bias is None or "no bias of the convolution" in self.mistakes else y + bias

    def recurrent(self, h, layer):
        """In place of attention, by what the layer's tensors are."""
        forms = {"delta_o": self.delta_rule, "space_o": self.state_space, "conv_o": self.short_convolution}
        return next(form for what, form in forms.items() if f"layers.{layer}.{what}" in self.weights)(h, layer)

    def short_convolution(self, h, layer):
        name = f"layers.{layer}."
        b, c, x = self.linear(h, name + "conv_in", "no bias around the convolution").chunk(3, -1)
        if "gates of the convolution swapped" in self.mistakes:
            b, c = c, b
        if "no gate before the convolution" in self.mistakes:
            b = torch.ones_like(b)
        y = self.convolved(b * x, name + "conv", layer)
        if "SiLU after the short convolution" in self.mistakes:
            y = self.silu(y)
        return self.linear(y if "no gate after the convolution" in self.mistakes else c * y, name + "conv_o", "no bias around the convolution")

    def state_space(self, h, layer):
        """Mamba-2, row by row: a state [state size, head width] of each head in place of keys and values."""
        s, name, rows = self.shape, f"layers.{layer}.", h.shape[0]
        keys, values = s.key_heads * s.key_dim, s.value_heads * s.value_dim
        x = self.linear(h * self.multiplier("the state's inputs"), name + "space_in", "no bias around the state")
        factors = [1.0] * 5 if "no multipliers of the state's parts" in self.mistakes else list(s.state_parts)
        if "multipliers of what is written and read swapped" in self.mistakes:
            factors[2], factors[3] = factors[3], factors[2]
        sizes = [values, values, keys, keys, s.value_heads]
        x = torch.cat([part * factor for part, factor in zip(x.split(sizes, -1), factors)], -1)
        z, channels, d = x.split([values, values + 2 * keys, s.value_heads], -1)
        if "gate and input of the state swapped" in self.mistakes:
            z, channels = channels[:, :values], torch.cat([z, channels[:, values:]], -1)
        mixed = self.convolved(channels, name + "space_conv", layer)
        if "convolution without SiLU" not in self.mistakes:
            mixed = self.silu(mixed)
        u, b, c = mixed.split([values, keys, keys], -1)
        if "what is written and read of the state swapped" in self.mistakes:
            b, c = c, b
        step = d + self.weights[name + "space_bias"]
        step = step.exp() if "decay without softplus" in self.mistakes else torch.nn.functional.softplus(step)
        if "no least step" not in self.mistakes:
            step = step.clamp(min=s.step_min)
        decay = (-self.weights[name + "space_log"].exp() * step).exp()
        if "no decay of the state" in self.mistakes:
            decay = torch.ones_like(decay)
        if "decay of the state without its logarithm" in self.mistakes:
            decay = (self.weights[name + "space_log"] * step).exp()
        share = s.value_heads // s.key_heads

        def heads(x):
            x = x.view(rows, s.key_heads, s.key_dim)
            return x.repeat(1, share, 1) if "key heads dealt round" in self.mistakes else x.repeat_interleave(share, 1)

        b, c, u = heads(b), heads(c), u.view(rows, s.value_heads, s.value_dim)
        state = self.states[layer]
        if state is None:
            state = h.new_zeros(s.value_heads, s.key_dim, s.value_dim)
        out = []
        for i in range(rows):
            written = u[i] if "step size not in what is written" in self.mistakes else step[i, :, None] * u[i]
            before, state = state, state * decay[i, :, None, None] + b[i, :, :, None] * written[:, None]
            source = before if "output before the state is written" in self.mistakes else state
            out.append((source * c[i, :, :, None]).sum(1))
        self.states[layer] = state
        y = torch.stack(out)
        if "no skip of the state" not in self.mistakes:
            y = y + self.weights[name + "space_skip"][:, None] * u
        gate = z.sigmoid() if "sigmoid for the SiLU of the state's gate" in self.mistakes else self.silu(z)
        if "no gate of the state" in self.mistakes:
            gate = torch.ones_like(z)
        y, late = y.reshape(rows, -1), s.gate_first == ("state's gate on the other side of its norm" in self.mistakes)
        y = self.normed_in_groups(y if late else y * gate, name + "space_norm") * (gate if late else 1)
        return self.linear(y, name + "space_o", "no bias around the state") * self.multiplier("the state's outputs")

    def normed_in_groups(self, y, what):
        groups = 1 if "state's norm over all groups" in self.mistakes else self.shape.key_heads
        if not self.shape.state_norm or "no norm of the state" in self.mistakes:
            return y
        y = y.view(len(y), groups, -1)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.shape.eps)
        return y.reshape(len(y), -1) * (self.weights[what] + ("state's norm plus one" in self.mistakes))

    def delta_rule(self, h, layer):
        """A gated delta rule, row by row: a state [key dim, value dim] of each value head in place of keys and values."""
        s, name, rows = self.shape, f"layers.{layer}.", h.shape[0]
        mixed = self.convolved(self.linear(h, name + "delta_qkv"), name + "delta_conv", layer)
        if "convolution without SiLU" not in self.mistakes:
            mixed = self.silu(mixed)
        keys, values = s.key_heads * s.key_dim, s.value_heads * s.value_dim
        q, k, v = mixed.split([keys, keys, values], -1)
        z = self.linear(h, name + "delta_z").view(rows, s.value_heads, s.value_dim)
        b, a = self.linear(h, name + "delta_b"), self.linear(h, name + "delta_a")
        beta = b if "write strength without sigmoid" in self.mistakes else b.sigmoid()
        step = a + self.weights[name + "delta_bias"]
        step = step.exp() if "decay without softplus" in self.mistakes else torch.nn.functional.softplus(step)
        decay = (-self.weights[name + "delta_log"].exp() * step).exp()
        if "no decay of the state" in self.mistakes:
            decay = torch.ones_like(decay)
        share = s.value_heads // s.key_heads

        def heads(x):
            x = x.view(rows, s.key_heads, s.key_dim)
            if "queries and keys of the state not normalised" not in self.mistakes:
                x = x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)
            if "key heads dealt round" in self.mistakes:
                return x.repeat(1, share, 1)
            return x.repeat_interleave(share, 1)

        q, k, v = heads(q) * s.key_dim**-0.5, heads(k), v.view(rows, s.value_heads, s.value_dim)
        if "queries of the state not scaled" in self.mistakes:
            q = q * s.key_dim**0.5
        state = self.states[layer]
        if state is None:
            state = h.new_zeros(s.value_heads, s.key_dim, s.value_dim)
        out = []
        for i in range(rows):
            held = state
            state = state * decay[i, :, None, None]
            read = held if "state read before its decay" in self.mistakes else state
            change = beta[i, :, None] * (v[i] - (read * k[i, :, :, None]).sum(1))
            if "values added without what is stored" in self.mistakes:
                change = beta[i, :, None] * v[i]
            before, state = state, state + k[i, :, :, None] * change[:, None]
            source = before if "output before the state is written" in self.mistakes else state
            out.append((source * q[i, :, :, None]).sum(1))
        self.states[layer] = state
        y = torch.stack(out)
        if "state's gate before its norm" in self.mistakes:
            y = y * self.silu(z)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + s.eps)
        y = y * (self.weights[name + "delta_norm"] + ("state's norm plus one" in self.mistakes))
        if "state's gate before its norm" not in self.mistakes and "no gate of the state" not in self.mistakes:
            y = y * (z.sigmoid() if "sigmoid for the SiLU of the state's gate" in self.mistakes else self.silu(z))
        return self.linear(y.reshape(rows, -1), name + "delta_o")

    def sinks(self, layer, divisors):
        """A logit per head and new row beside the scores, [H, T, 1], or None. Scales and temperatures do not act on it."""
        if not self.sink or "no sink" in self.mistakes:
            return None
        if self.sink["mode"] == "learned":
            sinks = self.weights[f"layers.{layer}.sinks"].to(self.dtype)
        else:
            sinks = torch.full((self.shape.heads,), self.sink["logit"], dtype=self.dtype)
        if "first head's sink for all" in self.mistakes:
            sinks = sinks[:1].expand(len(sinks))
        if "sink counted twice" in self.mistakes:  # once in each of two splits of the keys
            sinks = sinks + math.log(2)
        if "no sink in window layers" in self.mistakes and self.shape.windows[layer] is not None:
            return None
        sinks = sinks[:, None, None].expand(-1, len(divisors), 1)
        if "sink divided by the temperature" in self.mistakes:
            sinks = sinks / (divisors * self.shape.base)[None, :, None]
        if "sink scaled like a score" in self.mistakes:
            sinks = sinks / divisors[None, :, None]
        cap = self.score_cap()
        if cap and "sink under the cap" in self.mistakes:
            sinks = cap * torch.tanh(sinks / cap)
        return sinks

    def score_cap(self):
        """The setting's, which takes the place of the architecture's."""
        own, setting = self.shape.score_cap, (self.config.get("score_soft_cap") or {}).get("cap")
        if setting and "own cap before a set one" in self.mistakes:
            return own
        return setting or own

    def clipped(self, x):
        return x if self.shape.clip is None or "q, k and v not clamped" in self.mistakes else x.clamp(-self.shape.clip, self.shape.clip)

    def group_masked(self, logits, h, layer, positions):
        """Where focus_reference.py hides pairs of tokens; all pairs count here."""
        return logits

    def activation(self, x):
        kind = self.shape.activation
        if "erf GELU for tanh" in self.mistakes and kind == "tanh":
            kind = "erf"
        elif "tanh GELU for erf" in self.mistakes and kind == "erf":
            kind = "tanh"
        if "SiLU for GELU" in self.mistakes:
            kind = "silu"
        if kind == "silu":
            return x / (1 + (-x).exp())
        if kind == "xielu":
            positive, negative, linear, eps = self.weights_of_xielu
            if "xielu's alphas swapped" in self.mistakes:
                positive, negative = negative, positive
            positive, negative = torch.log1p(positive.exp()), torch.log1p(negative.exp())
            if "xielu's beta not in the negative part" not in self.mistakes:
                negative = negative + linear
            rest = torch.where(x > 0, positive * x * x, (torch.expm1(torch.minimum(x, eps)) - x) * negative)
            return rest if "xielu without its linear part" in self.mistakes else rest + linear * x
        if kind == "relu2":
            return x.clamp(min=0) ** (1 if "relu not squared" in self.mistakes else 2)
        if kind == "erf":
            return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def mixture(self, h, layer):
        """The chosen experts by their number, each times its weight, then the shared one."""
        s, name = self.shape, f"layers.{layer}."
        read = self.stream_before_mlp if "router before the norm" in self.mistakes else h
        logits = self.linear(read, name + "router", "no router bias")
        is_sigmoid = s.sigmoid_experts != ("sigmoid for softmax of experts" in self.mistakes)
        scores = logits.sigmoid() if is_sigmoid else logits.softmax(-1)
        if s.sigmoid_experts:
            logits = self.ranks(scores, name)
        if "experts chosen by the lowest score" in self.mistakes:
            logits = -logits
        if s.groups > 1 and "experts of all groups" not in self.mistakes:
            logits = self.kept_groups(logits)
        count = s.experts_per_token - ("one expert fewer" in self.mistakes)
        best = logits.topk(min(count + 1, s.experts), -1)
        chosen = best.indices[:, :count].sort(-1).values
        # A sigmoid moves by a fourth of what its logit does, at most.
        self.margins.append((best.values[:, count - 1] - best.values[:, -1]) * (4 if s.sigmoid_experts else 1))
        weights = scores.gather(-1, chosen)
        if s.renormalised != ("weights of experts renormalised the other way" in self.mistakes):
            weights = weights / weights.sum(-1, keepdim=True)
        if "all experts weighted equally" in self.mistakes:
            weights = weights.mean(-1, keepdim=True).expand_as(weights)
        if "no scaling of experts" not in self.mistakes:
            weights = weights * s.expert_scale
        self.chosen.append(chosen)
        out = torch.zeros_like(h)
        for e in range(s.experts):
            rows, place = (chosen == e).nonzero(as_tuple=True)
            weight = weights[rows, place, None]
            if "weights on the inputs of experts" in self.mistakes:
                out[rows] += self.gated(h[rows] * weight, f"{name}experts.{e}.")
            else:
                out[rows] += weight * self.gated(h[rows], f"{name}experts.{e}.")
                bias = self.weights.get(f"{name}experts.{e}.down.bias")
                if bias is not None and "bias of experts not weighted" in self.mistakes:
                    out[rows] += (1 - weight) * bias
        if name + "shared.up" in self.weights and "no shared expert" not in self.mistakes:
            share = 1.0
            if name + "shared_gate" in self.weights and "shared expert without its gate" not in self.mistakes:
                share = self.linear(h, name + "shared_gate")
                if "shared expert's gate without sigmoid" not in self.mistakes:
                    share = share.sigmoid()
            out += share * self.gated(h, name + "shared.")
        return out

    def ranks(self, scores, name):
        """What experts are chosen by."""
        if "no choice bias" in self.mistakes:
            return scores
        bias = self.weights[name + "choice_bias"]
        if "choice bias in the weights of experts" in self.mistakes:
            scores += bias
            return scores
        return scores + bias

    def kept_groups(self, ranks):
        """Experts outside of the best groups are chosen last."""
        s, count = self.shape, self.shape.groups_kept - ("one group of experts fewer" in self.mistakes)
        best = s.group_best
        if "groups by another number of their experts" in self.mistakes:
            best = 3 - best
        of_groups = ranks.view(len(ranks), s.groups, -1).topk(best, -1).values.sum(-1)
        kept = of_groups.topk(min(count + 1, s.groups), -1)
        if count < s.groups:
            self.margins.append((kept.values[:, count - 1] - kept.values[:, count]) * (2 if s.sigmoid_experts else 1))
        mask = torch.zeros_like(of_groups, dtype=torch.bool).scatter(1, kept.indices[:, :count], True)
        if "groups of experts by turns" in self.mistakes:
            return ranks.masked_fill(~mask.repeat(1, s.experts // s.groups), -math.inf)
        return ranks.masked_fill(~mask.repeat_interleave(s.experts // s.groups, -1), -math.inf)

    def gated(self, h, name):
        if not self.shape.gated:
            return self.linear(self.activation(self.linear(h, name + "up")), name + "down")
        gate, up = self.linear(h, name + "gate", "no bias of gates and ups"), self.linear(h, name + "up", "no bias of gates and ups")
        inner = self.activation(gate) * up if self.shape.gate_limit is None else self.clamped_gate(gate, up)
        return self.linear(inner, name + "down", "no bias of experts")

    def clamped_gate(self, gate, up):
        limit, slope = self.shape.gate_limit, self.shape.gate_slope
        if "gates not clamped" not in self.mistakes:
            gate = gate.clamp(max=limit, min=-limit if "gates clamped below too" in self.mistakes else None)
        if "ups not clamped" not in self.mistakes:
            up = up.clamp(-limit, limit)
        if "plain SiLU in the clamped gate" in self.mistakes:
            slope = 1.0
        return (up + (0 if "ups without the one" in self.mistakes else 1)) * gate * (slope * gate).sigmoid()

    def feed_forward(self, h, layer):
        if f"layers.{layer}.router" in self.weights:
            return self.mixture(h, layer)
        return self.feed_forward_plain(h, layer)

    def feed_forward_plain(self, h, layer):
        name = f"layers.{layer}."
        if self.shape.activation == "xielu":
            self.weights_of_xielu = [self.weights[name + "xielu." + what] for what in ("alpha_p", "alpha_n", "beta", "eps")]
        first = self.linear(h, name + ("gate" if self.shape.gated else "up"), "no mlp bias") * self.multiplier("gates")
        inner = self.activation(first)
        if self.shape.gated:
            inner = inner * self.linear(h, name + "up", "no mlp bias")
        return self.linear(inner, name + "down", "no mlp bias") * self.multiplier("the MLP's outputs")

    def settle(self, rows):
        """Rotation tables for full and for window layers; the length decides once."""
        length = self.rope_length or rows
        self.tables = [rope.table(self.config, self.shape, sliding, length, self.mistakes) for sliding in (False, True)]

    def feed(self, ids):
        s, w = self.shape, self.weights
        if self.tables is None:
            self.settle(len(ids))
        rows = len(ids)
        positions = torch.arange(self.length, self.length + rows)
        x = w["embedding"][torch.tensor(ids)]
        if "no embedding scale" not in self.mistakes:
            x = x * s.embedding_scale
        if "positions" in w and "no learned positions" not in self.mistakes:
            x = x + w["positions"][positions + (2 if "learned positions off by two" in self.mistakes else 0)]
        residual = 1.0 if "no residual multiplier" in self.mistakes else s.residual_scale
        if s.kind == "gemma3n_text":
            x = gemma3n.run(self, ids, x, positions)
        inputs = gemma4.layer_inputs(self, ids, x) if s.kind == "gemma4_text" and s.of_layers.inputs else [None] * s.layers
        for layer in range(s.layers if s.kind != "gemma3n_text" else 0):
            if s.of_layers:
                x = gemma4.layer(self, x, inputs[layer], layer, positions)
                continue
            name = f"layers.{layer}."
            moved = "norms before the blocks" in self.mistakes
            pre = s.pre_norm or moved
            post = s.post_norm and not moved and "no post norms" not in self.mistakes
            # olmo2 has two norms a layer, both on what leaves a block; the others call their first two by these names.
            first, second = ("post_attention", "post_ffn") if not s.pre_norm else ("input", "pre_ffn")
            self.stream, h = x, self.norm(x, name + first) if pre else x
            if s.parts:
                part = {"E": self.feed_forward, "M": self.recurrent, "*": lambda h, layer: self.attention(h, layer, positions), "-": self.feed_forward}[s.parts[layer]]
                self.stream_before_mlp = x
                x = x + part(h, layer)
                continue
            if s.both:
                parts = [self.recurrent(h, layer), self.attention(h, layer, positions)]
                if "no state beside attention" in self.mistakes:
                    parts = parts[1:]
                y = sum(parts)
            else:
                y = self.recurrent(h, layer) if s.recurrent[layer] else self.attention(h, layer, positions)
            if "post norm over the residual" in self.mistakes and post:
                before, x = x, self.norm(x + y, name + "post_attention")
            else:
                before, x = x, x + residual * (self.norm(y, name + "post_attention") if post else y)
            parallel = s.parallel and "parallel residual taken as sequential" not in self.mistakes
            if "sequential residual taken as parallel" in self.mistakes and s.kind in ("gpt_neox", "stablelm"):
                parallel = True
            source = before if parallel else x
            if s.one_norm or "one norm for both branches" in self.mistakes and s.parallel:
                second = "input"
            self.stream_before_mlp = source
            y = self.feed_forward(self.norm(source, name + second) if pre else source, layer)
            if "post norm over the residual" in self.mistakes and post:
                x = self.norm(x + y, name + "post_ffn")
            else:
                x = x + residual * (self.norm(y, name + "post_ffn") if post else y)
        self.length += rows
        head = w.get("head", w["embedding"])
        x = x if "no final norm" in self.mistakes else self.norm(x, "final_norm")
        logits = self.operand(x) @ head.T
        if "head.bias" in w and "no head bias" not in self.mistakes:
            logits = logits + w["head.bias"]
        if "no logits scaling" not in self.mistakes:
            logits = logits / s.logits_divisor
        if s.logit_cap and "no logit cap" not in self.mistakes:
            logits = s.logit_cap * torch.tanh(logits / s.logit_cap)
        return torch.log_softmax(logits, -1)

    def bounds(self):
        """How many (layer, row) pairs were clipped to either bound, and how many there are."""
        flat = [pair for layer in self.taus for pair in layer]
        low = sum(mean < self.focal["tau_min"] for _, mean in flat)
        high = sum(mean > self.focal["tau_max"] for _, mean in flat)
        return {"tau_at_min_count": low, "tau_at_max_count": high, "tau_count": len(flat)}


def flat(run):
    return torch.tensor(run["token_log_probs"][1:] + run["last_log_probs"], dtype=torch.float64)


@torch.no_grad()
def same_experts(directory, ids):
    """Whether every draw of the rounding errors chooses the experts that float64 does: else a bound would be that of a jump."""

    def chosen(form):
        model = Reference(directory, length=len(ids), number_format=form)
        model.feed(ids)
        return model.chosen

    exact = chosen("f64")
    return not exact or all(all(map(torch.equal, exact, chosen(form))) for form in ["f32", *BF16])


def rounding(directory, ids, exact, score=None, **options):
    """How far rounding alone moves log-probabilities: keys of a golden file. `score` is `run` below by default."""

    def moved(form):
        return flat((score or run)(directory, ids, 0, number_format=form, **options)) - flat(exact)

    draws = torch.stack([moved(form) for form in BF16])
    return {
        "float32_difference": moved("f32").abs().max().item(),
        "bfloat16_difference": draws.abs().max().item(),
        "bfloat16_rms": draws.pow(2).mean(1).sqrt().max().item(),
    }


@torch.no_grad()
def run(directory, ids, new_tokens, **options):
    """Scores `ids` and continues them greedily; everything a golden file holds.

    Length-dependent RoPE is settled for all tokens that a request may come to: the prompt when it is scored, one more
    for the row after it, the new ones too when it is continued.
    """
    model = Reference(directory, length=len(ids), **options)
    rows = model.feed(ids)
    moves = rope.depends_on_length(model.config)
    last = Reference(directory, length=len(ids) + 1, **options).feed(ids)[-1] if moves else rows[-1]
    out = {
        "token_log_probs": [None] + [rows[i, t].item() for i, t in enumerate(ids[1:])],
        "last_log_probs": last.tolist(),
    }
    if model.focal.get("mode") == "learned":
        out["taus"] = [[tau for tau, _ in layer] for layer in model.taus]
        out |= model.bounds()
    continuation, gaps = [], []
    if moves and new_tokens:
        model = Reference(directory, length=len(ids) + new_tokens, **options)
        last = model.feed(ids)[-1]
    for _ in range(new_tokens):
        top = last.topk(2).values
        continuation.append(int(last.argmax()))
        gaps.append((top[0] - top[1]).item())
        last = model.feed([continuation[-1]])[-1]
    return out | {"continuation": continuation, "continuation_gaps": gaps}
