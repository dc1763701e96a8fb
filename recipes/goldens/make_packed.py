"""Golden files of packed checkpoints and of adapters: tiny checkpoints, SHA-256 of the values of every changed tensor, and
of some log-probabilities and greedy texts.

Values are those of packed_schemes.py, written from the formats. Where a scheme's package computes them on a CPU
(transformers' Fp8Dequantize, compressed-tensors, bitsandbytes), it must give the same bits in the file's number format.
Adapters are written and merged by PEFT in float64. Log-probabilities are those of make_architectures.py, of a plain
checkpoint with these values.

    python recipes/goldens make packed [NAME...]      (writes tests/testdata/goldens/packed)
    python recipes/goldens mutation_test packed       (writes its mutation_test.txt)
"""

import functools
import hashlib
import json
import pathlib
import shutil
import tempfile
import zlib

import torch
from safetensors.torch import load_file, save_file

import make_architectures
from golden_files import GOLDENS, first_clear, save_checkpoint
from cases import case, config_of, moe, rms
from packed_schemes import SCHEMES

OUT = GOLDENS / "packed"
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
NAMES = {BF16: "bfloat16", F16: "float16", F32: "float32"}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def one_layer(**keys):
    return rms(num_hidden_layers=1, **keys)


def ct(weights, fmt, activations=None):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None}
    return dict(quant_method="compressed-tensors", format=fmt, quantization_status="compressed", config_groups={"group_0": group},
                ignore=["lm_head"], kv_cache_scheme=None, sparsity_config={}, transform_config={}, version="0.15.0")  # fmt: skip


def ints(bits, strategy, symmetric, **more):
    return dict(num_bits=bits, type="int", strategy=strategy, symmetric=symmetric, dynamic=False) | more


FP8_CHANNEL = dict(num_bits=8, type="float", strategy="channel", symmetric=True, dynamic=False)
FP8_TENSOR = FP8_CHANNEL | dict(strategy="tensor")
FP8_BLOCK = FP8_CHANNEL | dict(strategy="block", block_structure=[24, 20])
DYNAMIC = dict(num_bits=8, type="float", strategy="token", symmetric=True, dynamic=True)


def fp8(block, scheme="dynamic"):
    return dict(quant_method="fp8", fmt="e4m3", activation_scheme=scheme, weight_block_size=block, modules_to_not_convert=["lm_head"])


def gptq(bits, group, **more):
    return dict(quant_method="gptq", bits=bits, group_size=group, damp_percent=0.1, desc_act=False, sym=True, true_sequential=True, checkpoint_format="gptq") | more


def bnb(**more):
    return dict(quant_method="bitsandbytes", load_in_4bit=False, load_in_8bit=False, llm_int8_threshold=6.0, llm_int8_skip_modules=None,
                bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype="bfloat16") | more  # fmt: skip


def packed(name, scheme, dtype, options, config, keys=None, kind="llama", golden=False, **more):
    return dict(case=case(kind, name, keys or one_layer(), **more), scheme=scheme, dtype=dtype, options=options, config=config, golden=golden)


