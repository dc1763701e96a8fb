"""Golden values for the statistics: scipy's special functions, intervals from them, and enumerated sign flips.

    python recipes/goldens/make_statistics.py        (writes tests/testdata/goldens/statistics/golden.json)
"""

import itertools
import json
import pathlib
from fractions import Fraction

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import optimize, special, stats
from wildboottest.wildboottest import wildboottest

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens/statistics"


def incomplete_beta():
    shapes = [0.5, 1.0, 2.0, 3.5, 10.0, 47.5, 300.0, 5000.0, 1e5]
    points = [0.0, 1e-6, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0]
    rows = [{"a": a, "b": b, "x": x, "value": float(special.betainc(a, b, x))} for a in shapes for b in shapes for x in points]
    return [r for r in rows if r["value"] == 0 or r["value"] > 1e-250]


def student_t():
    degrees = [1, 2, 3, 4.5, 7, 11, 12, 24, 30.25, 99, 1000, 1e6]
    cdf = [{"t": t, "degrees": d, "value": float(stats.t.cdf(t, d))} for d in degrees for t in (-8, -2.5, -1, -0.1, 0, 0.3, 1.96, 4, 30)]
    levels = (0.0005, 0.01, 0.025, 0.1, 0.5, 0.8, 0.95, 0.975, 0.995, 0.9999)
    return cdf, [{"probability": p, "degrees": d, "value": float(stats.t.ppf(p, d))} for d in degrees for p in levels]


def wilson(k, n, confidence):
    """Wilson's formula; scipy's own for whole counts, checked below to be the same."""
    z = stats.norm.ppf(0.5 + confidence / 2)
    p = k / n
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def wilson_rows():
    rows = []
    for n in (1, 3, 12, 48, 100, 2500):
        for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
            for confidence in (0.9, 0.95, 0.99):
                exact = stats.binomtest(k, n).proportion_ci(confidence, method="wilson")
                low, high = wilson(k, n, confidence)
                assert abs(low - exact.low) < 1e-12 and abs(high - exact.high) < 1e-12
                rows.append({"mean": k / n, "effective_count": n, "confidence": confidence, "low": float(exact.low), "high": float(exact.high)})
    for mean, n in ((0.25, 7.3), (0.9, 22.75), (0.5, 1.0), (0.031, 160.4), (1.0, 9.6), (0.0, 2.2)):
        low, high = wilson(mean * n, n, 0.95)
        rows.append({"mean": mean, "effective_count": n, "confidence": 0.95, "low": float(low), "high": float(high)})
    return rows


def t_intervals():
    rng, rows = np.random.default_rng(3), []
    for n in (2, 3, 12, 25, 60):
        x = np.round(rng.normal(0.05, 0.3, n), 4)
        low, high = stats.t.interval(0.95, n - 1, loc=x.mean(), scale=x.std(ddof=1) / np.sqrt(n))
        p = float(stats.ttest_1samp(x, 0).pvalue)
        rows.append({"differences": x.tolist(), "mean": float(x.mean()), "low": float(low), "high": float(high), "t_test_p": p})
    return rows


def cluster_robust():
    """CR2 variance of a mean and its Satterthwaite degrees of freedom, by whole matrices; t interval, p, equivalence."""
    rng, rows = np.random.default_rng(5), []
    for sizes in ([4] * 12, [1, 4, 3], [6, 2, 2, 9, 1, 4, 4], [3] * 25 + [12], [1] * 8):
        clusters = [np.round(rng.normal(0.08 + rng.normal(0, 0.2), 0.3, n), 4) for n in sizes]
        y, n = np.concatenate(clusters), sum(sizes)
        hat = np.full((n, n), 1 / n)
        residual = np.eye(n) - hat
        ends = np.cumsum([0] + list(sizes))
        variance, rows_of_g = 0.0, []
        for first, last in zip(ends, ends[1:]):
            block = residual[first:last, first:last]
            values, vectors = np.linalg.eigh(block)
            values = np.where(values > 1e-12, values, np.inf)  # the Moore-Penrose root, as for a block that is singular
            adjust = vectors @ np.diag(values**-0.5) @ vectors.T
            variance += (np.ones(last - first) / n @ adjust @ (y - y.mean())[first:last]) ** 2
            rows_of_g.append(np.ones(last - first) / n @ adjust @ residual[first:last])
        g = np.array(rows_of_g)
        eigenvalues = np.linalg.eigvalsh(g @ g.T)
        degrees = eigenvalues.sum() ** 2 / (eigenvalues**2).sum()
        error = float(np.sqrt(variance))
        low, high = stats.t.interval(0.95, degrees, loc=y.mean(), scale=error)
        if len(set(sizes)) == 1:  # where CR1 and CR2 are the same
            groups = np.repeat(np.arange(len(sizes)), sizes)
            theirs = sm.OLS(y, np.ones(n)).fit(cov_type="cluster", cov_kwds={"groups": groups})
            assert abs(theirs.bse[0] / error - 1) < 1e-10
        margin = 0.1
        p_equivalence = max(stats.t.sf((margin + y.mean()) / error, degrees), stats.t.sf((margin - y.mean()) / error, degrees))
        rows.append({
            "clusters": [c.tolist() for c in clusters], "standard_error": error, "degrees": float(degrees), "low": float(low), "high": float(high),
            "p": float(2 * stats.t.sf(abs(y.mean()) / error, degrees)), "p_equivalence": float(p_equivalence),
        })
    return rows


