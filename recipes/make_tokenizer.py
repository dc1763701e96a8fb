"""Train the byte-level BPE tokenizer of the shipped models and check that it suits the native tasks.

Every word of eval_tasks/tasks/lexicon.txt must be one token, bare and after a space, and so must the words of the
templates in docs/tasks.md. Bare forms are shown more often than spaced ones so that a spaced word is the bare word plus
one merge, which keeps the vocabulary small.

    python recipes/make_tokenizer.py            (writes models/*/tokenizer.json and its two companions)
"""

import json
import pathlib
from typing import Iterator

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARMS = ("baseline", "focal-constant", "focal-learned")
BEGIN, END = "<|begin|>", "<|end|>"
CONTEXT_TOKENS_MAX = 65536

# Words of the templates that open a line, and those that follow a space.
BARE = "Find Label Answer Document Question Read".split()
SPACED = (
    "the key in JSON object and copy its value last line like lines above it question from documents of What is The "
    "friend story answer Where was went to took left"
).split()
JOINTS = ['":"', '","', '{"', '"}', " =", "The"] + [f" {digit}" for digit in range(10)]


def read_lexicon(path: pathlib.Path = ROOT / "eval_tasks/tasks/lexicon.txt") -> dict[str, list[str]]:
    """Sections of the lexicon, in file order: {name: [word, ...]}."""
    sections: dict[str, list[str]] = {}
    name = ""
    for line in path.read_text().splitlines():
        line = line.strip()
        if line.startswith("["):
            name = line[1:-1]
            sections[name] = []
        elif line and not line.startswith("#"):
            sections[name].append(line)
    return sections


def corpus(words: list[str]) -> Iterator[str]:
    for word in words:
        yield from [word] * 4 + [" " + word]
    yield from BARE * 4
    for word in SPACED:
        yield from [" " + word] * 6
    yield from JOINTS * 4


def train(words: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        corpus(words),
        trainers.BpeTrainer(
            vocab_size=2048,
            min_frequency=1,
            special_tokens=[BEGIN, END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    return tokenizer


def check(tokenizer: Tokenizer, sections: dict[str, list[str]]) -> None:
    words = [word for section in sections.values() for word in section]
    assert len(words) == len(set(words)), "a word is in two sections"
    assert "friend" not in words, "friend is reserved by rag_facts"
    assert tokenizer.token_to_id(BEGIN) == 0 and tokenizer.get_vocab_size() <= 2048
    pieces = [f for w in words for f in (w, " " + w)] + BARE + [" " + w for w in SPACED] + JOINTS
    pieces += list("0123456789") + ["\n", "-", ".", ":", "?"]
    broken = [p for p in pieces if len(tokenizer.encode(p, add_special_tokens=False).ids) != 1]
    assert not broken, f"not one token: {broken}"


def save(tokenizer: Tokenizer, directory: pathlib.Path, pretty: bool, **more: str) -> None:
    """With its companions; `more` are keys of tokenizer_config.json."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=pretty)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BEGIN, "eos_token": END, "add_prefix_space": False,
              "clean_up_tokenization_spaces": False, "model_max_length": CONTEXT_TOKENS_MAX, **more}  # fmt: skip
    generation = {"bos_token_id": 0, "eos_token_id": 1, "do_sample": False}
    for name, value in (("tokenizer_config", config), ("generation_config", generation)):
        (directory / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n")


def main() -> None:
    sections = read_lexicon()
    tokenizer = train([word for section in sections.values() for word in section])
    check(tokenizer, sections)
    for arm in ARMS:
        save(tokenizer, ROOT / "models" / arm, pretty=True)
    counts = ", ".join(f"{len(v)} {k}" for k, v in sections.items())
    print(f"{tokenizer.get_vocab_size()} entries; every word of {counts} is one token, bare and after a space")


if __name__ == "__main__":
    main()
