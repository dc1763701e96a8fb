"""Trains arms of one plan side by side, each in a process of one thread, and says how to compare them with the product."""

import json
import pathlib
import shlex
import subprocess
import sys
import time
from typing import Callable

from llama import run

PLAN = pathlib.Path(__file__).parent / "configs/first.toml"
SUITE = PLAN.with_suffix(".yaml")
PERIOD = 10.0  # seconds between two lines


def state(directory: pathlib.Path, steps: int) -> tuple[int, str]:
    """The last logged step, and it in words."""
    log = directory / "log.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    if not lines:
        return 0, f"0 of {steps} steps"
    last = json.loads(lines[-1])
    return last["step"], f"{last['step']} of {steps} steps, loss {last['loss']:.2f}"


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"


def commands(out: pathlib.Path, arms: list[str]) -> list[str]:
    """Of a shell: the arms asked, and every other compared with the first."""
    database = shlex.quote(str(out / "results.db"))
    models = " ".join(f"--model={shlex.quote(f'{arm}={out / arm}/export')}" for arm in arms)
    lines = [f"varifocal run {shlex.quote(str(SUITE))} {models} --db={database}"]
    return lines + [f"varifocal compare --db={database} --baseline={arms[0]} --candidate={arm}" for arm in arms[1:]]


def prepared(plan: pathlib.Path, arms: list[str], out: pathlib.Path) -> Callable[[], int]:
    """The training, once plan and arms are found right."""
    if len(set(arms)) < len(arms):
        raise ValueError(f"an arm is named twice: {' '.join(arms)}")
    steps = [run.read(plan, arm).plan.steps for arm in arms][0]
    return lambda: train(plan, steps, arms, out)


def train(plan: pathlib.Path, steps: int, arms: list[str], out: pathlib.Path) -> int:
    """Resumes what was interrupted. The exit code of the first arm that failed, else 0."""
    out = out.resolve()
    began = time.monotonic()
    first = {arm: state(out / arm, steps)[0] for arm in arms}
    processes = {
        arm: subprocess.Popen([sys.executable, "-m", "llama", "train", str(plan.resolve()), arm, "--out", str(out / arm), "--save-seconds", "30"],
                              cwd=PLAN.parents[2], start_new_session=True)
        for arm in arms
    }  # fmt: skip
    print(f"training {' and '.join(arms)} from scratch, {steps} steps each, a process each; Ctrl-C and the same command resume", flush=True)
    try:
        shown, told = began, ""
        while any(p.poll() is None for p in processes.values()) and not any(p.poll() for p in processes.values()):
            time.sleep(0.2)
            if time.monotonic() - shown < PERIOD:
                continue
            shown = time.monotonic()
            now = {arm: state(out / arm, steps) for arm in arms}
            done = min((now[arm][0] - first[arm]) / max(1, steps - first[arm]) for arm in arms)
            left = f"about {minutes((shown - began) * (1 - done) / done)} left" if done else ""
            if (words := "; ".join(f"{arm} {now[arm][1]}" for arm in arms)) != told:
                print(f"{words}; {left}".rstrip("; "), flush=True)
                told = words
    except KeyboardInterrupt:
        print(f"interrupted; the same command resumes from the states in {out}, which are saved every 30 seconds", file=sys.stderr)
        return 130
    finally:
        for p in processes.values():
            if p.poll() is None:
                p.terminate()
            p.wait()
    failed = [p.returncode for p in processes.values() if p.returncode]
    if not failed:
        print(f"trained in {minutes(time.monotonic() - began)}; now ask both the same questions and compare them:\n")
        print(" &&\n".join(commands(out, arms)))
    return failed[0] if failed else 0
