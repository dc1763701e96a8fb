"""Times our kernels and models against PyTorch's and Hugging Face's on one device, alternately, and compares them with goals.

Method: the cells are gpu_bench's, in its order; random inputs from fixed seeds; both sides warmed up and timed by the
device's own clock; rounds A, B, A, B; medians with their range, the clock and the power while they ran. The ceilings (a large
product, a large copy) come first and last, and the run is marked unsteady when they differ by more than 3 %. gpu_bench checks
every answer before it times it; the peers' answers are checked here, and whole models must agree with each other on the same
weights. Cells that do not fit into the time are skipped by name. Without PyTorch the table has only our times.

Nothing is lost to a cell that ends gpu_bench or does not answer: it is reported with the signal and the last line of
standard error, gpu_bench is started again, and the run continues. Each row is appended to cells.jsonl as it is measured; a later
run with the same --out and backend takes those that are right from there and measures the others.

    python3 recipes/gpu_peers.py --bench=build/gpu-check/bin/gpu_bench --out=docs/gpu [--seconds=400] [--rounds=5]
    python3 recipes/gpu_peers.py --bench=... --out=/tmp --tiny       on the emulator and the CPU: tests this file
"""

import datetime
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from flags import parse
from gpu_goals import IN_ROW, complete, floor_ms, goal_of
from gpu_peer_calls import Peers, first_line, torch
from gpu_table import json_lines

STEADY = 0.03  # how far the ceilings may drift within a run
SLOW_MS = 1500  # a cell above this gets two rounds
KERNEL_FLAGS = ["attention-kernel", "product-kernel", "decode-kernels"]


class TimeUp(BaseException):
    """Not an Exception, which costs a peer its column."""


class BenchEnded(Exception):
    """gpu_bench ended or did not answer: why, with its last words."""


