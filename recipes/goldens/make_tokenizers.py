"""Golden ids and texts of byte-level BPE tokenizers, from the `tokenizers` library.

Three small tokenizers are trained here, each set up differently; the shipped one is judged in its own place.

    python recipes/goldens/make_tokenizers.py        (writes tests/testdata/goldens/tokenizers)
"""

import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/testdata/goldens/tokenizers"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PROSE = [
    "The lamp by the door was lit before anyone came home, and it stayed lit until the morning.",
    "She's sure they'll say that we've been late; I'd rather they didn't. It's what we're used to.",
    "In 2026 there were 1234567 stones, 42 boats and 3.14159 pies; about 99.9% of them were small.",
    "def add(a, b):\n    return a + b\n\n\nprint(add(1, 2))  # three\n",
    "Die Straße über den Fluß führt zu größeren Häusern; das Mädchen läuft schnell.",
    "Un été à la plage, où l'eau était très claire et le garçon mangeait des crêpes.",
    "Сегодня утром река была тихой, и лодка стояла у берега.",
    "今日は天気がいいので、海まで歩きました。",
    "\tcolumn one\tcolumn two\r\n\tvalue\tvalue\r\n",
    '{"key": "value", "list": [1, 22, 333], "nested": {"empty": ""}}',
]
TEXTS = [
    "", " ", "  ", "   a", "a   ", "a  b   c", "\n", "\n\n", " \n \n ", "\r\n\r\n", "\t\t x", "x \t\n y", "a\u00a0b", "a\u3000b", "\u200b",
    "\u2028x", "The lamp", " The lamp", "the LAMP", "She's they'll I'D WE'VE 'tis 's's", "can\u2019t", "don't'", "'", "''s",
    "1", "12", "123", "1234", "12345 678901", "3.14159", "1,000,000", "x1y22z333", "\u0661\u0662\u0663", "\u00bd\u00b2", "\u2167",
    "a.b", "...", "!?!?", " !", "a !b", "?!\n\n", "(a)[b]{c}", "https://example.org/a?b=c&d=e#f", "x_y__z", "a-b--c", "#!/bin/sh\n",
    "Straße", "e\u0301t\u00e9", "\u00e9\u0301", "a\u0308\u0327", "\u1e9b\u0323", "\ufb01ne", "\u212b", "\u0130i\u0131", "\u01c5", "\u02b0\u02b1",
    "Сегодня", "今日は、天気。", "한국어", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "x\U0001f44d\U0001f3fdy", "\u2764\ufe0f", "\U00010348", "\U0010ffff",
    "\ufeffbom", "a\u0000b", "\u0001\u007f", "\u0085", "\u00ad", "\ufffd", "a\u0301\u0302\u0303\u0304",
    "<|begin|>", "<|end|>", "a<|end|>b", " <|end|> ", "<|end|><|end|>", "<|end|", "<|END|>", "x<|begin|>y<|end|>z",
    "[L]", "a [L]b", "a   [L]   b", "\n[L]", "[R]", "a[R] b", "a [R]   b", "[R]\n\nb", "[LR]", "a  [LR]  b", "  [LR][LR]  ",
    "[W]", "a[W]b", "a [W] b", "[W].", "_[W]", "1[W]", "\u00e9[W]", "([W])", "[W][W]", "lampshade", "shade", "a shade b", "Lampshade shades shade",
    "Shade", "SHADE", "caf\u00e9 au lait", "cafe\u0301 au lait", "a cafe\u0301[L]", "[N]x[N]", "aa", "aaa", "aaaa", "<<>>", "<<<>>>",
    "unbreakable", " unbreakable", "anunbreakablex", "unbreakables", "doggedness dogged dog",
    "{\"able acorn\":\"ant\",\"big ape\":\"oak\"}\n\n\"big ape\":\"", "- able big ape = 3\n- ape", "Question: Where is Ada?\nAnswer: Ada is in the",
]


def texts():
    """The list above, prose, and seeded mixtures of their pieces."""
    rng = random.Random(7)
    pieces = [t for t in TEXTS if t] + [word for line in PROSE for word in line.split(" ") if word]
    mixed = ["".join(rng.choice(pieces) + rng.choice(["", "", " ", "  ", "\n"]) for _ in range(rng.randint(2, 9))) for _ in range(120)]
    return TEXTS + PROSE + mixed


def train(pre_tokenizer, vocab_size, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(PROSE * 3 + ["dog dogged doggedness"] * 9, trainer)
    return tokenizer


def begin_with(tokenizer, token, end=None):
    pattern = f"{token} $A" + (f" {end}" if end else "")
    special = [(t, tokenizer.token_to_id(t)) for t in (token, end) if t]
    tokenizer.post_processor = processors.TemplateProcessing(single=pattern, pair=f"{token} $A $B", special_tokens=special)


def gpt2_plain():
    """GPT-2's regular expression, a space put in front, no begin token."""
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True), 420)
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def gpt2_added():
    """GPT-2's regular expression with added tokens of every flag; `normalized` changes nothing without a normalizer."""
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), 460)
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>"])
    tokenizer.add_tokens(
        [
            AddedToken("[L]", lstrip=True, normalized=False),
            AddedToken("[R]", rstrip=True, normalized=False),
            AddedToken("[LR]", lstrip=True, rstrip=True, normalized=False),
            AddedToken("[W]", single_word=True, normalized=False),
            AddedToken("shade", single_word=True, normalized=True),
            AddedToken("[N]", normalized=True),
            AddedToken("aa", normalized=False),
            AddedToken("caf\u00e9", normalized=False),
            AddedToken("<<", normalized=False),
            AddedToken("<<<", normalized=False),
        ]
    )
    begin_with(tokenizer, "<|begin|>")
    return tokenizer


