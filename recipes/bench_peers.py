"""The peers of cpu_bench, timed on request: PyTorch's operations, transformers' models and llama.cpp's llama-bench.

cpu_bench starts this program once and requests one timing at a time between its own, so that all run under the same
conditions. One request per line on standard input, after the number of repeats, and one answer per line on standard output,
the time of one repeat (llama.cpp repeats nothing):

    attention HEAD_DIM QUERY_HEADS KV_HEADS TOKENS DTYPE   causal prefill, scaled_dot_product_attention
    decode    HEAD_DIM QUERY_HEADS KV_HEADS TOKENS DTYPE   one row; the query heads of a group as rows, PyTorch's best form
    product   ROWS INNER OUTPUTS DTYPE                     torch.nn.functional.linear
    prefill   DIRECTORY TOKENS DTYPE                       transformers, last row's logits, sdpa
    generate  DIRECTORY DEPTH TOKENS DTYPE                 transformers, greedy tokens after a cached context, sdpa
    llama-prefill DIRECTORY TOKENS DTYPE                   llama.cpp (bench_llama_cpp.py), the better of -fa 0 and 1
    llama-decode  DIRECTORY DEPTH TOKENS DTYPE             the same after DEPTH tokens

    -> WALL_SECONDS CPU_SECONDS [LOG_PROBABILITY_OF_TOKEN_0 ARGMAX]   or: error SENTENCE

The first request of a kind builds its inputs and, up to 8,192 tokens, runs once as warm-up; longer ones run in a process
warmed up by shorter ones; a model is warmed up by a prompt of 512 tokens. CPU seconds are of all threads of this process; 0 for llama.cpp, which spins while waiting.

    bench_peers.py --threads=N --memory DIRECTORY TOKENS DTYPE

prints the peak of the resident set over a prefill, minus its size before loading, and exits.
"""

import copy
import pathlib
import re
import sys
import time

import torch

import bench_llama_cpp
from flags import parse

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
WARM_TOKENS_MAX, WARM_PROMPT_TOKENS = 8192, 512


def attention(dim, heads, kv_heads, tokens, dtype, decode=False):
    kwargs = {"dtype": DTYPES[dtype]}
    k, v = (torch.rand(1, kv_heads, tokens, dim, **kwargs) - 0.5 for _ in range(2))
    if decode:
        q = torch.rand(1, kv_heads, heads // kv_heads, dim, **kwargs) - 0.5
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    q = torch.rand(1, heads, tokens, dim, **kwargs) - 0.5
    # Repeating the keys first, outside the timing, is PyTorch's fastest configuration.
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
        MODELS.clear()
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=DTYPES[dtype], attn_implementation="sdpa")
        MODELS[directory, dtype] = model.eval()
        model(input_ids=torch.arange(WARM_PROMPT_TOKENS).unsqueeze(0), use_cache=True, logits_to_keep=1)
    model = MODELS[directory, dtype]
    # The ids that cpu_bench uses: a linear congruence over the vocabulary.
    ids = [(7 + 7919 * i) % model.config.vocab_size for i in range(tokens)]
    input_ids = torch.tensor([ids])
    return lambda: model(input_ids=input_ids, use_cache=True, logits_to_keep=1).logits[0, -1].float()


def generate(directory, depth, tokens, dtype):
    from transformers import DynamicCache

    prefill(directory, WARM_PROMPT_TOKENS, dtype)()
    model = MODELS[directory, dtype]
    context = torch.tensor([[(7 + 7919 * i) % model.config.vocab_size for i in range(depth)]])
    cache = DynamicCache(config=model.config)
    model(input_ids=context, past_key_values=cache, use_cache=True, logits_to_keep=1)

    def steps():
        past = copy.deepcopy(cache)  # a recurrent layer's state cannot be cropped; a percent of the time
        token = context[:, :1]
        for _ in range(tokens):
            logits = model(input_ids=token, past_key_values=past, use_cache=True, logits_to_keep=1).logits
            token = logits[:, -1].argmax(-1, keepdim=True)

    return steps


def make(words, llama):
    kind, numbers, dtype = words[0], [int(w) if w.isdigit() else w for w in words[1:-1]], words[-1]
    makers = {maker.__name__: maker for maker in (attention, product, prefill, generate)}
    makers["decode"] = lambda *sizes: attention(*sizes, decode=True)
    if llama is not None:
        makers |= {"llama-prefill": llama.prefill, "llama-decode": llama.decode}
    if kind not in makers:
        raise ValueError(f"no peer for {kind!r}")
    run = makers[kind](*numbers, dtype)
    if kind in ("attention", "decode", "product") and max(n for n in numbers if isinstance(n, int)) <= WARM_TOKENS_MAX:
        run()
    return run


def timed(kind, run, repeats):
    if kind.startswith("llama-"):
        return f"{run()} 0"
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(repeats - 1):
        run()
    result = run()
    wall, cpu = (time.perf_counter() - wall) / repeats, (time.process_time() - cpu) / repeats
    if kind == "prefill":
        return f"{wall} {cpu} {torch.log_softmax(result, -1)[0].item()} {result.argmax().item()}"
    return f"{wall} {cpu}"


def serve(llama):
    last, run = None, None
    for line in sys.stdin:
        try:
            repeats, *words = line.split()
            if words != last:
                last, run = words, None
                run = make(words, llama)
            print(timed(words[0], run, int(repeats)), flush=True)
        except Exception as error:  # the benchmark continues without this result
            last = None
            print(f"error {type(error).__name__}: {error}".replace("\n", " "), flush=True)


def status_bytes(key):
    return int(re.search(rf"^{key}:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text(), re.M)[1]) * 1024


def memory(directory, tokens, dtype):
    import transformers  # noqa: F401  so that what importing takes is not counted

    before = status_bytes("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    run = prefill(directory, tokens, dtype)
    loaded = status_bytes("VmRSS") - before
    start = time.perf_counter()
    run()
    took, peak = time.perf_counter() - start, status_bytes("VmHWM") - before
    print(f"{directory}, transformers, {dtype}, {tokens} prompt tokens in {took:.1f} s")
    print(f"  after loading {loaded / 2**20:.1f} MiB, peak {peak / 2**20:.1f} MiB")


def main():
    args = parse(__doc__, threads=int, llama_cpp=dict(metavar="DIRECTORY", help="has llama-bench and llama-results"),
                 memory=dict(nargs=3, metavar=("DIRECTORY", "TOKENS", "DTYPE")))  # fmt: skip
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    with torch.inference_mode():
        if args.memory:
            memory(args.memory[0], int(args.memory[1]), args.memory[2])
        else:
            serve(bench_llama_cpp.LlamaCpp(args.llama_cpp, args.threads) if args.llama_cpp else None)


if __name__ == "__main__":
    main()
