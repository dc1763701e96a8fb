"""Causal attention and cross-entropy of training: on a CPU with AVX-512 and bf16 by cpu_kernels.cc, which is several times as fast as
PyTorch's and sums gradients in float32; elsewhere PyTorch's. It is compiled once, by CXX or g++, into the cache."""

import ctypes
import functools
import hashlib
import os
import pathlib
import subprocess
import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SOURCE = pathlib.Path(__file__).with_suffix(".cc")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "varifocal"
FLAGS = [f"-mavx512{part}" for part in ("f", "bw", "vl", "dq", "bf16")] + ["-mfma", "-O3", "-std=c++20", "-shared", "-fPIC", "-w"]
WIDTH, BLOCK = 32, 16  # of a head; tokens, or classes, are a multiple of it


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """None where the processor or the compiler cannot."""
    try:
        flags = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    if not all(f" {flag} " in flags.replace("\n", " ") for flag in ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16", "fma")):
        return None
    target = CACHE / f"cpu_kernels-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = pathlib.Path(folder) / target.name
            try:
                subprocess.run([os.environ.get("CXX", "g++"), *FLAGS, "-o", str(made), str(SOURCE)], check=True)
            except (OSError, subprocess.CalledProcessError):
                return None
            made.rename(target)
    return ctypes.CDLL(str(target))


def pointer(x: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.data_ptr())


def called(name: str, tensors: list[Tensor], scale: float) -> None:
    heads, tokens = tensors[0].shape[0] * tensors[0].shape[1], tensors[0].shape[2]
    getattr(kernel(), name)(*map(pointer, tensors), ctypes.c_int64(heads), ctypes.c_int64(tokens), ctypes.c_float(scale))


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        q, k, v = (x.contiguous() for x in (q, k, v))
        out, log_sums = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32)
        called("Forward", [q, k, v, out, log_sums], scale)
        ctx.save_for_backward(q, k, v, out, log_sums)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        saved = ctx.saved_tensors
        found = [torch.empty_like(x) for x in saved[:3]]
        called("Backward", [*saved, gradients[0].contiguous(), *found], ctx.scale)
        return *found, None


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """[B, H, T, D] each, of one dtype."""
    fits = q.device.type == "cpu" and q.dtype == torch.bfloat16 and q.shape == k.shape and q.shape[3] == WIDTH and q.shape[2] % BLOCK == 0
    if fits and kernel() is not None:
        out: Tensor = Attention.apply(q, k, v, scale)
        return out
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        logits, targets = logits.contiguous(), targets.contiguous()
        rows, classes = logits.shape
        gradient = torch.empty_like(logits)
        function: Any = getattr(kernel(), "CrossEntropy")
        function.restype = ctypes.c_double
        total = function(pointer(logits), pointer(targets), pointer(gradient), ctypes.c_int64(rows), ctypes.c_int64(classes), ctypes.c_float(1 / rows))
        ctx.save_for_backward(gradient)
        return torch.tensor(total / rows, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *factor: Tensor) -> Any:
        (gradient,) = ctx.saved_tensors
        return gradient if factor[0].item() == 1 else gradient * factor[0].to(gradient.dtype), None


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over rows, in float32. logits [rows, classes]; targets [rows], int64."""
    if logits.device.type == "cpu" and logits.dtype == torch.bfloat16 and logits.shape[1] % BLOCK == 0 and kernel() is not None:
        out: Tensor = CrossEntropy.apply(logits, targets)
        return out
    return F.cross_entropy(logits.float() if logits.dtype == torch.bfloat16 else logits, targets)
