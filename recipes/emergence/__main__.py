"""docs/studies/recall_from_scratch.md, attention_mass.md and toy_grid.md. From recipes/:

    python -m emergence run --out DIR      runs or resumes the study of study.toml, one thread; DIR holds states
    python -m emergence table              its tables, from emergence/results/runs.jsonl
    python -m emergence mass --out DIR     trains the models of attention_mass.md to the end, asks them at other numbers of pairs
    python -m emergence mass-table         its tables, from emergence/results/mass.jsonl
    python -m emergence mass-figure        its figure, an SVG on standard output
    python -m emergence grid               runs what is missing of toy.toml, every arm at its own rate; --workers=N processes of one thread
    python -m emergence grid-report        its tables, from emergence/results/toy.jsonl; --figure=FILE writes the figure
"""

import argparse
import pathlib
from typing import Any

from emergence import analysis, config
from flags import MAYBE_PATH, Commands, Path, commands

RESULTS = pathlib.Path(__file__).parent / "results"
FILES = {"run": "runs", "table": "runs", "mass": "mass", "mass-table": "mass", "mass-figure": "mass", "grid": "toy", "grid-report": "toy"}


def parse() -> argparse.Namespace:
    from emergence import grid

    own: dict[str, dict[str, Any]] = {
        "run": dict(out=Path), "mass": dict(out=Path), "grid": dict(config=config.TOY, state=grid.STATE, workers=1),
        "grid-report": dict(config=config.TOY, figure=MAYBE_PATH),
    }  # fmt: skip
    table: Commands = {name: ({}, {"results": RESULTS / f"{file}.jsonl", **own.get(name, {})}) for name, file in FILES.items()}
    return commands(__doc__, table, "python -m emergence").parse_args()


def main() -> None:
    options = parse()
    from emergence import grid, grid_report, mass, train

    if options.command == "table":
        print(analysis.tables(config.read(), train.read_results(options.results)), end="")
    elif options.command == "mass-table":
        print(mass.tables(train.read_results(options.results)), end="")
    elif options.command == "mass-figure":
        print(mass.figure(train.read_results(options.results)), end="")
    elif options.command == "grid-report":
        study, rows = config.read_grid(options.config), train.read_results(options.results)
        print(grid_report.tables(study, rows), end="")
        finished, of = grid.count(study, rows)
        if options.figure and finished == of:
            options.figure.write_text(grid_report.figure(study, rows))
    elif options.command == "grid":
        grid.run_all(config.read_grid(options.config), options.state, options.results, options.workers)
    else:
        import torch

        torch.set_num_threads(1)
        (train if options.command == "run" else mass).run_all(config.read(), options.out, options.results)


if __name__ == "__main__":
    main()
