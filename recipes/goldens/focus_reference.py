"""Focus in float64, from the formulas of docs/focus.md and nothing else; reference.py does the rest of the model.

Of a layer with groups: scores S = C (W_g h) of what the query projection reads, S / temperature + b ranked, the largest
k taken (a tie goes to the lower group), and a pair hidden unless its distance is at most the window or a group is
shared. b is read in one of three ways: stored with the checkpoint; Sinkhorn over the complete pages before the token's
page; Sinkhorn over the first rows fed, which are the prompt.

`mistakes` switches on deliberate errors as in reference.py; make_focus.py says how far each moves the values.
"""

import math
import pathlib

import torch

import reference
import rope

PAGE_TOKENS = 128
ROUNDS = 10
PREFIXES = {"gpt2": "transformer.h.{}.attn.focus.", "gpt_neox": "gpt_neox.layers.{}.attention.focus."}


def sinkhorn_bias(logits, rounds, rows_first=False):
    """Of [T, K]: log of what the columns were multiplied with, [K], by the scalings of rows and columns alone."""
    tokens, groups = logits.new_zeros(logits.shape[0]), logits.new_zeros(logits.shape[1])
    for _ in range(rounds):
        if rows_first:
            tokens = -(logits + groups).logsumexp(1)
        groups = -(logits + tokens[:, None]).logsumexp(0)
        if not rows_first:
            tokens = -(logits + groups).logsumexp(1)
    return groups


