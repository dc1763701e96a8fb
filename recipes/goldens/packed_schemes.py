"""Packed weights: writers, and their values written from the formats' definitions, with deliberate mistakes by name.

A scheme is `pack(w, options) -> {suffix of the module's name: tensor}` and `values(tensors, options, mistakes) -> float64
matrix [outputs, inputs]`. What a package of the scheme computes itself is `oracle(tensors, options) -> matrix`, where
there is one that runs without a GPU: `values` must agree with it once both are rounded to the file's number format.
"""

import json
import math

import torch

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def blocks_of(w, size):
    """The scale of every element from one for each block, the last of which may be smaller."""
    rows, columns = (math.ceil(n / b) for n, b in zip(w.shape, size))
    of = torch.empty(rows, columns)
    for i in range(rows):
        for j in range(columns):
            of[i, j] = w[i * size[0] : (i + 1) * size[0], j * size[1] : (j + 1) * size[1]].abs().max() / 448
    return of


def spread(scales, shape, size):
    rows = torch.arange(shape[0]) // size[0]
    columns = torch.arange(shape[1]) // size[1]
    return scales[rows.clamp(max=scales.shape[0] - 1)][:, columns.clamp(max=scales.shape[1] - 1)]


# FP8


def pack_fp8(w, o):
    kind = o.get("scales", "block")
    if kind == "block":
        scales = blocks_of(w, o["block"])
        full = spread(scales, w.shape, o["block"])
    elif kind == "row":
        scales = w.abs().amax(1, keepdim=True) / 448
        full = scales
    else:
        scales = (w.abs().max() / 448).reshape(o.get("shape", []))
        full = scales
    scales = scales.to(o.get("scale_dtype", torch.float32))
    if kind == "block":
        full = spread(scales.float(), w.shape, o["block"])
    out = {".weight": (w / full.float()).to(torch.float8_e4m3fn), o.get("name", ".weight_scale_inv"): scales}
    if o.get("static"):
        out[o["static"]] = torch.tensor(0.037, dtype=torch.float32).reshape(o.get("shape", []))
    return out


def values_fp8(t, o, mistakes=()):
    scales = t[o.get("name", ".weight_scale_inv")].float()
    w = t[".weight"].view(torch.float8_e5m2).float() if "E5M2" in mistakes else t[".weight"].float()
    if o.get("scales", "block") == "block":
        if "scales transposed" in mistakes:
            scales = scales.T if scales.shape[0] == scales.shape[1] else scales.T.reshape(scales.shape)
        size = o["block"]
        if "blocks by equal division" in mistakes:
            size = [math.ceil(n / s) for n, s in zip(w.shape, scales.shape)]
        if "block sides swapped" in mistakes:
            size = size[::-1]
        scales = spread(scales, w.shape, size)
    if "divided by the scale" in mistakes:
        return w.double() / scales.double()
    if "no scale" in mistakes:
        return w.double()
    return (w * scales).double()  # one rounding, to float32


