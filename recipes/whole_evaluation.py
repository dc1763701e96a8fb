"""A whole evaluation on one device: questions an hour of Varifocal, of HELMET's own script, and of programs that batch.

    python recipes/whole_evaluation.py --programs=build/gpu-check/carried --out=DIR [--shape=2.7b] [--device=cuda:0]
        [--lengths=8192,16384,32768] [--questions=40] [--seconds=480] [--helmet=CHECKOUT] [--peers=helmet,batching,vllm]
        [--daemon-flag=--attention-kernel=sm90 ..]
    python recipes/whole_evaluation.py --pack-wheels=DIR      # vLLM for a machine without a network, for its Python 3.12

The model has random weights of the shape (random_llama.py). The questions are those of `standard`, answered in writing, four to a context,
tasks in turns: exactly the prompts of `varifocal samples`, as token ids. Every program answers greedily, ends an answer at the task's stop
strings, and has the device to itself. Loading is not timed. varifocal: one daemon, a job a length, from prompts to scores; a context is
read once. The others are in evaluation_peers.py. A peer's rate is that of the questions for which its time sufficed.

Without --peers they are: helmet with a checkout, else loop; batching; vllm where it is installed. Those left out are named.

Goals, at each length: 3 times HELMET's own way, 1.2 times the best other peer, at equal output. Answers are compared as texts. bf16 products
differ between programs and random weights have near ties, so some part. Output counts as equal where first tokens are, in 0.9 of the
answers, and tokens an answer are within 5 %.

DIR/results.json is written after each length of each program; the same command continues from there. DIR/model has the weights and what else
is no result. Exit 0: all measured, all goals met;
1: a peer failed, a goal was missed or time did not suffice; 2: invalid usage.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time

from flags import MAYBE_PATH, Path, parser_of
from random_llama import SHAPES

HERE = pathlib.Path(__file__).resolve().parent
TASKS = ["recall_kv", "icl_labels", "rag_facts", "longqa_story"]
PEERS = ("helmet", "loop", "batching", "vllm")
OWN_WAY = ("helmet", "loop")  # held against the first goal, the others against the second
GOALS = "3,1.2"
EQUAL_FIRST, EQUAL_TOKENS = 0.9, 0.05
GROUP = 4
VLLM = "vllm==0.20.2"


def questions(program, model, length, count):
    """Prompts of one length as token ids, checked against the program's hashes; a context of each task in turn."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    texts = [tokenizer.decode([id]) for id in range(tokenizer.get_vocab_size())]
    command = [program, "samples", "standard", f"--tokenizer={model}", f"--lengths={length}", f"--tasks={','.join(TASKS)}", "--format=jsonl",
               f"--limit={count}"]
    rows = {task: [] for task in TASKS}
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        row = json.loads(line)
        ids = tokenizer.encode(row["prompt"], add_special_tokens=True).ids
        digest = hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()
        if digest != row["token_ids_sha256"]:
            sys.exit(f"error: question {row['question_id']} of {row['task']} has other token ids here than in the program")
        if any(len(stop) != 1 for stop in row["stop"]):
            sys.exit(f"error: {row['task']} has the stop strings {row['stop']}; peers stop at tokens that have one character of them")
        stop_ids = [id for id, text in enumerate(texts) if any(stop in text for stop in row["stop"])]
        rows[row["task"]].append({"task": row["task"], "index": row["index"], "ids": ids, "prompt": row["prompt"], "new": row["max_new_tokens"],
                                  "stop": row["stop"], "stop_ids": stop_ids})
    return [row for first in range(0, count, GROUP) for task in TASKS for row in rows[task][first : first + GROUP]]


def write_model(args, model):
    """In a process of its own, so that the device is free afterwards."""
    if not (model / "model.safetensors").exists():
        subprocess.run([sys.executable, HERE / "random_llama.py", f"--shape={args.shape}", f"--out={model}", f"--device={args.device}"], check=True,
                       timeout=max(1, args.end - time.monotonic()))


def key_of(row):
    return f"{row['task']} {row['index']}"


