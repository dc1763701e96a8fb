"""Prompts per second at 32K: the importer and `varifocal samples` against upstream's loader, on the same invented rows.

    python recipes/bench_helmet_prompts.py --checkout=HELMET --varifocal=build/release/bin/varifocal [--passages=560]
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "goldens"))
import make_helmet_fixture as fixture  # noqa: E402

TOKENIZER = HERE.parent / "models/baseline"
LENGTH, NEW = 32768, 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkout", type=pathlib.Path, required=True)
    parser.add_argument("--varifocal", type=pathlib.Path, required=True)
    parser.add_argument("--passages", type=int, default=560)
    a = parser.parse_args()
    checkout, program = a.checkout.resolve(), a.varifocal.resolve()
    root = pathlib.Path(tempfile.mkdtemp())
    test, demos = "data/kilt/nq_test.jsonl", "data/kilt/nq_demos.jsonl"
    fixture.write_tree(root, {
        test: fixture.qa_rows(20, 3, a.passages),
        demos: fixture.qa_rows(300, 3, 3, first_id=500),
        "configs/speed.yaml": fixture.config([("kilt_nq", LENGTH, NEW, test, demos)], 2, 100),
        "data.py": (checkout / "data.py").read_text(),
    })

    start = time.time()
    subprocess.run([program, "suites", "import-helmet", f"--checkout={root}", f"--data={root}/data", f"--out={root}/out",
                    "--configs=speed", "--format=json"], check=True, stdout=subprocess.DEVNULL)
    imported = time.time()
    made = subprocess.run([program, "samples", f"{root}/out/helmet_speed.yaml", f"--tokenizer={TOKENIZER}", "--format=jsonl"],
                          check=True, capture_output=True, text=True).stdout
    asked = time.time()
    ours = [json.loads(line) for line in made.splitlines()]
    print(f"ours: {len(ours)} prompts of {sum(x['prompt_token_count'] for x in ours) // len(ours)} tokens, import "
          f"{imported - start:.2f} s, samples {asked - imported:.2f} s: {len(ours) / (asked - start):.1f} a second")

    sys.path.insert(0, str(checkout))
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import data
    import datasets
    import model_utils
    from transformers import PreTrainedTokenizerFast

    datasets.disable_caching()
    datasets.disable_progress_bars()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER / "tokenizer.json"))
    os.chdir(root)
    args = types.SimpleNamespace(max_test_samples=100, shots=2, seed=42, popularity_threshold=3)
    random.seed(42)
    start = time.time()
    loaded = data.load_data(args, "kilt_nq", test, demos)
    equal = 0
    for row, item in zip(ours, loaded["data"]):
        ids = model_utils.tokenize(item, loaded, tokenizer, LENGTH, NEW, False, system_message=None).input_ids[0].tolist()
        text = "[" + ",".join(map(str, ids)) + "]"
        equal += hashlib.sha256(text.encode()).hexdigest() == row["token_ids_sha256"]
    seconds = time.time() - start
    print(f"upstream: {len(ours)} prompts in {seconds:.2f} s: {len(ours) / seconds:.1f} a second; equal token ids: {equal}")


if __name__ == "__main__":
    main()
