"""docs/studies/scaling.md. From recipes/:

    python -m scaling corpus                                  makes the corpus and its tokenizer from Debian packages (apt-get), and checks its digests
    python -m scaling plan --budget=15m [--device=cuda:0]     stages, their costs, and which runs fit
    python -m scaling run --budget=2h [--device=cuda:0] [--workers=1]   runs what is missing, most informative first; resumes
    python -m scaling tasks --budget=1h                       the short task training of stage 1's finished runs; a CPU's thread
    python -m scaling speed --size=1M --context=512           tokens per second of training on one thread, which `plan` counts with
    python -m scaling report                                  the tables, from scaling/results/runs.jsonl
    python -m scaling repeat NAME                             a finished run again: by how much its held-out losses differ from its row's
    python -m scaling export NAME DIR                         a finished checkpoint as a directory that the product loads, e.g. focal-1M-512-0.004-1-8M
    python -m scaling product STAGE DIR                       a finished stage's checkpoints, the held-out text and a suite, and the commands that ask them
"""

import argparse
import pathlib
import sys
import time

from emergence.train import read_results
from scaling import config, corpus, plan

RESULTS = pathlib.Path(__file__).parent / "results/runs.jsonl"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("corpus", "plan", "run", "tasks", "speed", "report", "repeat", "export", "product"):
        command = commands.add_parser(name)
        command.add_argument("--config", type=pathlib.Path, default=config.STUDY)
        command.add_argument("--cache", type=pathlib.Path, default=corpus.CACHE, help="packages, the corpus, states and checkpoints")
        command.add_argument("--results", type=pathlib.Path, default=RESULTS)
        if name in ("tasks", "report"):
            command.add_argument("--task-results", type=pathlib.Path, default=RESULTS.with_name("tasks.jsonl"))
        if name in ("plan", "run", "tasks"):
            command.add_argument("--budget", required=True, help="90s, 15m, 2h")
        if name in ("plan", "run"):
            command.add_argument("--device", default="cpu", help="cpu, whose runs repeat bit for bit, or cuda:N")
        if name == "run":
            command.add_argument("--workers", type=int, default=0, help="processes; 1, on a GPU 3")
            command.add_argument("--unchecked", action="store_true", help="with another corpus than that of corpus.json")
        if name == "speed":
            command.add_argument("--size", default="1M")
            command.add_argument("--context", type=int, default=512)
        if name in ("repeat", "export", "product"):
            command.add_argument("stage" if name == "product" else "name")
        if name in ("export", "product"):
            command.add_argument("target", type=pathlib.Path)
    return parser.parse_args()


def main() -> int:
    options = parse()
    try:
        study = config.read(options.config)
        if options.command == "corpus":
            print(corpus.check(corpus.make(corpus.read(), options.cache)))
        elif options.command == "plan":
            print(plan.table(study, read_results(options.results), plan.seconds(options.budget), options.device), end="")
        elif options.command == "report":
            from scaling import report, tasks

            print(report.tables(study, read_results(options.results)) + "\n" + tasks.table(study, read_results(options.task_results)), end="")
        elif options.command == "tasks":
            from scaling import tasks

            tasks.run_all(study, options.cache, options.results, options.task_results, time.monotonic() + plan.seconds(options.budget))
        elif options.command == "speed":
            from scaling import data, train

            found = train.speed(study, data.Corpus(options.cache / "corpus"), options.size, options.context)
            print(f"{options.size} at {options.context}: {found:.0f} tokens a second of processor time")
        elif options.command == "repeat":
            from scaling import run

            differences = run.repeated(study, read_results(options.results), options.name, run.opened(options.cache / "corpus", corpus.made()))
            print(f"{options.name}, held-out losses minus those of its row: {', '.join(f'{x:+.6f}' for x in differences)}")
        elif options.command == "export":
            from scaling import product

            product.checkpoint(options.cache, options.name, options.target)
        elif options.command == "product":
            from scaling import product

            print("\n".join(product.prepare(study, read_results(options.results), options.stage, options.cache, options.target)))
        else:
            from scaling import run

            workers = options.workers or (1 if options.device == "cpu" else 3)
            run.run_all(options.config, options.cache, options.results, plan.seconds(options.budget), options.device, workers, not options.unchecked)
    except (ValueError, OSError) as error:
        print(f"python -m scaling {options.command}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
