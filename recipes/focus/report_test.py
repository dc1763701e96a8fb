"""Shares, pairs, purity and word classes on cases that can be counted by hand."""

import numpy as np
import torch

from focus import measure, report, words


def test_statistics_of_a_small_mask() -> None:
    member = torch.tensor([[[1, 0], [1, 0], [0, 1], [1, 0]]], dtype=torch.bool)
    share, pairs = measure.statistics(member, 0)
    # Visible: four tokens to themselves, (1,0), (3,0), (3,1); ten pairs in all.
    assert share == 0.75 and pairs == 7 / 10
    assert measure.statistics(member, 1)[1] == 9 / 10


def test_purity_is_one_for_categories_and_low_for_noise() -> None:
    tokens = [" the", " of", " said", " man"] * 50
    member = torch.zeros(1, 200, 4, dtype=torch.bool)
    first = np.tile(np.arange(4), 50)
    member[0, torch.arange(200), torch.tensor(first)] = True
    found = report.layer_report(0, member, first, 3, tokens)
    assert found.purity == 1.0 and found.purity_at_random < 0.5
    shuffled = np.random.default_rng(1).permutation(first)
    member = torch.zeros(1, 200, 4, dtype=torch.bool)
    member[0, torch.arange(200), torch.tensor(shuffled)] = True
    assert report.layer_report(0, member, shuffled, 3, tokens).purity < 0.5
    assert "| 0 | 0 | 50 |" in report.printed([found]) and report.drawn(found).startswith("<svg")


def test_parts_of_speech() -> None:
    expected = {" the": "determiner", " She": "pronoun", " of": "preposition", ",": "punctuation", " 12": "number",
                "ing": "piece", " quickly": "adverb", " walking": "verb", " Darcy": "other", "\n": "punctuation", " Mr": "title"}  # fmt: skip
    assert {t: words.part_of_speech(t) for t in expected} == expected
