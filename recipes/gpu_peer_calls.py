"""The peers of gpu_peers.py: the same cells in PyTorch and Hugging Face's models, and checks of their results."""

import gc
import os
import time

try:
    import torch
except ImportError:
    torch = None

LOGIT_ERROR_MAX = 0.1  # two bf16 engines over 32 layers differ by 0.05 on an H100; a wrong mask or position gives 1 and more
SECONDS_MIN = 0.02


def first_line(problem):
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]


def mix(seed, counter):
    """kernels/conformance/test_harness.h's Mix."""
    mask = (1 << 64) - 1
    z = (seed * 0x9E3779B97F4A7C15 + (counter + 1) * 0xD1B54A32D192ED03) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


class Peers:
    """The peers of a cell in PyTorch and transformers: {name: (run, check)}; check returns (error, limit)."""

    def __init__(self, info, tiny, deadline):
        self.tiny, self.deadline = tiny, deadline
        self.device = "cpu" if tiny else "cuda"
        self.scratch = info["scratch"]
        self.models = {}
        if torch:
            torch.set_grad_enabled(False)
        self.kinds = {"product": self.products, "decode_product": self.products, "copy": self.copies,
                      "attention": self.attention, "decode": self.attention, "model_prefill": self.prefill,
                      "model_decode": self.decode, "continuations": self.continuations, "load": self.load}

    def of(self, cell, ours):
        make = self.kinds.get(cell["kind"])
        return make(cell, ours) if make and torch else {}

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def free(self):
        gc.collect()
        if torch and self.device == "cuda":
            torch.cuda.empty_cache()

    def time(self, run):
        """Milliseconds of one call, many queued between two points of the device's queue."""
        run()
        self.wait()
        count = 1
        while True:
            if self.device == "cuda":
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for _ in range(count):
                    run()
                end.record()
                end.synchronize()
                seconds = begin.elapsed_time(end) * 1e-3
            else:
                start = time.perf_counter()
                for _ in range(count):
                    run()
                seconds = time.perf_counter() - start
            if self.tiny or seconds >= SECONDS_MIN:
                return seconds / count * 1e3
            count *= 2

    def kernel(self, run):
        """The kernel that took most of a call's time, by name."""
        from torch.profiler import ProfilerActivity, profile
        on_device = self.device == "cuda"
        try:
            with profile(activities=[ProfilerActivity.CUDA if on_device else ProfilerActivity.CPU]) as seen:
                run()
                self.wait()
            cost = lambda e: getattr(e, "self_device_time_total", 0) if on_device else e.self_cpu_time_total
            return max(seen.key_averages(), key=cost).key[:160]
        except Exception as problem:  # a missing profiler must not fail the cell
            return "unknown: " + str(problem).splitlines()[0][:100]

    def draw(self, *shape):
        return torch.randn(*shape, device=self.device, dtype=torch.bfloat16)

    def products(self, cell, ours):
        x, w = self.draw(cell["rows"], cell["inner"]), self.draw(cell["outputs"], cell["inner"])
        run = lambda: torch.matmul(x, w.t())

        def check():
            want = x[0].double() @ w.double().t()
            return float((run()[0].double() - want).norm() / want.norm()), 0.01

        return {"matmul": (run, check)}

    def copies(self, cell, ours):
        source = torch.ones(cell["rows"] << 18, device=self.device, dtype=torch.float32)
        target = torch.empty_like(source)
        return {"torch copy": (lambda: target.copy_(source), lambda: (0.0, 0.0))}

    def attention(self, cell, ours):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        if cell["shared"] or cell["scale"] != 0 or cell["sequences"] * (cell["context"] + cell["rows"]) > 300000:
            return {}
        rows, keys, dim = cell["rows"], cell["context"] + cell["rows"], cell["head_dim"]
        heads, kv = cell["heads"], cell["kv_heads"]
        q = self.draw(cell["sequences"], heads, rows, dim)
        k, v = (self.draw(cell["sequences"], kv, keys, dim) for _ in range(2))
        options = {"enable_gqa": heads != kv}
        kinds = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
        mask = None
        if cell["context"] > 0 and rows > 1:
            # Bottom-right aligned, as a suffix on a prefix is; flash takes no such mask.
            mask = torch.ones(rows, keys, device=self.device, dtype=torch.bool).tril(cell["context"])
            kinds = {"masked": [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]}
        if self.device == "cpu":
            kinds = {name: SDPBackend.MATH for name in kinds}
        calls = {}
        for name, kind in kinds.items():
            def run(kind=kind):
                with sdpa_kernel(kind):
                    return torch.nn.functional.scaled_dot_product_attention(
                        q, k, v, attn_mask=mask, is_causal=mask is None and rows > 1, **options)

            def check(run=run):
                got = run()[0, 0, rows - 1].double()
                scores = (k[0, 0].double() @ q[0, 0, rows - 1].double()) / dim**0.5
                want = torch.softmax(scores, 0) @ v[0, 0].double()
                return float((got - want).norm() / want.norm()), 0.02

            calls[name] = (run, check)
        return calls

    # Whole models: the weights that gpu_bench wrote.

    def load_model(self, name):
        from transformers import LlamaForCausalLM
        from transformers.utils import logging
        logging.disable_progress_bar()
        folder = os.path.join(self.scratch, name)
        options = {"attn_implementation": "sdpa"}
        try:
            model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **options)
        except TypeError:
            model = LlamaForCausalLM.from_pretrained(folder, torch_dtype=torch.bfloat16, **options)
        return model.to(self.device).eval()

    def model(self, name):
        if name not in self.models:
            self.models = {}  # one at a time
            self.free()
            self.models[name] = self.load_model(name)
        return self.models[name]

    def text(self, cell, number, count, first=0):
        ids = [mix(1000 + number, first + i) % cell["vocab"] for i in range(count)]
        return torch.tensor([ids], device=self.device)

    def prefill(self, cell, ours):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        model, ids = self.model(cell["model"]), self.text(cell, 0, cell["rows"])
        kinds = {"transformers flash": SDPBackend.FLASH_ATTENTION, "transformers cudnn": SDPBackend.CUDNN_ATTENTION}
        calls = {}
        for name, kind in kinds.items():
            def run(kind=kind):
                with sdpa_kernel(SDPBackend.MATH if self.device == "cpu" else kind):
                    return model(ids, logits_to_keep=1, use_cache=True).logits

            def check(run=run):
                want = torch.tensor(ours["logits"], dtype=torch.float64)
                got = run()[0, -1, : len(want)].double().cpu()
                return float((got - want).norm() / want.norm()), LOGIT_ERROR_MAX

            calls[name] = (run, check)
        return calls

    def decode(self, cell, ours):
        if cell["sequences"] * cell["context"] > 70000:
            return {}  # two caches of this size and their copies fit no device
        from transformers import DynamicCache, StaticCache
        model, context = self.model(cell["model"]), cell["context"]
        ids = torch.cat([self.text(cell, s, context + 1) for s in range(cell["sequences"])])
        cache = DynamicCache()
        model(ids[:, :context], past_key_values=cache, use_cache=True, logits_to_keep=1)

        def run():
            logits = model(ids[:, context:], past_key_values=cache, use_cache=True).logits
            cache.crop(-1)
            return logits

        finite = lambda call: lambda: (0.0 if bool(torch.isfinite(call()).all()) else float("nan"), 0.0)
        calls = {"transformers": (run, finite(run))}
        if cell["sequences"] == 1 and self.deadline - time.monotonic() > (0 if self.tiny else 120):
            def compiled():
                static = StaticCache(config=model.config, max_batch_size=1, max_cache_len=context + 128, device=self.device,
                                     dtype=torch.bfloat16)
                model(ids[:, :context], past_key_values=static, use_cache=True, logits_to_keep=1,
                      cache_position=torch.arange(context, device=self.device))
                options = {"backend": "eager"} if self.device == "cpu" else {"mode": "reduce-overhead"}
                step = torch.compile(model.forward, **options)
                position = torch.tensor([context], device=self.device)

                call = lambda: step(ids[:, context:], past_key_values=static, use_cache=True, cache_position=position,
                                    position_ids=position[None]).logits
                for _ in range(3):
                    call()
                return call

            try:
                call = compiled()
                calls["transformers compiled"] = (call, finite(call))
            except Exception as problem:
                calls["transformers compiled"] = (None, lambda why=first_line(problem): (_ for _ in ()).throw(RuntimeError(why)))
        return calls

    def continuations(self, cell, ours):
        if cell["total"] >= 1000:
            return {}  # the goal is our own cold run
        from transformers import DynamicCache
        model, total = self.model(cell["model"]), cell["total"]
        prefix, question = self.text(cell, 0, cell["context"]), self.text(cell, 1, cell["rows"])
        whole = torch.cat([prefix, question], 1)
        cache = DynamicCache()
        model(prefix, past_key_values=cache, use_cache=True, logits_to_keep=1)
        again = lambda: model(whole, use_cache=False, logits_to_keep=cell["rows"]).logits

        def cached():
            logits = model(question, past_key_values=cache, use_cache=True).logits
            cache.crop(-cell["rows"])
            return logits

        def close():
            a, b = again().double(), cached().double()
            return float((a - b).norm() / a.norm()), LOGIT_ERROR_MAX

        # One of several equal ones.
        return {"transformers again": (again, close, total), "transformers cached": (cached, close, total)}

    def load(self, cell, ours):
        self.models = {}
        self.free()

        def run():
            model = self.load_model(cell["model"])
            self.wait()
            del model

        return {"transformers": (run, lambda: (0.0, 0.0))}
