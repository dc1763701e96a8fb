"""Golden files of the attention variants that transformers does not have and llama/ does not cover.

    python recipes/goldens make attention

Each is a checkpoint of another folder with attention keys (and tensors) added, computed by reference.py in float64.
Where a case has sinks alone or with a temperature, the attention function of transformers' GPT-OSS must agree to 1e-10,
in the model of the same type. Every mistake below must move a log-probability of some case by 1e-3, or the script fails.
"""

import json
import shutil

import torch
import transformers64
from golden_files import GOLDENS, save_checkpoint, text_of_runs
from make_llama import NEW_TOKENS, difference
from safetensors.torch import load_file

from transformers.masking_utils import AttentionMaskInterface, eager_mask

import reference

OUT = GOLDENS / "attention"
LENGTH = 300

LAYERS = "architectures/qwen3-layer-types"  # with and without a window of 64
LOG_N = {"mode": "constant", "trained_length": 48}
CASES = {
    "full-layers-only": (LAYERS, {"focal_attention": {"mode": "full_layers_only", "temperature": 0.5}}),
    "log-n-constant": (LAYERS, {"focal_attention": {"mode": "constant", "temperature": 0.8}, "log_n_attention": LOG_N}),
    "log-n-learned": ("llama/focal-constant", {"focal_attention": None, "log_n_attention": {"mode": "learned"}}),
    "sink-learned": (LAYERS, {"focal_attention": {"mode": "constant", "temperature": 0.5}, "attention_sink": {"mode": "learned"}}),
    "sink-zero": ("llama/focal-constant", {"focal_attention": None, "attention_sink": {"mode": "constant", "logit": 0}}),
    "score-cap": (LAYERS, {"score_soft_cap": {"cap": 2}}),
    # A cap of its own, and all at once.
    "sink-capped": ("architectures/gemma2-newer", {
        "focal_attention": {"mode": "full_layers_only", "temperature": 0.5}, "log_n_attention": LOG_N, "score_soft_cap": {"cap": 1.5},
        "attention_sink": {"mode": "constant", "logit": 2.5},
    }),
}  # fmt: skip
GPT_OSS = {"sink-learned", "sink-zero"}
AGREEMENT = 1e-10
MISTAKES = [
    "no temperature", "temperature in window layers", "no log n", "log n without the window", "log n of the position",
    "no trained length", "first head's scale for all", "no sink", "sink divided by the temperature", "sink scaled like a score",
    "sink counted twice", "sink under the cap", "first head's sink for all", "no sink in window layers",
    "sink with the first key's value", "no score cap", "cap before the temperature", "own cap before a set one",
    "score cap after the mask",
]  # fmt: skip


def write_checkpoint(directory, base, keys, generator):
    config = {k: v for k, v in (json.loads((GOLDENS / base / "config.json").read_text()) | keys).items() if v is not None}
    weights = load_file(GOLDENS / base / "model.safetensors")
    if keys.get("log_n_attention", {}).get("mode") == "learned":
        for layer in range(config["num_hidden_layers"]):
            scale = 0.15 + 0.35 * torch.rand(config["num_attention_heads"], generator=generator)
            weights[f"model.layers.{layer}.self_attn.log_n_scale.weight"] = scale
    if keys.get("attention_sink", {}).get("mode") == "learned":
        for layer in range(config["num_hidden_layers"]):
            weights[f"model.layers.{layer}.self_attn.sinks"] = 1.5 * torch.randn(config["num_attention_heads"], generator=generator)
    save_checkpoint(directory, config, weights)
    return config["vocab_size"]


@torch.no_grad()
def of_gpt_oss(directory, ids):
    """Log-probabilities [T, V] by transformers, with the attention function of GPT-OSS in every layer."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.models.gpt_oss import modeling_gpt_oss

    config = json.loads((directory / "config.json").read_text())
    temperature = (config.get("focal_attention") or {}).get("temperature", 1)
    sink, weights = config["attention_sink"], load_file(directory / "model.safetensors")

    def attend(module, query, key, value, attention_mask, scaling, **options):
        return modeling_gpt_oss.eager_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling / temperature, **options
        )

    model = transformers64.load(directory, len(ids))
    ALL_ATTENTION_FUNCTIONS.register("gpt_oss_sinks", attend)
    AttentionMaskInterface.register("gpt_oss_sinks", eager_mask)
    model.config._attn_implementation = "gpt_oss_sinks"
    for layer, block in enumerate(model.model.layers):
        learned = weights.get(f"model.layers.{layer}.self_attn.sinks")
        heads = config["num_attention_heads"]
        block.self_attn.sinks = torch.full((heads,), float(sink.get("logit", 0)), dtype=torch.float64) if learned is None else learned.double()
    return torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0], -1)


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
        oracle = "reference.py in float64"
        if name in GPT_OSS:
            rows = of_gpt_oss(directory, ids)
            theirs = {"token_log_probs": [None] + [rows[i, t].item() for i, t in enumerate(ids[1:])], "last_log_probs": rows[-1].tolist()}
            apart = (reference.flat(theirs) - reference.flat(result)).abs().max().item()
            assert apart < AGREEMENT, (name, apart)
            print(f"{name:20} GPT-OSS's attention in transformers agrees to {apart:.1e}")
            oracle = "transformers in float64"
        run = {"oracle": oracle, "focal_temperature": None, "token_ids": ids} | result | spread
        (directory / "golden.json").write_text(text_of_runs([run]))
        print(f"{name:20} f32 differs by {run['float32_difference']:.1e}, smallest gap {min(run['continuation_gaps']):.1e}")
        for mistake in MISTAKES:
            table[mistake][name] = difference(result, reference.run(directory, ids, NEW_TOKENS, mistakes=(mistake,)))[0]
    for mistake, moved in table.items():
        print(f"  {mistake:30} " + "  ".join(f"{name} {value:.1e}" for name, value in moved.items() if value > 1e-9))
        assert max(moved.values()) > 1e-3, f"no case detects: {mistake}"


if __name__ == "__main__":
    main()
