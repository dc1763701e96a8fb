"""Rows per hour of HELMET's own program and of Varifocal, on the same rows, checkpoint and number of threads.

Upstream's eval.py runs unchanged but for the settings that `helmet_side_by_side.py` states, with PyTorch's fused attention (sdpa);
Varifocal imports the same release, and a daemon answers it. Both have one thread and are measured by CPU seconds of their process from the
loaded model to the written results, so that other programs on the machine do not count. Two datasets:

 - json_kv: every row has a context of its own;
 - infbench_qa_eng: all rows ask about one document, as those of a book in HELMET do.

Both in f32, or both in bf16, upstream's default, with --dtype=bf16. Prompts and answers are compared first, token by token and character by character;
in bf16 answers may differ, since sums are rounded otherwise, and only their number is reported. Upstream's program needs datasets, nltk, rouge_score, pytrec_eval,
sentence_transformers and setuptools below 80.

    PYTHONPATH=recipes:recipes/goldens python recipes/bench_helmet_rows.py --checkout=HELMET --programs=build/release/bin [--rows=6] [--length=8192] [--dtype=f32] [--model=DIR]
"""

import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import uuid

import helmet_side_by_side as side
from flags import Path, parse

DATASETS = ["json_kv", "infbench_qa_eng"]


def key(dice):
    return str(uuid.UUID(int=dice.getrandbits(128)))


def json_kv_rows(count, pairs):
    dice = random.Random(1)
    for _ in range(count):
        entries = [(key(dice), key(dice)) for _ in range(pairs)]
        lines = ",\n".join(f'    "{k}": "{v}"' for k, v in entries)
        asked, *demos = dice.sample(entries, 3)
        yield {"context": f"JSON data:\n{{\n{lines}\n}}", "question": asked[0], "answer": [asked[1]], "demos": [list(d) for d in demos],
               "num_kvs": pairs, "depth": 0.0}  # fmt: skip


def questions_of_one_document(count, sentences):  # upstream drops documents below 65,536 tokens, then cuts them to the name's length
    dice = random.Random(2)
    nouns = ["parrot", "ribbon", "chimney", "kettle", "anchor", "orchard", "glacier", "meadow", "lantern", "saddle"]
    places = ["Denn", "Upper", "Quillbay", "Marrow", "Hollin"]
    text = " ".join(f"The {dice.choice(nouns)} of {dice.choice(places)} keeps {dice.randint(2, 99)} {dice.choice(nouns)}s." for _ in range(sentences))
    for i, noun in enumerate(itertools.islice(itertools.cycle(nouns), count)):
        yield {"id": i, "context": text, "input": f"What about the {noun} of {places[i % len(places)]}?", "answer": [nouns[-i % len(nouns)]], "options": []}


def make_release(checkout, release, rows, length):
    side.make_release(checkout, release)
    for config in (release / "configs").glob("*.yaml"):
        config.unlink()
    path = release / "data/json_kv/test_long.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in json_kv_rows(rows, length // 20)))
    document = release / "data/infbench/longbook_qa_eng.jsonl"
    document.write_text("".join(json.dumps(row) + "\n" for row in questions_of_one_document(rows, 12000)))
    cells = {"json_kv": ("json_kv", 100, "data/json_kv/test_long.jsonl"), "infbench_qa_eng": (f"infbench_qa_eng_{length - 200}", 10, "")}
    for config, (dataset, answer, file) in cells.items():
        (release / f"configs/{config}.yaml").write_text(
            f"input_max_length: {length}\ndatasets: {dataset}\ngeneration_max_length: {answer}\ntest_files: '{file}'\ndemo_files: ''\n"
            f"use_chat_template: false\nmax_test_samples: {rows}\nshots: 0\nstop_new_line: false\nmodel_name_or_path: some/model\n"
        )


# Run in a process of its own: upstream's program changes folders and replaces modules.
UPSTREAM = """
import json, pathlib, sys, time
import torch
torch.set_num_threads(1)
import helmet_side_by_side as side
work, datasets = pathlib.Path(sys.argv[1]), sys.argv[2].split(",")
side.MODELS = {name: chat for name, chat in side.MODELS.items() if not chat}
sys.path.insert(0, str(work / "release"))
import model_utils
spans, load = [], model_utils.load_LLM
def loaded(*arguments, **settings):
    if spans:
        spans[-1].append(time.process_time())
    model = load(*arguments, **settings)
    spans.append([time.process_time()])
    return model
model_utils.load_LLM = loaded
side.run_upstream(work / "release", work / "models", work / "upstream", datasets, attention="sdpa", dtype=sys.argv[3])
spans[-1].append(time.process_time())
print(json.dumps([end - start for start, end in spans]))
"""


def upstream_seconds(work, dtype):
    path = os.pathsep.join([str(side.ROOT / "recipes"), str(side.ROOT / "recipes/goldens")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    ran = subprocess.run([sys.executable, "-c", UPSTREAM, work, ",".join(DATASETS), dtype], env=environment, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"upstream's eval.py: {ran.stderr[-3000:]}")
    return dict(zip(DATASETS, json.loads(ran.stdout.splitlines()[-1])))


def cpu_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def our_seconds(programs, work, dtype):
    (name,) = side.MODELS
    release, database, seconds = work / "release", work / "results.db", {}
    for dataset in DATASETS:
        suites = work / "suites" / dataset
        side.varifocal(programs, "suites", "import-helmet", f"--checkout={release}", f"--data={release / 'data'}", f"--out={suites}",
                       f"--length-tokenizer={side.TESTDATA / 'length_tokenizer'}", f"--configs={dataset}", "--no-chat")  # fmt: skip
        (suite,) = suites.glob("*.yaml")
        with side.Daemon(programs, database, {name: work / "models" / name}, "--threads=1", dtype=dtype) as daemon:
            before = cpu_seconds(daemon.process)
            answer = side.varifocal(programs, "submit", suite, f"--models={name}", f"--daemon={daemon.address}", "--wait", "--format=json")
            seconds[dataset] = cpu_seconds(daemon.process) - before
        job = json.loads(answer.splitlines()[0])
        side.varifocal(programs, "export", "--format=helmet", f"--db={database}", f"--job={job['job'] if 'job' in job else job['name']}",
                       f"--out={release / 'output'}", "--tag=v1", f"--tokenizer={work / 'models' / name}")  # fmt: skip
    return seconds


def main():
    options = parse(__doc__, checkout=Path, programs=Path, model=side.ROOT / "models/baseline", rows=6, length=8192, dtype=("f32", "bf16"))
    side.MODELS = {name: chat for name, chat in side.MODELS.items() if not chat}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        make_release(options.checkout.resolve(), work / "release", options.rows, options.length)
        (work / "models").mkdir()
        side.make_models(work / "models", options.model)
        ours = our_seconds(options.programs.resolve(), work, options.dtype)
        theirs = upstream_seconds(work, options.dtype)
        counts, differences = side.compare_files(work / "upstream", work / "release/output")
        print(f"compared: {counts}, {len(differences)} differences", *differences[:20], sep="\n")
        for dataset in DATASETS:
            rates = [3600 * options.rows / seconds[dataset] for seconds in (theirs, ours)]
            print(f"{dataset}: rows per CPU hour {rates[0]:.0f} (eval.py), {rates[1]:.0f} (Varifocal): {rates[1] / rates[0]:.2f} times")
        sys.exit(bool(differences) and options.dtype == "f32")


if __name__ == "__main__":
    main()
