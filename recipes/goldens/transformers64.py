"""transformers in float64 throughout.

A transformers model loaded in float64 is not a float64 computation: every RMSNorm, the attention softmax and the rotary
tables go through float32. All three are replaced here; everything else, masks and windows included, is theirs. Their
float32 rotary frequencies must be the numbers of rope.py before rounding.
"""

import json
import os
import types

import torch

import reference
import rope

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def exact_softmax(x, dim=-1, dtype=None, **_):
    return x.softmax(dim)


def exact_norm(self, x):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + getattr(self, "variance_epsilon", getattr(self, "eps", None)))
    return y * (1 + self.weight) if type(self).__name__.startswith("Gemma") else y * self.weight


def check_frequencies(rotary, table, config, length, kind):
    theirs = getattr(rotary, f"{kind}_inv_freq", getattr(rotary, "inv_freq", None))
    scale = getattr(rotary, f"{kind}_attention_scaling", getattr(rotary, "attention_scaling", 1.0))
    name = rotary.rope_type[kind] if isinstance(rotary.rope_type, dict) else rotary.rope_type
    if name in ("dynamic", "longrope"):
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        theirs, scale = ROPE_INIT_FUNCTIONS[name](rotary.config, "cpu", seq_len=length)
    assert torch.allclose(theirs.double(), table.frequency, rtol=2e-6, atol=0), (name, theirs, table.frequency)
    assert abs(scale - table.scale) < 1e-6 * table.scale, (name, scale, table.scale)


def load(directory, length):
    """The model with length-dependent RoPE settled for `length` positions."""
    from transformers import AutoModelForCausalLM, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()

    config = json.loads((directory / "config.json").read_text())
    torch.nn.functional.softmax = exact_softmax
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager").eval()
    shape = reference.Shape(config)
    tables = {kind: rope.table(config, shape, kind == "sliding_attention", length) for kind in ("full_attention", "sliding_attention")}

    def rotary_forward(self, x, position_ids, layer_type=None):
        table = tables[layer_type or "full_attention"]
        angle = position_ids[..., None].double() * table.frequency
        angle = torch.cat([angle, angle], -1)
        return angle.cos() * table.scale, angle.sin() * table.scale

    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = types.MethodType(exact_norm, module)
        if name.endswith("RotaryEmbedding"):
            kinds = module.rope_type if isinstance(module.rope_type, dict) else ["full_attention"]
            for kind in kinds:
                check_frequencies(module, tables[kind], config, length, kind)
            module.forward = types.MethodType(rotary_forward, module)
        if hasattr(module, "embed_scale"):
            module.embed_scale = torch.tensor(shape.embedding_scale, dtype=torch.float64)
    return model


@torch.no_grad()
def run(directory, ids, new_tokens):
    """Log-probabilities [T, V] of every row of the prompt, and the greedy continuation, each step from scratch.

    Lengths are settled as in reference.run.
    """

    def rows_of(model):
        return torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0], -1)

    rows = rows_of(load(directory, len(ids)))
    rows[-1] = rows_of(load(directory, len(ids) + 1))[-1]
    assert rows.dtype == torch.float64
    model = load(directory, len(ids) + new_tokens)
    ids = list(ids)
    for _ in range(new_tokens):
        ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return rows, ids[len(ids) - new_tokens :] if new_tokens else []
