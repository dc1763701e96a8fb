"""Muon for matrices, AdamW for the rest; W_q's rate has the arm's factor."""

import math
from typing import Any

import torch
from torch import nn

from llama.model import Llama


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalized by five Newton-Schulz steps (Jordan et al. 2024); for matrices."""

    def __init__(self, params: Any, lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[tuple[torch.Tensor, torch.Tensor]]] = {}
            for p in group["params"]:
                state = self.state[p]
                if "buffer" not in state:
                    state["buffer"] = torch.zeros_like(p)
                state["buffer"].lerp_(p.grad, 1 - group["momentum"])
                g = p.grad.lerp(state["buffer"], group["momentum"])
                by_shape.setdefault(tuple(sorted(g.shape)), []).append((p, g if g.shape[0] <= g.shape[1] else g.T))
            for members in by_shape.values():
                x = torch.stack([g for _, g in members])
                x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
                for _ in range(5):
                    a = x @ x.mT
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                for (p, _), u in zip(members, x):
                    u = u if p.shape[0] <= p.shape[1] else u.T
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(u, alpha=-group["lr"] * 0.2 * math.sqrt(max(p.shape)))


def optimizers(net: Llama, q_rate: float, muon_factor: float) -> list[torch.optim.Optimizer]:
    """Groups have `factor`, by which the learning rate is multiplied. No weight decay on what is not a matrix, so none on tau."""
    queries: list[nn.Parameter] = []
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, p in net.named_parameters():
        is_matrix = p.ndim == 2 and "embed" not in name and "tau_proj" not in name
        (queries if "q_proj" in name else matrices if is_matrix else rest).append(p)
    groups = [{"params": matrices, "factor": muon_factor}, {"params": queries, "factor": muon_factor * q_rate}]
    muon = Muon(groups, lr=1.0, weight_decay=0.01)
    return [muon, torch.optim.AdamW([{"params": rest, "factor": 1.0}], lr=1.0, betas=(0.9, 0.98), eps=1e-10, weight_decay=0.0)]


def step(every: list[torch.optim.Optimizer], net: Llama, rate: float, loss: torch.Tensor) -> None:
    """Down the gradient of `loss`, whose norm is cut at one."""
    for optimizer in every:
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    for optimizer in every:
        optimizer.step()
