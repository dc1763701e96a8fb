"""Golden files of tiny random llamas: baseline against transformers in float64, focal modes against reference.py.

Where transformers has the model at all (transformers64.py), it must agree with reference.py to 1e-11.

    python recipes/goldens make llama        (writes tests/testdata/goldens/llama, prints the table of mistakes)
"""

import json
import shutil

import torch
from safetensors.torch import save_file

import reference
import transformers64
from golden_files import GOLDENS, save_checkpoint, text_of_runs

OUT = GOLDENS / "llama"
NEW_TOKENS = 64
VOCAB = 120
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
LEARNED = {"mode": "learned", "tau_min": 2.0, "tau_max": 3.5, "tau_mean": "causal"}
CONFIG = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=1, hidden_act="silu", rms_norm_eps=1e-5, max_position_embeddings=4096, attention_bias=False,
    mlp_bias=False, tie_word_embeddings=True, bos_token_id=0, eos_token_id=1, torch_dtype="bfloat16",
)  # fmt: skip
D16 = dict(head_dim=16, rope_theta=10000.0)
FOUR, F32 = dict(num_attention_heads=4, num_key_value_heads=2), dict(torch_dtype="float32")
# name: (keys of config.json, prompt lengths and run-time temperatures)
CASES = {
    "tied-d16-f32": (D16 | FOUR | F32, [(1, None), (7, None), (150, None), (150, 0.4), (150, [0.4, 0.9])]),
    "untied-d32-bf16": (
        dict(intermediate_size=80, rms_norm_eps=1e-6, tie_word_embeddings=False, head_dim=32,
             rope_parameters={"rope_type": "default", "rope_theta": 500000.0}),
        [(40, None), (300, None)],
    ),
    "llama3-rope-d64-f32": (
        F32 | dict(intermediate_size=32, num_key_value_heads=2, head_dim=64, rope_theta=10000.0, rope_scaling=LLAMA3),
        [(40, None), (200, None)],
    ),
    "sharded-d16-bf16": (
        dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, rms_norm_eps=1e-6, rope_theta=100.0),
        [(129, None), (129, [1.0, 0.5, 0.7])],
    ),
    "focal-constant": (D16 | FOUR | dict(focal_attention={"mode": "constant", "temperature": 0.4}), [(150, None), (150, 1.0)]),
    "focal-per-layer": (
        D16 | dict(num_hidden_layers=3, num_key_value_heads=2, focal_attention={"mode": "constant", "temperature": [0.4, 1.0, 0.7]}),
        [(150, None)],
    ),
    "focal-learned-causal": (D16 | F32 | dict(focal_attention=LEARNED), [(7, None), (300, None)]),
    "focal-learned-token": (D16 | dict(focal_attention=LEARNED | {"tau_mean": "token"}), [(150, None)]),
    "focal-learned-sequence": (D16 | dict(focal_attention=LEARNED | {"tau_mean": "sequence", "tau_min": 2.6, "tau_max": 2.9}), [(150, None)]),
    "focal-learned-no-bias": (D16 | dict(focal_attention=LEARNED | {"tau_min": 0.3, "tau_max": 1.5}), [(60, None)]),
}  # fmt: skip
SHARDS = {"sharded-d16-bf16": 3}
WITHOUT_BIAS = ("focal-learned-no-bias",)
MISTAKES = [
    "rope theta", "interleaved rope", "positions off by one", "no rope scaling", "norm eps", "heads dealt round",
    "no temperature", "temperature squared", "tau off by one position", "tau on top of the root", "no tau bias", "no clip",
    "sequence taken as causal", "begin token left out of the mean",
]