def mean_error_degrees(clusters):
    """Mean, CR2 standard error and degrees of freedom, as cluster_robust() has them."""
    y, sizes = np.concatenate(clusters), [len(c) for c in clusters]
    n, ends = len(y), np.cumsum([0] + sizes)
    residual = np.eye(n) - 1 / n
    variance, g = 0.0, []
    for first, last in zip(ends, ends[1:]):
        values, vectors = np.linalg.eigh(residual[first:last, first:last])
        row = np.ones(last - first) / n @ (vectors / np.sqrt(np.where(values > 1e-12, values, np.inf)) @ vectors.T)
        variance += (row @ (y - y.mean())[first:last]) ** 2
        g.append(row @ residual[first:last])
    eigenvalues = np.linalg.eigvalsh(np.array(g) @ np.array(g).T)
    return y.mean(), np.sqrt(variance), eigenvalues.sum() ** 2 / (eigenvalues**2).sum()


def relative_gains():
    """The gains g for which the mean of candidate - (1 + g) baseline is not different from zero by t: both ends by a root
    finder, which knows no formula of Fieller's."""
    rng, rows = np.random.default_rng(21), []
    for sizes, level, gain in (([4] * 12, 0.5, 0.2), ([1, 4, 3, 5, 2, 2], 0.7, -0.3), ([6, 2, 2, 9, 1, 4, 4], 0.4, 1.0), ([3] * 25 + [12], 0.2, 0.0), ([4] * 6, 0.02, 0.1)):
        baseline = [np.round(np.abs(rng.normal(level + rng.normal(0, 0.1), 0.2, n)), 4) for n in sizes]
        candidate = [np.round(b * (1 + gain) + rng.normal(0, 0.1, len(b)), 4) for b in baseline]
        if level < 0.1:
            baseline = [np.round(b * (i == 0), 4) for i, b in enumerate(baseline)]

        def excess(g):
            mean, error, degrees = mean_error_degrees([c - (1 + g) * b for b, c in zip(baseline, candidate)])
            return abs(mean) - stats.t.ppf(0.975, degrees) * error

        mean, error, degrees = mean_error_degrees(baseline)
        row = {"baseline": [b.tolist() for b in baseline], "candidate": [c.tolist() for c in candidate], "has_value": bool(mean > stats.t.ppf(0.975, degrees) * error)}
        if row["has_value"]:
            row["gain"] = float(np.concatenate(candidate).mean() / np.concatenate(baseline).mean() - 1)
            row["low"] = optimize.brentq(excess, row["gain"] - 50, row["gain"], xtol=1e-13)
            row["high"] = optimize.brentq(excess, row["gain"], row["gain"] + 50, xtol=1e-13)
        rows.append(row)
    assert [row["has_value"] for row in rows] == [True] * 4 + [False]
    return rows


def effective_lengths():
    """At each length score minus threshold with its t interval (CR2, Welch over tasks); then both scans, as indices."""
    rng, rows = np.random.default_rng(33), []
    for case in range(14):
        task_count, context_count, size = (1, 2, 3)[case % 3], (6, 12, 20)[case % 3], 4
        share, score = (0.85, None) if case % 2 else (1.0, 0.5)
        decay = rng.uniform(0.02, 0.12)
        tasks = []
        for _ in range(task_count):
            contexts = np.repeat(rng.normal(0, 0.1, context_count), size)
            tasks.append([np.round(0.68 - decay * length + contexts + rng.normal(0, 0.15, context_count * size), 4) for length in range(5)])
        bounds = []
        for length in range(5):
            parts = []
            for task in tasks:
                y = task[length] - score if score is not None else task[length] - share * task[0]
                parts.append(mean_error_degrees(np.split(y, context_count)))
            mean = np.mean([p[0] for p in parts])
            variances = np.array([p[1] ** 2 for p in parts]) / task_count**2
            degrees = variances.sum() ** 2 / sum(v**2 / p[2] for v, p in zip(variances, parts))
            half = stats.t.ppf(0.975, degrees) * np.sqrt(variances.sum())
            if score is None and length == 0:
                half = 0  # a share of this very score: reached by definition
            bounds.append((mean, mean - half, mean + half))
        first = lambda fails: next((i for i, b in enumerate(bounds) if fails(b)), 5) - 1
        threshold = score if score is not None else share * np.mean([t[0].mean() for t in tasks])
        high = max((i for i, b in enumerate(bounds) if b[2] >= 0), default=-1)
        rows.append({
            "tasks": [[y.tolist() for y in task] for task in tasks], "cluster_size": size, "share": share, "score": score, "threshold": float(threshold),
            "length": first(lambda b: b[0] < 0), "low": first(lambda b: b[1] <= 0), "high": high,
        })
    assert len({(r["length"], r["low"], r["high"]) for r in rows}) > 6
    return rows


