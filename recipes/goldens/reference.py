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

import feed_forward
import gemma3n
import gemma4
import rope
import states
from shapes import Shape
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


LATENT_EPS = 1e-6


class Reference(states.States, feed_forward.FeedForward):
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
        weight = 1 + weight if self.shape.one_plus and "norm weight without the one" not in self.mistakes else weight
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
        split = lambda x, n: x.view(rows, n, s.head_width).transpose(0, 1)

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
            q = rope.rotate(split(q, s.heads), table, positions, self.mistakes, s.neighbours)
            k = rope.rotate(split(k, s.kv_heads), table, positions, self.mistakes, s.neighbours)
            q, k = self.norm(q, name + "q_norm"), self.norm(k, name + "k_norm")
        else:
            q, k = normed(q, s.heads, "q_norm"), normed(k, s.kv_heads, "k_norm")
            if "q, k and v clamped before the norms" not in self.mistakes:
                q, k = self.clipped(q), self.clipped(k)
            if table is not None:
                q = rope.rotate(q, table, positions, self.mistakes, s.neighbours)
                if "rope scale on queries alone" in self.mistakes:
                    table = rope.Table(table.frequency, 1.0)
                k = rope.rotate(k, table, positions, self.mistakes, s.neighbours)
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
        q_turned = rope.rotate(q_turned, table, positions, self.mistakes, s.neighbours)
        if "rope scale on queries alone" in self.mistakes:
            table = rope.Table(table.frequency, 1.0)
        # An operand of the product of keys and values.
        turned = rope.rotate(self.operand(turned)[None], table, positions, self.mistakes, s.neighbours).expand(s.heads, -1, -1)
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
        logits = cap * torch.tanh(logits / cap) if cap and "cap before the temperature" not in self.mistakes else logits
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
        sinks = cap * torch.tanh(sinks / cap) if cap and "sink under the cap" in self.mistakes else sinks
        return sinks

    def score_cap(self):
        """The setting's, which takes the place of the architecture's."""
        own, setting = self.shape.score_cap, (self.config.get("score_soft_cap") or {}).get("cap")
        return own if setting and "own cap before a set one" in self.mistakes else setting or own

    def clipped(self, x):
        return x if self.shape.clip is None or "q, k and v not clamped" in self.mistakes else x.clamp(-self.shape.clip, self.shape.clip)

    def group_masked(self, logits, h, layer, positions):
        """Where focus_reference.py hides pairs of tokens; all pairs count here."""
        return logits

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
            second = "input" if s.one_norm or "one norm for both branches" in self.mistakes and s.parallel else second
            self.stream_before_mlp = source
            y = self.feed_forward(self.norm(source, name + second) if pre else source, layer)
            if "post norm over the residual" in self.mistakes and post:
                x = self.norm(x + y, name + "post_ffn")
            else:
                x = x + residual * (self.norm(y, name + "post_ffn") if post else y)
        self.length += rows
        head = w.get("head", w["embedding"])
        if "no final norm" not in self.mistakes:
            x = self.norm(x, "final_norm")
        logits = self.operand(x) @ head.T
        logits = logits + w["head.bias"] if "head.bias" in w and "no head bias" not in self.mistakes else logits
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
    moved = lambda form: flat((score or run)(directory, ids, 0, number_format=form, **options)) - flat(exact)
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
