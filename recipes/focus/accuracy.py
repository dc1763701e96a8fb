"""Accuracy of a Focus checkpoint on the native tasks, by this directory's own questions (recipes/llama/evaluate.py): dense attention, the
hard mask at several k, and the controls, on the same questions.
"""

import csv
import dataclasses
import pathlib
from typing import Any

import numpy as np
import torch

from emergence.analysis import Paired, holm, paired
from focus.attention import routers
from focus.checkpoint import load_model

COLUMNS = ("run", "task", "tokens", "setting", "right")  # right: a digit a question, in the order of `evaluate.contexts`
Key = tuple[str, str, int]  # setting, task, tokens
Answers = dict[Key, np.ndarray]  # 1 for a right answer, else 0


@torch.no_grad()
def hits(model: Any, items: list[tuple[list[int], int]]) -> np.ndarray:
    return np.array([int(model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits[0, -1].argmax()) == gold
                     for ids, gold in items], dtype=float)  # fmt: skip


def main(checkpoint: pathlib.Path, lengths: list[int], samples: int, top_k: list[int], run: str, draw: int, out: pathlib.Path | None) -> None:
    """Appends the rows of `run` to the file `out`, if any. `draw` is the seed of the random groups."""
    from llama import data, evaluate

    words = data.Words(checkpoint / "tokenizer.json")
    model, mode = load_model(checkpoint)
    own = next(routers(model)).settings
    settings: list[tuple[str, str | None, dict[str, Any]]] = [("dense", None, {})]
    settings += [(f"hard, k = {k}", "hard", {"top_k": k}) for k in top_k or [own.top_k]]
    random = {"groups": "random", "random_groups_seed": draw}
    settings += [("window", "hard", {"groups": "none"}), (f"random, k = {own.top_k}", "hard", random)]
    found: Answers = {}
    print("| task | tokens | setting | right | minus dense, 95 % |\n| --- | --- | --- | --- | --- |")
    for length in lengths:
        for task in data.TASKS:
            items = evaluate.contexts(words, task, length, samples)
            for name, gate, over in settings:
                mode.gate = gate
                for router in routers(model):
                    router.settings = dataclasses.replace(own, **over)
                right = found[name, task, length] = hits(model, items)
                shown = "" if gate is None else interval(paired(right - found["dense", task, length]))
                print(f"| {task} | {length} | {name} | {int(right.sum())} of {samples} | {shown} |", flush=True)
    if out is not None:
        is_new = not out.exists()
        with out.open("a", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerows([COLUMNS] * is_new)
            rows.writerows((run, task, n, name, "".join(f"{x:.0f}" for x in right)) for (name, task, n), right in found.items())


def interval(d: Paired) -> str:
    return f"{d.mean:+.3f} ± {d.half_width:.3f}"


def read(path: pathlib.Path) -> dict[str, Answers]:
    """By run; all must have the same settings, tasks and numbers of questions."""
    runs: dict[str, Answers] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            answers, key = runs.setdefault(row["run"], {}), (row["setting"], row["task"], int(row["tokens"]))
            if key in answers:
                raise ValueError(f"{path}: run {row['run']} has two rows of {', '.join(map(str, key))}")
            answers[key] = np.array([float(x) for x in row["right"]])
    shapes = {name: {key: len(right) for key, right in answers.items()} for name, answers in runs.items()}
    if not runs or any(shape != next(iter(shapes.values())) for shape in shapes.values()):
        raise ValueError(f"{path}: the runs {', '.join(runs) or '(none)'} have different settings, tasks or numbers of questions")
    return runs


def compared(paths: list[pathlib.Path], candidate: str, base: str) -> str:
    """Markdown, a line a file: `candidate` minus `base`, each question's difference as a mean over the file's runs; the mean over questions
    of all tasks with Student's interval over questions, Holm over the files; then single runs and tasks. `base` is SETTING, or of another
    file with the same runs FILE/SETTING."""
    lines: list[list[object]] = []
    tests: list[Paired] = []
    other, _, setting = base.rpartition("/")
    for path in paths:
        runs = read(path)
        bases = read(pathlib.Path(other)) if other else runs
        tasks = {(task, n): None for answers in runs.values() for _, task, n in answers}
        for name, found in ((candidate, runs), (setting, bases)):
            if any((name, *t) not in found.get(run, {}) for run in runs for t in tasks):
                raise ValueError(f"{path}: no rows of {name}" + f" in {other}" * (found is not runs))
        by_run = [{t: runs[run][candidate, *t] - bases[run][setting, *t] for t in tasks} for run in runs]
        by_task = {t: np.mean([d[t] for d in by_run], axis=0) for t in tasks}
        tests.append(paired(np.concatenate(list(by_task.values()))))
        singles = ", ".join(f"{np.concatenate(list(d.values())).mean():+.3f}" for d in by_run)
        lines.append([path.stem, len(runs), sum(map(len, by_task.values())), interval(tests[-1]), singles,
                      "; ".join(f"{task} {interval(paired(d))}" for (task, _), d in by_task.items())])  # fmt: skip
    head: list[object] = ["rows", "runs", "questions", f"{candidate} minus {base}, 95 %", "Holm p", "by run", "by task"]
    rule: list[object] = ["---" for _ in head]
    for line, p in zip(lines, holm([t.p for t in tests])):
        line.insert(4, f"{p:.2g}")
    return "".join("| " + " | ".join(str(x) for x in line) + " |\n" for line in (head, rule, *lines))
