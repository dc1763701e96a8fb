"""Train, measure and export Focus. From recipes/:

    python -m focus train CONFIG.toml --out DIR [--steps N]     trains, or resumes the run in DIR
    python -m focus evaluate CONFIG.toml --out DIR [--top-k K ...] [--window W ...]
    python -m focus export CONFIG.toml --out DIR --checkpoint NEW
    python -m focus windows CONFIG.toml --out DIR --csv FILE [--top-k K ...] [--factors X ...]
                                  [--controls]
                                                                the loss of every held-out window
    python -m focus table FILE.csv ... [--base [RUN/]SETTING[:K]]
                                                                its differences from dense, with intervals
    python -m focus report CHECKPOINT TEXT [--tokens N] [--json FILE] [--svg FILE]
    python -m focus accuracy CHECKPOINT [--lengths N ...] [--samples N] [--top-k K ...]
                                                                native tasks, dense and hard
    python -m focus compare CHECKPOINT TEXT --varifocal PROGRAM [--tokens N] [--new-tokens N]
                                                                the product against this code

One thread; DIR holds log.jsonl and state.pt. Paths inside a configuration are relative to the repository.
"""

import argparse
import json
import pathlib
import sys


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="python -m focus", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = out.add_subparsers(dest="command", required=True)
    for name in ("train", "evaluate", "export", "windows"):
        command = commands.add_parser(name)
        command.add_argument("config", type=pathlib.Path)
        command.add_argument("--out", type=pathlib.Path, required=True)
        command.add_argument("--cache", type=pathlib.Path, default=None, help="token ids of text files; DIR/ids by default")
        command.add_argument("--threads", type=int, default=1)
        if name == "train":
            command.add_argument("--steps", type=int, default=None)
        if name in ("evaluate", "windows"):
            command.add_argument("--top-k", type=int, nargs="*", default=[])
        if name == "evaluate":
            command.add_argument("--window", type=int, nargs="*", default=[])
        if name == "windows":
            command.add_argument("--csv", type=pathlib.Path, required=True)
            command.add_argument("--factors", type=float, nargs="*", default=[], help="constant gates, the same in every layer")
            command.add_argument("--controls", action="store_true", help="the window alone, and random groups")
        if name == "export":
            command.add_argument("--checkpoint", type=pathlib.Path, required=True)
    table = commands.add_parser("table")
    table.add_argument("csv", type=pathlib.Path, nargs="+")
    table.add_argument("--base", default="dense", help="what differences are from: dense, or such as random:2, or of another run smollm2-frozen/hard:2")
    report = commands.add_parser("report")
    report.add_argument("checkpoint", type=pathlib.Path)
    report.add_argument("text", type=pathlib.Path)
    report.add_argument("--tokens", type=int, default=1024)
    report.add_argument("--rows", type=int, default=8)
    report.add_argument("--json", type=pathlib.Path, default=None)
    report.add_argument("--svg", type=pathlib.Path, default=None)
    report.add_argument("--threads", type=int, default=1)
    accuracy = commands.add_parser("accuracy")
    accuracy.add_argument("checkpoint", type=pathlib.Path)
    accuracy.add_argument("--lengths", type=int, nargs="+", default=[512, 1024])
    accuracy.add_argument("--samples", type=int, default=48)
    accuracy.add_argument("--top-k", type=int, nargs="*", default=[])
    accuracy.add_argument("--threads", type=int, default=1)
    compare = commands.add_parser("compare")
    compare.add_argument("checkpoint", type=pathlib.Path)
    compare.add_argument("text", type=pathlib.Path)
    compare.add_argument("--varifocal", type=pathlib.Path, default=pathlib.Path("../build/release/bin/varifocal"))
    compare.add_argument("--tokens", type=int, default=512)
    compare.add_argument("--new-tokens", type=int, default=32)
    compare.add_argument("--threads", type=int, default=1)
    return out


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
    options = parser().parse_args()
    if options.command == "table":
        from focus import windows

        print(windows.table(options.csv, options.base), end="")
        return
    import torch

    torch.set_num_threads(options.threads)
    if options.command == "report":
        from focus import report

        report.main(options.checkpoint, options.text, options.tokens, options.rows, options.json, options.svg)
        return
    if options.command == "accuracy":
        from focus import accuracy

        accuracy.main(options.checkpoint, options.lengths, options.samples, options.top_k)
        return
    if options.command == "compare":
        from focus import compare

        compare.main(options.checkpoint, options.text, options.varifocal, options.tokens, options.new_tokens)
        return
    from focus import config
    from focus.train import Trainer

    trainer = Trainer(config.read(options.config), options.out, options.cache or options.out / "ids")
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
