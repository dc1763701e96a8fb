#!/usr/bin/env python3
"""Scores of public checkpoints, in docs/scores.md between its two markers. One job a row, all in one database; resumable.

    recipes/scores.py run --db=scores.db [--minutes=30]   # runs rows that have no score, cheapest first; again to go on
    recipes/scores.py costs --db=scores.db                # of rows without a score: what this machine would take
    recipes/scores.py                                     # writes the page's table from recipes/scores/rows.json
    recipes/scores.py --check                             # exit 1 where the page has another table

Checkpoints come from deploy/get_gemma.sh and deploy/get_smollm2.sh, rows of short tasks from deploy/get_short_tasks.sh, what
RULER's tasks read as docs/ruler.md says; a row whose checkpoint or data are missing is left out with a sentence. `varifocal`
is looked for on PATH, or named by --program. Standard library only.
"""

import json
import math
import os
import pathlib
import shlex
import subprocess
import sys
import time

from flags import Path, parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ROOT / "recipes/scores/rows.json"
PAGE = ROOT / "docs/scores.md"
BEGIN, END = "<!-- begin: written by recipes/scores.py -->", "<!-- end -->"
CACHE = pathlib.Path(os.environ.get("VARIFOCAL_CACHE") or pathlib.Path.home() / ".cache/varifocal")
MODELS = {"gemma-3-270m": ("Gemma 3 270M", 32768), "smollm2-135m-instruct": ("SmolLM2 135M Instruct", 8192)}
SHORT = CACHE / "short_tasks/short_tasks.yaml"
# Tasks of RULER that need neither essays nor QA data, which no package has.
RULER = "niah_single_1,niah_multikey_2,niah_multikey_3,vt,cwe,fwe"
# What a suite is asked with at a length; lengths by rising cost.
SUITES = {
    "short_tasks": {"suite": str(SHORT), "lengths": [2048], "flags": ["--tasks=arc_easy,boolq,piqa", "--limit=100"], "by_task": True, "needs": SHORT,
                    "what": "short tasks, no demonstrations"},
    "standard": {"suite": "standard", "lengths": [1024, 2048, 4096, 8192, 16384, 32768], "flags": ["--limit=16"], "what": "`standard` (HELMET-like), six tasks"},
    "ruler": {"suite": "ruler", "lengths": [1024, 2048, 4096, 8192, 16384, 32768], "flags": [f"--tasks={RULER}", "--limit=5"], "needs": CACHE / "ruler",
              "what": "RULER's own questions, six of its tasks"},
}
# In percent, as the model's card has it; zero demonstrations. docs/scores.md says where they are from.
PUBLISHED = {("gemma-3-270m", "short_tasks", "arc_easy"): 57.7, ("gemma-3-270m", "short_tasks", "boolq"): 61.4, ("gemma-3-270m", "short_tasks", "piqa"): 67.7}


def plan():
    """(key, model, suite name, length) of every row, cheapest first."""
    rows = [(f"{model} {name} {length}", model, name, length) for name, suite in SUITES.items() for length in suite["lengths"]
            for model, (_, longest) in MODELS.items() if length <= longest]
    return sorted(rows, key=lambda row: (row[3] if row[2] != "short_tasks" else 1500, row[2], row[1]))


def command(model, name, length, home="~/.cache/varifocal"):
    suite = SUITES[name]
    path = suite["suite"].replace(str(CACHE), home)
    return ["run", path, f"--lengths={length}", *suite["flags"], f"--model={model}={home}/{model}", "--threads=1"]


def load():
    return json.loads(ROWS.read_text()) if ROWS.exists() else {}


def store(rows):
    ROWS.parent.mkdir(exist_ok=True)
    ROWS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


def interval(means):
    """Mean over tasks, and half of its 95 % interval: tasks independent, contexts the units, normal."""
    variance = 0.0
    for contexts in means.values():
        mean = sum(contexts) / len(contexts)
        variance += sum((c - mean) ** 2 for c in contexts) / max(len(contexts) - 1, 1) / len(contexts)
    mean = sum(sum(c) / len(c) for c in means.values()) / len(means)
    return mean, 1.96 * math.sqrt(variance) / len(means)


