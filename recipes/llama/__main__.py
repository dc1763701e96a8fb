"""The small llamas. From recipes/:

    python -m llama pair --out DIR                       trains baseline and focal from scratch, about five minutes on two cores, and says how to compare them

    python -m llama train CONFIG.toml ARM STAGE --out DIR [--start CHECKPOINT] [--device cuda:0]   trains, continues a checkpoint or resumes; one thread
    python -m llama export CONFIG.toml ARM STAGE --out DIR TARGET  the state of a run as a checkpoint with its `training` block
    python -m llama evaluate DIR .. --lengths 2048       accuracy on the native tasks, by this directory's own questions
    python -m llama fold SOURCE TARGET [--temperatures FILE.json]   constant temperatures into W_q: an ordinary checkpoint
    python -m llama unfold SOURCE TARGET --temperature 0.4          the same function as a checkpoint with constant t
    python -m llama check DIR ..                         against the float64 reference and transformers
    python -m llama show                                 one training sequence of each family
"""

import argparse
import json
import pathlib
import sys
from typing import Callable


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m llama", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    pair = commands.add_parser("pair")
    pair.add_argument("--out", type=pathlib.Path, required=True)
    pair.add_argument("--config", type=pathlib.Path, help="a plan whose first stage is trained (llama/configs/first.toml)")
    pair.add_argument("--arms", nargs="+", default=["baseline", "focal"], help="rows of llama/arms.py; the others are compared with the first")
    for name in ("train", "export"):
        command = commands.add_parser(name)
        command.add_argument("config", type=pathlib.Path)
        command.add_argument("arm", help="a row of llama/arms.py")
        command.add_argument("stage", help="a name of the file's stages")
        command.add_argument("--out", type=pathlib.Path, required=True)
        command.add_argument("--save-seconds", type=float, default=120)
        if name == "export":
            command.add_argument("target", type=pathlib.Path)
        else:
            command.add_argument("--start", type=pathlib.Path)
            command.add_argument("--device", default="cpu", help="cpu, whose runs repeat bit for bit, or cuda:N")
    evaluate = commands.add_parser("evaluate")
    evaluate.add_argument("checkpoints", type=pathlib.Path, nargs="+")
    evaluate.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048])
    evaluate.add_argument("--samples", type=int, default=40)
    evaluate.add_argument("--tasks", nargs="+")
    for name in ("fold", "unfold"):
        command = commands.add_parser(name)
        command.add_argument("source", type=pathlib.Path)
        command.add_argument("target", type=pathlib.Path)
        if name == "fold":
            command.add_argument("--temperatures", type=pathlib.Path)
        else:
            command.add_argument("--temperature", type=json.loads, required=True)
    commands.add_parser("check").add_argument("checkpoints", type=pathlib.Path, nargs="+")
    commands.add_parser("show")
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

        config = run.read(options.config, options.arm, options.stage)
        if options.command == "train":
            trainer = train.Trainer(config, options.out, options.start, options.device)
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