CASES = [
    packed("fp8-blocks", "fp8", BF16, dict(block=[24, 20]), fp8([24, 20]), keys=rms(), golden=True),
    packed("fp8-even-blocks", "fp8", F32, dict(block=[16, 8]), fp8([16, 8])),
    packed("fp8-static", "fp8", BF16, dict(scales="tensor", scale_dtype=BF16, static=".activation_scale"), fp8(None, "static")),
    packed("fp8-older", "fp8", F16, dict(scales="tensor", shape=[1], name=".weight_scale", static=".input_scale"),
           dict(quant_method="fp8", activation_scheme="static", ignored_layers=["lm_head"])),
    packed("fp8-rows", "fp8", BF16, dict(scales="row", name=".weight_scale"), dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0, modules_to_not_convert=["lm_head"])),
    packed("fp8-experts", "fp8", BF16, dict(block=[24, 20]), fp8([24, 20]), kind="qwen3_moe", golden=True,
           keys=moe(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=28, norm_topk_prob=True, head_dim=8, decoder_sparse_step=1, num_hidden_layers=1)),
    packed("gptq", "gptq", F16, dict(bits=4, group=16, sym=True, with_order=True), gptq(4, 16)),
    packed("gptq-order", "gptq", F16, dict(bits=4, group=16, sym=False, order=True), gptq(4, 16, desc_act=True, sym=False), keys=rms(), golden=True),
    packed("gptq-borrow", "gptq", F16, dict(bits=4, group=16, sym=False, zero=0), gptq(4, 16, sym=False)),
    packed("gptq-8-whole", "gptq", BF16, dict(bits=8, group=-1, sym=False), gptq(8, -1, sym=False)),
    packed("gptq-8-newer", "gptq", F32, dict(bits=8, group=8, sym=False, v2=True, order=True), gptq(8, 8, sym=False, desc_act=True, checkpoint_format="gptq_v2")),
    packed("awq", "awq", F16, dict(group=16), dict(quant_method="awq", bits=4, group_size=16, version="gemm", zero_point=True, modules_to_not_convert=None), keys=rms(), golden=True),
    packed("ct-int4", "ct", BF16, dict(weights=ints(4, "group", True, group_size=8), format="pack-quantized"), ct(ints(4, "group", True, group_size=8), "pack-quantized")),
    packed("ct-int4-zeros", "ct", BF16, dict(weights=ints(4, "group", False, group_size=4), format="pack-quantized"),
           ct(ints(4, "group", False, group_size=4), "pack-quantized"), keys=rms(intermediate_size=52), golden=True),
    packed("ct-int8-packed", "ct", F16, dict(weights=ints(8, "channel", True), format="pack-quantized", dtype=F16), ct(ints(8, "channel", True), "pack-quantized")),
    packed("ct-int8", "ct", BF16, dict(weights=ints(8, "channel", True), format="int-quantized"),
           ct(ints(8, "channel", True), "int-quantized", ints(8, "token", True, dynamic=True))),
    packed("ct-int8-zeros", "ct", F32, dict(weights=ints(8, "channel", False), format="int-quantized", dtype=F32), ct(ints(8, "channel", False), "int-quantized")),
    packed("ct-fp8", "ct", BF16, dict(weights=FP8_CHANNEL, format="float-quantized", input_scale=True), ct(FP8_CHANNEL, "float-quantized", DYNAMIC), keys=rms(), golden=True),
    packed("ct-fp8-tensor", "ct", BF16, dict(weights=FP8_TENSOR, format="float-quantized"), ct(FP8_TENSOR, "float-quantized", FP8_TENSOR)),
    packed("ct-fp8-block", "ct", BF16, dict(weights=FP8_BLOCK, format="float-quantized"), ct(FP8_BLOCK, "float-quantized", DYNAMIC)),
    packed("bnb-nf4", "bnb4", BF16, dict(kind="nf4", nested=True, dtype=BF16), bnb(load_in_4bit=True), keys=one_layer(intermediate_size=520), golden=True),
    packed("bnb-fp4", "bnb4", F16, dict(kind="fp4", nested=False, dtype=F16, storage=BF16), bnb(load_in_4bit=True, bnb_4bit_quant_type="fp4", bnb_4bit_use_double_quant=False)),
    packed("bnb-int8", "int8", F16, dict(values=F32), bnb(load_in_8bit=True)),
]  # fmt: skip

MISTAKES = {
    "fp8": ["divided by the scale", "no scale", "scales transposed", "block sides swapped", "blocks by equal division", "E5M2"],
    "gptq": ["no offset of zero points", "offset of each field", "offset in the newer format", "g_idx ignored", "zero points ignored",
             "fields from the high end", "zero points from the high end"],
    "awq": ["weights in order", "zero points in order", "weights: order inverted", "zero points: order inverted", "zero points plus one"],
    "ct": ["no offset", "fields from the high end", "zero points ignored", "zero points along columns", "groups along outputs"],
    "bnb4": ["low half first", "no offset of nested scales", "blocks twice as long", "shape transposed"],
    "int8": ["127 is 128", "scales of columns"],
}  # fmt: skip


