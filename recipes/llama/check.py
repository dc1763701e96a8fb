"""Compares a checkpoint in this package, transformers and the float64 reference: largest log-probability difference."""

import pathlib
import sys

import torch

from llama import data
from llama.config import Attention
from llama.model import load


@torch.no_grad()
def main(checkpoints: list[pathlib.Path]) -> None:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "goldens"))
    import reference  # type: ignore[import-not-found]

    words = data.Words()
    ids = data.batch(words, 4242, 0, 1, 600, {"recall_kv": 1})[0][0].tolist()
    for directory in checkpoints:
        net = load(directory)
        ours = torch.log_softmax(net.logits(net.hidden(torch.tensor([ids])))[0], -1)
        exact = reference.Reference(str(directory)).feed(ids)
        line = f"{directory}: float64 reference {(ours - exact).abs().max():.1e}"
        if net.config.attention == Attention():
            from transformers import AutoTokenizer, LlamaForCausalLM

            theirs = LlamaForCausalLM.from_pretrained(directory)
            rows = torch.log_softmax(theirs(torch.tensor([ids])).logits[0], -1)
            line += f", transformers {(ours - rows).abs().max():.1e}"
            if (directory / "tokenizer.json").exists():
                line += f", begin token {AutoTokenizer.from_pretrained(directory)('a').input_ids[0]}"
        print(line)
