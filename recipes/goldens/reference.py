"""A llama with every focal mode in float64, written from the formulas and nothing else; slow and plain.

It exists because transformers knows no focal attention, and because a second implementation that agrees with
transformers on the baseline shows that neither is wrong alone. Rows are computed with a key/value cache, so that the
`sequence` reading of the mean can be stated exactly: prompt rows use the mean over the whole prompt, a generated row i
the mean over rows 0..i, and rows already computed are not revisited.

`mistakes` switches on one deliberate error at a time: the goldens are only worth something if these move them.
"""

import json
import math
import pathlib

import torch
from safetensors.torch import load_file


def read_weights(directory):
    """All tensors of a checkpoint directory, single-file or sharded, as stored, then widened."""
    directory = pathlib.Path(directory)
    index = directory / "model.safetensors.index.json"
    names = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else {"model.safetensors"}
    out = {}
    for name in sorted(names):
        out.update(load_file(directory / name))
    return out


def rope_frequencies(config, mistakes=()):
    rope = config.get("rope_parameters") or {}
    theta = config.get("rope_theta", rope.get("rope_theta", 10000.0))
    scaling = config.get("rope_scaling") or (rope if rope.get("rope_type", "default") != "default" else None)
    width = head_width(config)
    if "rope theta" in mistakes:
        theta *= 1.1
    frequency = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if scaling and "no rope scaling" not in mistakes:
        assert scaling["rope_type"] == "llama3"
        low = scaling["original_max_position_embeddings"] / scaling["low_freq_factor"]
        high = scaling["original_max_position_embeddings"] / scaling["high_freq_factor"]
        wave = 2 * math.pi / frequency
        smooth = (scaling["original_max_position_embeddings"] / wave - scaling["low_freq_factor"]) / (
            scaling["high_freq_factor"] - scaling["low_freq_factor"]
        )
        mixed = (1 - smooth) * frequency / scaling["factor"] + smooth * frequency
        frequency = torch.where(
            wave > low, frequency / scaling["factor"], torch.where(wave < high, frequency, mixed)
        )
    return frequency


