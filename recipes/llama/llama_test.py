"""Temperatures compute what their formulas say, arms are what their names promise, runs resume, folding keeps the function."""

import dataclasses
import json
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch

from llama import arms, data, fold, run, train
from llama.config import Attention, Config, Tau
from llama.model import Llama, clipped, load, tau_of
from llama.optimizer import optimizers

torch.set_num_threads(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = Config(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, head_dim=8, rope_theta=1e4, trained_context_length=32)  # fmt: skip
IDS = torch.randint(64, (2, 24), generator=torch.Generator().manual_seed(1))


def logits(net: Llama, ids: torch.Tensor = IDS) -> torch.Tensor:
    with torch.no_grad():
        return net.logits(net.hidden(ids))


def small(attention: Attention, seed: int = 3) -> Llama:
    return arms.make(arms.Arm(attention), SMALL, seed, structured=False)


def written_out(net: Llama, x: torch.Tensor, layer: int) -> torch.Tensor:
    """The attention of one layer by loops over rows, from the formulas in docs; float64."""
    a, c = net.blocks()[layer].self_attn, net.config
    cos, sin = net.rope(x.shape[1])
    q, k = (t.double() for t in a.queries_and_keys(x, cos, sin))
    v = a.v_proj(x).view(*x.shape[:2], c.num_key_value_heads, c.head_dim).transpose(1, 2).repeat_interleave(2, 1).double()
    out = torch.zeros_like(q)
    s = a.setting
    raw = (x.double() @ a.tau_proj.weight.double().T).squeeze(-1) if s.tau else torch.zeros(x.shape[:2], dtype=torch.float64)
    if s.tau and s.tau.bias:
        raw = raw + a.tau_proj.bias.double()
    for row in range(x.shape[1]):
        scale = torch.full((len(x), c.num_attention_heads), 1 / (math.sqrt(c.head_dim) * s.temperature), dtype=torch.float64)
        if s.tau:
            mean = {"token": raw[:, row], "causal": raw[:, : row + 1].mean(1), "sequence": raw.mean(1)}[s.tau.mean]
            root = math.sqrt(c.head_dim)
            scale = (1 / mean.clamp(s.tau.floor * root, s.tau.ceiling * root))[:, None].expand_as(scale)
        if s.log_n is not None:
            n = torch.tensor(math.log(row + 1), dtype=torch.float64)
            scale = scale * n * (a.log_n_scale["weight"].double() if s.log_n == 0 else 1 / math.log(s.log_n))
        for h in range(c.num_attention_heads):
            for b in range(len(x)):
                p = torch.softmax((k[b, h, : row + 1] @ q[b, h, row]) * scale[b, h], 0)
                out[b, h, row] = p @ v[b, h, : row + 1]
    projected: torch.Tensor = a.o_proj(out.transpose(1, 2).flatten(2).float())
    return projected


@pytest.mark.parametrize("attention", [
    Attention(), Attention(temperature=0.4), Attention(log_n=0), Attention(log_n=16), Attention(temperature=0.7, log_n=16),
    *(Attention(tau=Tau(mean=m, ceiling=1.2)) for m in ("causal", "token", "sequence")), Attention(tau=Tau(bias=False)),
    Attention(tau=Tau(), log_n=0),
])  # fmt: skip
def test_every_setting_is_its_formula(attention: Attention) -> None:
    net = small(attention)
    if attention.tau:
        with torch.no_grad():  # so that tau differs between rows, and some are at a bound
            for block in net.blocks():
                block.self_attn.tau_proj.weight.normal_(0, 0.3)
    x = torch.randn(2, 12, 32, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        cos, sin = net.rope(12)
        ours = net.blocks()[1].self_attn(x, cos, sin)
        assert torch.allclose(ours, written_out(net, x, 1), atol=2e-5)
        if attention != Attention():
            assert not torch.allclose(ours, small(Attention()).blocks()[1].self_attn(x, cos, sin), atol=1e-3)


@pytest.mark.parametrize("mean, is_causal", [("causal", True), ("token", True), ("sequence", False)])
def test_later_tokens_change_earlier_rows_only_where_the_mean_is_the_sequence(mean: str, is_causal: bool) -> None:
    net = small(Attention(tau=Tau(mean=mean, bias=False, floor=1e-3)))
    with torch.no_grad():
        for block in net.blocks():
            block.self_attn.tau_proj.weight.fill_(0.5)
            block.input_layernorm.weight.add_(torch.linspace(0, 1, 32))
    other = IDS.clone()
    other[:, -1] = (other[:, -1] + 1) % 64
    assert torch.equal(logits(net)[:, :-1], logits(net, other)[:, :-1]) == is_causal


def test_clips_differ_in_gradient_alone() -> None:
    raw = torch.tensor([0.0, 1.0, 5.0], requires_grad=True)
    gradients = {}
    for clip in ("plain", "straight_through"):
        out = clipped(raw, 0.5, 2.0, clip)
        assert out.tolist() == [0.5, 1.0, 2.0]
        gradients[clip] = torch.autograd.grad(out.sum(), raw)[0].tolist()
    assert gradients == {"plain": [0.0, 1.0, 0.0], "straight_through": [1.0, 1.0, 1.0]}


def test_without_bias_tau_is_at_the_floor_and_with_one_at_the_baseline() -> None:
    raw = small(Attention(tau=Tau(bias=False))).blocks()[0].self_attn.tau_proj(torch.randn(2, 9, 32)).squeeze(-1)
    assert torch.allclose(tau_of(raw, Tau(), 8), torch.tensor(0.44 * math.sqrt(8)))
    assert torch.allclose(logits(small(Attention(tau=Tau()))), logits(small(Attention())), atol=1e-5)


def test_arms_of_a_seed_share_their_weights() -> None:
    plain = arms.make(arms.ARMS["baseline"], SMALL, 7, structured=False).state_dict()
    for name, arm in arms.ARMS.items():
        mine = arms.make(arm, SMALL, 7, structured=False).state_dict()
        for key, value in plain.items():
            assert torch.equal(mine[key], value * arm.q_start if "q_proj" in key else value), (name, key)


def test_preserving_start_computes_the_baseline() -> None:
    one, other = (logits(arms.make(arms.ARMS[n], SMALL, 7, structured=False)) for n in ("baseline", "focal-preserving"))
    assert torch.allclose(one, other, atol=1e-5)
    assert not torch.allclose(one, logits(arms.make(arms.ARMS["focal"], SMALL, 7, structured=False)), atol=1e-3)


def test_rate_of_queries_is_the_arms() -> None:
    net = arms.make(arms.ARMS["rate-only"], SMALL, 7, structured=False)
    before = {n: p.clone() for n, p in net.named_parameters()}
    moved = {}
    for factor in (1.0, 2.5):
        net.load_state_dict(before)
        muon = optimizers(net, factor, 2.0)[0]
        for group in muon.param_groups:
            group["lr"] = 0.01 * group["factor"]
            group["weight_decay"] = 0.0
        net.zero_grad()
        net.logits(net.hidden(IDS)).square().mean().backward()  # type: ignore[no-untyped-call]
        muon.step()
        moved[factor] = {n: p - before[n] for n, p in net.named_parameters()}
    for name in before:
        if "proj" in name and "tau" not in name:
            want = moved[1.0][name] * (2.5 if "q_proj" in name else 1.0)
            assert torch.allclose(moved[2.5][name], want, atol=1e-6), name


@pytest.mark.parametrize("arm", sorted(arms.ARMS))
def test_every_arm_trains_saves_and_loads(arm: str, tmp_path: pathlib.Path) -> None:
    net = arms.make(arms.ARMS[arm], SMALL, 1, structured=False)
    for o in optimizers(net, arms.ARMS[arm].q_rate, 2.0):
        net.logits(net.hidden(IDS)).square().mean().backward()  # type: ignore[no-untyped-call]
        for group in o.param_groups:
            group["lr"] = 0.001 * group["factor"]
        o.step()
    block = {"tokens": 48, "seed": 1, "context_length": 24, "arm": arm}
    net.save(tmp_path, block)
    assert json.loads((tmp_path / "config.json").read_text())["training"] == block
    # Bounds of tau are stored times the root of the head width, and so rounded once more.
    assert torch.allclose(logits(load(tmp_path)), logits(net), atol=1e-6)


def test_bad_settings_are_refused() -> None:
    for make, words in (
        (lambda: Tau(mean="median"), "not one of causal"), (lambda: Tau(clip="hard"), "not one of"), (lambda: Tau(floor=2.0), "floor <= start"),
        (lambda: Attention(temperature=0.0), "not positive"), (lambda: Attention(temperature=0.4, tau=Tau()), "left out"),
        (lambda: Attention(log_n=1), "not 0"), (lambda: arms.named("typo"), "no arm 'typo'"), (lambda: data.DataOptions(easy=2), "not a share"),
        (lambda: run.Phase(1, 1, 1, {"typo": 1.0}), "unknown families: typo"), (lambda: arms.Arm(q_rate=-1), "not positive"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            make()


def test_the_plan_of_the_shipped_models() -> None:
    runs = [run.read(run.CONFIGS / "one_plan.toml", arm) for arm in ("baseline", "focal", "tau-causal")]
    assert all((r.plan, r.seed, r.shape) == (runs[0].plan, runs[0].seed, runs[0].shape) for r in runs)
    plan = runs[0].plan
    for name, arm in (("baseline", "baseline"), ("focal-constant", "focal"), ("focal-learned", "tau-causal")):
        trained = json.loads((ROOT / "models" / name / "config.json").read_text())["training"]
        tokens = sum(p.steps * p.rows * p.length for p in plan.phases)
        assert trained == {"tokens": tokens, "seed": runs[0].seed, "context_length": 4224, "arm": arm}
    assert plan.rate_at(0) < plan.rate_at(plan.warmup) and plan.rate_at(plan.steps - 1) < 0.02 * plan.learning_rate


TINY_PLAN = """
seed = 5
learning_rate = 0.001
muon_factor = 2.0
warmup = 2
points = [[0.5, 1.0], [1.0, 0.0]]
[[phases]]
steps = 3
rows = 5
length = 64
mix = {recall_kv = 1, icl_labels = 1, rag_facts = 1, longqa_story = 1, copy = 1}
data_options = {easy = 0.5, bridge = 0.5, friend = 1.0, hop = 1.0, documents = [2, 3], alike = 0.5}
hop_loss = 0.5
[[phases]]
steps = 3
rows = 2
length = 96
mix = {rag_facts = 1}
"""


def tiny(path: pathlib.Path, arm: str, plan: str = TINY_PLAN) -> run.Run:
    (path / "run.toml").write_text(plan)
    return run.read(path / "run.toml", arm)


@pytest.mark.parametrize("arm", ["focal", "tau-causal"])
def test_a_resumed_run_equals_an_uninterrupted_one(arm: str, tmp_path: pathlib.Path) -> None:
    config = tiny(tmp_path, arm)
    whole = train.Trainer(config, tmp_path / "whole")
    whole.train(1e9)
    first = train.Trainer(config, tmp_path / "parts")
    first.one_step()
    first.save()
    second = train.Trainer(config, tmp_path / "parts")
    second.export(tmp_path / "early")
    assert json.loads((tmp_path / "early/config.json").read_text())["trained_context_length"] == 64
    second.train(1e9)
    assert second.tokens == whole.tokens == 3 * 5 * 64 + 3 * 2 * 96
    for a, b in zip(whole.net.state_dict().values(), second.net.state_dict().values()):
        assert torch.equal(a, b)
    raw = json.loads((tmp_path / "parts/export/config.json").read_text())
    assert raw["training"] == {"tokens": whole.tokens, "seed": 5, "context_length": 96, "arm": arm}
    assert raw["trained_context_length"] == 96
    line = json.loads((tmp_path / "parts/log.jsonl").read_text().splitlines()[-1])
    assert line["step"] == 6 and line["loss"] > 0 and ("tau_bias" in line) == (arm == "tau-causal")


def test_a_state_of_another_run_is_refused(tmp_path: pathlib.Path) -> None:
    own = tiny(tmp_path, "focal")
    train.Trainer(own, tmp_path / "run").save()
    train.Trainer(own, tmp_path / "run")
    for other in (tiny(tmp_path, "baseline"), tiny(tmp_path, "focal", TINY_PLAN.replace("seed = 5", "seed = 6")),
                  tiny(tmp_path, "focal", TINY_PLAN.replace("steps = 3", "steps = 4"))):  # fmt: skip
        with pytest.raises(ValueError, match="of another plan, arm or seed"):
            train.Trainer(other, tmp_path / "run")


def test_questions_for_the_friend_and_through_two_documents_are_told_apart(tmp_path: pathlib.Path) -> None:
    trainer = train.Trainer(tiny(tmp_path, "baseline"), tmp_path / "run")
    rng, words = np.random.default_rng(8), trainer.words
    for bridge in (0.0, 1.0):
        trainer.tally = {}
        raw, marks = data.rag_facts(rng, words, 400, data.DataOptions(friend=1.0, hop=1.0, bridge=bridge), 0.5)
        ids = torch.tensor([raw])
        where = torch.tensor([marks], dtype=torch.bool)
        trainer.count_hits(ids, where, torch.ones(int(where.sum())), torch.zeros(int(where.sum()), dtype=torch.long))
        text = words.tokenizer.decode(raw)
        assert set(trainer.tally) == ({"rag_facts, friend"} if bridge else {"rag_facts, two documents"}), text


# ---- folding


@pytest.mark.parametrize("temperature, exact", [(0.5, True), (0.4, False)])
def test_fold_is_what_transformers_computes(temperature: float, exact: bool, tmp_path: pathlib.Path) -> None:
    from transformers import LlamaForCausalLM

    net = small(Attention(temperature=temperature))
    net.save(tmp_path / "focal")
    rounding = fold.fold(tmp_path / "focal", tmp_path / "plain")
    assert (rounding == 0) == exact and rounding < 1e-7
    theirs = LlamaForCausalLM.from_pretrained(tmp_path / "plain")
    with torch.no_grad():
        assert torch.allclose(theirs(IDS).logits, logits(net), atol=2e-5)
    assert "focal_attention" not in json.loads((tmp_path / "plain/config.json").read_text())
    if exact:  # not a bit differs: q * 2 and scale * 2 round alike
        assert torch.equal(logits(load(tmp_path / "plain")), logits(net))


def test_unfold_is_the_inverse(tmp_path: pathlib.Path) -> None:
    net = small(Attention())
    net.save(tmp_path / "plain")
    fold.unfold(tmp_path / "plain", tmp_path / "focal", 0.5)
    focal = load(tmp_path / "focal")
    assert focal.config.attention.temperature == 0.5 and torch.equal(logits(focal), logits(net))
    fold.fold(tmp_path / "focal", tmp_path / "again")
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "plain/model.safetensors").read_bytes()


def test_heads_are_folded_one_by_one(tmp_path: pathlib.Path) -> None:
    net = small(Attention())
    net.save(tmp_path / "plain", {"tokens": 48, "seed": 1, "context_length": 24, "arm": "baseline"})
    t = np.exp(np.random.default_rng(2).normal(0, 0.3, (2, 4)))
    fold.fold(tmp_path / "plain", tmp_path / "folded", t.tolist())
    assert "training" not in json.loads((tmp_path / "folded/config.json").read_text()), "it is no run of its training's arm"
    with torch.no_grad():
        for layer, block in enumerate(net.blocks()):
            w = block.self_attn.q_proj.weight.view(4, 8, -1)
            w /= torch.from_numpy(t[layer]).float()[:, None, None]
    assert torch.allclose(logits(load(tmp_path / "folded")), logits(net), atol=1e-5)


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "gemma3_text", "olmo2"])
def test_fold_of_other_families(family: str, tmp_path: pathlib.Path) -> None:
    """Biases, norms of queries, shared or of all heads, gains stored minus one: logits at t from transformers' own scale."""
    from transformers import AutoConfig, AutoModelForCausalLM

    shape = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=8, max_position_embeddings=64)  # fmt: skip
    extra = {"gemma3_text": dict(query_pre_attn_scalar=8, sliding_window=8, layer_types=["sliding_attention", "full_attention"])}
    torch.manual_seed(4)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape, **extra.get(family, {})), attn_implementation="eager")  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(0, 0.3) if "norm" not in name else p.add_(0.2 * torch.randn_like(p))
    model.save_pretrained(tmp_path / "plain")
    fold.fold(tmp_path / "plain", tmp_path / "folded", 0.5)
    folded = AutoModelForCausalLM.from_pretrained(tmp_path / "folded", attn_implementation="eager")
    before = model(IDS).logits
    for module in model.modules():
        if hasattr(module, "scaling") and hasattr(module, "q_proj"):
            module.scaling = module.scaling / 0.5
    assert torch.allclose(folded(IDS).logits, model(IDS).logits, atol=1e-5) and not torch.allclose(before, model(IDS).logits, atol=1e-3)


