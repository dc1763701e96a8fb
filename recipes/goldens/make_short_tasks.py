"""Write the golden files of the short benchmarks from lm-evaluation-harness.

eval_tasks/testdata/short_tasks.json has invented rows and the harness's requests; server/jobs/testdata/short_tokens.json, for
tokenizers of each kind (make_tokenizers.py comes first), the token ids that the harness runs and scores of the odd ones.

With --model the harness also scores rows with a transformers model, and a Varifocal database of the same rows is compared
with it: the order of every row's continuations must be the same, and so must the scores. --programs makes that database.
Rows are the invented ones, or those of --data: TASK.jsonl and, for demonstrations, TASK_train.jsonl, in the releases' layout.

    python recipes/goldens/make_short_tasks.py                               # the golden files
    python recipes/goldens/make_short_tasks.py --files=DIR                   # rows and suite.yaml for `varifocal run`
    python recipes/goldens/make_short_tasks.py --model=models/baseline --programs=build/dev/bin [--rows=50] [--tasks=arc,lambada]
    python recipes/goldens/make_short_tasks.py --model=models/baseline --programs=build/dev/bin --data=DIR
    python recipes/goldens/make_short_tasks.py --model=models/baseline --files=DIR --shots=2 --db=results.db
"""

import hashlib
import json
import math
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from flags import MAYBE_PATH, parse  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "eval_tasks/testdata/short_tasks.json"
TOKENS_OUT = ROOT / "server/jobs/testdata/short_tokens.json"
# A tokenizer of each kind, and what it takes for the beginning of a text, which the harness asks for and these rows lack.
TOKENIZERS = {"models/baseline": "<|begin|>", "gpt2": "<|endoftext|>", "qwen2": "<|endoftext|>", "llama2": "<s>", "gemma": "<bos>",
              "neox": "<|endoftext|>", "tekken": "<s>", "unigram-bytes": "<s>", "t5": "</s>", "bert": "[CLS]"}
PLAIN_TOKEN_ROWS = 1  # of each task, before the odd ones
rng = random.Random(7)
NOUNS = "kettle lantern harbour ferry orchard violin glacier compass".split()
NAMES = "Ann Bo Čapek Dora Élan Finn".split()
SHOTS = (0, 2)


def noun():
    return rng.choice(NOUNS)


def arc(i):
    labels = rng.choice([["A", "B", "C", "D"], ["1", "2", "3"]])
    return {"id": f"q{i}", "question": f"What does the {noun()} keep in {i}?", "answerKey": rng.choice(labels),
            "choices": {"text": [f"a {noun()} of {n}" for n in range(len(labels))], "label": labels}}


def boolq(i):
    return {"passage": f"The {noun()} is old. It has {i} doors.", "question": f"does the {noun()} have {i} doors", "idx": i,
            "label": rng.randint(0, 1)}


def hellaswag(i):
    endings = [f"{rng.choice(['goes', 'walks'])} to the {noun()} [{k}] and  sings {k}." for k in range(4)]
    return {"ind": i, "activity_label": "Keeping " + noun(), "ctx_a": f" {rng.choice(NAMES)} opens the [header] box [title] then",
            "ctx_b": rng.choice(["she LOOKS", "éLAN sees", ""]), "endings": endings, "label": str(rng.randint(0, 3))}


def lambada(i):
    return {"text": f"{rng.choice(NAMES)} saw the {noun()} and the  {noun()}, then once more the {noun()}"}


def piqa(i):
    return {"goal": f"open the {noun()} {i}", "sol1": f"use a {noun()}", "sol2": f"call {rng.choice(NAMES)} twice", "label": rng.randint(0, 1)}


def winogrande(i):
    a, b = rng.sample(NAMES, 2)
    return {"sentence": f"The {noun()} of {a} was lost by {b} because _ was {rng.choice(['tired', 'late'])} .", "option1": a,
            "option2": b, "answer": rng.choice("12")}


