"""Golden ids of tokenizer directories whose files disagree, from two versions of transformers.

    python recipes/goldens/make_token_rules.py --transformers4=PYTHON --transformers5=PYTHON    (writes token_rules.json)

PYTHON is the interpreter of an environment with transformers 4.57.3 (tokenizers 0.22) or 5.24.0 (tokenizers 0.23); neither
needs PyTorch. A case is a small tokenizer.json with other files beside it: a tokenizer_config.json, special_tokens_map.json,
added_tokens.json, and a config.json that holds a model type. Either version loads it with AutoTokenizer and encodes the
texts; `ids4` and `ids5` are null where it refuses. The pipeline of each tokenizer.json is the one that 5.24 builds for the
classes it is used with, so that only tokens differ. Chosen cases are followed by random ones.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens/token_rules.json"
FILES = {"config": "tokenizer_config.json", "special_tokens_map": "special_tokens_map.json", "added_tokens": "added_tokens.json", "model": "config.json"}
TEXTS = [
    "", "a man", "<s>a</s> <unk> [PAD]", "x <|end|> y<|end|>z", "<|im_end|>  a <|im_start|>\n", " <new> <more> a<new>b", "<|endoftext|> <|padding|><bos><eos><pad><mask>",
    "<image> <audio>the man", " a <tool> b ", "x<N>y <N>",
]
# Model types of checkpoints, and their tokenizers here where they are not like Qwen's.
TYPES = (
    "mistral qwen2 qwen3 gemma3_text olmo2 gpt2 gpt_neox phi3 mistral3 mixtral ministral ministral3 qwen2_moe qwen2_5_vl qwen3_moe qwen3_vl qwen3_next qwen3_5 qwen3_5_text qwen2_5_vl_text qwen3_vl_text gemma2 gemma3 gemma3n gemma3n_text gemma4 gemma4_text olmo olmo3 "
    "olmoe phi granite granitemoe granitemoehybrid glm glm4 cohere2 exaone4 nemotron stablelm starcoder2 arcee smollm3 ernie4_5 gpt_oss seed_oss apertus hunyuan_v1_dense lfm2 falcon_h1 bamba nemotron_h deepseek_v2 deepseek_v3 minicpm3"
).split()  # fmt: skip
OTHERS = {t: "llama2" for t in ("mistral", "mistral3", "mixtral", "ministral", "phi3", "arcee", "ernie4_5")}
OTHERS |= {t: "gemma" for t in ("gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text")} | {t: "neox" for t in ("olmo", "olmo2", "olmoe", "gpt_neox", "stablelm")}
OTHERS |= {t: "gpt2" for t in ("gpt2", "phi", "granite", "granitemoe", "granitemoehybrid", "starcoder2", "olmo3", "exaone4")}
# Every token between spaces, and inside a word.
CONTENTS = "<s> </s> <unk> [PAD] <|end|> <|im_end|> <|im_start|> <new> <more> <|endoftext|> <|padding|> <bos> <eos> <pad> <mask> <image> <tool> <N> an".split()
TEXTS += ["".join(f"m {c} m" for c in CONTENTS), "".join(f"m{c}m" for c in CONTENTS)]
LIKE_QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def added(id, content, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | flags


def token(content, **flags):
    return {k: v for k, v in added(0, content, **flags).items() if k != "id"}


def template(before, ids):
    special = {"SpecialToken": {"id": before, "type_id": 0}}
    return {
        "type": "TemplateProcessing", "single": [special, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [special, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {before: {"id": before, "ids": ids, "tokens": [before]}},
    }


def tokenizers():
    """Small files, by name."""
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = letters + ["an", "\u0120m", "\u0120man", "he", "the"]
    bpe = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False}
    merges = ["a n", "\u0120 m", "\u0120m an", "h e", "t he"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "pattern": {"Regex": LIKE_QWEN}, "behavior": "Isolated", "invert": False}
    base = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": byte_level, "decoder": byte_level}
    bytes_model = lambda extra=(): bpe | {"vocab": {p: i for i, p in enumerate(pieces + list(extra))}, "merges": merges}
    n = len(pieces)
    gpt2 = base | {"added_tokens": [added(n, "<|endoftext|>"), added(n + 1, "<|end|>", rstrip=True)], "pre_tokenizer": byte_level, "model": bytes_model()}
    qwen = base | {
        "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level | {"use_regex": False}]}, "model": bytes_model(),
        "added_tokens": [added(n, "<|endoftext|>"), added(n + 1, "<|im_start|>"), added(n + 2, "<|im_end|>"), added(n + 3, "<tool>", special=False)],
    }
    neox = gpt2 | {"normalizer": {"type": "NFC"}, "added_tokens": [added(n, "<|endoftext|>"), added(n + 1, "<|padding|>"), added(n + 2, "   ", special=False, normalized=True)]}
    neox_bos = neox | {"post_processor": template("<|endoftext|>", [n])}
    llama3 = qwen | {"normalizer": None, "added_tokens": [added(n, "<s>"), added(n + 1, "</s>"), added(n + 2, "<|end|>")], "post_processor": template("<s>", [n])}
    distill = llama3 | {"post_processor": byte_level}
    spelt = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + ["\u2581"] + sorted("abehmntxyz<>|/") + ["an", "\u2581m", "\u2581man"]
    spm = bpe | {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": {p: i for i, p in enumerate(spelt)}, "merges": ["a n", "\u2581 m", "\u2581m an"]}
    decoder = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    llama2 = base | {
        "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")], "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
        "post_processor": template("<s>", [1]), "decoder": {"type": "Sequence", "decoders": decoder["decoders"] + [strip]}, "model": spm,
    }
    named = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    gemma = base | {
        "added_tokens": [added(i, t) for i, t in enumerate(named)], "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, "post_processor": template("<bos>", [2]), "decoder": decoder,
        "model": spm | {"vocab": {p: i for i, p in enumerate(named + spelt[3:])}},
    }
    return {"gpt2": gpt2, "qwen": qwen, "neox": neox, "neox_bos": neox_bos, "llama3": llama3, "distill": distill, "llama2": llama2, "gemma": gemma}


def decoder_of(file, change=lambda t: t, keep=lambda t: True):
    return {str(t["id"]): change({k: v for k, v in t.items() if k != "id"}) for t in file["added_tokens"] if keep(t)}


def chosen(files):
    """Cases by hand: name, tokenizer, and the contents of the files beside it."""
    of = lambda name: "PreTrainedTokenizerFast" if name is None else name
    llama, neox, qwen, gemma, gpt2 = "LlamaTokenizerFast", "GPTNeoXTokenizer", "Qwen2Tokenizer", "GemmaTokenizer", "GPT2Tokenizer"
    yield "nothing said", "qwen", {"config": {"tokenizer_class": of(None)}}
    yield "names that are there", "qwen", {"config": {"tokenizer_class": qwen, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}}
    for tokenizer in ("distill", "llama3", "llama2"):
        for bos in (True, False, None):
            yield f"{tokenizer} add_bos {bos}", tokenizer, {"config": {"tokenizer_class": llama, "add_bos_token": bos, "bos_token": "<s>", "eos_token": "</s>"}}
        yield f"{tokenizer} add_eos", tokenizer, {"config": {"tokenizer_class": llama, "add_eos_token": True, "bos_token": "<s>", "eos_token": "</s>"}}
        yield f"{tokenizer} other bos", tokenizer, {"config": {"tokenizer_class": llama, "bos_token": "</s>", "eos_token": "</s>", "unk_token": "<unk>"}}
        yield f"{tokenizer} generic class", tokenizer, {"config": {"tokenizer_class": of(None), "add_bos_token": True, "bos_token": "<s>"}}
        yield f"{tokenizer} bos is null", tokenizer, {"config": {"tokenizer_class": llama, "bos_token": None}}
        yield f"{tokenizer} class of the model type", tokenizer, {"config": {"add_bos_token": True, "bos_token": "<s>"}, "model": {"model_type": "llama"}}
    for bos in (True, False):
        yield f"gemma add_bos {bos}", "gemma", {"config": {"tokenizer_class": gemma, "add_bos_token": bos, "bos_token": "<bos>"}}
    yield "gemma add_eos", "gemma", {"config": {"tokenizer_class": gemma, "add_eos_token": True}}
    for tokenizer in ("neox", "neox_bos"):
        for flags in ({}, {"add_bos_token": True}, {"add_bos_token": False}, {"add_eos_token": True}):
            yield f"{tokenizer} {flags}", tokenizer, {"config": {"tokenizer_class": neox, "bos_token": "<|endoftext|>"} | flags}
    yield "gpt2 add_bos", "gpt2", {"config": {"tokenizer_class": gpt2, "add_bos_token": True}}
    yield "gpt2 prefix space", "gpt2", {"config": {"tokenizer_class": gpt2, "add_prefix_space": True}}
    yield "generic prefix space", "gpt2", {"config": {"tokenizer_class": of(None), "add_prefix_space": True}}
    for tokenizer, name in (("qwen", qwen), ("gpt2", gpt2), ("qwen", of(None)), ("llama2", llama)):
        new = max(t["id"] for t in files[tokenizer]["added_tokens"]) + 1
        whole = decoder_of(files[tokenizer])
        config = {"tokenizer_class": name}
        yield f"{tokenizer} {name} listed token", tokenizer, {"config": config | {"added_tokens_decoder": whole | {str(new): token("<new>")}}}
        yield f"{tokenizer} {name} listed plain token", tokenizer, {"config": config | {"added_tokens_decoder": whole | {str(new): token("<new>", special=False, normalized=True)}}}
        yield f"{tokenizer} {name} another id", tokenizer, {"config": config | {"added_tokens_decoder": whole | {str(new + 50): token("<new>")}}}
        yield f"{tokenizer} {name} flags", tokenizer, {"config": config | {"added_tokens_decoder": decoder_of(files[tokenizer], lambda t: t | {"rstrip": not t["rstrip"], "lstrip": True})}}
        yield f"{tokenizer} {name} list lacks one", tokenizer, {"config": config | {"added_tokens_decoder": decoder_of(files[tokenizer], keep=lambda t: t["id"] != new - 1)}}
        yield f"{tokenizer} {name} additional", tokenizer, {"config": config | {"additional_special_tokens": ["<new>", "<more>"]}}
        yield f"{tokenizer} {name} additional with flags", tokenizer, {"config": config | {"additional_special_tokens": [{"__type": "AddedToken"} | token("<new>", lstrip=True)]}}
        yield f"{tokenizer} {name} extra list", tokenizer, {"config": config | {"extra_special_tokens": ["<new>"]}}
        yield f"{tokenizer} {name} extra object", tokenizer, {"config": config | {"extra_special_tokens": {"image_token": "<image>"}}}
        yield f"{tokenizer} {name} own key", tokenizer, {"config": config | {"image_token": "<image>"}}
        yield f"{tokenizer} {name} new eos", tokenizer, {"config": config | {"eos_token": "<new>"}}
        yield f"{tokenizer} {name} new pad with flags", tokenizer, {"config": config | {"pad_token": {"__type": "AddedToken"} | token("[PAD]", rstrip=True)}}
        yield f"{tokenizer} {name} eos without type", tokenizer, {"config": config | {"eos_token": {"content": "<new>"}}}
        yield f"{tokenizer} {name} map", tokenizer, {"config": config, "special_tokens_map": {"eos_token": "<new>", "pad_token": {"content": "<more>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": True}}}
        yield f"{tokenizer} {name} map without effect", tokenizer, {"config": config | {"added_tokens_decoder": whole}, "special_tokens_map": {"eos_token": "<new>"}}
        yield f"{tokenizer} {name} map additional", tokenizer, {"config": config, "special_tokens_map": {"additional_special_tokens": ["<new>"]}}
        yield f"{tokenizer} {name} both additional", tokenizer, {"config": config | {"additional_special_tokens": ["<more>"]}, "special_tokens_map": {"additional_special_tokens": ["<new>"]}}
        yield f"{tokenizer} {name} map additional objects", tokenizer, {"config": config, "special_tokens_map": {"additional_special_tokens": [{"content": "<new>", "rstrip": True}]}}
        yield f"{tokenizer} {name} added_tokens.json", tokenizer, {"config": config, "added_tokens": {"<new>": new, "<more>": new + 1}}
        yield f"{tokenizer} {name} added_tokens.json special", tokenizer, {"config": config | {"pad_token": "<new>"}, "added_tokens": {"<more>": new, "<new>": new + 1}}
        yield f"{tokenizer} {name} split", tokenizer, {"config": config | {"split_special_tokens": True}}
        yield f"{tokenizer} {name} word as token", tokenizer, {"config": config | {"additional_special_tokens": ["an"]}}
    yield "split, one plain", "qwen", {"config": {"tokenizer_class": qwen, "split_special_tokens": True, "additional_special_tokens": ["<new>"]}}
    yield "stripping token by name", "gpt2", {"config": {"tokenizer_class": of(None), "added_tokens_decoder": {}, "eos_token": {"__type": "AddedToken"} | token("<|end|>")}}
    for type in TYPES:
        tokenizer = OTHERS.get(type, "qwen")
        yield f"model type {type}", tokenizer, {"config": {"pad_token": "[PAD]"}, "model": {"model_type": type}}
        if tokenizer != "gemma":  # 5.24 would build another pipeline
            yield f"model type {type}, llama class", tokenizer, {"config": {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "unk_token": None}, "model": {"model_type": type}}


def drawn(files, count, draw=random.Random(20261201)):
    """Random cases: each key present or not."""
    classes = {"gpt2": ["GPT2Tokenizer"], "qwen": ["Qwen2Tokenizer"], "neox": ["GPTNeoXTokenizerFast"], "neox_bos": ["GPTNeoXTokenizer"], "llama3": ["LlamaTokenizer"], "distill": ["LlamaTokenizerFast"], "llama2": ["LlamaTokenizer"], "gemma": ["GemmaTokenizer"]}
    contents = ["<new>", "<more>", "<N>", "[PAD]", "<|end|>", "<|im_end|>", "<s>", "</s>", "<bos>", "an", "<image>"]
    flags = lambda: {k: True for k in ("lstrip", "rstrip", "single_word") if draw.random() < 0.3} | {"special": draw.random() < 0.7, "normalized": draw.random() < 0.2}
    some = lambda: draw.choice(contents) if draw.random() < 0.6 else {"__type": "AddedToken"} | token(draw.choice(contents), **flags())
    for i in range(count):
        tokenizer = draw.choice(sorted(files))
        config = {"tokenizer_class": draw.choice(classes[tokenizer] + ["PreTrainedTokenizerFast"])}
        beside = {"config": config}
        for key in ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token"):
            if draw.random() < 0.3:
                config[key] = some()
        for key in ("add_bos_token", "add_eos_token", "split_special_tokens"):
            if draw.random() < 0.15:
                config[key] = draw.random() < 0.5
        if draw.random() < 0.25:
            config["additional_special_tokens"] = [some() for _ in range(draw.randrange(3))]
        if draw.random() < 0.4:
            new = max(t["id"] for t in files[tokenizer]["added_tokens"]) + 1
            config["added_tokens_decoder"] = decoder_of(files[tokenizer], lambda t: t | (flags() if draw.random() < 0.2 else {}), lambda t: draw.random() < 0.9)
            if draw.random() < 0.5:
                config["added_tokens_decoder"][str(new)] = token(draw.choice(contents), **flags())
        if draw.random() < 0.25:
            beside["special_tokens_map"] = {"eos_token": draw.choice(contents), "cls_token": token(draw.choice(contents), **flags())}
        if draw.random() < 0.15:
            beside["added_tokens"] = {draw.choice(contents[:5]): draw.randrange(300, 310)}
        yield f"random {i}", tokenizer, beside


def oracle():
    """Answers cases on standard input: runs in the environment of one version."""
    import transformers

    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    job = json.load(sys.stdin)
    answers = []
    for case in job["cases"]:
        with tempfile.TemporaryDirectory(prefix="case") as folder:
            pathlib.Path(folder, "tokenizer.json").write_text(json.dumps(job["tokenizers"][case["tokenizer"]]))
            for key, name in FILES.items():
                if key in case:
                    pathlib.Path(folder, name).write_text(json.dumps(case[key]))
            try:
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                ids = [tokenizer(t)["input_ids"] for t in TEXTS]
                backend = tokenizer.backend_tokenizer
                answers.append({"ids": ids, "decoded": [backend.decode(i, skip_special_tokens=True) for i in ids]})
            except Exception as error:
                answers.append({"error": f"{type(error).__name__}: {error}"[:200]})
    json.dump({"version": transformers.__version__, "answers": answers}, sys.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transformers4")
    parser.add_argument("--transformers5")
    parser.add_argument("--random", type=int, default=120)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--oracle", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.oracle:
        return oracle()
    files = tokenizers()
    cases = [{"name": n, "tokenizer": t} | beside for n, t, beside in [*chosen(files), *drawn(files, options.random)]]
    for number, python in (("4", options.transformers4), ("5", options.transformers5)):
        done = subprocess.run([python, __file__, "--oracle"], input=json.dumps({"tokenizers": files, "cases": cases}), capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        answers = json.loads(done.stdout)
        assert answers["version"] == {"4": "4.57.3", "5": "5.24.0"}[number], answers["version"]
        for case, answer in zip(cases, answers["answers"]):
            case[f"ids{number}"], case[f"decoded{number}"] = answer.get("ids"), answer.get("decoded")
            if "error" in answer:
                case[f"error{number}"] = answer["error"]
    for case in cases:
        if case["ids4"] == case["ids5"] and case["decoded4"] == case["decoded5"]:
            case["agreed"] = True
            del case["ids5"], case["decoded5"]
    dump = lambda value: json.dumps(value, separators=(",", ":"))
    lines = ",\n".join(map(dump, cases))
    texts = ",".join(map(dump, TEXTS))
    shown = ",\n".join(f"{dump(name)}:{dump(file)}" for name, file in files.items())
    options.out.write_text(f'{{"texts":[{texts}],\n"tokenizers":{{\n{shown}\n}},\n"cases":[\n{lines}\n]}}\n')
    print(f"wrote {options.out}: {len(cases)} cases, {sum('agreed' not in c for c in cases)} without agreement")


if __name__ == "__main__":
    main()
