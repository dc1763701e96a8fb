"""Golden statistics of attention: transformers in float64 with every weight, of the last row of a prompt.

    python recipes/goldens make inspection      also prints how far transformers in float32 is from it
"""

import json
import math
import pathlib

import torch

import transformers64

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/testdata/goldens/inspection.json"
LENGTH = 300
BOUNDARIES = [0, 1, 5, 100, 128, 200, 256, 290, 299, 300]
SOFTMAX = torch.nn.functional.softmax
MODELS = ["models/baseline", "models/focal-constant", "tests/testdata/goldens/architectures/mistral-window"]


def load32(path: pathlib.Path):
    """Plain transformers; transformers64.load replaces torch's softmax."""
    from transformers import AutoModelForCausalLM

    torch.nn.functional.softmax = SOFTMAX
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()


def statistics(model, ids: torch.Tensor, temperature: float) -> list[dict]:
    for layer in model.model.layers:
        layer.self_attn.scaling /= temperature
    with torch.no_grad():
        attentions = model(ids[None], output_attentions=True, use_cache=False).attentions
    heads = []
    for layer in attentions:
        for weights in layer[0, :, -1, :].double():
            p = weights[weights > 0]
            heads.append({
                "entropy": float(-(p * p.log()).sum()),
                "largest_weight": float(weights.max()),
                "masses": [float(weights[a:b].sum()) for a, b in zip(BOUNDARIES, BOUNDARIES[1:])],
            })
            assert math.isclose(float(weights.sum()), 1.0, rel_tol=1e-6)
    return heads


def largest_difference(one: list[dict], other: list[dict]) -> float:
    flat = [[[h["entropy"], h["largest_weight"], *h["masses"]] for h in heads] for heads in (one, other)]
    return float((torch.tensor(flat[0], dtype=torch.float64) - torch.tensor(flat[1], dtype=torch.float64)).abs().max())


def attention_of(directory: str) -> dict:
    path = ROOT / directory
    config = json.loads((path / "config.json").read_text())
    temperature = config.get("focal_attention", {}).get("temperature", 1.0)
    generator = torch.Generator().manual_seed(20261123)
    ids = torch.randint(2, config["vocab_size"], (LENGTH,), generator=generator)
    heads = statistics(transformers64.load(path, LENGTH), ids, temperature)
    print(f"{directory}: float32 within {largest_difference(heads, statistics(load32(path), ids, temperature)):.1e}")
    return {"model": directory, "token_ids": ids.tolist(), "heads": heads}


def main() -> None:
    golden = {"boundaries": BOUNDARIES, "runs": [attention_of(model) for model in MODELS]}
    OUT.write_text(json.dumps(golden, indent=1) + "\n")
    print(OUT)


if __name__ == "__main__":
    main()
