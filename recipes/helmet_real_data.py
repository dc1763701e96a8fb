"""Compares our importer with upstream's unmodified data.py on real files: prompts and cost.

    python recipes/helmet_real_data.py --data=DIR --trec=q_class_en --banking77=.. --clinc=.. --nlu=.. \
        --lost-in-the-middle=.. --ruler=DIR --novels=DIR                       # lays public files out as HELMET's data
    python recipes/helmet_real_data.py --data=DIR --checkout=HELMET --programs=build/dev/bin \
        [--configs=a.yaml,b.yaml] [--lengths=8192,..] [--tokenizer=DIR] [--length-tokenizer=DIR]

The first makes DIR and DIR/configs from clones of public repositories, as many of them as are named (a configuration has what one
call named); the second imports each dataset of the configurations (all of DIR/configs unless named), asks `varifocal samples` for its prompts, and compares text and
token ids with what upstream loads and tokenizes. With the real archive, --data=HELMET/data --configs=HELMET/configs/rag_short.yaml.

--trec                trangnt08/q_class_en: data/train_5500.label and TREC_10.label, the files of CogComp/trec
--banking77           PolyAI-LDN/task-specific-datasets
--clinc               clinc/oos-eval
--nlu                 xliuhw/NLU-Evaluation-Data: the training set of its first fold
--lost-in-the-middle  nelson-liu/lost-in-the-middle: JSON KV; questions of NQ with their gold passages, among which the
                      others' stand as distractors: as documents to answer from, to rank, and to cite
--ruler               what RULER's scripts/data/synthetic/niah.py wrote: DIR/{mk_2,mk_3,mv}_LENGTH/validation.jsonl
--novels              novels as NAME.txt, in the layouts of NarrativeQA and InfiniteBench, with the questions of
                      eval_tasks/tasks/novel_questions.jsonl
--tokenizer           a model's; models/baseline unless given
--length-tokenizer    in the place of Llama 2's; the fixture's unless given
"""

import csv
import gzip
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "recipes"), str(ROOT / "recipes/goldens")]
import helmet_side_by_side as side  # noqa: E402
import make_helmet_fixture as fixture  # noqa: E402
from flags import MAYBE_PATH, Path, parse  # noqa: E402

LENGTHS = [8192, 16384, 32768, 131072]
DEPTHS = [0, 0.2, 0.4, 0.6, 0.8, 1.0]
RULER_NIAH = r"(?:Some|A) special magic (?P<type_needle_v>\w+) .*?\n(?P<context>.*)\nWhat .* for (?P<query>.*) mentioned in"


# --- layouts


class Layout:
    """A data directory in HELMET's layout, and the configurations that ask for what is in it."""

    def __init__(self, data):
        self.data, self.entries = data, {}

    def rows(self, path, rows):
        path = self.data / path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as out:
            count = sum(1 for row in rows if out.write(json.dumps(row, ensure_ascii=False) + "\n"))
        print(path, count, "rows,", path.stat().st_size, "bytes")

    def ask(self, config, dataset, length, new, test="", demos=""):
        self.entries.setdefault(config, []).append((dataset, length, new, test, demos))

    def write_configs(self):
        (self.data / "configs").mkdir(exist_ok=True)
        for name, entries in self.entries.items():
            chat, shots = name in side.CHAT_FAMILIES, 0 if name == "icl" else 2
            samples = 500 if name == "icl" else 100
            (self.data / f"configs/{name}.yaml").write_text(fixture.config(entries, shots, samples, chat))


def numbered(names):
    return {name: i for i, name in enumerate(sorted(set(names)))}