# White space and borders that move the cut between context and continuation, or that tokens cross.
ODD = {
    "arc": [{"id": "odd", "question": "Which one ends so: ", "answerKey": "B",
             "choices": {"text": [" a kettle", "'s", "\u2026", "x y "], "label": ["A", "B", "C", "D"]}}],
    "boolq": [{"passage": "It is old. \n", "question": "is it old ", "idx": 100, "label": 1}],
    "hellaswag": [{"ind": 100, "activity_label": "Un", "ctx_a": "", "ctx_b": " x [step] y ", "label": "1",
                   "endings": [" a [b] c", "able", ". x", "\u00a0y"]}],
    "lambada": [{"text": "Ann took the  kettle "}, {"text": "they don 't"}, {"text": "a\u00a0 b\n c"}],
    "piqa": [{"goal": "open the door ", "sol1": " push it ", "sol2": "pull\n it", "label": 0},
             {"goal": "\tun", "sol1": "lock", "sol2": "'s", "label": 1}],
    "winogrande": [
        {"sentence": "_ was late because Ann hid the clock.", "option1": "Bo", "option2": "Ann", "answer": "1"},
        {"sentence": "_was late.", "option1": "Finn ", "option2": " \u00c9lan", "answer": "2"},
        {"sentence": "The un_able door and the re_ lock  were old. ", "option1": "re", "option2": "do", "answer": "1"},
        {"sentence": "Dora gave the kettle to  _", "option1": "Finn", "option2": "\u010capek's", "answer": "2"},
        {"sentence": "Nobody saw\u00a0_'s lantern", "option1": "Bo\u00a0", "option2": "Ann\n", "answer": "1"},
        {"sentence": "_ 's and _", "option1": "the", "option2": "the", "answer": "2"}],
}
# ours, the harness's, rows, the split that is asked
TASKS = [("arc", "arc_easy", arc, "test"), ("boolq", "boolq", boolq, "validation"), ("hellaswag", "hellaswag", hellaswag, "validation"),
         ("lambada", "lambada_openai", lambada, "test"), ("piqa", "piqa", piqa, "validation"),
         ("winogrande", "winogrande", winogrande, "validation")]


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def files(folder, count=8):
    made = {}
    for name, _, make, split in TASKS:
        made[name] = {"rows": [make(i) for i in range(count)] + ODD[name], "pool": [make(100 + i) for i in range(7)]}
        write(folder / f"{name}.jsonl", made[name]["rows"])
        write(folder / f"{name}_train.jsonl", made[name]["pool"])
    return made


PATHS = {"arc_easy": "arc/arc_easy.yaml", "boolq": "super_glue/boolq/default.yaml", "hellaswag": "hellaswag/hellaswag.yaml",
         "lambada_openai": "lambada/lambada_openai.yaml", "piqa": "piqa/piqa.yaml", "winogrande": "winogrande/default.yaml"}


def load_yaml(path):
    """A task's configuration, its functions loaded from beside it."""
    import importlib.util

    import yaml

    def function(loader, node):
        module_name, function_name = node.value.rsplit(".", 1)
        spec = importlib.util.spec_from_file_location(module_name, path.parent / f"{module_name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, function_name)

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", function)
    return yaml.load(path.read_text(), Loader=Loader)


def harness(folder, shots):
    import lm_eval.tasks
    from lm_eval.api.task import ConfigurableTask

    base = pathlib.Path(lm_eval.tasks.__file__).parent
    tasks = {}
    for name, theirs, _, split in TASKS:
        data_files = {split: str(folder / f"{name}.jsonl")}
        if name != "lambada":
            data_files["train"] = str(folder / f"{name}_train.jsonl")
            data_files.setdefault("validation", data_files[split])
        config = load_yaml(base / PATHS[theirs])
        config.update(dataset_path="json", dataset_name=None, dataset_kwargs={"data_files": data_files})
        config.pop("tag", None)
        task = ConfigurableTask(config=config)
        task.set_config("num_fewshot", shots)
        task.set_fewshot_seed(1234)
        tasks[name] = task
    return tasks


def requests(folder, made, shots):
    for name, task in harness(folder, shots).items():
        task.build_all_requests(rank=0, world_size=1)
        by_row = {}
        for instance in task.instances:
            by_row.setdefault(instance.doc_id, []).append(list(instance.args))
        made[name][f"requests{shots}"] = [by_row[i] for i in range(len(made[name]["rows"]))]


def tokens(folder):
    """For each tokenizer, task and number of shots: of each request, a hash of the context's ids, and the ids that are scored."""
    from lm_eval.api.model import TemplateLM
    from lm_eval.models.huggingface import HFLM
    from transformers import PreTrainedTokenizerFast

    class Cut(TemplateLM):
        def __init__(self, path, beginning):
            self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path / "tokenizer.json"))
            self.custom_prefix_token_id = self.tokenizer.convert_tokens_to_ids(beginning)
            self.add_bos_token, self.backend = None, "causal"

        eot_token_id, prefix_token_id = HFLM.eot_token_id, HFLM.prefix_token_id
        tok_encode = HFLM.tok_encode

        def _loglikelihood_tokens(self, requests, **_):
            return [(context, scored) for _, context, scored in requests]

        def loglikelihood_rolling(self, requests):
            raise NotImplementedError

        generate_until = loglikelihood_rolling

    made = {}
    for shots in SHOTS:
        for name, task in harness(folder, shots).items():
            task.build_all_requests(rank=0, world_size=1)
            first = max(i.doc_id for i in task.instances) + 1 - len(ODD[name]) - PLAIN_TOKEN_ROWS
            asked = [i for i in task.instances if i.doc_id >= first]
            for tokenizer, beginning in TOKENIZERS.items():
                path = ROOT / tokenizer if "/" in tokenizer else ROOT / "tests/testdata/goldens/tokenizers" / tokenizer
                rows = {}
                for instance, (context, scored) in zip(asked, Cut(path, beginning).loglikelihood(asked, disable_tqdm=True)):
                    digest = hashlib.sha256(json.dumps(context, separators=(",", ":")).encode()).hexdigest()[:16]
                    rows.setdefault(instance.doc_id, []).append([digest, scored])
                made.setdefault(tokenizer, {}).setdefault(name, {})[str(shots)] = rows
    return made


