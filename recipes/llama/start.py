"""Initial weights: plain, or with a structure that accelerates the emergence of matching (recipes/README.md)."""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from llama.config import Attention as Setting
from llama.config import Config
from llama.model import Attention, Llama

Look = int | tuple[list[tuple[int, int]], float]
# Heads of the second and third layer; see find_again.
FIRST_LOOKS: list[Look] = [([(0, 1), (1, 2), (2, 3)], 1.1), ([(0, 2)], 1.8), ([(0, 3)], 1.8), ([(0, 4)], 1.8)]
SECOND_LOOKS: list[Look] = [2, ([(1, 2), (2, 3), (0, 1)], 1.3), ([(3, 4), (0, 1)], 1.5), 3]
Parts = tuple[Tensor, Tensor, Tensor, list[Tensor]]


def started(config: Config, seed: int, structured: bool = True) -> Llama:
    """All settings of attention have the same weights; those of the temperature come on top."""
    torch.manual_seed(seed)
    plain = Llama(dataclasses.replace(config, attention=Setting()))
    initialize(plain, structured)
    if config.attention == Setting():
        return plain
    net = Llama(config)
    net.load_state_dict(plain.state_dict(), strict=False)
    start_tau(net, seed)
    return net


@torch.no_grad()
def initialize(net: Llama, structured: bool) -> None:
    """Normal weights of variance 1/fan-in; where structured, each query also starts close to its key and each output close to
    its value's transpose (mimetic initialization, Trockman and Kolter 2023), the first layer starts looking back, the next two
    start finding again."""
    c = net.config
    nn.init.normal_(net.embed_tokens.weight, std=c.hidden_size**-0.5)
    parts: Parts | None = None
    for i, layer in enumerate(net.blocks()):
        a, m = layer.self_attn, layer.mlp
        for w in (a.q_proj, a.k_proj, a.v_proj, a.o_proj, m.gate_proj, m.up_proj, m.down_proj):
            nn.init.normal_(w.weight, std=w.weight.shape[1] ** -0.5)
        m.down_proj.weight *= 0.2
        for w in (a.o_proj, m.down_proj):
            w.weight /= math.sqrt(2 * c.num_hidden_layers)
        if not structured:
            continue
        group = c.num_attention_heads // c.num_key_value_heads
        k = a.k_proj.weight.view(c.num_key_value_heads, c.head_dim, -1).repeat_interleave(group, 0)
        a.q_proj.weight.copy_(0.8 * k.reshape(-1, c.hidden_size) + 0.6 * a.q_proj.weight)
        if i == 0:
            parts = look_back(net, a)
        elif i in (1, 2) and parts is not None:
            find_again(c, a, parts, FIRST_LOOKS if i == 1 else SECOND_LOOKS)
        else:
            v = a.v_proj.weight.view(c.num_key_value_heads, c.head_dim, -1).repeat_interleave(group, 0)
            a.o_proj.weight.copy_(0.5 * a.o_proj.weight + 0.5 * v.reshape(-1, c.hidden_size).T)


@torch.no_grad()
def start_tau(net: Llama, seed: int) -> None:
    """From its own draws; see config.Tau."""
    generator = torch.Generator().manual_seed(seed)
    for layer in net.blocks():
        tau = layer.self_attn.setting.tau
        if tau is None:
            continue
        w = layer.self_attn.tau_proj
        if tau.bias:
            w.weight.zero_()
            w.bias.fill_(tau.start * math.sqrt(net.config.head_dim))
        else:
            w.weight.normal_(0, 0.02, generator=generator)


def frequencies(c: Config) -> Tensor:
    return c.rope_theta ** (-torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim)