class Daemon:
    """Our side."""

    def __init__(self, args, model, out):
        self.args, self.database = args, model / "varifocal.db"
        for file in model.glob("varifocal.db*"):
            file.unlink()
        port = model / "port"
        port.unlink(missing_ok=True)
        command = [args.programs / "varifocald", f"--db={self.database}", f"--model=m={model}", f"--device={args.device}", "--dtype=bf16",
                   "--listen=127.0.0.1:0", f"--port-file={port}", *args.daemon_flag]
        self.log = (out / "varifocald.log").open("w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        try:
            while not port.exists() or not port.read_text().strip():
                if self.process.poll() is not None:
                    raise RuntimeError((out / "varifocald.log").read_text().strip().splitlines()[-1])
                if time.monotonic() > args.end:
                    raise TimeoutError("the model was not loaded in time")
                time.sleep(0.1)
        except Exception:
            self.close()
            raise
        self.address = f"127.0.0.1:{port.read_text().strip()}"

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def submit(self, length, *flags):
        command = [self.args.programs / "varifocal", "submit", "standard", f"--daemon={self.address}", "--models=m", f"--lengths={length}",
                   f"--tasks={','.join(TASKS)}", "--wait", *flags]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=max(1, self.args.end - time.monotonic()))

    def measure(self, length, rows):
        """The last job's seconds and answers, from the database."""
        self.submit(length, f"--limit={self.args.questions}")
        database = sqlite3.connect(self.database)
        job, begin, end = database.execute("SELECT job_id, start_us, end_us FROM jobs ORDER BY job_id DESC LIMIT 1").fetchone()
        found = database.execute("SELECT task, sample_index, answer, new_token_count, cached_token_count FROM v_samples"
                                 " WHERE is_primary AND job_id = ?", (job,)).fetchall()
        answers = {f"{task} {index}": {"text": answer or "", "new": new} for task, index, answer, new, _ in found}
        return {"questions": len(found), "seconds": (end - begin) / 1e6, "reused_tokens": sum(row[4] for row in found),
                "answers": [answers[key_of(row)] for row in rows]}


def ask_varifocal(args, model, lengths, asked, out):
    """Yields (length, result), each when it is measured."""
    with contextlib.closing(Daemon(args, model, out)) as daemon:
        daemon.submit(lengths[0], "--limit=1", "--seed=1000")  # what a first call loads
        for length in lengths:
            yield length, daemon.measure(length, asked[length])


def ask_peer(args, peer, model, lengths, seconds, out):
    """Yields (length, result), and raises with the reason where one failed; lengths before remain."""
    written = out / f"{peer}.jsonl"
    written.unlink(missing_ok=True)
    command = [sys.executable, HERE / "evaluation_peers.py", peer, f"--out={out}", f"--model={model}", f"--device={args.device}",
               f"--lengths={','.join(map(str, lengths))}", f"--seconds={seconds}", *([f"--helmet={args.helmet}"] if args.helmet else [])]
    index = args.device.partition(":")[2] or "0"
    why = ""
    with (out / f"{peer}.log").open("w") as log:
        try:
            ended = subprocess.run(command, stdout=log, stderr=log, env={**os.environ, "CUDA_VISIBLE_DEVICES": index}, timeout=seconds + 10)
            if ended.returncode != 0:
                lines = (out / f"{peer}.log").read_text(errors="replace").strip().splitlines() or ["no message"]
                why = next((line for line in reversed(lines) if "Error" in line), lines[-1])
        except subprocess.TimeoutExpired:
            why = f"its {seconds:.0f} s did not suffice"
    for line in written.read_text().splitlines() if written.exists() else []:
        row = json.loads(line)
        yield row.pop("length"), row
    if why:
        raise RuntimeError(why)


def cut(text, stops):
    return text[: min((at for at in (text.find(stop) for stop in stops) if at >= 0), default=len(text))].strip()


def compare(rows, ours, theirs):
    """Shares of equal answers and of equal beginnings, and tokens an answer of both, of the questions that the peer answered."""
    count = len(theirs)
    pairs = [(cut(a["text"], row["stop"]), cut(b["text"], row["stop"])) for row, a, b in zip(rows, ours, theirs)]
    return {"equal": sum(a == b for a, b in pairs) / count, "first": sum(a.split(" ")[0] == b.split(" ")[0] for a, b in pairs) / count,
            "our_tokens": sum(a["new"] for a in ours[:count]) / count, "their_tokens": sum(b["new"] for b in theirs) / count}


