"""The same short task training for every finished run: `recall_kv` and `icl_labels` of llama/data.py with words of the corpus' tokenizer.

Log-likelihoods of the right answers on held-out questions, at the trained length and at twice of it. Registered in
docs/notebook/2026-11-30-scaling-tasks.md. A run of minutes is not saved on its way: an interrupted one begins again.
"""

import dataclasses
import pathlib
import re
import time

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from emergence.analysis import holm, paired
from emergence.data import HELD_OUT
from emergence.grid import lock
from emergence.grid_report import p_shown
from emergence.train import optimizer_of, read_results
from llama import data as families
from llama.arms import make, named
from llama.model import Llama, load
from scaling import plan, run
from scaling.config import Study
from scaling.corpus import made
from scaling.train import Job, Row, job_of

TASKS = ("recall_kv", "icl_labels")
STEPS, WARMUP, RATE = 300, 20, 0.25  # share of the arm's rate
AT = (0, 100, 200, 300)  # steps at which questions are asked
ROWS = 64  # held-out rows of each task
CONTEXT = 512
ARMS = ("baseline", "focal", "rate-only")


class Words(families.Words):
    """Of any byte-level tokenizer: words that are one token, bare and after a space, instead of the lexicon's."""

    def __init__(self, path: pathlib.Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(path))
        self.memo: dict[str, list[int]] = {}
        entries = self.tokenizer.get_vocab()
        found = sorted(w for w in entries if re.fullmatch("[a-z]{3,}", w) and "Ġ" + w in entries)
        bare, spaced = (np.array([self.one(before + w) for w in found]) for before in ("", " "))
        self.first, self.second, self.first_sp, self.second_sp = bare[::2], bare[1::2], spaced[::2], spaced[1::2]
        self.digits = np.array([self.one(f" {d}") for d in range(10)])


def wanted(study: Study, rows: list[Row], done: list[Row]) -> list[Job]:
    """Stage 1's finished runs that have no task training yet, seed by seed."""
    stage = next(s for s in study.stages if not s.selects)
    finished = plan.by_key(rows)
    have = {job_of(r).key for r in done}
    mine = [p.job for p in plan.stage_runs(study, stage, finished) if p.job is not None and p.job.arm in ARMS]
    return [j for j in mine if j.key in finished and j.key not in have]


@dataclasses.dataclass(frozen=True)
class Questions:
    ids: torch.Tensor
    marks: torch.Tensor


def questions(words: Words, length: int) -> dict[str, Questions]:
    """The same for every run, drawn by a step that training never reaches."""
    found = {}
    for i, task in enumerate(TASKS):
        ids, marks = families.batch(words, i, HELD_OUT, ROWS, length, {task: 1.0})
        found[task] = Questions(torch.from_numpy(ids), torch.from_numpy(marks))
    return found


@torch.no_grad()
def asked(net: Llama, q: Questions) -> tuple[float, float]:
    """Mean log-likelihood of the right answers, and the share that is right; float32."""
    gold = q.ids.roll(-1, 1)[q.marks]
    logits = torch.cat([net.logits(net.hidden(i)[m]) for i, m in zip(q.ids.split(8), q.marks.split(8))])  # type: ignore[no-untyped-call]
    return -F.cross_entropy(logits, gold).item(), (logits.argmax(-1) == gold).float().mean().item()


