"""Small tokenizers, one per family of models: the family's own normalizer, pre-tokenizer, post-processor and decoder.

A vocabulary that is trained inside its own pre-tokenizer never shows a mistake in it: no merge reaches across a border.
So each vocabulary is trained twice, inside the borders and without any, and the merges of both are put into one list.

Made again with the packages of recipes/requirements.txt (tokenizers 0.23.3), the files are the same byte for byte. That
takes care: the library walks hash tables in another order in every process. Its BPE training sorts what it finds; its
Unigram training gives the same tokens, with scores that differ by some 1e-11 and rare characters in any order (so they
are rounded and sorted here); its WordPiece training gives other tokens (so WordPiece's are made from merges here).
"""

import json
import random

import charsmap
import tokenizer_texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPACE = "\u2581"
INSTRUCTED = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def corpus():
    """Prose, mixtures of pieces, and runs of two letters and spaces."""
    rng = random.Random(1)
    pieces = tokenizer_texts.TEXTS + tokenizer_texts.SPECIALS
    mixed = ["".join(rng.choice(pieces) + rng.choice(["", "", " ", "  ", "\n"]) for _ in range(rng.randint(2, 16))) for _ in range(400)]
    mixed += [text for text in pieces if "'" in text] * 12  # contractions, whose borders are seldom reached
    return tokenizer_texts.PROSE * 3 + mixed + ["".join(rng.choice("ab c") for _ in range(60)) for _ in range(40)]


def plain_corpus():
    """Without the characters that a training would only list."""
    return [text for text in corpus() if all(ord(c) < 0x250 for c in text)]


def merges_of(tokenizer, vocab_size, alphabet, texts):
    """A BPE trained with the pipeline: its characters and its merges."""
    tokenizer.model = models.BPE()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(m) for m in model["merges"]]
    made = {a + b for a, b in merges}
    return sorted(t for t in model["vocab"] if t not in made), merges


def bpe(normalizer, pre_tokenizer, borderless, specials, vocab_size=700, characters_only=False, **options):
    """tokenizer.json content with merges from inside the borders and from a training without borders."""
    inside, across = Tokenizer(models.BPE()), Tokenizer(models.BPE())
    for tokenizer, step in ((inside, pre_tokenizer), (across, borderless)):
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        if step is not None:
            tokenizer.pre_tokenizer = step
    alphabet = list(SPACE) if characters_only else pre_tokenizers.ByteLevel.alphabet()
    base, merges = merges_of(inside, vocab_size, alphabet, corpus())
    base_across, merges_across = merges_of(across, vocab_size, alphabet, corpus())
    bytes_ = [f"<0x{b:02X}>" for b in range(256)] if options.get("byte_fallback") else []
    made = {a + b for a, b in merges + merges_across}
    merges_across += [(a, b) for a, b in (("'VE", "ST"), ("'T", "ell"), ("'re", "d")) if {a, b} <= made]  # behind contractions
    tokens = list(dict.fromkeys(specials + bytes_ + base + base_across + [a + b for a, b in merges + merges_across]))
    merges = list(dict.fromkeys(merges + merges_across))
    content = json.loads(inside.to_str())
    content["added_tokens"] = []
    content["model"].update(vocab={t: i for i, t in enumerate(tokens)}, merges=[list(m) for m in merges], **options)
    return content


def finish(content, post_processor, decoder, added):
    """Adds the rest; `added` are the AddedTokens in order, specials first."""
    tokenizer = Tokenizer.from_str(json.dumps(content))
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    if post_processor is not None:
        tokenizer.post_processor = post_processor(tokenizer)
    tokenizer.decoder = decoder
    return json.loads(tokenizer.to_str())


def special(content, **flags):
    return AddedToken(content, special=True, normalized=flags.pop("normalized", False), **flags)


def around(before, behind=""):
    def make(tokenizer):
        names = [t for t in (before, behind) if t]
        single = " ".join(t for t in (before, "$A", behind) if t)
        pair = single + " " + " ".join(t for t in (before, "$B:1", behind) if t)
        return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(t, tokenizer.token_to_id(t)) for t in names])
    return make


def byte_level(prefix=False, regex=True, trim=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex, trim_offsets=trim)


def split(*patterns):
    cuts = [pre_tokenizers.Split(Regex(p), behavior="isolated", invert=False) for p in patterns]
    return pre_tokenizers.Sequence(cuts + [byte_level(regex=False)])


def offsets(trim=False):
    return lambda _: processors.ByteLevel(trim_offsets=trim)


def gpt2():
    content = bpe(None, byte_level(), byte_level(regex=False), ["<|endoftext|>"], continuing_subword_prefix="", end_of_word_suffix="")
    content = finish(content, offsets(), decoders.ByteLevel(), [special("<|endoftext|>", normalized=True)])
    del content["model"]["type"]  # as old files have it
    content["model"]["merges"] = ["#version: 0.2"] + [" ".join(merge) for merge in content["model"]["merges"]]
    return content


