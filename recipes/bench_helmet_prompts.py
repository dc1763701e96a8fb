"""Prompts per second: the importer and `varifocal samples` against upstream's loader, on the same synthetic rows. Or, with
--stream-mb, the time of importing a file of that size.

    python recipes/bench_helmet_prompts.py --checkout=HELMET --varifocal=build/release/bin/varifocal [--passages=560] [--length=32768]
    python recipes/bench_helmet_prompts.py --checkout=HELMET --varifocal=build/release/bin/varifocal --stream-mb=2500
"""

import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "goldens")]
import helmet_real_data  # noqa: E402
import make_helmet_fixture as fixture  # noqa: E402
from flags import Path, parse  # noqa: E402

TOKENIZER = HERE.parent / "models/baseline"
NEW = 20
TEST, DEMOS = "data/kilt/nq_test.jsonl", "data/kilt/nq_demos.jsonl"


def write_release(checkout, root, length, rows):
    fixture.write_tree(root, {
        TEST: rows,
        DEMOS: fixture.qa_rows(300, 3, 3, first_id=500),
        "configs/speed.yaml": fixture.config([("kilt_nq", length, NEW, TEST, DEMOS)], 2, 100),
        "data.py": (checkout / "data.py").read_text(),
    })


def stream(checkout, program, root, megabytes):
    """Rows of 1,000 passages, as the archive's at 128K, each with a question of its own."""
    rows = [json.dumps(row) for row in fixture.qa_rows(20, 1, 1000)]
    write_release(checkout, root, 131072, [])
    count = size = 0
    with open(root / TEST, "w") as out:
        while size < megabytes * 1000000:
            size += out.write(rows[count % 20].replace('"question": "', f'"question": "{count}: ', 1) + "\n")
            count += 1
    start = time.time()
    _, cpu_s, peak_mb = helmet_real_data.measured(
        [program, "suites", "import-helmet", f"--checkout={root}", f"--data={root}/data", f"--out={root}/out", "--configs=speed"], root)
    print(f"{count} rows, {size / 1e9:.2f} GB: imported in {time.time() - start:.1f} s ({cpu_s:.1f} s of CPU), at most {peak_mb:.0f} MB of memory")


def main():
    a = parse(__doc__, checkout=Path, varifocal=Path, passages=560, length=32768, stream_mb=dict(type=int))
    checkout, program = a.checkout.resolve(), a.varifocal.resolve()
    root = pathlib.Path(tempfile.mkdtemp())
    try:
        if a.stream_mb:
            stream(checkout, program, root, a.stream_mb)
        else:
            compare(a, checkout, program, root)
    finally:
        os.chdir(HERE)
        shutil.rmtree(root)


def compare(a, checkout, program, root):
    write_release(checkout, root, a.length, fixture.qa_rows(20, 3, a.passages))
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
    loaded = data.load_data(args, "kilt_nq", TEST, DEMOS)
    equal = 0
    for row, item in zip(ours, loaded["data"]):
        ids = model_utils.tokenize(item, loaded, tokenizer, a.length, NEW, False, system_message=None).input_ids[0].tolist()
        text = "[" + ",".join(map(str, ids)) + "]"
        equal += hashlib.sha256(text.encode()).hexdigest() == row["token_ids_sha256"]
    seconds = time.time() - start
    print(f"upstream: {len(ours)} prompts in {seconds:.2f} s: {len(ours) / seconds:.1f} a second; equal token ids: {equal}")


if __name__ == "__main__":
    main()
