"""Attention supervision of questions through two documents (two hops).

Such questions are learned late: the loss of the answer does not depend on which of the two hops failed. The auxiliary loss is -ln of
the attention weight of start.NAME_HEAD on the end of the sentence with the friend's name, plus -ln of that of start.VALUE_HEAD on the value.
"""

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from llama.data import Array, Words, asks_two_documents
from llama.model import Llama, rotate
from llama.start import NAME_HEAD, VALUE_HEAD


@dataclasses.dataclass
class Hops:
    """For each question its row, the position that is asked, the end of the friend's sentence, and the value's position."""

    row: list[int] = dataclasses.field(default_factory=list)
    at: list[int] = dataclasses.field(default_factory=list)
    name: list[int] = dataclasses.field(default_factory=list)
    value: list[int] = dataclasses.field(default_factory=list)


def find(words: Words, ids: Array, marks: Array) -> Hops:
    """Of a batch [rows, length]: questions through two documents whose answer is marked. " is" ends each of
    "<attribute> of <name> is", "friend of <name> is" and "<attribute> of the friend of <name> is", a name being two tokens."""
    friend, of, is_ = words.one(" friend"), words.one(" of"), words.one(" is")
    hops = Hops()
    for r, tokens in enumerate(ids.tolist()):
        friends: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
        values: dict[tuple[tuple[int, int], int], int] = {}
        for i in range(7, len(tokens) - 3):
            if tokens[i] != is_ or tokens[i - 3] != of:
                continue
            who = (tokens[i - 2], tokens[i - 1])
            if tokens[i - 4] != friend:
                values.setdefault((who, tokens[i - 4]), i + 1)
            elif not asks_two_documents(words, tokens, i):
                friends.setdefault(who, ((tokens[i + 1], tokens[i + 2]), i + 3))
            elif marks[r, i] and who in friends and (friends[who][0], tokens[i - 7]) in values:
                hops.row.append(r)
                hops.at.append(i)
                hops.name.append(friends[who][1])
                hops.value.append(values[friends[who][0], tokens[i - 7]])
    return hops


def attention_loss(net: Llama, inputs: list[Tensor], hops: Hops) -> Tensor:
    """`inputs`: those of every layer, [rows, length, M]. In f32."""
    if not hops.row:
        return torch.zeros(())
    row, at, length = torch.tensor(hops.row), torch.tensor(hops.at), inputs[0].shape[1]
    cos, sin = net.rope(length)
    total = torch.zeros(())
    with torch.autocast("cpu", enabled=False):
        for (layer, head), target in ((NAME_HEAD, hops.name), (VALUE_HEAD, hops.value)):
            block = net.blocks()[layer]
            a, x = block.self_attn, block.input_layernorm(inputs[layer].float())
            heads = slice(head * net.config.head_dim, (head + 1) * net.config.head_dim)
            q = rotate(F.linear(x, a.q_proj.weight[heads])[row, at], cos[at], sin[at])
            k = rotate(F.linear(x, a.k_proj.weight[heads]), cos, sin)
            scale = a.row_scales(x).expand(len(x), net.config.num_attention_heads, length, 1)[row, head, at]
            scores = (q[:, None] * k[row]).sum(-1) * scale
            future = torch.arange(length)[None] > at[:, None]
            total = total + F.cross_entropy(scores.masked_fill(future, -torch.inf), torch.tensor(target))
    return total
