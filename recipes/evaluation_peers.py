"""The other programs of whole_evaluation.py, each in a process of its own: questions of all lengths, a line of JSON after each length.

    python recipes/evaluation_peers.py PEER --out=DIR --model=DIR --lengths=8192,.. --seconds=120 [--device=cuda:0] [--helmet=CHECKOUT]

    helmet    HELMET's own eval.py from a checkout, unchanged: a prompt at a time, nothing reused. Given to it are our questions as its data
              sets, our stop tokens, and an attention kernel that is there. Its own time is taken, which is of the answers alone
    loop      a prompt at a time by transformers' generate, with the same kernels: in place of helmet where there is no checkout
    batching  transformers' continuous batching: all prompts at once, pages, and blocks of equal beginnings shared
    vllm      all prompts at once, with its prefix cache

MODEL/LENGTH.jsonl has the questions. An answer ends at its task's stop strings, which are single characters: at a token that has one. Of each
length as many questions are asked, from the first on, as its share of the seconds allows; all of them where there is time. Loading and a
first question of another context are not timed.
"""

import importlib
import importlib.util
import json
import sys
import time
import types

from flags import MAYBE_PATH, Path, parse

GROUP = 4  # questions of one context


def fitting(rows, seconds, ask):
    """The questions, from the first on, for which `seconds` suffice by a first call with the last ones."""
    began = time.monotonic()
    ask(rows[-GROUP:])
    each = (time.monotonic() - began) / GROUP
    count = max(GROUP, int(seconds / each) // GROUP * GROUP)
    return rows[:count]


def on_cuda(device):
    return device.startswith("cuda")


def load(args):
    import torch
    from transformers import AutoModelForCausalLM

    place = {"device_map": {"": "cuda"}} if on_cuda(args.device) else {}
    return AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16, attn_implementation="sdpa", **place).eval()


def loop(args):
    import torch

    model = load(args)

    def answer(row):
        ids = torch.tensor([row["ids"]], device=model.device)
        stops = row["stop_ids"] or None
        made = model.generate(ids, max_new_tokens=row["new"], do_sample=False, attention_mask=torch.ones_like(ids), eos_token_id=stops, pad_token_id=0)
        return made[0, ids.shape[1] :].tolist()

    def measure(rows, seconds):
        answer(rows[-1])
        began, done = time.monotonic(), []
        for row in rows:
            if len(done) >= GROUP and time.monotonic() - began > seconds:
                break
            done.append(answer(row))
        return {"seconds": time.monotonic() - began, "ids": done}

    return measure