class Bench:
    """gpu_bench as a server: a cell's name in, one round out. Started again after it has ended."""

    def __init__(self, path, tiny, scratch, out, seconds_max, injected, kernels):
        self.command = [path, "--serve", "--scratch=" + scratch] + kernels + (["--device=emulated", "--tiny"] if tiny else [])
        self.seconds_max, self.injected = seconds_max, injected
        self.errors = open(os.path.join(out, "gpu_bench.log"), "ab+")
        self.process = None
        self.info = self.start()

    def start(self):
        self.mark = self.errors.seek(0, os.SEEK_END)
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.pending = b""
        return self.read("its cells")

    def read(self, what):
        deadline = time.monotonic() + self.seconds_max
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.process.kill()
                self.process.wait()
                raise BenchEnded(f"no answer in {self.seconds_max:g} s at {what}{self.last_words()}")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                code = self.process.wait()
                how = f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"
                raise BenchEnded(f"gpu_bench ended with {how} at {what}{self.last_words()}")
            self.pending += piece
        line, self.pending = self.pending.split(b"\n", 1)
        try:
            return json.loads(line)
        except ValueError:
            self.process.kill()
            self.process.wait()
            raise BenchEnded(f"no JSON at {what}: {line[:200].decode(errors='replace')}") from None

    def last_words(self):
        self.errors.seek(self.mark)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return ": " + lines[-1][:200] if lines else ""

    def round(self, name):
        if self.process.poll() is not None:
            self.start()
        how = self.injected.get(name)
        try:
            self.process.stdin.write((name + (" " + how if how else "") + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says how it ended
        return self.read("cell " + name)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.errors.close()


class Sampler:
    """Clock and power a few times a second, from nvidia-smi where there is one."""

    def __init__(self, tiny):
        query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-lms", "200"]
        command = ["sh", "-c", "while sleep 0.05; do echo 1000, 50.5; done"] if tiny else query
        self.samples = []
        self.process = None
        if shutil.which(command[0]):
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for line in self.process.stdout:
            try:
                clock, power = (float(x) for x in line.split(","))
            except ValueError:
                continue
            self.samples.append((time.monotonic(), clock, power))

    def since(self, begin):
        inside = [s for s in self.samples if s[0] >= begin]
        if not inside:
            return {}
        return {"sm_mhz": statistics.median(s[1] for s in inside), "watts": statistics.median(s[2] for s in inside)}

    def close(self):
        if self.process:
            self.process.kill()


def run_cell(cell, bench, peers, rounds, sampler):
    """One row of the report: our rounds and the peers', in turns."""
    row = {"cell": cell["cell"], "kind": cell["kind"], "peers": {}}
    begin = time.monotonic()
    first = bench.round(cell["cell"])  # sets the cell up, checks it and warms the device
    if "refused" in first:
        return {**row, "refused": first["refused"]}
    calls = {}
    if first["right"]:
        try:
            offered = peers.of(cell, first)
        except Exception as problem:  # a peer that does not work costs its column, not the run
            offered = {}
            row["peers"]["?"] = {"refused": first_line(problem)}
        for name, (run, check, *times) in offered.items():
            try:
                error, limit = check()
                if not error <= limit:
                    raise RuntimeError(f"its answer is off by {error:.2g}, above {limit:.2g}")
                kernel = peers.kernel(run) if cell["kind"] in ("attention", "decode", "decode_product", "product") else None
                calls[name] = (run, times[0] if times else 1)
                row["peers"][name] = {"error": error, **({"kernel": kernel} if kernel else {})}
            except Exception as problem:
                row["peers"][name] = {"refused": first_line(problem)}
    ours, theirs = [first], {name: [] for name in calls}
    wanted = 1 if not first["right"] else min(rounds, 2) if first["ms"] > SLOW_MS else rounds
    for turn in range(wanted):
        if turn > 0:
            ours.append(bench.round(cell["cell"]))
        for name, (run, times) in list(calls.items()):
            try:
                theirs[name].append(peers.time(run) * times)
            except Exception as problem:  # out of memory, say
                row["peers"][name] = {"refused": first_line(problem)}
                del calls[name], theirs[name]
    wrong = [r.get("wrong", r.get("refused")) for r in ours if not r.get("right")]
    if wrong:
        row["wrong"] = wrong[0]
    middle = lambda key: statistics.median(r.get(key, 0.0) for r in ours)
    row.update(ms=middle("ms"), ms_min=min(r.get("ms", 0) for r in ours), ms_max=max(r.get("ms", 0) for r in ours),
               rounds=len(ours), seconds=round(time.monotonic() - begin, 2), **sampler.since(begin))
    for key in sorted({key for r in ours for key in r} - {"cell", "right", "ms", "logits", "wrong", "refused"}):
        row[key] = middle(key)
    for name, found in theirs.items():
        if found:
            row["peers"][name].update(ms=statistics.median(found), ms_min=min(found), ms_max=max(found))
    return row


def compare(report, cells):
    """What each cell is held against: milliseconds of the other side, the ratio, the goal."""
    rows = {row["cell"]: row for row in report["cells"]}
    product, copy = rows.get("ceiling_product"), rows.get("ceiling_copy")
    for row in report["cells"]:
        cell = complete(cells[row["cell"]], report["backend"], row)
        others = {name: found["ms"] for name, found in row["peers"].items() if "ms" in found}
        if row.get("ms"):
            if product and copy and product.get("tflops") and copy.get("gbps"):
                if cell["kind"].startswith("model"):
                    others["floor"] = floor_ms(row, product["tflops"], copy["gbps"])
                if cell["kind"] == "decode":
                    others["copy"] = row.get("bytes", 0) / copy["gbps"] * 1e-6
            others.update({name: row[key] for key, name in IN_ROW if row.get(key)})
            if cell["shared"]:
                plain = rows.get(row["cell"].replace("cascade", "decode"))
                if plain and plain.get("ms"):
                    others["unshared"] = plain["ms"]
        row["against"] = {}
        for name, ms in others.items():
            if row.get("ms"):
                goal, ratio = goal_of(cell, name), ms / row["ms"]
                row["against"][name] = {"ms": ms, "ratio": ratio, "goal": goal,
                                        "met": None if goal is None else ratio >= goal}


def versions(info, tiny):
    found = {"python": sys.version.split()[0], "torch": torch.__version__ if torch else None}
    if torch and not tiny:
        found.update(cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())
    try:
        import transformers
        found["transformers"] = transformers.__version__
    except ImportError:
        found["transformers"] = None
    if shutil.which("nvidia-smi"):
        ask = lambda what: subprocess.run(["nvidia-smi", "--query-gpu=" + what, "--format=csv,noheader"], capture_output=True, text=True).stdout
        found.update(driver=ask("name,driver_version,clocks.max.sm,power.limit").strip(), capability=ask("compute_cap").split("\n")[0].strip())
    return found


def table(report):
    lines = [f"{report['device']}, {report['backend']}; " + ", ".join(f"{k} {v}" for k, v in report["versions"].items() if v)]
    lines += report["notes"]
    lines.append(f"{'cell':34} {'ms':>10} {'range':>6} {'TFLOP/s':>8} {'GB/s':>7} {'error':>8}  against: ms, times as fast (goal)")
    met = missed = 0
    for row in report["cells"]:
        if "refused" in row or "wrong" in row:
            lines.append(f"{row['cell']:34} {'WRONG: ' + row['wrong'] if 'wrong' in row else 'not run: ' + row['refused']}")
            continue
        words = []
        for name, found in row["against"].items():
            goal = found["goal"]
            met += bool(found["met"])
            missed += found["met"] is False
            verdict = "" if goal is None else f" ({goal:g} {'met' if found['met'] else 'MISSED'})"
            words.append(f"{name} {found['ms']:.4g}, {found['ratio']:.3g}{verdict}")
        words += [f"{name}: {found['refused']}" for name, found in row["peers"].items() if "refused" in found]
        spread = (row["ms_max"] - row["ms_min"]) / row["ms"] if row["ms"] else 0
        lines.append(f"{row['cell']:34} {row['ms']:10.4f} {spread:6.1%} {row.get('tflops', 0):8.1f} {row.get('gbps', 0):7.0f} "
                     f"{row.get('error', 0):8.1e}  {'; '.join(words)}")
    for key, unit in (("product_tflops", "TFLOP/s"), ("copy_gbps", "GB/s")):
        values = [f"{report[when].get(key, 0):.0f}" for when in ("ceilings_first", "ceilings_last") if report.get(when)]
        lines.append(f"ceiling {key.split('_')[0]}: {' -> '.join(values)} {unit}")
    steady = report.get("steady")
    lines.append("the ceilings were not measured again: no word on steadiness" if steady is None else
                 "steady" if steady else f"NOT STEADY: the ceilings moved by more than {STEADY:.0%}; discard this run")
    if report.get("left_out"):
        lines.append(f"left out for lack of time ({len(report['left_out'])}): " + ", ".join(report["left_out"]))
    wrong = [row["cell"] for row in report["cells"] if "wrong" in row]
    lines.append(f"goals met: {met}, missed: {missed}; wrong answers: {len(wrong)}" + (": " + ", ".join(wrong) if wrong else ""))
    return "\n".join(lines)


def rows_before(path, backend):
    """The last right row of each cell that an earlier run left in cells.jsonl."""
    rows = json_lines(path) if os.path.exists(path) else []
    return {row["cell"]: row for row in rows if row.get("backend") == backend and row.get("ms") and "wrong" not in row}


def ceilings(bench):
    def rate(cell, key):
        try:
            return bench.round(cell).get(key, 0)
        except BenchEnded:
            return 0  # its own row names the reason

    return {"product_tflops": rate("ceiling_product", "tflops"), "copy_gbps": rate("ceiling_copy", "gbps")}


def main():
    args = parse(
        __doc__,
        bench=dict(required=True, help="the program gpu_bench"), out=dict(required=True, help="folder of the JSON file"),
        seconds=dict(type=float, default=400, help="no cell begins after this many, less what the end takes"), rounds=5,
        cells=dict(default="", help="regular expression over names"),
        note=dict(action="append", default=[], help="a line for the report: what was checked before"),
        limit=dict(type=float, default=90, help="seconds for one round of a cell, its set-up included"),
        inject=dict(action="append", default=[], metavar="CELL:hang|crash|wrong", help="rehearse a failure"),
        **dict.fromkeys(KERNEL_FLAGS, dict(default="auto", help="gpu_bench's")),
        scratch=dict(help="folder of weights, kept, from where later runs take them"), tiny=dict(action="store_true", help="the emulator and the CPU, tiny shapes"),
    )  # fmt: skip
    started = time.monotonic()
    deadline = started + args.seconds

    def stop(number, frame):
        raise TimeUp()

    signal.signal(signal.SIGTERM, stop)
    scratch = args.scratch or tempfile.mkdtemp(prefix="gpu_peers_")
    sampler = Sampler(args.tiny)
    os.makedirs(args.out, exist_ok=True)
    kernels = [f"--{flag}={getattr(args, flag.replace('-', '_'))}" for flag in KERNEL_FLAGS]
    bench = Bench(args.bench, args.tiny, scratch, args.out, args.limit, dict(i.split(":") for i in args.inject), kernels)
    peers = Peers(bench.info, args.tiny, deadline)
    report = {"device": bench.info["device"], "backend": bench.info["backend"], "notes": args.note + bench.info["notes"],
              "versions": versions(bench.info, args.tiny),
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "cells": []}
    cells = {cell["cell"]: cell for cell in bench.info["cells"]}
    wanted = [name for name in cells if re.search(args.cells, name)]
    before = rows_before(os.path.join(args.out, "cells.jsonl"), report["backend"])
    report["cells"] = [before[name] for name in wanted if name in before]
    if report["cells"]:
        report["notes"].append(f"{len(report['cells'])} cells are from earlier runs in {args.out}")
    wanted = [name for name in wanted if name not in before]
    name = re.sub(r"[^A-Za-z0-9]+", "-", report["device"]).strip("-").lower()
    path = os.path.join(args.out, f"{name}-{report['date'][:19].replace(':', '')}.json")

    def save():
        compare(report, cells)
        with open(path + ".new", "w") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
        os.replace(path + ".new", path)

    try:
        warm = time.monotonic()
        while time.monotonic() - warm < (0 if args.tiny else 2):
            ceilings(bench)
        report["ceilings_first"] = ceilings(bench)
        for number, cell_name in enumerate(wanted):
            if time.monotonic() > deadline - (0 if args.tiny else 15):
                report["left_out"] = wanted[number:]
                break
            try:
                row = run_cell(cells[cell_name], bench, peers, args.rounds, sampler)
            except BenchEnded as problem:
                row = {"cell": cell_name, "kind": cells[cell_name]["kind"], "peers": {}, "wrong": str(problem)}
            row["backend"] = report["backend"]
            report["cells"].append(row)
            with open(os.path.join(args.out, "cells.jsonl"), "a") as file:
                file.write(json.dumps(row) + "\n")
            peers.free()
            save()
            result = row.get("wrong") or row.get("refused") or f"{row['ms']:.4f} ms"
            print(f"{time.monotonic() - started:6.1f} s  {cell_name}: {result}", flush=True)
        report["ceilings_last"] = ceilings(bench)
        first, last = report["ceilings_first"], report["ceilings_last"]
        report["steady"] = all(first[key] > 0 and abs(last[key] / first[key] - 1) <= STEADY for key in first)
    except (TimeUp, RuntimeError, BenchEnded) as problem:
        if not isinstance(problem, TimeUp):
            report["notes"].append("THE RUN BROKE OFF: " + first_line(problem))
        done = {row["cell"] for row in report["cells"]}
        report["left_out"] = [name for name in wanted if name not in done]
    finally:
        report["seconds"] = round(time.monotonic() - started, 1)
        save()
        sampler.close()
        bench.close()
        if not args.scratch:
            shutil.rmtree(scratch, ignore_errors=True)
    print(table(report))
    print("saved", path)
    broken = any("BROKE OFF" in note for note in report["notes"])
    return 1 if broken or any("wrong" in row for row in report["cells"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
