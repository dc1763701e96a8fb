"""Initial weights: plain, or with a structure that accelerates the emergence of matching (recipes/README.md)."""

import dataclasses
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from llama.config import Attention as Setting
from llama.config import Config
from llama.model import Attention, Llama

# Heads of the first layer look this many tokens back. 5 is where a value's attribute is, 7 the attribute of a question through two documents.
LOOK_BACK = (1, 2, 3, 4, 5, 7)
SLOW = 1e-3  # radians per token below which a band hardly rotates within the training length
CODE = 16  # dimensions of a word's code in each part of the stream
FIRST_NAME, SECOND_NAME = -1, -2  # parts of the stream with the two words of a name that was found
Pairs = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Find:
    """A head that compares words here with words there, by pairs (words back here, words back there), and copies the word there;
    where `name`, it copies the words two and one back from there to FIRST_NAME and SECOND_NAME instead."""

    pairs: Pairs
    strength: float
    name: bool = False


# An int is a head that looks that many tokens back, softly. Of the second layer, at " is" of a question: the first finds the value or
# the friend's first word, the second the end of the friend's name; of the third, the first finds the value in the friend's document.
SECOND_LAYER: tuple[Find | int, ...] = (
    Find(((0, 1), (1, 2), (2, 3), (4, 5)), 1.3), Find(((0, 3), (1, 4), (2, 5)), 1.5, name=True),
    Find(((0, 2),), 1.8), Find(((0, 3),), 1.8), Find(((0, 4),), 1.8), Find(((0, 1), (1, 2), (2, 3)), 1.1))  # fmt: skip
THIRD_LAYER: tuple[Find | int, ...] = (
    Find(((FIRST_NAME, 3), (SECOND_NAME, 2), (7, 5), (0, 1)), 1.5), 2, Find(((1, 2), (2, 3), (0, 1)), 1.3),
    Find(((3, 4), (0, 1)), 1.5), 3, Find(((1, 2), (2, 3), (0, 1), (4, 5)), 1.1))  # fmt: skip
NAME_HEAD, VALUE_HEAD = (1, 1), (2, 0)  # (layer, head) of a question through two documents: the friend's name; the value


def started(config: Config, seed: int, structured: bool = True, add: Callable[[Llama], None] | None = None) -> Llama:
    """All settings of attention have the same weights, with what `add` changes in them; those of the temperature come on top."""
    torch.manual_seed(seed)
    plain = Llama(dataclasses.replace(config, attention=Setting()))
    initialize(plain, structured)
    if add is not None:
        add(plain)
    if config.attention == Setting():
        return plain
    net = Llama(config)
    net.load_state_dict(plain.state_dict(), strict=False)
    start_tau(net, seed)
    return net


@torch.no_grad()
def initialize(net: Llama, structured: bool) -> None:
    """Normal weights of variance 1/fan-in; where structured, each query also starts close to its key and each output of the layers
    above the third close to its value's transpose (mimetic initialization, Trockman and Kolter 2023), the first layer starts looking
    back, the next two start finding again."""
    c = net.config
    heads = (c.num_attention_heads, c.num_key_value_heads)
    if structured and (set(heads) != {len(LOOK_BACK)} or c.num_hidden_layers < 3 or 2 * CODE > c.head_dim):
        raise ValueError(f"a structured start needs {len(LOOK_BACK)} heads of {2 * CODE} dimensions or more, as many for keys, and three layers; not {heads}, {c.head_dim}, {c.num_hidden_layers}")
    nn.init.normal_(net.embed_tokens.weight, std=c.hidden_size**-0.5)
    for layer in net.blocks():
        a, m = layer.self_attn, layer.mlp
        for w in (a.q_proj, a.k_proj, a.v_proj, a.o_proj, m.gate_proj, m.up_proj, m.down_proj):
            nn.init.normal_(w.weight, std=w.weight.shape[1] ** -0.5)
        m.down_proj.weight *= 0.2
        for w in (a.o_proj, m.down_proj):
            w.weight /= math.sqrt(2 * c.num_hidden_layers)
        if structured:
            a.q_proj.weight.copy_(0.8 * a.k_proj.weight + 0.6 * a.q_proj.weight)
    if not structured:
        return
    for layer in net.blocks()[3:]:
        a = layer.self_attn
        a.o_proj.weight.copy_(0.5 * a.o_proj.weight + 0.5 * a.v_proj.weight.T)
    stream = look_back(net)
    find_again(net, 1, SECOND_LAYER, stream)
    find_again(net, 2, THIRD_LAYER, stream)


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