def trained(study: Study, job: Job, export: pathlib.Path, words: Words, steps: int = STEPS, at: tuple[int, ...] = AT) -> Row:
    """Half of the rows are of each task; the optimizer starts without state at a quarter of the run's own rate, and W_q keeps its arm's factor."""
    began = time.process_time()
    net = make(named(job.arm), study.shape(job.size, job.context), job.seed, structured=False)
    net.load_state_dict(load(export).state_dict())
    optimizer = optimizer_of(net, named(job.arm))
    rate = RATE * study.rate_at_size(job.rate, job.size)
    held_out = {length: questions(words, length) for length in (CONTEXT, 2 * CONTEXT)}
    scores: dict[str, list[list[float]]] = {f"{task}-{length}": [] for length in held_out for task in TASKS}
    for step in range(steps + 1):
        if step in at:
            for length, by_task in held_out.items():
                for task, q in by_task.items():
                    scores[f"{task}-{length}"].append([round(x, 4) for x in asked(net, q)])
        if step == steps:
            break
        raw_ids, raw_marks = families.batch(words, job.seed, step, study.tokens_per_step // CONTEXT, CONTEXT, {t: 1.0 for t in TASKS})
        ids, marks = torch.from_numpy(raw_ids), torch.from_numpy(raw_marks)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"] * min(1.0, (step + 1) / WARMUP)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=study.bf16):
            logits = net.logits(net.hidden(ids)[marks])
        each = F.cross_entropy(logits.float(), ids.roll(-1, 1)[marks], reduction="none")
        share = (1.0 / marks.sum(1).clamp(min=1))[:, None].expand_as(marks)[marks]  # all rows count alike: icl_labels has more answers
        loss = (each * share).sum() / share.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return {"arm": job.arm, "size": job.size, "context": job.context, "rate": job.rate, "seed": job.seed, "millions": list(job.millions),
            "steps": list(at), "scores": scores, "seconds": round(time.process_time() - began)}  # fmt: skip


def run_all(study: Study, cache: pathlib.Path, rows: pathlib.Path, results: pathlib.Path, deadline: float) -> None:
    torch.set_num_threads(1)
    states = run.states_of(study, made()["corpus"], cache)
    words = Words(cache / "corpus/tokenizer.json")
    for job in wanted(study, read_results(rows), read_results(results)):
        if time.monotonic() > deadline:
            return
        with lock(states / f"{job.name}-tasks.lock") as mine:
            if mine and job.key not in {job_of(r).key for r in read_results(results)}:
                run.write(trained(study, job, states / "exports" / f"{job.name}-{job.millions[-1]}M", words), results, cache)
                print(f"{job.name}: tasks", flush=True)


def table(study: Study, done: list[Row]) -> str:
    stage = next(s for s in study.stages if not s.selects)
    of = len(stage.seeds) * len(ARMS)
    if len(done) < of:
        return f"tasks: {len(done)} of {of} runs; tables when all are finished\n"
    by = {(r["arm"], r["seed"]): r for r in done}
    lines = [f"| task, length | arm | log-likelihood before and after {STEPS} steps | right | minus the baseline's, after, 95 % | p | Holm |", "| --- |" + " --- |" * 6]
    compared: list[tuple[str, str, list[float]]] = []
    for name in done[0]["scores"]:
        for arm in ARMS:
            gaps = [by[arm, s]["scores"][name][-1][0] - by["baseline", s]["scores"][name][-1][0] for s in stage.seeds]
            compared.append((name, arm, gaps))
    primary = [i for i, (name, arm, _) in enumerate(compared) if arm == "focal" and name.endswith(f"-{CONTEXT}")]
    # A run that diverged before has no likelihood: its contrast is undecided.
    finite = [bool(np.all(np.isfinite(gaps))) for _, _, gaps in compared]
    adjusted = dict(zip(primary, holm([paired(compared[i][2]).p if finite[i] else 1.0 for i in primary])))
    for i, (name, arm, gaps) in enumerate(compared):
        mine = np.array([by[arm, s]["scores"][name] for s in stage.seeds])
        t = paired(gaps)
        shown = f"{t.mean:+.3f} ({t.low:+.3f} to {t.high:+.3f}) | {p_shown(t.p)} | {p_shown(adjusted[i]) if i in adjusted else ''}" if arm != "baseline" else "| |"
        if arm != "baseline" and not finite[i]:
            shown = "a run diverged: undecided | |"
        lines.append(f"| {name} | {arm} | {mine[:, 0, 0].mean():.3f}, {mine[:, -1, 0].mean():.3f} | {mine[:, -1, 1].mean():.3f} | {shown} |")
    return "\n".join(lines) + "\n"
