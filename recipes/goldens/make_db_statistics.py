"""Golden numbers for db/stats, from scipy and from plain enumeration.

    python recipes/goldens/make_db_statistics.py        (writes tests/testdata/goldens/db_statistics.json)
"""

import itertools
import json
import pathlib

import numpy as np
from scipy import special, stats

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens/db_statistics.json"


def sign_flip(sums):
    """Every assignment of signs, without any shortcut."""
    observed = abs(sum(sums))
    total = [abs(sum(s * d for s, d in zip(signs, sums))) for signs in itertools.product((-1, 1), repeat=len(sums))]
    return float(np.mean(np.array(total) >= observed - 1e-9))


def clustered(rng, counts, binary):
    """Cluster sums and counts, the ratio mean and its standard error by numpy, the t interval by scipy."""
    values = [rng.integers(0, 2, n).astype(float) if binary else np.round(rng.random(n), 6) for n in counts]
    sums = np.array([v.sum() for v in values])
    n = np.array(counts, dtype=float)
    mean = sums.sum() / n.sum()
    c = len(counts)
    error = np.sqrt(c / (c - 1) * np.sum((sums - n * mean) ** 2)) / n.sum()
    low, high = stats.t.interval(0.95, c - 1, loc=mean, scale=error)
    return {"counts": list(counts), "sums": sums.tolist(), "mean": mean, "standard_error": error, "low": low, "high": high}


def main():
    rng = np.random.default_rng(7)
    shapes = [0.5, 1.0, 2.5, 11.5, 300.0, 20000.0]
    beta = [
        {"a": a, "b": b, "x": x, "value": float(special.betainc(a, b, x))}
        for a in shapes
        for b in shapes
        for x in (0.001, 0.2, 0.5, 0.9, 0.9999)
    ]
    t = [
        {"degrees": d, "probability": p, "quantile": float(stats.t.ppf(p, d))}
        for d in (1, 2, 3.7, 11, 24, 99, 5000)
        for p in (0.001, 0.025, 0.2, 0.5, 0.8, 0.975, 0.9995)
    ]
    normal = [{"probability": p, "quantile": float(stats.norm.ppf(p))} for p in (1e-6, 0.025, 0.4, 0.5, 0.8, 0.975)]
    wilson = []
    for successes, count in ((0, 12), (1, 12), (47, 48), (48, 48), (50, 100), (3, 500)):
        interval = stats.binomtest(successes, count).proportion_ci(0.95, method="wilson")
        wilson.append({"successes": successes, "count": count, "low": float(interval.low), "high": float(interval.high)})
    flips = [[1.0], [1, 1, 1, 1, 1], [2, -1, 0, 0, 3, 1, -1, 2], [0.3, 0.1, -0.2, 0.45, 0.05, -0.6, 0.25], [0, 0, 0]]
    flips += [rng.integers(-4, 5, 14).tolist() for _ in range(3)] + [np.round(rng.normal(0.2, 1, 16), 4).tolist()]
    means = [clustered(rng, [4] * 12, True), clustered(rng, [4] * 25, False), clustered(rng, [1, 7, 3, 3, 12, 2], False)]
    golden = {
        "made_by": "recipes/goldens/make_db_statistics.py",
        "incomplete_beta": beta,
        "student_t": t,
        "normal": normal,
        "wilson": wilson,
        "sign_flip": [{"sums": [float(d) for d in s], "p_value": sign_flip(s)} for s in flips],
        "clustered_mean": means,
    }
    OUT.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
