"""gemma4 in the terms of reference.py, from its formulas: heads by kind of layer, layers that read the keys of an earlier
one, inputs of each layer, experts beside an MLP; and weights for its tiny checkpoints.

A layer of kind k (window or full) has heads of its kind's width. q and k are normed per head, v without a weight; scores
are not scaled. The last layers have no k and v: they read those of the last layer of their kind before them.
"""

import math

import torch

import rope


def sources(sliding, shared, mistakes):
    """Of the last `shared` layers, the one whose keys they read; None of the others."""
    own = len(sliding) - shared
    out = [None] * len(sliding)
    for i in range(own, len(sliding)):
        of_kind = [j for j in range(own) if sliding[j] == sliding[i]]
        out[i] = of_kind[0 if "keys of the first layer of a kind" in mistakes else -1]
    return out


class Layers:
    """What differs by layer, from either generation of keys."""

    def __init__(self, c, sliding, mistakes=()):
        count, heads = len(sliding), (c["head_dim"], c["num_key_value_heads"])
        self.same_values = c.get("attention_k_eq_v", False)
        full = (c.get("global_head_dim", 512), c.get("num_global_key_value_heads") or heads[1] if self.same_values else heads[1])
        self.heads = [heads if s else full for s in sliding]
        if "per_layer_config" in c:
            of_layer = [c["per_layer_config"].get(str(i), {}) for i in range(count)]
            self.heads = [(o.get("head_dim", heads[0]), o.get("num_key_value_heads", heads[1])) for o in of_layer]
        self.sources = sources(sliding, c.get("num_kv_shared_layers", 0), mistakes)
        wide = c.get("use_double_wide_mlp", False)
        self.mlp_widths = [c["intermediate_size"] * (2 if wide and source is not None else 1) for source in self.sources]
        self.inputs = c.get("hidden_size_per_layer_input", 256)
        self.input_vocabulary = c.get("vocab_size_per_layer_input", 262144)
        self.experts = c["num_experts"] if c.get("enable_moe_block") else 0
        self.experts_per_token = c.get("top_k_experts") or 0

    def width(self, sliding, layers_sliding):
        """Of a kind's heads."""
        return next((h[0] for h, s in zip(self.heads, layers_sliding) if s == sliding), self.heads[0][0])


def rms(model, x, name=None):
    """A norm, with the weight of that name if any."""
    eps = model.shape.eps * (100 if "norm eps" in model.mistakes else 1)
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    if name is None:
        return y
    return y * (model.weights[name] + ("one added to gemma4's norms" in model.mistakes))


def layer_inputs(model, ids, x):
    """[L, T, P] of the tokens and their scaled embeddings."""
    s, mistakes = model.shape, model.mistakes
    layers, width = s.layers, s.of_layers.inputs
    split = lambda y: y.view(len(ids), layers, width).transpose(0, 1)
    token = split(model.weights["layer_table"][torch.tensor(ids)])
    if "token's inputs of layers not scaled" not in mistakes:
        token = token * math.sqrt(width)
    context = split(model.linear(x, "layer_projection") * s.width**-0.5)
    if "embedding's inputs of layers not normed" not in mistakes:
        context = rms(model, context, "layer_inputs_norm")
    if "inputs of layers without the token" in mistakes:
        token = token * 0
    if "inputs of layers without the embedding" in mistakes:
        context = context * 0
    y = (context + token) * 2**-0.5  # of no effect but on an epsilon, as a norm follows
    return y.roll(1, 0) if "inputs of the layer before" in mistakes else y


def add_input(model, x, y, layer):
    """x + norm(output (act(gate x) * y))."""
    name, mistakes = f"layers.{layer}.", model.mistakes
    if "no inputs of layers" in mistakes:
        return x
    gate = model.linear(rms(model, x) if "gate of an input reads a norm" in mistakes else x, name + "input_gate")
    if "no activation of an input's gate" not in mistakes:
        gate = model.activation(gate)
    added = model.linear(gate * y, name + "input_o")
    return x + (added if "no norm of what an input adds" in mistakes else rms(model, added, name + "input_norm"))


