"""The kernel is attention: as near to float64 as PyTorch's, blind to later tokens, and PyTorch's own where it does not fit."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from llama import cpu_kernels
from llama.cpu_kernels import attend, cross_entropy

torch.set_num_threads(1)
needed = pytest.mark.skipif(cpu_kernels.kernel() is None, reason="the processor has no AVX-512 with bf16, or there is no compiler")


def inputs(tokens: int, size: float, dtype: torch.dtype = torch.bfloat16, width: int = 32) -> list[Tensor]:
    """Not contiguous, as in the model."""
    torch.manual_seed(tokens)
    return [(size * torch.randn(2, tokens, 3, width)).bfloat16().to(dtype).transpose(1, 2).requires_grad_() for _ in range(3)]


def exact(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    hidden = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    return (q @ k.mT * scale).masked_fill(hidden, -math.inf).softmax(-1) @ v


def of(attention: object, tokens: int, size: float, scale: float, dtype: torch.dtype) -> list[Tensor]:
    """Output and gradients."""
    tensors = inputs(tokens, size, dtype)
    out = attention(*tensors, scale)  # type: ignore[operator]
    gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).bfloat16().to(dtype)
    return [out.detach(), *torch.autograd.grad(out, tensors, gradient)]


@needed
@pytest.mark.parametrize("tokens", [16, 48, 288, 512, 1040])
@pytest.mark.parametrize("size, t", [(0.01, 1.0), (1.0, 1.0), (2.5, 0.4)])
def test_output_and_gradients_are_as_exact_as_those_of_pytorch(tokens: int, size: float, t: float) -> None:
    scale = 32**-0.5 / t
    right = of(exact, tokens, size, scale, torch.float64)
    errors = []
    for attention in (attend, lambda q, k, v, s: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=s)):
        found = of(attention, tokens, size, scale, torch.bfloat16)
        errors.append([float((a.double() - b).norm() / b.norm()) for a, b in zip(found, right)])
    for mine, theirs in zip(*errors):
        assert mine < 1.05 * theirs + 1e-4, errors


@needed
def test_later_tokens_are_not_seen() -> None:
    q, k, v = (x.detach() for x in inputs(64, 1.0))
    before = attend(q, k, v, 0.2)
    for changed in (k, v):
        changed[:, :, 40:] = 100.0
    after = attend(q, k, v, 0.2)
    assert torch.equal(before[:, :, :40], after[:, :, :40]) and not torch.equal(before[:, :, 40], after[:, :, 40])


@needed
def test_large_logits_are_finite_and_runs_repeat_bit_for_bit() -> None:
    for size in (30.0, 300.0):
        first, again = (of(attend, 512, size, 2.5, torch.bfloat16) for _ in range(2))
        for a, b in zip(first, again):
            assert a.isfinite().all() and torch.equal(a, b)


@pytest.mark.parametrize("tokens, dtype, width", [(40, torch.bfloat16, 32), (64, torch.float32, 32), (64, torch.bfloat16, 16)])
def test_what_does_not_fit_is_pytorchs(tokens: int, dtype: torch.dtype, width: int) -> None:
    q, k, v = inputs(tokens, 1.0, dtype, width)
    assert torch.equal(attend(q, k, v, 0.3), F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3))


@needed
def test_a_processor_without_bf16_has_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_kernels, "kernel", lambda: None)
    q, k, v = inputs(64, 1.0)
    assert torch.equal(attend(q, k, v, 0.3), F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3))


@needed
@pytest.mark.parametrize("size", [0.1, 3.0, 40.0])
def test_cross_entropy_and_its_gradient(size: float) -> None:
    """The gradient is rounded to bf16 once, as autograd's."""
    torch.manual_seed(3)
    logits, targets = (size * torch.randn(24, 160)).bfloat16().requires_grad_(), torch.randint(160, (24,))
    for factor in (1.0, 0.5):
        mine = factor * cross_entropy(logits, targets)
        theirs = factor * F.cross_entropy(logits.double(), targets)
        assert abs(mine.item() - theirs.item()) < 1e-6 * max(1.0, theirs.item())
        (found,), (right,) = torch.autograd.grad(mine, logits), torch.autograd.grad(theirs, logits)
        assert torch.allclose(found.double(), right.double(), rtol=2**-7, atol=1e-9)


def test_cross_entropy_that_does_not_fit_is_pytorchs() -> None:
    logits, targets = torch.randn(5, 33), torch.randint(33, (5,))
    assert torch.equal(cross_entropy(logits, targets), F.cross_entropy(logits, targets))
