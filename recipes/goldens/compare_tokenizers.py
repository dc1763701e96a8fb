"""Compare `varifocal tokenize` and `detokenize` with the tokenizers library on torture strings and random Unicode.

    python recipes/goldens/compare_tokenizers.py real VARIFOCAL TEXTS FILE..    any tokenizer.json files
    python recipes/goldens/compare_tokenizers.py pipelines VARIFOCAL TEXTS [SEED]    random pipelines, trained here
    python recipes/goldens/compare_tokenizers.py families VARIFOCAL TEXTS [SEED]    the families of the golden files

    python recipes/goldens/compare_tokenizers.py offsets VARIFOCAL_OFFSETS TEXTS [SEED]    families as they are, pipelines

Each text is encoded with and without special tokens, its ids are decoded with and without them, and so are as many rows of
random ids. With "offsets" each token's place in the text is compared, on texts that normalizers change as well, and
post-processors that trim take turns. Prints strings tried and differences per tokenizer, the first difference in full; fails when there is one.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import tokenizer_families
import tokenizer_texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers


def byte_level(prefix=False, regex=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, behavior, invert), byte_level(regex=False)])


def pipelines():
    """name: (pre-tokenizer, normalizer, decoder, options of the BPE; None for a model of whole characters)."""
    n, p, space = normalizers, pre_tokenizers, tokenizer_families.SPACE
    rows = {
        "prefix-space": (byte_level(prefix=True), None, None, {}),
        "one-word": (byte_level(regex=False), None, None, {}),
        "nfkc": (byte_level(), n.Sequence([n.NFKC(), n.Replace("a", "bb"), n.Prepend("_")]), None, {}),
        "nfd": (byte_level(), n.NFD(), None, {}),
        "nfkd": (byte_level(), n.NFKD(), None, {}),
        "strip": (byte_level(), n.Strip(), None, {}),
        "lowercase": (byte_level(), n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]), None, {}),
        "nmt": (byte_level(), n.Nmt(), None, {}),
        "byte-normalizer": (None, n.ByteLevel(), decoders.ByteLevel(), {}),
        "charsmap": (byte_level(), tokenizer_families.precompiled(), None, {}),
        "digits": (p.Sequence([p.Digits(individual_digits=True), byte_level()]), None, None, {}),
        "digit-runs": (p.Sequence([p.Digits(individual_digits=False), byte_level()]), None, None, {}),
        "bytes-first": (p.Sequence([byte_level(), p.Digits(individual_digits=True)]), None, None, {}),
        "whitespace": (p.Sequence([p.Whitespace(), byte_level(regex=False)]), None, None, {}),
        "delimiter": (p.Sequence([p.CharDelimiterSplit("a"), byte_level(regex=False)]), None, None, {}),
        "bert": (p.BertPreTokenizer(), n.BertNormalizer(lowercase=False), decoders.WordPiece(), {"unk_token": "<unk>"}),
        "bert-accents": (p.WhitespaceSplit(), n.BertNormalizer(clean_text=False, strip_accents=True), decoders.WordPiece(cleanup=False), {"unk_token": "<unk>"}),
        "unknown": (None, None, None, {"unk_token": "<unk>"}),
        "unknown-fused": (None, None, None, {"unk_token": "<unk>", "fuse_unk": True}),
        "no-unknown": (None, None, None, {}),
        "suffix": (p.WhitespaceSplit(), None, decoders.BPEDecoder(), {"unk_token": "<unk>", "end_of_word_suffix": "</w>"}),
        "prefix": (p.Split(" ", "removed"), None, None, {"unk_token": "<unk>", "continuing_subword_prefix": "##"}),
        "classes": (split(Regex(r"\d+|[^\w\s]|\p{Lu}[\p{Ll}\p{M}]*|\p{P}|\p{S}+|\p{Han}+")), None, None, {}),
    }
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            rows[f"metaspace-{scheme}-{cut}"] = (p.Metaspace(space, scheme, cut), n.Strip(right=False) if cut else None, decoders.Metaspace(space, scheme), {"unk_token": "<unk>"})
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        rows[f"punctuation-{behavior}"] = (p.Sequence([p.Punctuation(behavior), byte_level(regex=False)]), None, None, {})
        for invert in (False, True):
            rows[f"{behavior}-{invert}"] = (split(Regex(r"\s+"), behavior, invert), None, None, {})
    return rows


def build(rng, name, row, corpus):
    pre_tokenizer, normalizer, decoder, options = row
    tokenizer = Tokenizer(models.BPE(**options))
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoder or decoders.ByteLevel()
    characters_only = "ByteLevel" not in str(pre_tokenizer) + str(normalizer)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        min_frequency=2,
        show_progress=False,
        special_tokens=["<s>"] + [t for t in [options.get("unk_token")] if t],
        initial_alphabet=list("ab") if characters_only else pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(corpus, trainer)
    flag = lambda: rng.random() < 0.5
    strips = "Strip(" in str(normalizer)  # behind it the library loses its place in the text, and with it tokens to look for
    tokenizer.add_tokens(
        [AddedToken(t, lstrip=flag(), rstrip=flag(), single_word=flag(), normalized=flag() and not strips) for t in ("[L]", "[R]", "shade", "caf\u00e9", "<<", "<<<", "  ")]
    )
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False, special=True, lstrip=flag())])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A <s>", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer.to_str()


def run(command, rows, folder):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run([*command, f"--jsonl={path}", "--format=jsonl"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr}")
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def encode(oracle, text, specials, part=lambda encoded: encoded.ids):
    """Ids (or another part), or None: the library panics on some texts (tokens that both take the spaces between them, Strip on U+00A0)."""
    try:
        return part(oracle.encode(text, add_special_tokens=specials))
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens/tokenizers"
NASTY = ["e\u0301", "\u212b", "\u1112\u1161\u11ab", "\u0958", "\U0001f600", "<s>", "</s>", "  ", " ", "\ufffd", "\u2581", "\u00a0", "a\u0327\u0301", "\ufb01", "\u0344", "\u1e9b\u0323", "\U0001d15e", "\u3000", "word", " word", "x", "\n", "\u00bd", "\u0130", "\ufdfa", "\u0f73"]


def with_trim(content, rng):
    """The tokenizer with a ByteLevel post-processor in front of its own, or as it is."""
    row = json.loads(content)
    if rng.random() < 0.5:
        trim = {"type": "ByteLevel", "add_prefix_space": rng.random() < 0.5, "trim_offsets": True, "use_regex": True}
        row["post_processor"] = {"type": "Sequence", "processors": [trim] + [p for p in [row["post_processor"]] if p]}
    return json.dumps(row)


def compare_offsets(program, content, texts, rng):
    """Differences of one tokenizer, the first one printed, and texts on which the library did not panic."""
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "tokenizer.json"
        path.write_text(with_trim(content, rng))
        oracle = Tokenizer.from_file(str(path))
        done = subprocess.run([program, name], input="".join(json.dumps({"text": t}) + "\n" for t in texts), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} failed: {done.stderr}")
    wrong, count = [], 0
    for text, line in zip(texts, (line for line in done.stdout.split("\n") if line), strict=True):
        encoded = encode(oracle, text, True, lambda e: e)
        if encoded is None:
            continue
        count += 1
        wanted = {"token_ids": encoded.ids, "offsets": tokenizer_texts.byte_offsets(text, encoded.offsets)}
        if json.loads(line) != wanted:
            wrong.append((text, wanted, line))
    if wrong:
        print("  of {!a}\n    wanted {!a}\n    got    {!a}".format(*min(wrong, key=lambda check: len(check[0]))))
    return len(wrong), count


def compare(varifocal, content, texts, rng):
    """Differences of one tokenizer, the first one printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tokenizer.json").write_text(content)
        oracle = Tokenizer.from_file(str(folder / "tokenizer.json"))
        model = f"--model={folder}"
        size = oracle.get_vocab_size()
        checks = []  # what, input, wanted, got
        for flags, specials in (([], True), (["--no-special-tokens"], False)):
            wanted = [encode(oracle, text, specials) for text in texts]
            got = run([varifocal, "tokenize", model, *flags], [{"text": t} for t in texts], folder)
            checks += [("ids", t, w, g["token_ids"]) for t, w, g in zip(texts, wanted, got, strict=True) if w is not None]
        known = [i for i in range(size) if oracle.id_to_token(i) is not None]
        wanted = [ids for ids in wanted if ids is not None]
        wanted += [[rng.choice(known) for _ in range(rng.randint(1, 12))] for _ in texts]
        for flags, skip in (([], True), (["--keep-special-tokens"], False)):
            got = run([varifocal, "detokenize", model, *flags], [{"token_ids": i} for i in wanted], folder)
            checks += [("text", i, oracle.decode(i, skip_special_tokens=skip), g["text"]) for i, g in zip(wanted, got, strict=True)]
    wrong = [check for check in checks if check[2] != check[3]]
    if wrong:
        print("  {}: of {!a}\n    wanted {!a}\n    got    {!a}".format(*min(wrong, key=lambda check: len(check[1]))))
    return len(wrong)


