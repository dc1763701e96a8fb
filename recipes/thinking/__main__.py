"""Trains the small model that thinks, and writes its questions.

    python -m thinking --out DIR [--steps=N]   resumes; DIR/model is a checkpoint directory, DIR/suite.yaml and DIR/rows.jsonl ask it
    python -m thinking show                    one conversation of the training
"""

import pathlib
import subprocess
import sys

import make_tokenizer
from flags import MAYBE_PATH, parser_of
from thinking import data, train


def main() -> int:
    what = dict(nargs="?", choices=["train", "show"], default="train")
    parser = parser_of(__doc__, {"what": what}, "python -m thinking", out=MAYBE_PATH, steps=train.Plan.steps, threads=1)
    arguments = parser.parse_args()
    if arguments.what == "show":
        writer = data.Writer()
        ids, marks = writer.batch(seed=1, step=0, rows=1, length=200, fewest=5, most=5)
        print(writer.tokenizer.decode(ids[0].tolist(), skip_special_tokens=False))
        print(f"{int(marks.sum())} of {marks.size} tokens are trained on")
        return 0
    if arguments.out is None or arguments.steps < 1:
        parser.error("--out=DIR is required, and --steps is at least 1")
    out: pathlib.Path = arguments.out
    model = out / "model"
    train.train(train.Plan(steps=arguments.steps), out, model, arguments.threads)
    make_tokenizer.save(data.make_tokenizer(), model, pretty=False, chat_template=data.TEMPLATE)
    data.write_questions(out, seed=1, contexts=train.CONTEXTS, count=train.NAMES)
    chat_format = pathlib.Path(__file__).parents[1] / "chat_format.py"
    subprocess.run([sys.executable, str(chat_format), str(model)], check=True)
    print(f"now ask it, with and without thinking:\n\nvarifocal run {out}/suite.yaml --model=m={model} --thinking=on,off --db={out}/results.db")
    return 0


sys.exit(main())
