"""HELMET's own program and Varifocal on the same data and the same checkpoint, from files to the table of scores.

A small synthetic release (eval_tasks/helmet/import/testdata) is copied over a checkout. Upstream's eval.py runs on it,
unchanged except for settings needed without a GPU and hub access (attention kernel, number format, datasets read from
files). The release is also imported, run by a daemon, and exported. Then

 1. file names, and every key and value of every JSON file, are compared: where both outputs agree, all must be equal;
 2. upstream's judges' scripts and its ALCE scorer run on our files, with fake judges in place of GPT-4 and of the
 entailment model, and their files are imported;
 3. upstream's collect_results.py runs unchanged on our files; its numbers must be those of our database.

    python recipes/helmet_side_by_side.py --checkout=HELMET --programs=build/dev/bin [--work=DIR]
    python recipes/helmet_side_by_side.py .. --model=DIR --configs=rag,rerank     # another model, without 2 and 3
    python recipes/helmet_side_by_side.py .. --configs=seven,seven_chat           # another seed, a system message, other YAML

--work   keep everything here; upstream's half is not run again when it is there
--model  a checkpoint in the place of models/baseline
"""

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import pathlib
import random
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time

from flags import MAYBE_PATH, Path, parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTDATA = ROOT / "eval_tasks/helmet/import/testdata"
sys.path.insert(0, str(ROOT / "recipes/goldens"))
FAMILIES = ["recall", "rag", "longqa", "summ", "rerank", "icl", "cite", "ruler"]
# Names that collect_results knows: one without, one with a chat format.
MODELS = {"Llama-3.1-8B": False, "Llama-3.1-8B-Instruct": True}
CHAT_FAMILIES = ["longqa", "summ", "cite", "seven_chat"]  # the others ask both models the same
CHAT_TEMPLATE = "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n{% endfor %}<|assistant|>\n"
# Of upstream's arguments: how it was started, not what was asked.
SETTINGS_ASIDE = {"config", "output_dir", "model_name_or_path", "num_workers", "overwrite", "no_bf16", "no_torch_compile", "stop_new_line"}
# Fields of upstream's items that repeat the context, passage by passage; ours have `k`, their number.
FIELDS_ASIDE = {"ctxs", "positive_ctxs", "hard_negative_ctxs", "sources"}


def chosen(configs, chat):
    return [c for c in configs if not chat or c in CHAT_FAMILIES]


def make_release(checkout, release):
    """The checkout with our data, prompts and configurations in the place of its own."""
    import make_helmet_fixture as fixture

    shutil.copytree(checkout, release, ignore=shutil.ignore_patterns(".git", "assets", "data"))
    for config in (release / "configs").glob("*.yaml"):
        config.unlink()
    files = json.loads((TESTDATA / "fixture.json").read_text())
    del files["data.py"]
    # Files that collect_results expects for each family, at other paths in the fixture.
    add(files, "configs/recall.yaml", "ruler_niah_mk_3", 900, 50, "data/ruler/mk/validation_900.jsonl", "")
    add(files, "configs/rag.yaml", "kilt_triviaqa", 700, 20, "data/kilt/nq_k4.jsonl", "data/kilt/nq_demos.jsonl")
    fixture.write_tree(release, files)
    points = release / "data/infbench/longbook_sum_eng_keypoints.jsonl"
    points.write_text("".join(json.dumps({"id": i, "keypoints": ["it begins", "it ends"]}) + "\n" for i in range(5)))
    points = release / "data/multi_lexsum/multi_lexsum_val.jsonl"
    points.write_text("".join(json.dumps({"id": f"case-{100 + i}", "summary/short_keypoints": ["who", "why", "when"]}) + "\n" for i in range(7)))


def add(files, config, *entry):
    keys = ["datasets", "input_max_length", "generation_max_length", "test_files", "demo_files"]
    text = files[config]
    for key, value in zip(keys, entry):
        text = re.sub(rf"^{key}: ('?)(.*?)('?)$", rf"{key}: \g<1>\g<2>,{value}\g<3>", text, flags=re.M)
    files[config] = text


def make_models(folder, model):
    """A checkpoint under two names, one with a chat template and what chat_format.py makes of it."""
    for name, chat in MODELS.items():
        shutil.copytree(model, folder / name)
        if chat:
            path = folder / name / "tokenizer_config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": CHAT_TEMPLATE}))
            subprocess.run([sys.executable, ROOT / "recipes/chat_format.py", folder / name], check=True)


# --- upstream's side


