"""Questions that need three look-ups, with and without a block in which they are written down.

Notes say of every name which one it leads to: " Ada is Ben. Ben is Eva. ..", in random order. Asked for a name, the answer
is the third after it. A block has the three steps, and then the same once more as a check:

    <think>
     Ada is Ben. Ben is Eva. Eva is Tom.
     Ada is Ben. Ben is Eva. Eva is Tom.
    </think>

     Tom<|end|>

Sequences of training are conversations with several questions about one set of notes. Without thinking the prompt has an
empty block, as the chat template writes it. In some the block ends after the first line without a newline, as where its
end is forced.
"""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer

from llama.data import Rng
from make_tokenizer import BEGIN, END, read_lexicon, train

STEPS = 3
USER, ASSISTANT, SYSTEM, THINK, END_THINK = "<|user|>", "<|assistant|>", "<|system|>", "<think>", "</think>"
# As Qwen3's: thinking is on unless enable_thinking is false, and then the prompt has an empty block.
TEMPLATE = (
    "{{- '" + BEGIN + "' }}"
    "{%- for message in messages %}"
    "{{- '<|' + message.role + '|>' + message.content + '" + END + "' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '" + ASSISTANT + "' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '" + THINK + "\\n\\n" + END_THINK + "\\n\\n' }}"
    "{%- endif %}"
    "{%- endif %}"
)


def make_tokenizer() -> Tokenizer:
    """Names are one token. The marks of a block are text to a decoder, as Qwen3's."""
    tokenizer = train(read_lexicon()["names"])
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in (USER, ASSISTANT, SYSTEM)])
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in (THINK, END_THINK)])
    return tokenizer


@dataclasses.dataclass(frozen=True)
class Notes:
    order: list[int]  # of names, as their sentences come
    after: dict[int, int]  # name: the one that it leads to

    def chain(self, start: int) -> list[int]:
        names = [start]
        for _ in range(STEPS):
            names.append(self.after[names[-1]])
        return names


def make_notes(rng: Rng, pool: int, count: int) -> Notes:
    """`count` of `pool` names in one ring, so that no chain returns to its start."""
    ring = rng.choice(pool, size=count, replace=False).tolist()
    return Notes(order=rng.permutation(ring).tolist(), after=dict(zip(ring, ring[1:] + ring[:1])))


class Writer:
    """Token ids of notes and of conversations about them, with marks on the tokens that are determined by those before."""

    def __init__(self) -> None:
        self.tokenizer = make_tokenizer()
        self.names = [self.one(" " + name) for name in read_lexicon()["names"]]
        self.is_, self.dot = self.one(" is"), self.one(".")

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def one(self, text: str) -> int:
        ids = self.ids(text)
        assert len(ids) == 1, text
        return ids[0]

    def sentence(self, name: int, after: int) -> list[int]:
        return [self.names[name], self.is_, self.names[after], self.dot]

    def sequence(self, rng: Rng, length: int, fewest: int, most: int) -> tuple[list[int], list[int]]:
        """Ids of one conversation, and of each whether the next token is trained on."""
        count = int(round(np.exp(rng.uniform(np.log(fewest), np.log(most)))))
        notes = make_notes(rng, len(self.names), count)
        ids: list[int] = [self.one(BEGIN), self.one(USER)]
        sure = [0, 0]

        def put(more: list[int], is_sure: int) -> None:
            ids.extend(more)
            sure.extend([is_sure] * len(more))

        for name in notes.order:
            put(self.sentence(name, notes.after[name]), 0)
        put(self.ids("\n\n"), 0)
        is_first = True
        while len(ids) < length:
            chain = notes.chain(int(rng.choice(notes.order)))
            put(([] if is_first else [self.one(USER)]) + self.ids("Question:") + [self.names[chain[0]], self.one(END), self.one(ASSISTANT)], 0)
            is_first = False
            steps = [token for a, b in zip(chain, chain[1:]) for token in self.sentence(a, b)]
            kind = rng.random()
            if kind < 0.5:
                line = self.ids("\n")
                put([self.one(THINK)] + line + steps + line + steps + line + [self.one(END_THINK)] + self.ids("\n\n"), 1)
            elif kind < 0.75:  # forced
                put([self.one(THINK)] + self.ids("\n") + steps, 1)
                put([self.one(END_THINK)] + self.ids("\n\n"), 0)
            else:  # off
                put(self.ids(f"{THINK}\n\n{END_THINK}\n\n"), 0)
            put([self.names[chain[-1]], self.one(END)], 1)
        return ids[:length], sure[1:length] + [0]

    def batch(self, seed: int, step: int, rows: int, length: int, fewest: int, most: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        rng = np.random.default_rng([seed, step])
        made = [self.sequence(rng, length, fewest, most) for _ in range(rows)]
        return np.array([ids for ids, _ in made]), np.array([marks for _, marks in made], dtype=bool)


SUITE = """\
# Three look-ups in a row, by models that may write them down first. Made by `python -m thinking` in recipes.
name: three_steps
description: The third name after a given one, from notes of which name leads to which
seed: 1
lengths: [{length}]
answer: {{max_new_tokens: 8, thinking_max_tokens: {thinking}}}
tasks:
  - kind: jsonl
    name: three_steps
    form: chat
    parameters: {{path: rows.jsonl, id: id, context: notes, evidence: steps, prompt: "{{notes}}\\n\\nQuestion: {{start}}", gold: third}}
    metrics: [exact_match]
"""


def write_questions(directory: pathlib.Path, seed: int, contexts: int, count: int) -> None:
    """rows.jsonl and suite.yaml: four questions on each of `contexts` notes of `count` names."""
    names = read_lexicon()["names"]
    rng = np.random.default_rng([seed, 2])
    writer = Writer()
    longest = 0
    with (directory / "rows.jsonl").open("w") as file:
        for c in range(contexts):
            notes = make_notes(rng, len(names), count)
            text = " ".join(f"{names[n]} is {names[notes.after[n]]}." for n in notes.order)
            for q, start in enumerate(rng.choice(notes.order, size=4, replace=False).tolist()):
                chain = notes.chain(start)
                row = {"id": f"{c}.{q}", "notes": " " + text, "start": names[start], "third": names[chain[-1]],
                       "steps": [f"{names[a]} is {names[b]}." for a, b in zip(chain, chain[1:])]}  # fmt: skip
                longest = max(longest, len(writer.ids(f"{BEGIN}{USER}{row['notes']}\n\nQuestion: {row['start']}{END}{ASSISTANT}")))
                file.write(json.dumps(row) + "\n")
    # The empty block of thinking=off is part of the prompt.
    length = longest + len(writer.ids(f"{THINK}\n\n{END_THINK}\n\n"))
    block = len(writer.ids(f"{THINK}\n\n\n{END_THINK}")) + 2 * STEPS * 4
    (directory / "suite.yaml").write_text(SUITE.format(length=length, thinking=block + 8))