def digest(tensor):
    return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def write(entry, generator, plain, directory=None):
    """Writes the packed checkpoint and the plain one of its values; beside a golden also their digests."""
    pack, values, oracle = SCHEMES[entry["scheme"]]
    options, dtype = entry["options"], entry["dtype"]
    read_to = options.get("values", dtype)
    stored, exact = {}, {}
    for name, w in make_architectures.weights_of(entry["case"], generator).items():
        w = w.to(dtype)
        if w.dim() != 2 or not name.removesuffix(".weight").endswith(PROJECTIONS):
            stored[name] = exact[name] = w.contiguous()
            continue
        tensors = pack(w.float(), options)
        rounded = values(tensors, options).float().to(read_to)
        if oracle is not None and (theirs := oracle(tensors, options)) is not None:
            # Theirs may be in the format of the scales, which the file's number format is.
            assert torch.equal(theirs.to(read_to), rounded), (entry["case"]["name"], name)
        exact[name] = rounded.contiguous()
        stored |= {name.removesuffix(".weight") + suffix: t.clone().contiguous() for suffix, t in tensors.items()}
    is_base, directory = directory is not None, directory or OUT / entry["case"]["name"]
    config = config_of(entry["case"]) | {"torch_dtype": NAMES[dtype]}
    save_checkpoint(directory, config | {"quantization_config": entry["config"]}, stored)
    save_checkpoint(plain, config, exact)
    if is_base:
        return directory
    digests = {name: digest(w) for name, w in sorted(exact.items()) if name not in stored or stored[name].dtype != w.dtype}
    (directory / "values.json").write_text(json.dumps({"type": {BF16: "bf16", F16: "f16", F32: "f32"}[read_to], "sha256": digests}, indent=1) + "\n")
    return directory


def golden(name, directory, make_checkpoint):
    """The runs of make_architectures.py, of the plain checkpoint that `make_checkpoint(generator, plain)` writes."""
    with tempfile.TemporaryDirectory() as scratch:
        make_architectures.OUT = pathlib.Path(scratch)
        make_architectures.write_checkpoint = lambda plain, _, generator: make_checkpoint(generator, plain)
        seed, runs, worst = first_clear(name, lambda seed: make_architectures.make(case("llama", name, rms()), seed))
    (directory / "golden.json").write_text(make_architectures.compact(runs))
    print(f"{name:16} seed +{seed}  agree to {worst:.1e}", flush=True)


