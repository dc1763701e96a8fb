"""Golden files of the attention variants that transformers does not have and llama/ does not cover.

    python recipes/goldens make attention

Each is a checkpoint of another folder with attention keys (and tensors) added, computed by reference.py in float64.
Every mistake below must move a log-probability of some case by 1e-3, or the script fails.
"""

import json
import pathlib
import shutil

import torch
from make_llama import NEW_TOKENS, compact, difference
from safetensors.torch import load_file, save_file

import reference

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens"
OUT = GOLDENS / "attention"
LENGTH = 300

CASES = {
    # Layers with and without a window of 64.
    "full-layers-only": ("architectures/qwen3-layer-types", {"focal_attention": {"mode": "full_layers_only", "temperature": 0.5}}),
    "log-n-constant": (
        "architectures/qwen3-layer-types",
        {"focal_attention": {"mode": "constant", "temperature": 0.8}, "log_n_attention": {"mode": "constant", "trained_length": 48}},
    ),
    "log-n-learned": ("llama/focal-constant", {"focal_attention": None, "log_n_attention": {"mode": "learned"}}),
}
MISTAKES = [
    "no temperature", "temperature in window layers", "no log n", "log n without the window", "log n of the position",
    "no trained length", "first head's scale for all",
]  # fmt: skip


def write_checkpoint(directory, base, keys, generator):
    directory.mkdir(parents=True)
    config = {k: v for k, v in (json.loads((GOLDENS / base / "config.json").read_text()) | keys).items() if v is not None}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    weights = load_file(GOLDENS / base / "model.safetensors")
    if keys.get("log_n_attention", {}).get("mode") == "learned":
        for layer in range(config["num_hidden_layers"]):
            scale = 0.15 + 0.35 * torch.rand(config["num_attention_heads"], generator=generator)
            weights[f"model.layers.{layer}.self_attn.log_n_scale.weight"] = scale
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    return config["vocab_size"]


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    table = {mistake: {} for mistake in MISTAKES}
    for number, (name, (base, keys)) in enumerate(CASES.items()):
        generator = torch.Generator().manual_seed(3000 + number)
        directory = OUT / name
        vocabulary = write_checkpoint(directory, base, keys, generator)
        ids = [0] + torch.randint(2, vocabulary, (LENGTH - 1,), generator=generator).tolist()
        result = reference.run(directory, ids, NEW_TOKENS)
        spread = reference.rounding(directory, ids, result)
        run = {"oracle": "reference.py in float64", "focal_temperature": None, "token_ids": ids} | result | spread
        (directory / "golden.json").write_text(compact([run]))
        print(f"{name:20} f32 differs by {run['float32_difference']:.1e}, smallest gap {min(run['continuation_gaps']):.1e}")
        for mistake in MISTAKES:
            table[mistake][name] = difference(result, reference.run(directory, ids, NEW_TOKENS, mistakes=(mistake,)))[0]
    for mistake, moved in table.items():
        print(f"  {mistake:30} " + "  ".join(f"{name} {value:.1e}" for name, value in moved.items() if value > 1e-9))
        assert max(moved.values()) > 1e-3, f"no case detects: {mistake}"


if __name__ == "__main__":
    main()