def added_flags():
    """GPT-2 with a space in front, and added tokens of every flag behind a normalizer."""
    content = bpe(normalizers.NFC(), byte_level(prefix=True), byte_level(regex=False), ["<s>"])
    flags = {
        "[L]": "lstrip", "[R]": "rstrip", "[LR]": "lstrip rstrip", "[W]": "single_word", "shade": "single_word normalized", "[N]": "normalized lstrip",
        "aa": "", "caf\u00e9": "normalized", "A\u030a": "", "<<": "", "<<<": "",
    }  # fmt: skip
    added = [AddedToken(token, **{"normalized": False} | dict.fromkeys(names.split(), True)) for token, names in flags.items()]
    post = lambda t: processors.RobertaProcessing(("<s>", t.token_to_id("<s>")), ("<s>", t.token_to_id("<s>")))
    return finish(content, post, decoders.ByteLevel(), [special("<s>", lstrip=True)] + added)


def neox():
    content = bpe(normalizers.NFC(), byte_level(), byte_level(regex=False), ["<|endoftext|>", "<|padding|>"])
    runs = [AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)]
    email = AddedToken("|||EMAIL_ADDRESS|||", normalized=False)
    return finish(content, offsets(True), decoders.ByteLevel(), [special("<|endoftext|>"), special("<|padding|>"), *runs, email])


def llama3():
    content = bpe(None, split(LLAMA3), byte_level(regex=False), [], ignore_merges=True)
    model, words = content["model"], ("unbreakable", "\u0120unbreakable", "\u0120lampshade")
    model["merges"] = [merge for merge in model["merges"] if "".join(merge) not in words]
    for word in words:  # no merge makes them; whole words are looked up all the same
        model["vocab"].setdefault(word, len(model["vocab"]))
    post = lambda t: processors.Sequence([offsets(True)(t), around("<|begin_of_text|>")(t)])
    return finish(content, post, decoders.ByteLevel(), [special(t) for t in ("<|begin_of_text|>", "<|eot_id|>")])


