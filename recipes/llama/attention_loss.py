"""Attention supervision: an auxiliary loss on the attention weights of single heads."""

import torch
import torch.nn.functional as F
from torch import Tensor

from llama.model import Llama, rotate

Head = tuple[int, int]  # layer, head
# For a head: rows of the batch, their queries' positions, and the positions that should have the weight.
Targets = dict[Head, list[tuple[int, int, int]]]


def attention_loss(net: Llama, inputs: list[Tensor], targets: Targets) -> Tensor:
    """Over heads, the sum of the mean of -ln of the target's attention weight. `inputs`: those of every layer, [rows, length, M]. In f32."""
    total, length = torch.zeros(()), inputs[0].shape[1]
    cos, sin = net.rope(length)
    with torch.autocast(inputs[0].device.type, enabled=False):
        for (layer, head), items in targets.items():
            if not items:
                continue
            row, at, target = torch.tensor(items).unbind(1)
            block = net.blocks()[layer]
            a, x = block.self_attn, block.input_layernorm(inputs[layer].float())
            heads = slice(head * net.config.head_dim, (head + 1) * net.config.head_dim)
            q = rotate(F.linear(x, a.q_proj.weight[heads])[row, at], cos[at], sin[at])
            k = rotate(F.linear(x, a.k_proj.weight[heads]), cos, sin)
            scale = a.row_scales(x).expand(len(x), net.config.num_attention_heads, length, 1)[row, head, at]
            # By row of the batch, as a product: a key for every item would take gigabytes.
            order = torch.cat([(row == r).nonzero().flatten() for r in range(len(x))])
            products = torch.cat([q[row == r] @ k[r].T for r in range(len(x))])
            scores = torch.empty_like(products).index_copy(0, order, products) * scale
            future = torch.arange(length)[None] > at[:, None]
            total = total + F.cross_entropy(scores.masked_fill(future, -torch.inf), target)
    return total
