"""Training data: answers follow from the text, and attention supervision has the right positions."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from llama import arms, data, hops, moves, run, start, train
from llama.attention_loss import attention_loss
from llama.config import Config
from llama.llama_test import SMALL


def two_document_batch(rows: int = 4) -> tuple[data.Words, Any, Any]:
    words, rng = data.Words(), np.random.default_rng(6)
    options = data.DataOptions(easy=1.0, friend=0.6, hop=0.7, alike=1.0, documents=(4, 6))
    ids, marks = zip(*(data.rag_facts(rng, words, 288, options) for _ in range(rows)))
    return words, np.array(ids), np.array(marks, dtype=bool)


def masses(net: Any, inputs: list[torch.Tensor], layer: int, head: int, items: list[tuple[int, int, int]]) -> torch.Tensor:
    """What a head's rows give to their targets."""
    a, x = net.blocks()[layer].self_attn, net.blocks()[layer].input_layernorm(inputs[layer])
    q, k = a.queries_and_keys(x, *net.rope(x.shape[1]))
    logits = (q @ k.mT * a.row_scales(x)).masked_fill(torch.ones(288, 288).triu(1).bool(), -math.inf)
    row, at, target = torch.tensor(items).unbind(1)
    found: torch.Tensor = logits.softmax(-1)[row, head, at, target]
    return found


def test_hops_are_where_the_text_has_the_name_and_the_value() -> None:
    words, ids, marks = two_document_batch()
    found = hops.find(words, ids, marks)
    assert len(found[start.NAME_HEAD]) > 8
    for (r, at, name), (r2, at2, value) in zip(found[start.NAME_HEAD], found[start.VALUE_HEAD], strict=True):
        word = [words.tokenizer.decode([t]).strip() for t in ids[r].tolist()]
        who, attribute, friend = word[at - 2 : at], word[at - 7], word[name - 2 : name]
        assert (r2, at2) == (r, at)
        assert word[name - 7 : name - 2] == ["friend", "of", *who, "is"] and word[name] == "."
        assert word[value - 5 : value] == [attribute, "of", *friend, "is"] and word[value] == word[at + 1]


def test_moves_are_where_the_text_has_them() -> None:
    """Every move of a person who moved before, and every complete question, of stories that start paragraphs with names as well."""
    words, rng = data.Words(), np.random.default_rng(3)
    ids, marks = zip(*(data.longqa_story(rng, words, 400, data.DataOptions(moved=0.7, full=0.5)) for _ in range(4)))
    other, their_marks = data.recall_kv(rng, words, 400, data.DataOptions())
    found = moves.find(words, np.array([*ids, other]), np.array([*marks, their_marks], dtype=bool))
    wanted: dict[Any, list[tuple[int, int, int]]] = {head: [] for head in found}
    for r, tokens in enumerate(ids):
        word = [words.tokenizer.decode([t]).strip() for t in tokens]
        last: dict[str, int] = {}
        for i in range(4, len(word)):
            if word[i - 3 : i] == ["went", "to", "the"]:
                if word[i - 4] in last:
                    wanted[moves.PRIOR_HEAD].append((r, i - 1, last[word[i - 4]]))
                last[word[i - 4]] = i
            elif word[i - 2 : i + 1] == ["is", "in", "the"] and marks[r][i]:
                place = last[word[i - 3]]
                assert word[i + 1] == word[place]
                for head, target in ((moves.LAST_HEAD, place), (moves.PRIOR_PLACE_HEAD, place - 1), (moves.PRIOR_HEAD, place)):
                    wanted[head].append((r, i, target))
    assert found == wanted and len(found[moves.LAST_HEAD]) > 8 and len(found[moves.PRIOR_HEAD]) > 40


def test_questions_asked_once_are_about_different_persons() -> None:
    words, rng = data.Words(), np.random.default_rng(5)
    for _ in range(5):
        ids, _ = data.longqa_story(rng, words, 800, data.DataOptions(full=1.0, planted=1.0, planted_persons=12, once=1.0))
        asked = [q.split("?")[0] for q in words.tokenizer.decode(ids).split("Question: Where is ")[1:]]
        assert len(set(asked)) == len(asked) > 0


@pytest.mark.parametrize("family, options", [(data.longqa_story, data.DataOptions(full=1.0)), (data.rag_facts, data.DataOptions(full_documents=1.0))])
def test_full_contexts_take_most_of_the_sequence(family: data.Family, options: data.DataOptions) -> None:
    words, rng = data.Words(), np.random.default_rng(4)
    for full_shares, least in (((0.85, 0.97), 0.75), ((0.98, 0.99), 0.85)):
        for _ in range(5):
            ids, _ = family(rng, words, 800, dataclasses.replace(options, full_shares=full_shares), None)
            text = words.tokenizer.decode(ids)
            assert len(words.enc(text.split("\n\nQuestion")[0])) > least * 800