def qwen2():
    content = bpe(normalizers.NFC(), split(QWEN2), byte_level(regex=False), [])
    added = [special(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")] + [AddedToken("<tool_call>", normalized=False)]
    return finish(content, offsets(), decoders.ByteLevel(), added)


def tekken():
    content = bpe(None, split(TEKKEN), byte_level(regex=False), INSTRUCTED, ignore_merges=True)
    return finish(content, around("<s>"), decoders.ByteLevel(), [special(t) for t in INSTRUCTED])


def deepseek():
    content = bpe(normalizers.Sequence([]), split(*DEEPSEEK), byte_level(regex=False), [])
    added = [special("<s>"), special("</s>", normalized=True), AddedToken("<|user|>", normalized=True)]
    return finish(content, around("<s>"), decoders.ByteLevel(), added)


SENTENCEPIECE = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
BACK = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
STRIPPED = decoders.Sequence([*BACK, decoders.Strip(" ", 1, 0)])


def llama2_bpe():
    spaces = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    words = pre_tokenizers.Split(SPACE, behavior="merged_with_next")
    content = bpe(spaces, words, None, ["<unk>", "<s>", "</s>"], characters_only=True, **SENTENCEPIECE)
    content["pre_tokenizer"] = None
    return content


def llama2():
    return finish(llama2_bpe(), around("<s>"), STRIPPED, [special(t) for t in ("<unk>", "<s>", "</s>")])


def phi3():
    turns = [special(t, rstrip=True) for t in ("<|assistant|>", "<|end|>", "<|user|>")]
    added = [special("<unk>"), special("<s>"), AddedToken("</s>", rstrip=True, normalized=False), special("<|endoftext|>"), *turns]
    return finish(llama2_bpe(), None, STRIPPED, added)


def mistral():
    """The newer spelling of the same: Metaspace, which puts its space in front of the whole text only."""
    metaspace = lambda is_split: pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first", split=is_split)
    content = bpe(None, metaspace(True), metaspace(False), INSTRUCTED, characters_only=True, **SENTENCEPIECE)
    content["pre_tokenizer"]["split"] = False
    return finish(content, around("<s>"), STRIPPED, [special(t) for t in INSTRUCTED])


def gemma():
    spaces = normalizers.Replace(" ", SPACE)
    words = pre_tokenizers.Split(SPACE, behavior="merged_with_next")
    content = bpe(spaces, words, None, ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"], characters_only=True, **SENTENCEPIECE)
    content["pre_tokenizer"] = json.loads(pre_tokenizers.Split(" ", "merged_with_previous").__getstate__())
    runs = [AddedToken("\n" * n, normalized=False) for n in range(1, 9)] + [AddedToken(SPACE * n, normalized=False) for n in range(2, 12)]
    added = [special(t) for t in ("<pad>", "<eos>", "<bos>", "<unk>")] + [AddedToken("<mask>", normalized=False), *runs, special("<start_of_turn>")]
    return finish(content, around("<bos>"), decoders.Sequence(BACK), added)


# Some of what SentencePiece's nmt_nfkc does: controls go, spaces become one kind, compatibility forms are spelt out.
CHARSMAP = {"\u0001": "", "\u0008": "", "\u007f": "", "\u200b": " ", "\ufeff": "", "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\u2028": " ", "\u0085": " "}
CHARSMAP |= {chr(0xFF01 + i): chr(0x21 + i) for i in range(94)} | {"\ufb01": "fi", "\ufb03": "ffi", "\u2460": "1", "\u00bd": "1\u20442", "\u2167": "VIII", "\u212b": "\u00c5", "\u3231": "(\u682a)", "\u2026": "..."}
CHARSMAP |= {"e\u0301": "\u00e9", "A\u030a": "\u00c5", "a\u0308": "\u00e4", "\u1e9b\u0323": "\u1e69", "\u0e33": "\u0e4d\u0e32"}


def settled(entries):
    """What a Unigram training found, without what differs from process to process."""
    # Characters too rare for a score of their own stand 0.0001 apart from the worst token upwards, in random order.
    worst = min(score for _, score in entries)
    rare = sorted(token for token, score in entries if len(token) == 1 and score < worst + 0.01)
    rare_scores = sorted((score for token, score in entries if token in rare), reverse=True)
    scores = dict(entries) | dict(zip(rare, rare_scores))
    return sorted(([token, round(score, 6)] for token, score in scores.items()), key=lambda entry: (-entry[1], entry[0]))


def unigram(specials, unknown, normalizer, pre_tokenizer, **model):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    trainer = trainers.UnigramTrainer(vocab_size=800, special_tokens=specials, unk_token=unknown, show_progress=False)
    tokenizer.train_from_iterator(plain_corpus(), trainer)
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = []
    entries = content["model"]["vocab"] = content["model"]["vocab"][: len(specials)] + settled(content["model"]["vocab"][len(specials) :])
    # Tokens across borders, good enough to be taken wherever a wrong border allows it.
    for text in (f"the{SPACE}lamp", f"a{SPACE}b", f"a{SPACE}{SPACE}b", "e\u0301", "\n\n", "a\tb", "1\u20442", f"{SPACE}the{SPACE}", f"{SPACE}{SPACE}"):
        entries.append([text, -1.5])
    content["model"].update(model)
    return content


def precompiled():
    return normalizers.Precompiled(charsmap.build(CHARSMAP))


def t5():
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(SPACE, "always")])
    content = unigram(["<pad>", "</s>", "<unk>"], "<unk>", precompiled(), words)
    content["pre_tokenizer"]["pretokenizers"][1] = {"type": "Metaspace", "replacement": SPACE, "str_rep": SPACE, "add_prefix_space": True}
    added = [special(t) for t in ("<pad>", "</s>", "<unk>")] + [special("<extra_id_0>", lstrip=True, rstrip=True)]
    return finish(content, around("", "</s>"), decoders.Metaspace(SPACE, "always"), added)


def xlmr():
    steps = [precompiled(), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), SPACE)]
    content = unigram(["<s>", "<pad>", "</s>", "<unk>"], "<unk>", normalizers.Sequence(steps), pre_tokenizers.Metaspace(SPACE, "always"))
    added = [special(t) for t in ("<s>", "<pad>", "</s>", "<unk>")] + [special("<mask>", lstrip=True)]
    return finish(content, around("<s>", "</s>"), decoders.Metaspace(SPACE, "always"), added)


def unigram_bytes():
    """A Unigram whose unknown characters are spelt by bytes, one word for the whole text."""
    whole = pre_tokenizers.Metaspace(SPACE, "first", split=False)
    steps = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Lowercase(), normalizers.StripAccents()])
    content = unigram(["<unk>", "<s>"], "<unk>", steps, pre_tokenizers.Metaspace(SPACE, "first"), byte_fallback=True)
    content["pre_tokenizer"] = json.loads(whole.__getstate__())
    content["model"]["vocab"] += [[f"<0x{b:02X}>", -30.0] for b in range(256)]
    decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(SPACE, "first")])
    return finish(content, around("<s>"), decoder, [special("<unk>"), special("<s>")])


def bert():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    characters, merges = merges_of(tokenizer, 350, [], plain_corpus())
    pieces = characters + [a + b for a, b in merges]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokens = names + pieces + ["##" + piece for piece in pieces]
    tokenizer.model = models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]")
    content = json.loads(tokenizer.to_str())
    post = lambda t: processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    return finish(content, post, decoders.WordPiece(), [special(t) for t in names])


FAMILIES = {
    "gpt2": gpt2, "added-flags": added_flags, "neox": neox, "llama3": llama3, "qwen2": qwen2, "tekken": tekken, "deepseek": deepseek,
    "llama2": llama2, "phi3": phi3, "mistral": mistral, "gemma": gemma, "t5": t5, "xlmr": xlmr, "unigram-bytes": unigram_bytes, "bert": bert,
}