def weights_of(config, has_bias, generator):
    """Random, but with query and key products wide enough that attention is far from uniform."""
    m, f, heads, kv = (config[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"))
    d = config.get("head_dim", m // heads)
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    out = {"model.embed_tokens.weight": normal(VOCAB, m, std=0.3), "model.norm.weight": 1 + normal(m, std=0.3)}
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        out[p + "input_layernorm.weight"] = 1 + normal(m, std=0.3)
        out[p + "post_attention_layernorm.weight"] = 1 + normal(m, std=0.3)
        out[p + "self_attn.q_proj.weight"] = normal(heads * d, m, std=1.3 * m**-0.5)
        out[p + "self_attn.k_proj.weight"] = normal(kv * d, m, std=1.3 * m**-0.5)
        out[p + "self_attn.v_proj.weight"] = normal(kv * d, m, std=m**-0.5)
        out[p + "self_attn.o_proj.weight"] = normal(m, heads * d, std=(heads * d) ** -0.5)
        out[p + "mlp.gate_proj.weight"] = normal(f, m, std=m**-0.5)
        out[p + "mlp.up_proj.weight"] = normal(f, m, std=m**-0.5)
        out[p + "mlp.down_proj.weight"] = normal(m, f, std=f**-0.5)
        if config.get("focal_attention", {}).get("mode") == "learned":
            # The running mean narrows with the position: early rows meet the bounds, later ones lie between them.
            out[p + "self_attn.tau_proj.weight"] = normal(m, std=0.25)
            if has_bias:
                out[p + "self_attn.tau_proj.bias"] = 2.75 + normal(1, std=0.2)
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = normal(VOCAB, m, std=0.3)
    return {k: v.to(getattr(torch, config["torch_dtype"])) for k, v in out.items()}


def write_checkpoint(directory, config, generator):
    weights = weights_of(config, directory.name not in WITHOUT_BIAS, generator)
    save_checkpoint(directory, config, weights)
    shards = SHARDS.get(directory.name)
    if not shards:
        return
    (directory / "model.safetensors").unlink()
    names, where = sorted(weights), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        mine = names[i::shards]
        save_file({n: weights[n] for n in mine}, directory / file, metadata={"format": "pt"})
        where |= {n: file for n in mine}
    total = sum(w.numel() * w.element_size() for w in weights.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def difference(a, b):
    """Of two results: the largest log-probability difference, and the first greedy step that differs."""
    pairs = zip(a["token_log_probs"][1:] + a["last_log_probs"], b["token_log_probs"][1:] + b["last_log_probs"])
    step = next((i for i, (x, y) in enumerate(zip(a["continuation"], b["continuation"])) if x != y), None)
    return max(abs(x - y) for x, y in pairs), step


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    worst, table = 0.0, {m: {} for m in MISTAKES}
    for number, (name, (keys, lengths)) in enumerate(CASES.items()):
        directory = OUT / name
        generator = torch.Generator().manual_seed(1000 + number)
        write_checkpoint(directory, CONFIG | keys, generator)
        runs = []
        for length, temperature in lengths:
            ids = [0] + torch.randint(2, VOCAB, (length - 1,), generator=generator).tolist()
            result = reference.run(directory, ids, NEW_TOKENS, focal_temperature=temperature)
            spread = reference.rounding(directory, ids, result, focal_temperature=temperature)
            if "focal_attention" not in keys and temperature is None:
                rows, continuation = transformers64.run(directory, ids, NEW_TOKENS)
                theirs = [rows[i, t].item() for i, t in enumerate(ids[1:])] + rows[-1].tolist()
                ours = result["token_log_probs"][1:] + result["last_log_probs"]
                worst = max([worst] + [abs(a - b) for a, b in zip(theirs, ours)])
                assert worst < 1e-11 and continuation == result["continuation"], (name, worst)
                result["token_log_probs"] = [None] + theirs[: length - 1]
                result["last_log_probs"] = theirs[length - 1 :]
                oracle = "transformers in float64"
            else:
                oracle = "reference.py in float64"
            runs.append({"oracle": oracle, "focal_temperature": temperature, "token_ids": ids} | result | spread)
            for mistake in MISTAKES:
                wrong = reference.run(directory, ids, NEW_TOKENS, focal_temperature=temperature, mistakes=(mistake,))
                moved, step = difference(result, wrong)
                old = table[mistake].get(name)
                if moved > 0 and (old is None or moved > old[0]):
                    table[mistake][name] = (moved, step)
        (directory / "golden.json").write_text(text_of_runs(runs))
        gaps = [min(r["continuation_gaps"]) for r in runs]
        shares = [f"{r['tau_at_min_count']}+{r['tau_at_max_count']}/{r['tau_count']}" for r in runs if "taus" in r]
        print(f"{name:24} f32 differs by {max(r['float32_difference'] for r in runs):.1e}, smallest gap {min(gaps):.1e}", *shares)
    print(f"transformers and reference.py agree to {worst:.1e}\n\nwhat a mistake moves (log-probability; greedy step)")
    for mistake, cases in table.items():
        text = "  ".join(f"{k} {v[0]:.1e}" + ("" if v[1] is None else f" @{v[1]}") for k, v in cases.items() if v[0] > 1e-9)
        print(f"  {mistake:34} {text}")
        assert any(v[0] > 1e-3 for v in cases.values()), f"nothing notices: {mistake}"


if __name__ == "__main__":
    main()
