"""Golden ids and texts of tokenizers, from the `tokenizers` library on tokenizer.json as it is.

    python recipes/goldens/make_tokenizers.py          (writes tests/testdata/goldens/tokenizers)
    python recipes/goldens/make_tokenizers.py mutation_test    (writes MUTATION_TEST.md there: how many texts each mistake changes)

The families are in tokenizer_families.py; the tokenizer that ships with the models is judged in its own place. golden.json
holds the ids of every text of texts.json without special tokens (`before` and `behind` stand around them by default), and
by index only what differs: ids with special tokens read as text, decoded text where it is not the text itself. Of the
offsets of each text's tokens, specials included, it holds the beginning of a SHA-256.
"""

import copy
import hashlib
import json
import pathlib
import random
import sys

import tokenizer_families
import tokenizer_texts
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/testdata/goldens/tokenizers"
SHIPPED = ROOT / "models/baseline/tokenizer.json"
WORD_SIZE = 1_000_000


def dump(value):
    return json.dumps(value, separators=(",", ":"))


def encode_all(tokenizer, texts):
    """Plain ids of all texts, and what stands around them."""
    empty, full = tokenizer.encode("").ids, [tokenizer.encode(t).ids for t in texts]
    plain = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
    before = next(n for n in range(len(empty) + 1) if all(f[n : len(f) - len(empty) + n] == p for f, p in zip(full, plain)))
    before, behind = empty[:before], empty[before:]
    assert all(before + p + behind == f for f, p in zip(full, plain))
    return plain, before, behind


def offsets_digest(tokenizer, text):
    encoded = tokenizer.encode(text)
    pairs = tokenizer_texts.byte_offsets(text, encoded.offsets)
    return hashlib.sha256("".join(f"{begin},{end};" for begin, end in pairs).encode()).hexdigest()[:8]


def golden(tokenizer, texts):
    plain, before, behind = encode_all(tokenizer, texts)
    tokenizer.encode_special_tokens = True
    as_text = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
    tokenizer.encode_special_tokens = False
    decoded, kept = ([tokenizer.decode(p, skip_special_tokens=s) for p in plain] for s in (True, False))
    repaired = [bytes.fromhex(b).decode("utf-8", errors="replace") for b in tokenizer_texts.BYTES]
    word = dump(tokenizer.encode(tokenizer_texts.long_word(WORD_SIZE, 26), add_special_tokens=False).ids)
    # Ids in an order that no text gives: pieces of characters, unknown tokens, specials.
    rng, decodes = random.Random(1), []
    low = max(tokenizer.token_to_id(t) or 0 for t in ("<0xFF>", "\u00ff", "a")) + 1  # about where bytes and letters are
    for _ in range(50):
        ids = [rng.randrange(rng.choice([low, tokenizer.get_vocab_size()])) for _ in range(rng.randint(1, 12))]
        decodes.append([ids, tokenizer.decode(ids), tokenizer.decode(ids, skip_special_tokens=False)])
    return {
        "before": before, "behind": behind, "ids": plain,
        "as_text": {i: a for i, a in enumerate(as_text) if a != plain[i]},
        "decoded": {i: d for i, d in enumerate(decoded) if d != texts[i]},
        "kept": {i: k for i, k in enumerate(kept) if k != decoded[i]},
        "bytes": [tokenizer.encode(t, add_special_tokens=False).ids for t in repaired],
        "decodes": decodes,
        "word_sha256": hashlib.sha256(word.encode()).hexdigest(),
        "offsets": [offsets_digest(tokenizer, t) for t in texts],
    }


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    texts = tokenizer_texts.texts()
    lines = ",\n".join(dump(t) for t in texts)
    (OUT / "texts.json").write_text(f'{{"bytes":{dump(tokenizer_texts.BYTES)},\n"word_size":{WORD_SIZE},\n"texts":[\n{lines}\n]}}\n')
    for name in [*tokenizer_families.FAMILIES, "shipped"]:
        directory = OUT / name
        directory.mkdir(exist_ok=True)
        path = SHIPPED if name == "shipped" else directory / "tokenizer.json"
        if name != "shipped":
            content = tokenizer_families.FAMILIES[name]()
            path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")))
        result = golden(Tokenizer.from_file(str(path)), texts)
        (directory / "golden.json").write_text("{" + ",\n".join(f"{dump(key)}:{dump(value)}" for key, value in result.items()) + "}\n")
        print(f"{name}: {len(texts)} texts, {sum(map(len, result['ids']))} ids")


