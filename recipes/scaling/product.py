"""A finished stage asked by the product: the beginnings of the held-out documents as a text, a suite, its checkpoints, and the commands."""

import pathlib
import shlex
import shutil

from tokenizers import Tokenizer

from scaling import plan, report
from scaling.config import Study
from scaling.data import Corpus
from scaling.train import Job, Row, job_of

SUITE = """\
# docs/studies/scaling.md: the second half of windows of the held-out documents, after all of the window before it.
name: scaling_held_out
description: Held-out documents of the scaling study
lengths: [{context}]
samples: {windows}
tasks:
  - kind: context_gain
    metrics: [long_context_log_likelihood]
    parameters: {{path: held_out.txt, scored_tokens: {scored}, short_context: {short}, longest: {context}}}
"""
WINDOWS = 256


def checkpoint(cache: pathlib.Path, name: str, target: pathlib.Path) -> None:
    """A directory that the product loads."""
    there = {p.name: p for p in sorted((cache / "runs").glob("*/exports/*"))}
    if name not in there:
        raise ValueError(f"no checkpoint {name}; there are {', '.join(there) or 'none'}")
    shutil.copytree(there[name], target, dirs_exist_ok=True)
    shutil.copy(cache / "corpus/tokenizer.json", target)


def jobs(study: Study, rows: list[Row], stage: str) -> list[Job]:
    """Of a stage with one size and one context, all of them finished: losses of an unfinished one are not looked at. The baseline is among
    them where it ran in an earlier stage; a job has room for no other arm."""
    chosen = next((s for s in study.stages if s.name == stage), None)
    if chosen is None:
        raise ValueError(f"no stage {stage!r} but {'; '.join(s.name for s in study.stages)}")
    finished, of = plan.count(study, rows, stage)
    if finished < of:
        raise ValueError(f"{finished} of {of} runs of stage {stage!r} are finished; its losses are not looked at before")
    if len(chosen.sizes) * len(chosen.contexts) != 1:
        raise ValueError(f"stage {stage!r} has more than one size or context")
    found = report.cell(study, rows, chosen, chosen.sizes[0], chosen.contexts[0])
    if not any(arm == "baseline" for arm, _ in found):
        raise ValueError(f"stage {stage!r} has no baseline with the same checkpoints")
    return [job_of(row) for (arm, _), row in found.items() if arm in ("baseline", *chosen.arms)]


def prepare(study: Study, rows: list[Row], stage: str, cache: pathlib.Path, target: pathlib.Path) -> list[str]:
    """Writes DIR/held_out.txt, DIR/suite.yaml and DIR/models; returns commands of a shell."""
    found = jobs(study, rows, stage)
    target.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(cache / "corpus/tokenizer.json"))
    documents = Corpus(cache / "corpus").evaluated(study, found[0].seed)
    (target / "held_out.txt").write_text("\n\n".join(tokenizer.decode(ids.tolist()) for ids in documents) + "\n")
    context = found[0].context
    (target / "suite.yaml").write_text(SUITE.format(context=context, windows=WINDOWS, scored=context // 2, short=context // 8))
    names = [f"{job.name}-{millions}M" for job in found for millions in job.millions]
    for name in names:
        checkpoint(cache, name, target / "models" / name)
    return [f"cd {shlex.quote(str(target))}",
            "varifocal run suite.yaml $(for d in models/*; do echo --model=${d##*/}=$d; done) --kv-cache-bytes=64M --db=held_out.db",
            "varifocal report --db=held_out.db --baseline-arm=baseline --axis=tokens --figures=figures --out=report.html"]  # fmt: skip
