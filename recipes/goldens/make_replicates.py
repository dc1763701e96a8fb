"""Golden values for inference over training seeds and for equal-loss ratios, by numpy, scipy and enumeration.

    python recipes/goldens/make_replicates.py        (writes tests/testdata/goldens/replicates/golden.json)
"""

import itertools
import json
import math
import pathlib

import numpy as np
from make_statistics import mean_error_degrees
from scipy import optimize, stats

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens/replicates"


def rest_variance(values, contexts):
    """values [S, Q]: the mean square of what a least-squares fit of seed and context effects leaves of the sums of
    (seed, context), over S C cells. The effect of a seed on a sum is proportional to the context's questions."""
    seeds, names = len(values), sorted(set(contexts))
    counts = np.array([contexts.count(name) for name in names])
    sums = np.array([[row[[c == name for c in contexts]].sum() for name in names] for row in values])
    design = np.zeros((sums.size, seeds + len(names)))
    for i, (s, c) in enumerate(itertools.product(range(seeds), range(len(names)))):
        # Seed effects are fitted as the questions' weights make them: to the seed's mean over all questions.
        design[i, s], design[i, seeds + c] = counts[c], 1
    if len(set(counts)) == 1:
        fitted = design @ np.linalg.lstsq(design, sums.ravel(), rcond=None)[0]
    else:
        means = values.mean(1)
        fitted = (sums.mean(0) + counts * (means - means.mean())[:, None]).ravel()
    n = values.size
    return ((sums.ravel() - fitted) ** 2).sum() / n**2 * sums.size / ((seeds - 1) * (len(names) - 1))


def division_p(a, b):
    """Every way to divide the values into groups of these sizes."""
    both, n = np.concatenate([a, b]), len(a)
    all_of_it = set(range(len(both)))

    def gap(first):
        rest = sorted(all_of_it - set(first))
        return abs(both[list(first)].mean() - both[rest].mean())

    gaps = [gap(first) for first in itertools.combinations(range(len(both)), n)]
    return float(np.mean([g >= gap(range(n)) - 1e-12 for g in gaps])), len(gaps)


def flip_p(d):
    sums = [abs(float(np.dot(s, d))) for s in itertools.product((1.0, -1.0), repeat=len(d))]
    return float(np.mean([x >= abs(float(d.sum())) - 1e-12 for x in sums]))


def replicates():
    """groups[g][s][t]: the values of run s on task t; the second group is subtracted."""
    rng, rows = np.random.default_rng(64), []
    for group_seeds, sizes_of_tasks, sds in (
        ([2], [[4] * 12], (0.1, 0.1, 0.2)),
        ([3], [[4] * 12], (0.2, 0.05, 0.2)),
        ([5], [[4] * 8, [4] * 8], (0.1, 0.1, 0.2)),
        ([8], [[3, 5, 4, 1, 6, 4]], (0.05, 0.3, 0.2)),
        ([3, 5], [[4] * 12], (0.2, 0.1, 0.2)),
        ([2, 2], [[4] * 12, [2] * 9], (0.3, 0.0, 0.2)),
        ([6], [[4] * 12], (0.0, 0.0, 0.4)),
        ([1], [[4] * 12], (0.2, 0.1, 0.2)),
        ([3, 1], [[4] * 12], (0.2, 0.1, 0.2)),
    ):
        contexts = [[f"c{i:02d}" for i, size in enumerate(sizes) for _ in range(size)] for sizes in sizes_of_tasks]
        of_context = [np.repeat(rng.normal(0, sds[1], len(sizes)), sizes) for sizes in sizes_of_tasks]
        groups = []
        for g, count in enumerate(group_seeds):
            runs = []
            for _ in range(count):
                seed = rng.normal(0.1 * (g == 0), sds[0])
                runs.append([np.round(seed + (g == 0) * c + rng.normal(0, sds[2], len(c)), 4) for c in of_context])
            groups.append(runs)
        tasks = len(contexts)
        signs = [1, -1][: len(groups)]
        means = [np.array([np.mean([v.mean() for v in run]) for run in runs]) for runs in groups]
        difference = sum(sign * m.mean() for sign, m in zip(signs, means))
        parts, degrees = [], []
        for t in range(tasks):
            combined = sum(sign * np.mean([run[t] for run in runs], axis=0) for sign, runs in zip(signs, groups))
            clusters = [combined[[c == name for c in contexts[t]]] for name in sorted(set(contexts[t]))]
            _, error, d = mean_error_degrees(clusters)
            parts.append(error**2 / tasks**2)
            degrees.append(d)
        of_contexts = sum(parts)
        context_degrees = of_contexts**2 / sum(p**2 / d for p, d in zip(parts, degrees))
        row = {"contexts": contexts, "groups": [[[v.tolist() for v in run] for run in runs] for runs in groups],
               "is_over_seeds": min(group_seeds) > 1, "difference": float(difference)}  # fmt: skip
        if row["is_over_seeds"]:
            of_seeds = [np.var(m, ddof=1) / len(m) for m in means]
            rest = sum(rest_variance(np.array([run[t] for run in runs]), contexts[t]) / tasks**2 for runs in groups for t in range(tasks))
            variance = max(sum(of_seeds), of_contexts, sum(of_seeds) + of_contexts - rest)
            quantile = lambda d: stats.t.ppf(0.975, d)
            critical = (sum(v * quantile(n - 1) for v, n in zip(of_seeds, group_seeds)) + (variance - sum(of_seeds)) * quantile(context_degrees)) / variance
            error, seed_share = np.sqrt(variance), sum(of_seeds) / variance
            check, count = (flip_p(means[0]), 2 ** len(means[0])) if len(groups) == 1 else division_p(*means)
            row |= {"seed_share": float(seed_share), "p_check": check, "division_count": count}
        else:
            critical, error = stats.t.ppf(0.975, context_degrees), np.sqrt(of_contexts)
        d = optimize.brentq(lambda d: stats.t.ppf(0.975, d) - critical, 0.5, 1e4, xtol=1e-12)
        margin = 0.1
        row |= {"standard_error": float(error), "low": float(difference - critical * error), "high": float(difference + critical * error),
                "p": float(2 * stats.t.sf(abs(difference) / error, d)), "degrees": float(d), "margin": margin,
                "p_equivalence": float(max(stats.t.sf((margin + difference) / error, d), stats.t.sf((margin - difference) / error, d)))}  # fmt: skip
        rows.append(row)
    return rows