def put(*path_and_value):
    """A mistake: sets the value at a path of tokenizer.json."""
    *path, last, value = path_and_value
    def change(content):
        for key in path:
            content = content[key]
        content[last] = value(content[last]) if callable(value) else value
    return change


def flags(name, value):
    return lambda content: [token.update({name: value}) for token in content["added_tokens"]]


def pattern(old, new):
    def change(content):
        for step in content["pre_tokenizer"]["pretokenizers"]:
            if "pattern" in step and "Regex" in step["pattern"]:
                step["pattern"]["Regex"] = step["pattern"]["Regex"].replace(old, new)
    return change


def without(*path):
    return lambda content: put(*path, lambda steps: steps[1:])(content)


def behavior(name):
    return put("pre_tokenizer", "pretokenizers", 0, "behavior", name)


REVERSED, NULL = (lambda merges: merges[::-1]), None
MISTAKES = [
    ("gpt2", "a space is put in front", put("pre_tokenizer", "add_prefix_space", True)),
    ("gpt2", "no regular expression", put("pre_tokenizer", "use_regex", False)),
    ("gpt2", "merges in the wrong order", put("model", "merges", REVERSED)),
    ("gpt2", "bytes decoded as characters", put("decoder", NULL)),
    ("added-flags", "lstrip ignored", flags("lstrip", False)),
    ("added-flags", "rstrip ignored", flags("rstrip", False)),
    ("added-flags", "single_word ignored", flags("single_word", False)),
    ("added-flags", "added tokens looked for before normalization", flags("normalized", False)),
    ("added-flags", "added tokens looked for after normalization", flags("normalized", True)),
    ("added-flags", "cls and sep left out", put("post_processor", NULL)),
    ("neox", "no NFC", put("normalizer", NULL)),
    ("neox", "runs of spaces are no tokens", put("added_tokens", lambda tokens: [t for t in tokens if t["content"].strip()])),
    ("llama3", "whole words not looked up first", put("model", "ignore_merges", False)),
    ("llama3", "contractions in lower case only", pattern("(?i:", "(?:")),
    ("llama3", "digits one by one", pattern("{1,3}", "")),
    ("llama3", "line breaks do not follow punctuation", pattern("[\\r\\n]*", "")),
    ("llama3", "the last space stays with the run", pattern("\\s+(?!\\S)|", "")),
    ("llama3", "any character before letters", pattern("[^\\r\\n\\p{L}\\p{N}]?", " ?")),
    ("llama3", "matches taken away", behavior("Removed")),
    ("llama3", "no begin token", put("post_processor", NULL)),
    ("qwen2", "three digits together", pattern("\\p{N}|", "\\p{N}{1,3}|")),
    ("qwen2", "no NFC", put("normalizer", NULL)),
    ("qwen2", "NFKC", put("normalizer", "type", "NFKC")),
    ("tekken", "no words in capitals", pattern("\\p{Lu}", "")),
    ("tekken", "marks are no letters", pattern("\\p{M}", "")),
    ("tekken", "slashes do not follow punctuation", pattern("[\\r\\n/]", "[\\r\\n]")),
    ("deepseek", "numbers not cut first", without("pre_tokenizer", "pretokenizers")),
    ("deepseek", "symbols are no punctuation", pattern("\\p{S}", "")),
    ("deepseek", "marks are no letters", pattern("\\p{M}", "")),
    ("llama2", "no space in front", without("normalizer", "normalizers")),
    ("llama2", "spaces stay spaces", put("normalizer", NULL)),
    ("llama2", "no bytes for unknown characters", put("model", "byte_fallback", False)),
    ("llama2", "words cut at spaces", put("pre_tokenizer", {"type": "WhitespaceSplit"})),
    ("llama2", "the first space stays", put("decoder", "decoders", lambda steps: steps[:-1])),
    ("llama2", "bytes not put together", put("decoder", "decoders", lambda steps: [s for s in steps if s["type"] != "ByteFallback"])),
    ("phi3", "rstrip ignored", flags("rstrip", False)),
    ("mistral", "a space in front of every stretch", put("pre_tokenizer", "prepend_scheme", "always")),
    ("mistral", "no space in front", put("pre_tokenizer", "prepend_scheme", "never")),
    ("mistral", "words cut", put("pre_tokenizer", "split", True)),
    ("gemma", "runs of line breaks are no tokens", put("added_tokens", lambda tokens: [t for t in tokens if t["content"].strip("\n")])),
    ("gemma", "a space in front", put("normalizer", {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})),
    ("t5", "no charsmap", put("normalizer", NULL)),
    ("t5", "words not cut at spaces", without("pre_tokenizer", "pretokenizers")),
    ("t5", "no space before words", put("pre_tokenizer", "pretokenizers", 1, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never"})),
    ("t5", "spaces of the first token stay", put("decoder", {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never"})),
    ("xlmr", "no charsmap", without("normalizer", "normalizers")),
    ("xlmr", "spaces at the end stay", put("normalizer", "normalizers", lambda steps: [steps[0], steps[2]])),
    ("xlmr", "runs of spaces stay", put("normalizer", "normalizers", lambda steps: steps[:2])),
    ("xlmr", "all tokens equally likely", put("model", "vocab", lambda vocab: [[token, -5.0] for token, _ in vocab])),
    ("unigram-bytes", "no bytes for unknown characters", put("model", "byte_fallback", False)),
    ("unigram-bytes", "controls stay", without("normalizer", "normalizers")),
    ("unigram-bytes", "marks stay", put("normalizer", "normalizers", lambda steps: steps[:-1])),
    ("unigram-bytes", "capitals stay", put("normalizer", "normalizers", lambda steps: steps[:2] + steps[3:])),
    ("unigram-bytes", "words cut", put("pre_tokenizer", "split", True)),
    ("bert", "capitals and accents stay", put("normalizer", "lowercase", False)),
    ("bert", "ideographs not cut", put("normalizer", "handle_chinese_chars", False)),
    ("bert", "punctuation not cut", put("pre_tokenizer", "type", "WhitespaceSplit")),
    ("bert", "spaces before punctuation stay", put("decoder", "cleanup", False)),
]


def mutation_test():
    texts, rows = tokenizer_texts.texts(), []
    for name, mistake, change in MISTAKES:
        content, right = (json.loads((OUT / name / file).read_text()) for file in ("tokenizer.json", "golden.json"))
        wrong = copy.deepcopy(content)
        change(wrong)
        tokenizer = Tokenizer.from_str(json.dumps(wrong))
        before, behind = right["before"], right["behind"]
        full = [before + ids + behind for ids in right["ids"]]
        encoded = sum(tokenizer.encode(t).ids != ids for t, ids in zip(texts, full))
        decoded = sum(tokenizer.decode(ids) != right["decoded"].get(str(i), texts[i]) for i, ids in enumerate(right["ids"]))
        rows.append(f"| {name} | {mistake} | {encoded} | {decoded} |")
    toothless = [row for row in rows if row.endswith("| 0 | 0 |")]
    assert not toothless, toothless
    table = "\n".join(["| family | mistake | texts encoded otherwise | texts decoded otherwise |", "| --- | --- | --- | --- |", *rows])
    head = "# What the golden ids would notice\n\nFor contributors: which mistakes the golden ids detect. Each row is one deliberate mistake in a family's pipeline, made in\nits tokenizer.json and run by the tokenizers library on"
    (OUT / "MUTATION_TEST.md").write_text(f"{head}\nthe {len(texts)} texts of `texts.json`. Written by `recipes/goldens/make_tokenizers.py mutation_test`, which fails on a row of zeros.\n\n{table}\n")
    print(table)


if __name__ == "__main__":
    mutation_test() if sys.argv[1:] == ["mutation_test"] else main()