def attention(model, h, layer, positions):
    s, name, rows, mistakes = model.shape, f"layers.{layer}.", len(h), model.mistakes
    width, kv_heads = s.of_layers.heads[layer]
    source = s.of_layers.sources[layer]
    table = model.tables[s.sliding[layer]]
    split = lambda x: x.view(rows, -1, width).transpose(0, 1)

    def turned(x, what):
        if "no q/k norm" not in mistakes:
            x = rms(model, x, name + what)
        return model.operand(rope.rotate(x, table, positions, mistakes))

    q = turned(split(model.linear(h, name + "q", "no q bias")), "q_norm")
    if source is None:
        k = split(model.linear(h, name + "k", "no k bias"))
        v = k if name + "v" not in model.weights else split(model.linear(h, name + "v", "no v bias"))
        if "normed keys as values" in mistakes and name + "v" not in model.weights:
            v = rms(model, k, name + "k_norm")
        k = turned(k, "k_norm")
        if "no norm of values" not in mistakes:
            v = rms(model, v, name + "k_norm" if "keys' norm of values" in mistakes else None)
        v = k if "rotated keys as values" in mistakes and name + "v" not in model.weights else v
        v = model.operand(v)
        if model.keys[layer] is not None:
            k, v = torch.cat([model.keys[layer], k], 1), torch.cat([model.values[layer], v], 1)
        model.keys[layer], model.values[layer] = k, v
    else:
        k, v = model.keys[source], model.values[source]
    share = s.heads // kv_heads
    if "heads dealt round" in mistakes:
        k, v = k.repeat(share, 1, 1), v.repeat(share, 1, 1)
    else:
        k, v = k.repeat_interleave(share, 0), v.repeat_interleave(share, 0)
    divisors = model.divisors(h, layer)
    if "scores scaled by the width of a layer's heads" in mistakes:
        divisors = divisors * width**0.5
    logits = (q @ k.transpose(1, 2)) / divisors[None, :, None]
    key = torch.arange(k.shape[1])[None, :]
    hidden = key > positions[:, None]
    if s.windows[layer] is not None:
        hidden = hidden | (key <= positions[:, None] - s.windows[layer])
    logits = logits.masked_fill(hidden, -math.inf)
    if model.draw % 2:
        weights = (logits - logits.max(-1, keepdim=True).values).exp()
        weights = model.operand(weights) / weights.sum(-1, keepdim=True)
    else:
        weights = model.operand(logits.softmax(-1))
    y = (weights @ v).transpose(0, 1).reshape(rows, s.heads * width)
    return model.linear(y, name + "o", "no o bias")


def experts(model, x, layer):
    """Of the stream: the router and the experts each read a norm of their own."""
    s, name, mistakes = model.shape, f"layers.{layer}.", model.mistakes
    h = rms(model, x, name + ("pre_ffn" if "experts read the MLP's norm" in mistakes else "experts_norm"))
    read = rms(model, x)
    if "router without its scale" not in mistakes:
        read = read * model.weights[name + "router_norm"]
    if "router not divided by the root of the width" not in mistakes:
        read = read * s.width**-0.5
    if "router reads what experts read" in mistakes:
        read = h * s.width**-0.5
    logits = model.linear(read, name + "router")
    count = s.of_layers.experts_per_token - ("one expert fewer" in mistakes)
    best = logits.topk(min(count + 1, s.of_layers.experts), -1)
    chosen = best.indices[:, :count].sort(-1).values
    model.margins.append(best.values[:, count - 1] - best.values[:, -1])
    model.chosen.append(chosen)
    weights = logits.softmax(-1).gather(-1, chosen)
    scales = model.weights[name + "expert_scales"][chosen]
    weights = weights / weights.sum(-1, keepdim=True)  # of no effect but on an epsilon, as a norm follows
    if "no scales of experts" not in mistakes:
        weights = weights * scales
    if "all experts weighted equally" in mistakes:
        weights = weights.mean(-1, keepdim=True).expand_as(weights)
    out = torch.zeros_like(h)
    for e in range(s.of_layers.experts):
        rows, place = (chosen == e).nonzero(as_tuple=True)
        out[rows] += weights[rows, place, None] * model.gated(h[rows], f"{name}experts.{e}.")
    return out


def feed_forward(model, x, layer):
    name, mistakes = f"layers.{layer}.", model.mistakes
    y = model.feed_forward_plain(rms(model, x, name + "pre_ffn"), layer)
    if model.shape.of_layers.experts:
        apart = (lambda y, what: y) if "MLP and experts not normed apart" in mistakes else (lambda y, what: rms(model, y, name + what))
        beside = apart(experts(model, x, layer), "experts_post")
        y = apart(y, "mlp_post")
        y = beside if "no MLP beside experts" in mistakes else y if "no experts beside an MLP" in mistakes else y + beside
    return y if "no post norms" in mistakes else rms(model, y, name + "post_ffn")


def layer(model, x, y, index, positions):
    """One layer; y is its input, if any."""
    name, mistakes = f"layers.{index}.", model.mistakes
    attended = attention(model, rms(model, x, name + "input"), index, positions)
    x = x + (attended if "no post norms" in mistakes else rms(model, attended, name + "post_attention"))
    x = x + feed_forward(model, x, index)
    scale = 1.0 if "no scale of layers" in mistakes else model.weights[name + "scale"]
    if y is None:
        return x * scale
    if "scale of a layer before its input" in mistakes:
        return add_input(model, x * scale, y, index)
    return add_input(model, x, y, index) * scale


