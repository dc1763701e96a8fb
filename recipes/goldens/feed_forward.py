"""What follows attention in a layer: an MLP, or a mixture of experts; written from their formulas."""

import math

import torch


class FeedForward:
    """The part of Reference (reference.py) that takes normed rows [T, width] and adds nothing."""

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
        logits = self.kept_groups(logits) if s.groups > 1 and "experts of all groups" not in self.mistakes else logits
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
