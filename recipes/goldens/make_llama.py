"""Golden files of tiny random llamas: baseline against transformers in float64, focal modes against reference.py.

Where transformers has the model at all (transformers64.py), it must agree with reference.py to 1e-11.

    python recipes/goldens make llama        (writes tests/testdata/goldens/llama, prints the table of mistakes)
"""

import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file

import reference
import transformers64

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/testdata/goldens/llama"
NEW_TOKENS = 64
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LEARNED = {"mode": "learned", "tau_min": 2.0, "tau_max": 3.5, "tau_mean": "causal"}
# name: (shape, how it is stored, prompt lengths and run-time temperatures)
CASES = {
    "tied-d16-f32": dict(
        hidden=32, ffn=48, layers=2, heads=4, kv=2, head_dim=16, rope_theta=10000.0, tied=True, eps=1e-5,
        runs=[(1, None), (7, None), (150, None), (150, 0.4), (150, [0.4, 0.9])],
    ),
    "untied-d32-bf16": dict(
        hidden=32, ffn=80, layers=2, heads=2, kv=1, head_dim=32, rope_parameters=500000.0, eps=1e-6, bf16=True,
        runs=[(40, None), (300, None)],
    ),
    "llama3-rope-d64-f32": dict(
        hidden=32, ffn=32, layers=2, heads=2, kv=2, head_dim=64, rope_theta=10000.0, rope_scaling=LLAMA3, tied=True,
        eps=1e-5, runs=[(40, None), (200, None)],
    ),
    "sharded-d16-bf16": dict(
        hidden=64, ffn=96, layers=3, heads=4, kv=1, rope_theta=100.0, tied=True, eps=1e-6, bf16=True, shards=3,
        runs=[(129, None), (129, [1.0, 0.5, 0.7])],
    ),
    "focal-constant": dict(
        hidden=32, ffn=48, layers=2, heads=4, kv=2, head_dim=16, rope_theta=10000.0, tied=True, eps=1e-5, bf16=True,
        focal={"mode": "constant", "temperature": 0.4}, runs=[(150, None), (150, 1.0)],
    ),
    "focal-per-layer": dict(
        hidden=32, ffn=48, layers=3, heads=2, kv=2, head_dim=16, rope_theta=10000.0, tied=True, eps=1e-5, bf16=True,
        focal={"mode": "constant", "temperature": [0.4, 1.0, 0.7]}, runs=[(150, None)],
    ),
    "focal-learned-causal": dict(
        hidden=32, ffn=48, layers=2, heads=2, kv=1, head_dim=16, rope_theta=10000.0, tied=True, eps=1e-5,
        focal=LEARNED, runs=[(7, None), (300, None)],
    ),
    "focal-learned-token": dict(
        hidden=32, ffn=48, layers=2, heads=2, kv=1, head_dim=16, rope_theta=10000.0, tied=True, eps=1e-5, bf16=True,
        focal=LEARNED | {"tau_mean": "token"}, runs=[(150, None)],
    ),
    "focal-learned-sequence": dict(
        hidden=32, ffn=48, layers=2, heads=2, kv=1, head_dim=16, rope_theta=10000.0, tied=True, eps=1e-5, bf16=True,
        focal=LEARNED | {"tau_mean": "sequence", "tau_min": 2.6, "tau_max": 2.9}, runs=[(150, None)],
    ),
    "focal-learned-no-bias": dict(
        hidden=32, ffn=48, layers=2, heads=2, kv=1, head_dim=16, rope_theta=10000.0, tied=True, eps=1e-5, bf16=True,
        focal=LEARNED | {"tau_min": 0.3, "tau_max": 1.5}, no_bias=True, runs=[(60, None)],
    ),
}
VOCAB = 120
MISTAKES = [
    "rope theta", "interleaved rope", "positions off by one", "no rope scaling", "norm eps", "heads dealt round",
    "no temperature", "temperature squared", "tau off by one position", "tau on top of the root", "no tau bias", "no clip",
    "sequence taken as causal", "begin token left out of the mean",
]


def config_of(case):
    out = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": case["hidden"],
        "intermediate_size": case["ffn"],
        "num_hidden_layers": case["layers"],
        "num_attention_heads": case["heads"],
        "num_key_value_heads": case["kv"],
        "hidden_act": "silu",
        "rms_norm_eps": case["eps"],
        "max_position_embeddings": 4096,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": case.get("tied", False),
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "bfloat16" if case.get("bf16") else "float32",
    }
    if "head_dim" in case:
        out["head_dim"] = case["head_dim"]
    if "rope_parameters" in case:
        out["rope_parameters"] = {"rope_type": "default", "rope_theta": case["rope_parameters"]}
    else:
        out["rope_theta"] = case["rope_theta"]
    if "rope_scaling" in case:
        out["rope_scaling"] = case["rope_scaling"]
    if "focal" in case:
        out["focal_attention"] = case["focal"]
    return out


