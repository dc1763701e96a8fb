"""Training data of the shipped models: the four native tasks in the wording of docs/tasks.md, and rotated copies.

Each generator returns (ids, marks): token ids of one sequence that starts with the begin token, and for each position
whether the *next* token is determined by what came before and is therefore trained on. One context is followed by
several questions where the evaluation asks one: more marks per token. Streams are keyed by (seed, step), and nothing
here is shared with the C++ generators of the evaluation, so no seed of theirs can give a sequence of ours.

    python -m llama show      prints one sequence of each family
"""

import dataclasses
import pathlib
from typing import Any, Callable, Sequence

import numpy as np
from tokenizers import Tokenizer

from make_tokenizer import ROOT, read_lexicon

Array = np.ndarray[Any, np.dtype[np.int64]]
Rng = np.random.Generator
TOKENIZER = ROOT / "models/baseline/tokenizer.json"


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """How hard the sequences are, and what is asked in them; `easy` and all below are shares.

    `easy`: of contexts cut to a few pairs, documents or sentences. `quiet`: of icl_labels contexts without a noise word. `friend`: of
    documents that name a friend; `hop`: of questions through two documents; `bridge`: of these, questions for the friend itself,
    which the evaluation does not ask. `stops`: whether the token that closes an answer is trained on as well, so that
    generation ends. `documents`: of an easy rag_facts context, from and below.
    `moved`: of questions of longqa_story, those about a person who moved more than once. `full`: of its stories that take 0.79 to 0.92
    of the sequence (0.98 in the evaluation): else most questions are about short stories, after which more of them fit. `planted`: of its
    stories in which some persons move at u d, v d and d of the story (u, v and d uniform) and not after, and are asked about, as in the evaluation;
    `planted_persons`: how many, at most. `once`: of longqa_story contexts whose questions are about different persons: else the answer of most
    questions of a full context is a copy of an earlier answer.
    `full_documents`: of rag_facts contexts that take as much of the sequence. `full_shares`: the range of a full context's part of the sequence,
    by an estimate of the tokens of a sentence and a document that is above the average.
    `alike`: of rag_facts contexts whose documents all state the same three attributes, so that an attribute does not tell the document.
    """

    easy: float = 0.0
    quiet: float = 0.0
    friend: float = 0.35
    hop: float = 0.35
    bridge: float = 0.0
    stops: bool = False
    documents: tuple[int, int] = (1, 4)
    alike: float = 0.0
    moved: float = 0.0
    full: float = 0.0
    planted: float = 0.0
    full_documents: float = 0.0
    full_shares: tuple[float, float] = (0.85, 0.97)
    planted_persons: int = 6
    once: float = 0.0

    def __post_init__(self) -> None:
        for name in ("easy", "quiet", "friend", "hop", "bridge", "alike", "moved", "full", "planted", "full_documents", "once"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, not a share from 0 to 1")
        low, high = self.full_shares
        if not 0 < low <= high <= 1:
            raise ValueError(f"full_shares are {low} and {high}, not a range of shares from 0 to 1")


class Words:
    """Token ids of every word and template piece."""

    def __init__(self, path: pathlib.Path = TOKENIZER) -> None:
        self.tokenizer = Tokenizer.from_file(str(path))
        self.memo: dict[str, list[int]] = {}
        bare, spaced = {}, {}
        for name, words in read_lexicon().items():
            bare[name] = np.array([self.one(w) for w in words])
            spaced[name] = np.array([self.one(" " + w) for w in words])
        self.first, self.first_sp = bare["first"], spaced["first"]
        self.second, self.second_sp = bare["second"], spaced["second"]
        self.names, self.names_sp = bare["names"], spaced["names"]
        self.places_sp = spaced["places"]
        self.objects, self.objects_sp = bare["objects"], spaced["objects"]
        self.attributes, self.attributes_sp = bare["attributes"], spaced["attributes"]
        self.digits = np.array([self.one(f" {d}") for d in range(10)])

    def one(self, text: str) -> int:
        ids = self.enc(text)
        if len(ids) != 1:
            raise ValueError(f"{text!r} is {len(ids)} tokens, not one")
        return ids[0]

    def enc(self, text: str) -> list[int]:
        if text not in self.memo:
            self.memo[text] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.memo[text]


class Out:
    """A growing sequence with marks on the tokens that are determined."""

    def __init__(self) -> None:
        self.ids: list[int] = [0]
        self.sure: list[int] = [0]

    def put(self, ids: Sequence[int | np.integer[Any]], sure: int = 0) -> None:
        self.ids.extend(map(int, ids))
        self.sure.extend([sure] * len(ids))

    def one(self, token: int, sure: int = 0) -> None:
        self.ids.append(int(token))
        self.sure.append(sure)

    def done(self, length: int) -> tuple[list[int], list[int]]:
        ids = self.ids[:length]
        pad = length - len(ids)
        return ids + [1] * pad, self.sure[1:length] + [0] * (pad + 1)


def pick(rng: Rng, n: int, k: int) -> Array:
    return rng.choice(n, size=k, replace=False)


def copy(rng: Rng, w: Words, length: int, data_options: DataOptions, share: float | None = None) -> tuple[list[int], list[int]]:
    """A list of distinct words and the same list rotated by a random amount."""
    out = Out()
    pool = np.concatenate([w.first, w.second_sp, w.second, w.first_sp, w.names_sp, w.places_sp])
    n = int(np.exp(rng.uniform(np.log(4), np.log(min(length // 2 - 2, len(pool))))))
    while len(out.ids) + 2 * n <= length or len(out.ids) == 1:
        items = pool[pick(rng, len(pool), n)]
        shift = int(rng.integers(n))
        rolled = np.roll(items, -shift)
        out.put([*items, rolled[0]])
        out.put(rolled[1:].tolist(), 1)
    return out.done(length)


def context_share(rng: Rng, length: int, low: float) -> float:
    """The part of a sequence that is context; the rest is questions. Long contexts are mostly context."""
    return 1 - rng.random() ** 2 * 0.6 if length > 600 else rng.uniform(low, 0.8)


def keys(rng: Rng, w: Words, n: int) -> tuple[Array, Array]:
    """n distinct (first, second) pairs from as few words as make them share words often, or from all."""
    side = int(np.ceil(np.sqrt(n) * rng.uniform(1.05, 3.0))) + 1
    a, b = min(len(w.first), side), min(len(w.second), side)
    if rng.random() < 0.4 or a * b < n:
        a, b = len(w.first), len(w.second)
    flat = pick(rng, a * b, n)
    pa, pb = pick(rng, len(w.first), a), pick(rng, len(w.second), b)
    return pa[flat // b], pb[flat % b]


def recall_kv(rng: Rng, w: Words, length: int, data_options: DataOptions, share: float | None = None) -> tuple[list[int], list[int]]:
    e, out = w.enc, Out()
    out.put(e("Find the key in the JSON object and copy its value.\n\n{\""))
    share = share or context_share(rng, length, 0.3)
    n = max(2, int((length * share - 30) / 5))
    if rng.random() < data_options.easy:
        n = min(n, int(rng.integers(2, 9)))
    if data_options.easy and n <= min(len(w.first), len(w.second)) and rng.random() < data_options.easy:
        k1, k2 = pick(rng, len(w.first), n), pick(rng, len(w.second), n)
    else:
        k1, k2 = keys(rng, w, n)
    value = w.second[rng.integers(len(w.second), size=n)]
    colon, comma = e('":"'), e('","')
    for i in range(n):
        out.put([*(comma if i else []), w.first[k1[i]], w.second_sp[k2[i]], *colon, value[i]])
    out.put(e('"}'))
    while len(out.ids) < length:
        i = int(rng.integers(n))
        out.put([*e("\n\n"), *e('"'), w.first[k1[i]], w.second_sp[k2[i]], *colon])
        out.one(value[i], 1)
        out.put(e('"'), int(data_options.stops))
    return out.done(length)


def icl_labels(rng: Rng, w: Words, length: int, data_options: DataOptions, share: float | None = None) -> tuple[list[int], list[int]]:
    e, out = w.enc, Out()
    out.put(e("Label the last line like the lines above it.\n"))
    classes = 8 if share or rng.random() < 0.7 and rng.random() >= data_options.easy else int(rng.integers(2, 9))
    pool = np.concatenate([w.first_sp, w.second_sp])
    owned = pool[pick(rng, len(pool), classes * 5)].reshape(classes, 5)
    label = w.digits[rng.permutation(classes)]
    dash, eq, nl, seen = w.one("-"), w.one(" ="), w.one("\n"), 0
    noise = not data_options.quiet or rng.random() >= data_options.quiet
    out.one(nl)
    while len(out.ids) < length:
        for c in rng.permutation(classes):
            if noise:
                two = owned[c][pick(rng, 5, 2)]
                other = owned[(c + 1 + rng.integers(classes - 1)) % classes][rng.integers(5)]
                line = np.array([two[0], two[1], other])[rng.permutation(3)]
            else:
                line = owned[c][pick(rng, 5, 3)]
            out.put([dash] + line.tolist() + [eq])
            out.one(label[c], 1 if seen >= 2 else 0)
            out.one(nl, int(data_options.stops and seen >= 2))
        seen += 1
    return out.done(length)


def rag_facts(rng: Rng, w: Words, length: int, data_options: DataOptions, share: float | None = None) -> tuple[list[int], list[int]]:
    e, out = w.enc, Out()
    out.put(e("Answer the question from the documents."))
    share = share or context_share(rng, length, 0.3)
    if data_options.full_documents and rng.random() < data_options.full_documents:
        share = rng.uniform(*data_options.full_shares)
    n = max(2, int((length * share - 20) / 33))
    if rng.random() < data_options.easy:
        n = min(n, int(rng.integers(*data_options.documents)))
    k1, k2 = keys(rng, w, n)
    names = np.stack([w.first_sp[k1], w.second_sp[k2]], 1).tolist()
    attrs, values, friend = [], [], np.full(n, -1)
    the, of, is_, dot = w.one(" The"), w.one(" of"), w.one(" is"), w.one(".")
    a_few = rng.random() < 0.5
    few = pick(rng, len(w.attributes), 4)
    if alike := rng.random() < data_options.alike:
        few = few[:3]
    for i in range(n):
        a = few[pick(rng, len(few), 3)] if a_few or alike else pick(rng, len(w.attributes), 3)
        v = rng.integers(len(w.second), size=3)
        attrs.append(a)
        values.append(v)
        out.put(e("\n\nDocument:") + names[i] + e("\n"))
        order = [0, 1, 2]
        if n > 1 and rng.random() < data_options.friend:
            friend[i] = (i + 1 + rng.integers(n - 1)) % n
            spot = int(rng.integers(3))
            order[spot] = 3
        for j, what in enumerate(order):
            attribute, told = (w.one(" friend"), names[friend[i]]) if what == 3 else (w.attributes_sp[a[what]], [w.second_sp[v[what]]])
            out.put([the if j else w.one("The"), attribute, of, *names[i], is_, *told, dot])
        if friend[i] >= 0:
            keep = [o for o in order if o != 3]
            attrs[i], values[i] = a[keep], v[keep]
    with_friend = np.flatnonzero(friend >= 0)
    while len(out.ids) < length:
        hop = len(with_friend) > 0 and rng.random() < data_options.hop
        i = int(with_friend[rng.integers(len(with_friend))]) if hop else int(rng.integers(n))
        if hop and data_options.bridge and rng.random() < data_options.bridge:
            phrase = [w.one(" friend"), of, *names[i]]
            out.put(e("\n\nQuestion: What is the") + phrase + e("?") + e("\nAnswer: The") + phrase + [is_])
            out.put(names[friend[i]], 1)
            out.one(dot, int(data_options.stops))
            continue
        target = int(friend[i]) if hop else i
        j = int(rng.integers(len(attrs[target])))
        phrase = [int(w.attributes_sp[attrs[target][j]]), of]
        phrase += (e(" the friend of") if hop else []) + names[i]
        out.put(e("\n\nQuestion: What is the") + phrase + e("?") + e("\nAnswer: The") + phrase + [is_])
        out.one(w.second_sp[values[target][j]], 1)
        out.one(dot, int(data_options.stops))
    return out.done(length)


def longqa_story(rng: Rng, w: Words, length: int, data_options: DataOptions, share: float | None = None) -> tuple[list[int], list[int]]:
    e, out = w.enc, Out()
    out.put(e("Read the story and answer the question.") + e("\n\n"))
    share = share or context_share(rng, length, 0.4)
    if data_options.full and rng.random() < data_options.full:
        share = rng.uniform(*data_options.full_shares)
    sentences = max(4, int((length * share - 12) / 6.05))
    if rng.random() < data_options.easy:
        sentences = min(sentences, int(rng.integers(4, 20)))
    count = int(rng.integers(2, 49)) if rng.random() >= data_options.easy else int(rng.integers(2, 7))
    names = pick(rng, len(w.names), count)
    retire = rng.random(count) ** rng.choice([0.3, 1.0]) * sentences
    place = np.full(count, -1)
    moves = np.zeros(count, dtype=np.int64)
    plan: dict[int, int] = {}  # sentence: who moves in it
    if data_options.planted and rng.random() < data_options.planted:
        for who in range(min(count, data_options.planted_persons)):
            d = rng.random()
            retire[who] = -1
            for depth in (d * rng.random(), d * rng.random(), d):
                plan.setdefault(int(depth * sentences), who)
    went, took, left, was = e(" went to the"), e(" took the"), e(" left the"), w.one(" was")
    the_bare, the, dot, nl = w.one("The"), w.one(" The"), w.one("."), e("\n\n")
    for s in range(sentences):
        if s and s % 8 == 0:
            out.put(nl)
        start = s % 8 == 0
        who, kind = int(rng.integers(count)), rng.random()
        if s in plan:
            kind = 0.0
        name = (w.names if start else w.names_sp)[names[who]]
        if kind < 0.5:
            alive = np.array([plan[s]]) if s in plan else np.flatnonzero(retire >= s)
            if len(alive) == 0:
                kind = 0.5 + rng.random() / 2
            else:
                who = int(alive[rng.integers(len(alive))])
                name = (w.names if start else w.names_sp)[names[who]]
                place[who] = (place[who] + 1 + rng.integers(47)) % 48 if place[who] >= 0 else rng.integers(48)
                moves[who] += 1
                out.put([name, *went, w.places_sp[place[who]]])
        thing = w.objects_sp[rng.integers(len(w.objects))]
        if 0.5 <= kind < 0.85:
            out.put([name, *(took if kind < 0.68 else left), thing])
        elif kind >= 0.85:
            out.put([the_bare if start else the, thing, was, w.first_sp[rng.integers(len(w.first))]])
        out.one(dot)
    known = np.flatnonzero(place >= 0)
    if len(known) == 0:
        return longqa_story(rng, w, length, data_options, share)
    often = np.flatnonzero(moves > 1)
    if plan and len(asked_about := np.intersect1d(often, list(plan.values()))):
        often = asked_about
    once = data_options.once > 0 and rng.random() < data_options.once
    while len(out.ids) < length and len(known):
        asked = often if data_options.moved and len(often) and rng.random() < data_options.moved else known
        who = int(asked[rng.integers(len(asked))])
        if once:
            known, often = known[known != who], often[often != who]
        name = w.names_sp[names[who]]
        out.put([*nl, *e("Question: Where is"), name, *e("?"), *e("\nAnswer:"), name, *e(" is in the")])
        out.one(w.places_sp[place[who]], 1)
        out.one(dot, int(data_options.stops))
    return out.done(length)


def asks_two_documents(w: Words, tokens: list[int], at: int) -> bool:
    """Whether " is" at position `at` ends "<attribute> of the friend of <name> is"; a name is two tokens."""
    return tokens[at - 4] == w.one(" friend") and tokens[at - 6] == w.one(" of")


Family = Callable[[Rng, Words, int, DataOptions, float | None], tuple[list[int], list[int]]]
TASKS: dict[str, Family] = {"recall_kv": recall_kv, "icl_labels": icl_labels, "rag_facts": rag_facts, "longqa_story": longqa_story}
FAMILIES = TASKS | {"copy": copy}


def batch(w: Words, seed: int, step: int, rows: int, length: int, mix: dict[str, float], data_options: DataOptions = DataOptions()) -> tuple[Array, Array]:
    """(ids, marks) of shape [rows, length]; `mix` gives the share of each family."""
    rng = np.random.default_rng([seed, step])
    names = list(mix)
    share = np.array([mix[n] for n in names])
    # Fixed quotas with a random remainder, so that each batch holds every family.
    quota = share / share.sum() * rows
    offset = rng.random()
    edge = np.floor(np.concatenate([[0], np.cumsum(quota)]) + offset).astype(int)
    ids, marks = [], []
    for name, k in zip(names, np.diff(edge)):
        for _ in range(k):
            i, m = FAMILIES[name](rng, w, length, data_options, None)
            ids.append(i)
            marks.append(m)
    return np.array(ids, dtype=np.int64), np.array(marks, dtype=bool)


def show() -> None:
    words = Words()
    rng = np.random.default_rng(1)
    for name, family in TASKS.items():
        ids, marks = family(rng, words, 300, DataOptions(easy=0.3), None)
        text = words.tokenizer.decode(ids, skip_special_tokens=False).split("<|end|>")[0]
        print(f"==== {name}: {sum(marks)} marks\n{text}")
