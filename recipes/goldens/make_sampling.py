"""Which tokens transformers leaves to be drawn under top_k, top_p and min_p, and with what probability: tests/testdata/goldens/sampling.json.

The warpers and their order are those of transformers' generate, as GenerationMixin makes them from a GenerationConfig. Logits are
float32 values, computed with in float64. Rows have ties where the filters cut.

    python recipes/goldens/make_sampling.py
"""

import json
import pathlib

import numpy as np
import torch
import transformers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens/sampling.json"
OFF = {"top_k": 0, "top_p": 1.0, "min_p": None}
# Of each of these; where it is off, it is not named in the file.
ROWS = [
    (0, 1.0, None), (1, 1.0, None), (5, 1.0, None), (1000, 1.0, None), (0, 0.9, None), (0, 0.35, None), (0, 1.0, 0.1), (0, 1.0, 1.0),
    (12, 0.8, None), (8, 1.0, 0.3), (0, 0.8, 0.25), (20, 0.95, 0.05), (6, 0.6, 0.5),
]  # fmt: skip
SETTINGS = [{name: value for (name, off), value in zip(OFF.items(), row) if value != off} for row in ROWS]


def rows() -> list[list[float]]:
    rng = np.random.default_rng(20261128)
    smooth = rng.normal(0, 2, 24)
    tied = np.round(rng.normal(0, 1.5, 24) * 2) / 2  # several of each value
    level = np.zeros(16)
    return [[float(np.float32(x)) for x in row] for row in (smooth, tied, level)]


def main() -> None:
    config = transformers.LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    model = transformers.LlamaForCausalLM(config)
    cases, order = [], []
    for logits in rows():
        for temperature in (1.0, 0.6):
            for setting in SETTINGS:
                generation = transformers.GenerationConfig(do_sample=True, temperature=temperature, **OFF | setting)
                warpers = model._get_logits_processor(
                    generation_config=generation, input_ids_seq_length=1, encoder_input_ids=None, prefix_allowed_tokens_fn=None,
                    logits_processor=transformers.LogitsProcessorList(), device="cpu")  # fmt: skip
                names = [type(w).__name__ for w in warpers]
                order = max(order, names, key=len)
                left = warpers(torch.zeros(1, 1, dtype=torch.long), torch.tensor([logits], dtype=torch.float64))[0]
                kept = [i for i in range(len(logits)) if left[i] > -torch.inf]
                shares = left.softmax(-1)
                kept.sort(key=lambda i: (-logits[i], i))
                cases.append({"logits": logits, "temperature": temperature} | setting |
                             {"kept_logits": [logits[i] for i in kept], "shares": [float(shares[i]) for i in kept]})  # fmt: skip
    assert order == ["TemperatureLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper", "MinPLogitsWarper"], order
    lines = ",\n".join(json.dumps(case) for case in cases)
    OUT.write_text(f'{{"transformers": "{transformers.__version__}", "order": {json.dumps(order)}, "cases": [\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
