"""Golden values for the agreement of two raters: kappa by statsmodels, its jackknife interval by numpy and scipy.

    python recipes/goldens/make_agreement.py              (writes tests/testdata/goldens/agreement/golden.json)
    python recipes/goldens/make_agreement.py --coverage   (prints how often the interval has the true kappa)
"""

import argparse
import json
import pathlib

import numpy as np
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens/agreement/golden.json"


def kappa(x, y, levels):
    """Cohen's kappa with quadratic weights of grades 0 to levels - 1."""
    table = np.zeros((levels, levels))
    np.add.at(table, (x, y), 1)
    return cohens_kappa(table, weights=np.arange(levels), wt="quadratic", return_results=False)


def continuous_kappa(x, y):
    d = x.var() + y.var() + (x.mean() - y.mean()) ** 2
    return 1 - ((x - y) ** 2).mean() / d if d > 0 else np.nan


def interval(x, y, clusters, of):
    names = sorted(set(clusters))
    z = np.arctanh(np.clip([of(x[clusters != c], y[clusters != c]) for c in names], -1 + 1e-12, 1 - 1e-12))
    n = len(names)
    reach = stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) / n * ((z - z.mean()) ** 2).sum())
    middle = np.arctanh(of(x, y))
    return float(np.tanh(middle - reach)), float(np.tanh(middle + reach))


def draw(rng, clusters, size, share, noise, levels):
    """Grades of two raters: a common truth with a part shared by a context, and errors with one of their own."""
    truth = rng.standard_normal((clusters, 1)) * np.sqrt(share) + rng.standard_normal((clusters, size)) * np.sqrt(1 - share)
    common = rng.standard_normal((clusters, 1)) * noise / 2
    cuts = stats.norm.ppf(np.linspace(0, 1, levels + 1)[1:-1])
    grades = [np.digitize(truth + rng.standard_normal((clusters, size)) * noise + sign * common, cuts) for sign in (1, -1)]
    return grades[0].ravel(), grades[1].ravel(), np.repeat(np.arange(clusters), size)


def golden():
    rng, rows = np.random.default_rng(17), []
    for clusters, size, share, noise, levels in [(12, 4, 0.2, 0.3, 2), (25, 4, 0.2, 0.5, 5), (40, 1, 0.0, 0.8, 4), (3, 2, 0.0, 0.5, 3)]:
        x, y, names = draw(rng, clusters, size, share, noise, levels)
        of = lambda a, b, n=levels: kappa(a, b, n)
        low, high = interval(x, y, names, of)
        assert abs(of(x, y) - continuous_kappa(x, y)) < 1e-12
        rows.append({"first": (x / (levels - 1)).tolist(), "second": (y / (levels - 1)).tolist(), "cluster": [f"c{c:02d}" for c in names],
                     "kappa": float(of(x, y)), "lower": low, "upper": high, "equal_share": float((x == y).mean())})
    x, y, names = np.round(rng.random(30), 3), np.round(rng.random(30), 3), np.repeat(np.arange(10), 3)
    y = np.round((x + y) / 2, 3)
    low, high = interval(x, y, names, continuous_kappa)
    rows.append({"first": x.tolist(), "second": y.tolist(), "cluster": [f"c{c:02d}" for c in names], "kappa": float(continuous_kappa(x, y)),
                 "lower": low, "upper": high, "equal_share": float((x == y).mean())})
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"rows": rows}) + "\n")


def coverage(draws=1500):
    print("| contexts | answers each | grades | kappa | coverage of 95 % |\n| ---: | ---: | ---: | ---: | ---: |")
    rng = np.random.default_rng(1)
    for clusters, size, share, noise, levels in [(12, 4, 0.2, 0.3, 2), (25, 4, 0.2, 0.5, 2), (60, 1, 0.0, 0.5, 2), (60, 1, 0.0, 0.5, 5),
                                                 (12, 4, 0.2, 0.5, 5), (25, 4, 0.2, 0.2, 4), (100, 4, 0.2, 0.5, 2), (12, 20, 0.2, 0.5, 5)]:
        x, y, _ = draw(rng, 200_000, size, share, noise, levels)
        true, hits = continuous_kappa(x, y), 0
        for _ in range(draws):
            x, y, names = draw(rng, clusters, size, share, noise, levels)
            low, high = interval(x, y, names, continuous_kappa)
            hits += low <= true <= high
        print(f"| {clusters} | {size} | {levels} | {true:.2f} | {100 * hits / draws:.1f} % |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--coverage", action="store_true")
    coverage() if parser.parse_args().coverage else golden()
