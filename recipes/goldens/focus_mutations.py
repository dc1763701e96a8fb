"""What the golden files of Focus would notice: deliberate mistakes of focus_reference.py, one at a time.

As in mutations.py: a mistake is seen when it moves a log-probability by more than the bound that server/engine/golden_test.cc
allows there. Each checkpoint gets `mistakes.json`: for every mistake that changes anything, the run that sees it best, with
the right value and the one that a wrong engine would compute, so that a test can show that the engine computes the right
one. `mutation_test.txt` is the table of all of them.

    python recipes/goldens mutation_test focus [NAME...]      (writes tests/testdata/goldens/focus)
"""

import json
import pathlib
import re

import focus_reference
from focus_cases import FOCUS_CASES
from make_focus import OUT
from reference import flat
from mutations import F32_FLOOR

MARGIN = 10  # times the bound, for some checkpoint, of every mistake
RUNS = 4  # of a checkpoint; later ones repeat what the first show
NOTHING = 1e-6  # golden files have ten digits
# Only generated rows can show it: the prompt's own rows come first.
GENERATED = "generated tokens enter the prompt's sums"
# Mistakes that a reading of b rules out, by words in their names.
NEEDS = {
    "page": "paged", "query's bias": "paged", "all tokens before": "paged", "prompt": "prompt",
    "divided by the temperature": "calibrated",
}  # fmt: skip


def mistakes():
    text = (pathlib.Path(__file__).parent / "focus_reference.py").read_text()
    return sorted(set(re.findall(r'"([^"\n]+)" (?:not )?in (?:self\.mistakes|wrong)', text)))


def applies(mistake, case, run):
    bias = case["focus"]["bias"]
    if "Sinkhorn" in mistake and bias == "calibrated":
        return False
    if "override" in mistake:
        return run["focus_" + mistake.split()[0]] is not None
    if "focal" in mistake and not case["focal"] and run["focal_temperature"] is None:
        return False
    if "ties" in mistake and not run["group_ties"]:
        return False
    if run["group_margin"] is None and "window" not in mistake and "counted" not in mistake:
        return False  # k = K
    return all(bias == needed for word, needed in NEEDS.items() if word in mistake)


def overrides_of(run):
    keys = {"top_k": run["focus_top_k"], "window": run["focus_window"], "focal_temperature": run["focal_temperature"]}
    return {k: v for k, v in keys.items() if v is not None}


def compare(directory, index, run, mistake):
    """A row of mistakes.json, or None where the mistake changes nothing."""
    new_tokens = len(run["continuation"]) if mistake == GENERATED else 0
    wrong = focus_reference.run(directory, run["token_ids"], new_tokens, mistakes=(mistake,), **overrides_of(run))
    difference = (flat(wrong) - flat(run)).abs()
    bound = max(8 * run["float32_difference"], F32_FLOOR)
    row = {"mistake": mistake, "run": index}
    if difference.max() > NOTHING:
        at, scored, largest = int(difference.argmax()), len(run["token_ids"]) - 1, difference.max().item()
        where = {"list": "token_log_probs", "index": at + 1} if at < scored else {"list": "last_log_probs", "index": at - scored}
        values = {"right": flat(run)[at].item(), "wrong": flat(wrong)[at].item()}
    elif new_tokens and wrong["continuation"] != run["continuation"]:
        at = next(i for i, (a, b) in enumerate(zip(run["continuation"], wrong["continuation"])) if a != b)
        where, largest = {"list": "continuation", "index": at}, run["continuation_gaps"][at]
        values = {"right": run["continuation"][at], "wrong": wrong["continuation"][at]}
    else:
        return None
    return row | where | values | {"difference": largest, "times_bound": largest / bound}


def check(case):
    directory, best = OUT / case["name"], {}
    for index, run in enumerate(json.loads((directory / "golden.json").read_text())["runs"][:RUNS]):
        for mistake in mistakes():
            if not applies(mistake, case, run):
                continue
            try:
                row = compare(directory, index, run, mistake)
            except (RuntimeError, KeyError, IndexError):
                continue  # shapes do not allow this mistake here
            if row and row["times_bound"] > best.get(mistake, {"times_bound": 0})["times_bound"]:
                best[mistake] = row
    lines = ",\n".join("  " + json.dumps({k: float(f"{v:.10g}") if isinstance(v, float) else v for k, v in r.items()}) for r in best.values())
    (directory / "mistakes.json").write_text('{"mistakes": [\n' + lines + "\n]}\n")


def summarize():
    """mutation_test.txt of all checkpoints; returns the mistakes that none sees well."""
    found = {mistake: [] for mistake in mistakes()}
    for case in FOCUS_CASES:
        file = OUT / case["name"] / "mistakes.json"
        for row in json.loads(file.read_text())["mistakes"] if file.exists() else []:
            found[row["mistake"]].append((row["times_bound"], row["difference"], case["name"], row["run"]))
    lines = [
        "What each deliberate mistake in Focus moves a log-probability by, in the run of each checkpoint that sees it best;",
        "x f32: in multiples of what the test allows there. Below 1 the mistake is not seen.",
        "Made by: python recipes/goldens mutation_test focus",
        "",
    ]
    for mistake, rows in found.items():
        rows.sort(reverse=True)
        blind = sum(row[0] < 1 for row in rows)
        lines.append(f"{mistake}: {len(rows)} checkpoints" + (f", {blind} of them blind" if blind else ""))
        lines += [f"    {name:22} run {run}  {moved:8.1e}  x f32 {times:9.1f}" for times, moved, name, run in rows]
    (OUT / "mutation_test.txt").write_text("\n".join(lines) + "\n")
    pairs = [row for rows in found.values() for row in rows]
    print(f"{len(found)} mistakes; {len(pairs)} pairs of mistake and checkpoint, seen {sum(row[0] >= 1 for row in pairs)}")
    return [mistake for mistake, rows in found.items() if not rows or rows[0][0] < MARGIN]


def main(only):
    for case in FOCUS_CASES:
        if not only or case["name"] in only:
            check(case)
            print(case["name"], flush=True)
    unseen = summarize()
    if unseen:
        raise SystemExit("not seen ten times over: " + "; ".join(unseen))
