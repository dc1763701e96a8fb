"""Golden values of the value of a question with several answers (db/epochs.h): exact fractions and numpy.

    python recipes/goldens/make_epochs.py    (writes tests/testdata/goldens/epochs/golden.json)

pass_at_k: 1 - C(n - c, k) / C(n, k) in exact fractions; the published numpy code (Chen et al. 2021, figure 3) must agree to 1e-12.
best_of_k: of graded answers, the mean of the maximum over all subsets of k, enumerated in exact fractions.
"""

import itertools
import json
import math
import pathlib
import random
from fractions import Fraction

import numpy as np

OUT = pathlib.Path(__file__).parents[2] / "tests/testdata/goldens/epochs/golden.json"


def published(n, c, k):
    return 1.0 if n - c < k else 1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1))


def exact(n, c, k):
    return 1 - Fraction(math.comb(n - c, k), math.comb(n, k))


def best_of(values, k):
    subsets = list(itertools.combinations(values, k))
    return sum((max(subset) for subset in subsets), Fraction(0)) / len(subsets)


def main():
    cases = [(n, c, k) for n in range(1, 11) for c in range(n + 1) for k in range(1, n + 1)]
    cases += [(n, c, k) for n in (64, 200, 1000) for c in (0, 1, 2, n // 7, n // 2, n - 1, n) for k in (1, 10, n // 2, n)]
    for n, c, k in cases:
        assert abs(published(n, c, k) - float(exact(n, c, k))) < 1e-12, (n, c, k)
    draw = random.Random(7)
    graded = []
    for n in (1, 2, 5, 8):
        for _ in range(6):
            values = [Fraction(draw.randint(0, 8), 8) for _ in range(n)]
            graded += [{"values": [float(value) for value in values], "k": k, "value": float(best_of(values, k))}
                       for k in range(1, n + 1)]
    golden = {"pass_at_k": [{"n": n, "c": c, "k": k, "value": float(exact(n, c, k))} for n, c, k in cases],
              "best_of_k": graded}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    lines = [f' "{name}": [\n  ' + ",\n  ".join(json.dumps(row) for row in rows) + "\n ]" for name, rows in golden.items()]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
