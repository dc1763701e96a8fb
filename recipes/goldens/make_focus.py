"""Golden files of Focus: tiny checkpoints of every family, log-probabilities, groups and biases in float64.

Two implementations must agree to 1e-10 where transformers has the rest of the model: focus_reference.py, written from
the formulas, and the training code of recipes/focus on transformers in float64. With focal attention focus_reference.py
is alone. A seed is taken when no token's k-th and (k+1)-th group are close and no greedy step is.

    python recipes/goldens make focus [NAME...]      (writes tests/testdata/goldens/focus)
"""

import dataclasses
import json
import pathlib
import sys

import torch

import focus_reference
import reference
import transformers64
from cases import NEW_TOKENS, VOCAB, config_of
from focus_cases import FOCUS_CASES
from golden_files import GOLDENS, first_clear, save_checkpoint, text_of_runs
from make_architectures import weights_of
from shapes import Shape

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = GOLDENS / "focus"
AGREEMENT = 1e-10
MARGIN_MIN = 3e-3  # of S / temperature + b; the engine's tests may rely on 1e-3
GAP_MIN = 1e-3
VISIBLE_MAX = 0.95  # pairs visible in the first run: a layer that sees everything shows nothing
# Ten digits are more than any bound requires.
SHORT_DIGITS = ("_probs", "_gaps", "_biases", "_share", "_visible", "_difference", "_rms", "_margin")


def focus_weights(case, config, generator):
    """Projection, centroids and biases: scores of a standard deviation of 2.5, so exp(S / 0.1) overflows float32."""
    f, shape = case["focus"], Shape(config)
    dim, count = f.get("routing_dim", 16), f["group_count"]
    full = [i for i in range(shape.layers) if not shape.sliding[i]]
    prefix = focus_reference.PREFIXES.get(shape.kind, "model.layers.{}.self_attn.focus.")
    if case["base"]["name"] == "gpt2-bare-names":
        prefix = prefix.removeprefix("transformer.")
    normal = lambda *size, std: torch.randn(*size, generator=generator) * std
    out = {}
    for layer in f.get("layers", full):
        start = prefix.format(layer)
        out[start + "projection.weight"] = normal(dim, shape.width, std=shape.width**-0.5)
        out[start + "centroids"] = normal(count, dim, std=2.5 * dim**-0.5)
        if f["bias"] == "calibrated":
            b = normal(count, std=1.5 / f.get("assignment_temperature", 0.1))
            if case["empty_token"] is not None:  # a row of zeros ties groups 1, 3 and 4 above all others
                b = torch.tensor([0.0, 9.0, 4.0, 9.0, 9.0, -3.0, -9.0, 2.0])
            out[start + "group_bias"] = b - b.mean()
    return {name: w.to(getattr(torch, case["stored"])) for name, w in out.items()}


def write_checkpoint(directory, case, generator):
    base = case["base"]
    config = config_of(base) | {"focus_attention": case["focus"]}
    weights = weights_of(base, generator)
    if case["empty_token"] is not None:
        weights["model.embed_tokens.weight"][case["empty_token"]] = 0
    if case["focal"]:
        config["focal_attention"] = case["focal"]
        if case["focal"]["mode"] == "learned":
            for i in range(config["num_hidden_layers"]):
                start = f"model.layers.{i}.self_attn.tau_proj."
                weights[start + "weight"] = torch.randn(config["hidden_size"], generator=generator) * 0.25
                weights[start + "bias"] = 2.75 + torch.randn(1, generator=generator) * 0.2
    stored = base["stored"] if isinstance(base["stored"], tuple) else (base["stored"],) * 2
    matrices, vectors = (getattr(torch, name) for name in stored)
    weights = {k: v.to(matrices if v.dim() == 2 else vectors) for k, v in weights.items()}
    save_checkpoint(directory, config, weights | focus_weights(case, config, generator))


def prompt_of(case, length, generator):
    ids = [0] + torch.randint(2, VOCAB, (length - 1,), generator=generator).tolist()
    if case["empty_token"] is not None:
        ids[5::20] = [case["empty_token"]] * len(ids[5::20])
    return ids


