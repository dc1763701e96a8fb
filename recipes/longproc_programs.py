"""LongProc's tasks that upstream's own program makes or scores: pseudo_to_code, countdown, travel_planning.

`varifocal import-data longproc` has the tasks that need no program. For these three, upstream's loader writes the rows, and
its scorers judge the stored answers:

    python recipes/longproc_programs.py rows --checkout=LongProc --out=suites [--no-chat] [--datasets=countdown_0.5k,..]
    varifocal run suites/longproc_programs.yaml --model=NAME=DIR --db=results.db
    varifocal rescore --db=results.db --metric=longproc_accuracy \\
        --command='python recipes/longproc_programs.py score --checkout=LongProc --measure=accuracy'
    varifocal compare --db=results.db --baseline=A --candidate=B --metric=imported/longproc_accuracy

Measures are accuracy, partial_accuracy and extraction_rate. Two scorers run what a model wrote: pseudo_to_code compiles it as
C++ and runs it, countdown calls Python's eval on it. Score in a container without network and without files of yours.

Where upstream's scorer ends with an exception (countdown, on an equation that is no Python), its whole run ends. Here that
answer has the score 0, and standard error says how many there were. Needs pyyaml, and g++ for pseudo_to_code.
"""

import importlib
import json
import os
import sys
import tempfile

from flags import Path, commands

# As upstream's sizes, in tokens of an answer, and what a prompt may have.
ANSWER = {"0.5k": 1024, "2k": 3072, "8k": 9216}
PROMPT = 16384
DATASETS = ["pseudo_to_code_0.5k", "pseudo_to_code_2k", "countdown_0.5k", "countdown_2k", "countdown_8k", "travel_planning_2k", "travel_planning_8k"]


def loader(checkout):
    if not (checkout / "longproc/longproc_data.py").exists():
        sys.exit(f"{checkout} has no longproc/longproc_data.py, which a checkout of princeton-pli/LongProc has")
    sys.path.insert(0, str(checkout))
    return importlib.import_module("longproc.longproc_data").load_longproc_data


def load(checkout, dataset):
    """Rows and scorer of a data set; None with a sentence where the checkout lacks its files."""
    try:
        return loader(checkout)(dataset, str(checkout / "data"))
    except FileNotFoundError as error:
        print(f"{dataset}: {error.filename} is missing", file=sys.stderr)
        return None


def write_rows(options):
    tasks = []
    wanted = options.datasets.split(",") if options.datasets else DATASETS
    for dataset in wanted:
        if dataset not in DATASETS:
            sys.exit(f"{dataset} is none of {', '.join(DATASETS)}")
        loaded = load(options.checkout, dataset)
        if loaded is None:
            continue
        path = options.out / f"rows/longproc_{dataset}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            for number, row in enumerate(loaded[0]):
                file.write(json.dumps({"id": str(number), "prompt": row["input_prompt"], "gold": row["reference_output"]}, ensure_ascii=False) + "\n")
        print(f"{path}: {len(loaded[0])} rows")
        answer = ANSWER[dataset.rsplit("_", 1)[1]]
        tasks.append(f"  - name: longproc_{dataset}\n    kind: jsonl\n    chat: {'false' if options.no_chat else 'true'}\n    metrics: [exact_match]\n    parameters:\n"
                     f"      path: {path.relative_to(options.out)}\n      id: id\n      prompt: \"{{prompt}}\"\n      gold: gold\n      stop: []\n      max_new_tokens: {answer}\n")
    if not tasks:
        sys.exit("nothing could be loaded")
    suite = options.out / "longproc_programs.yaml"
    suite.write_text(f"name: longproc_programs\ndescription: Rows of LongProc that upstream's program made\nlengths: [{PROMPT + max(ANSWER.values())}]\ntasks:\n" + "".join(tasks))
    print(suite)


def score(options):
    datasets, failed_count = {}, 0
    checkout = options.checkout.resolve()
    load_data = loader(checkout)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # upstream compiles in ./tmp
        os.mkdir("tmp")
        for line in sys.stdin:
            answer = json.loads(line)
            dataset = answer["task"].removeprefix("longproc_")
            if dataset not in DATASETS:
                print("null", flush=True)
                continue
            if dataset not in datasets:
                datasets[dataset] = load_data(dataset, str(checkout / "data"))
            rows, evaluate = datasets[dataset]
            try:
                value = evaluate(answer["answer"], rows[int(answer["row_id"])])[0][options.measure]
            except Exception as error:  # whatever the answer made upstream's scorer do
                value, failed_count = 0.0, failed_count + 1
                print(f"{answer['task']} row {answer['row_id']}: {type(error).__name__}: {error}", file=sys.stderr)
            print(float(value), flush=True)
    if failed_count:
        print(f"upstream's scorer ended with an exception for {failed_count} answers, which score 0", file=sys.stderr)


def main():
    options = commands(__doc__, {
        "rows": ({}, dict(checkout=Path, out=Path, datasets="", no_chat=False)),
        "score": ({}, dict(checkout=Path, measure=("accuracy", "partial_accuracy", "extraction_rate"))),
    }).parse_args()  # fmt: skip
    write_rows(options) if options.command == "rows" else score(options)


main()