def batching(args):
    from transformers import ContinuousBatchingConfig, GenerationConfig

    model = load(args)

    def answer(rows):
        longest = max(len(row["ids"]) for row in rows)
        newest = max(row["new"] for row in rows)
        # A CPU's free memory is not asked for: pages for four prompts.
        pages = {} if on_cuda(args.device) else {"num_blocks": GROUP * (longest + newest + 512) // 256, "max_batch_tokens": 1024}
        settings = GenerationConfig(max_new_tokens=newest, do_sample=False, eos_token_id=-1, pad_token_id=0)
        made = {}
        with model.continuous_batching_context_manager(generation_config=settings, continuous_batching_config=ContinuousBatchingConfig(**pages),
                                                       block=True, timeout=5) as manager:
            began = time.monotonic()
            names = [manager.add_request(row["ids"], max_new_tokens=row["new"], eos_token_id=row["stop_ids"]) for row in rows]
            while len(made) < len(rows):
                one = manager.get_result(timeout=1)
                if one is not None and one.is_finished():
                    made[one.request_id] = list(one.generated_tokens)
                    if one.error is not None:
                        raise RuntimeError(one.error)
                elif one is None and not manager.is_running():
                    raise RuntimeError("continuous batching ended early")
            seconds = time.monotonic() - began
        return {"seconds": seconds, "ids": [made[name] for name in names]}

    return lambda rows, seconds: answer(fitting(rows, seconds, answer))


def vllm(args):
    from vllm import LLM, SamplingParams

    longest = max(len(row["ids"]) + row["new"] for length in args.lengths for row in questions(args, length))
    engine = LLM(model=str(args.model), dtype="bfloat16", enable_prefix_caching=True, max_model_len=longest, skip_tokenizer_init=True)

    def answer(rows):
        engine.reset_prefix_cache()
        asked = [SamplingParams(temperature=0, max_tokens=row["new"], stop_token_ids=row["stop_ids"], detokenize=False) for row in rows]
        began = time.monotonic()
        made = engine.generate([{"prompt_token_ids": row["ids"]} for row in rows], asked, use_tqdm=False)
        return {"seconds": time.monotonic() - began, "ids": [list(one.outputs[0].token_ids) for one in made],
                "reused_tokens": sum(one.num_cached_tokens or 0 for one in made)}

    return lambda rows, seconds: answer(fitting(rows, seconds, answer))


class Absent(types.ModuleType):
    """In place of a module that HELMET imports for its own data or scores, which are not used here."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def helmet(args):
    import torch
    import transformers
    from packaging.version import parse

    for name in ("datasets", "rouge_score", "pytrec_eval", "pkg_resources"):
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = Absent(name)
    sys.modules["pkg_resources"].parse_version = parse
    sys.path.insert(0, str(args.helmet))
    model_of = transformers.AutoModelForCausalLM.from_pretrained

    def model_here(name, **settings):
        if not on_cuda(args.device):
            settings["device_map"] = None
        if importlib.util.find_spec("flash_attn") is None:
            settings["attn_implementation"] = "sdpa"
        return model_of(name, **settings).eval()

    transformers.AutoModelForCausalLM.from_pretrained = model_here
    script, models = importlib.import_module("eval"), importlib.import_module("model_utils")
    loaded, asked, tokenize, load_model = {}, [], models.tokenize, script.load_LLM

    def tokenize_here(*given, **settings):
        inputs = tokenize(*given, **settings)
        asked.append(inputs.input_ids[0].tolist())
        return inputs

    models.tokenize = tokenize_here

    def load_once(settings):
        if "model" not in loaded:
            loaded["model"] = load_model(settings)
        return loaded["model"]

    script.load_LLM = load_once

    def answer(rows):
        """A data set of HELMET a task: each has its own number of new tokens and its own stop tokens."""
        tasks = list(dict.fromkeys(row["task"] for row in rows))
        folder = args.model / "helmet"
        for file in folder.glob("*.json*"):
            file.unlink()

        def data(settings, dataset, *_):
            own = [row for row in rows if row["task"] == dataset]
            loaded["model"].stop_token_ids = own[0]["stop_ids"]
            return {"data": [{"prompt": row["prompt"]} for row in own], "prompt_template": "{prompt}", "user_template": "{prompt}",
                    "system_template": "", "post_process": lambda output, _: ({}, {"parsed_output": ""})}

        script.load_data = data
        longest = max(len(row["ids"]) + row["new"] for row in rows)
        new = {row["task"]: str(row["new"]) for row in rows}
        sys.argv = ["eval.py", f"--model_name_or_path={args.model}", f"--output_dir={folder}", f"--datasets={','.join(tasks)}",
                    f"--test_files={','.join(tasks)}", f"--demo_files={','.join(tasks)}", f"--input_max_length={','.join([str(longest)] * len(tasks))}",
                    f"--generation_max_length={','.join(new[task] for task in tasks)}", "--num_workers=0", "--no_torch_compile"]
        sys.argv += [] if on_cuda(args.device) else ["--no_cuda"]
        asked.clear()
        script.main()
        seconds, made = 0, {}
        for task in tasks:
            files = list(folder.glob(f"{task}_*.json"))
            if len(files) != 1:
                raise RuntimeError(f"HELMET's eval.py wrote no results of {task}; its log has the reason")
            result = json.loads(files[0].read_text())
            seconds += len(result["data"]) / result["throughput"]
            made[task] = iter(result["data"])
        order = [row["ids"] for task in tasks for row in rows if row["task"] == task]
        if asked != order:
            raise RuntimeError("HELMET's tokenizer made other token ids of a prompt")
        answers = [next(made[row["task"]]) for row in rows]
        return {"seconds": seconds, "texts": [one["output"] for one in answers], "new": [one["output_len"] for one in answers]}

    return lambda rows, seconds: answer(fitting(rows, seconds, answer))


PEERS = {"helmet": helmet, "loop": loop, "batching": batching, "vllm": vllm}


def questions(args, length):
    return [json.loads(line) for line in (args.model / f"{length}.jsonl").open()]


def texts_of(model, made):
    """Answers with their tokens' text, as they are compared."""
    if "texts" in made:
        return [{"text": text, "new": new} for text, new in zip(made["texts"], made["new"])]
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    return [{"text": tokenizer.decode(ids), "new": len(ids)} for ids in made["ids"]]


def main():
    numbers = lambda text: [int(one) for one in text.split(",")]
    args = parse(__doc__, {"peer": dict(choices=PEERS)}, out=Path, model=Path, helmet=MAYBE_PATH, device="cuda:0", lengths=numbers, seconds=float)
    end = time.monotonic() + args.seconds
    if not on_cuda(args.device):
        import torch

        torch.set_num_threads(1)  # a rehearsal, beside other work
    measure = PEERS[args.peer](args)
    for place, length in enumerate(args.lengths):
        # First questions, and what runs over, take their part.
        share = 0.7 * (end - time.monotonic()) / (len(args.lengths) - place)
        made = measure(questions(args, length), share)
        answers = texts_of(args.model, made)
        row = {"length": length, "questions": len(answers), "seconds": made["seconds"], "reused_tokens": made.get("reused_tokens"), "answers": answers}
        with (args.out / f"{args.peer}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