def weights_of(case, generator):
    """Random, but with query and key products wide enough that attention is far from uniform."""
    m, f, d = case["hidden"], case["ffn"], case.get("head_dim", case["hidden"] // case["heads"])
    normal = lambda *shape, std: torch.randn(*shape, generator=generator) * std
    out = {"model.embed_tokens.weight": normal(VOCAB, m, std=0.3), "model.norm.weight": 1 + normal(m, std=0.3)}
    for layer in range(case["layers"]):
        p = f"model.layers.{layer}."
        out[p + "input_layernorm.weight"] = 1 + normal(m, std=0.3)
        out[p + "post_attention_layernorm.weight"] = 1 + normal(m, std=0.3)
        out[p + "self_attn.q_proj.weight"] = normal(case["heads"] * d, m, std=1.3 * m**-0.5)
        out[p + "self_attn.k_proj.weight"] = normal(case["kv"] * d, m, std=1.3 * m**-0.5)
        out[p + "self_attn.v_proj.weight"] = normal(case["kv"] * d, m, std=m**-0.5)
        out[p + "self_attn.o_proj.weight"] = normal(m, case["heads"] * d, std=(case["heads"] * d) ** -0.5)
        out[p + "mlp.gate_proj.weight"] = normal(f, m, std=m**-0.5)
        out[p + "mlp.up_proj.weight"] = normal(f, m, std=m**-0.5)
        out[p + "mlp.down_proj.weight"] = normal(m, f, std=f**-0.5)
        if case.get("focal", {}).get("mode") == "learned":
            # The running mean narrows with the position: early rows meet the bounds, later ones lie between them.
            out[p + "self_attn.tau_proj.weight"] = normal(m, std=0.25)
            if not case.get("no_bias"):
                out[p + "self_attn.tau_proj.bias"] = 2.75 + normal(1, std=0.2)
    if not case.get("tied"):
        out["lm_head.weight"] = normal(VOCAB, m, std=0.3)
    return {k: v.to(torch.bfloat16 if case.get("bf16") else torch.float32) for k, v in out.items()}


def write_checkpoint(directory, case, generator):
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config_of(case), indent=2) + "\n")
    weights = weights_of(case, generator)
    shards = case.get("shards", 1)
    if shards == 1:
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
        return
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
    for number, (name, case) in enumerate(CASES.items()):
        directory = OUT / name
        generator = torch.Generator().manual_seed(1000 + number)
        write_checkpoint(directory, case, generator)
        runs = []
        for length, temperature in case["runs"]:
            ids = [0] + torch.randint(2, VOCAB, (length - 1,), generator=generator).tolist()
            result = reference.run(directory, ids, NEW_TOKENS, focal_temperature=temperature)
            spread = reference.rounding(directory, ids, result, focal_temperature=temperature)
            if "focal" not in case and temperature is None:
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
            runs.append(
                {"oracle": oracle, "focal_temperature": temperature, "token_ids": ids} | result | spread
            )
            for mistake in MISTAKES:
                wrong = reference.run(directory, ids, NEW_TOKENS, focal_temperature=temperature, mistakes=(mistake,))
                moved, step = difference(result, wrong)
                old = table[mistake].get(name)
                if moved > 0 and (old is None or moved > old[0]):
                    table[mistake][name] = (moved, step)
        (directory / "golden.json").write_text(compact(runs))
        gaps = [min(r["continuation_gaps"]) for r in runs]
        shares = [f"{r['tau_at_min_count']}+{r['tau_at_max_count']}/{r['tau_count']}" for r in runs if "taus" in r]
        print(f"{name:24} f32 differs by {max(r['float32_difference'] for r in runs):.1e}, smallest gap {min(gaps):.1e}", *shares)
    print(f"transformers and reference.py agree to {worst:.1e}\n\nwhat a mistake moves (log-probability; greedy step)")
    for mistake, cases in table.items():
        text = "  ".join(f"{k} {v[0]:.1e}" + ("" if v[1] is None else f" @{v[1]}") for k, v in cases.items() if v[0] > 1e-9)
        print(f"  {mistake:34} {text}")
        assert any(v[0] > 1e-3 for v in cases.values()), f"nothing notices: {mistake}"


def compact(runs):
    """JSON with one key a line and rows of numbers on one line."""
    body = ",\n".join(
        "  {\n" + ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in run.items()) + "\n  }" for run in runs
    )
    return '{"runs": [\n' + body + "\n]}\n"


if __name__ == "__main__":
    main()