def by_head(c: Config, a: Attention) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Views of the four projections: q [H, D, M], k and v [K, D, M], o [M, H, D]."""
    return (
        a.q_proj.weight.data.view(c.num_attention_heads, c.head_dim, -1),
        a.k_proj.weight.data.view(c.num_key_value_heads, c.head_dim, -1),
        a.v_proj.weight.data.view(c.num_key_value_heads, c.head_dim, -1),
        a.o_proj.weight.data.view(c.hidden_size, c.num_attention_heads, c.head_dim),
    )


def look_back(net: Llama, attention: Attention, strength: float = 8.0) -> Parts:
    """Head h of the first layer looks h + 1 tokens back, by position alone, and passes on the token there.

    The stream is partitioned at the start: one direction that all embeddings share, a few dozen for the words, and one
    part for each head's word. Read through the shared direction, q.k * head_dim^-1/2 starts as strength times the
    sum over bands of cos((distance - offset) * frequency). Returns how to read P(d), the word d places back, as
    rows that are in use in every head: those of the bands that hardly rotate within the training length.
    """
    c = net.config
    slow = (frequencies(c) < 1e-3).repeat(2).nonzero().squeeze(1)
    parts = torch.linalg.qr(torch.randn(c.hidden_size, c.hidden_size))[0]
    shared, rest = parts[:, 0], parts[:, 1:]
    written = [rest[:, h * len(slow) : (h + 1) * len(slow)] for h in range(c.num_attention_heads)]
    own = rest[:, c.num_attention_heads * len(slow) :]
    table = F.normalize(torch.randn(c.vocab_size, own.shape[1]), dim=1)
    net.embed_tokens.weight.copy_(table @ own.T + shared)
    code = torch.linalg.qr(torch.randn(own.shape[1], len(slow)))[0].T @ own.T
    q, k, v, o = by_head(c, attention)
    for w in (q, k, v, o):
        w *= 0.1
    # After the norm an embedding has length sqrt(M), half of its square along the shared direction.
    along = math.sqrt(c.hidden_size / 2)
    v[:, slow] = code
    for head in range(c.num_attention_heads):
        look_at(c, q[head], k[head], shared / along, 1 + head, strength)
        o[:, head, slow] = written[head] / along * math.sqrt(own.shape[1] / len(slow))
    return shared, slow, own, [code * math.sqrt(own.shape[1] / len(slow))] + [w.T for w in written]


def look_at(c: Config, q: Tensor, k: Tensor, shared: Tensor, offset: int, strength: float) -> None:
    """Adds to one head: q.k * head_dim^-1/2 = strength * sum over bands of cos((distance - offset) * frequency)."""
    frequency = frequencies(c)
    amplitude = math.sqrt(strength * math.sqrt(c.head_dim))
    rotates = (frequency > 1e-3).double()
    k += amplitude * torch.cat([rotates, 0 * rotates]).float()[:, None] * shared
    phase = frequency * offset
    q += amplitude * torch.cat([rotates * phase.cos(), rotates * -phase.sin()]).float()[:, None] * shared


def find_again(c: Config, attention: Attention, parts: Parts, heads: list[Look]) -> None:
    """A later layer finds earlier occurrences of the same words, and copies what followed them there.

    Each head is a list of pairs (a, b) with a strength: the word a places back from here is compared with the word
    b places back from there. A head given as a number looks that many tokens back instead, softly.
    """
    shared, slow, own, back = parts
    q, k, v, o = by_head(c, attention)
    for w in (q, k, v, o):
        w *= 0.1
    width = min(c.head_dim, own.shape[1])
    for head, look in enumerate(heads):
        copy = torch.linalg.qr(torch.randn(own.shape[1], width))[0].T @ own.T
        v[head, :width] += 0.5 * copy
        o[:, head, :width] += 0.5 * copy.T
        if isinstance(look, int):
            look_at(c, q[head], k[head], shared / 4.0, look, 3.0)
            continue
        pairs, strength = look
        for here, there in pairs:
            turn = torch.linalg.qr(torch.randn(len(slow), len(slow)))[0]
            q[head, slow] += strength * turn @ back[here]
            k[head, slow] += strength * turn @ back[there]
