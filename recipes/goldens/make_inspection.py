"""Golden statistics of attention: transformers in float64 with every weight, of the last row of a prompt.

    python recipes/goldens make inspection
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
MODELS = ["models/baseline", "models/focal-constant", "tests/testdata/goldens/architectures/mistral-window"]


def attention_of(directory: str) -> dict:
    path = ROOT / directory
    config = json.loads((path / "config.json").read_text())
    model = transformers64.load(path, LENGTH)
    temperature = config.get("focal_attention", {}).get("temperature", 1.0)
    for layer in model.model.layers:
        layer.self_attn.scaling /= temperature
    generator = torch.Generator().manual_seed(20261123)
    ids = torch.randint(2, config["vocab_size"], (LENGTH,), generator=generator)
    with torch.no_grad():
        attentions = model(ids[None], output_attentions=True, use_cache=False).attentions
    heads = []
    for layer in attentions:
        for weights in layer[0, :, -1, :]:
            p = weights[weights > 0]
            heads.append({
                "entropy": float(-(p * p.log()).sum()),
                "largest_weight": float(weights.max()),
                "masses": [float(weights[a:b].sum()) for a, b in zip(BOUNDARIES, BOUNDARIES[1:])],
            })
            assert math.isclose(float(weights.sum()), 1.0, rel_tol=1e-9)
    return {"model": directory, "token_ids": ids.tolist(), "heads": heads}


def main() -> None:
    golden = {"boundaries": BOUNDARIES, "runs": [attention_of(model) for model in MODELS]}
    OUT.write_text(json.dumps(golden, indent=1) + "\n")
    print(OUT)


if __name__ == "__main__":
    main()
