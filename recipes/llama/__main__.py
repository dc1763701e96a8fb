"""The small llamas. From recipes/:

    python -m llama pair --out DIR                       trains baseline and focal from scratch, about five minutes on two cores, and says how to compare them

    python -m llama train CONFIG.toml ARM --out DIR [--device cuda:0]   trains or resumes; one thread
    python -m llama export CONFIG.toml ARM --out DIR TARGET  the state of a run as a checkpoint with its `training` block
    python -m llama evaluate DIR .. --lengths 2048       accuracy on the native tasks, by this directory's own questions
    python -m llama fold SOURCE TARGET [--temperatures FILE.json]   constant temperatures into W_q: an ordinary checkpoint
    python -m llama unfold SOURCE TARGET --temperature 0.4          the same function as a checkpoint with constant t
    python -m llama check DIR ..                         against the float64 reference and transformers
    python -m llama show                                 one training sequence of each family
"""

import argparse
import json
import sys
from typing import Callable

from flags import MAYBE_PATH, Path, commands


def parse() -> argparse.Namespace:
    run = {"config": Path, "arm": dict(help="a row of llama/arms.py")}
    plan = dict(type=Path, help="a plan (llama/configs/first.toml)")
    arms = dict(nargs="+", default=["baseline", "focal"], help="rows of llama/arms.py; the others are compared with the first")
    device = dict(default="cpu", help="cpu, whose runs repeat bit for bit, or cuda:N")
    checkpoints = {"checkpoints": dict(type=Path, nargs="+")}
    lengths = dict(type=int, nargs="+", default=[512, 1024, 2048])
    parser = commands(__doc__, {
        "pair": ({}, dict(out=Path, config=plan, arms=arms)),
        "train": (run, dict(out=Path, save_seconds=120.0, device=device)),
        "export": (run | {"target": Path}, dict(out=Path, save_seconds=120.0)),
        "evaluate": (checkpoints, dict(lengths=lengths, samples=40, tasks=dict(nargs="+"))),
        "fold": ({"source": Path, "target": Path}, dict(temperatures=MAYBE_PATH)),
        "unfold": ({"source": Path, "target": Path}, dict(temperature=json.loads)),
        "check": (checkpoints, {}), "show": ({}, {}),
    }, "python -m llama")  # fmt: skip
    if len(sys.argv) == 1:
        parser.print_help()
        sys.exit(2)
    return parser.parse_args()


def prepared(options: argparse.Namespace) -> Callable[[], int | None]:
    """What is to be done, its settings read and found right."""
    import torch

    torch.set_num_threads(1)
    if options.command == "pair":
        from llama import pair

        return pair.prepared(options.config or pair.PLAN, options.arms, options.out)
    if options.command in ("train", "export"):
        from llama import run, train

        config = run.read(options.config, options.arm)
        if options.command == "train":
            trainer = train.Trainer(config, options.out, options.device)
            return lambda: trainer.train(options.save_seconds)
        return lambda: train.Trainer(config, options.out).export(options.target)
    if options.command == "evaluate":
        from llama import data, evaluate

        return lambda: evaluate.table(options.checkpoints, options.lengths, options.samples, options.tasks or list(data.TASKS))
    if options.command in ("fold", "unfold"):
        from llama import fold

        if options.command == "unfold":
            rounding = fold.unfold(options.source, options.target, options.temperature)
        else:
            temperatures = json.loads(options.temperatures.read_text()) if options.temperatures else None
            rounding = fold.fold(options.source, options.target, temperatures)
        return lambda: print(f"largest relative rounding of a weight: {rounding:.1e}")
    if options.command == "check":
        from llama import check

        return lambda: check.main(options.checkpoints)
    from llama import data

    return data.show


def main() -> int | None:
    options = parse()
    try:
        action = prepared(options)
    except (ValueError, OSError) as error:  # a plan, an arm, a directory that cannot be used
        print(f"python -m llama {options.command}: {error}", file=sys.stderr)
        return 2
    return action()


if __name__ == "__main__":
    sys.exit(main())
