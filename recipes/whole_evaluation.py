"""A whole evaluation on one device: questions an hour of Varifocal, of transformers as HELMET's script asks, and of vLLM.

    python recipes/whole_evaluation.py --program=build/gpu-check/bin/varifocal --out=DIR [--shape=2.7b] [--device=cuda:0]
        [--lengths=8192,16384,32768] [--questions=100] [--seconds=300] [--peers=transformers,vllm]

The model has random weights of the shape and the tokenizer of models/baseline. The questions are those of `standard`, answered in
writing, four to a context: exactly the prompts of `varifocal samples`, as token ids. Loading is not timed. Each program
answers greedily and has the device to itself:

    varifocal     one job a length; a context is read once, its further questions reuse it
    transformers  one prompt at a time, sdpa, nothing reused: what HELMET's script does
    vllm          all prompts at once, with its prefix cache

transformers stops at the first question after its share of --seconds, and vLLM takes as many as its first four allow. A peer's rate is
that of what it answered, the first questions of a length; varifocal's rate beside it is of all. Answers are compared token by token up to the first difference: bf16
products differ between programs, and random weights have near ties. DIR/results.json keeps the numbers; the table is printed.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TASKS = "recall_kv,icl_labels,rag_facts,longqa_story"
# Layers, width, heads, KV heads, head dim, hidden units.
SHAPES = {
    "2.7b": (32, 2560, 20, 20, 128, 6912),
    "8b": (32, 4096, 32, 8, 128, 14336),
    "tiny": (2, 128, 4, 2, 32, 256),
}
PEERS = ("transformers", "vllm")


def write_model(directory, shape, positions):
    """Random bf16 weights; no token ends an answer, so all programs write as many."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    if (directory / "model.safetensors").exists():
        return
    layers, width, heads, kv_heads, dim, hidden = SHAPES[shape]
    words = json.loads((ROOT / "models/baseline/config.json").read_text())["vocab_size"]
    config = LlamaConfig(vocab_size=words, hidden_size=width, intermediate_size=hidden, num_hidden_layers=layers,
                         num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=dim, max_position_embeddings=positions,
                         rope_theta=1e6, bos_token_id=None, eos_token_id=None, pad_token_id=None, tie_word_embeddings=False)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    LlamaForCausalLM(config).save_pretrained(directory, max_shard_size="100GB")
    torch.set_default_dtype(torch.float32)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (ROOT / "models/baseline" / name).exists():
            shutil.copy(ROOT / "models/baseline" / name, directory)