def test_what_cannot_be_folded_is_refused(tmp_path: pathlib.Path) -> None:
    small(Attention(tau=Tau())).save(tmp_path / "learned")
    small(Attention()).save(tmp_path / "plain")
    small(Attention(temperature=0.4)).save(tmp_path / "focal")
    for source, temperatures, words in (
        ("learned", None, "only constant"), ("plain", None, "exactly where"), ("focal", 0.5, "exactly where"),
        ("plain", [0.5, 0.5, 0.5], "the model has 2 layers of 4 heads"), ("plain", -1.0, "not positive"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            fold.fold(tmp_path / source, tmp_path / "out", temperatures)
    with pytest.raises(ValueError, match="directory of its own"):
        fold.fold(tmp_path / "focal", tmp_path / "focal")
    with pytest.raises(ValueError, match="already"):
        fold.unfold(tmp_path / "focal", tmp_path / "out", 0.5)
    raw = json.loads((tmp_path / "plain/config.json").read_text())
    (tmp_path / "plain/config.json").write_text(json.dumps(raw | {"num_hidden_layers": 3}))
    with pytest.raises(ValueError, match="2 of 3 layers"):
        fold.fold(tmp_path / "plain", tmp_path / "out", 0.5)


VARIFOCAL = pathlib.Path(os.environ.get("VARIFOCAL") or ROOT / "build/release/bin/varifocal")


@pytest.mark.skipif(not VARIFOCAL.exists(), reason=f"{VARIFOCAL} is not built")
def test_the_product_gives_the_same_bits_folded(tmp_path: pathlib.Path) -> None:
    """A shipped model run at t = 0.5, and folded: log-likelihoods of a continuation, to the last digit that is printed."""
    source = ROOT / "models/baseline"
    fold.fold(source, tmp_path / "folded", 0.5)
    found = []
    for extra in ([f"--model={source}", "--focal-temperature=0.5"], [f"--model={tmp_path / 'folded'}"], [f"--model={source}"]):
        out = subprocess.run([VARIFOCAL, "score", *extra, "--threads=1", "--format=json", "--per-token",
                              '--prompt={"amber falcon":"'], capture_output=True, text=True)  # fmt: skip
        assert out.returncode == 0, out.stderr
        found.append(json.loads(out.stdout)["token_log_probs"])
    assert found[0] == found[1] != found[2] and len(found[0]) > 3


def test_plans_refuse_unknown_keys(tmp_path: pathlib.Path) -> None:
    for plan, arm, words in (
        ("typo = 1\n" + TINY_PLAN, "focal", "unknown keys: typo"), (TINY_PLAN + "typo = 1\n", "focal", "unknown keys: typo"),
        (TINY_PLAN, "typo", "no arm 'typo'"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            tiny(tmp_path, arm, plan)


def test_config_json_round_trips() -> None:
    for attention in (Attention(), Attention(temperature=0.4), Attention(log_n=0), Attention(log_n=64, temperature=0.5)):
        assert Config.from_json(dataclasses.replace(SMALL, attention=attention).to_json()).attention == attention
