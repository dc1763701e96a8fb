"""The last move of a person in longqa_story: three heads, their initialization, and their supervision.

A head that prefers later moves by position cannot tell two apart that are 6 tokens from each other and 1,000 from the question. So
PRIOR_HEAD finds, at " the" of each "<name> went to the <place>", the same person's previous place, where distances are shorter. At the
end of a question LAST_HEAD copies places of the person's moves, and PRIOR_PLACE_HEAD subtracts what PRIOR_HEAD found at each of them:
earlier places cancel.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from llama.attention_loss import Head, Targets
from llama.data import Array, Words
from llama.model import Llama
from llama.start import SLOW, by_head, frequencies

PRIOR_HEAD: Head = (1, 3)
LAST_HEAD: Head = (2, 3)
PRIOR_PLACE_HEAD: Head = (2, 2)
NAME_HEADS: tuple[Head, ...] = ((1, 0), (1, 5), PRIOR_HEAD, LAST_HEAD)  # compare names; the first two as trained
COPY_IN, COPY_OUT = 0.4, 0.3  # scales of a copying head's values and output
SEPARATION_STEPS = 80
TEMPERATURE = 6.0  # of the comparison of names: differences of logits of about this size matter


def find(words: Words, ids: Array, marks: Array) -> Targets:
    """Of a batch [rows, length]: moves of persons who moved before, and questions "<name> is in the" whose answer is marked."""
    code = names_by_token(words)
    places, went = set(words.places_sp.tolist()), words.enc(" went to the")
    targets: Targets = {PRIOR_HEAD: [], LAST_HEAD: [], PRIOR_PLACE_HEAD: []}
    for r, tokens in enumerate(ids.tolist()):
        last: dict[int, int] = {}
        for i in range(6, len(tokens)):
            if tokens[i] in places and tokens[i - 3 : i] == went:
                who = code[tokens[i - 4]]
                if who in last:
                    targets[PRIOR_HEAD].append((r, i - 1, last[who]))
                last[who] = i
            elif marks[r, i] and code.get(tokens[i - 3], -1) in last:
                place = last[code[tokens[i - 3]]]
                targets[LAST_HEAD].append((r, i, place))
                targets[PRIOR_PLACE_HEAD].append((r, i, place - 1))
                targets[PRIOR_HEAD].append((r, i, place))
    return targets


def names_by_token(words: Words) -> dict[int, int]:
    """The number of a name, with and without the space before it."""
    return {int(t): i for group in (words.names, words.names_sp) for i, t in enumerate(group)}


@torch.no_grad()
def add_heads(net: Llama, words: Words, seed: int) -> None:
    """PRIOR_HEAD and PRIOR_PLACE_HEAD are replaced, names are separated, and two heads depend more on position."""
    torch.manual_seed(seed)
    c = net.config
    (q1, k1, v1, o1), (q2, k2, v2, o2) = (by_head(c, net.blocks()[layer].self_attn) for layer in (PRIOR_HEAD[0], LAST_HEAD[0]))
    prior, last, prior_place = PRIOR_HEAD[1], LAST_HEAD[1], PRIOR_PLACE_HEAD[1]
    # " the" of a move is like " the" of a question: LAST_HEAD's query, and its key at a place; and its query as a key at " the".
    q1[prior], k1[prior] = q2[last], k2[last]
    q2[prior_place], k2[prior_place] = q2[last], q2[last]
    copy = torch.linalg.qr(torch.randn(c.hidden_size, c.head_dim))[0].T
    for v, o, head, sign in ((v1, o1, prior, 1.0), (v2, o2, prior_place, -1.0)):
        v[head] = COPY_IN * copy
        o[:, head] = sign * COPY_OUT * copy.T
    separate_names(net, words)
    rotating = (frequencies(c) >= SLOW).repeat(2)
    for q, head, factor in ((q1, prior, 4.0), (q2, last, 2.5)):
        q[head, rotating] *= factor


@torch.enable_grad()
def separate_names(net: Llama, words: Words, steps: int = SEPARATION_STEPS, rate: float = 0.004) -> None:
    """Moves the embeddings of names, keeping their length, so that NAME_HEADS tell more of them apart (of 48 random codes
    some are alike). Logits in the bands that hardly rotate, of short texts: of a name with itself over that with any other."""
    weight = net.embed_tokens.weight
    rows = torch.tensor([*words.names.tolist(), *words.names_sp.tolist()])
    lengths = weight.detach()[rows].norm(dim=1, keepdim=True)
    is_row = torch.zeros(len(weight), 1).index_fill(0, rows, 1.0)
    required = [p.requires_grad for p in net.parameters()]
    for p in net.parameters():
        p.requires_grad_(p is weight)
    optimizer = torch.optim.Adam([weight], lr=rate)
    texts = name_texts(words)
    for _ in range(steps):
        optimizer.zero_grad()
        margin_loss(net, texts).backward()  # type: ignore[no-untyped-call]
        assert weight.grad is not None
        weight.grad *= is_row
        optimizer.step()
        with torch.no_grad():
            weight[rows] *= lengths / weight[rows].norm(dim=1, keepdim=True)
    weight.grad = None
    for p, r in zip(net.parameters(), required):
        p.requires_grad_(r)


def name_texts(words: Words) -> tuple[Tensor, Tensor, Tensor]:
    """For every name: a move at the start of a paragraph, a move after another sentence, each ending at the place, and a question up to " the"."""
    e = words.enc
    head = [0, *e("Read the story and answer the question."), *e("\n\n")]
    other = [words.one("The"), int(words.objects_sp[0]), words.one(" was"), int(words.first_sp[0]), words.one(".")]
    place = [int(words.places_sp[0])]
    first = [[*head, *other, *e("\n\n"), n, *e(" went to the"), *place] for n in words.names.tolist()]
    later = [[*head, *other, n, *e(" went to the"), *place] for n in words.names_sp.tolist()]
    asked = [[*head, *other, *e("\n\n"), *e("Question: Where is"), n, *e("?"), *e("\nAnswer:"), n, *e(" is in the")] for n in words.names_sp.tolist()]
    return torch.tensor(first), torch.tensor(later), torch.tensor(asked)


def margin_loss(net: Llama, texts: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    total = torch.zeros(())
    for least, others in comparisons(net, texts):
        total = total + F.softplus(torch.logsumexp(others / TEMPERATURE, 1) - least / TEMPERATURE).mean()
    return total


def comparisons(net: Llama, texts: tuple[Tensor, Tensor, Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """By head and query: logits of each name with itself, the lesser of both keys, [names], and with the others, [names, keys], own ones -inf."""
    inputs: list[list[Tensor]] = [[], [], []]
    for ids, mine in zip(texts, inputs):
        net.hidden(ids, mine)
    first, later, asked = inputs
    for head in NAME_HEADS:
        keys = torch.cat([project(net, head, first, -1)[1], project(net, head, later, -1)[1]])
        queries = [project(net, head, asked, -1)[0]]
        if head == PRIOR_HEAD:
            queries += [project(net, head, first, -2)[0], project(net, head, later, -2)[0]]
        for q in queries:
            logits = q @ keys.T
            own = torch.eye(len(q), dtype=torch.bool).repeat(1, 2)
            yield logits[own].view(len(q), 2).min(1).values, logits.masked_fill(own, -torch.inf)


def project(net: Llama, head: Head, inputs: list[Tensor], at: int) -> tuple[Tensor, Tensor]:
    """Scaled queries and keys of a head at one position, [rows, D], not rotated, without the bands that rotate."""
    c, block = net.config, net.blocks()[head[0]]
    a, x = block.self_attn, block.input_layernorm(inputs[head[0]])
    slow = (frequencies(c) < SLOW).repeat(2)
    scale = a.row_scales(x).expand(len(x), c.num_attention_heads, x.shape[1], 1)[:, head[1], at]
    rows = slice(head[1] * c.head_dim, (head[1] + 1) * c.head_dim)
    q, k = (F.linear(x[:, at], w.weight[rows])[:, slow] for w in (a.q_proj, a.k_proj))
    return q * scale, k