def head_width(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def rotate(x, frequency, positions, mistakes=()):
    """x is [H, T, D]; halves are paired: (i, i + D/2)."""
    if "positions off by one" in mistakes:
        positions = (positions - 1).clamp(min=0)
    angle = positions.to(x.dtype)[:, None] * frequency.to(x.dtype)
    cos, sin = angle.cos(), angle.sin()
    if "interleaved rope" in mistakes:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Reference:
    """One sequence; `feed` appends rows and returns their log-probabilities [T, V]."""

    def __init__(self, directory, focal_temperature=None, mistakes=(), dtype=torch.float64):
        directory = pathlib.Path(directory)
        self.config = json.loads((directory / "config.json").read_text())
        self.weights = {k: v.to(dtype) for k, v in read_weights(directory).items()}
        self.mistakes = mistakes
        self.dtype = dtype
        self.focal = dict(self.config.get("focal_attention") or {})
        if focal_temperature is not None:
            assert self.focal.get("mode") != "learned", "a run-time temperature on learned tau is an error"
            self.focal = {"mode": "constant", "temperature": focal_temperature}
        self.frequency = rope_frequencies(self.config, mistakes)
        layers = self.config["num_hidden_layers"]
        self.keys, self.values = [None] * layers, [None] * layers
        self.raw = [torch.zeros(0, dtype=dtype)] * layers  # x.w + b of every row so far
        self.taus = [[] for _ in range(layers)]  # (clipped, raw mean) of every row so far
        self.length = 0

    def norm(self, x, name):
        eps = self.config["rms_norm_eps"] * (100 if "norm eps" in self.mistakes else 1)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * self.weights[name]

    def divisors(self, x, layer):
        """Of the logits, per new row: [T]."""
        rows, root = x.shape[0], math.sqrt(head_width(self.config))
        if self.focal.get("mode") == "constant" and "no temperature" not in self.mistakes:
            t = self.focal["temperature"]
            t = t[layer] if isinstance(t, list) else t
            if "temperature squared" in self.mistakes:
                t = t * t
            return torch.full((rows,), root * t, dtype=self.dtype)
        if self.focal.get("mode") != "learned" or "no temperature" in self.mistakes:
            return torch.full((rows,), root, dtype=self.dtype)
        prefix = f"model.layers.{layer}.self_attn.tau_proj."
        raw = x @ self.weights[prefix + "weight"]
        if prefix + "bias" in self.weights and "no tau bias" not in self.mistakes:
            raw = raw + self.weights[prefix + "bias"]
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

    def feed(self, ids):
        c, w = self.config, self.weights
        heads, groups, width = c["num_attention_heads"], c["num_key_value_heads"], head_width(c)
        rows = len(ids)
        positions = torch.arange(self.length, self.length + rows)
        x = w["model.embed_tokens.weight"][torch.tensor(ids)]
        for layer in range(c["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            h = self.norm(x, name + "input_layernorm.weight")
            split = lambda what, n: (h @ w[name + f"self_attn.{what}.weight"].T).view(rows, n, width).transpose(0, 1)
            q = rotate(split("q_proj", heads), self.frequency, positions, self.mistakes)
            k = rotate(split("k_proj", groups), self.frequency, positions, self.mistakes)
            v = split("v_proj", groups)
            if self.keys[layer] is not None:
                k, v = torch.cat([self.keys[layer], k], 1), torch.cat([self.values[layer], v], 1)
            self.keys[layer], self.values[layer] = k, v
            share = heads // groups
            if "heads dealt round" in self.mistakes:
                k, v = k.repeat(share, 1, 1), v.repeat(share, 1, 1)
            else:
                k, v = k.repeat_interleave(share, 0), v.repeat_interleave(share, 0)
            logits = q @ k.transpose(1, 2) / self.divisors(h, layer)[None, :, None]
            hidden = torch.arange(k.shape[1])[None, :] > positions[:, None]
            weights = logits.masked_fill(hidden, -math.inf).softmax(-1)
            y = (weights @ v).transpose(0, 1).reshape(rows, heads * width)
            x = x + y @ w[name + "self_attn.o_proj.weight"].T
            h = self.norm(x, name + "post_attention_layernorm.weight")
            gate = torch.nn.functional.silu(h @ w[name + "mlp.gate_proj.weight"].T)
            x = x + (gate * (h @ w[name + "mlp.up_proj.weight"].T)) @ w[name + "mlp.down_proj.weight"].T
        self.length += rows
        head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
        return torch.log_softmax(self.norm(x, "model.norm.weight") @ head.T, -1)

    def bounds(self):
        """How many (layer, row) pairs were clipped to either bound, and how many there are."""
        flat = [pair for layer in self.taus for pair in layer]
        low = sum(mean < self.focal["tau_min"] for _, mean in flat)
        high = sum(mean > self.focal["tau_max"] for _, mean in flat)
        return {"tau_at_min_count": low, "tau_at_max_count": high, "tau_count": len(flat)}


@torch.no_grad()
def run(directory, ids, new_tokens, **options):
    """Scores `ids` and continues them greedily; everything a golden file holds."""
    model = Reference(directory, **options)
    rows = model.feed(ids)
    out = {
        "token_log_probs": [None] + [rows[i, t].item() for i, t in enumerate(ids[1:])],
        "last_log_probs": rows[-1].tolist(),
    }
    if model.focal.get("mode") == "learned":
        out["taus"] = [[tau for tau, _ in layer] for layer in model.taus]
        out |= model.bounds()
    last, continuation, gaps = rows[-1], [], []
    for _ in range(new_tokens):
        top = last.topk(2).values
        continuation.append(int(last.argmax()))
        gaps.append((top[0] - top[1]).item())
        last = model.feed([continuation[-1]])[-1]
    return out | {"continuation": continuation, "continuation_gaps": gaps}