def table_and_faults(results, asked, lengths, peers, goals):
    """The rows to print, and what is not as it must be."""
    lines = ["| Length | Program | Questions | Tokens an answer | Tokens read, reused | Questions an hour | Varifocal is | Answers, first words equal |",
             "| ---: | --- | ---: | ---: | --- | ---: | ---: | --- |"]
    faults = []
    for length in lengths:
        rows, mine = asked[length], results.get("varifocal", {}).get(str(length))
        if mine is None:
            faults.append(f"{length}: varifocal was not measured")
            continue
        rate = mine["questions"] / mine["seconds"] * 3600
        read = sum(len(row["ids"]) for row in rows)
        new = sum(one["new"] for one in mine["answers"]) / len(mine["answers"])
        lines.append(f"| {length} | varifocal | {mine['questions']} | {new:.2f} | {read:,}, {mine['reused_tokens']:,} | {rate:,.0f} | | |")
        best = {}
        for peer in peers:
            done = results.get(peer, {}).get(str(length))
            if done is None:
                faults.append(f"{length}: {peer} was not measured")
                continue
            theirs = done["questions"] / done["seconds"] * 3600
            same = compare(rows, mine["answers"], done["answers"])
            reused = "unknown" if done["reused_tokens"] is None and peer not in OWN_WAY else f"{done['reused_tokens'] or 0:,}"
            read = sum(len(row["ids"]) for row in rows[: done["questions"]])
            lines.append(f"| {length} | {peer} | {done['questions']} | {same['their_tokens']:.2f} (ours {same['our_tokens']:.2f}) | {read:,}, {reused}"
                         f" | {theirs:,.0f} | {rate / theirs:.2f} times | {same['equal']:.0%}, {same['first']:.0%} |")
            if same["first"] < EQUAL_FIRST or abs(same["our_tokens"] - same["their_tokens"]) > EQUAL_TOKENS * same["their_tokens"]:
                faults.append(f"{length}: output is not equal to {peer}'s: {same['first']:.0%} of the first words, {same['our_tokens']:.2f} and"
                              f" {same['their_tokens']:.2f} tokens an answer")
            kind = 0 if peer in OWN_WAY else 1
            # HELMET's script itself, where it was run, is what the first goal is about.
            if kind not in best or (theirs > best[kind][0] if kind else peer == "helmet"):
                best[kind] = (theirs, peer)
        for kind, goal in enumerate(goals):
            if goal > 0 and kind not in best:
                faults.append(f"{length}: the goal of {goal:g} times {('HELMET', 'another program')[kind]} was not measured")
            elif goal > 0 and rate < goal * best[kind][0]:
                faults.append(f"{length}: goal missed: {rate / best[kind][0]:.2f} times {best[kind][1]}, it must be {goal:g}")
    return lines, faults


def pack_wheels(directory):
    """vLLM and what it needs. Its wheel alone exceeds 64 MiB."""
    platforms = [f"--platform=manylinux_2_{n}_x86_64" for n in range(35, 16, -1)] + ["--platform=manylinux2014_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--python-version=3.12", "--implementation=cp", "--abi=cp312",
               "--abi=abi3", "--abi=none", *platforms, f"--dest={directory}", VLLM]
    if subprocess.run(command).returncode != 0:
        return 1
    files = list(directory.glob("*.whl"))
    print(f"{directory}: {len(files)} wheels, {sum(file.stat().st_size for file in files) / 1e6:,.0f} MB; there:"
          f" python3 -m pip install --no-index --find-links={directory} {VLLM}")
    return 0


def chosen_peers(args, parser):
    """Those that were named, or those that are there."""
    if args.peers is not None:
        peers = list(filter(None, args.peers.split(",")))
        unknown = set(peers) - set(PEERS)
        if unknown:
            parser.error(f"no peer {', '.join(sorted(unknown))}; the peers are {', '.join(PEERS)}")
        if "helmet" in peers and args.helmet is None:
            parser.error("--peers=helmet needs --helmet=CHECKOUT of princeton-nlp/HELMET")
        return peers
    peers = ["helmet" if args.helmet else "loop", "batching"]
    if not args.helmet:
        print("helmet is left out: no checkout was given (--helmet=DIR); loop is in its place")
    if importlib.util.find_spec("vllm"):
        peers.append("vllm")
    else:
        print(f"vllm is left out: it is not installed ({VLLM}; --pack-wheels=DIR)")
    return peers


