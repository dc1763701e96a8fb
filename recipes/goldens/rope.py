"""Where a key is: rotary frequencies of every scaling, in float64, from both generations of config keys."""

import collections
import math

import torch

# frequency: [R/2], radians per position; scale: what cos and sin are multiplied with.
Table = collections.namedtuple("Table", "frequency scale")


def parameters(c, sliding):
    """One dictionary in the newer style, for full or for window layers."""
    kind = c["model_type"]
    newer = c.get("rope_parameters")
    if kind == "gemma4_text":
        newer = newer or {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    if kind in ("gemma3_text", "gemma3n_text", "gemma4_text", "olmo3"):
        if newer:
            return dict(newer["sliding_attention" if sliding else "full_attention"])
        if sliding and kind != "olmo3":
            return {"rope_theta": c.get("rope_local_base_freq", 10000.0)}
        plain = {"rope_theta": c.get("rope_theta", 500000.0 if kind == "olmo3" else 1000000.0)}
        return plain if sliding else plain | (c.get("rope_scaling") or {})
    out = dict(newer or c.get("rope_scaling") or {})
    default = {"smollm3": 2000000.0, "ernie4_5": 500000.0, "mixtral": 1000000.0, "lfm2": 1000000.0, "gpt_oss": 150000.0, "apertus": 12000000.0}.get(kind, 10000.0)
    part = {"gpt_neox": 0.25, "stablelm": 0.25, "nemotron": 0.5, "glm4": 0.5, "phi": 0.5, "qwen3_next": 0.25, "qwen3_5_text": 0.25, "bamba": 0.5}.get(kind, 1.0)
    out.setdefault("rope_theta", c.get("rope_theta", c.get("rotary_emb_base", default)))
    out.setdefault("partial_rotary_factor", c.get("partial_rotary_factor", c.get("rotary_pct", part)))
    if "original_max_position_embeddings" in c:
        out["original_max_position_embeddings"] = c["original_max_position_embeddings"]
    return out


def score_factor(c):
    """What DeepSeek's yarn multiplies scores with: the square of an attention factor."""
    p = parameters(c, False)
    by, factor = p.get("mscale_all_dim"), p.get("factor")
    if p.get("rope_type", p.get("type", "default")) == "default" or not by or factor <= 1:
        return 1.0
    return (0.1 * by * math.log(factor) + 1.0) ** 2


def depends_on_length(c):
    p = {} if c["model_type"] == "gpt2" else parameters(c, False)
    return p.get("rope_type", p.get("type")) in ("dynamic", "longrope", "su") and not p.get("alpha")


def table(c, shape, sliding, length, mistakes=()):
    if shape.kind == "gpt2":
        return None
    if "one rope base for all layers" in mistakes:
        sliding = False
    p = parameters(c, sliding)
    if "rope scaling on the window layers too" in mistakes and sliding:
        p |= {k: v for k, v in parameters(c, False).items() if k != "rope_theta"}
    kind = p.get("rope_type", p.get("type", "default"))
    kind = "default" if kind == "mrope" else kind  # of text, whose three positions are equal
    theta = p["rope_theta"]
    if "rope theta" in mistakes:
        theta *= 1.1
    if "rope theta of the other generation of keys" in mistakes:
        theta = 10000.0
    part, head_width = p.get("partial_rotary_factor", 1.0), shape.kind_width[sliding]
    if kind == "proportional":
        return proportional(p, part, theta, head_width, mistakes)
    width = head_width if "whole head rotated" in mistakes else int(head_width * part)
    denominator = head_width if "frequencies of the whole head" in mistakes else width
    exponent = torch.arange(0, width, 2, dtype=torch.float64) / denominator
    plain = theta**-exponent
    if kind == "default" or "no rope scaling" in mistakes:
        return Table(plain, 1.0)
    if kind == "dynamic" and p.get("alpha"):  # hunyuan: at every length
        return Table((theta * p["alpha"] ** (width / (width - 2))) ** -exponent, 1.0)
    factor = p.get("factor")
    if kind == "linear":
        return Table(plain / factor, 1.0)
    maximum, original = c["max_position_embeddings"], p.get("original_max_position_embeddings")
    if kind == "dynamic":
        length = maximum * factor if "dynamic rope settled for the longest text" in mistakes else max(length, maximum)
        theta *= (factor * length / maximum - (factor - 1)) ** (width / (width - 2))
        return Table(theta**-exponent, 1.0)
    if kind == "llama3":
        return Table(llama3(p, plain, original, factor), 1.0)
    if kind == "yarn":
        return yarn(p, plain, theta, width, original, factor, mistakes)
    assert kind in ("longrope", "su"), kind
    factor = factor or maximum / original
    long = length > original
    if "long and short factors swapped" in mistakes:
        long = not long
    divisor = torch.tensor(p["long_factor" if long else "short_factor"], dtype=torch.float64)
    scale = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    if p.get("attention_factor") is not None and "attention_factor ignored" not in mistakes:
        scale = p["attention_factor"]
    return Table(plain / divisor, 1.0 if "no rope scale" in mistakes else scale)


def proportional(p, part, theta, head_width, mistakes):
    """The first pairs of a head turn, with the frequencies that they have in one that turns as a whole."""
    turning = head_width // 2 if "whole head rotated" in mistakes else int(part * head_width // 2)
    span = 2 * turning if "proportional rotation with the span of what turns" in mistakes else head_width
    frequency = theta ** (-torch.arange(0, 2 * turning, 2, dtype=torch.float64) / span)
    if "no rope scaling" not in mistakes:
        frequency = frequency / p.get("factor", 1.0)
    if "proportional rotation pairs within what turns" in mistakes:
        return Table(frequency, 1.0)
    return Table(torch.cat([frequency, torch.zeros(head_width // 2 - turning, dtype=torch.float64)]), 1.0)


def llama3(p, plain, original, factor):
    low, high = original / p["low_freq_factor"], original / p["high_freq_factor"]
    wave = 2 * math.pi / plain
    smooth = (original / wave - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"])
    mixed = (1 - smooth) * plain / factor + smooth * plain
    return torch.where(wave > low, plain / factor, torch.where(wave < high, plain, mixed))


def yarn(p, plain, theta, width, original, factor, mistakes):
    mscale = lambda by: 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0
    scale = mscale(1.0)
    if p.get("mscale") and p.get("mscale_all_dim") and "mscale ignored" not in mistakes:
        scale = mscale(p["mscale"]) / mscale(p["mscale_all_dim"])
    if p.get("attention_factor") is not None and "attention_factor ignored" not in mistakes:
        scale = p["attention_factor"]
    if "no rope scale" in mistakes:
        scale = 1.0
    dimension = lambda rotations: width * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))
    fast, slow = p.get("beta_fast") or 32, p.get("beta_slow") or 1
    if "betas ignored" in mistakes:
        fast, slow = 32, 1
    low, high = dimension(fast), dimension(slow)
    if p.get("truncate", True) != ("truncate turned round" in mistakes):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    ramp = ((torch.arange(width // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    return Table(plain / factor * ramp + plain * (1 - ramp), scale)


def rotate(x, table, positions, mistakes=(), neighbours=False):
    """x is [H, T, D]; the first R are rotated, halves paired: (i, i + R/2), or neighbours: (2i, 2i + 1)."""
    if "positions off by one" in mistakes:
        positions = (positions - 1).clamp(min=0)
    angle = positions.to(x.dtype)[:, None] * table.frequency.to(x.dtype)
    cos, sin = angle.cos() * table.scale, angle.sin() * table.scale
    width, half = x.shape[-1], table.frequency.shape[0]
    if "rotated part at the end of the head" in mistakes:
        kept, x = x[..., : width - 2 * half], x[..., width - 2 * half :]
    else:
        x, kept = x[..., : 2 * half], x[..., 2 * half :]
    if neighbours != ("interleaved rope" in mistakes):
        a, b = x[..., 0::2], x[..., 1::2]
        x = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    else:
        a, b = x[..., :half], x[..., half:]
        x = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    if "scale on the whole head" in mistakes:
        kept = kept * table.scale
    return torch.cat([kept, x] if "rotated part at the end of the head" in mistakes else [x, kept], dim=-1)