@pytest.mark.parametrize("arm", ["baseline", "focal", "tau-causal"])
def test_names_are_separated_and_nothing_else_is_changed(arm: str) -> None:
    words = data.Words()
    net = arms.make(arms.ARMS[arm], Config(), 4)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    texts = moves.name_texts(words)
    loss = moves.margin_loss(net, texts).item()
    moves.separate_names(net, words, steps=8)
    assert moves.margin_loss(net, texts).item() < 0.98 * loss  # eight of eighty steps, of a model without the other heads
    names = sorted(moves.names_by_token(words))
    others = np.setdiff1d(np.arange(2023), names)
    for key, value in net.state_dict().items():
        if "embed" not in key:
            assert value.equal(before[key]), key
            continue
        assert value[others].equal(before[key][others]) and not value[names].equal(before[key][names])
        assert torch.allclose(value.norm(dim=1), before[key].norm(dim=1), rtol=1e-5)
    assert all(p.requires_grad for p in net.parameters())


def test_arms_start_with_equal_heads_of_moves(tmp_path: Any) -> None:
    """Added before the temperature, on which the separation of names depends."""
    phase = run.Phase(steps=1, rows=1, length=64, mix={"copy": 1.0})
    plan = run.Plan(learning_rate=1e-3, muon_factor=1, warmup=1, points=((0, 1), (1, 0)), phases=(phase,), last_move_heads=True)
    nets = [train.Trainer(run.Run(arm, 4, plan), tmp_path / arm).net.state_dict() for arm in ("baseline", "focal", "tau-causal")]
    plain = arms.make(arms.ARMS["baseline"], Config(), 4).state_dict()
    for key, value in nets[0].items():
        assert all(value.equal(net[key]) for net in nets), key
    changed = {key for key, value in plain.items() if not value.equal(nets[0][key])}
    heads = {f"layers.{layer}.self_attn.{part}_proj.weight" for layer in (1, 2) for part in "qkvo"}
    assert {key.removeprefix("model.") for key in changed} == heads | {"embed_tokens.weight"}, changed


@pytest.mark.parametrize("arm", ["baseline", "focal", "tau-causal-preserving"])
def test_loss_of_attention_is_that_of_the_two_heads(arm: str) -> None:
    words, ids, marks = two_document_batch(2)
    net, found = arms.make(arms.ARMS[arm], Config(), 4), hops.find(words, ids, marks)
    inputs: list[torch.Tensor] = []
    with torch.no_grad():
        net.hidden(torch.from_numpy(ids), inputs)
        got = float(attention_loss(net, inputs, found))
        total = -sum(float(masses(net, inputs, layer, head, items).log().mean()) for (layer, head), items in found.items())
    assert got == pytest.approx(total, rel=1e-4)
    assert float(attention_loss(net, inputs, {start.NAME_HEAD: []})) == 0


def test_structured_start_looks_at_the_evidence() -> None:
    """Of 288 tokens, at step 0; the layers are trained from here."""
    words, ids, marks = two_document_batch(16)
    net, found = arms.make(arms.ARMS["baseline"], Config(), 4), hops.find(words, ids, marks)
    inputs: list[torch.Tensor] = []
    with torch.no_grad():
        net.hidden(torch.from_numpy(ids), inputs)
        for (layer, head), least in ((start.NAME_HEAD, 0.2), (start.VALUE_HEAD, 0.05)):
            assert float(masses(net, inputs, layer, head, found[layer, head]).mean()) > least
    with pytest.raises(ValueError, match="needs 6 heads of 32"):
        arms.make(arms.ARMS["baseline"], SMALL, 4)


def test_documents_that_are_alike_state_the_same_attributes() -> None:
    words, ids, _ = two_document_batch(6)
    for row in ids:
        attributes = {line.split(" of ")[0].split()[-1] for line in words.tokenizer.decode(row.tolist()).split("Question")[0].split(". The ")[1:]}
        assert len(attributes - {"friend"}) <= 3


def test_answers_of_every_family_follow_from_the_text() -> None:
    """Marks of rag_facts and longqa_story, by a few lines that read the wording."""
    words, rng = data.Words(), np.random.default_rng(9)
    for _ in range(20):
        ids, marks = data.rag_facts(rng, words, 300, data.DataOptions(easy=0.5, bridge=0.4, friend=0.7, hop=0.6), None)
        text = words.tokenizer.decode(ids, skip_special_tokens=True)
        documents, *questions = text.split("\n\nQuestion: ")
        facts = dict(s.strip().removeprefix("The ").split(" is ") for d in documents.split("\n")[2:] for s in d.split(".") if " is " in s)
        for question in (q for q in questions if "\nAnswer: The " in q and q.endswith(".")):
            asked, answer = question.split("\nAnswer: The ")[1].rstrip(".").split(" is ")
            if " of the friend of " in asked:
                attribute, name = asked.split(" of the friend of ")
                asked = f"{attribute} of {facts[f'friend of {name}']}"
            assert facts[asked] == answer, question
    for options in [data.DataOptions(easy=0.5)] * 20 + [data.DataOptions(planted=1.0, moved=1.0, full=1.0)] * 20:
        ids, _ = data.longqa_story(rng, words, 300, options, None)
        story, *questions = words.tokenizer.decode(ids, skip_special_tokens=True).split("\n\nQuestion: Where is ")
        for question in (q for q in questions if q.endswith(".")):
            name, place = question.split("?")[0], question.rstrip(".").split(" ")[-1]
            assert story.rsplit(f"{name} went to the ", 1)[1].split(".")[0] == place
            assert not options.planted or story.count(f"{name} went to the ") > 1