def trec(out, source):
    lines = {split: (source / f"data/{name}.label").read_bytes().replace(b"\xf0", b" ").decode().splitlines()
             for split, name in (("train", "train_5500"), ("test", "TREC_10"))}
    fine = numbered(line.split(" ")[0] for line in lines["train"])
    coarse = numbered(name.split(":")[0] for name in fine)
    for split in lines:
        pairs = [line.strip().split(" ", 1) for line in lines[split]]
        out.rows(f"icl/trec/{split}.jsonl", [{"text": t, "coarse_label": coarse[f.split(":")[0]], "fine_label": fine[f]} for f, t in pairs])
    for length, some, many in ((8192, 400, 400), (16384, 800, 800), (32768, 1600, 1600), (131072, 6600, 6400)):
        out.ask("icl", f"icl_trec_coarse_{some}shot_balance", length, 20)
        out.ask("icl", f"icl_trec_fine_{many}shot_balance", length, 20)


def ask_icl(out, name, shots):
    for length, shot in zip(LENGTHS, shots):
        out.ask("icl", f"icl_{name}_{shot}shot_balance", length, 20)


def banking77(out, source):
    rows = {s: list(csv.DictReader((source / f"banking_data/{s}.csv").open(newline="", encoding="utf-8"))) for s in ("train", "test")}
    labels = numbered(r["category"] for r in rows["train"])
    for split in rows:
        out.rows(f"icl/banking77/{split}.jsonl", [{"text": r["text"], "label": labels[r["category"]]} for r in rows[split]])
    ask_icl(out, "banking77", (360, 720, 1450, 5900))


def clinc(out, source):
    sets = json.loads((source / "data/data_oos_plus.json").read_text())
    intents = numbered(label for _, label in sets["train"] + sets["oos_train"])
    for key, split in (("train", "train"), ("val", "validation")):
        out.rows(f"icl/clinc_oos/{split}.jsonl", [{"text": t, "intent": intents[i]} for t, i in sets[key] + sets["oos_" + key]])
    ask_icl(out, "clinic150", (440, 880, 1750, 7050))


def nlu(out, source):
    (path,) = source.glob("**/*rasa_json*/CrossValidation/KFold_1/merged/*.json")
    examples = json.loads(path.read_text())["rasa_nlu_data"]["common_examples"]
    intents = numbered(e["intent"] for e in examples)
    out.rows("icl/nlu_evaluation_data/train.jsonl", [{"text": e["text"], "label": intents[e["intent"]]} for e in examples])
    ask_icl(out, "nlu", (510, 1020, 2040, 8296))