def make_adapter(name, base_case, options, generator, plain):
    """A base, an adapter by PEFT, and the merged values of PEFT in float64, rounded to float32."""
    import peft
    from transformers import AutoModelForCausalLM

    directory = OUT / name
    shutil.rmtree(directory, ignore_errors=True)
    base = directory / "base"
    if "scheme" in base_case:  # packed: what it is read to
        write(base_case, generator, plain, base)
        weights, unpacked = load_file(plain / "model.safetensors"), plain
    else:
        weights, unpacked = {k: v.to(BF16).contiguous() for k, v in make_architectures.weights_of(base_case, generator).items()}, base
        save_checkpoint(base, config_of(base_case), weights)
    config = json.loads((unpacked / "config.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(unpacked, dtype=torch.float64)
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_" in key:
                p.copy_((torch.randn(p.shape, generator=generator) * 0.2).float())
            elif "modules_to_save" in key:
                p.add_((torch.randn(p.shape, generator=generator) * 0.1)).copy_(p.float())
    adapter = directory / "adapter"
    model.save_pretrained(adapter)
    (adapter / "README.md").unlink(missing_ok=True)
    settings = json.loads((adapter / "adapter_config.json").read_text()) | {"base_model_name_or_path": "base"}
    (adapter / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    tensors = {k: v.float().contiguous() for k, v in load_file(adapter / "adapter_model.safetensors").items()}
    save_file(tensors, adapter / "adapter_model.safetensors", metadata={"format": "pt"})
    merged = {k: v for k, v in model.merge_and_unload().state_dict().items() if k in weights}
    changed = {k: v.float() for k, v in merged.items() if k not in weights or not torch.equal(v, weights[k].double())}
    assert changed
    (directory / "values.json").write_text(json.dumps({"type": "f32", "sha256": {k: digest(v) for k, v in sorted(changed.items())}}, indent=1) + "\n")
    save_checkpoint(plain, config, weights | changed)
    return directory


GPT2_KEYS = dict(
    n_embd=32, n_layer=1, n_head=4, n_positions=384, n_ctx=384, n_inner=None, activation_function="gelu_new",
    layer_norm_epsilon=1e-5, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, reorder_and_upcast_attn=False, tie_word_embeddings=True,
)  # fmt: skip
ADAPTERS = {
    "lora": (case("llama", "lora", rms()), dict(r=4, lora_alpha=6, target_modules=list(PROJECTIONS), rank_pattern={"down_proj": 2, "layers.1.self_attn.q_proj": 3},
                                               alpha_pattern={"o_proj": 5}), True),
    "lora-stabilized": (case("llama", "lora-stabilized", one_layer()), dict(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj"], use_rslora=True), False),
    "lora-saved": (case("llama", "lora-saved", one_layer()), dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"]), False),
    "lora-embedding": (case("llama", "lora-embedding", one_layer()), dict(r=2, lora_alpha=4, target_modules=["embed_tokens", "lm_head", "k_proj"]), False),
    "lora-transposed": (case("gpt2", "lora-transposed", GPT2_KEYS), dict(r=2, lora_alpha=4, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True), False),
    "lora-nf4": (packed("lora-nf4", "bnb4", BF16, dict(kind="nf4", nested=True, dtype=BF16), bnb(load_in_4bit=True), keys=one_layer()),
                 dict(r=4, lora_alpha=6, target_modules=list(PROJECTIONS)), True),
}  # fmt: skip


def main(names):
    rows = [(entry["case"]["name"], entry["golden"], functools.partial(write, entry)) for entry in CASES]
    rows += [(name, is_golden, functools.partial(make_adapter, name, *made)) for name, (*made, is_golden) in ADAPTERS.items()]
    for name, is_golden, make in rows:
        if names and name not in names:
            continue
        if is_golden:
            golden(name, OUT / name, make)
        else:
            with tempfile.TemporaryDirectory() as scratch:
                make(torch.Generator().manual_seed(zlib.crc32(name.encode())), pathlib.Path(scratch) / "plain")


def mutation_test():
    """How many values each mistake changes in each checkpoint, and by how much of their root mean square."""
    lines = ["checkpoint        mistake                          changed values  root mean square of the change, relative"]
    seen = set()
    for entry in CASES:
        name, (_, values, _) = entry["case"]["name"], SCHEMES[entry["scheme"]]
        tensors = load_file(OUT / name / "model.safetensors")
        modules = sorted({n.split(p)[0] + p for n in tensors for p in PROJECTIONS if p in n})
        of = [{n.removeprefix(m): t for n, t in tensors.items() if n.startswith(m + ".")} for m in modules]
        for mistake in MISTAKES[entry["scheme"]]:
            total = changed = 0
            error = power = 0.0
            for t in of:
                right = values(t, entry["options"])
                try:
                    wrong = values(t, entry["options"], [mistake])
                except (RuntimeError, IndexError):
                    continue
                if wrong.shape != right.shape:
                    continue
                total += right.numel()
                wrong = wrong.nan_to_num()
                changed += (wrong.to(entry["dtype"]) != right.to(entry["dtype"])).sum().item()
                error += ((wrong - right) ** 2).sum().item()
                power += (right**2).sum().item()
            if changed:
                seen.add((entry["scheme"], mistake))
                lines.append(f"{name:17} {mistake:32} {changed / total:14.3f}  {(error / power) ** 0.5:10.3g}")
    missed = [(s, m) for s, ms in MISTAKES.items() for m in ms if (s, m) not in seen]
    assert not missed, missed
    (OUT / "mutation_test.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
