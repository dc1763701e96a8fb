"""docs/studies/recall_from_scratch.md and attention_mass.md. From recipes/:

    python -m emergence run --out DIR      runs or resumes the study of study.toml, one thread; DIR holds states
    python -m emergence table              its tables, from emergence/results/runs.jsonl
    python -m emergence mass --out DIR     trains the models of attention_mass.md to the end, asks them at other numbers of pairs
    python -m emergence mass-table         its tables, from emergence/results/mass.jsonl
    python -m emergence mass-figure        its figure, an SVG on standard output
"""

import argparse
import pathlib

from emergence import analysis, config

RESULTS = pathlib.Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m emergence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, file in (("run", "runs"), ("table", "runs"), ("mass", "mass"), ("mass-table", "mass"), ("mass-figure", "mass")):
        command = commands.add_parser(name)
        command.add_argument("--results", type=pathlib.Path, default=RESULTS / f"{file}.jsonl")
        if "-" not in name and name != "table":
            command.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    from emergence import mass, train

    if options.command == "table":
        print(analysis.tables(config.read(), train.read_results(options.results)), end="")
        return
    if options.command == "mass-table":
        print(mass.tables(mass.read(options.results)), end="")
        return
    if options.command == "mass-figure":
        print(mass.figure(mass.read(options.results)), end="")
        return
    import torch

    torch.set_num_threads(1)
    (train if options.command == "run" else mass).run_all(config.read(), options.out, options.results)


if __name__ == "__main__":
    main()