def permutations():
    rng, rows = np.random.default_rng(65), []
    for a, b in ((2, 2), (3, 3), (1, 4), (3, 5), (6, 6)):
        x, y = np.round(rng.normal(0.4, 1, a), 3), np.round(rng.normal(0, 1, b), 3)
        p, count = division_p(x, y)
        rows.append({"a": x.tolist(), "b": y.tolist(), "p": p, "division_count": count, "p_min": (2 if a == b else 1) / math.comb(a + b, a)})
    return rows


def first_reach(log_x, loss, target):
    """Where the line through the points first is at or below the target, by a root finder; None outside of it."""
    if loss[0] <= target:
        return "below" if loss[0] < target else log_x[0]
    for (a, y), (b, z) in zip(zip(log_x, loss), zip(log_x[1:], loss[1:])):
        if z <= target:
            return optimize.brentq(lambda v: np.interp(v, log_x, loss) - target, a, b, xtol=1e-13) if z < target else b
    return "above"


def equal_loss():
    """Baseline curves by seed over x, the candidate's losses at one x: how many times x the baseline needs."""
    rng, rows = np.random.default_rng(66), []
    for seeds, gain, noise in ((3, 0.15, 0.01), (5, -0.1, 0.02), (8, 0.05, 0.03), (2, 0.2, 0.01), (4, 1.6, 0.08), (3, -1.5, 0.01), (3, 0.0, 0.0)):
        x = [65536, 131072, 262144, 524288]
        at = x[1]
        baseline = [np.round(4 - 0.8 * (np.log2(x) - 16) + rng.normal(0, noise, 4), 4) for _ in range(seeds)]
        candidate = [round(float(b[1] - gain + rng.normal(0, noise)), 4) for b in baseline]
        reached = [first_reach(np.log(x), b, c) for b, c in zip(baseline, candidate)]
        row = {"x": x, "at": at, "baseline": [b.tolist() for b in baseline], "candidate": candidate,
               "above_count": reached.count("above"), "below_count": reached.count("below")}  # fmt: skip
        if row["above_count"] + row["below_count"] == 0:
            d = np.array(reached) - np.log(at)
            row["ratio"] = float(np.exp(d.mean()))
            if d.std() > 1e-12:
                low, high = stats.t.interval(0.95, seeds - 1, loc=d.mean(), scale=d.std(ddof=1) / np.sqrt(seeds))
                row |= {"low": float(np.exp(low)), "high": float(np.exp(high)), "p": float(stats.ttest_1samp(d, 0).pvalue), "p_check": flip_p(d)}
        rows.append(row)
    return rows


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    tables = {"replicates": replicates(), "permutation": permutations(), "equal_loss": equal_loss()}
    body = ",\n".join(f'"{k}": [\n' + ",\n".join("  " + json.dumps(r) for r in rows) + "\n]" for k, rows in tables.items())
    (OUT / "golden.json").write_text("{" + body + "}\n")
    print({k: len(v) for k, v in tables.items()}, [(r["above_count"], r["below_count"]) for r in tables["equal_loss"]])


if __name__ == "__main__":
    main()
