"""Write real rows of four short benchmarks, in the releases' layout, from clones of public git repositories that hold them.

    python recipes/short_rows.py --out=rows --rows=300 --winogrande=FedLS --arc=GenMC --hellaswag=hellaswag_text_data --piqa=ybisk.github.io

The clones: github.com/tunx-cyber/FedLS (WinoGrande's validation rows inside instructions), nju-websoft/GenMC (ARC),
klosax/hellaswag_text_data (HellaSwag's validation rows as text), ybisk/ybisk.github.io (PIQA). The first rows are asked, the
next 200 are the demonstrations' pool. A third of WinoGrande's rows follow once more with the blank in front.
"""

import bz2
import json
import re
import subprocess

from flags import Path, parse

POOL = 200
WINOGRANDE = re.compile(r".*?given sentence: (.*)\n\nOption1: (.*) Option2: (.*) Answer format: option1/option2", re.DOTALL)


def show(clone, path):
    return subprocess.run(["git", "-C", clone, "show", f"HEAD:{path}"], capture_output=True, check=True).stdout


def winogrande(clone):
    for row in json.loads(show(clone, "dataset/winogrande/test.json")):
        sentence, option1, option2 = WINOGRANDE.fullmatch(row["instruction"]).groups()
        yield {"sentence": sentence, "option1": option1, "option2": option2, "answer": row["answer"].removeprefix("option")}


def arc(clone):
    for line in show(clone, "data/arc_easy/in_house/test.jsonl").splitlines():
        row = json.loads(line)
        choices = row["question"]["choices"]
        labels = [c["label"] for c in choices]
        key = row["answerKey"] if row["answerKey"] in labels else labels["ABCDE".index(row["answerKey"])]  # they made "2" a "B"
        yield {"id": row["id"], "question": row["question"]["stem"], "answerKey": key,
               "choices": {"text": [c["text"] for c in choices], "label": labels}}


def hellaswag(clone):
    lines = bz2.decompress(show(clone, "hellaswag_val_full.txt.bz2")).decode().split("\n")
    for i in range(0, len(lines) - 5, 6):
        activity, _, context = lines[i].partition(": ")
        yield {"ind": i // 6, "activity_label": activity, "ctx_a": context, "ctx_b": "", "endings": lines[i + 2:i + 6], "label": lines[i + 1]}


def piqa(clone):
    rows = show(clone, "piqa/data/valid.jsonl").splitlines()
    for line, label in zip(rows, show(clone, "piqa/data/valid-labels.lst").split(), strict=True):
        yield {**json.loads(line), "label": int(label)}


def main():
    tasks = {"winogrande": winogrande, "arc": arc, "hellaswag": hellaswag, "piqa": piqa}
    arguments = parse(__doc__, out=Path, rows=300, **dict.fromkeys(tasks, ""))
    arguments.out.mkdir(exist_ok=True)
    for name, read in tasks.items():
        clone = getattr(arguments, name)
        if not clone:
            continue
        rows = list(read(clone))[:arguments.rows + POOL]
        asked, pool = rows[:arguments.rows], rows[arguments.rows:]
        if name == "winogrande":
            # From "Because _ was late." the row "_ was late.".
            asked += [{**row, "sentence": row["sentence"][row["sentence"].index("_"):]} for row in asked[:arguments.rows // 3]]
        for path, some in (f"{name}.jsonl", asked), (f"{name}_train.jsonl", pool):
            (arguments.out / path).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in some))
        print(f"{name}: {len(asked)} rows, {len(pool)} for demonstrations")


if __name__ == "__main__":
    main()