class FocusReference(reference.Reference):
    """`top_k` and `window` are run-time overrides of the checkpoint's."""

    def __init__(self, directory, top_k=None, window=None, **options):
        super().__init__(directory, **options)
        f, wrong = self.config["focus_attention"], self.mistakes
        self.group_count, self.bias = f["group_count"], f["bias"]
        self.top_k = f["top_k"] if top_k is None or "top_k override ignored" in wrong else top_k
        self.near = f["window"] if window is None or "window override ignored" in wrong else window
        if "one group more" in wrong:
            self.top_k = min(self.top_k + 1, self.group_count)
        if "one group less" in wrong:
            self.top_k = max(self.top_k - 1, 1)
        self.near += ("focus window one wider" in wrong) - ("focus window one narrower" in wrong)
        self.temperature = f.get("assignment_temperature", 0.1)
        every = list(range(self.shape.layers))
        full = [i for i in every if not self.shape.sliding[i]]
        self.focus_layers = f.get("layers", every if "window layers get groups too" in wrong else full)
        if "layers ignored" in wrong:
            self.focus_layers = full
        if "groups in place of the layer's window" in wrong:
            self.shape.windows = [None if i in self.focus_layers else w for i, w in enumerate(self.shape.windows)]
        self.read_tensors(pathlib.Path(directory))
        nothing = {i: torch.zeros(0, self.group_count, dtype=self.dtype) for i in self.focus_layers}
        self.scores = dict(nothing)  # S / temperature of every row so far
        self.member = {i: w.bool() for i, w in nothing.items()}  # [T, K]
        self.prompt_bias, self.margin, self.ties = {}, math.inf, 0

    def read_tensors(self, directory):
        stored = reference.read_weights(directory)
        prefix = PREFIXES.get(self.shape.kind, "model.layers.{}.self_attn.focus.")
        if self.shape.kind == "gpt2" and prefix.format(self.focus_layers[0]) + "centroids" not in stored:
            prefix = prefix.removeprefix("transformer.")
        self.focus_tensors = {}
        stored_layers = [i for i in range(self.shape.layers) if prefix.format(i) + "centroids" in stored]
        for layer in self.focus_layers:
            source = layer if layer in stored_layers else stored_layers[0]
            if "groups of the next layer" in self.mistakes:
                source = stored_layers[(stored_layers.index(source) + 1) % len(stored_layers)]
            start = prefix.format(source)
            names = ["projection.weight", "centroids"] + ["group_bias"] * (self.bias == "calibrated")
            w, c, *b = [stored[start + name].to(self.dtype) for name in names]
            w = w.T if "focus projection transposed" in self.mistakes and w.shape[0] == w.shape[1] else w
            self.focus_tensors[layer] = (w, c, b[0] if b else None)

    def sinkhorn(self, scores):
        rounds = 3 if "three Sinkhorn rounds" in self.mistakes else 9 if "nine Sinkhorn rounds" in self.mistakes else ROUNDS
        return sinkhorn_bias(scores, rounds, "Sinkhorn by rows first" in self.mistakes)

    def bias_of_rows(self, layer, positions):
        """b of each new row, [T, K]."""
        seen, wrong, rows = self.scores[layer], self.mistakes, len(positions)
        none = seen.new_zeros(self.group_count)
        if "no group bias" in wrong:
            return none.expand(rows, -1)
        if self.bias == "calibrated":
            b = self.focus_tensors[layer][2]
            return (b / self.temperature if "group bias divided by the temperature" in wrong else b).expand(rows, -1)
        if self.bias == "prompt":
            if layer not in self.prompt_bias or "generated tokens enter the prompt's sums" in wrong:
                over = seen[:-1] if "prompt without its last token" in wrong and len(seen) > 1 else seen
                self.prompt_bias[layer] = self.sinkhorn(over)
            return self.prompt_bias[layer].expand(rows, -1)
        size = 64 if "pages of 64 tokens" in wrong else PAGE_TOKENS
        out, known = [], {}
        for position in positions.tolist():
            end = position // size * size
            if "own page in the page's sums" in wrong:
                end = min(end + size, len(seen))
            if "all tokens before in a token's sums" in wrong:
                end = position
            if "last page alone in a page's sums" in wrong and end:
                known.setdefault(end, self.sinkhorn(seen[end - size : end]))
            if end not in known:
                known[end] = self.sinkhorn(seen[:end]) if end else none
            out.append(known[end])
        return torch.stack(out)

    def top(self, ranked):
        """Members of the k largest, [T, K]; among equals the lower group. Keeps the smallest gap that decides."""
        count = self.group_count
        turned = ranked.flip(-1) if "ties to the higher group" in self.mistakes else ranked
        order = turned.sort(dim=-1, descending=True, stable=True)
        index = order.indices[:, : self.top_k]
        if self.top_k < count:
            gap = order.values[:, self.top_k - 1] - order.values[:, self.top_k]
            self.ties += int((gap == 0).sum())
            self.margin = min([self.margin] + gap[gap > 0].tolist())
        member = torch.zeros(ranked.shape, dtype=torch.bool).scatter_(-1, index, True)
        return member.flip(-1) if "ties to the higher group" in self.mistakes else member

    def group_masked(self, logits, h, layer, positions):
        if layer not in self.focus_tensors:
            return logits
        wrong, (w, c, _) = self.mistakes, self.focus_tensors[layer]
        if "groups from the row before the norm" in wrong:
            h = self.stream
        if "groups from rows rounded to bf16" in wrong:
            h = h.to(torch.bfloat16).to(self.dtype)
        scores = (h @ w.T) @ c.T
        if "focal temperature on the groups" in wrong:
            scores = scores / (self.divisors(h, layer)[:, None] * self.shape.base)
        if "no assignment temperature" not in wrong:
            scores = scores / self.temperature
        self.scores[layer] = torch.cat([self.scores[layer], scores])
        ranked = scores + self.bias_of_rows(layer, positions)
        mine = self.top(ranked)
        self.member[layer] = torch.cat([self.member[layer], mine])
        theirs = self.member[layer]
        if "keys grouped again by the query's bias" in wrong and self.bias == "paged":
            again = torch.stack([self.top(self.scores[layer] + b) for b in self.bias_of_rows(layer, positions)])
            shared = (mine[:, None] & again).sum(-1)
        else:
            shared = mine.to(self.dtype) @ theirs.to(self.dtype).T
        if "same set in place of a shared group" in wrong:
            shared = (shared == self.top_k).to(self.dtype)
        if "lowest group alone" in wrong:
            shared = (mine.int().argmax(-1)[:, None] == theirs.int().argmax(-1)[None, :]).to(self.dtype)
        key = torch.arange(len(theirs))[None, :]
        near = positions[:, None] - key <= self.near
        if "window part left out" in wrong:
            near = torch.zeros_like(near)
        if "far scores halved" in wrong:
            logits = torch.where(near, logits, logits / 2)
        # What the passes by groups give when a pair is counted by more than one of them.
        if "pairs counted once per shared group" in wrong:
            logits = logits + shared.clamp(min=1).log()
        if "near pairs of one group counted twice" in wrong:
            logits = logits + torch.where(near & (shared > 0), math.log(2), 0.0)
        return logits.masked_fill(~(near | (shared > 0)), -math.inf)

    def statistics(self, rows):
        """Per layer, over the first `rows` rows: largest share of tokens with one group, share of pairs j <= i seen."""
        shares, pairs = [], []
        for layer in self.focus_layers:
            member = self.member[layer][:rows]
            shares.append(member.double().mean(0).max().item())
            place = torch.arange(rows)
            seen = (member.double() @ member.double().T > 0) | (place[:, None] - place <= self.near)
            pairs.append((seen & (place[:, None] >= place)).sum().item() / (rows * (rows + 1) / 2))
        return {"largest_group_share": shares, "pairs_visible": pairs}

    def bits(self, layer):
        """Groups of every row as one number: bit g for group g."""
        return (self.member[layer].long() << torch.arange(self.group_count)).sum(-1).tolist()

    def biases(self, layer, rows):
        """The b in use: one row of [K], or one per page."""
        positions = torch.arange(0, rows, PAGE_TOKENS) if self.bias == "paged" else torch.zeros(1, dtype=torch.long)
        return self.bias_of_rows(layer, positions).tolist()


@torch.no_grad()
def run(directory, ids, new_tokens, margin_min=0.0, gap_min=0.0, **options):
    """Scores `ids` and continues them greedily, as reference.run, with what Focus decided. None as soon as a choice of
    groups is closer than `margin_min` or a greedy step than `gap_min`."""
    model = FocusReference(directory, length=len(ids), **options)
    assert not rope.depends_on_length(model.config)
    rows = model.feed(ids)
    last = rows[-1]
    if model.margin < margin_min:
        return None
    out = {"token_log_probs": [None] + [rows[i, t].item() for i, t in enumerate(ids[1:])], "last_log_probs": last.tolist()}
    out["focus_layers"] = model.focus_layers
    out["group_biases"] = [model.biases(layer, len(ids)) for layer in model.focus_layers]
    out |= model.statistics(len(ids))
    continuation, gaps = [], []
    for _ in range(new_tokens):
        top = last.topk(2).values
        continuation.append(int(last.argmax()))
        gaps.append((top[0] - top[1]).item())
        if gaps[-1] < gap_min or model.margin < margin_min:
            return None
        last = model.feed([continuation[-1]])[-1]
    out["groups"] = [model.bits(layer) for layer in model.focus_layers]
    out |= {"group_margin": model.margin, "group_ties": model.ties}
    return out | {"continuation": continuation, "continuation_gaps": gaps}
