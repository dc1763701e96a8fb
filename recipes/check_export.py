"""Compares a checkpoint in transformers and the float64 reference: largest log-probability difference.

    python recipes/check_export.py models/baseline ..
"""

import pathlib
import sys

import torch

import training_data
import model as models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "goldens"))
import reference  # noqa: E402


@torch.no_grad()
def main():
    words = training_data.Words()
    for name in sys.argv[1:]:
        ids, _ = training_data.batch(words, 4242, 0, 1, 600, {"recall_kv": 1}, 0.0)
        ids = ids[0].tolist()
        ours = torch.log_softmax(models.load(name).logits(models.load(name).hidden(torch.tensor([ids])))[0], -1)
        exact = reference.Reference(name).feed(ids)
        line = f"{name}: float64 reference {(ours - exact).abs().max():.1e}"
        if not models.load(name).config.focal:
            from transformers import AutoTokenizer, LlamaForCausalLM

            theirs = LlamaForCausalLM.from_pretrained(name)
            rows = torch.log_softmax(theirs(torch.tensor([ids])).logits[0], -1)
            line += f", transformers {(ours - rows).abs().max():.1e}"
            if (pathlib.Path(name) / "tokenizer.json").exists():
                line += f", begin token {AutoTokenizer.from_pretrained(name)('a').input_ids[0]}"
        print(line)


if __name__ == "__main__":
    main()