def without_beginning(model):
    """A copy of the model whose tokenizer adds nothing to a text, as GPT-2's and Qwen's do."""
    copy = pathlib.Path(tempfile.mkdtemp()) / "model"
    shutil.copytree(model, copy)
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    (copy / "tokenizer.json").write_text(json.dumps({**tokenizer, "post_processor": None}))
    return str(copy)


def suite(folder, shots):
    lines = [f"name: short{shots}", "lengths: [1024]", "tasks:"]
    for name, *_ in TASKS:
        pool = "" if name == "lambada" else f", shots_path: {name}_train.jsonl"
        more = f", shots: {shots}{pool}" if shots else ""
        lines += [f"  - name: {name}", "    kind: short", f"    parameters: {{task: {name}, path: {name}.jsonl{more}}}"]
    (folder / f"suite{shots}.yaml").write_text("\n".join(lines) + "\n")


# Ours and the harness's names of one score.
SCORES = {"multiple_choice_accuracy": "acc,none", "multiple_choice_accuracy_normalized": "acc_norm,none", "greedy_continuation": "acc,none",
          "continuation_log_likelihood": "perplexity,none"}


def compare(folder, model, db, shots):
    """Prints a line for each task; the number of tasks that differ."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=model, dtype="float32", batch_size=8, device="cpu", max_length=1024)
    results = lm_eval.evaluate(lm, harness(folder, shots), log_samples=True, bootstrap_iters=0)
    wrong = 0
    ours = sqlite3.connect(db)
    for name, theirs, *_ in TASKS:
        rows = ours.execute(
            "SELECT s.sample_index, g.log_likelihoods_json FROM generations g JOIN samples s ON s.sample_id = g.sample_id "
            "WHERE s.task = ? ORDER BY s.sample_index", (name,)).fetchall()
        worst = orders = 0
        key = name if name in results["samples"] else theirs
        for index, text in rows:
            lls = [x["log_likelihood"] for x in json.loads(text)]
            sample = next(s for s in results["samples"][key] if s["doc_id"] == index)
            reference = [float(r[0][0] if isinstance(r[0], (list, tuple)) else r[0]) for r in sample["resps"]]
            worst = max([worst] + [abs(a - b) for a, b in zip(lls, reference)])
            orders += sorted(range(len(lls)), key=lls.__getitem__) == sorted(range(len(lls)), key=reference.__getitem__)
        means = dict(ours.execute("SELECT metric, avg(value) FROM v_samples WHERE task = ? GROUP BY metric", (name,)).fetchall())
        scores = {k: v for k, v in results["results"][key].items() if isinstance(v, float)}
        perplexity = lambda metric, mean: math.exp(-mean) if metric == "continuation_log_likelihood" else mean
        equal = all(math.isclose(perplexity(m, v), scores[SCORES[m]], rel_tol=1e-3 if "perplexity" in SCORES[m] else 1e-12) for m, v in means.items())
        wrong += not equal or orders != len(rows)
        told = ", ".join(f"{SCORES[m].split(',')[0]} {perplexity(m, v):.6g} and {scores[SCORES[m]]:.6g}" for m, v in means.items())
        print(f"{name} {shots} shots: {len(rows)} rows, log-likelihoods within {worst:.1e}, same order in {orders}; {told}")
    return wrong


def main():
    no_beginning = dict(action="store_true", help="ask the model without a token at the beginning")
    arguments = parse(None, files=MAYBE_PATH, data=MAYBE_PATH, model="", no_beginning=no_beginning, db="", shots=0, programs=MAYBE_PATH, rows=8, tasks="")
    if arguments.tasks:
        TASKS[:] = [task for task in TASKS if task[0] in arguments.tasks.split(",")]
    if arguments.no_beginning:
        arguments.model = without_beginning(arguments.model)
    folder = arguments.files or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    if arguments.data:
        TASKS[:] = [task for task in TASKS if (arguments.data / f"{task[0]}.jsonl").exists()]
        for path in arguments.data.glob("*.jsonl"):
            shutil.copy(path, folder)
    else:
        made = files(folder, arguments.rows)
    for shots in SHOTS:
        suite(folder, shots)
    if arguments.programs:
        wrong = 0
        for shots in SHOTS:
            db = folder / f"results{shots}.db"
            db.unlink(missing_ok=True)
            subprocess.run([arguments.programs / "varifocal", "run", folder / f"suite{shots}.yaml", f"--model=model={arguments.model}",
                            "--models=model", "--dtype=f32", f"--db={db}"], check=True, capture_output=True)
            wrong += compare(folder, arguments.model, db, shots)
        sys.exit(wrong > 0)
    elif arguments.model:
        compare(folder, arguments.model, arguments.db, arguments.shots)
    elif not arguments.files:
        for shots in SHOTS:
            requests(folder, made, shots)
        OUT.write_text(json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n")
        TOKENS_OUT.write_text(json.dumps(tokens(folder), separators=(",", ":")) + "\n")
        print(OUT.stat().st_size, "bytes", sum(len(r) for m in made.values() for k in m if k.startswith("requests") for r in m[k]), "requests")


if __name__ == "__main__":
    main()