def oracle_fp8(t, o):
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, _dequantize_fp8_weight

    scales = t[o.get("name", ".weight_scale_inv")]
    even = scales.dim() < 2 or all(n % s == 0 and n // s == b for n, s, b in zip(t[".weight"].shape, scales.shape, o.get("block", (0, 0))))
    if o.get("scales", "block") == "block" and not even:
        # What their loader makes of it divides the matrix evenly by the grid of scales; their layer does not.
        return _dequantize_fp8_weight(t[".weight"], scales, o["block"], torch.float32)
    return Fp8Dequantize(None)._dequantize_one(t[".weight"], scales, output_dtype=torch.float32)


# GPTQ


def pack_words(fields, bits):
    """[n, words * f] fields to [n, words] of int32, the first field lowest."""
    f = 32 // bits
    words = torch.zeros(fields.shape[0], fields.shape[1] // f, dtype=torch.int64)
    for i in range(f):
        words |= fields[:, i::f].long() << (bits * i)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def unpack_words(words, bits, high_first=False):
    f = 32 // bits
    fields = [(words.long() & 0xFFFFFFFF) >> (bits * i) & (2**bits - 1) for i in range(f)]
    return torch.stack(fields[::-1] if high_first else fields, -1).reshape(words.shape[0], -1)


def quantized(w, scales, zeros, group_of, bits):
    """[K, N] codes of w [N, K] with [G, N] scales and zero points."""
    s, z = scales.double()[group_of], zeros[group_of]
    return (w.double().T / s + z).round().clamp(0, 2**bits - 1).long()


def ranges(w, group_of, bits, symmetric, dtype):
    groups = int(group_of.max()) + 1
    scales, zeros = torch.empty(groups, w.shape[0]), torch.empty(groups, w.shape[0], dtype=torch.int64)
    for g in range(groups):
        part = w[:, group_of == g]
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        if symmetric:
            scales[g] = torch.maximum(-low, high) * 2 / (2**bits - 1)
            zeros[g] = 2 ** (bits - 1)
        else:
            scales[g] = (high - low) / (2**bits - 1)
            zeros[g] = (-low / scales[g]).round().long().clamp(0, 2**bits - 1)
    return scales.to(dtype), zeros


def pack_gptq(w, o):
    bits, (n, k) = o["bits"], w.shape
    size = k if o["group"] == -1 else o["group"]
    group_of = torch.arange(k) // size
    if o.get("order"):
        group_of = group_of[torch.randperm(k, generator=torch.Generator().manual_seed(k))]
    scales, zeros = ranges(w, group_of, bits, o["sym"], torch.float16)
    if o.get("zero") is not None:  # a zero point that borrows in the older format
        zeros[0, 0] = o["zero"]
    q = quantized(w, scales, zeros, group_of, bits)
    stored = pack_words(zeros, bits)
    if not o.get("v2"):
        one = 0x11111111 if bits == 4 else 0x01010101
        stored = (stored.long() - one) & 0xFFFFFFFF
        stored = torch.where(stored >= 2**31, stored - 2**32, stored).to(torch.int32)
    out = {".qweight": pack_words(q.T.contiguous(), bits).T.contiguous(), ".qzeros": stored, ".scales": scales}
    if o.get("order") or o.get("with_order"):
        out[".g_idx"] = group_of.to(torch.int32)
    return out


def values_gptq(t, o, mistakes=()):
    bits = o["bits"]
    high = "fields from the high end" in mistakes
    q = unpack_words(t[".qweight"].T.contiguous(), bits, high).T  # [K, N]
    k = q.shape[0]
    words = t[".qzeros"].long() & 0xFFFFFFFF
    add = not o.get("v2") and "no offset of zero points" not in mistakes or "offset in the newer format" in mistakes
    if add and "offset of each field" not in mistakes:
        words = words + (0x11111111 if bits == 4 else 0x01010101) & 0xFFFFFFFF
    z = unpack_words(words, bits, "zero points from the high end" in mistakes)
    z = z + 1 if add and "offset of each field" in mistakes else z
    group_of = torch.arange(k) // (k if o["group"] == -1 else o["group"])
    group_of = t[".g_idx"].long() if ".g_idx" in t and "g_idx ignored" not in mistakes else group_of
    s = t[".scales"].double()
    if "zero points ignored" in mistakes:
        z = torch.full_like(z, 2 ** (bits - 1))
    return (s[group_of] * (q - z[group_of])).T


# AWQ


def pack_awq(w, o):
    k = w.shape[1]
    group_of = torch.arange(k) // (k if o["group"] == -1 else o["group"])
    scales, zeros = ranges(w, group_of, 4, False, torch.float16)
    q = quantized(w, scales, zeros, group_of, 4)
    # Field j of word c is column 8c + AWQ_ORDER[j].
    order = lambda x: x.reshape(x.shape[0], -1, 8)[:, :, AWQ_ORDER].reshape(x.shape)
    return {".qweight": pack_words(order(q), 4), ".qzeros": pack_words(order(zeros), 4), ".scales": scales}


def values_awq(t, o, mistakes=()):
    def columns(words, name):
        fields = unpack_words(words, 4).reshape(words.shape[0], -1, 8)
        if f"{name} in order" in mistakes:
            return fields.reshape(words.shape[0], -1)
        inverse = AWQ_ORDER if f"{name}: order inverted" in mistakes else [AWQ_ORDER.index(i) for i in range(8)]
        return fields[:, :, inverse].reshape(words.shape[0], -1)

    q, z = columns(t[".qweight"], "weights"), columns(t[".qzeros"], "zero points")
    if "zero points plus one" in mistakes:
        z = z + 1
    k = q.shape[0]
    group_of = torch.arange(k) // (k if o["group"] == -1 else o["group"])
    return (t[".scales"].double()[group_of] * (q - z[group_of])).T


# compressed-tensors


def scheme_of(o):
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**o["weights"]))