def cells(release, configs):
    """(config, position, dataset, length) of every dataset of the configurations."""
    import yaml

    for config in configs:
        c = yaml.safe_load((release / f"configs/{config}.yaml").read_text())
        split = {k: str(c[k]).split(",") for k in ("datasets", "input_max_length", "generation_max_length", "test_files", "demo_files")}
        for i in range(len(split["datasets"])):
            yield config, {k: v[i] for k, v in split.items()}


def run_upstream(release, models, out, configs, attention="eager", dtype="f32"):
    """eval.py, once for each dataset: shuffles without a seed then start from the same state."""
    import datasets
    import make_helmet_fixture as fixture
    import transformers

    os.chdir(release)
    sys.path.insert(0, str(release))
    datasets.load_dataset = fixture.hub_from_files(datasets.load_dataset, release)
    datasets.disable_caching()
    datasets.disable_progress_bars()
    length_tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(TESTDATA / "length_tokenizer/tokenizer.json"))
    tokenizer_of, model_of = transformers.AutoTokenizer.from_pretrained, transformers.AutoModelForCausalLM.from_pretrained

    def model_here(name, **settings):
        settings.update(attn_implementation=attention, device_map=None)
        return model_of(name, **settings)

    transformers.AutoTokenizer.from_pretrained = lambda name, **kw: length_tokenizer if "meta-llama" in name else tokenizer_of(name, **kw)
    transformers.AutoModelForCausalLM.from_pretrained = model_here
    import model_utils

    tokenize, asked = model_utils.tokenize, []

    def tokenize_here(*arguments, **settings):
        inputs = tokenize(*arguments, **settings)
        asked.append(hashlib.sha256(json.dumps(inputs.input_ids[0].tolist(), separators=(",", ":")).encode()).hexdigest())
        return inputs

    model_utils.tokenize = tokenize_here
    digests = {}
    with open(release / "upstream.log", "a") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log), stand_ins():
        for model, chat in MODELS.items():
            for config, cell in cells(release, chosen(configs, chat)):
                sys.argv = ["eval.py", f"--config=configs/{config}.yaml", "--tag=v1", f"--model_name_or_path={models / model}", f"--output_dir={out / model}",
                            "--no_cuda", "--no_torch_compile", "--num_workers=0"] + [f"--{k}={v}" for k, v in cell.items()]
                sys.argv += [] if chat else ["--use_chat_template=False"]
                sys.argv += ["--no_bf16"] if dtype == "f32" else []
                asked.clear()
                runpy.run_path("eval.py", run_name="__main__")
                (made,) = {p.relative_to(out) for p in out.rglob("*.json")} - digests.keys()
                digests[made] = list(asked)
    (out / "prompts").write_text(json.dumps({str(k): v for k, v in digests.items()}))


@contextlib.contextmanager
def stand_ins():
    """Invented judges: sentences end at full stops, and a text entails what shares a word of five letters with it."""
    import nltk

    nltk.sent_tokenize = lambda text: [s for s in re.split(r"(?<=[.!?]) +", text) if s]
    import eval_alce

    eval_alce.sent_tokenize = nltk.sent_tokenize
    eval_alce.autoais_model = eval_alce.autoais_tokenizer = object()
    words = lambda text: set(re.findall(r"\w{5,}", text.lower()))
    eval_alce._run_nli_autoais = lambda passage, claim: int(bool(words(passage) & words(claim)))
    yield


# --- our side


class Daemon:
    """`models` are directories by name. Without a dtype it is the device's own."""

    def __init__(self, programs, database, models, *flags, dtype="f32"):
        port_file = database.parent / "port"
        port_file.unlink(missing_ok=True)
        command = [programs / "varifocald", f"--db={database}", "--listen=127.0.0.1:0", f"--port-file={port_file}", *flags]
        command += [f"--dtype={dtype}"] if dtype else []
        self.process = subprocess.Popen(command + [f"--model={name}={path}" for name, path in models.items()])
        while not port_file.exists() and self.process.poll() is None:
            time.sleep(0.1)
        self.address = f"127.0.0.1:{port_file.read_text().strip()}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def varifocal(programs, *arguments, codes=(0,)):
    ran = subprocess.run([programs / "varifocal", *map(str, arguments)], capture_output=True, text=True)
    if ran.returncode not in codes:
        sys.exit(f"varifocal {' '.join(map(str, arguments))}: exit code {ran.returncode}\n{ran.stderr}{ran.stdout}")
    return ran.stdout


