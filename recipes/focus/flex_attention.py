"""Times PyTorch's FlexAttention with the mask of learned groups on one thread, beside its dense causal attention.

    OMP_NUM_THREADS=1 python -m focus.flex_attention [--tokens N ...]

One KV head with three query heads, head dim 64, f32, K = 8, k = 1, w = 128, groups drawn evenly: the shape of
build/release/bin/group_attention_bench, whose GF/s count the same pairs. Checked against a full mask on 512 tokens first.
"""

import time

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from flags import parse

HEADS, DIM, GROUPS, WINDOW = 3, 64, 8, 128


def inputs(tokens, seed=1):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(1, HEADS, tokens, DIM, generator=generator)
    k, v = (torch.randn(1, 1, tokens, DIM, generator=generator) for _ in range(2))
    return q, k, v, torch.randint(GROUPS, (tokens,), generator=generator)


def masks(groups):
    def focus(b, h, i, j):
        return (i >= j) & ((i - j <= WINDOW) | (groups[i] == groups[j]))

    def causal(b, h, i, j):
        return i >= j

    return {"focus": focus, "causal": causal}


def check(attend):
    q, k, v, groups = inputs(512)
    i, j = torch.arange(512)[:, None], torch.arange(512)[None]
    visible = masks(groups)["focus"](0, 0, i, j)
    scores = (q.double() @ k.double().transpose(2, 3) / DIM**0.5).masked_fill(~visible, -torch.inf)
    expected = scores.softmax(-1) @ v.double()
    block_mask = create_block_mask(masks(groups)["focus"], 1, 1, 512, 512, device="cpu")
    error = (attend(q, k, v, block_mask=block_mask, enable_gqa=True) - expected).abs().max().item()
    assert error < 1e-5, error


def main():
    args = parse(__doc__, tokens=dict(type=int, nargs="+", default=[8192, 16384]))
    torch.set_num_threads(1)
    # With dynamic shapes torch 2.15 generates code for CPUs that does not compile.
    attend = torch.compile(flex_attention, dynamic=False)
    check(attend)
    for tokens in args.tokens:
        q, k, v, groups = inputs(tokens)
        seconds = {}
        for name, mask in masks(groups).items():
            block_mask = create_block_mask(mask, 1, 1, tokens, tokens, device="cpu")
            attend(q, k, v, block_mask=block_mask, enable_gqa=True)  # compiles
            begin = time.thread_time()
            attend(q, k, v, block_mask=block_mask, enable_gqa=True)
            seconds[name] = time.thread_time() - begin
        begin = time.thread_time()
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        seconds["dense (sdpa)"] = time.thread_time() - begin
        i, j = torch.arange(tokens)[:, None], torch.arange(tokens)[None]
        visible = sum(masks(groups)["focus"](0, 0, rows, j).sum().item() for rows in i.split(1024))
        print(f"{tokens} tokens: " + ", ".join(f"{name} {s:.2f} s" for name, s in seconds.items())
              + f"; focus {4e-9 * DIM * HEADS * visible / seconds['focus']:.1f} GF/s of visible pairs, "
              f"{seconds['dense (sdpa)'] / seconds['focus']:.2f} times dense", flush=True)


if __name__ == "__main__":
    main()
