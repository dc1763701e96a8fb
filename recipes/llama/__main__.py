"""The small llamas. From recipes/:

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


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m llama", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
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
    return parser.parse_args()


def main() -> None:
    options = parse()
    import torch

    torch.set_num_threads(1)
    if options.command in ("train", "export"):
        from llama import run, train

        config = run.read(options.config, options.arm, options.stage)
        if options.command == "train":
            train.Trainer(config, options.out, options.start, options.device).train(options.save_seconds)
        else:
            train.Trainer(config, options.out).export(options.target)
    elif options.command == "evaluate":
        from llama import data, evaluate

        evaluate.table(options.checkpoints, options.lengths, options.samples, options.tasks or list(data.TASKS))
    elif options.command == "fold":
        from llama import fold

        temperatures = json.loads(options.temperatures.read_text()) if options.temperatures else None
        print(f"largest relative rounding of a weight: {fold.fold(options.source, options.target, temperatures):.1e}")
    elif options.command == "unfold":
        from llama import fold

        print(f"largest relative rounding of a weight: {fold.unfold(options.source, options.target, options.temperature):.1e}")
    elif options.command == "check":
        from llama import check

        check.main(options.checkpoints)
    else:
        from llama import data

        data.show()


if __name__ == "__main__":
    main()