def questions(program, model, length, count):
    """Prompts of one length as token ids, checked against the program's hashes."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    command = [program, "samples", "standard", f"--tokenizer={model}", f"--lengths={length}", f"--tasks={TASKS}", "--format=jsonl",
               f"--limit={count}"]
    rows = []
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        row = json.loads(line)
        ids = tokenizer.encode(row["prompt"], add_special_tokens=True).ids
        digest = hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()
        if digest != row["token_ids_sha256"]:
            sys.exit(f"error: question {row['question_id']} of {row['task']} has other token ids here than in the program")
        rows.append({"task": row["task"], "index": row["index"], "length": length, "ids": ids, "new": row["max_new_tokens"]})
    return rows


def ask_varifocal(args, model, lengths, out):
    """Seconds, answers and token counts by length, from the database of a job each."""
    results = {}
    for length in lengths:
        path = out / f"{length}.db"
        path.unlink(missing_ok=True)
        subprocess.run([args.program, "run", "standard", f"--db={path}", f"--model=m={model}", f"--device={args.device}", "--dtype=bf16",
                        f"--lengths={length}", f"--tasks={TASKS}", f"--limit={args.questions}"], check=True, stdout=subprocess.DEVNULL)
        database = sqlite3.connect(path)
        begin, end = database.execute("SELECT start_us, end_us FROM jobs").fetchone()
        rows = database.execute("SELECT task, sample_index, answer, new_token_count, cached_token_count, prompt_token_count"
                                " FROM v_samples WHERE is_primary").fetchall()
        results[length] = {"seconds": (end - begin) / 1e6, "asked": len(rows), "new_tokens": sum(r[3] for r in rows),
                           "prompt_tokens": sum(r[5] for r in rows), "reused_tokens": sum(r[4] for r in rows),
                           "answers": {f"{r[0]} {r[1]}": r[2] for r in rows}}
    return results


def ask_transformers(model, device, rows, seconds):
    import torch
    from transformers import AutoModelForCausalLM

    place = "cuda" if device.startswith("cuda") else "cpu"
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, attn_implementation="sdpa").to(place).eval()

    def answer(row):
        ids = torch.tensor([row["ids"]], device=place)
        made = loaded.generate(ids, max_new_tokens=row["new"], do_sample=False, attention_mask=torch.ones_like(ids))
        return made[0, ids.shape[1]:].tolist()

    answer(rows[0])
    began, done = time.monotonic(), []
    for row in rows:
        if time.monotonic() - began > seconds:
            break
        done.append(answer(row))
    return time.monotonic() - began, done


def ask_vllm(model, device, rows, seconds):
    """All prompts of a length at once, as many as `seconds` allow by a first batch."""
    from vllm import LLM, SamplingParams

    longest = max(len(row["ids"]) + row["new"] for row in rows)
    engine = LLM(model=str(model), dtype="bfloat16", enable_prefix_caching=True, max_model_len=longest, skip_tokenizer_init=True)

    def answer(some):
        made = engine.generate([{"prompt_token_ids": row["ids"]} for row in some],
                               [SamplingParams(temperature=0, max_tokens=row["new"], ignore_eos=True, detokenize=False) for row in some],
                               use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in made]

    began = time.monotonic()
    answer(rows[:4])
    fitting = max(4, int(seconds / ((time.monotonic() - began) / 4)))
    engine.reset_prefix_cache()
    began = time.monotonic()
    done = answer(rows[:fitting])
    return time.monotonic() - began, done


def peer_main(args):
    """In a process of its own, so that the device is free afterwards: reads questions, writes seconds and answers."""
    rows = [json.loads(line) for line in (args.out / f"{args.length}.jsonl").open()]
    ask = {"transformers": ask_transformers, "vllm": ask_vllm}[args.peer]
    seconds, done = ask(args.out / "model", args.device, rows, args.seconds)
    (args.out / f"{args.peer}-{args.length}.json").write_text(json.dumps({"seconds": seconds, "answers": done}))


def compare(model, rows, ours, theirs):
    """Share of answers that are equal, and of first tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    equal = first = 0
    for row, ids in zip(rows, theirs):
        text, answer = tokenizer.decode(ids), ours["answers"][f"{row['task']} {row['index']}"] or ""
        # Ours ends at a stop string of its task.
        equal += text.strip().startswith(answer.strip())
        first += answer.strip()[:1] == text.strip()[:1]
    return equal / len(theirs), first / len(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/varifocal")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--shape", choices=SHAPES, default="2.7b")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--lengths", default="8192,16384,32768")
    parser.add_argument("--questions", type=int, default=100, help="of every task and length")
    parser.add_argument("--seconds", type=float, default=300, help="of every peer, over all lengths")
    parser.add_argument("--peers", default="transformers,vllm")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return peer_main(args)
    unknown = set(filter(None, args.peers.split(","))) - set(PEERS)
    if unknown:
        parser.error(f"no peer {', '.join(sorted(unknown))}; the peers are {', '.join(PEERS)}")
    lengths = [int(text) for text in args.lengths.split(",")]
    model = args.out / "model"
    args.out.mkdir(parents=True, exist_ok=True)
    write_model(model, args.shape, max(lengths) + 4096)
    asked = {length: questions(args.program, model, length, args.questions) for length in lengths}
    for length, rows in asked.items():
        (args.out / f"{length}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ours = ask_varifocal(args, model, lengths, args.out)
    results = {"shape": args.shape, "device": args.device, "varifocal": ours}
    print(f"| Length | Program | Questions | Tokens read, reused | Questions an hour | Varifocal is | Answers, first tokens equal |")
    print("| ---: | --- | ---: | --- | ---: | ---: | --- |")
    for length in lengths:
        mine = ours[length]
        rate = mine["asked"] / mine["seconds"] * 3600
        print(f"| {length} | varifocal | {mine['asked']} | {mine['prompt_tokens']:,}, {mine['reused_tokens']:,} | {rate:,.0f} | | |", flush=True)
        for peer in filter(None, args.peers.split(",")):
            command = [sys.executable, __file__, f"--peer={peer}", f"--length={length}", f"--out={args.out}", f"--device={args.device}",
                       f"--seconds={args.seconds / len(lengths)}"]
            index = args.device.partition(":")[2] or "0"
            ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": index})
            if ended.returncode != 0:
                lines = ended.stderr.strip().splitlines() or ["no message"]
                why = next((line for line in reversed(lines) if "Error" in line), lines[-1])
                print(f"| {length} | {peer} | failed: {why} | | | | |", flush=True)
                continue
            answered = json.loads((args.out / f"{peer}-{length}.json").read_text())
            done = answered["answers"]
            theirs = len(done) / answered["seconds"] * 3600
            equal, first = compare(model, asked[length], mine, done)
            read = sum(len(row["ids"]) for row in asked[length][: len(done)])
            print(f"| {length} | {peer} | {len(done)} | {read:,} | {theirs:,.0f} | {rate / theirs:.1f} times | {equal:.0%}, {first:.0%} |", flush=True)
            results.setdefault(peer, {})[length] = {"questions": len(done), "seconds": answered["seconds"], "equal": equal, "first": first}
    (args.out / "results.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