@dataclasses.dataclass(frozen=True)
class Stream:
    """Parts of the residual stream at the start: one direction that all embeddings share [M], one for the words [M, own], and CODE
    dimensions for every word that a head brings. `read` gives rows [CODE, M] that read the code of the word d places back (0: here) or of
    a found name, equal for equal words."""

    shared: Tensor
    own: Tensor
    read: dict[int, Tensor]


def look_back(net: Llama, strength: float = 8.0) -> Stream:
    """Head h of the first layer looks LOOK_BACK[h] tokens back, by position alone, and passes on the code of the token there. Read
    through the shared direction, q.k * head_dim^-1/2 starts as strength times the sum over bands of cos((distance - offset) * frequency)."""
    c = net.config
    axes = torch.linalg.qr(torch.randn(c.hidden_size, c.hidden_size))[0]
    names = [*LOOK_BACK, FIRST_NAME, SECOND_NAME]
    shared, own = axes[:, 0], axes[:, 1 + len(names) * CODE :]
    parts = {name: axes[:, 1 + i * CODE : 1 + (i + 1) * CODE] for i, name in enumerate(names)}
    net.embed_tokens.weight.copy_(F.normalize(torch.randn(c.vocab_size, own.shape[1]), dim=1) @ own.T + shared)
    code = torch.linalg.qr(torch.randn(own.shape[1], CODE))[0].T @ own.T
    q, k, v, o = by_head(c, net.blocks()[0].self_attn)
    for w in (q, k, v, o):
        w *= 0.1
    # After the norm an embedding has length sqrt(M), half of its square along the shared direction.
    along, longer = math.sqrt(c.hidden_size / 2), math.sqrt(own.shape[1] / CODE)
    v[:, :CODE] = code
    for head, offset in enumerate(LOOK_BACK):
        look_at(c, q[head], k[head], shared / along, offset, strength)
        o[:, head, :CODE] = parts[offset] / along * longer
    return Stream(shared, own, {0: code * longer} | {name: part.T for name, part in parts.items()})


def look_at(c: Config, q: Tensor, k: Tensor, shared: Tensor, offset: int, strength: float) -> None:
    """Adds to one head: q.k * head_dim^-1/2 = strength * sum over bands of cos((distance - offset) * frequency)."""
    frequency = frequencies(c)
    amplitude = math.sqrt(strength * math.sqrt(c.head_dim))
    rotates = (frequency >= SLOW).double()
    k += amplitude * torch.cat([rotates, 0 * rotates]).float()[:, None] * shared
    phase = frequency * offset
    q += amplitude * torch.cat([rotates * phase.cos(), rotates * -phase.sin()]).float()[:, None] * shared


def find_again(net: Llama, layer: int, heads: tuple[Find | int, ...], stream: Stream) -> None:
    """A later layer finds earlier occurrences of the same words, and copies what is there."""
    c = net.config
    q, k, v, o = by_head(c, net.blocks()[layer].self_attn)
    for w in (q, k, v, o):
        w *= 0.1
    # Words are compared in the bands that hardly rotate within the training length.
    slow = (frequencies(c) < SLOW).repeat(2).nonzero().squeeze(1)
    width = min(c.head_dim, stream.own.shape[1])
    for head, look in enumerate(heads):
        if isinstance(look, Find) and look.name:
            for i, (words_back, part) in enumerate(((2, FIRST_NAME), (1, SECOND_NAME))):
                at = slice(i * CODE, (i + 1) * CODE)
                v[head, at] += 0.5 * stream.read[words_back]
                o[:, head, at] += 0.8 * stream.read[part].T
        else:
            copy = torch.linalg.qr(torch.randn(stream.own.shape[1], width))[0].T @ stream.own.T
            v[head, :width] += 0.5 * copy
            o[:, head, :width] += 0.5 * copy.T
        if isinstance(look, int):
            look_at(c, q[head], k[head], stream.shared / 4.0, look, 3.0)
            continue
        for here, there in look.pairs:
            turn = torch.linalg.qr(torch.randn(len(slow), CODE))[0]
            q[head, slow] += look.strength * turn @ stream.read[here]
            k[head, slow] += look.strength * turn @ stream.read[there]
