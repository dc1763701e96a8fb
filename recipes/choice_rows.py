"""Choices with fixed demonstrations for `kind: jsonl`: TruthfulQA MC1 from its public CSV, and ARC and PIQA from the rows of
short_rows.py. Writes NAME.jsonl and choices.yaml, a suite of them.

    python recipes/choice_rows.py --out=choices --rows=200 --truthfulqa=TruthfulQA.csv --arc=rows/arc.jsonl --piqa=rows/piqa.jsonl

`kind: short` draws demonstrations for each row, as the harness does. Here every row of a task has the same ones, which are
computed once; the prompts then exceed the window of a Focus checkpoint (w = 128), within which its mask hides nothing.

TruthfulQA.csv is that of github.com/sylinrl/TruthfulQA since January 2025 (790 questions, Apache-2.0). MC1: the choices are the
best answer and the incorrect ones, each with a full stop at its end, and the one of largest log-likelihood is chosen. The
demonstrations are other questions of the file with their best answers, so scores are not comparable with published ones,
whose prompt has six fixed questions.
"""

import csv
import hashlib
import io
import json
import random

from flags import MAYBE_PATH, Path, parse

# Of the file with line ends "\n"; its 790 rows equal those of a second copy from another repository.
TRUTHFULQA_SHA256 = "764be5c0c27c337baed4db641555c125428569df44a8dbf9b28796a6ce4d7616"
SHOTS = {"truthfulqa": 10, "arc": 10, "piqa": 10}
SEED = 1234


def with_full_stop(text):
    text = text.strip()
    return text if text.endswith(".") else text + "."


def truthfulqa(path, sha256=TRUTHFULQA_SHA256):
    """(question as asked, choices, the best answer first) of every row."""
    data = path.read_bytes().replace(b"\r\n", b"\n")
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ValueError(f"{path} has the SHA-256 digest {found}, not {sha256}: another release of TruthfulQA.csv")
    for row in csv.DictReader(io.StringIO(data.decode())):
        wrong = [with_full_stop(x) for x in row["Incorrect Answers"].split(";") if x.strip()]
        right = with_full_stop(row["Best Answer"])
        # An answer listed twice would be a choice that equals another.
        yield f"Q: {row['Question'].strip()}\nA:", [right] + [x for x in dict.fromkeys(wrong) if x != right]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def arc(path):
    for row in lines(path):
        texts = row["choices"]["text"]
        right = texts[row["choices"]["label"].index(row["answerKey"])]
        yield f"Question: {row['question']}\nAnswer:", [right] + [x for x in dict.fromkeys(texts) if x != right]


def piqa(path):
    for row in lines(path):
        both = [row["sol1"], row["sol2"]]
        yield f"Question: {row['goal']}\nAnswer:", [both[row["label"]], both[1 - row["label"]]]


TASKS = {"truthfulqa": truthfulqa, "arc": arc, "piqa": piqa}


def rows_of(items, count, shots):
    """`count` asked rows, and `shots` demonstrations that are not among them; fewer than two choices are left out."""
    items = [(question, choices) for question, choices in items if len(choices) >= 2]
    if len(items) < shots + 1:
        raise ValueError(f"{len(items)} rows, too few for {shots} demonstrations and a question")
    order = random.Random(SEED).sample(range(len(items)), len(items))
    shown, asked = order[:shots], sorted(order[shots : shots + count])
    demonstrations = "".join(f"{items[i][0]} {items[i][1][0]}\n\n" for i in shown)
    for i in asked:
        question, choices = items[i]
        choices = [" " + choice for choice in choices]
        yield {"id": str(i), "demonstrations": demonstrations, "question": question, "answer": choices[0], "choices": choices}


def suite(names):
    """Prompts are not padded, so one context length above all of them is enough."""
    tasks = "".join(f"""  - name: {name}
    kind: jsonl
    parameters: {{path: {name}.jsonl, prompt: "{{demonstrations}}{{question}}", context: demonstrations, gold: answer, choices: choices, cluster: id, id: id}}
""" for name in names)  # fmt: skip
    return f"name: choices\nlengths: [2048]\ntasks:\n{tasks}"


def main():
    options = parse(__doc__, out=Path, rows=200, **dict.fromkeys(TASKS, MAYBE_PATH))
    options.out.mkdir(exist_ok=True)
    given = {name: path for name in TASKS if (path := getattr(options, name))}
    for name, path in given.items():
        rows = list(rows_of(TASKS[name](path), options.rows, SHOTS[name]))
        (options.out / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        print(f"{name}: {len(rows)} rows, {sum(len(r['choices']) for r in rows) / len(rows):.1f} choices each")
    (options.out / "choices.yaml").write_text(suite(given))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, FileNotFoundError) as error:
        raise SystemExit(str(error))
