"""The peers of cpu_bench: PyTorch's operations and transformers' models, timed on request.

cpu_bench starts this program once and asks it for one timing at a time between its own, so that both see the same
machine. One request a line on standard input, one answer a line on standard output:

    attention HEAD_DIM QUERY_HEADS KV_HEADS TOKENS DTYPE   causal prefill, scaled_dot_product_attention
    decode    HEAD_DIM QUERY_HEADS KV_HEADS TOKENS DTYPE   one row; the query heads of a group as rows, PyTorch's best form
    product   ROWS INNER OUTPUTS DTYPE                     torch.nn.functional.linear
    prefill   DIRECTORY TOKENS DTYPE                       transformers, last row's logits, sdpa

    -> WALL_SECONDS CPU_SECONDS [LOGIT_OF_TOKEN_0 ARGMAX]   or: error SENTENCE

The first request of a kind builds its inputs and runs once unasked. CPU seconds are of all threads of this process.
"""

import argparse
import sys
import time

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def attention(dim, heads, kv_heads, tokens, dtype, decode):
    kwargs = {"dtype": DTYPES[dtype]}
    k, v = (torch.rand(1, kv_heads, int(tokens), dim, **kwargs) - 0.5 for _ in range(2))
    if decode:
        q = torch.rand(1, kv_heads, heads // kv_heads, dim, **kwargs) - 0.5
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    q = torch.rand(1, heads, int(tokens), dim, **kwargs) - 0.5
    # Repeating the keys first is outside the timing and the form in which PyTorch is fastest.
    k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def product(rows, inner, outputs, dtype):
    x = (torch.rand(rows, inner) - 0.5).to(DTYPES[dtype])
    w = (torch.rand(outputs, inner) - 0.5).to(DTYPES[dtype])
    return lambda: torch.nn.functional.linear(x, w)


MODELS = {}


def prefill(directory, tokens, dtype):
    from transformers import AutoModelForCausalLM

    if (directory, dtype) not in MODELS:
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=DTYPES[dtype], attn_implementation="sdpa")
        MODELS[directory, dtype] = model.eval()
    model = MODELS[directory, dtype]
    # The ids that cpu_bench uses: a linear congruence over the vocabulary.
    ids = [(7 + 7919 * i) % model.config.vocab_size for i in range(tokens)]
    input_ids = torch.tensor([ids])

    def run():
        return model(input_ids=input_ids, use_cache=True, logits_to_keep=1).logits[0, -1].float()

    return run


def make(words):
    kind, numbers, dtype = words[0], words[1:-1], words[-1]
    if kind in ("attention", "decode"):
        return attention(*map(int, numbers), dtype, kind == "decode")
    if kind == "product":
        return product(*map(int, numbers), dtype)
    if kind == "prefill":
        return prefill(numbers[0], int(numbers[1]), dtype)
    raise ValueError(f"no peer for {kind!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    last, run = None, None
    with torch.inference_mode():
        for line in sys.stdin:
            words = line.split()
            try:
                if words != last:
                    last, run = words, make(words)
                    run()
                wall, cpu = time.perf_counter(), time.process_time()
                result = run()
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                answer = f"{wall} {cpu}"
                if words[0] == "prefill":
                    answer += f" {torch.log_softmax(result, -1)[0].item()} {result.argmax().item()}"
                print(answer, flush=True)
            except Exception as error:  # the bench goes on without this figure
                last = None
                print(f"error {type(error).__name__}: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