def weights_of(case, s, vocabulary, generator):
    """As make_architectures.weights_of, in the names of files; of gemma3n too, which has streams."""
    c, m, g = case["keys"], s.width, s.of_layers
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    matrix = lambda rows, columns, gain=1.0: normal(rows, columns, std=gain * columns**-0.5)
    norm = lambda width, mean=1.0: mean + normal(width, std=0.3)
    signs = lambda: torch.randint(0, 2, (m,), generator=generator) * 2.0 - 1.0
    out, shared, streams = {}, signs(), getattr(g, "streams", 0)
    # What is attended to must matter, else greedy texts go round in circles.
    means = {"post_attention_layernorm": 2.0, "post_feedforward_layernorm": 0.7} if streams else {"post_attention_layernorm": 1.5}

    def put(name, w):
        out[name + ".weight"] = w

    put("model.embed_tokens", normal(vocabulary, m, std=0.25) + 0.25 * shared)
    if g.inputs:
        put("model.embed_tokens_per_layer", normal(g.input_vocabulary, s.layers * g.inputs, std=0.5))
        put("model.per_layer_model_projection", matrix(s.layers * g.inputs, m))
        put("model.per_layer_projection_norm", norm(g.inputs))
    for i in range(streams - 1):
        put(f"model.altup_projections.{i}", matrix(m, m, 1.5))
        put(f"model.altup_unembed_projections.{i}", matrix(m, m, 1.5))
    for i in range(s.layers):
        p, (width, kv_heads) = f"model.layers.{i}.", g.heads[i]
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            put(p + name, norm(m, means.get(name, 1.0)))
        own = streams or g.sources[i] is None  # gemma3n's files have what is not read
        names = ["q_proj"] + ["k_proj"] * bool(own) + ["v_proj"] * bool(own and not (g.same_values and not s.sliding[i]))
        for name in ("q_norm", "k_norm") if own else ("q_norm",):
            put(p + "self_attn." + name, norm(width, 1.2 * width**-0.25))  # scores spread over about 1.5
        for name in [*names, "o_proj"]:
            rows = (s.heads if name == "q_proj" else kv_heads) * width
            rows, columns = (m, s.heads * width) if name == "o_proj" else (rows, m)
            put(p + "self_attn." + name, matrix(rows, columns))
            if c.get("attention_bias"):
                out[p + f"self_attn.{name}.bias"] = normal(rows, std=0.5)
        f = g.mlp_widths[i]
        # Gates around -2, where tanh and erf GELU part: see make_architectures.
        put(p + "mlp.gate_proj", matrix(f, m, 1.2) - 1.5 / m * shared)
        put(p + "mlp.up_proj", matrix(f, m, 1.5))
        put(p + "mlp.down_proj", matrix(m, f))
        if not streams:
            out[p + "layer_scalar"] = 0.8 + 0.4 * torch.rand(1, generator=generator)
        if g.inputs:
            put(p + "per_layer_input_gate", matrix(g.inputs, m, 1.2) + 1.5 / m * shared)
            put(p + "per_layer_projection", matrix(m, g.inputs))
            put(p + "post_per_layer_input_norm", norm(m, 0.3 if streams else 1.0))
        if streams:
            put(p + "laurel.linear_left", matrix(g.rank, m, 1.5))
            put(p + "laurel.linear_right", matrix(m, g.rank))
            put(p + "laurel.post_laurel_norm", norm(m, 0.7))
            # Routers read numbers of the size of 1 / M.
            put(p + "altup.modality_router", normal(streams, m, std=0.8 * m**0.5))
            put(p + "altup.router_norm", norm(m))
            put(p + "altup.prediction_coefs", normal(streams**2, streams, std=0.08))
            put(p + "altup.correction_coefs", normal(streams, streams, std=0.1))
            out[p + "altup.correct_output_scale"] = norm(m)
        if g.experts:
            e, width = g.experts, c["moe_intermediate_size"]
            for name in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
                put(p + name, norm(m))
            out[p + "router.scale"], out[p + "router.per_expert_scale"] = norm(m), norm(e)
            put(p + "router.proj", normal(e, m, std=2.5))
            out[p + "experts.gate_up_proj"] = normal(e, 2 * width, m, std=1.5 * m**-0.5)
            out[p + "experts.down_proj"] = normal(e, m, width, std=2.0 * width**-0.5)
    put("model.norm", signs() * norm(m))
    return out