def main(arguments=None):
    parser = parser_of(
        __doc__,
        programs=dict(type=Path, default="build/release/bin", help="directory of varifocald and varifocal"), out=MAYBE_PATH, shape=tuple(SHAPES),
        device="cuda:0", lengths="8192,16384,32768", questions=dict(type=int, default=40, help="of every task and length, a multiple of four"),
        seconds=dict(type=float, default=480, help="of the whole call"), helmet=dict(type=Path, help="a checkout of princeton-nlp/HELMET"),
        peers=dict(help=f"of {', '.join(PEERS)}"), daemon_flag=dict(action="append", default=[], help="of varifocald; repeatable"),
        goals=dict(default=GOALS, help="times HELMET's way, times the best other; 0: not judged"), pack_wheels=MAYBE_PATH,
    )  # fmt: skip
    args = parser.parse_args(arguments)
    if args.pack_wheels:
        return pack_wheels(args.pack_wheels)
    if args.out is None:
        parser.error("--out=DIR is missing")
    if args.questions < GROUP or args.questions % GROUP:
        parser.error(f"--questions={args.questions} is not a multiple of {GROUP}, the questions of a context")
    args.end = time.monotonic() + args.seconds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the daemon and peers end too
    goals = [float(text) for text in args.goals.split(",")]
    if len(goals) != 2:
        parser.error(f"--goals={args.goals} must be two numbers")
    args.programs = args.programs.resolve()
    for program in ("varifocald", "varifocal"):
        if not (args.programs / program).exists():
            print(f"error: {args.programs} has no program {program}")
            return 1
    peers = chosen_peers(args, parser)
    lengths = [int(text) for text in args.lengths.split(",")]
    args.out.mkdir(parents=True, exist_ok=True)
    settings = {"shape": args.shape, "device": args.device, "questions": args.questions, "daemon_flags": args.daemon_flag}
    path = args.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {"settings": settings}
    if results["settings"] != settings:
        parser.error(f"{path} has results of {results['settings']}, not of {settings}")
    model = args.out / "model"
    try:
        write_model(args, model)
    except subprocess.SubprocessError as error:
        print(f"error: no model was written: {error}")
        return 1
    print(f"{args.shape}: random weights, LM head of {SHAPES[args.shape][6]:,} rows, those beyond the tokenizer's zero;"
          f" {time.monotonic() - args.end + args.seconds:.0f} s", flush=True)
    asked = {length: questions(args.programs / "varifocal", model, length, args.questions) for length in lengths}
    for length, rows in asked.items():
        (model / f"{length}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    faults = []
    for place, side in enumerate(["varifocal", *peers]):
        missing = [length for length in lengths if str(length) not in results.get(side, {})]
        left = args.end - time.monotonic() - 10
        if not missing:
            continue
        if left < 5:
            faults.append(f"{side}: no time left; the same command continues")
            continue
        began = time.monotonic()
        try:
            if side == "varifocal":
                measured = ask_varifocal(args, model, missing, asked, args.out)
            else:
                measured = ask_peer(args, side, model, missing, left / (len(peers) + 1 - place), args.out)
            for length, result in measured:
                results.setdefault(side, {})[str(length)] = result
                path.write_text(json.dumps(results))
                print(f"{side} {length}: {result['questions']} questions in {result['seconds']:.2f} s", flush=True)
        except (RuntimeError, TimeoutError, subprocess.SubprocessError, OSError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            faults.append(f"{side} failed: {said[-1] if said else type(error).__name__}")
        print(f"{side}: {time.monotonic() - began:.0f} s with loading", flush=True)
    lines, found = table_and_faults(results, asked, lengths, peers, goals)
    print("\n".join(lines))
    for fault in faults + found:
        print(f"FAULT {fault}")
    judged = "all goals met" if all(goals) else f"goals of 0 not judged (--goals={args.goals})"
    print(f"all measured, {judged}" if not faults + found else f"error: {len(faults + found)} faults")
    return 1 if faults + found else 0


if __name__ == "__main__":
    sys.exit(main())
