"""Losses under the training gate, under the hard mask and dense; statistics of groups and pairs."""

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from focus.attention import FocusMode, routers
from focus.routing import sinkhorn_bias, visible_pairs


def weighted_losses(model: nn.Module, ids: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row, the sum of weighted next-token losses and the sum of weights."""
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    each = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(ids.shape[0], -1)
    return (each * weights[:, :-1]).sum(1), weights[:, :-1].sum(1)


@torch.no_grad()
def row_losses(model: nn.Module, ids: Tensor, weights: Tensor, rows_at_once: int = 1) -> tuple[Tensor, Tensor]:
    """`weighted_losses` of all rows, a few at once."""
    starts = range(0, len(ids), rows_at_once)
    found = [weighted_losses(model, ids[s : s + rows_at_once], weights[s : s + rows_at_once]) for s in starts]
    return torch.cat([a for a, _ in found]), torch.cat([b for _, b in found])


def loss(model: nn.Module, ids: Tensor, weights: Tensor, rows_at_once: int = 1) -> float:
    """Mean loss in nats per token."""
    total, count = row_losses(model, ids, weights, rows_at_once)
    return (total.double().sum() / count.double().sum()).item()


@torch.no_grad()
def calibrate(model: nn.Module, ids: Tensor, rows_at_once: int = 1) -> None:
    """Sets every router's group_bias to the mean over sequences of Sinkhorn's b, each less its own mean.

    Rows are computed under the training gate, where b belongs: under the hard mask h would depend on the b that is being calibrated.
    """
    found: dict[int, list[Tensor]] = {}
    handles = []
    for router in routers(model):
        if not router.settings.has_centroids:
            continue

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], router: Any = router) -> None:
            h = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
            b = sinkhorn_bias(router.logits(h), router.settings.sinkhorn_rounds)
            found.setdefault(router.layer, []).append(b - b.mean(1, keepdim=True))

        owner = next(m for m in model.modules() if getattr(m, "focus", None) is router)
        handles.append(owner.register_forward_pre_hook(hook, with_kwargs=True))
    for start in range(0, len(ids), rows_at_once):
        model(input_ids=ids[start : start + rows_at_once], use_cache=False)
    for handle in handles:
        handle.remove()
    for router in routers(model):
        if router.layer in found:
            router.group_bias.copy_(torch.cat(found[router.layer]).mean(0))


@dataclasses.dataclass
class GroupStatistics:
    """Per layer: largest share of tokens that hold one group, and share of pairs j <= i that are visible."""

    largest_group_share: list[float]
    pairs_visible: list[float]


def statistics(member: Tensor, window: int) -> tuple[float, float]:
    """Of membership [B, T, K]: largest-group share, and pairs visible among all pairs j <= i, near ones included."""
    length = member.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=member.device).tril()
    seen = sum((visible_pairs(row[None], window)[0] & causal).sum().item() for row in member)
    pairs = member.shape[0] * length * (length + 1) / 2
    return member.float().mean((0, 1)).max().item(), seen / pairs


@torch.no_grad()
def hard_row_losses(
    model: nn.Module, mode: FocusMode, ids: Tensor, weights: Tensor, rows_at_once: int = 1, **over: Any
) -> tuple[Tensor, Tensor, GroupStatistics]:
    """`row_losses` under the hard mask, with top_k, window, bias or groups overridden, and the groups it used."""
    gate, mode.gate = mode.gate, "hard"
    shares, pairs, kept = [], [], []
    for router in routers(model):
        kept.append((router, router.settings))
        router.settings = dataclasses.replace(router.settings, **over)
        router.observed = []
    try:
        total, count = row_losses(model, ids, weights, rows_at_once)
        for router, _ in kept:
            share, visible = statistics(torch.cat(router.observed or []), router.settings.window)
            shares.append(share)
            pairs.append(visible)
    finally:
        mode.gate = gate
        for router, settings in kept:
            router.settings, router.observed = settings, None
    return total, count, GroupStatistics(shares, pairs)


def hard_loss(
    model: nn.Module, mode: FocusMode, ids: Tensor, weights: Tensor, rows_at_once: int = 1, **over: Any
) -> tuple[float, GroupStatistics]:
    """Mean loss under the hard mask in nats per token, and the groups it used."""
    total, count, groups = hard_row_losses(model, mode, ids, weights, rows_at_once, **over)
    return (total.double().sum() / count.double().sum()).item(), groups


@torch.no_grad()
def evaluate(
    model: nn.Module, mode: FocusMode | None, ids: Tensor, weights: Tensor, calibration: Tensor, rows_at_once: int = 1
) -> dict[str, Any]:
    """The held-out record of a log. Without a mode (LoRA) only the loss."""
    was_training = model.training
    model.eval()
    if mode is None:
        out: dict[str, Any] = {"dense": loss(model, ids, weights, rows_at_once)}
    else:
        gate = mode.gate
        out = {"soft": loss(model, ids, weights, rows_at_once), "gate": gate}
        mode.gate = None
        out["dense"] = loss(model, ids, weights, rows_at_once)
        mode.gate = gate
        settings = next(routers(model)).settings
        if settings.gate != "constant_gate":
            calibrate(model, calibration, rows_at_once)
            out["hard"], groups = hard_loss(model, mode, ids, weights, rows_at_once)
            out |= {"top_k": settings.top_k} | dataclasses.asdict(groups)
        else:
            out["constant_gate"] = [router.gate.sigmoid().item() for router in routers(model)]
    model.train(was_training)
    return out
