"""Write eval_tasks/helmet/import/testdata: a small release in HELMET's layout, and what upstream's own code asks of it.

All contents are invented here. fixture.json holds files by path; {"$repeat": [text, n]} stands for a text n times, so that
documents of 131,072 tokens stay small. golden.json holds, for every dataset and length, a digest of each prompt and of its
token ids, in upstream's order, with upstream's measures of an invented output. Upstream's data.py runs twice: as it is
(digests that only somebody with a checkout can compare, --real), and with its sentences replaced by the invented ones
of fixture.json's data.py, whose digests the tests compare.

    python recipes/goldens/make_helmet_fixture.py --checkout=HELMET
"""

import argparse
import ast
import hashlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import tokenize
import types

OUT = pathlib.Path(__file__).resolve().parents[2] / "eval_tasks/helmet/import/testdata"
rng = random.Random(20261121)
NOUNS = "kettle lantern harbour ferry orchard violin glacier compass meadow saddle chimney parrot ribbon anchor violet".split()
PLACES = "Tarn Oslov Mirefield Quillbay Upper Denn Kestrel Ålvik São Brás Żórawin 東村".split()


def sentence():
    return f"The {rng.choice(NOUNS)} of {rng.choice(PLACES)} keeps {rng.randint(2, 99)} {rng.choice(NOUNS)}s. "


def text(count):
    return "".join(sentence() for _ in range(count)).strip()


def uuid():
    h = f"{rng.getrandbits(128):032x}"
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def json_kv_rows(count, pairs):
    rows = []
    for i in range(count):
        entries = [(uuid(), uuid()) for _ in range(pairs)]
        key, value = entries[i % pairs]
        context = "JSON data:\n{" + ",\n".join(f'    "{k}": "{v}"' for k, v in entries) + "}"
        demos = [[uuid(), uuid()] for _ in range(3)]
        rows.append({"context": context, "question": key, "answer": value if i % 2 else [value], "demos": demos,
                     "num_kvs": pairs, "depth": round((i % 6) / 5, 2)})
    return rows


def ruler_rows(count, kind):
    rows = []
    for i in range(count):
        row = {"index": i, "input": "unused", "length": 100 + i, "type_needle_v": "numbers" if kind == "mv" else "uuid",
               "query": f"{rng.choice(NOUNS)}-{i}", "context": text(8), "outputs": [str(rng.randint(10**6, 10**7))]}
        values = [str(rng.randint(10**6, 10**7)) for _ in range(4 if kind == "mv" else 1)]
        row["context"] += f" One value is {' and '.join(values)}. {{braces}} stay."
        row["answer"] = values
        if kind == "vt":
            row.update(num_v=5, example="" if i % 2 else "An example comes first.")
            del row["answer"]
        if kind == "qa":
            del row["query"]
            row["question"] = f"Which {rng.choice(NOUNS)} is meant?"
        rows.append(row)
    return rows


def passages(count):
    return [{"id": str(rng.randint(1, 10**6)), "title": rng.choice(PLACES), "text": text(2)} for _ in range(count)]


def qa_rows(questions, variants, ctxs, popqa=False, first_id=0):
    rows = []
    for q in range(questions):
        question = f"Who keeps the {rng.choice(NOUNS)} number {first_id + q} of {rng.choice(PLACES)}?"
        answers = [f"{rng.choice(NOUNS)} keeper {q}", "the keeper"]
        for v in range(variants):
            row = {"question": question, "answers": answers, "ctxs": passages(ctxs), "positive_ctxs": [],
                   "depth": v / 2}
            if popqa:
                row.update(id=first_id + q, s_pop=rng.choice([3, 50, 999, 1000, 20000]))
            rows.append(row)
    rng.shuffle(rows)
    if popqa:  # one popularity for each question
        popularity = {}
        for row in rows:
            row["s_pop"] = popularity.setdefault(row["id"], row["s_pop"])
    return rows


def rerank_rows(queries, orders, count, first=0, titled=False):
    rows = []
    for q in range(queries):
        base = [{"id": str(rng.randint(1, 10**7)), "text": text(1), "label": rng.choice([0, 0, 1, 2, 3])} for _ in range(count)]
        if titled:
            for c in base:
                c["title"] = rng.choice(PLACES)
        for _ in range(orders):
            ctxs = list(base)
            rng.shuffle(ctxs)
            rows.append({"qid": str(first + q * 7), "query": f"where is the {rng.choice(NOUNS)}", "ctxs": ctxs})
    return rows


