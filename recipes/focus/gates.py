"""The training gates: modify the score of a pair outside the window by the agreement of the two tokens' groups.

literal        score x sigmoid(lambda g_i.g_j), as the paper prints it: half at no agreement, so it never prunes
shifted        score x sigmoid(lambda (g_i.g_j - 1/2))
log_gate       score + log sigmoid(lambda (g_i.g_j - 1/2)), which does prune
constant_gate  score x one learned number per layer, no groups
hard           score of a visible pair as it is, any other pair hidden: what inference computes
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from focus.routing import Router, local_pairs, visible_pairs


def gated(scores: Tensor, router: Router, h: Tensor, gate: str, prompt_tokens: int | None = None) -> Tensor:
    """Scores [B, H, T, T] of rows h [B, T, M] under `gate`; the causal mask is added by the caller."""
    s = router.settings
    if gate == "hard" or s.groups == "none":
        visible = visible_pairs(router.hard_groups(h, prompt_tokens), s.window)
        return scores.masked_fill(~visible[:, None], -torch.inf)
    near = local_pairs(h.shape[1], s.window, h.device)
    if gate == "constant_gate":
        return scores * torch.where(near, 1.0, router.gate.sigmoid())
    g = router.soft_groups(h)
    agreement = g @ g.transpose(1, 2)
    if gate == "literal":
        factor = (s.gate_strength * agreement).sigmoid()
    elif gate == "shifted":
        factor = (s.gate_strength * (agreement - 0.5)).sigmoid()
    else:
        term = F.logsigmoid(s.gate_strength * (agreement - 0.5))
        return scores + torch.where(near, 0.0, term)[:, None]
    return scores * torch.where(near, 1.0, factor)[:, None]