def lost_in_the_middle(out, source):
    lines = lambda path: [json.loads(line) for line in gzip.open(source / path, "rt", encoding="utf-8")]
    kv = [r["ordered_kv_records"] for r in lines("kv_retrieval_data/kv-retrieval-140_keys.jsonl.gz")]
    for length, k in zip(LENGTHS, (105, 220, 440, 1800)):
        def kv_rows():
            for i in range(600):  # the records of row i, of the row after it, .. and two more for the demonstrations
                records = [record for j in range(k // 140 + 2) for record in kv[(i + j) % len(kv)]][: k + 2]
                depth = DEPTHS[i % 6]
                key, value = records[round(depth * (k - 1))]
                yield {"context": "JSON data:\n" + json.dumps(dict(records[:k]), indent=4), "question": key, "answer": value,
                       "demos": records[k:], "num_kvs": k, "depth": depth}
        out.rows(f"json_kv/test_k{k}_dep6.jsonl", kv_rows())
        out.ask("recall", "json_kv", length, 100, f"data/json_kv/test_k{k}_dep6.jsonl")

    nq, rng = lines("qa_data/nq-open-oracle.jsonl.gz"), random.Random(5)

    def with_passages(rows, k, depths=DEPTHS):
        for r in rows:
            others = [x["ctxs"][0] for x in rng.sample(nq, k) if x["question"] != r["question"]][: k - 1]
            for depth in depths:
                at = round(depth * len(others))
                ctxs = others[:at] + r["ctxs"] + others[at:]
                yield {"question": r["question"], "answers": r["answers"], "depth": depth, "positive_ctxs": r["ctxs"], "hard_negative_ctxs": [],
                       "ctxs": [{"id": f"{len(c['text']) % 97}-{n}", "title": c["title"], "text": c["text"]} for n, c in enumerate(ctxs)]}

    def to_rank(rows, k, orders):
        for i, r in enumerate(with_passages(rows, k, DEPTHS[1 : orders + 1])):
            gold = {p["text"] for p in r["positive_ctxs"]}
            yield {"qid": str(100 + i // orders), "query": r["question"],
                   "ctxs": [{"id": c["id"], "text": c["text"], "label": 3 * (c["text"] in gold) + n % 2} for n, c in enumerate(r["ctxs"])]}

    demos = "kilt/nq-train-multikilt_1000_k3_dep6.jsonl"
    out.rows(demos, with_passages(nq[1000:1300], 3))
    out.rows("msmarco/demos_k10_dep3.jsonl", to_rank(nq[1000:1200], 10, 3))
    for length, k, ranked, cited in ((8192, 50, 50, 30), (16384, 105, 130, 75), (32768, 220, 285, 165)):
        path = f"kilt/nq-dev-multikilt_1000_k{k}_dep6.jsonl"
        out.rows(path, with_passages(nq[:150], k))
        out.ask("rag", "kilt_nq", length, 20, f"data/{path}", f"data/{demos}")
        path = f"msmarco/k{ranked}_dep3.jsonl"
        out.rows(path, to_rank(nq[:41], ranked, 3))
        out.ask("rerank", "msmarco_rerank_psg", length, 200, f"data/{path}", "data/msmarco/demos_k10_dep3.jsonl")
        for kind in ("asqa", "qampari"):
            out.ask("cite", f"alce_{kind}_{cited}", length, 300, f"data/alce/{kind}_eval.json", f"prompts/{kind}_revised.json")
    cited = [{"question": r["question"], "docs": r["ctxs"], "answers": r["answers"]} for r in with_passages(nq[:120], 170, [0.4])]
    out.rows("alce/asqa_eval.json", [{**r, "sample_id": str(i), "qa_pairs": [{"short_answers": r["answers"]}]} for i, r in enumerate(cited)])
    out.rows("alce/qampari_eval.json", [{**r, "id": str(i), "answers": [r["answers"]]} for i, r in enumerate(cited)])


def ruler(out, source):
    for folder in sorted(source.glob("m*_*")):
        name, length = folder.name.rsplit("_", 1)
        if not (folder / "validation.jsonl").exists():
            continue
        path = f"ruler/niah_{name}/validation_{length}.jsonl"
        rows = []
        for i, line in enumerate((folder / "validation.jsonl").open(encoding="utf-8")):
            row = json.loads(line)  # HELMET's files have the parts of the prompt too, and number their rows
            rows.append({**row, "index": i, **re.match(RULER_NIAH, row["input"], re.DOTALL).groupdict()})
        out.rows(path, rows)
        out.ask("recall", f"ruler_niah_{name}", int(length), 100 if name == "mk_3" else 50, f"data/{path}")


def novels(out, source):
    books = {path.stem.replace("_", " "): path.read_text(encoding="utf-8") for path in sorted(source.glob("*.txt"))}
    questions = [json.loads(line) for line in (ROOT / "eval_tasks/tasks/novel_questions.jsonl").open(encoding="utf-8")]
    random.Random(3).shuffle(questions)
    asked = [(i, q, books[q["novel"].lower()]) for i, q in enumerate(questions)]
    story = lambda i, q, text: {"document": {"id": str(i), "kind": "gutenberg", "text": text}, "question": {"text": q["question"]},
                                "answers": [{"text": a} for a in q["answers"]]}
    out.rows("narrativeqa/train.jsonl", [story(i, q, text[:2000]) for i, q, text in asked[:40]])
    out.rows("narrativeqa/test.jsonl", [story(*a) for a in asked[40:60]])
    book = lambda i, q, text, answer, options: {"id": i, "context": text, "input": q, "answer": answer, "options": options}
    out.rows("infbench/longbook_qa_eng.jsonl", [book(i, q["question"], t, q["answers"], []) for i, q, t in asked[:20]])
    out.rows("infbench/longbook_choice_eng.jsonl",
             [book(i, q["question"], t, q["answers"][:1], sorted(q["answers"][:1] + q["wrong"][:3])) for i, q, t in asked[20:40]])
    out.rows("infbench/longbook_sum_eng.jsonl", [book(i, "", t, [f"  {t[3000:4000]} "], []) for i, t in enumerate(books.values())])
    for length in LENGTHS:
        for dataset, less, new in (("narrativeqa", 300, 100), ("infbench_qa_eng", 210, 10), ("infbench_choice_eng", 210, 10)):
            out.ask("longqa", f"{dataset}_{length - less}", length, new)
        out.ask("summ", f"infbench_sum_eng_{length - 1400}", length, 1200)


SOURCES = {"trec": trec, "banking77": banking77, "clinc": clinc, "nlu": nlu, "lost-in-the-middle": lost_in_the_middle, "ruler": ruler, "novels": novels}


# --- comparing


def lists_for_examples(hub_from_files):
    """Upstream reads the training examples anew for every question; a list is the same, a hundred times as fast."""

    class Examples(list):
        features = None

    def listed(data):
        examples = Examples(data.to_list())
        examples.features = data.features
        return examples

    class Whole:  # NLU, before upstream splits it
        def __init__(self, data):
            self.data, self.features = data, data.features

        def train_test_split(self, **settings):
            parts = self.data.train_test_split(**settings)
            return {"train": listed(parts["train"]), "test": parts["test"]}

    def wrapped(original, root):
        inner = hub_from_files(original, root)

        def load(path, *arguments, **settings):
            data = inner(path, *arguments, **settings)
            if path in ("CogComp/trec", "PolyAI/banking77", "clinc_oos"):
                data = {**data, "train": listed(data["train"])}
            return {"train": Whole(data["train"])} if "nlu_evaluation_data" in path else data

        return load

    return wrapped


# A small process between this one and the program: the peak of a process counts what it was forked from.
LAUNCH = """import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(f"{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss / 1024}")
sys.exit(code)"""


def measured(command, work):
    """Standard output, seconds of CPU, peak MB of a program."""
    ran = subprocess.run([sys.executable, "-S", "-c", LAUNCH, work / "usage", *command], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {ran.returncode}\n{ran.stderr[-3000:]}")
    return ran.stdout, *map(float, (work / "usage").read_text().split())


def single_entries(config, lengths):
    import yaml

    whole = yaml.safe_load(config.read_text())
    keys = ["datasets", "input_max_length", "generation_max_length", "test_files", "demo_files"]
    for entry in zip(*(str(whole[key]).split(",") for key in keys)):
        if not lengths or entry[1] in lengths:
            text = fixture.config([entry], whole["shots"], whole["max_test_samples"], whole["use_chat_template"], whole["stop_new_line"])
            yield entry[0], int(entry[1]), whole["use_chat_template"], text


def digest(ids):
    return hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()


def compare(a, work):
    import datasets
    from transformers import PreTrainedTokenizerFast

    checkout, data, programs = a.checkout.resolve(), a.data.resolve(), a.programs.resolve()
    sys.path.insert(0, str(checkout))
    import utils

    model = work / "model"
    model.mkdir()
    shutil.copy(a.tokenizer / "tokenizer.json", model)
    config = json.loads((a.tokenizer / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": side.CHAT_TEMPLATE}))
    subprocess.run([sys.executable, ROOT / "recipes/chat_format.py", model], check=True, stdout=subprocess.DEVNULL)
    load = lambda folder: PreTrainedTokenizerFast(tokenizer_file=str(folder.resolve() / "tokenizer.json"))
    tokenizer, length_tokenizer = load(model), load(a.length_tokenizer)
    tokenizer.chat_template = side.CHAT_TEMPLATE
    fixture.hub_from_files = lists_for_examples(fixture.hub_from_files)
    for verb in ("map", "filter"):  # in this process: upstream starts up to 40
        original = getattr(datasets.Dataset, verb)
        setattr(datasets.Dataset, verb, lambda self, *args, original=original, num_proc=None, **settings: original(self, *args, **settings))

    root = work / "root"
    (root / "configs").mkdir(parents=True)
    for name, target in (("data", data), ("data.py", checkout / "data.py"), ("prompts", checkout / "prompts")):
        (root / name).symlink_to(target)
    os.chdir(root)
    print("Seconds of CPU; upstream's without the start of Python.\n\n| dataset | length | prompts | differences | cut | import | peak memory | samples | upstream |\n| --- " + "| ---: " * 8 + "|")
    failed = prompts = cuts = 0
    configs = [pathlib.Path(c) for c in a.configs.split(",")] if a.configs else sorted((data / "configs").glob("*.yaml"))
    for dataset, length, chat, text in (e for c in configs for e in single_entries(c, a.lengths.split(",") if a.lengths else [])):
        (root / "configs/one.yaml").write_text(text)
        shutil.rmtree(work / "suites", ignore_errors=True)
        _, import_s, import_mb = measured([programs / "varifocal", "suites", "import-helmet", f"--checkout={root}", f"--data={data}", "--configs=one",
                                           f"--out={work / 'suites'}", f"--length-tokenizer={a.length_tokenizer.resolve()}"], work)
        made, samples_s, _ = measured([programs / "varifocal", "samples", work / "suites/helmet_one.yaml", f"--tokenizer={model}", "--format=jsonl"], work)
        ours = [json.loads(line) for line in made.splitlines()]
        start = time.process_time()
        ((theirs, _, _),) = fixture.run_upstream((checkout / "data.py").read_text(), root, utils, tokenizer, length_tokenizer).values()
        upstream_s = time.process_time() - start
        different = abs(len(ours) - len(theirs))
        for i, (x, (_, prompt, ids, _)) in enumerate(zip(ours, theirs)):
            if x["token_ids_sha256"] != digest(ids) or not chat and x["prompt"] != prompt:
                different += 1
                if different == 1:
                    print(f"{dataset} {length}: prompt {i} of row {x['row_id']} has {x['prompt_token_count']} tokens, upstream's {len(ids)}", file=sys.stderr)
        cut = sum(was_cut for *_, was_cut in theirs)
        print(f"| {dataset} | {length} | {len(theirs)} | {different} | {cut} | {import_s:.1f} s | {import_mb:.0f} MB | {samples_s:.1f} s | {upstream_s:.1f} s |", flush=True)
        shutil.rmtree(work / "cache", ignore_errors=True)
        prompts, cuts, failed = prompts + len(theirs), cuts + cut, failed + different
    print(f"{prompts} prompts, {cuts} of them cut: {failed} differences")
    return failed > 0


def main():
    a = parse(__doc__, data=Path, **dict.fromkeys(SOURCES, MAYBE_PATH), checkout=MAYBE_PATH, programs=MAYBE_PATH, configs="", lengths="",
              tokenizer=ROOT / "models/baseline", length_tokenizer=side.TESTDATA / "length_tokenizer")  # fmt: skip
    layout = Layout(a.data)
    for name, make in SOURCES.items():
        source = getattr(a, name.replace("-", "_"))
        if source is not None:
            make(layout, source)
    if layout.entries:
        layout.write_configs()
    if a.checkout is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder).resolve()
        os.environ.update(HF_DATASETS_CACHE=str(work / "cache"), TOKENIZERS_PARALLELISM="false")
        a.tokenizer = a.tokenizer.resolve()
        failed = compare(a, work)
        os.chdir("/")
    sys.exit(failed)


if __name__ == "__main__":
    main()