def pack_ct(w, o):
    """By the package's own writer."""
    from compressed_tensors.compressors import BaseCompressor

    a = o["weights"]
    bits, strategy, symmetric = a["num_bits"], a["strategy"], a["symmetric"]
    dtype = o.get("dtype", torch.bfloat16)
    n, k = w.shape
    if a.get("type") == "float":
        if strategy == "block":
            scales = blocks_of(w, a["block_structure"])
        else:
            scales = w.abs().amax(1, keepdim=True) / 448 if strategy == "channel" else (w.abs().max() / 448).reshape(1)
        zeros = torch.zeros_like(scales).to(torch.float8_e4m3fn)
    else:
        size = a.get("group_size") or k
        parts = w.reshape(n, k // size, size) if strategy == "group" else w.reshape(n, 1, k)
        low, high = parts.amin(2).clamp(max=0), parts.amax(2).clamp(min=0)
        top = 2**bits - 1
        scales = torch.maximum(-low, high) * 2 / top if symmetric else (high - low) / top
        scales = scales.to(dtype).float()
        zeros = torch.zeros_like(scales) if symmetric else (-(2 ** (bits - 1)) - low / scales).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        zeros = zeros.to(torch.int8)
    state = {"weight": w.to(dtype), "weight_scale": scales.to(dtype), "weight_zero_point": zeros}
    compressor = BaseCompressor.get_value_from_registry(o["format"])
    packed = compressor.compress(state, scheme_of(o))
    out = {"." + name: v.contiguous() for name, v in packed.items()}
    if o.get("input_scale"):
        out[".input_scale"] = torch.tensor([0.5], dtype=dtype)
    return out


def values_ct(t, o, mistakes=()):
    a = o["weights"]
    scales = t[".weight_scale"].double()
    zeros = torch.zeros(1)
    if ".weight_packed" in t:
        bits, (n, k) = a["num_bits"], t[".weight_shape"].tolist()
        half = 2 ** (bits - 1) if "no offset" not in mistakes else 0
        q = unpack_words(t[".weight_packed"], bits, "fields from the high end" in mistakes)[:, :k] - half
        if ".weight_zero_point" in t:
            zeros = unpack_words(t[".weight_zero_point"].T.contiguous(), bits).T[: len(scales)] - 2 ** (bits - 1)
            if "zero points along columns" in mistakes:
                zeros = unpack_words(t[".weight_zero_point"], bits)[:, : scales.shape[1]] - 2 ** (bits - 1)
                zeros = zeros.repeat(n, 1)[:n]
    else:
        q = t[".weight"].double()
        if ".weight_zero_point" in t:
            zeros = t[".weight_zero_point"]
    n, k = q.shape
    if "zero points ignored" in mistakes:
        zeros = torch.zeros(1)
    if "block_structure" in a:
        return q.double() * spread(scales, q.shape, a["block_structure"])
    if scales.dim() == 2 and scales.shape[1] > 1:
        if "groups along outputs" in mistakes:
            return q.double() * scales.T.repeat_interleave(math.ceil(n / scales.shape[1]), 0)[:n].repeat(1, math.ceil(k / n))[:, :k]
        scales = scales.repeat_interleave(k // scales.shape[1], 1)
        zeros = zeros.double().repeat_interleave(k // zeros.shape[1], 1) if zeros.numel() > 1 else zeros
    return (q.double() - zeros.double()) * scales


def oracle_ct(t, o):
    from compressed_tensors.compressors import BaseCompressor

    compressor = BaseCompressor.get_value_from_registry(o["format"])
    state = {name[1:]: v for name, v in t.items() if name != ".input_scale"}
    return compressor.decompress(state, scheme_of(o))["weight"]


# bitsandbytes


def pack_bnb4(w, o):
    import bitsandbytes.functional as F

    packed, state = F.quantize_4bit(
        w.to(o["dtype"]), blocksize=o.get("blocksize", 64), compress_statistics=o["nested"], quant_type=o["kind"], quant_storage=o.get("storage", torch.uint8)
    )
    return {".weight": packed} | {".weight." + name: v for name, v in state.as_dict(packed=True).items()}


def values_bnb4(t, o, mistakes=()):
    state = json.loads(bytes(t[f".weight.quant_state.bitsandbytes__{o['kind']}"].tolist()))
    data = t[".weight"].contiguous().view(torch.uint8).flatten()
    halves = [data >> 4, data & 15]
    if "low half first" in mistakes:
        halves.reverse()
    codes = torch.stack(halves, -1).flatten().long()
    absmax = t[".weight.absmax"]
    if "nested_absmax" in "".join(t):
        nested, scale = t[".weight.nested_quant_map"], t[".weight.nested_absmax"]
        of = torch.arange(len(absmax)) // state["nested_blocksize"]
        absmax = nested[absmax.long()] * scale[of]  # float32 throughout
        if "no offset of nested scales" not in mistakes:
            absmax = absmax + torch.tensor(state["nested_offset"], dtype=torch.float32)
    size = state["blocksize"] * (2 if "blocks twice as long" in mistakes else 1)
    of = torch.arange(len(codes)) // size
    w = t[".weight.quant_map"][codes] * absmax[of]
    shape = state["shape"][::-1] if "shape transposed" in mistakes else state["shape"]
    return w.reshape(shape).reshape(state["shape"]).double() if "shape transposed" not in mistakes else w.reshape(shape).T.double()


def oracle_bnb4(t, o):
    import bitsandbytes.functional as F

    state = {name.removeprefix(".weight."): v for name, v in t.items() if name != ".weight"}
    return F.dequantize_4bit(t[".weight"].clone(), F.QuantState.from_dict(state, torch.device("cpu")))


def pack_int8(w, o):
    stats = w.abs().amax(1).float()
    return {".weight": (w * 127 / stats[:, None]).round().to(torch.int8), ".SCB": stats, ".weight_format": torch.tensor(0, dtype=torch.uint8)}


def values_int8(t, o, mistakes=()):
    stats = t[".SCB"]
    if "127 is 128" in mistakes:
        return (t[".weight"].float() * stats[:, None] / 128).double()
    if "scales of columns" in mistakes:
        return (t[".weight"].float() * stats.repeat(t[".weight"].shape[1])[: t[".weight"].shape[1]]).double() / 127
    return (t[".weight"].float() * stats[:, None] * torch.tensor(7.874015718698502e-3)).double()


def oracle_int8(t, o):
    import bitsandbytes.functional as F

    return F.int8_vectorwise_dequant(t[".weight"], t[".SCB"])


SCHEMES = {
    "fp8": (pack_fp8, values_fp8, oracle_fp8),
    "gptq": (pack_gptq, values_gptq, None),
    "awq": (pack_awq, values_awq, None),
    "ct": (pack_ct, values_ct, oracle_ct),
    "bnb4": (pack_bnb4, values_bnb4, oracle_bnb4),
    "int8": (pack_int8, values_int8, oracle_int8),
}
