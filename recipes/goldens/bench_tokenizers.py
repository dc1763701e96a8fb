"""Encoding, decoding and loading compared with the tokenizers library: one thread, the same text, the same run.

    python recipes/goldens/bench_tokenizers.py BUILD/bin/tokenizer_bench TEXT_FILE TOKENIZER_JSON..

For each tokenizer the text is cut to 32,768 tokens. Times are processor time, the best of repetitions in several rounds in which
both take turns, so both have their word caches filled; a ratio above 1 means that ours is faster.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer  # noqa: E402  (reads the settings above)

ROUNDS, TOKEN_COUNT = 2, 32768


def seconds(function, least=0.3):
    """Best time of repetitions that take at least `least` seconds together."""
    best, end = float("inf"), time.process_time() + least
    while time.process_time() < end or best == float("inf"):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def ours(bench, path, text_path):
    environment = os.environ | {"VARIFOCAL_TOKENIZERS": path, "VARIFOCAL_TEXT": text_path}
    options = ["--benchmark_format=json", "--benchmark_filter=^(load|encode|decode) ", "--benchmark_min_time=0.3"]
    done = subprocess.run([bench, *options], env=environment, capture_output=True, text=True, check=True)
    return {row["name"].split()[0]: row["cpu_time"] / 1000 for row in json.loads(done.stdout)["benchmarks"]}


def main():
    bench, text_file, *paths = sys.argv[1:]
    whole = open(text_file, encoding="utf-8").read()
    print("| tokenizer | tokens | encode ms (ours / library) | ratio | decode ms | ratio | load ms | ratio |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for path in paths:
        library = Tokenizer.from_file(path)
        encoding = library.encode(whole[: TOKEN_COUNT * 8])
        text = whole[: encoding.offsets[TOKEN_COUNT - 1][1]] if len(encoding.ids) > TOKEN_COUNT else whole[: TOKEN_COUNT * 8]
        ids = library.encode(text).ids
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            best = {}
            for _ in range(ROUNDS):
                theirs = {"encode": lambda: library.encode(text), "decode": lambda: library.decode(ids), "load": lambda: Tokenizer.from_file(path)}
                for name, value in ours(bench, path, file.name).items():
                    mine, other = best.get(name, (1e9, 1e9))
                    best[name] = min(mine, value), min(other, seconds(theirs[name]))
        cells = " | ".join(f"{1000 * a:.2f} / {1000 * b:.2f} | {b / a:.1f}" for a, b in (best[n] for n in ("encode", "decode", "load")))
        print(f"| {os.path.basename(os.path.dirname(path)) + '/' + os.path.basename(path)} | {len(ids)} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
