"""Routing: scores, the bias b and its three modes, the chosen groups, and the visible pairs.

Shapes: B sequences, T tokens, K groups, M model width, R routing width. A logit is S / temperature.
"""

import itertools

import torch
from torch import Tensor, nn

from focus.settings import FocusSettings

PAGE_TOKENS = 128


def sinkhorn_bias(logits: Tensor, rounds: int, mask: Tensor | None = None) -> Tensor:
    """b [B, K] of logits [B, T, K]: log of all column scalings after `rounds` rounds, columns (sums over tokens) first.

    In logs: exp(S / 0.1) overflows float32 at S = 8.9. `mask` [B, T] is true for tokens that count; padding does not.
    """
    q = logits
    if mask is not None:
        q = q.masked_fill(~mask[..., None], -torch.inf)
    bias = torch.zeros_like(logits[:, 0])
    for _ in range(rounds):
        column = q.logsumexp(1)
        bias = bias - column
        q = q - column[:, None]
        row = q.logsumexp(2, keepdim=True)
        q = q - (row if mask is None else row.masked_fill(~mask[..., None], 0.0))
    return bias


def paged_bias(logits: Tensor, rounds: int) -> Tensor:
    """b [B, T, K] of each token, causal: Sinkhorn over all complete pages before its own; 0 in the first page."""
    out = torch.zeros_like(logits)
    for start in range(PAGE_TOKENS, logits.shape[1], PAGE_TOKENS):
        out[:, start : start + PAGE_TOKENS] = sinkhorn_bias(logits[:, :start], rounds)[:, None]
    return out


def top_groups(ranked: Tensor, k: int) -> Tensor:
    """Membership [.., K] in the k largest; among equals the lower group, as a stable sort leaves them."""
    index = ranked.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros(ranked.shape, dtype=torch.bool, device=ranked.device).scatter(-1, index, True)


def random_groups(settings: FocusSettings, layer: int, length: int) -> Tensor:
    """Membership [T, K]: each position one of the sets of k groups, all sets equally often, in random order.

    The order depends on the seed and the layer and not on the length, so that a prefix keeps its groups.
    """
    sets = list(itertools.combinations(range(settings.group_count), settings.top_k))
    table = torch.zeros(len(sets), settings.group_count, dtype=torch.bool)
    for row, members in enumerate(sets):
        table[row, list(members)] = True
    generator = torch.Generator().manual_seed(settings.random_groups_seed * 1000 + layer)
    blocks = -(-length // len(sets))
    order = torch.cat([torch.randperm(len(sets), generator=generator) for _ in range(blocks)])[:length]
    return table[order]


def local_pairs(length: int, window: int, device: torch.device | None = None) -> Tensor:
    """[T, T], query by key: i - j <= window; the causal mask is applied separately."""
    place = torch.arange(length, device=device)
    return place[:, None] - place[None, :] <= window


def visible_pairs(member: Tensor, window: int) -> Tensor:
    """The hard mask without its causal part, [B, T, T], of membership [B, T, K]."""
    m = member.float()
    return (m @ m.transpose(1, 2) > 0) | local_pairs(member.shape[1], window, member.device)


class Router(nn.Module):
    """Groups of one layer. As `focus` of an attention module its tensors have the names of the checkpoint format."""

    group_bias: Tensor

    def __init__(self, settings: FocusSettings, width: int, layer: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.settings, self.layer = settings, layer
        self.observed: list[Tensor] | None = None  # when a list, every choice of groups is appended to it
        self.projection = nn.Linear(width, settings.routing_dim, bias=False)
        self.centroids = nn.Parameter(torch.empty(settings.group_count, settings.routing_dim))
        self.register_buffer("group_bias", torch.zeros(settings.group_count))
        # Rows of unit variance in and out: S has a standard deviation of 0.1, one temperature, at the start.
        with torch.no_grad():
            self.projection.weight.normal_(0, width**-0.5, generator=generator)
            self.centroids.normal_(0, 0.1 * settings.routing_dim**-0.5, generator=generator)
        if settings.gate == "constant_gate":
            # sigmoid(gate) starts where a soft gate over uniform groups would.
            self.gate = nn.Parameter(torch.tensor(settings.gate_strength / settings.group_count))

    def logits(self, h: Tensor) -> Tensor:
        """S / temperature [B, T, K] in float32 (float64 for rows in float64)."""
        kind = torch.float64 if h.dtype == torch.float64 else torch.float32
        with torch.autocast(h.device.type, enabled=False):
            routed = h.to(kind) @ self.projection.weight.to(kind).T
            return routed @ self.centroids.to(kind).T / self.settings.assignment_temperature

    def training_bias(self, logits: Tensor) -> Tensor:
        """b [B, 1, K] of the soft assignment: Sinkhorn over each sequence, or 0 for the softmax alone."""
        s = self.settings
        if s.assignment == "softmax":
            return torch.zeros_like(logits[:, :1])
        with torch.set_grad_enabled(torch.is_grad_enabled() and s.sinkhorn_gradient):
            return sinkhorn_bias(logits if s.sinkhorn_gradient else logits.detach(), s.sinkhorn_rounds)[:, None]

    def read_bias(self, logits: Tensor, prompt_tokens: int | None = None) -> Tensor:
        """b of the hard path in the setting's reading, [B, T or 1, K]. `prompt_tokens`: the whole length by default."""
        s = self.settings
        if s.assignment == "softmax":
            return torch.zeros_like(logits[:, :1])
        if s.bias == "calibrated":
            return self.group_bias.to(logits.dtype).expand(logits.shape[0], 1, -1)
        if s.bias == "paged":
            return paged_bias(logits, s.sinkhorn_rounds)
        return sinkhorn_bias(logits[:, :prompt_tokens], s.sinkhorn_rounds)[:, None]

    def soft_groups(self, h: Tensor) -> Tensor:
        """g [B, T, K], rows summing to 1."""
        s = self.settings
        if s.groups == "random":
            fixed = random_groups(s, self.layer, h.shape[1]).to(h.device)
            return (fixed.to(torch.float32) / s.top_k).expand(h.shape[0], -1, -1)
        logits = self.logits(h)
        return (logits + self.training_bias(logits)).softmax(-1)

    def hard_groups(self, h: Tensor, prompt_tokens: int | None = None) -> Tensor:
        """Membership [B, T, K]; none at all where the window is alone."""
        member = self.choose_groups(h, prompt_tokens)
        if self.observed is not None:
            self.observed.append(member)
        return member

    def choose_groups(self, h: Tensor, prompt_tokens: int | None) -> Tensor:
        s = self.settings
        if s.groups == "none":
            return torch.zeros(*h.shape[:2], s.group_count, dtype=torch.bool, device=h.device)
        if s.groups == "random":
            return random_groups(s, self.layer, h.shape[1]).to(h.device).expand(h.shape[0], -1, -1)
        with torch.no_grad():
            logits = self.logits(h)
            return top_groups(logits + self.read_bias(logits, prompt_tokens), s.top_k)
