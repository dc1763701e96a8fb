"""Train, measure and export Focus. From recipes/:

    python -m focus train CONFIG.toml --out DIR [--steps N] [--seed N]
                                                                trains, or resumes the run in DIR; another seed than the file's
    python -m focus evaluate CONFIG.toml --out DIR [--top-k K ...] [--window W ...]
    python -m focus export CONFIG.toml --out DIR --checkpoint NEW
    python -m focus windows CONFIG.toml --out DIR --csv FILE [--top-k K ...] [--factors X ...]
                                  [--controls]
                                                                the loss of every held-out window
    python -m focus table FILE.csv ... [--base [RUN/]SETTING[:K]]
                                                                its differences from dense, with intervals
    python -m focus report CHECKPOINT TEXT [--tokens N] [--json FILE] [--svg FILE]
    python -m focus accuracy CHECKPOINT [--lengths N ...] [--samples N] [--top-k K ...] [--run NAME --draw N --csv FILE]
                                                                native tasks, dense and hard; appends the answers to a file
    python -m focus answers FILE.csv ... [--candidate SETTING] [--base [FILE.csv/]SETTING]
                                                                their differences, over the runs of each file
    python -m focus compare CHECKPOINT TEXT --varifocal PROGRAM [--tokens N] [--new-tokens N]
                                                                the product against this code

One thread; DIR holds log.jsonl and state.pt. Paths inside a configuration are relative to the repository.
"""

import dataclasses
import importlib
import json
import sys

from flags import MAYBE_PATH, Commands, Path, commands

INTS = dict(type=int, nargs="*", default=[])
RUN = dict(out=Path, cache=dict(type=Path, help="token ids of text files; DIR/ids by default"), threads=1,
           seed=dict(type=int, help="instead of the configuration's"))  # fmt: skip
BASE = dict(default="dense", help="what differences are from: dense, or such as random:2, or of another run smollm2-frozen/hard:2")
FACTORS = dict(type=float, nargs="*", default=[], help="constant gates, the same in every layer")
CONTROLS = dict(action="store_true", help="the window alone, and random groups")
LENGTHS = dict(type=int, nargs="+", default=[512, 1024])
COMMANDS: Commands = {
    "train": ({"config": Path}, RUN | dict(steps=dict(type=int))),
    "evaluate": ({"config": Path}, RUN | dict(top_k=INTS, window=INTS)),
    "export": ({"config": Path}, RUN | dict(checkpoint=Path)),
    "windows": ({"config": Path}, RUN | dict(top_k=INTS, csv=Path, factors=FACTORS, controls=CONTROLS)),
    "table": ({"csv": dict(type=Path, nargs="+")}, dict(base=BASE)),
    "report": ({"checkpoint": Path, "text": Path}, dict(tokens=1024, rows=8, json=MAYBE_PATH, svg=MAYBE_PATH, threads=1)),
    "accuracy": ({"checkpoint": Path}, dict(lengths=LENGTHS, samples=48, top_k=INTS, run="run", draw=0, csv=MAYBE_PATH, threads=1)),
    "answers": ({"csv": dict(type=Path, nargs="+")}, dict(candidate="hard, k = 2", base="random, k = 2")),
    "compare": ({"checkpoint": Path, "text": Path}, dict(varifocal=Path("../build/release/bin/varifocal"), tokens=512, new_tokens=32, threads=1)),
}


def sweep(trainer: "object", top_k: list[int], window: list[int]) -> list[dict[str, object]]:
    """Hard loss by k and window; an empty list is the setting's own."""
    from focus import measure
    from focus.train import Trainer

    assert isinstance(trainer, Trainer)
    if trainer.mode is None:
        raise ValueError("a LoRA run has no groups to sweep")
    ids, weights = trainer.data.held_out()
    rows = []
    for k in top_k or [trainer.run.focus.top_k]:
        for w in window or [trainer.run.focus.window]:
            value, groups = measure.hard_loss(trainer.model, trainer.mode, ids, weights, top_k=k, window=w)
            rows.append({"top_k": k, "window": w, "hard": value, "largest_group_share": max(groups.largest_group_share),
                         "pairs_visible": sum(groups.pairs_visible) / len(groups.pairs_visible)})  # fmt: skip
    return rows


def main() -> None:
    options = commands(__doc__, COMMANDS, "python -m focus").parse_args()
    if options.command == "table":
        from focus import windows

        print(windows.table(options.csv, options.base), end="")
        return
    if options.command == "answers":
        from focus import accuracy

        print(accuracy.compared(options.csv, options.candidate, options.base), end="")
        return
    import torch

    torch.set_num_threads(options.threads)
    if options.command in ("report", "accuracy", "compare"):  # their settings come in the order of COMMANDS
        settings = {name: value for name, value in vars(options).items() if name not in ("command", "threads")}
        importlib.import_module(f"focus.{options.command}").main(*settings.values())
        return
    from focus import config
    from focus.train import Trainer

    run = config.read(options.config)
    if options.seed is not None:
        run = dataclasses.replace(run, seed=options.seed)
    trainer = Trainer(run, options.out, options.cache or options.out / "ids")
    if options.command == "train":
        trainer.train(options.steps)
        print(f"step {trainer.step} of {trainer.run.steps}, {trainer.seconds:.0f} s; {trainer.log.path}")
    elif options.command == "evaluate":
        print(json.dumps(trainer.evaluate(), indent=2))
        if options.top_k or options.window:
            for row in sweep(trainer, options.top_k, options.window):
                print(json.dumps(row))
    elif options.command == "windows":
        from focus import windows

        k = options.top_k or [trainer.run.focus.top_k]
        windows.measure_windows(trainer.model, trainer.mode, trainer.data, trainer.run.name, trainer.step, options.csv, k,
                                options.factors, options.controls)  # fmt: skip
        print(windows.table([options.csv]), end="")
    else:
        trainer.export(options.checkpoint)
        print(options.checkpoint)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, FileNotFoundError) as error:
        sys.exit(str(error))
