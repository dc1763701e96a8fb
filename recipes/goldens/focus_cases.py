"""The tiny checkpoints with Focus: every family of the architecture table, reading of b, edge of k and w.

A case takes the model of one of `cases.py`. A run is a prompt length and what a request overrides.

llama has every k in {1, 2, K} with every w in {0, 3, 128, longer than the prompt} under every reading. gpt2, gpt-neox and
gemma3 have three checkpoints each, one a reading: `CALIBRATED`, `PAGED` and `PROMPT` together contain every pair of a k and
a w, and each of them every k and every w.
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


def product(group_count, top_k, length=200, window=3):
    """Every k with every w; a run of the checkpoint's own setting first, then k = 1 and k = 2, which tell most mistakes."""
    own = {"top_k": top_k, "window": window}
    pairs = [{"top_k": k, "window": w} for k in (1, 2, group_count) for w in (0, 3, 128, DENSE)]
    pairs.sort(key=lambda pair: pair != own)  # stable
    return [run(length, **{key: value for key, value in pair.items() if value != own[key]}) for pair in pairs]


CALIBRATED = [run(), run(top_k=1, window=0), run(top_k=8, window=128), run(window=DENSE)]
PAGED = [run(300), run(300, top_k=2, window=0), run(300, window=128), run(300, top_k=4, window=DENSE)]
PROMPT = [run(), run(top_k=4, window=0), run(window=128), run(top_k=1, window=DENSE), run(top_k=4)]
LEARNED = {"mode": "learned", "tau_min": 2.0, "tau_max": 3.5}
FOCUS_CASES = [
    focus("llama-calibrated", "llama", product(8, 2) + [
        run(top_k=5, window=0), run(top_k=3, window=1), run(focal_temperature=0.4),
    ], trained_context_length=128, regime="frozen"),
    focus("llama-paged", "llama", product(4, 1, length=300) + [run(250), run(100, window=0)],
          group_count=4, top_k=1, bias="paged"),
    focus("llama-prompt", "llama", product(8, 2) + [run(20)], bias="prompt"),
    focus("llama-ties", "llama", [run(), run(top_k=1, window=0), run(window=0)], empty_token=7),
    focus("llama-32-groups", "llama", [run(), run(top_k=1, window=0)], group_count=32, top_k=5, window=2, routing_dim=8),
    focus("llama-focal-constant", "llama", [run(), run(top_k=1, window=0)], focal={"mode": "constant", "temperature": 0.4}),
    focus("llama-focal-causal", "llama", [run(300), run(top_k=1, window=0)], group_count=4, top_k=1, bias="paged",
          focal=LEARNED | {"tau_mean": "causal"}),
    focus("llama-focal-sequence", "llama", [run()], bias="prompt", focal=LEARNED | {"tau_mean": "sequence"}),
    focus("mistral-window", "mistral-window", [run(), run(top_k=1, window=0), run(window=128), run(window=80)], layers=[0]),
    focus("qwen2-window", "qwen2-window", [run(), run(top_k=1, window=0)], stored="bfloat16"),
    focus("qwen3-layer-types", "qwen3-layer-types", [run(300), run(300, window=0)], bias="paged", group_count=4, top_k=1),
    focus("gemma3-newer", "gemma3-newer", PROMPT, bias="prompt", group_count=4),
    focus("gemma3-older-layers", "gemma3-older", CALIBRATED, layers=[1, 2]),
    focus("gemma3-paged", "gemma3-newer", PAGED, bias="paged", group_count=4, top_k=1),
    focus("olmo2", "olmo2", [run(), run(top_k=1, window=0)], assignment_temperature=0.3),
    focus("gpt2", "gpt2", CALIBRATED, routing_dim=32),
    focus("gpt2-bare-names", "gpt2-bare-names", PAGED, bias="paged", group_count=4, top_k=1),
    focus("gpt2-prompt", "gpt2", PROMPT, bias="prompt", group_count=4),
    focus("gpt-neox-parallel", "gpt-neox-parallel", PROMPT, bias="prompt", group_count=4),
    focus("gpt-neox-sequential", "gpt-neox-sequential", CALIBRATED, stored="float16"),
    focus("gpt-neox-paged", "gpt-neox-sequential", PAGED, bias="paged", group_count=4, top_k=1),
    focus("phi3-window", "phi3-window", [run(), run(window=128)], layers=[0, 1]),
    focus("granite", "granite", [run(), run(top_k=1, window=0)], group_count=16, assignment_temperature=0.2),
]  # fmt: skip
