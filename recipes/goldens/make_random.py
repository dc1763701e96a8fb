"""Write eval_tasks/python/testdata/random.json: what CPython's and numpy's generators draw, for eval_tasks/python/random.h.

Long results are kept as the SHA-256 of their numbers joined by spaces.

    python recipes/goldens/make_random.py
"""

import hashlib
import json
import pathlib
import random

import numpy

OUT = pathlib.Path(__file__).resolve().parents[2] / "eval_tasks/python/testdata/random.json"
SEEDS = [0, 1, 5, 42, 1234567, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 10**15, 2**64 - 1]


def digest(numbers):
    return hashlib.sha256(" ".join(str(n) for n in numbers).encode()).hexdigest()


def python_rows():
    for seed in SEEDS:
        make = lambda: random.Random(seed)
        r = make()
        row = {"seed": str(seed), "words": digest([r.getrandbits(32) for _ in range(2000)])}
        r = make()
        row["uniform"] = [r.random() for _ in range(8)]
        r = make()
        row["bits"] = [[n, str(r.getrandbits(n))] for n in (1, 7, 31, 32, 33, 63, 64, 65, 100, 128)]
        r = make()
        row["below"] = digest([r._randbelow(n) for n in list(range(1, 300)) + [2**31, 2**32, 2**32 + 1, 2**40, 2**63]])
        row["shuffle"] = []
        for n in (0, 1, 2, 10, 77, 151, 3000):
            items = list(range(n))
            make().shuffle(items)
            row["shuffle"].append([n, digest(items)])
        row["sample"] = []
        for n, k in [(1, 1), (4, 2), (5, 5), (21, 5), (22, 5), (85, 6), (86, 6), (292, 100), (993, 100), (1045, 100),
                     (1046, 100), (1300, 100), (5000, 37), (25715, 500)]:
            row["sample"].append([n, k, digest(make().sample(range(n), k))])
        row["choices"] = digest(make().choices(range(26), k=200))
        yield row


def numpy_rows():
    for seed in SEEDS:
        row = {"seed": str(seed), "permutation": []}
        for n in (0, 1, 2, 3, 10, 100, 351, 600, 3080, 10557, 25715):
            row["permutation"].append([n, digest(numpy.random.default_rng(seed).permutation(n))])
        yield row


def legacy_rows():
    for seed in [0, 1, 42, 2**31 - 1, 2**32 - 1]:
        state = numpy.random.RandomState(seed)
        row = {"seed": seed, "uniform": [float(state.random_sample()) for _ in range(8)]}
        state = numpy.random.RandomState(seed)
        seeds = []
        for _ in range(1000):
            _, key, position, *_ = state.get_state()
            seeds.append(int(key[position] if position < 624 else key[0]))
            state.random_sample()
        state = numpy.random.RandomState(seed)
        row["below"] = digest([state.randint(0, n) for n in list(range(1, 300)) + [89999] * 50 + [2**31, 2**32 - 1]])
        row["shuffle_seeds"] = seeds[:8]
        row["shuffle_seeds_digest"] = digest(seeds)
        yield row


def main():
    rows = {"python": list(python_rows()), "numpy": list(numpy_rows()), "legacy": list(legacy_rows())}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, separators=(",", ":")) + "\n")
    print(OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