def run_ours(programs, release, models, out, database, configs):
    jobs = {}
    for name, chat in MODELS.items():
        if not chosen(configs, chat):
            continue
        suites = release / ("suites" if chat else "suites-base")
        varifocal(programs, "suites", "import-helmet", f"--checkout={release}", f"--data={release / 'data'}", f"--out={suites}",
                  f"--length-tokenizer={TESTDATA / 'length_tokenizer'}", f"--configs={','.join(chosen(configs, chat))}", *([] if chat else ["--no-chat"]))
        with Daemon(programs, database, {each: models / each for each in MODELS}) as daemon:
            for suite in sorted(suites.glob("*.yaml")):
                said = json.loads(varifocal(programs, "submit", suite, f"--models={name}", f"--daemon={daemon.address}", "--wait", "--format=json").splitlines()[0])
                jobs[said["job"] if "job" in said else said["name"]] = name
    for job, name in jobs.items():
        varifocal(programs, "export", "--format=helmet", f"--db={database}", f"--job={job}", f"--out={out}", "--tag=v1", f"--tokenizer={models / name}")
    return jobs


# --- comparing


def same(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, (int, float)) and isinstance(b, (int, float)) and (a == b or math.isclose(a, b, rel_tol=1e-12))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def compare_files(theirs, ours):
    names, mine = ({p.relative_to(side) for p in side.rglob("*.json*")} for side in (theirs, ours))
    differences = [f"{p}: only upstream wrote it" for p in sorted(names - mine)] + [f"{p}: only we wrote it" for p in sorted(mine - names)]
    counts = dict.fromkeys(["files", "score files", "prompts", "answers", "equal answers", "values", "missing keys"], 0)
    digests = json.loads((theirs / "prompts").read_text())
    for name in sorted(names & mine):
        a, b = json.loads((theirs / name).read_text()), json.loads((ours / name).read_text())
        if name.suffix == ".score":
            twin = [json.loads((d / name).with_suffix("").read_text())["data"] for d in (theirs, ours)]
            all_equal = [x["output"] for x in twin[0]] == [x["output"] for x in twin[1]]
            counts["score files"] += 1
            for key in a:
                if key.startswith("citation") or key == "rougeLsum" and "alce" in str(name):
                    continue  # another model's, or a sentence splitter's
                if key not in b or all_equal and not same(a[key], b[key]):
                    differences.append(f"{name}: {key} is {b.get(key)}, upstream's {a[key]}")
            continue
        counts["files"] += 1
        for key in a["args"]:
            if key not in SETTINGS_ASIDE and not same(a["args"][key], b["args"].get(key, "missing")):
                differences.append(f"{name}: args.{key} is {b['args'].get(key, 'missing')}, upstream's {a['args'][key]}")
        differences += [f"{name}: {key} is missing" for key in a.keys() - b.keys()]
        if len(a["data"]) != len(b["data"]):
            differences.append(f"{name}: {len(b['data'])} answers, upstream's {len(a['data'])}")
        for i, (x, y) in enumerate(zip(a["data"], b["data"])):
            counts["answers"] += 1
            counts["prompts"] += 1
            if y["token_ids_sha256"] != digests[str(name)][i]:
                differences.append(f"{name}: data[{i}] was asked with other token ids")
            counts["equal answers"] += x["output"] == y["output"]
            told = ["input_len", "input_text"] if x["output"] != y["output"] else list(x)
            for key in told:
                if key in FIELDS_ASIDE:
                    continue
                counts["values"] += 1
                if key not in y:
                    counts["missing keys"] += 1
                    differences.append(f"{name}: data[{i}].{key} is missing")
                elif key == "docs":  # upstream's hold all documents of the row, ours those that were shown
                    if not same(x[key][: len(y[key])], y[key]):
                        differences.append(f"{name}: data[{i}].docs differ")
                elif not same(x[key], y[key]):
                    differences.append(f"{name}: data[{i}].{key} is {str(y[key])[:200]!r}, upstream's {str(x[key])[:200]!r}")
        if all(x["output"] == y["output"] for x, y in zip(a["data"], b["data"])):
            for key in ("metrics", "averaged_metrics"):
                for metric in a[key]:
                    if not same(a[key][metric], b[key].get(metric)):
                        differences.append(f"{name}: {key}.{metric} is {str(b[key].get(metric))[:80]}, upstream's {str(a[key][metric])[:80]}")
    return counts, differences


# --- judges, and the table


