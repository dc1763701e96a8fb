"""The tiny checkpoints with Focus: every family of the architecture table, reading of b, edge of k and w.

A case takes the model of one of `cases.py`. A run is a prompt length and what a request overrides.
"""

from cases import CASES, case, rms

BASES = {c["name"]: c for c in CASES} | {"llama": case("llama", "llama", rms(rope_theta=10000.0))}
DENSE = 400  # a window larger than any prompt


def focus(name, base, runs, group_count=8, top_k=2, window=3, bias="calibrated", focal=None, stored="float32",
          empty_token=None, **keys):  # fmt: skip
    """`stored`: the type of the Focus tensors. `empty_token`: a token whose embedding is zero, so its scores tie."""
    setting = dict(group_count=group_count, top_k=top_k, window=window, bias=bias) | keys
    return dict(name=name, base=BASES[base], focus=setting, focal=focal, runs=runs, stored=stored, empty_token=empty_token)


def run(length=200, **overrides):
    return length, overrides


LEARNED = {"mode": "learned", "tau_min": 2.0, "tau_max": 3.5}
FOCUS_CASES = [
    focus("llama-calibrated", "llama", [
        run(), run(top_k=1, window=0), run(top_k=1), run(top_k=1, window=128), run(window=0), run(window=128),
        run(top_k=8), run(window=DENSE), run(top_k=5, window=0), run(top_k=3, window=1), run(focal_temperature=0.4),
    ], trained_context_length=128, regime="frozen"),
    focus("llama-paged", "llama", [
        run(300), run(300, top_k=2, window=0), run(300, window=128), run(250), run(300, top_k=4), run(100, window=0),
    ], group_count=4, top_k=1, bias="paged"),
    focus("llama-prompt", "llama", [run(), run(top_k=1, window=0), run(window=128), run(top_k=8), run(20)], bias="prompt"),
    focus("llama-ties", "llama", [run(), run(top_k=1, window=0), run(window=0)], empty_token=7),
    focus("llama-32-groups", "llama", [run(), run(top_k=1, window=0)], group_count=32, top_k=5, window=2, routing_dim=8),
    focus("llama-focal-constant", "llama", [run(), run(top_k=1, window=0)], focal={"mode": "constant", "temperature": 0.4}),
    focus("llama-focal-causal", "llama", [run(300), run(top_k=1, window=0)], group_count=4, top_k=1, bias="paged",
          focal=LEARNED | {"tau_mean": "causal"}),
    focus("llama-focal-sequence", "llama", [run()], bias="prompt", focal=LEARNED | {"tau_mean": "sequence"}),
    focus("mistral-window", "mistral-window", [run(), run(top_k=1, window=0), run(window=128), run(window=80)], layers=[0]),
    focus("qwen2-window", "qwen2-window", [run(), run(top_k=1, window=0)], stored="bfloat16"),
    focus("qwen3-layer-types", "qwen3-layer-types", [run(300), run(300, window=0)], bias="paged", group_count=4, top_k=1),
    focus("gemma3-newer", "gemma3-newer", [run(), run(top_k=1, window=0)], bias="prompt"),
    focus("gemma3-older-layers", "gemma3-older", [run(), run(window=128)], layers=[1, 2]),
    focus("olmo2", "olmo2", [run(), run(top_k=1, window=0)], assignment_temperature=0.3),
    focus("gpt2", "gpt2", [run(), run(top_k=1, window=0)], routing_dim=32),
    focus("gpt2-bare-names", "gpt2-bare-names", [run(300), run(300, top_k=2, window=0)], bias="paged", group_count=4, top_k=1),
    focus("gpt-neox-parallel", "gpt-neox-parallel", [run(), run(top_k=1, window=0)], bias="prompt", group_count=4),
    focus("gpt-neox-sequential", "gpt-neox-sequential", [run(), run(top_k=1, window=0)], stored="float16"),
    focus("phi3-window", "phi3-window", [run(), run(window=128)], layers=[0, 1]),
    focus("granite", "granite", [run(), run(top_k=1, window=0)], group_count=16, assignment_temperature=0.2),
]  # fmt: skip
