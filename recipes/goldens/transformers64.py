"""transformers in float64 throughout.

A transformers model loaded in float64 is not a float64 computation: every RMSNorm, the attention softmax and the rotary
tables go through float32. All three are replaced here; everything else, masks and windows included, is theirs. Their
float32 rotary frequencies must be the numbers of rope.py before rounding.
"""

import contextlib
import json
import os
import pathlib
import tempfile
import types

import torch
from safetensors.torch import load_file

import rope
from golden_files import save_checkpoint
from shapes import Shape
from tensor_names import text_of, text_tensors

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def exact_softmax(x, dim=-1, dtype=None, **_):
    return x.softmax(dim)


def exact_norm(self, x):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + getattr(self, "variance_epsilon", getattr(self, "eps", None)))
    if getattr(self, "weight", None) is None:
        return y
    name = type(self).__name__
    one_plus = name.startswith(("Gemma", "Qwen3Next", "Qwen3_5")) and not name.startswith(("Gemma4", "Gemma3n"))
    return y * (1 + self.weight) if one_plus else y * self.weight


def exact_query_scale(positions, beta, length):
    scale = 1 + beta * torch.log1p(torch.floor(positions.double() / length))
    return scale[:, None, :, None]


def exact_layer_norm(self, x):
    """Cohere's, which goes through float32."""
    x = x - x.mean(-1, keepdim=True)
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def exact_neighbour_rotation(rotate_half):
    """Cohere's and ERNIE's apply_rotary_pos_emb, which go through float32; cos and sin have one column a pair, twice."""

    def apply(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = (x[..., : x.shape[-1] // 2].repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim) for x in (cos, sin))
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    return apply


def exact_router(forward):
    """Mixtral's and GraniteMoe's, which go through float32."""

    def run(*arguments):
        kept, torch.Tensor.float = torch.Tensor.float, lambda x: x
        try:
            return forward(*arguments)
        finally:
            torch.Tensor.float = kept

    return run


def exact_router_of_sigmoids(forward):
    def run(*arguments):
        with ExactCasts():
            return forward(*arguments)

    return run


def exact_complex_rotation(q, k, turns):
    """DeepSeek-V2's, which goes through float32."""
    turned = lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turns.unsqueeze(1)).flatten(3)
    return turned(q), turned(k)


class ExactCasts:
    """Casts to float32 keep float64: those of recurrent layers, their decays and norms."""

    def __enter__(self):
        self.kept = torch.float32, torch.Tensor.float
        torch.float32, torch.Tensor.float = torch.float64, lambda x: x

    def __exit__(self, *_):
        torch.float32, torch.Tensor.float = self.kept


def check_frequencies(rotary, table, config, length, kind):
    theirs = getattr(rotary, f"{kind}_inv_freq", getattr(rotary, "inv_freq", None))
    scale = getattr(rotary, f"{kind}_attention_scaling", getattr(rotary, "attention_scaling", 1.0))
    name = rotary.rope_type[kind] if isinstance(rotary.rope_type, dict) else rotary.rope_type
    if name in ("dynamic", "longrope") and not rotary.config.rope_parameters.get("alpha"):
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        theirs, scale = ROPE_INIT_FUNCTIONS[name](rotary.config, "cpu", seq_len=length)
    assert torch.allclose(theirs.double(), table.frequency, rtol=2e-6, atol=0), (name, theirs, table.frequency)
    assert abs(scale - table.scale) < 1e-6 * table.scale, (name, scale, table.scale)


def without_mxfp4(directory):
    """A copy whose experts are unpacked by transformers' own function."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    copy = pathlib.Path(tempfile.mkdtemp())
    config = json.loads((directory / "config.json").read_text())
    del config["quantization_config"]
    tensors = load_file(directory / "model.safetensors")
    for name in [n for n in tensors if n.endswith("_blocks")]:
        blocks, scales = tensors.pop(name), tensors.pop(name.replace("_blocks", "_scales"))
        tensors[name.removesuffix("_blocks")] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float64)
    save_checkpoint(copy, config, tensors)
    return copy


def text_alone(directory, whole):
    """A copy of the text part under the names of a text alone."""
    copy = pathlib.Path(tempfile.mkdtemp())
    save_checkpoint(copy, text_of(whole), text_tensors(whole, load_file(directory / "model.safetensors")))
    return copy


def load(directory, length):
    """The model with length-dependent RoPE settled for `length` positions."""
    import transformers
    from transformers import AutoModelForCausalLM, logging
    from transformers.models.cohere2 import modeling_cohere2
    from transformers.models.deepseek_v2 import modeling_deepseek_v2
    from transformers.models.ernie4_5 import modeling_ernie4_5
    from transformers.models.ministral3 import modeling_ministral3

    logging.set_verbosity_error()
    logging.disable_progress_bar()

    whole = json.loads((directory / "config.json").read_text())
    config = text_of(whole)
    torch.nn.functional.softmax = exact_softmax
    kind = AutoModelForCausalLM if config is whole else getattr(transformers, whole["architectures"][0])
    if "quantization_config" in whole:
        directory = without_mxfp4(directory)
    if whole["model_type"] == "gemma3n":  # whose images need a library of their own
        directory, kind = text_alone(directory, whole), AutoModelForCausalLM
    model = kind.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
    modeling_ministral3.get_llama_4_attn_scale = exact_query_scale
    for modeling in (modeling_cohere2, modeling_ernie4_5):
        modeling.apply_rotary_pos_emb = exact_neighbour_rotation(modeling.rotate_half)
    modeling_deepseek_v2.apply_rotary_emb = exact_complex_rotation
    shape = Shape(config)
    tables = {kind: rope.table(config, shape, kind == "sliding_attention", length) for kind in ("full_attention", "sliding_attention")}

    def rotary_forward(self, x, position_ids, layer_type=None):
        table = tables[layer_type or "full_attention"]
        if position_ids.dim() == 3:  # of sections of a head, which are equal for text
            assert (position_ids == position_ids[:1]).all()
            position_ids = position_ids[0]
        angle = position_ids[..., None].double() * table.frequency
        if type(self).__name__.startswith("DeepseekV2"):
            return torch.polar(torch.full_like(angle, table.scale), angle)
        if not type(self).__name__.startswith("GptOss"):  # whose columns are those of one half
            angle = torch.cat([angle, angle], -1)
        return angle.cos() * table.scale, angle.sin() * table.scale

    for path, module in model.named_modules():
        if "vis" in path:
            continue
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = types.MethodType(exact_norm, module)
        if name.endswith("TopKRouter"):
            module.forward = exact_router(module.forward)
        if name.endswith("TopkRouter"):
            module.forward = exact_router_of_sigmoids(module.forward)
        if name == "Cohere2LayerNorm":
            module.forward = types.MethodType(exact_layer_norm, module)
        if name.endswith("RotaryEmbedding"):
            kinds = module.rope_type if isinstance(module.rope_type, dict) else ["full_attention"]
            for kind in kinds:
                check_frequencies(module, tables[kind], config, length, kind)
            module.forward = types.MethodType(rotary_forward, module)
        if hasattr(module, "embed_scale"):
            exact = shape.embedding_scale if "per_layer" not in path else shape.of_layers.inputs**0.5
            module.embed_scale = torch.tensor(exact, dtype=torch.float64)
    return model


@torch.no_grad()
def continued(model, ids, new_tokens):
    """Greedily, from the states of earlier steps: their other form of the recurrence, which is theirs for one row."""
    past, fed, out = None, ids, []
    with ExactCasts():
        for _ in range(new_tokens):
            positions = torch.arange(len(ids) + len(out) - len(fed), len(ids) + len(out))[None] if past else None  # bamba's begin at 0 without
            step = model(torch.tensor([fed]), past_key_values=past, position_ids=positions, use_cache=True)
            past = step.past_key_values
            out.append(int(step.logits[0, -1].argmax()))
            fed = out[-1:]
    return out


@torch.no_grad()
def run(directory, ids, new_tokens):
    """Log-probabilities [T, V] of every row of the prompt, and the greedy continuation, each step from scratch.

    Lengths are settled as in reference.run.
    """

    def is_recurrent(model):
        kinds = ("linear_attn", "conv", "mamba", "mixer")
        return any(name.rsplit(".", 1)[-1] in kinds for name, _ in model.named_modules())

    def casts(model):
        streams = model.config.model_type == "gemma3n_text"
        return ExactCasts() if streams or is_recurrent(model) else contextlib.nullcontext()

    def rows_of(model):
        with casts(model):
            return torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0], -1)

    rows = rows_of(load(directory, len(ids)))
    rows[-1] = rows_of(load(directory, len(ids) + 1))[-1]
    assert rows.dtype == torch.float64
    model = load(directory, len(ids) + new_tokens)
    ids = list(ids)
    # That form has no least step, which nemotron_h's other one has.
    if is_recurrent(model) and model.config.model_type != "nemotron_h":
        return rows, continued(model, ids, new_tokens)
    for _ in range(new_tokens):
        with casts(model):
            ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return rows, ids[len(ids) - new_tokens :] if new_tokens else []