def judge(release, out):
    """Upstream's judging scripts on our files, the judge invented; and the ALCE scorer."""
    os.chdir(release)
    sys.path[:0] = [str(release), str(release / "scripts")]
    import eval_alce
    import eval_gpt4_longqa
    import eval_gpt4_summ

    dice = random.Random(5)

    class Judge:
        def generate_batch(self, prompt, **_):
            return [{"output": "Said so. " + json.dumps({"fluency": dice.randint(0, 1), "correctness": dice.randint(0, 3), "recall": dice.randint(0, 2),
                                                         "precision": dice.randint(0, 4), "sentence_count": 4, "supported_key_points": []})} for _ in prompt]

        def generate(self, prompt=None, **_):
            return self.generate_batch([prompt])[0]

    made = []
    with open(release / "judges.log", "w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log), stand_ins():
        for path in sorted(out.rglob("*.json")):
            target = str(path).replace(".json", "-gpt4eval_o.json")
            if path.name.startswith("narrativeqa"):
                eval_gpt4_longqa.check_metrics(Judge(), str(path), target)
            elif path.name.startswith(("infbench_sum", "multi_lexsum")):
                eval_gpt4_summ.check_metrics(Judge(), str(path), target)
            elif path.name.startswith("alce"):
                eval_alce.main(["--f", str(path), "--citations"])
                continue
            else:
                continue
            made.append(target)
    return made


def collect(release):
    """What collect_results.py prints: {(length, model): {column: value}}."""
    for config in list((release / "configs").glob("*.yaml")):
        shutil.copy(config, config.with_name(config.stem + "_short.yaml"))
    ran = subprocess.run([sys.executable, "scripts/collect_results.py"], cwd=release, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"collect_results.py: {ran.stderr[-2000:]}")
    lines = ran.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("input_max_length,"))
    table = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        if row["model"] in MODELS:
            table[int(row["input_max_length"]), row["model"]] = {k: float(v) for k, v in row.items() if v and k not in ("input_max_length", "model")}
    return table


def compare_table(programs, database, jobs, table):
    """Every column of a single measure against the mean of our database, times 100."""
    import sqlite3

    ours = {}
    rows = sqlite3.connect(database).execute("SELECT variant, task, metric, context_length, mean FROM v_scores_by_length").fetchall()
    for variant, task, metric, length, mean in rows:
        if mean is not None:
            ours.setdefault((length, variant), {}).setdefault((task, metric.split("/")[-1]), []).append(100 * mean)
    names = {"nq": "kilt_nq", "popqa": "kilt_popqa", "triviaqa": "kilt_triviaqa", "hotpotqa": "kilt_hotpotqa"}
    compared, elsewhere, wrong = 0, 0, []
    for key, columns in sorted(table.items()):
        for column, value in columns.items():
            if " " not in column:
                continue  # an average of averages
            dataset, metric = column.split(" ")
            if metric.startswith("citation"):
                elsewhere += 1
                continue
            found = [v for (task, m), v in ours.get(key, {}).items() if m == metric and (names.get(dataset, dataset) in task)]
            if len(found) != 1 or not math.isclose(found[0][0], value, rel_tol=1e-12, abs_tol=1e-12):
                wrong.append(f"{key} {column}: upstream's table has {value}, we have {found}")
            compared += 1
    return compared, elsewhere, wrong


def main():
    options = parse(__doc__, checkout=Path, programs=Path, model=ROOT / "models/baseline", work=MAYBE_PATH, configs=",".join(FAMILIES))
    work = (options.work or pathlib.Path(tempfile.mkdtemp())).resolve()
    programs, configs = options.programs.resolve(), options.configs.split(",")
    release, models, theirs, database = work / "release", work / "models", work / "upstream", work / "results.db"
    if not release.exists():
        make_release(options.checkout.resolve(), release)
        models.mkdir()
        make_models(models, options.model)
    if not theirs.exists():
        start = time.time()
        run_upstream(release, models, theirs, configs)
        print(f"upstream's eval.py: {len(list(theirs.rglob('*.json')))} result files in {time.time() - start:.0f} s")
    start = time.time()
    jobs = run_ours(programs, release, models, release / "output", database, configs)
    print(f"Varifocal: {len(list((release / 'output').rglob('*.json')))} result files in {time.time() - start:.0f} s")
    counts, differences = compare_files(theirs, release / "output")
    print("files:", counts, f"{len(differences)} differences")
    print("\n".join(differences[:40]))
    failed = bool(differences)
    if set(configs) == set(FAMILIES):
        made = judge(release, release / "output")
        for path in made:
            print(varifocal(programs, "import", f"--judgments={path}", f"--db={database}").strip())
        compared, elsewhere, wrong = compare_table(programs, database, jobs, collect(release))
        print(f"collect_results.py on our files: {compared} scores equal to ours but {len(wrong)}; {elsewhere} of citations are upstream's alone")
        print("\n".join(wrong))
        failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