def main():
    kind, varifocal, count, *rest = sys.argv[1:]
    rng = random.Random(1 if kind == "real" or not rest else int(rest[0]))
    if kind == "real":
        contents = ((path, lambda path=path: pathlib.Path(path).read_text()) for path in rest)
    elif kind == "families":
        contents = ((name, lambda make=make: json.dumps(make())) for name, make in tokenizer_families.FAMILIES.items())
    else:
        corpus = tokenizer_families.corpus() + [tokenizer_texts.random_text(rng) for _ in range(800)]
        contents = ((name, lambda name=name, row=row: build(rng, name, row, corpus)) for name, row in pipelines().items())
    total = different = 0
    if kind == "offsets":
        nasty_text = lambda rng: "".join(rng.choice(NASTY) for _ in range(rng.randint(1, 25)))
        shipped = ((name, lambda name=name: (GOLDENS / name / "tokenizer.json").read_text()) for name in tokenizer_families.FAMILIES)
        for name, make in [*shipped, *contents]:
            texts = tokenizer_texts.texts() + [rng.choice([tokenizer_texts.random_text, nasty_text])(rng) for _ in range(int(count))]
            wrong, tried = compare_offsets(varifocal, make(), texts, rng)
            print(f"{name}: {tried} strings, {wrong} differences", flush=True)
            total, different = total + tried, different + wrong
        contents = ()
    for name, make in contents:
        texts = tokenizer_texts.texts() + [tokenizer_texts.random_text(rng) for _ in range(int(count))]
        wrong = compare(varifocal, make(), texts, rng)
        print(f"{name}: {len(texts)} strings, {wrong} differences", flush=True)
        total, different = total + len(texts), different + wrong
    print(f"{total} strings in all, {different} differences")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
