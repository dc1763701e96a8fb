"""Train one arm of the shipped models: same data, steps and seeds for every arm.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python recipes/train.py --arm=baseline --plan=recipes/plan.json --run=DIR

The plan is a list of phases (steps, rows x length, mix of families, share of easy contexts) and a learning rate that
warms up and then is interpolated linearly between points. The plan file is reread at every step, so a run can be
shortened; all arms use the same file. A checkpoint is written every few minutes and a killed run resumes from it.
"""

import argparse
import contextlib
import fcntl
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F

import training_data
import model as models


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalized by five Newton-Schulz steps (Jordan et al. 2024); for matrices."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                state = self.state[p]
                if "buffer" not in state:
                    state["buffer"] = torch.zeros_like(p)
                state["buffer"].lerp_(p.grad, 1 - group["momentum"])
                g = p.grad.lerp(state["buffer"], group["momentum"])
                by_shape.setdefault(tuple(sorted(g.shape)), []).append((p, g if g.shape[0] <= g.shape[1] else g.T))
            for members in by_shape.values():
                x = torch.stack([g for _, g in members])
                x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
                for _ in range(5):
                    a = x @ x.mT
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                for (p, g), u in zip(members, x):
                    u = u if g.shape == p.shape and p.shape[0] <= p.shape[1] else u.T
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(u, alpha=-group["lr"] * 0.2 * math.sqrt(max(p.shape)))


def optimizers(net):
    hidden, rest, tau = [], [], []
    for name, p in net.named_parameters():
        (tau if "tau_proj" in name else hidden if p.ndim == 2 and "embed" not in name else rest).append(p)
    out = [Muon(hidden, lr=1.0, weight_decay=0.01)]
    groups = [{"params": rest, "weight_decay": 0.0, "share": 1.0}]
    if tau:
        groups.append({"params": tau, "weight_decay": 0.0, "share": 1.0})
    out.append(torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-10))
    return out


def phase_at(plan, step):
    for phase in plan["phases"]:
        if step < phase["steps"]:
            return phase
        step -= phase["steps"]
    return None


def learning_rate(plan, step):
    """Warm up, then straight lines between the plan's (step, share of lr) points."""
    points = plan["lr_points"]
    share = points[0][1] if step < points[0][0] else points[-1][1]
    for (a, x), (b, y) in zip(points, points[1:]):
        if a <= step < b:
            share = x + (y - x) * (step - a) / (b - a)
    return plan["lr"] * min((step + 1) / plan["warmup"], share)


@contextlib.contextmanager
def slot(directory, count):
    """One of `count` places: at most that many arms compute at once."""
    if not count:
        yield
        return
    while True:
        for i in range(count):
            f = open(directory / f"slot{i}", "w")
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                f.close()
                continue
            try:
                yield
            finally:
                f.close()
            return
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arm", choices=models.ARMS, required=True)
    parser.add_argument("--plan", type=pathlib.Path, required=True)
    parser.add_argument("--run", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--slots", type=int, default=0)
    parser.add_argument("--save-seconds", type=float, default=180)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = options.run / options.arm
    run.mkdir(parents=True, exist_ok=True)

    plan = json.loads(options.plan.read_text())
    config = models.Config(focal=models.ARMS[options.arm], **plan.get("config", {}))
    net = models.Llama(config, mimetic=plan.get("mimetic", True), seed=options.seed)
    words, opts = training_data.Words(), optimizers(net)
    step, tokens, busy = 0, 0, 0.0
    state_file = run / "state.pt"
    if state_file.exists():
        state = torch.load(state_file)
        net.load_state_dict(state["net"])
        for o, s in zip(opts, state["opts"]):
            o.load_state_dict(s)
        step, tokens, busy = state["step"], state["tokens"], state["busy"]
    log = open(run / "log.txt", "a")

    def save():
        state = {"net": net.state_dict(), "opts": [o.state_dict() for o in opts], "step": step, "tokens": tokens}
        torch.save(state | {"busy": busy}, state_file.with_suffix(".new"))
        state_file.with_suffix(".new").rename(state_file)
        net.save(run / "export")

    saved, tally, right, count = time.time(), {}, {}, {}
    while (phase := phase_at(plan := json.loads(options.plan.read_text()), step)) is not None:
        with slot(options.run, options.slots):
            began = time.time()
            rows, length = phase["rows"], phase["length"]
            ids, marks = training_data.batch(words, options.seed, step, rows, length, phase["mix"], phase["easy"],
                                             phase.get("stops", False), phase.get("quiet", 0.0))
            ids, marks = torch.from_numpy(ids), torch.from_numpy(marks)
            lr = learning_rate(plan, step)
            for o in opts:
                for g in o.param_groups:
                    g["lr"] = lr * (plan["muon_lr"] if isinstance(o, Muon) else g["share"])
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=plan["bf16"]):
                hidden = net.hidden(ids)
                logits = net.logits(hidden[marks])
            gold = ids.roll(-1, 1)[marks]
            loss_each = F.cross_entropy(logits.float(), gold, reduction="none")
            # Rows have equal weight, so that families with few marks are not dominated by those with many.
            row = torch.arange(rows)[:, None].expand(rows, length)[marks]
            weight = 1.0 / marks.sum(1).clamp(min=1)[row].float().sqrt()
            loss = (loss_each * weight).sum() / weight.sum()
            for o in opts:
                o.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            for o in opts:
                o.step()
            # The family of a row is identified by its first word.
            hit = (logits.argmax(-1) == gold).float()
            for r in range(rows):
                name = words.tokenizer.id_to_token(int(ids[r, 1]))
                key = {"Find": "kv", "Label": "icl", "Answer": "rag", "Read": "story"}.get(name, "copy")
                mine = row == r
                right[key] = right.get(key, 0.0) + float(hit[mine].sum())
                count[key] = count.get(key, 0) + int(mine.sum())
            tally["loss"] = tally.get("loss", 0.0) + loss.item()
            tally["n"] = tally.get("n", 0) + 1
            step, tokens = step + 1, tokens + rows * length
            busy += time.time() - began
        if step % 25 == 0:
            scores = " ".join(f"{k} {right[k] / max(1, count[k]):.3f}" for k in sorted(right))
            extra = ""
            if "tau_proj.weight" in dict(net.layers[0].self_attn.named_parameters()):
                extra = " b " + ",".join(f"{l.self_attn.tau_proj.bias.item():.2f}" for l in net.layers)
            log.write(
                f"{step} {length} lr {lr:.2e} {tokens / 1e6:.2f}M {busy:.0f}s loss {tally['loss'] / tally['n']:.3f}"
                f" norm {norm:.2f} {scores}{extra}\n"
            )
            log.flush()
            tally, right, count = {}, {}, {}
        if time.time() - saved > options.save_seconds:
            save()
            saved = time.time()
    save()
    log.write(f"done {step} steps {tokens} tokens {busy:.0f}s\n")


if __name__ == "__main__":
    main()
