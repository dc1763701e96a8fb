"""Stage 2 of docs/findings.md. From recipes/:

    python -m emergence run --out DIR      runs or resumes the study of study.toml, one thread; DIR holds states
    python -m emergence table              the tables of docs/findings.md from emergence/results/runs.jsonl
"""

import argparse
import pathlib

from emergence import analysis, config

RESULTS = pathlib.Path(__file__).parent / "results/runs.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m emergence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--out", type=pathlib.Path, required=True)
    for command in (run, commands.add_parser("table")):
        command.add_argument("--results", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args()
    from emergence import train

    if options.command == "table":
        print(analysis.tables(config.read(), train.read_results(options.results)), end="")
        return
    import torch

    torch.set_num_threads(1)
    train.run_all(config.read(), options.out, options.results)


if __name__ == "__main__":
    main()
