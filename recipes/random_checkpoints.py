"""Random checkpoints of every supported type, written by transformers and held against it through the program.

    python recipes/random_checkpoints.py --varifocal=build/release/bin/varifocal [--types=llama,..] [--seeds=0-9] [--keep=DIRECTORY]

Every seed of a type draws other sizes (heads, groups, head widths, odd widths), windows, RoPE scalings, biases, activations, tied
or untied heads, number formats and generations of config keys than the golden checkpoints have. The log-probability of every
token of a prompt, and a greedy continuation, are those of transformers in float32, both from the same directory: within 0.002, and
equal ids. A step whose two best tokens are closer than twice that is where a continuation may part. A refusal is printed, and
counted apart. With `--keep` the checkpoints remain there.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import zlib

import torch

from flags import MAYBE_PATH, Path, parse
from random_configs import TEXT, WHOLE, Draw, published_heads

BOUND, STEPS = 0.002, 24
KEPT = ("model_type", "layer_types", "head_dim", "rope_parameters", "max_position_embeddings", "num_attention_heads", "vocab_size", "v_head_dim")


@torch.no_grad()
def fill(model, generator):
    """Weights of a size at which attention, gates and positions matter. What transformers initializes to zero or one stays near."""
    gains = [0.7, 1.0, 1.3]
    for name, w in model.named_parameters():
        noise = torch.randn(w.shape, generator=generator)
        if w.dim() == 1 or name.endswith("_bias"):
            w.add_(noise * (0.1 if name.endswith(("A_log", "dt_bias")) else 0.3))
            continue
        inputs_first = "Conv1D" in type(model.get_submodule(name.rpartition(".")[0])).__name__ or (model.config.model_type == "gpt_oss" and w.dim() == 3)
        columns = w.shape[-2] if inputs_first else w.shape[-1]
        gain = gains[int(torch.randint(3, (1,), generator=generator))]
        is_router = name.endswith(("mlp.gate.weight", "mixer.gate.weight", "router.weight", "router.layer.weight", "block_sparse_moe.gate.weight"))
        if name.endswith("router.proj.weight"):  # reads numbers of the size of the width's root
            w.copy_(noise * 2.5)
            continue
        if name.endswith("modality_router.weight"):  # reads numbers of the size of 1 / width
            w.copy_(noise * 0.8 * columns**0.5)
            continue
        embeds = "embed" in name or name.endswith(("wte.weight", "wpe.weight"))
        w.copy_(noise * (0.4 if embeds else 2.5 * columns**-0.5 if is_router else gain * columns**-0.5))


def fill_biases(model, generator):
    """Those by which experts are chosen, which are no parameters."""
    for name, w in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            w.copy_(torch.randn(w.shape, generator=generator) * 0.2)


def older_keys(config):
    """The keys that releases before 5 wrote, where they have the same meaning."""
    parameters = config.get("rope_parameters")
    if not isinstance(parameters, dict) or "llama_4_scaling_beta" in parameters:
        return config
    parameters = dict(config.pop("rope_parameters"))
    if "full_attention" in parameters:
        if config["model_type"] in ("gemma3_text", "gemma3n_text"):
            config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
        parameters = dict(parameters["full_attention"])
    config["rope_theta"] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        config["rotary_pct" if config["model_type"] == "gpt_neox" else "partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
        if config["model_type"] == "gpt_neox":
            config["rotary_emb_base"] = config.pop("rope_theta")
    config["rope_scaling"] = None if parameters == {"rope_type": "default"} else parameters
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    return config


def write(directory, kind, seed):
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    r = Draw(zlib.crc32(f"{kind} {seed}".encode()))
    torch.manual_seed(r.randrange(2**31))
    keys = TEXT[kind](r) if kind in TEXT else WHOLE[kind](r)
    config = AutoConfig.for_model(kind, **keys)
    model = (AutoModelForCausalLM if kind in TEXT else AutoModelForImageTextToText).from_config(config)
    fill(model, torch.Generator().manual_seed(seed))
    fill_biases(model, torch.Generator().manual_seed(seed))
    model.to(r.one(torch.float32, torch.float32, torch.bfloat16, torch.float16))
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory, max_shard_size=r.one("1GB", "40KB"))
    path = directory / "config.json"
    written = json.loads(path.read_text())
    defaults = type(config)().to_dict() if kind in TEXT else {}
    if kind == "gemma4_text" and r.maybe():
        written = published_heads(written)
    elif kind in TEXT and kind != "gemma4_text" and r.maybe():
        written = older_keys(written)
    for key in list(written):
        # What a reader must know by itself. Some defaults depend on other keys.
        if key in defaults and written[key] == defaults[key] and key not in KEPT and r.maybe():
            del written[key]
    path.write_text(json.dumps(written, indent=2))
    return r, written


def ids_of(r, text):
    count = min(r.one(40, 140, 200, 300), (text.get("max_position_embeddings") or text["n_positions"]) - STEPS - 1)
    return [0] + [r.randrange(2, text["vocab_size"]) for _ in range(count)]


@torch.no_grad()
def theirs(directory, kind, ids, length_matters):
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    kind_of = AutoModelForCausalLM if kind in TEXT else AutoModelForImageTextToText
    model = kind_of.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    rows = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0].double(), -1)
    scores = [rows[i, token].item() for i, token in enumerate(ids[1:])]
    new, gaps, text = [], [], list(ids)
    for _ in range(0 if length_matters else STEPS):
        row = torch.log_softmax(model(torch.tensor([text]), use_cache=False).logits[0, -1].double(), -1)
        best = row.topk(2)
        new.append(int(best.indices[0]))
        gaps.append((best.values[0] - best.values[1]).item())
        text.append(new[-1])
    return scores, new, gaps


def ours(program, verb, directory, ids, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(ids))
        file.flush()
        command = [program, verb, f"--model={directory}", f"--token-ids-file={file.name}", "--dtype=f32", "--format=json", *flags]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return json.loads(done.stdout)


def check(program, directory, kind, seed):
    """One line, and whether it is right; None where the program refuses."""
    r, written = write(directory, kind, seed)
    text = written.get("text_config", written)
    ids = ids_of(r, text)
    grows = "dynamic" in json.dumps(text.get("rope_parameters") or text.get("rope_scaling") or {}) and "alpha" not in json.dumps(text)
    scores, new, gaps = theirs(directory, kind, ids, grows)
    chunk = f"--prefill-chunk-tokens={r.one(16, 48, 128, 512)}"
    try:
        out = ours(program, "score", directory, ids, "--per-token", chunk)
    except ValueError as error:
        return f"refused: {error}", None
    differences = [abs(a - b) for a, b in zip(out["token_log_probs"][1:], scores)]
    worst = max(differences)
    line = f"{len(ids):3} tokens, largest difference {worst:.1e} at {differences.index(worst)}"
    if grows:
        return line, worst <= BOUND
    found = ours(program, "generate", directory, ids, f"--max-new-tokens={STEPS}", "--ignore-eos", chunk)["token_ids"]
    same = next((i for i, (a, b) in enumerate(zip(found, new)) if a != b), STEPS)
    return f"{line}, {same} of {STEPS} steps equal" + (f" (gap {gaps[same]:.1e})" if same < STEPS else ""), worst <= BOUND and (same == STEPS or gaps[same] < 2 * BOUND)


def main():
    options = parse(__doc__, varifocal="build/release/bin/varifocal", types=",".join([*TEXT, *WHOLE]), seeds=dict(default="0-4", help="FIRST-LAST"), keep=MAYBE_PATH)
    from transformers import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    first, last = (int(n) for n in options.seeds.split("-"))
    wrong, refused, count = [], 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for kind in options.types.split(","):
            for seed in range(first, last + 1):
                directory = (options.keep or Path(scratch)) / f"{kind}-{seed}"
                try:
                    line, right = check(options.varifocal, directory, kind, seed)
                except Exception as error:  # of transformers: such a configuration does not exist
                    print(f"{directory.name:22} not made: {type(error).__name__}: {str(error)[:200]}", flush=True)
                    continue
                count += 1
                refused += right is None
                if right is False:
                    wrong.append(directory.name)
                print(f"{directory.name:22} {line}{'' if right is not False else '  WRONG'}", flush=True)
                if not options.keep:
                    shutil.rmtree(directory, ignore_errors=True)
    print(f"{count} checkpoints, {refused} refused, {len(wrong)} wrong {' '.join(wrong)}")
    sys.exit(bool(wrong))


main()