def task_means():
    """The mean of several tasks' means: Welch's degrees of freedom; for two tasks of opposite sign scipy's own test."""
    rng, rows = np.random.default_rng(8), []
    for sizes in ((12, 12), (5, 20, 9), (4, 4, 4, 4, 4)):
        tasks = [np.round(rng.normal(0.1, 0.1 + 0.2 * i, n), 4) for i, n in enumerate(sizes)]
        parts = np.array([t.var(ddof=1) / len(t) for t in tasks]) / len(tasks) ** 2
        degrees = parts.sum() ** 2 / sum(p**2 / (len(t) - 1) for p, t in zip(parts, tasks))
        mean, error = float(np.mean([t.mean() for t in tasks])), float(np.sqrt(parts.sum()))
        p = float(2 * stats.t.sf(abs(mean) / error, degrees))
        if len(tasks) == 2:
            assert abs(p - stats.ttest_ind(tasks[0], -tasks[1], equal_var=False).pvalue) < 1e-12
        low, high = stats.t.interval(0.95, degrees, loc=mean, scale=error)
        rows.append({"tasks": [t.tolist() for t in tasks], "difference": mean, "degrees": float(degrees), "low": float(low), "high": float(high), "p": p})
    return rows


def sparse_pairs():
    """Few pairs that differ: the variance of the n pairs and of two more, +1 and -1, over (n + 2)^2."""
    rows = []
    for n, gained, lost in ((48, 0, 0), (48, 1, 0), (48, 0, 2), (12, 0, 12), (12, 11, 0), (5, 0, 0)):
        x = np.array([1.0] * gained + [-1.0] * lost + [0.0] * (n - gained - lost))
        rows.append({"pairs": n, "gained": gained, "lost": lost, "standard_error": float(np.sqrt(n * x.var(ddof=1) + 2) / (n + 2))})
    return rows


