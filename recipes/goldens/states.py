"""Layers that keep a state in place of keys: short convolutions, Mamba-2, gated delta rules; written from their formulas."""

import torch


class States:
    """The part of Reference (reference.py) with `tails` and `states`, the last inputs and the state of every layer."""

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
            return x.repeat(1, share, 1) if "key heads dealt round" in self.mistakes else x.repeat_interleave(share, 1)

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
