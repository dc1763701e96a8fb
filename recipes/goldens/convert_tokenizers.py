"""Write tokenizer.json for files that are not one: SentencePiece models (BPE) and Mistral's tekken.

    python recipes/goldens/convert_tokenizers.py OUT FILE..

OUT is a directory. A SentencePiece model is written twice, as Llama 2 spells its pipeline (normalizers) and as newer files do
(Metaspace). The package `mistral-common` holds such files under data/; nothing of this is committed.
"""

import base64
import json
import pathlib
import struct
import sys

SPACE = "\u2581"
NORMAL, BYTE = 1, 6  # SentencePiece's types of pieces; every other type is a token that stands for itself


def fields(data):
    """Field numbers and values of a protobuf message."""
    def number(at):
        value = shift = 0
        while True:
            byte = data[at]
            value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
            if byte < 128:
                return value, at
    at = 0
    while at < len(data):
        key, at = number(at)
        if key & 7 == 0:
            value, at = number(at)
        else:
            size, at = (4, at) if key & 7 == 5 else (8, at) if key & 7 == 1 else number(at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def read_pieces(data):
    for field, value in fields(data):
        if field == 1:
            piece = dict(fields(value))
            yield piece[1].decode(), struct.unpack("<f", piece.get(2, bytes(4)))[0], piece.get(3, NORMAL)


def splits(token, ranks):
    """All pairs of tokens that make this one, lowest ids first."""
    pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
    return sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def added(tokens):
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return [{"id": i, "content": token, **flags} for i, token in tokens]


def file(model, tokens, **parts):
    empty = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    options = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(tokens), **empty, **parts, "model": options | model}


def sentencepiece(data):
    pieces = list(read_pieces(data))
    vocab = {piece: i for i, (piece, _, _) in enumerate(pieces)}
    merges = [(*pair, score) for piece, score, _ in pieces for pair in splits(piece, vocab)]
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    model = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True, ignore_merges=False, vocab=vocab, merges=[m[:2] for m in merges])
    tokens = [(i, piece) for i, (piece, _, kind) in enumerate(pieces) if kind not in (NORMAL, BYTE)]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    back = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    decoder = {"type": "Sequence", "decoders": [*back, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, replace]}
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    pair = single + [{"Sequence": {"id": "B", "type_id": 1}}]
    specials = {"<s>": {"id": "<s>", "ids": [vocab["<s>"]], "tokens": ["<s>"]}}
    post = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": specials}
    common = dict(decoder=decoder, post_processor=post)
    return {"llama": file(model, tokens, normalizer=normalizer, **common), "metaspace": file(model, tokens, pre_tokenizer=metaspace, **common)}


def tekken(content):
    config = content["config"]
    special_count = config["default_num_special_tokens"]
    itself = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in itself]
    spelt = {byte: chr(byte) for byte in itself} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    ranks = {base64.b64decode(row["token_bytes"]): row["rank"] for row in content["vocab"][: config["default_vocab_size"] - special_count]}
    spell = lambda token: "".join(spelt[byte] for byte in token)
    merges = [(rank, spell(a), spell(b)) for token, rank in ranks.items() for a, b in splits(token, ranks)]
    merges.sort(key=lambda merge: merge[0])
    names = [row["token_str"] for row in content.get("special_tokens") or []] or ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
    names += [f"<SPECIAL_{i}>" for i in range(len(names), special_count)]
    vocab = {name: i for i, name in enumerate(names)} | {spell(token): rank + special_count for token, rank in ranks.items()}
    split = {"type": "Split", "pattern": {"Regex": config["pattern"]}, "behavior": "Isolated", "invert": False}
    spell_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = dict(fuse_unk=False, byte_fallback=False, ignore_merges=True, vocab=vocab, merges=[m[1:] for m in merges])
    steps = {"type": "Sequence", "pretokenizers": [split, spell_bytes]}
    return {"tekken": file(model, list(enumerate(names)), pre_tokenizer=steps, decoder=spell_bytes)}


def main():
    out, *paths = map(pathlib.Path, sys.argv[1:])
    for path in paths:
        made = tekken(json.loads(path.read_text())) if path.suffix == ".json" else sentencepiece(path.read_bytes())
        for name, content in made.items():
            target = out / f"{path.name}.{name}.json"
            target.write_text(json.dumps(content, ensure_ascii=False))
            print(f"{target}: {len(content['model']['vocab'])} entries, {len(content['model']['merges'])} merges")


if __name__ == "__main__":
    main()
