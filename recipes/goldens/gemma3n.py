"""gemma3n in the terms of reference.py, from its formulas; what it shares with gemma4 is in gemma4.py, with the
weights of tiny checkpoints.

A row has several residual streams (alternating updates). A layer reads one of them, the active one, after it predicted all
of them from each other, and then corrects all of them by its output. A product of low rank runs beside attention.
Gates of some layers are cut at a number of deviations above their mean.
"""

import math
import statistics

import torch

import gemma4
from gemma4 import rms


class Layers:
    """As gemma4.Layers; every layer has the same heads."""

    def __init__(self, c, sliding, mistakes=()):
        count = len(sliding)
        self.same_values, self.experts = False, 0
        self.heads = [(c["head_dim"], c["num_key_value_heads"])] * count
        self.sources = gemma4.sources(sliding, c.get("num_kv_shared_layers", 15), mistakes)
        self.inputs = c.get("hidden_size_per_layer_input", 256)
        self.input_vocabulary = c.get("vocab_size_per_layer_input", 262144)
        widths = c["intermediate_size"]
        self.mlp_widths = widths if isinstance(widths, list) else [widths] * count
        sparse = 10 if count > 10 else 0
        self.cut_shares = c.get("activation_sparsity_pattern") or [0.95] * sparse + [0.0] * (count - sparse)
        self.streams, self.active = c.get("altup_num_inputs", 4), c.get("altup_active_idx", 0)
        self.scales_corrected, self.rank = c.get("altup_correct_scale", True), c.get("laurel_rank", 64)

    def width(self, sliding, layers_sliding):
        return self.heads[0][0]


def size(x):
    return x.pow(2).mean(-1, keepdim=True)


def matched(y, target):
    """y with the size of the rows of `target`."""
    return y * size(target).sqrt() / size(y).clamp(min=1e-5).sqrt()


def started(model, x):
    """The streams [S, T, M] of embeddings."""
    mistakes = model.mistakes
    out = [x]
    for i in range(1, model.shape.of_layers.streams):
        y = x if "streams start as the embedding" in mistakes else model.linear(x, f"stream_in.{i - 1}")
        out.append(y if "streams start in sizes of their own" in mistakes else matched(y, x))
    return torch.stack(out)


def joined(model, streams):
    active, mistakes = model.shape.of_layers.active, model.mistakes
    target = streams[active if "streams end in the size of the active one" in mistakes else 0]
    out = [streams[0]]
    for i in range(1, len(streams)):
        y = model.linear(streams[i], f"stream_out.{i - 1}")
        out.append(y if "streams end in sizes of their own" in mistakes else matched(y, target))
    return streams[0] if "first stream alone at the end" in mistakes else torch.stack(out).mean(0)


def modalities(model, x, name):
    """[T, S] of the stream that is read, or of what a layer made of it."""
    mistakes = model.mistakes
    h = x if "router of streams without a norm" in mistakes else rms(model, x, name + "stream_norm")
    if "router of streams not divided by the width" not in mistakes:
        h = h / model.shape.width
    y = h @ model.weights[name + "stream_router"].T
    return y if "no tanh of streams' routers" in mistakes else y.tanh()


def predicted(model, streams, name):
    """Of stream i: itself, and of each j coefficient [i, j] of it."""
    mistakes, count = model.mistakes, len(streams)
    if "streams not predicted" in mistakes:
        return streams
    y = modalities(model, streams[model.shape.of_layers.active], name) @ model.weights[name + "predict"].T
    y = y.view(-1, count, count)
    if "coefficients of predictions transposed" in mistakes:
        y = y.transpose(1, 2)
    mixed = torch.einsum("tij,jtm->itm", y, streams)
    return mixed if "predictions without the stream itself" in mistakes else mixed + streams


def corrected(model, streams, x, name):
    """`streams` are the predictions, x what the layer made of the active one."""
    active, mistakes = model.shape.of_layers.active, model.mistakes
    source = streams[active] if "router of corrections reads the prediction" in mistakes else x
    y = modalities(model, source, name) @ model.weights[name + "correct"].T
    if "corrections without the one" not in mistakes:
        y = y + 1
    if "no coefficients of corrections" in mistakes:
        y = torch.ones_like(y)
    out = streams + y.T[:, :, None] * (x - streams[active])
    if "only the active stream corrected" in mistakes:
        return torch.stack([out[i] if i == active else streams[i] for i in range(len(out))])
    return out