def read(options, model, name, length):
    """A row's scores from the database; None where its newest job has not ended."""
    jobs = query(options, f"""SELECT j.job_id, j.state, (j.end_us - j.start_us) / 1e6 AS seconds FROM jobs j WHERE j.suite = '{name}' AND j.job_id IN
                 (SELECT job_id FROM v_scores_by_length WHERE variant = '{model}' AND context_length = {length}) ORDER BY j.job_id DESC LIMIT 1""")
    if not jobs or jobs[0]["state"] != "succeeded":
        return None
    job, seconds = jobs[0]["job_id"], jobs[0]["seconds"]
    metrics = {row["task"]: row["metric"] for row in query(options, f"SELECT task, metric FROM task_metrics WHERE job_id = {job} AND metric_index = 0")}
    samples = query(options, f"SELECT task, metric, cluster, coalesce(value, 0) AS value FROM v_samples WHERE job_id = {job}")
    contexts, counts = {}, {}
    for row in samples:
        if row["metric"] != metrics[row["task"]]:
            continue
        contexts.setdefault(row["task"], {}).setdefault(row["cluster"], []).append(row["value"])
        counts[row["task"]] = counts.get(row["task"], 0) + 1
    groups = {task: {task: [sum(v) / len(v) for v in by.values()]} for task, by in contexts.items()}
    if not SUITES[name].get("by_task"):
        groups = {"mean": {task: of[task] for task, of in groups.items()}}
    scores = {}
    for label, means in groups.items():
        mean, half = interval(means)
        scores[label] = {"mean": mean, "half": half, "n": sum(counts[t] for t in means), "contexts": sum(len(c) for c in means.values())}
    return {"scores": scores, "seconds": seconds}


def query(options, sql):
    out = subprocess.run([options.program, "query", f"--db={options.db}", "--format=jsonl", sql], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def missing(model, name):
    for path in (CACHE / model / "config.json", SUITES[name].get("needs")):
        if path is not None and not path.exists():
            return f"{path} is missing"
    return ""


def run(options):
    end = time.time() + 60 * options.minutes
    rows = load()
    for key, model, name, length in plan():
        if "scores" in rows.get(key, {}) or length > options.longest:
            continue
        if time.time() > end:
            print(f"{options.minutes} minutes have passed; the same command goes on")
            return
        if why := missing(model, name):
            print(f"{key}: left out, {why}")
            continue
        call = [options.program, *command(model, name, length, str(CACHE)), f"--db={options.db}"]
        print(" ".join(map(shlex.quote, call)), flush=True)
        code = subprocess.run(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        result = read(options, model, name, length) if options.db.exists() else None
        if result is None:
            print(f"{key}: exit code {code.returncode}: {code.stderr.strip().splitlines()[-1:]}")
            continue
        rows[key] = result
        store(rows)
        print(f"{key}: {result['seconds']:.0f} s", flush=True)


def costs(options):
    rows = load()
    for key, model, name, length in plan():
        if key in rows:
            continue
        if why := missing(model, name):
            print(f"{key}: left out, {why}")
            continue
        call = [options.program, *command(model, name, length, str(CACHE)), f"--db={options.db}", "--dry-run", "--format=json"]
        done = subprocess.run(call, capture_output=True, text=True)
        if done.returncode:
            print(f"{key}: {done.stderr.strip().splitlines()[-1:]}")
            continue
        rows[key] = {"cost_seconds": json.loads(done.stdout)["duration_seconds"]}
        store(rows)
        print(f"{key}: {rows[key]['cost_seconds']:.0f} s", flush=True)


def cell(score):
    return f"{100 * score['mean']:.1f} ± {100 * score['half']:.1f}"


def table():
    rows = load()
    lines = ["| Checkpoint | Questions | Length | Score, % | Published, % | n (contexts) | Seconds | `varifocal` .. `--db=scores.db` |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    order = {name: i for i, name in enumerate(SUITES)}
    for key, model, name, length in sorted(plan(), key=lambda row: (order[row[2]], row[3], row[1])):
        row, what = rows.get(key, {}), SUITES[name]["what"]
        call = "`" + " ".join(command(model, name, length)) + "`"
        shown = f"{length // 1024}K" if name != "short_tasks" else "short"
        if "scores" not in row:
            cost = f"about {max(1, round(row['cost_seconds'] / 60))} min" if "cost_seconds" in row else "not estimated"
            lines.append(f"| {MODELS[model][0]} | {what} | {shown} | not run ({cost}) | | | | {call} |")
            continue
        for label, score in sorted(row["scores"].items()):
            published = PUBLISHED.get((model, name, label))
            lines.append(f"| {MODELS[model][0]} | {what if label == 'mean' else label + ', no demonstrations'} | {shown} | {cell(score)} | {published if published else 'none found'} | "
                         f"{score['n']} ({score['contexts']}) | {row['seconds']:.0f} | {call} |")
    return lines


def main():
    longest = dict(type=int, default=8192, help="no rows above this length are run")
    options = parse(__doc__, {"verb": dict(nargs="?", choices=["run", "costs"])}, db=Path("scores.db"), program="varifocal", minutes=1e9, longest=longest, check=False)
    if options.verb:
        return run(options) if options.verb == "run" else costs(options)
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    made = head + BEGIN + "\n\n" + "\n".join(table()) + "\n\n" + END + rest.split(END)[1]
    if options.check:
        if made != page:
            sys.exit(f"{PAGE.relative_to(ROOT)} has another table than recipes/scores/rows.json; run recipes/scores.py")
        return
    PAGE.write_text(made)


main()
