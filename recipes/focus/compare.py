"""Varifocal against this directory's hard mask, on one Focus checkpoint: log-probabilities and greedy text in f32."""

import json
import pathlib
import subprocess
import tempfile
from typing import Any

import torch

from focus.checkpoint import load_model


def product(varifocal: pathlib.Path, verb: str, checkpoint: pathlib.Path, ids: list[int], *flags: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "ids.json")
        path.write_text(json.dumps(ids))
        command = [str(varifocal), verb, f"--model={checkpoint}", f"--token-ids-file={path}", "--dtype=f32", "--format=json", *flags]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise ValueError(f"{varifocal} {verb}: {done.stderr.strip()}")
    out: dict[str, Any] = json.loads(done.stdout)
    return out


@torch.no_grad()
def main(checkpoint: pathlib.Path, text: pathlib.Path, varifocal: pathlib.Path, length: int, new: int) -> None:
    from tokenizers import Tokenizer

    ids = Tokenizer.from_file(str(checkpoint / "tokenizer.json")).encode(text.read_text(), add_special_tokens=False).ids[:length]
    model, _ = load_model(checkpoint)
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    theirs = logits[:-1].log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].double()
    ours = torch.tensor(product(varifocal, "score", checkpoint, ids, "--per-token")["token_log_probs"][1:], dtype=torch.float64)
    difference = (ours - theirs).abs()
    print(f"log-probs: {len(ours)} tokens of {text.name}, largest difference {difference.max():.1e}, mean {difference.mean():.1e}; "
          f"loss {-ours.mean():.4f}, here {-theirs.mean():.4f}")  # fmt: skip
    greedy, closest = list(ids), float("inf")
    for _ in range(new):
        best = model(input_ids=torch.tensor([greedy]), use_cache=False).logits[0, -1].float().topk(2)
        closest = min(closest, (best.values[0] - best.values[1]).item())
        greedy.append(int(best.indices[0]))
    found = product(varifocal, "generate", checkpoint, ids, f"--max-new-tokens={new}", "--ignore-eos")["token_ids"]
    same = next((i for i, (a, b) in enumerate(zip(found, greedy[length:])) if a != b), new)
    print(f"greedy: {same} of {new} tokens the same; smallest gap of the two best {closest:.1e}")
