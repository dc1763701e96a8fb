"""The product against transformers in f32 on the same checkpoint and real prose: what they compute, load time, memory.

    python recipes/public_models/compare.py --model=DIR --text=FILE --varifocal=build/release/bin/varifocal [--parts=a,b,..]

Parts: `start` (from nothing to the first token of a prompt of 16: seconds and peak memory of each process), `log-probs`
(every token of 2,048), `greedy` (64 tokens after 2,048), `perplexity` (of 16,384 tokens), `far` (every 16th
token of the same, with transformers' rotary angles made exact: it rounds them to f32, which at position 16K is a
thousandth of a radian). FILE: deploy/get_novels.sh fetches some. Runs one process at a time on all processors; each
number stands on a line of its own.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

START = """
import sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=getattr(torch, sys.argv[2]))
ids = [int(i) for i in sys.argv[3].split(",")]
with torch.no_grad():
    print(int(model(torch.tensor([ids]), logits_to_keep=1).logits[0, -1].argmax()))
"""


# Peak memory of a child counts what its parent held when it was made, so a small parent makes it.
LAUNCHER = """
import json, os, subprocess, sys, time
start = time.monotonic()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([status, time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


class Comparison:
    def __init__(self, options):
        from tokenizers import Tokenizer

        self.directory, self.binary, self.model = options.model, options.varifocal, None
        text = pathlib.Path(options.text).read_text()
        self.ids = Tokenizer.from_file(self.directory + "/tokenizer.json").encode(text).ids
        print(f"text: {options.text}, {len(self.ids)} tokens, special tokens included; {options.dtype}", flush=True)
        self.dtype = options.dtype

    def transformers(self):
        if self.model is None:
            import torch
            from transformers import AutoModelForCausalLM

            self.model = AutoModelForCausalLM.from_pretrained(self.directory, dtype=torch.float32).eval()
        return self.model

    def their_log_probs(self, ids):
        """Of each token but the first; the head is applied to 256 rows at a time, or 16K rows would take 17 GB."""
        import torch

        model, out = self.transformers(), []
        with torch.no_grad():
            rows = model.model(torch.tensor([ids])).last_hidden_state[0]
            for start in range(0, len(ids) - 1, 256):
                targets = torch.tensor(ids[start + 1 : start + 257])
                logits = model.lm_head(rows[start : start + len(targets)])
                out.append(torch.log_softmax(logits, -1).gather(1, targets[:, None])[:, 0].double())
        return torch.cat(out).tolist()

    def run(self, verb, ids, *flags):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "ids.json")
            path.write_text(json.dumps(ids))
            command = [self.binary, verb, f"--model={self.directory}", f"--token-ids-file={path}", f"--dtype={self.dtype}", "--format=json"]
            start = time.monotonic()
            done = subprocess.run(command + list(flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} failed: {done.stderr}")
            return json.loads(done.stdout), time.monotonic() - start

    def our_log_probs(self, ids):
        out, seconds = self.run("score", ids, "--per-token")
        return out["token_log_probs"][1:], seconds

    def log_probs(self):
        ids = self.ids[:2048]
        start = time.monotonic()
        theirs = self.their_log_probs(ids)
        seconds = time.monotonic() - start
        ours, our_seconds = self.our_log_probs(ids)
        differences = [abs(a - b) for a, b in zip(ours, theirs)]
        print(f"log-probs: {len(ours)} tokens, largest difference {max(differences):.1e}, mean {sum(differences) / len(differences):.1e}"
              f" ({our_seconds:.1f} s with loading, transformers {seconds:.1f} s)", flush=True)  # fmt: skip

    def perplexity(self):
        ids = self.ids[:16384]
        start = time.monotonic()
        theirs = self.their_log_probs(ids)
        seconds = time.monotonic() - start
        ours, our_seconds = self.our_log_probs(ids)
        a, b = (math.exp(-math.fsum(x) / len(x)) for x in (ours, theirs))
        print(f"perplexity: {len(ours)} tokens, {a:.6f}, transformers {b:.6f}, {abs(a / b - 1):.1e} apart; largest difference of a log-prob"
              f" {max(abs(x - y) for x, y in zip(ours, theirs)):.1e} ({our_seconds:.1f} s with loading, transformers {seconds:.1f} s)", flush=True)  # fmt: skip

    def greedy(self):
        import torch

        ids = self.ids[:2048]
        with torch.no_grad():
            out = self.transformers().generate(
                torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), max_new_tokens=64, min_new_tokens=64,
                do_sample=False, output_logits=True, return_dict_in_generate=True, eos_token_id=None,
            )  # fmt: skip
        theirs = out.sequences[0, len(ids) :].tolist()
        gaps = [(top[0] - top[1]).item() for top in (step[0].topk(2).values for step in out.logits)]
        ours, _ = self.run("generate", ids, "--max-new-tokens=64", "--ignore-eos")
        same = next((i for i, (a, b) in enumerate(zip(ours["token_ids"], theirs)) if a != b), len(theirs))
        print(f"greedy: {same} of {len(theirs)} tokens the same; smallest gap of the two best {min(gaps):.1e}; {ours['text']!r}", flush=True)

    def start(self):
        ids = self.ids[:16]
        text = ",".join(map(str, ids))
        for dtype in ("float32", "bfloat16"):
            self.measure(f"transformers {dtype}", [sys.executable, "-c", START, self.directory, dtype, text])
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "ids.json")
            path.write_text(json.dumps(ids))
            for dtype in ("f32", "bf16"):
                self.measure(f"varifocal {dtype}", [self.binary, "generate", f"--model={self.directory}", f"--token-ids-file={path}",
                             "--max-new-tokens=1", f"--dtype={dtype}"])  # fmt: skip

    def measure(self, name, command):
        """Twice: the second time the files are in memory, and what the product remembers of them is remembered."""
        for turn in ("first", "again"):
            done = subprocess.run([sys.executable, "-c", LAUNCHER, *command], stdout=subprocess.PIPE, check=True)
            status, seconds, processor, peak = json.loads(done.stdout)
            if status:
                raise SystemExit(f"{' '.join(command[:2])} failed")
            print(f"start: {name}, {turn}: {seconds:.1f} s, processor {processor:.1f} s, peak {peak:.0f} MB", flush=True)

    def far(self):
        """The head is applied to the rows that are compared and no others."""
        import torch

        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "goldens"))
        import reference
        import rope

        ids = self.ids[:16384]
        rows = torch.arange(15, len(ids) - 1, 16)
        targets = torch.tensor(ids)[rows + 1]
        config = json.loads(pathlib.Path(self.directory, "config.json").read_text())
        shape = reference.Shape(config)

        def exact(x, position_ids, layer_type):
            table = rope.table(config, shape, layer_type == "sliding_attention", len(ids))
            angle = position_ids[..., None].double() * table.frequency
            angle = torch.cat([angle, angle], -1)
            return angle.cos().to(x.dtype), angle.sin().to(x.dtype)

        model = self.transformers()
        model.model.rotary_emb.forward = exact
        with torch.no_grad():
            hidden = model.model(torch.tensor([ids])).last_hidden_state[0][rows]
            theirs = [
                torch.log_softmax(model.lm_head(h), -1).gather(1, t[:, None])[:, 0].double()
                for h, t in zip(hidden.split(256), targets.split(256))
            ]
        self.model = None
        ours, _ = self.our_log_probs(ids)
        differences = (torch.cat(theirs) - torch.tensor(ours, dtype=torch.float64)[rows]).abs()
        print(f"far: {len(rows)} tokens of {len(ids)}, exact angles: largest difference {differences.max():.1e}, mean {differences.mean():.1e}", flush=True)


def main():
    parts = {
        "start": Comparison.start, "log-probs": Comparison.log_probs, "greedy": Comparison.greedy,
        "perplexity": Comparison.perplexity, "far": Comparison.far,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "text"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--varifocal", default="build/release/bin/varifocal")
    parser.add_argument("--dtype", default="f32", help="of the product; transformers computes in f32")
    parser.add_argument("--parts", default=",".join(parts))
    options = parser.parse_args()
    comparison = Comparison(options)
    for part in options.parts.split(","):
        parts[part](comparison)


if __name__ == "__main__":
    main()
