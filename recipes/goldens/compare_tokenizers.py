"""Compare `varifocal tokenize` and `detokenize` with the tokenizers library on random texts, pipeline by pipeline.

Each pipeline is trained on random text, so that its merges cross every kind of border, and saved as tokenizer.json;
some files are then respelt (merges as strings, ignore_merges, byte tokens added). The texts mix contractions, space
runs, line breaks, digits of several scripts, combining marks, joiners, controls, added tokens and random code points.

    python recipes/goldens/compare_tokenizers.py build/release/bin/varifocal [texts per pipeline] [seed]
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
PIECES = (
    ["don't", "I'LL", "we'\u017f", "'S", "  ", "\n", "\r\n", "\t", "\u00a0", "\u180e", "\u0085", "\u200b", "\u200d"]
    + ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u00e9", "e\u0301", "\u00c5", "\u212b", "\ud55c\uad6d\uc5b4", "\u65e5\u672c"]
    + ["\u0e44\u0e17\u0e22", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "123", "4567", "\u00bd", "\u2167", "\u0663\u0664"]
    + ["<|x|>", "<y>", "<y>z", "zw", "wzw", "\x00", "\x1f", "\ue000", "\U0003ffff", "\ufb01", "_", "...", "!!!\n\n"]
    + ["==========", "aaaaaaaa", "a", " the", "\u01c5", "\u00df", "\u2028", "\u3000", "\ufeff"]
)
POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]


def random_text():
    kind = random.random()
    if kind < 0.6:
        gaps = ["", "", " ", "  ", "\n"]
        return "".join(random.choice(PIECES) + random.choice(gaps) for _ in range(random.randint(0, 25)))
    if kind < 0.8:
        return "".join(chr(random.choice(POINTS)) for _ in range(random.randint(1, 40)))
    if kind < 0.9:
        return "".join(chr(random.randint(1, 0x2FF)) for _ in range(random.randint(1, 60)))
    return "".join(random.choice("ab c") for _ in range(random.randint(1, 400)))


def byte_level(prefix=False, regex=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, behavior, invert), byte_level(regex=False)])


def pipelines():
    """name: (pre-tokenizer, normalizer, decoder, options of the model)."""
    n, p = normalizers, pre_tokenizers
    rows = {
        "gpt2": (byte_level(), None, None, {}),
        "prefix-space": (byte_level(prefix=True), None, None, {}),
        "one-word": (byte_level(regex=False), None, None, {}),
        "llama3": (split(Regex(LLAMA3)), None, None, {}),
        "qwen2": (split(Regex(QWEN2)), n.NFC(), None, {}),
        "nfkc": (byte_level(), n.Sequence([n.NFKC(), n.Replace("a", "bb"), n.Prepend("_")]), None, {}),
        "nfd": (byte_level(), n.NFD(), None, {}),
        "strip": (byte_level(), n.Strip(), None, {}),
        "digits": (p.Sequence([p.Digits(individual_digits=True), byte_level()]), None, None, {}),
        "digit-runs": (p.Sequence([p.Digits(individual_digits=False), byte_level()]), None, None, {}),
        "bytes-first": (p.Sequence([byte_level(), p.Digits(individual_digits=True)]), None, None, {}),
        "unknown": (None, None, None, {"unk_token": "<unk>"}),
        "unknown-fused": (None, None, None, {"unk_token": "<unk>", "fuse_unk": True}),
        "no-unknown": (None, None, None, {}),
        "suffix": (p.Split(" ", "removed"), None, None, {"unk_token": "<unk>", "end_of_word_suffix": "</w>"}),
        "prefix": (p.Split(" ", "removed"), None, None, {"unk_token": "<unk>", "continuing_subword_prefix": "##"}),
    }
    spm = n.Sequence([n.Prepend("\u2581"), n.Replace(" ", "\u2581")])
    back = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    rows["byte-fallback"] = (None, spm, back, {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True})
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            rows[f"{behavior}-{invert}"] = (split(Regex(r"\s+"), behavior, invert), None, None, {})
    return rows


def build(name, row, corpus):
    pre_tokenizer, normalizer, decoder, options = row
    characters_only = pre_tokenizer is None or name in ("suffix", "prefix")
    tokenizer = Tokenizer(models.BPE(**options))
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoder or decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        min_frequency=2,
        show_progress=False,
        special_tokens=["<s>"] + [t for t in [options.get("unk_token")] if t],
        initial_alphabet=list("ab") if characters_only else pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens(
        [
            AddedToken("<y>", lstrip=True, normalized=False),
            AddedToken("<y>z", rstrip=True, normalized=False),
            AddedToken("zw", single_word=True, normalized=True),
            AddedToken("\u00e9", normalized=True),
            AddedToken("  ", normalized=False, rstrip=random.random() < 0.5),
            AddedToken("\u00c5", normalized=True, lstrip=True, rstrip=True),
        ]
    )
    tokenizer.add_special_tokens([AddedToken("<|x|>", normalized=False, special=True, lstrip=random.random() < 0.5)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A <s>", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    content = json.loads(tokenizer.to_str())
    if name in ("llama3", "no-unknown"):
        content["model"]["ignore_merges"] = True
    if name == "prefix-space":
        content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    if name == "byte-fallback":
        vocab = content["model"]["vocab"]
        for byte in range(256):
            vocab[f"<0x{byte:02X}>"] = len(vocab)
        for i, token in enumerate(t for t in content["added_tokens"] if t["content"] not in vocab):
            token["id"] = len(vocab) + i
    return json.dumps(content)


def run(command, rows, folder):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run([*command, f"--jsonl={path}", "--format=jsonl"], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def main():
    varifocal, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    corpus = [random_text() for _ in range(1500)]
    total = different = 0
    for name, row in pipelines().items():
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "tokenizer.json").write_text(build(name, row, corpus))
            oracle = Tokenizer.from_file(str(folder / "tokenizer.json"))
            texts = [random_text() for _ in range(count)]
            ids = [oracle.encode(text).ids for text in texts]
            ours = run([varifocal, "tokenize", f"--model={folder}"], [{"text": t} for t in texts], folder)
            back = run([varifocal, "detokenize", f"--model={folder}"], [{"token_ids": i} for i in ids], folder)
            wrong = sum(o["token_ids"] != i for o, i in zip(ours, ids, strict=True))
            wrong += sum(b["text"] != oracle.decode(i) for b, i in zip(back, ids, strict=True))
            print(f"{name}: {count} texts, {wrong} differ")
            total, different = total + count, different + wrong
    print(f"{total} texts, {different} differ")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
