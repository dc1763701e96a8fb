#!/usr/bin/env python3
"""Prompt files of `varifocal judge` with the words of HELMET's GPT-4 judge of long answers, from a checkout of HELMET.

    helmet_judge_prompt.py CHECKOUT OUT      writes OUT/helmet_correctness.yaml and OUT/helmet_fluency.yaml

The wording is read from CHECKOUT/scripts/eval_gpt4_longqa.py. In place of the question the judge is shown the excerpt of the
prompt, which ends with the question. Upstream's score is the product of both. Standard library only.
"""

import ast
import json
import pathlib
import sys

SLOTS = {"{question}": "{excerpt}", "{correct_answers}": "{golds}", "{parsed_output}": "{answer}"}
BEST = {"correctness": 3, "fluency": 1}


def words(checkout):
    script = checkout / "scripts/eval_gpt4_longqa.py"
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["judge_prompt"]:
            text = ast.literal_eval(node.value)
            break
    else:
        sys.exit(f"{script} has no judge_prompt")
    for theirs, ours in SLOTS.items():
        if theirs not in text:
            sys.exit(f"the judge_prompt of {script} has no {theirs}")
        text = text.replace(theirs, ours)
    return text


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    text, out = words(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name, best in BEST.items():
        # A JSON text is one of YAML.
        keys = {"name": f"helmet_{name}", "prompt": text, "chat": True, "grade": f'"{name}": *[0-9]+', "range": [0, best], "max_new_tokens": 512}
        (out / f"helmet_{name}.yaml").write_text("".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items()))


if __name__ == "__main__":
    main()
