"""Sinkhorn, its readings, ties, masks and random groups, against plain computations of the definitions."""

import math

import pytest
import torch

from focus import routing
from focus.settings import FocusSettings


def setting(**keys: object) -> FocusSettings:
    return FocusSettings(**(dict(group_count=4, top_k=2, window=3) | keys))  # type: ignore[arg-type]


def test_sinkhorn_is_the_matrix_scaling_it_claims_to_be() -> None:
    logits = torch.randn(1, 9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    q = logits[0].exp()
    for _ in range(10):
        q = q / q.sum(0, keepdim=True)
        q = q / q.sum(1, keepdim=True)
    g = (logits + routing.sinkhorn_bias(logits, 10)[:, None]).softmax(-1)
    assert torch.allclose(g[0], q, atol=1e-12)
    # Another number of rounds is another result.
    assert not torch.allclose((logits + routing.sinkhorn_bias(logits, 3)[:, None]).softmax(-1)[0], q, atol=1e-6)


def test_sinkhorn_balances_groups_and_softmax_does_not() -> None:
    logits = torch.randn(1, 512, 4, generator=torch.Generator().manual_seed(2)) + torch.tensor([4.0, 0.0, 0.0, 0.0])
    balanced = (logits + routing.sinkhorn_bias(logits, 10)[:, None]).softmax(-1).mean(1)
    assert (balanced - 0.25).abs().max() < 0.01
    assert logits.softmax(-1).mean(1).max() > 0.7


def test_sinkhorn_does_not_overflow() -> None:
    logits = torch.randn(1, 64, 8, generator=torch.Generator().manual_seed(3)) * 200
    assert torch.isfinite(routing.sinkhorn_bias(logits, 10)).all() and math.isinf(logits.max().exp())


def test_padding_never_enters_a_column_sum() -> None:
    logits = torch.randn(1, 12, 4, generator=torch.Generator().manual_seed(4))
    mask = torch.arange(20)[None] < 12
    padded = torch.cat([logits, torch.full((1, 8, 4), 7.0)], 1)
    assert torch.allclose(routing.sinkhorn_bias(padded, 10, mask), routing.sinkhorn_bias(logits, 10), atol=1e-6)
    assert not torch.allclose(routing.sinkhorn_bias(padded, 10), routing.sinkhorn_bias(logits, 10), atol=1e-3)


def test_pages_know_complete_pages_before_them_alone() -> None:
    logits = torch.randn(1, 300, 4, generator=torch.Generator().manual_seed(5))
    b = routing.paged_bias(logits, 10)
    assert (b[:, :128] == 0).all()
    assert torch.equal(b[:, 128], routing.sinkhorn_bias(logits[:, :128], 10)) and torch.equal(b[:, 128], b[:, 255])
    assert torch.equal(b[:, 256], routing.sinkhorn_bias(logits[:, :256], 10))


@pytest.mark.parametrize("bias, leaks", [("calibrated", False), ("paged", False), ("prompt", True)])
def test_only_the_prompt_reading_leaks_the_future(bias: str, leaks: bool) -> None:
    router = routing.Router(setting(bias=bias, top_k=1), 8, 0, torch.Generator().manual_seed(6))
    h = torch.randn(1, 300, 8, generator=torch.Generator().manual_seed(7))
    changed = h.clone()
    changed[0, 200:] = torch.randn(100, 8, generator=torch.Generator().manual_seed(8)) + 2
    before, after = router.hard_groups(h)[:, :200], router.hard_groups(changed)[:, :200]
    assert torch.equal(before, after) != leaks


def test_a_tie_goes_to_the_lower_group() -> None:
    ranked = torch.tensor([[1.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 1.0, 3.0, 0.0]])
    assert routing.top_groups(ranked, 2).int().tolist() == [[0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0]]


def test_window_keeps_w_plus_one_keys() -> None:
    none = torch.zeros(1, 6, 4, dtype=torch.bool)
    seen = routing.visible_pairs(none, 2)[0].tril()
    assert seen.sum(1).tolist() == [1, 2, 3, 3, 3, 3]
    alone = routing.visible_pairs(none, 0)[0].tril()
    assert torch.equal(alone, torch.eye(6, dtype=torch.bool))


def test_pairs_of_one_group_see_each_other() -> None:
    member = torch.tensor([[[1, 1, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0]]], dtype=torch.bool)
    seen = routing.visible_pairs(member, 0)[0].tril().int().tolist()
    assert seen == [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1]]


def test_random_groups_are_of_equal_size_and_keep_a_prefix() -> None:
    s = setting(group_count=8, top_k=2, groups="random", random_groups_seed=3)
    member = routing.random_groups(s, 1, 28 * 4)
    assert (member.sum(1) == 2).all() and (member.sum(0) == 28).all()
    assert torch.equal(routing.random_groups(s, 1, 50), member[:50])
    assert not torch.equal(routing.random_groups(s, 2, 50), member[:50])


@pytest.mark.parametrize(
    "keys, word",
    [
        (dict(top_k=5), "top_k is 5"), (dict(top_k=0), "top_k is 0"), (dict(group_count=33), "33"), (dict(window=-1), "-1"),
        (dict(bias="mean"), "'mean'"), (dict(gate="relu"), "'relu'"), (dict(layers=()), "empty"), (dict(layers=(1, 1)), "rise"),
        (dict(assignment_temperature=0.0), "0.0"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused_with_their_value(keys: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        setting(**keys)


def test_config_round_trip_and_unknown_keys() -> None:
    s = setting(layers=(0, 2), bias="paged")
    assert FocusSettings.from_config(s.to_config(1024, "frozen")) == s
    with pytest.raises(ValueError, match="unknown keys: windows"):
        FocusSettings.from_config(s.to_config(1024, "frozen") | {"windows": 3})
    with pytest.raises(ValueError, match="lacks window"):
        FocusSettings.from_config({"group_count": 4, "top_k": 1, "bias": "paged"})