def sign_flips():
    """Two-sided, all assignments, in exact arithmetic: how many sums are at least as large as the one seen."""
    vectors = [
        [1], [1, 1], [1, 1, 1, 1, 1], [1, -1], [0, 0, 0], [0, 1, 0, 1], [4, 3, 2, 1], [1, 2, -3], [4, -1, 2, 2, 3, -2, 1],
        [1, 1, 1, 1, -1, 1, 1, 1, 2, 1, 1, 1], [1, -2, 3, -4, 5, -6, 7, -8, 9, 10], [2, 2, 2, 0, 0, -1, 1, 3, 1, 1, 4, 2, 1, 1],
    ]
    rng = np.random.default_rng(11)
    vectors += [rng.integers(-4, 5, n).tolist() for n in (6, 9, 13, 16)]
    rows = []
    for quarters in vectors:
        values = [Fraction(v, 4) for v in quarters]
        nonzero = [abs(v) for v in values if v]
        seen = abs(sum(values))
        count = sum(abs(sum(s * v for s, v in zip(signs, nonzero))) >= seen for signs in itertools.product((1, -1), repeat=len(nonzero)))
        p = Fraction(count, 2 ** len(nonzero))
        if len(values) <= 13 and len(nonzero) > 1:
            ours = stats.permutation_test(
                (np.array(quarters) / 4,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
            ).pvalue
            assert abs(ours - float(p)) < 1e-12, (quarters, ours, p)
        # The wild cluster bootstrap of a mean with Rademacher weights, the null imposed and every assignment enumerated: its
        # t is monotone in the sum, since the squares of the clusters do not change with their signs.
        if len(values) == len(nonzero) and 5 <= len(values) <= 13:
            model = sm.OLS(pd.Series(np.array(quarters) / 4, name="y"), pd.DataFrame({"mean": np.ones(len(values))}))
            theirs = wildboottest(model, param="mean", cluster=pd.Series(range(len(values))), B=99_999, show=False)["p-value"]
            # It counts t above the observed one; ours counts equal ones too.
            least = Fraction(sum(abs(sum(s * v for s, v in zip(signs, nonzero))) > seen for signs in itertools.product((1, -1), repeat=len(nonzero))), 2 ** len(nonzero))
            assert float(least) - 1e-12 <= float(theirs.iloc[0]) <= float(p) + 1e-12, (quarters, theirs, least, p)
        rows.append({"differences": [v / 4 for v in quarters], "as_extreme_count": count, "assignment_count": 2 ** len(nonzero), "p": float(p)})
    return rows


def flip_sums(row):
    nonzero = [abs(v) for v in row["differences"] if v]
    return np.array([sum(s * v for s, v in zip(signs, nonzero)) for signs in itertools.product((1, -1), repeat=len(nonzero))])


def max_t():
    """Step-down max-t over joint sign flips by its definition, in exact arithmetic (squared statistics): a test's count is
    of the assignments in which it, or one that is less significant, reaches its own statistic."""
    rng, rows = np.random.default_rng(17), []
    designs = [rng.integers(-1, 4, (1, 9)), rng.integers(-1, 4, (3, 8)), rng.integers(-3, 4, (6, 10)) + np.array([[2], [1], [0], [0], [-2], [0]])]
    blocks = np.zeros((4, 10), dtype=int)  # two lengths that share no cluster, two candidates at each that share a baseline
    shared = rng.integers(-2, 3, 10)
    for j in range(4):
        half = slice(0, 5) if j < 2 else slice(5, 10)
        blocks[j, half] = shared[half] + rng.integers(-1, 4, 5)
    designs += [blocks, np.array([[1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0], [1, 0, 0, -1, 1, 0]])]
    for u in designs:
        squares = [Fraction(int((test**2).sum())) for test in u]
        statistics = lambda signs: [Fraction(int(signs @ test) ** 2) / q if q else Fraction(0) for test, q in zip(u, squares)]
        drawn = [statistics(np.array(signs)) for signs in itertools.product((1, -1), repeat=u.shape[1])]
        seen = drawn[0]
        adjusted = {}
        for j in sorted(range(len(u)), key=lambda j: -seen[j]):
            others = [k for k in range(len(u)) if k not in adjusted]
            p = Fraction(sum(max(d[k] for k in others) >= seen[j] for d in drawn), len(drawn))
            adjusted[j] = max([p, *adjusted.values()]) if squares[j] else Fraction(1)
        if len(u) == 1:
            ours = stats.permutation_test((u[0].astype(float),), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
            assert abs(ours - float(adjusted[0])) < 1e-12
        rows.append({"contributions": u.tolist(), "adjusted": [float(adjusted[j]) for j in range(len(u))]})
    return rows


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    cdf, quantiles = student_t()
    z = [1e-9, 0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.995, 1 - 1e-9]
    tables = {
        "incomplete_beta": incomplete_beta(),
        "student_t_cdf": cdf,
        "student_t_quantile": quantiles,
        "normal_quantile": [{"probability": p, "value": float(special.ndtri(p))} for p in z],
        "wilson": wilson_rows(),
        "t_interval": t_intervals(),
        "cluster_robust": cluster_robust(),
        "relative_gain": relative_gains(),
        "effective_length": effective_lengths(),
        "task_mean": task_means(),
        "sparse_pairs": sparse_pairs(),
        "sign_flip": sign_flips(),
        "max_t": max_t(),
    }
    body = ",\n".join(f'"{k}": [\n' + ",\n".join("  " + json.dumps(r) for r in rows) + "\n]" for k, rows in tables.items())
    (OUT / "golden.json").write_text("{" + body + "}\n")
    print({k: len(v) for k, v in tables.items()})
    # Teeth: plain mistakes must be seen at the printed digits.
    normal_for_t = max(abs(r["value"] - special.ndtri(r["probability"])) for r in quantiles if r["degrees"] <= 30)
    flips = tables["sign_flip"]
    one_sided = sum(sum(flip_sums(r) >= abs(sum(r["differences"]))) != r["as_extreme_count"] for r in flips)
    wald = max(abs(r["mean"] - 1.96 * np.sqrt(r["mean"] * (1 - r["mean"]) / r["effective_count"]) - r["low"]) for r in tables["wilson"])
    zeros = sum(0 in r["differences"] and r["assignment_count"] < 2 ** len(r["differences"]) for r in flips)
    print(f"normal for t moves {normal_for_t:.2g}; one-sided flips move {one_sided} rows; Wald for Wilson moves {wald:.2g}; {zeros} rows hold zeros")


if __name__ == "__main__":
    main()
