"""Why a llama.cpp server and the native engine give different texts: the log-probabilities at the first differing token.

    endpoint_differences.py RESULTS.db DIRECTORY MODEL.gguf URL NATIVE ENDPOINT

RESULTS.db: a run with --keep-prompts of the models NATIVE and ENDPOINT. For each token up to the first differing one of every answer:
the distance in log-probability between the two best tokens, by transformers in float32 with DIRECTORY's weights (what the native
engine computes) and with those of MODEL.gguf unrounded, and by the server at URL. Needs torch, transformers, gguf.
"""

import json
import sqlite3
import statistics
import sys
import urllib.request

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

QUERY = """SELECT c.task, c.context_length, s.sample_index, s.prompt, a.answer_raw, b.answer_raw
FROM generations a JOIN generations b USING (sample_id) JOIN samples s USING (sample_id)
JOIN cells c ON c.cell_id = a.cell_id JOIN cells d ON d.cell_id = b.cell_id
JOIN variants v ON v.variant_id = c.variant_id JOIN variants w ON w.variant_id = d.variant_id
WHERE v.name = ? AND w.name = ? ORDER BY 1, 2, 3"""


def served(url, ids, count):
    """The server's log-probabilities of the `count` likeliest next tokens, by text."""
    body = {"prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": count}
    request = urllib.request.Request(f"{url}/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    logprobs = json.load(urllib.request.urlopen(request))["choices"][0]["logprobs"]
    return {top["id"]: top["logprob"] for top in logprobs["content"][0]["top_logprobs"]}


def log_probs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].double(), -1)


def main(database, directory, gguf, url, native, endpoint):
    tokenizer = Tokenizer.from_file(f"{directory}/tokenizer.json")
    rounded = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    folder, _, file = gguf.rpartition("/")
    exact = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    rows = sqlite3.connect(f"file:{database}?mode=ro", uri=True).execute(QUERY, (native, endpoint)).fetchall()
    errors, weight_errors, equal_gaps = [], [], []
    print(f"{'sample':28}{'native':>12}{'endpoint':>12}{'gap native':>12}{'gap exact':>12}{'gap server':>12}")
    for task, length, index, prompt, ours, theirs in rows:
        ids = tokenizer.encode(prompt).ids
        # Ids of the answers as written; a model that writes other ids for the same text would appear as a difference.
        a, b = (tokenizer.encode(text, add_special_tokens=False).ids for text in (ours, theirs))
        same = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        at = ids + a[:same if ours != theirs else 0]
        here, unrounded, there = log_probs(rounded, at), log_probs(exact, at), served(url, at, 10)
        best, second = here.topk(2).indices.tolist()
        known = [i for i in (best, second) if i in there]
        errors += [abs(there[i] - here[i].item()) for i in known]
        weight_errors += [abs((unrounded[i] - here[i]).item()) for i in (best, second)]
        gap = (here[best] - here[second]).item()
        if ours == theirs:
            equal_gaps.append(gap)
            continue
        x, y = a[same], b[same]
        there_gap = f"{there[x] - there[y]:12.3f}" if x in there and y in there else f"{'-':>12}"
        print(f"{f'{task}/{length}/{index}':28}{tokenizer.decode([x]):>12}{tokenizer.decode([y]):>12}"
              f"{(here[x] - here[y]).item():12.3f}{(unrounded[x] - unrounded[y]).item():12.3f}{there_gap}")
    print(f"equal texts: {len(equal_gaps)}, gap of the two best first tokens: median {statistics.median(equal_gaps):.3f}")
    print(f"server - native, log-probability of the two best: median {statistics.median(errors):.3f}, largest {max(errors):.3f}")
    print(f"weights unrounded - native: median {statistics.median(weight_errors):.4f}, largest {max(weight_errors):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
