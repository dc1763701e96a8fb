"""Samples per second of RULER's needle families at long lengths: `varifocal samples` against upstream's generator in the
same run, with the same tokenizer; and how far from the limit the prompts end.

Upstream's script needs wonderwords, nltk, tenacity, numpy and transformers. Its needle haystacks need no data.

    python recipes/bench_ruler.py --checkout=RULER --varifocal=build/release/bin/varifocal --tokenizer=DIR \
        [--lengths=32768,131072] [--samples=20]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from flags import Path, parse

FAMILIES = {  # upstream's arguments, and ours
    "niah_multikey_2": (["--type_haystack", "needle"], "{haystack: needles}"),
    "niah_multikey_3": (
        ["--type_haystack", "needle", "--type_needle_k", "uuids", "--type_needle_v", "uuids"],
        "{haystack: needles, key_type: uuids, value_type: uuids}",
    ),
}
NEW = 128


def ours(a, folder, name, parameters, length):
    suite = folder / "suite.yaml"
    suite.write_text(
        f"name: speed\nlengths: [{length}]\nsamples: {a.samples}\ntasks:\n  - name: {name}\n    kind: niah\n    parameters: {parameters}\n"
    )
    start = time.time()
    made = subprocess.run([a.varifocal.resolve(), "samples", suite, f"--tokenizer={a.tokenizer}", "--format=jsonl"],
                          check=True, capture_output=True, text=True).stdout
    seconds = time.time() - start
    spare = [length - NEW - json.loads(line)["prompt_token_count"] for line in made.splitlines()]
    return seconds, len(spare), spare


def upstream(a, folder, arguments, length):
    scripts = a.checkout.resolve() / "scripts/data/synthetic"
    sys.path.insert(0, str(scripts))
    from constants import TASKS

    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    start = time.time()
    subprocess.run(
        [sys.executable, scripts / "niah.py", "--save_dir", folder, "--save_name", "made", "--tokenizer_path", a.tokenizer.resolve(),
         "--tokenizer_type", "hf", "--max_seq_length", str(length), "--tokens_to_generate", str(NEW), "--num_samples", str(a.samples),
         "--template", TASKS["niah"]["template"] + TASKS["niah"]["answer_prefix"], *arguments],
        check=True, capture_output=True, env=environment)
    seconds = time.time() - start
    rows = (folder / "made/validation.jsonl").read_text().splitlines()
    return seconds, len(rows), [length - json.loads(row)["length"] for row in rows]


def main():
    a = parse(__doc__, checkout=Path, varifocal=Path, tokenizer=Path, lengths="32768,131072", samples=20)
    folder = pathlib.Path(tempfile.mkdtemp())
    for length in map(int, a.lengths.split(",")):
        for name, (arguments, parameters) in FAMILIES.items():
            for who, (seconds, count, spare) in (("ours", ours(a, folder, name, parameters, length)),
                                                 ("upstream", upstream(a, folder, arguments, length))):
                print(f"{name} {length} {who}: {count} samples in {seconds:.2f} s, {count / seconds:.2f} a second; "
                      f"{min(spare)} to {max(spare)} tokens below the limit", flush=True)


if __name__ == "__main__":
    main()
