"""What the golden files of Focus would notice: deliberate mistakes of focus_reference.py, one at a time.

As in teeth.py: a mistake applies to a run when it changes a log-probability, and is seen when it moves one by more than
the bound that server/engine/golden_test.cc allows there. Two files come of it: `teeth.txt` for people, and
`mistakes.json`, which gives for every mistake the run that sees it best and the value a wrong engine would compute there,
so that a test can show that the engine does not compute that one.

    python recipes/goldens teeth focus [NAME...]      (writes tests/testdata/goldens/focus; with names, only prints)
"""

import json
import pathlib
import re

import focus_reference
from focus_cases import FOCUS_CASES
from make_focus import OUT
from reference import flat
from teeth import F32_FLOOR

MARGIN = 10
# Only generated rows can show it: the prompt's own rows come first.
GENERATED = "generated tokens enter the prompt's sums"


def mistakes():
    text = (pathlib.Path(__file__).parent / "focus_reference.py").read_text()
    return sorted(set(re.findall(r'"([^"\n]+)" (?:not )?in (?:self\.mistakes|wrong)', text)))


def overrides_of(run):
    keys = {"top_k": run["focus_top_k"], "window": run["focus_window"], "focal_temperature": run["focal_temperature"]}
    return {k: v for k, v in keys.items() if v is not None}


def compare(directory, index, run, mistake):
    """A row of mistakes.json, or None where the mistake changes nothing."""
    new_tokens = len(run["continuation"]) if mistake == GENERATED else 0
    wrong = focus_reference.run(directory, run["token_ids"], new_tokens, mistakes=(mistake,), **overrides_of(run))
    moved = (flat(wrong) - flat(run)).abs()
    bound = max(8 * run["float32_difference"], F32_FLOOR)
    row = {"mistake": mistake, "golden": directory.name, "run": index}
    if moved.max() > 1e-9:
        at, scored = int(moved.argmax()), len(run["token_ids"]) - 1
        where = {"list": "token_log_probs", "index": at + 1} if at < scored else {"list": "last_log_probs", "index": at - scored}
        values = {"right": flat(run)[at].item(), "wrong": flat(wrong)[at].item()}
        return row | where | values | {"difference": moved.max().item(), "times_bound": moved.max().item() / bound}
    if wrong["continuation"] != run["continuation"] and new_tokens:
        at = next(i for i, (a, b) in enumerate(zip(run["continuation"], wrong["continuation"])) if a != b)
        values = {"right": run["continuation"][at], "wrong": wrong["continuation"][at]}
        return row | {"list": "continuation", "index": at} | values | {"difference": run["continuation_gaps"][at], "times_bound": run["continuation_gaps"][at] / bound}
    return None


def main(only):
    found = {mistake: [] for mistake in mistakes()}
    for case in FOCUS_CASES:
        if only and case["name"] not in only:
            continue
        directory = OUT / case["name"]
        for index, run in enumerate(json.loads((directory / "golden.json").read_text())["runs"]):
            for mistake, rows in found.items():
                try:
                    row = compare(directory, index, run, mistake)
                except (RuntimeError, KeyError, IndexError):
                    continue  # shapes do not allow this mistake here
                if row:
                    rows.append(row)
        print(case["name"], flush=True)
    lines = [
        "What each deliberate mistake in Focus moves a log-probability by, run by run;",
        "x f32: in multiples of what the test allows there. Below 1 the mistake is not seen.",
        "Made by: python recipes/goldens teeth focus",
        "",
    ]
    unseen, best = [], []
    for mistake, rows in found.items():
        rows.sort(key=lambda r: -r["times_bound"])
        if not rows or rows[0]["times_bound"] < MARGIN:
            unseen.append(mistake)
            continue
        best += rows[:1] + [r for r in rows[1:] if r["golden"] != rows[0]["golden"] and r["times_bound"] > MARGIN][:1]
        blind = sum(r["times_bound"] < 1 for r in rows)
        lines.append(f"{mistake}: {len(rows)} runs, differences {rows[-1]['difference']:.1e} to {rows[0]['difference']:.1e}" + (f", {blind} of them blind" if blind else ""))
        for r in rows:
            lines.append(f"    {r['golden']:22} run {r['run']:2}  {r['difference']:8.1e}  x f32 {r['times_bound']:9.1f}")
    text = "\n".join(lines) + "\n"
    if only:
        print(text)
    else:
        (OUT / "teeth.txt").write_text(text)
        rows = ",\n".join("  " + json.dumps({k: float(f"{v:.10g}") if isinstance(v, float) else v for k, v in r.items()}) for r in best)
        (OUT / "mistakes.json").write_text('{"mistakes": [\n' + rows + "\n]}\n")
    pairs = [r for rows in found.values() for r in rows]
    print(f"{len(found)} mistakes; {len(pairs)} pairs of mistake and run, seen {sum(r['times_bound'] >= 1 for r in pairs)}")
    if unseen and not only:
        raise SystemExit("not seen ten times over: " + "; ".join(unseen))
