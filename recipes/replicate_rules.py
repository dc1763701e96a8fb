"""Rules for an interval over training seeds and contexts, on simulated differences without any: how often each excludes zero.

    python recipes/replicate_rules.py [EXPERIMENTS]

docs/decisions/0064-training-seeds-and-contexts-are-crossed-factors.md quotes it; the product's own rule is measured by `null_rates`.
"""

import sys

import numpy as np
from scipy import stats

DESIGNS = [(0, 0, 1), (0.3, 0, 1), (0, 1, 1), (0.3, 0.3, 1), (1, 0, 1), (1, 1, 1), (1, 1, 0.1)]  # of seeds, contexts, the rest


def variances(y):
    """[N, S, C]: the variances of the mean by seeds, by contexts, and of the rest."""
    seeds, contexts = y.shape[1:]
    by_seed, by_context = y.mean(2), y.mean(1)
    rest = y - by_seed[:, :, None] - by_context[:, None, :] + y.mean((1, 2))[:, None, None]
    of_rest = (rest**2).sum((1, 2)) / ((seeds - 1) * (contexts - 1)) / (seeds * contexts)
    return by_seed.var(1, ddof=1) / seeds, by_context.var(1, ddof=1) / contexts, of_rest


def paired(rng, n, seeds, contexts, sds):
    y = rng.normal(0, sds[0], (n, seeds, 1)) + rng.normal(0, sds[1], (n, 1, contexts)) + rng.normal(0, sds[2], (n, seeds, contexts))
    vs, vc, vr = variances(y)
    ds, dc = seeds - 1, contexts - 1
    v, total = np.maximum(np.maximum(vs, vc), vs + vc - vr), vs + vc
    t = lambda degrees: stats.t.ppf(0.975, degrees)
    mean = np.abs(y.mean((1, 2)))
    rates = [
        (np.sqrt(v) * (vs * t(ds) + (v - vs) * t(dc)) / v),
        np.sqrt(v) * t(v**2 / (vs**2 / ds + vc**2 / dc + vr**2 / (ds * dc))),
        np.sqrt(total) * t(total**2 / (vs**2 / ds + vc**2 / dc)),
        np.sqrt(vs) * t(ds),
        np.sqrt(vc) * t(dc),
    ]
    widths = np.median(rates[0]) / np.median(rates[1])
    return [100 * np.mean(mean > half) for half in rates], widths


def unpaired(rng, n, counts, contexts, sds):
    """The arms' seeds have standard deviations of their own: sds[0] and sds[1]; contexts have none."""
    arms = [rng.normal(0, sd, (n, count, 1)) + rng.normal(0, 0.5, (n, count, contexts)) for count, sd in zip(counts, sds)]
    of_seeds, of_rest = zip(*[(variances(y)[0], variances(y)[2]) for y in arms])
    by_context = arms[0].mean(1) - arms[1].mean(1)
    vc, vs = by_context.var(1, ddof=1) / contexts, sum(of_seeds)
    v = np.maximum(np.maximum(vs, vc), vs + vc - sum(of_rest))
    t = lambda degrees: stats.t.ppf(0.975, degrees)
    cochran = sum(part * t(count - 1) for part, count in zip(of_seeds, counts))
    welch = vs * t(vs**2 / sum(part**2 / (count - 1) for part, count in zip(of_seeds, counts)))
    mean = np.abs(by_context.mean(1))
    return [100 * np.mean(mean > np.sqrt(v) * (part + (v - vs) * t(contexts - 1)) / v) for part in (cochran, welch)]


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rng = np.random.default_rng(1)
    print("seeds contexts  sds of seeds, contexts, rest   Cochran-Cox  Satterthwaite  not subtracted  seeds alone  contexts alone   width to Satterthwaite's")
    for seeds in (2, 3, 5, 8):
        for contexts in (12, 25):
            for sds in DESIGNS:
                rates, width = paired(rng, n, seeds, contexts, sds)
                print(f"{seeds:5} {contexts:8}  {str(sds):28} " + " ".join(f"{rate:13.1f}" for rate in rates) + f"{width:17.2f}", flush=True)
    print("\nunpaired: seeds, sds of the arms' seeds            Cochran-Cox  Welch")
    for counts in ((2, 2), (3, 3), (2, 5), (2, 8), (3, 6), (5, 5), (8, 8)):
        for sds in ((1, 1), (1, 0.2), (0.2, 1)):
            print(f"{str(counts):8} {str(sds):40} " + " ".join(f"{rate:10.1f}" for rate in unpaired(rng, n, counts, 12, sds)), flush=True)


if __name__ == "__main__":
    main()
