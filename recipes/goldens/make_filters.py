"""Golden file of the filter `regex`: Python's `re` on patterns that both engines take, known ones of other harnesses and drawn ones.

    python recipes/goldens/make_filters.py

Matches that are empty are left out on both sides; patterns that match nothing at all are not drawn.
"""

import json
import pathlib
import random
import re

OUT = pathlib.Path(__file__).parents[2] / "tests/testdata/goldens/filters.json"
TEXTS = [
    "Let me think. 3 + 4 = 7, and 7 * 2 = 14.\n#### 14",
    "The answer is (B).\nThe answer is C",
    "First, x = -1,200.50.\n**Answer:** x\nAnswer: y \n",
    "So the final answer is: \\boxed{42}.",
    "Réponse : été, 日本語\nAnswer: 日本",
    "aab\nbab aa ba\nb",
]
KNOWN = [
    r"#### (\-?[0-9\.\,]+)", r"(-?[$0-9.,]{2,})|(-?[0-9]+)", r"answer is \(?([A-D])\)?", r"(?i)answer:\s*(.*)",
    r"(?im)^[ \t>*_#-]*answer[ \t*_]*:[ \t*_]*(.*?)[ \t\r*_]*$", r"\\boxed\{([^}]*)\}", r"(?s)Answer(.*)", r"\b[A-D]\b", r"(?m)^(\S+) .*$",
]  # fmt: skip


def draw_pattern(draw, depth=0):
    """A pattern that matches no empty text."""
    kind = draw.randrange(7 if depth < 3 else 3)
    if kind < 3:
        return draw.choice(["a", "b", "[ab]", "[^b\n]", ".", "\\w", "\\s", "\n", " "])
    if kind == 3:
        return draw_pattern(draw, depth + 1) + draw_pattern(draw, depth + 1)
    if kind == 4:
        return f"(?:{draw_pattern(draw, depth + 1)}|{draw_pattern(draw, depth + 1)})"
    if kind == 5:
        return f"({draw_pattern(draw, depth + 1)})"
    return f"(?:{draw_pattern(draw, depth + 1)}){draw.choice(['+', '+?', '{2}', '{1,3}'])}"


def main():
    draw = random.Random(20261128)
    cases = [(pattern, text) for pattern in KNOWN for text in TEXTS]
    for _ in range(400):
        text = "".join(draw.choice("aab b\n") for _ in range(draw.randrange(1, 20))).strip()
        cases.append((draw_pattern(draw), text))
    rows = []
    for pattern, text in cases:
        compiled = re.compile(pattern, re.ASCII)
        for group in range(compiled.groups + 1):
            found = [m.group(group) for m in compiled.finditer(text.strip()) if m.group(group)]
            rows.append({"pattern": pattern, "text": text, "group": group, "found": found})
    OUT.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