def with_input(model, streams, y, name):
    """What the corrected active stream makes of the layer's input, added to all streams but the first."""
    s, mistakes = model.shape.of_layers, model.mistakes
    if "no inputs of layers" in mistakes:
        return streams
    x = streams[s.active]
    if s.scales_corrected and "no scale of the corrected stream" not in mistakes:
        x = x * model.weights[name + "stream_scale"]
        if "corrected stream stays scaled" in mistakes:
            streams = torch.stack([x if i == s.active else streams[i] for i in range(len(streams))])
    gate = model.linear(x, name + "input_gate")
    if "no activation of an input's gate" not in mistakes:
        gate = model.activation(gate)
    added = model.linear(gate * y, name + "input_o")
    if "no norm of what an input adds" not in mistakes:
        added = rms(model, added, name + "input_norm")
    kept = s.active if "input of a layer into all but the active stream" in mistakes else 0
    if "input of a layer into all streams" in mistakes:
        kept = None
    return torch.stack([x if i == kept else x + added for i, x in enumerate(streams)])


def cut(model, gate, share):
    """Of a normal distribution this share of gates is below."""
    mistakes = model.mistakes
    if not share or "gates not cut" in mistakes:
        return gate
    mean, deviations = gate.mean(-1, keepdim=True), statistics.NormalDist().inv_cdf(share)
    if "gates cut at their mean" in mistakes:
        deviations = 0
    if "gates cut at twice the deviations" in mistakes:
        deviations *= 2
    at = deviations * gate.std(-1, keepdim=True, unbiased="gates cut by the unbiased deviation" in mistakes)
    if "gates cut without their mean" not in mistakes:
        at = at + mean
    return torch.where(gate > at, gate, 0) if "gates above the cut keep it" in mistakes else (gate - at).clamp(min=0)


def feed_forward(model, h, layer):
    name, s, mistakes = f"layers.{layer}.", model.shape.of_layers, model.mistakes
    share = s.cut_shares[layer - 1 if "cut of the layer before" in mistakes else layer]
    y = model.activation(cut(model, model.linear(h, name + "gate"), share))
    return model.linear(y * model.linear(h, name + "up"), name + "down")


def low_rank(model, h, name):
    mistakes = model.mistakes
    y = model.linear(model.linear(h, name + "low_left"), name + "low_right")
    if "low-rank product not normed" not in mistakes:
        y = rms(model, y, name + "low_norm")
    if "no low-rank product" in mistakes:
        return h
    return y if "low-rank product without what it reads" in mistakes else h + y


def layer(model, streams, y, index, positions):
    name, mistakes = f"layers.{index}.", model.mistakes
    active = model.shape.of_layers.active
    streams = predicted(model, streams, name)
    x = streams[active]
    h = rms(model, x, name + "input")
    attended = gemma4.attention(model, h, index, positions)
    x = x + (attended if "no post norms" in mistakes else rms(model, attended, name + "post_attention"))
    x = x + low_rank(model, x if "low-rank product reads no norm" in mistakes else h, name)
    if "sum with the low-rank product not divided" not in mistakes:
        x = x / math.sqrt(2)
    made = feed_forward(model, rms(model, x, name + "pre_ffn"), index)
    x = x + (made if "no post norms" in mistakes else rms(model, made, name + "post_ffn"))
    return with_input(model, corrected(model, streams, x, name), y, name)


def run(model, ids, x, positions):
    """From embeddings to what the final norm reads."""
    s = model.shape.of_layers
    missing = s.input_vocabulary - 1 if "last row of inputs for tokens beyond them" in model.mistakes else 0
    inputs = gemma4.layer_inputs(model, [i if i < s.input_vocabulary else missing for i in ids], x)
    streams = started(model, x)
    for index in range(model.shape.layers):
        streams = layer(model, streams, inputs[index], index, positions)
    return joined(model, streams)
