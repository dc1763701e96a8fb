"""Independent check of gold/... metrics: the gold answer's log-likelihood by transformers, in float64.

Takes a database of a job with --score-gold --keep-prompts and the model's directory. The tokenizers library encodes prompt
and answer together, by the rule of eval_tasks/gold_answer.h written again here; transformers runs them in float64.
Prints the largest difference, and as a control that of the answer without the space before it.

    varifocal run quick --models=models/baseline --tasks=rag_facts --lengths=1024 --limit=12 --score-gold --keep-prompts --db=gold.db
    python recipes/check_gold.py --db=gold.db --model=models/baseline
"""

import argparse
import json
import pathlib
import sqlite3

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

ROWS = """
SELECT samples.prompt, samples.gold_json, scores.metric, scores.value, samples.sample_id FROM scores
JOIN generations ON generations.generation_id = scores.generation_id
JOIN samples ON samples.sample_id = generations.sample_id
JOIN cells ON cells.cell_id = generations.cell_id JOIN variants ON variants.variant_id = cells.variant_id
WHERE scores.metric LIKE 'gold/%' AND variants.name = ? ORDER BY samples.sample_id"""


def log_likelihood(model, prompt, answer):
    with torch.no_grad():
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1].double()
    values = torch.log_softmax(logits, -1)[torch.arange(len(answer)), torch.tensor(answer)]
    return float(values.sum()), bool((logits.argmax(-1) == torch.tensor(answer)).all())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--db", required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--variant", default="baseline")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float64)
    samples = {}
    for prompt, gold, metric, value, sample in sqlite3.connect(options.db).execute(ROWS, (options.variant,)):
        samples.setdefault(sample, (prompt, json.loads(gold)[0], {}))[2][metric] = value
    worst = control = 0.0
    for prompt, gold, stored in samples.values():
        at_once = prompt[-1].isspace() or prompt[-1] in "\"'`([{<"
        ids = tokenizer.encode(prompt).ids
        whole = tokenizer.encode(prompt + ("" if at_once else " ") + gold.rstrip()).ids
        assert whole[: len(ids)] == ids, "a token spans the boundary"
        total, greedy = log_likelihood(model, ids, whole[len(ids) :])
        assert stored["gold/token_count"] == len(whole) - len(ids) and bool(stored["gold/is_greedy"]) == greedy
        worst = max(worst, abs(total - stored["gold/log_likelihood"]))
        assert abs(stored["gold/log_likelihood_per_token"] * stored["gold/token_count"] - stored["gold/log_likelihood"]) < 1e-9
        other = tokenizer.encode(prompt + (" " if at_once else "") + gold).ids[len(ids) :]
        control = max(control, abs(log_likelihood(model, ids, other)[0] - stored["gold/log_likelihood"]))
    print(f"{len(samples)} gold answers, largest difference {worst:.2g} nats; control {control:.2g}")
    assert samples and worst < 1e-3 < control


if __name__ == "__main__":
    main()