def llama3():
    """Llama 3's pipeline: a Split by regular expression, byte level without one, whole words before merges."""
    split = pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated", invert=False)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)
    tokenizer = train(pre_tokenizers.Sequence([split, byte_level]), 440)
    # Entries that no merge reaches: `ignore_merges` finds them all the same, as whole pieces only.
    raw = json.loads(tokenizer.to_str())
    raw["model"]["ignore_merges"] = True
    for word in ("unbreakable", "\u0120unbreakable", "\u0120lamp" + "shade"):
        raw["model"]["vocab"][word] = len(raw["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(raw))
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>"])
    begin_with(tokenizer, "<|begin|>", "<|end|>")
    return tokenizer


def golden(tokenizer, seed):
    cases = []
    for text in texts():
        ids = tokenizer.encode(text).ids
        case = {"text": text, "ids": ids}
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        as_text = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        case |= {"ids_without_specials": plain}
        if as_text != plain:
            case["ids_specials_as_text"] = as_text
        decoded, kept = (tokenizer.decode(plain, skip_special_tokens=s) for s in (True, False))
        if decoded != text:
            case["decoded"] = decoded
        if kept != decoded:
            case["decoded_with_specials"] = kept
        cases.append(case)
    # Ids that no text gives: pieces of characters, which decode to U+FFFD.
    rng, decodes = random.Random(seed), []
    for _ in range(60):
        ids = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randint(1, 12))]
        if rng.random() < 0.6:  # byte entries: broken UTF-8
            ids = [tokenizer.token_to_id(rng.choice("\u00c3\u00c2\u0122\u00a4\u00f0\u0141\u013a\u00e2\u012b\u0140Aa\u0120\u00ed")) for _ in ids]
        kept = tokenizer.decode(ids, skip_special_tokens=False)
        decodes.append({"ids": ids, "decoded": tokenizer.decode(ids), "decoded_with_specials": kept})
    return {"cases": cases, "decodes": decodes}


def check_teeth(goldens):
    """A tokenizer that gets one thing wrong must not match."""
    def wrong(name, change):
        raw = json.loads((OUT / name / "tokenizer.json").read_text())
        change(raw)
        other = Tokenizer.from_str(json.dumps(raw))
        cases = goldens[name]["cases"]
        bad = sum(other.encode(c["text"]).ids != c["ids"] for c in cases)
        return bad, len(cases)

    def all_tokens(flag, value):
        return lambda raw: [t.update({flag: value}) for t in raw["added_tokens"]]

    swap = lambda raw: raw["model"]["merges"].reverse()
    rows = [
        ("gpt2-plain", "no space in front", lambda r: r["pre_tokenizer"].update(add_prefix_space=False)),
        ("gpt2-plain", "no regular expression", lambda r: r["pre_tokenizer"].update(use_regex=False)),
        ("gpt2-plain", "merges in the wrong order", swap),
        ("gpt2-added", "lstrip ignored", all_tokens("lstrip", False)),
        ("gpt2-added", "rstrip ignored", all_tokens("rstrip", False)),
        ("gpt2-added", "single_word ignored", all_tokens("single_word", False)),
        ("gpt2-added", "added tokens ignored", lambda r: r.update(added_tokens=[])),
        ("llama3", "merges not ignored", lambda r: r["model"].update(ignore_merges=False)),
        ("llama3", "GPT-2's expression instead", lambda r: r.update(pre_tokenizer=r["pre_tokenizer"]["pretokenizers"][1] | {"use_regex": True})),
        ("llama3", "no post-processor", lambda r: r.update(post_processor=None)),
    ]
    for name, what, change in rows:
        bad, total = wrong(name, change)
        print(f"  {name:12} {what:28} {bad:3} of {total} texts differ")
        assert bad > 0, what


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    goldens = {}
    made = {"gpt2-plain": gpt2_plain(), "gpt2-added": gpt2_added(), "llama3": llama3()}
    shipped = Tokenizer.from_file(str(ROOT / "models/baseline/tokenizer.json"))
    for seed, (name, tokenizer) in enumerate((made | {"shipped": shipped}).items()):
        directory = OUT / name
        directory.mkdir(exist_ok=True)
        if name != "shipped":
            tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
        goldens[name] = golden(tokenizer, seed)
        lines = lambda rows: ",\n".join("  " + json.dumps(row) for row in rows)
        text = f'{{"cases": [\n{lines(goldens[name]["cases"])}\n],\n"decodes": [\n{lines(goldens[name]["decodes"])}\n]}}\n'
        (directory / "golden.json").write_text(text)
        print(f"{name}: {tokenizer.get_vocab_size()} entries, {len(goldens[name]['cases'])} texts")
    check_teeth(goldens)


if __name__ == "__main__":
    main()