def labelled(count, fields, labels):
    return [{"text": text(1) + f" No {i}.", **{f: rng.randrange(labels[f]) for f in fields}} for i in range(count)]


def long_text(i, tokens):
    """Some text, then one sentence again and again: above `tokens` tokens of the length tokenizer, which has about a
    token for every two characters of it."""
    unit = sentence()
    return {"$concat": [text(5 + i), {"$repeat": [unit, 2 * tokens // len(unit) + 40]}, " ▁ end."]}


def narrativeqa():
    def row(i, long):
        return {"document": {"id": str(i), "text": long_text(i, 131500) if long else text(9)},
                "question": {"text": f"Where does the {rng.choice(NOUNS)} go in part {i}?", "tokens": []},
                "answers": [{"text": rng.choice(PLACES), "tokens": []}, {"text": f"to {rng.choice(PLACES)}", "tokens": []}]}

    return {"data/narrativeqa/train.jsonl": [row(i, False) for i in range(9)],
            "data/narrativeqa/test.jsonl": [row(i, i % 3 != 1) for i in range(5)]}


def infbench():
    files = {}
    for name in ("longbook_qa_eng", "longbook_choice_eng", "longbook_sum_eng"):
        rows = []
        for i in range(5):
            options = [f"the {n}" for n in rng.sample(NOUNS, 4)] if "choice" in name else []
            answer = [rng.choice(options)] if options else [f" {text(2)} " if "sum" in name else rng.choice(NOUNS)]
            rows.append({"id": i, "context": long_text(i, 66000), "input": f"What about the {rng.choice(NOUNS)}?",
                         "answer": answer, "options": options})
        files[f"data/infbench/{name}.jsonl"] = rows
    return files


def multi_lexsum():
    def row(i, long):
        sources = [long_text(i, 66000), text(3)] if long else [text(4)]
        return {"id": f"case-{i}", "sources": sources, "summary/short": None if i % 4 == 2 else text(2), "summary/long": text(3)}

    return {"data/multi_lexsum/train.jsonl": [row(i, False) for i in range(7)],
            "data/multi_lexsum/validation.jsonl": [row(100 + i, i % 3 != 1) for i in range(7)],
            "data/multi_lexsum/test.jsonl": [row(200 + i, False) for i in range(3)]}


def alce_docs(count):
    return [{"id": str(i), "title": rng.choice(PLACES), "text": text(2), "score": 1.0 - i / 100} for i in range(count)]


def alce():
    asqa, qampari = [], []
    for i in range(7):
        pairs = [{"question": "q?", "short_answers": [rng.choice(NOUNS), "x y"], "context": "c", "wikipage": None} for _ in range(2)]
        notes = [{"long_answer": text(2), "knowledge": []} for _ in range(2)]
        asqa.append({"question": f"What of {rng.choice(NOUNS)} {i}?", "answer": text(2), "qa_pairs": pairs, "annotations": notes,
                     "sample_id": str(i), "docs": alce_docs(9)})
        qampari.append({"id": str(i), "question": f"Which are {rng.choice(NOUNS)} {i}?", "answer": "a, b",
                        "answers": [[n, n.upper()] for n in rng.sample(NOUNS, 6)], "docs": alce_docs(9)})
    return {"data/alce/asqa_eval_gtr_top2000.json": asqa, "data/alce/qampari_eval_gtr_top2000.json": qampari}


def prompt_file(kind):
    demo = "{instruction}\n\nQ: {question}\n\n{context}\n" + ("\n" if kind == "asqa" else "") + "A: {answer}"
    return {"instruction": f"Answer about {kind} from what is listed, and say where it stands.", "demo_sep": "\n\n\n",
            "demo_prompt": demo, "doc_prompt": "Listed [{ID}]({title}): {text}",
            "demos": [{"question": f"{kind} q{i}", "answer": f"answer {i} [1].", "docs": alce_docs(2)} for i in range(4)]}


def config(entries, shots, samples, chat=False, newline=False, more=""):
    join = lambda i: ",".join(str(e[i]) for e in entries)
    return (f"input_max_length: {join(1)}\ndatasets: {join(0)}\ngeneration_max_length: {join(2)}\ntest_files: '{join(3)}'\n"
            f"demo_files: '{join(4)}'\nuse_chat_template: {str(chat).lower()}\nmax_test_samples: {samples}\nshots: {shots}\n"
            f"stop_new_line: {str(newline).lower()}\nmodel_name_or_path: some/model\n{more}")


def configs():
    kv, kilt = "data/json_kv/test_k{}_dep6.jsonl", "data/kilt/{}.jsonl"
    recall = []
    for length, k in ((900, 6), (1700, 12)):
        recall += [("ruler_niah_mk_2", length, 50, f"data/ruler/mk/validation_{length}.jsonl", ""),
                   ("ruler_niah_mv", length, 50, f"data/ruler/mv/validation_{length}.jsonl", ""),
                   ("json_kv", length, 100, kv.format(k), "")]
    rag = []
    for length, k in ((700, 4), (1500, 10)):
        for name, data in (("kilt_nq", "nq"), ("kilt_hotpotqa", "hotpotqa"), ("kilt_popqa_3", "popqa")):
            rag.append((name, length, 20, kilt.format(f"{data}_k{k}"), kilt.format(f"{data}_demos")))
    icl = []
    for length, shots in ((1400, 24), (3000, 60)):
        for name in ("trec_coarse", "trec_fine", "banking77", "clinic150", "nlu"):
            icl.append((f"icl_{name}_{shots}shot_balance", length, 20, "", ""))
    ruler = [("ruler_vt", 900, 50, "data/ruler/vt/validation_900.jsonl", ""),
             ("ruler_qa_1", 900, 50, "data/ruler/qa/validation_900.jsonl", "")]
    longqa = [(f"{n}_{t}", length, 30, "", "") for length, t in ((1200, 700), (2200, 1900))
              for n in ("narrativeqa", "infbench_qa_eng", "infbench_choice_eng")]
    summ = [(f"{n}_{t}", length, 200, "", "") for length, t in ((1500, 900),) for n in ("infbench_sum_eng", "multi_lexsum")]
    cite = [(f"alce_{n}_{k}", length, 60, f"data/alce/{n}_eval_gtr_top2000.json", f"prompts/{n}_revised.json")
            for length, k in ((1000, 3), (1400, 7)) for n in ("asqa", "qampari")]
    rerank = [("msmarco_rerank_psg", 900, 100, "data/msmarco/k8.jsonl", "data/msmarco/demos.jsonl"),
              ("msmarco_rerank_psg", 1500, 100, "data/msmarco/k14.jsonl", "data/msmarco/few_demos.jsonl")]
    # Another seed, and YAML as people write it by hand.
    seven = [("json_kv", 1000, 100, kv.format(6), ""), ("ruler_niah_mk_2", 1000, 50, "data/ruler/mk/validation_900.jsonl", ""),
             ("kilt_nq", 800, 20, kilt.format("nq_k4"), kilt.format("nq_demos")),
             ("kilt_popqa_2.5", 800, 20, kilt.format("popqa_k4"), kilt.format("popqa_demos")),
             ("icl_trec_coarse_24shot_balance", 1500, 20, "", ""), ("icl_NLU_24shot_balance", 1500, 20, "", ""),
             ("msmarco_rerank_psg", 1000, 100, "data/msmarco/k8.jsonl", "data/msmarco/demos.jsonl")]
    seven_chat = [("narrativeqa_800", 1300, 30, "", ""), ("infbench_choice_eng_800", 1300, 30, "", ""), ("multi_lexsum_800", 1400, 200, "", ""),
                  ("alce_asqa_3", 1100, 60, "data/alce/asqa_eval_gtr_top2000.json", "prompts/asqa_revised.json")]
    return {"configs/seven.yaml": "---\n" + config(seven, 2, 4, more="seed: 0x7\ndo_sample: off\n"),
            "configs/seven_chat.yaml": config(seven_chat, 2, 3, chat=True, more="seed: 7\nsystem_message: >-\n  Speak\n  briefly.\n"),
            "configs/recall.yaml": config(recall, 2, 5), "configs/rag.yaml": config(rag, 2, 4, newline=True),
            "configs/icl.yaml": config(icl, 0, 6), "configs/ruler.yaml": config(ruler, 0, 3),
            "configs/longqa.yaml": config(longqa, 2, 3, chat=True), "configs/summ.yaml": config(summ, 2, 3, chat=True),
            "configs/cite.yaml": config(cite, 2, 4, chat=True), "configs/rerank.yaml": config(rerank, 2, 4, newline=True)}


def data_files():
    files = {}
    for length, pairs in ((900, 6), (1700, 12)):
        files[f"data/json_kv/test_k{pairs}_dep6.jsonl"] = json_kv_rows(9, pairs)
        files[f"data/ruler/mk/validation_{length}.jsonl"] = ruler_rows(7, "mk")
        files[f"data/ruler/mv/validation_{length}.jsonl"] = ruler_rows(7, "mv")
    files["data/ruler/vt/validation_900.jsonl"] = ruler_rows(5, "vt")
    files["data/ruler/qa/validation_900.jsonl"] = ruler_rows(5, "qa")
    for name, variants in (("nq", 3), ("hotpotqa", 2), ("popqa", 2)):
        pop = name == "popqa"
        state = rng.getstate()
        for k in (4, 10):
            rng.setstate(state)
            files[f"data/kilt/{name}_k{k}.jsonl"] = qa_rows(8, variants, k, pop)
        files[f"data/kilt/{name}_demos.jsonl"] = qa_rows(8, 2, 2, pop, first_id=0 if pop else 50)
    files["data/msmarco/k8.jsonl"] = rerank_rows(5, 2, 8)
    files["data/msmarco/k14.jsonl"] = rerank_rows(5, 2, 14, titled=True)
    files["data/msmarco/demos.jsonl"] = rerank_rows(12, 2, 3, first=0)
    files["data/msmarco/few_demos.jsonl"] = rerank_rows(4, 2, 3, first=7, titled=True)
    trec = {"coarse_label": 6, "fine_label": 50}
    files["data/icl/trec/train.jsonl"] = labelled(80, trec, trec)
    files["data/icl/trec/test.jsonl"] = labelled(5, trec, trec)
    files["data/icl/banking77/train.jsonl"] = labelled(90, ["label"], {"label": 77})
    files["data/icl/banking77/test.jsonl"] = labelled(40, ["label"], {"label": 5})
    files["data/icl/clinc_oos/train.jsonl"] = labelled(90, ["intent"], {"intent": 9})
    files["data/icl/clinc_oos/validation.jsonl"] = labelled(31, ["intent"], {"intent": 151})
    files["data/icl/nlu_evaluation_data/train.jsonl"] = labelled(101, ["label"], {"label": 7})
    files.update(narrativeqa())
    files.update(infbench())
    files.update(multi_lexsum())
    files.update(alce())
    return files | {f"prompts/{kind}_revised.json": prompt_file(kind) for kind in ("asqa", "qampari")}


def expand(value):
    if isinstance(value, dict) and "$repeat" in value:
        return value["$repeat"][0] * value["$repeat"][1]
    if isinstance(value, dict) and "$concat" in value:
        return "".join(expand(part) for part in value["$concat"])
    if isinstance(value, dict):
        return {k: expand(v) for k, v in value.items()}
    return [expand(v) for v in value] if isinstance(value, list) else value


def write_tree(root, files):
    for path, content in files.items():
        path = root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(expand(row), ensure_ascii=row.get("id", 0) == 1) + "\n" for row in content))
        else:
            path.write_text(json.dumps(expand(content), indent=1))


# --- upstream's texts, and ours in their place


def literals(source):
    """(function, ordinal, start, end, is_f, value) of every string literal, in order."""
    function, ordinal, expecting = "", 0, False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in ("def", "class") and token.start[1] == 0:
            expecting = True
        elif expecting and token.type == tokenize.NAME:
            function, ordinal, expecting = token.string, 0, False
        elif token.type == tokenize.STRING:
            is_f = token.string[0] in "fF"
            yield function, ordinal, token.start, token.end, is_f, ast.literal_eval(token.string.lstrip("fF"))
            ordinal += 1


def known_texts():
    source = (OUT.parent / "upstream.cc").read_text()
    return re.findall(r'\{\s*"([\w.]+)",\s*"(\w+)",\s*(\d+),\s*"[0-9a-f]{64}",\s*"([^"]*)"\}', source)


def invented(text_id, slots, old):
    """A text of ours with the same slots; blank lines at its ends stay, since the parts are joined by them."""
    head, tail = re.match(r"\s*", old)[0], re.search(r"\s*$", old)[0]
    if "system" in text_id:
        return old if not slots else " ".join(["Of"] + ["{%s}" % s for s in slots] + ["it is said"])
    body = f"Words for {text_id}." + "".join("\n%s > {%s}" % (i, s if not s.isdigit() else "") for i, s in enumerate(slots))
    if text_id == "icl.user":
        body += " Braces {{label}} stay."
    return head + body + (tail or "\n" if "demos" not in text_id else tail)


def rewrite(source):
    """Upstream's source with its sentences replaced, and the stand-in with the same literals and nothing else."""
    known = {(function, int(ordinal)): (text_id, slots.split(",") if slots else []) for text_id, function, ordinal, slots in known_texts()}
    lines = source.split("\n")
    stand_in, function = [], ""
    edits = []
    for name, ordinal, start, end, is_f, value in literals(source):
        if name != function:
            function = name
            stand_in.append(f"\n\ndef {name}():")
        new = "x"
        if (name, ordinal) in known:
            new = invented(*known[(name, ordinal)], value)
            edits.append((start, end, ("f" if is_f else "") + json.dumps(new, ensure_ascii=False)))
        if name:
            stand_in.append(f"    {'f' if is_f and new != 'x' else ''}{json.dumps(new)}")
    for (row, column), (end_row, end_column), new in reversed(edits):
        assert row == end_row, "a text of several lines"
        line = lines[row - 1]
        lines[row - 1] = line[:column] + new + line[end_column:]
    return "\n".join(lines), '"""Literals in the places of upstream\'s, for tests."""\n' + "\n".join(stand_in) + "\n"


# --- running upstream


def hub_from_files(original, root):
    """datasets.load_dataset, with the hub's datasets read from the files under root."""
    import datasets

    hub = {
        "CogComp/trec": ("icl/trec", ["train", "test"]),
        "PolyAI/banking77": ("icl/banking77", ["train", "test"]),
        "clinc_oos": ("icl/clinc_oos", ["train", "validation"]),
        "xingkunliuxtracta/nlu_evaluation_data": ("icl/nlu_evaluation_data", ["train"]),
        "narrativeqa": ("narrativeqa", ["train", "test"]),
        "allenai/multi_lexsum": ("multi_lexsum", ["train", "validation", "test"]),
        "xinrongzhang2022/infinitebench": ("infbench", ["longbook_qa_eng", "longbook_choice_eng", "longbook_sum_eng"]),
    }
    label_counts = {"coarse_label": 6, "fine_label": 50, "label": 77, "intent": 151}

    def load(path, *args, **kwargs):
        if path not in hub:
            return original(path, *args, **kwargs)
        folder, splits = hub[path]
        files = {s: str(root / "data" / folder / f"{s}.jsonl") for s in splits}
        if "features" in kwargs:
            return original("json", data_files=files, features=kwargs["features"])
        data = original("json", data_files=files)
        for column, count in label_counts.items():
            if column in data[splits[0]].column_names and folder.startswith("icl"):
                data = data.cast_column(column, datasets.ClassLabel(names=[str(i) for i in range(count)]))
        return data

    return load


def run_upstream(source, root, utils, model_tokenizer, length_tokenizer):
    """{(config, dataset, length): ([row ..], system_template, kind)} from upstream's load_data on the files under root."""
    import datasets
    import numpy
    import yaml

    module = types.ModuleType("upstream_data")
    sys.modules["utils"] = utils
    exec(compile(source, "data.py", "exec"), module.__dict__)
    original = datasets.load_dataset
    module.load_dataset = datasets.load_dataset = hub_from_files(original, root)
    module.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda name: length_tokenizer)
    datasets.disable_caching()
    datasets.disable_progress_bars()
    import model_utils

    runs = {}
    for path in sorted((root / "configs").glob("*.yaml")):
        c = yaml.safe_load(path.read_text())
        split = lambda key: str(c[key]).split(",")
        for dataset, test, demo, length, gen in zip(*(split(k) for k in ("datasets", "test_files", "demo_files", "input_max_length", "generation_max_length"))):
            args = types.SimpleNamespace(max_test_samples=c["max_test_samples"], shots=c["shots"], seed=c.get("seed", 42), popularity_threshold=3)
            random.seed(args.seed)
            numpy.random.seed(args.seed)
            data = module.load_data(args, dataset, test, demo)
            rows = []
            for item in data["data"]:
                item = dict(item)
                before = item["context"]
                ids = model_utils.tokenize(item, data, model_tokenizer, int(length), int(gen), c["use_chat_template"], system_message=c.get("system_message"))["input_ids"][0].tolist()
                template = data["user_template"] if c["use_chat_template"] else data["prompt_template"]
                rows.append((item, template.format(**item), ids, before != item["context"]))
            runs[(path.stem, dataset, int(length))] = (rows, data, c["use_chat_template"])
    datasets.load_dataset = original
    return runs


def short(data):
    return hashlib.sha256(data).hexdigest()[:16]


def ids_digest(ids):
    return short(("[" + ",".join(map(str, ids)) + "]").encode())


def outputs(item, i):
    """What an invented model wrote."""
    answer = item["answer"] if "answer" in item and item["answer"] is not None else "x"
    flat = (answer if isinstance(answer, str) else answer[-1] if isinstance(answer[-1], str) else answer[-1][0])[:300]
    return [f" {flat}\nmore", f" I say {flat.upper()}, or not.\nAnswer: {flat}", " none of it [1][2], kettle, the keeper."][i % 3]


def golden_of(runs):
    golden = {}
    for (config_name, dataset, length), (rows, data, chat) in runs.items():
        cell = []
        for i, (item, prompt, ids, was_cut) in enumerate(rows):
            output = ("" if chat else data["system_template"].format(**item)) + outputs(item, i)
            metrics, others = data["post_process"]({"output": output}, item)
            cell.append({"prompt": short(prompt.encode()), "ids": ids_digest(ids), "count": len(ids), "cut": was_cut,
                         "output": outputs(item, i), "metrics": {k: float(v) for k, v in metrics.items()}})
        golden[f"{config_name} {dataset} {length}"] = cell
    return golden


def length_tokenizer_file():
    """A tokenizer built like Llama 2's: a dummy prefix, metaspace, bytes for what is unknown, BOS in front."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors, trainers

    trained = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    global rng
    keep, rng = rng, random.Random(1)
    corpus = [text(40).replace("東", "").replace("村", "") for _ in range(30)]
    rng = keep
    trained.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=420, special_tokens=specials, show_progress=False, max_token_length=3))
    made = json.loads(trained.to_str())
    made["added_tokens"] = made["added_tokens"][:3]
    final = Tokenizer.from_str(json.dumps(made))
    final.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    final.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return final.to_str()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkout", type=pathlib.Path, required=True)
    parser.add_argument("--real", type=pathlib.Path, help="also write the digests of upstream's own sentences here")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    OUT.mkdir(exist_ok=True)
    files = data_files()
    files.update(configs())
    source = (checkout / "data.py").read_text()
    replaced, files["data.py"] = rewrite(source)
    folder = OUT / "length_tokenizer"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(length_tokenizer_file())
    (OUT / "fixture.json").write_text(json.dumps(files, ensure_ascii=False, separators=(",", ":")) + "\n")

    sys.path.insert(0, str(checkout))
    import utils
    from transformers import PreTrainedTokenizerFast

    model = PreTrainedTokenizerFast(tokenizer_file=str(OUT.parents[2] / "models/baseline/tokenizer.json"))
    model.chat_template = "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n{% endfor %}<|assistant|>\n"
    length = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    root = pathlib.Path(tempfile.mkdtemp())
    here = os.getcwd()
    try:
        write_tree(root, files)
        os.chdir(root)
        golden = golden_of(run_upstream(replaced, root, utils, model, length))
        if arguments.real:
            real = golden_of(run_upstream(source, root, utils, model, length))
            os.chdir(here)
            arguments.real.write_text(json.dumps(real, indent=0) + "\n")
            write_tree(arguments.real.parent / "release", {**files, "data.py": source})
    finally:
        os.chdir(here)
        shutil.rmtree(root)
    (OUT / "golden.json").write_text(json.dumps(golden, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    count = sum(len(cell) for cell in golden.values())
    cut = sum(row["cut"] for cell in golden.values() for row in cell)
    print(len(golden), "datasets and lengths,", count, "prompts,", cut, "of them cut,",
          sum(len(row["metrics"]) for cell in golden.values() for row in cell), "values;",
          sum(p.stat().st_size for p in OUT.rglob("*") if p.is_file()), "bytes")


if __name__ == "__main__":
    main()
