"""A window of `context_gain` by transformers in float32, W_q's output divided by t: what the product's numbers are compared with. From recipes/:

    python -m response.check ~/.cache/varifocal/smollm2-135m-instruct new_text.txt END LENGTH 0.8 0.9 1.1

END is the byte at which the window ends (`row_id` of the sample). Models without norms of the queries only: a norm would undo the division.
"""

import pathlib
import sys
from typing import Any

import torch

LONGEST_BYTES, SCORED = 8 * 8192, 512  # as the suite smollm2.yaml encodes and scores


@torch.no_grad()
def log_likelihoods(model: Any, ids: torch.Tensor, temperatures: list[float], scored: int = SCORED) -> list[float]:
    """Mean of the last `scored` tokens, nats per token, at each temperature."""
    scale, hooks = [1.0], []
    for module in model.modules():
        if hasattr(module, "q_norm"):
            raise ValueError("the queries pass a norm, which would undo a temperature")
        if hasattr(module, "q_proj"):
            hooks.append(module.q_proj.register_forward_hook(lambda _, __, out: out / scale[0]))
    found = []
    for scale[0] in temperatures:
        logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1].float()
        found.append(float(logits.log_softmax(-1).gather(1, ids[1:, None])[-scored:].mean()))
    for hook in hooks:
        hook.remove()
    return found


def main() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    directory, text, end, length = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    temperatures = [1.0] + [float(t) for t in sys.argv[5:]]
    window = text.read_bytes()[max(0, end - LONGEST_BYTES) : end].decode(errors="ignore")
    ids = torch.tensor(AutoTokenizer.from_pretrained(directory)(window, add_special_tokens=False)["input_ids"][-length:])
    base, *others = log_likelihoods(AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32), ids, temperatures)
    print(f"t = 1: {base:.4f}")
    for t, value in zip(temperatures[1:], others):
        print(f"t = {t:g}: {value:.4f}, minus t = 1: {value - base:+.4f}")


if __name__ == "__main__":
    main()