class Transformers:
    """The training code on transformers, everything in float64."""

    def __init__(self, directory):
        sys.path.insert(0, str(ROOT / "recipes"))
        from focus import attention, checkpoint, settings

        config = json.loads((directory / "config.json").read_text())
        self.routers = attention.routers
        self.settings = settings.FocusSettings.from_config(config["focus_attention"])
        self.model = transformers64.load(directory, 1)
        self.mode = attention.attach(self.model, self.settings)
        self.mode.gate = "hard"
        self.model.double()
        checkpoint.load_focus(self.model, directory, self.settings)

    @torch.no_grad()
    def rows(self, ids, prompt_tokens, top_k=None, window=None):
        """Log-probabilities [T, V], and the groups of every row as numbers, by layer."""
        over = {k: v for k, v in (("top_k", top_k), ("window", window)) if v is not None}
        self.mode.prompt_tokens, groups = prompt_tokens, []
        routers = list(self.routers(self.model))
        for router in routers:
            router.settings = dataclasses.replace(self.settings, **over)

            def noted(h, tokens, router=router):
                member = type(router).hard_groups(router, h, tokens)
                groups.append((member[0].long() << torch.arange(member.shape[-1])).sum(-1).tolist())
                return member

            router.hard_groups = noted
        logits = self.model(torch.tensor([ids]), use_cache=False).logits[0]
        for router in routers:
            del router.hard_groups
        assert logits.dtype == torch.float64
        return torch.log_softmax(logits, -1), groups


def check_transformers(directory, theirs, ids, result, overrides):
    """Largest difference of a log-probability between the two implementations; groups and greedy text must be equal."""
    n, text = len(ids), ids + result["continuation"]
    rows, groups = theirs.rows(text, n, **overrides)
    assert groups == result["groups"], (directory.name, overrides)
    assert rows[n - 1 : -1].argmax(-1).tolist() == result["continuation"], (directory.name, overrides)
    values = {"token_log_probs": [None] + [rows[i, t].item() for i, t in enumerate(ids[1:])], "last_log_probs": rows[n - 1].tolist()}
    difference = (reference.flat(values) - reference.flat(result)).abs().max().item()
    assert difference < AGREEMENT, (directory.name, overrides, difference)
    return difference


def make(case, seed):
    """All runs of a case with this seed's weights, or None where a decision is too close."""
    directory = OUT / case["name"]
    generator = torch.Generator().manual_seed(seed)
    write_checkpoint(directory, case, generator)
    drawn = {length: prompt_of(case, length, generator) for length in sorted({length for length, _ in case["runs"]})}
    found = []
    for length, overrides in case["runs"]:
        result = focus_reference.run(directory, drawn[length], NEW_TOKENS, MARGIN_MIN, GAP_MIN, **overrides)
        if result is None or result["group_margin"] < MARGIN_MIN:
            return None, 0.0
        if len(set(result["continuation"])) < NEW_TOKENS // 4 or bool(result["group_ties"]) != (case["empty_token"] is not None):
            return None, 0.0
        if not found and max(result["pairs_visible"]) > VISIBLE_MAX:
            return None, 0.0
        found.append((drawn[length], overrides, result))
    runs, worst = [], 0.0
    theirs = None if case["focal"] else Transformers(directory)
    for ids, overrides, result in found:
        head = {"oracle": "focus_reference.py in float64"}
        if theirs and "focal_temperature" not in overrides:
            worst = max(worst, check_transformers(directory, theirs, ids, result, overrides))
            head = {"oracle": "focus_reference.py in float64, equal to recipes/focus on transformers"}
        head["focal_temperature"] = overrides.get("focal_temperature")
        head |= {"focus_top_k": overrides.get("top_k"), "focus_window": overrides.get("window")}
        if result["group_margin"] == float("inf"):
            result["group_margin"] = None  # k = K: nothing is decided
        spread = reference.rounding(directory, ids, result, score=focus_reference.run, **overrides)
        runs.append(head | {"token_ids": ids} | result | spread)
    return runs, worst


def main(names):
    for case in FOCUS_CASES:
        if names and case["name"] not in names:
            continue
        seed, runs, worst = first_clear("focus " + case["name"], lambda seed: make(case, seed), "groups and greedy texts")
        (OUT / case["name"] / "golden.json").write_text(text_of_runs(runs, 10, SHORT_DIGITS))
        size = sum(f.stat().st_size for f in (OUT / case["name"]).iterdir())
        margins = [r["group_margin"] for r in runs if r["group_margin"] is not None]
        print(
            f"{case['name']:22} {size // 1024:4} KB  seed +{seed}  agree to {worst:.1e}  f32 {max(r['float32_difference'] for r in runs):.1e}"
            f"  smallest group margin {min(margins):.1e}  ties {max(r['group_ties'] for r in runs)}"
            f"  greedy gap {min(min(r['continuation_gaps']) for r in runs):.1e}  pairs {min(min(r['pairs_visible']) for r in runs):.2f}"
            f"  share {max(max(r['largest_group_share']) for r in runs):.2f}",
            flush=True,
        )
    total = sum(f.stat().st_size for f in OUT.rglob("*") if f.is_file())
    print(f"{total / 1e6:.2f} MB in all")
