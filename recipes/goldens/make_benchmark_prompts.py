"""Write eval_tasks/benchmarks/testdata/release.json: a small release of every benchmark in upstream's formats, with texts
and rows of our own, and the prompts that upstream's own code makes of it, cut by the tokenizer of models/baseline.

    python recipes/goldens/make_benchmark_prompts.py --upstream=DIR [--check=build/release/bin/varifocal]

DIR holds the checkouts LongBench, NoLiMa, babilong, InfiniteBench, LongProc. With --check nothing is written: the same rows
are asked with upstream's own prompts, and compared with `varifocal import-data` and `varifocal samples` byte for byte.
Needs transformers, numpy, pyyaml, pandas, tqdm; models are not run.
"""

import argparse
import asyncio
import importlib.util
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import types
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "eval_tasks/benchmarks/testdata/release.json"
TOKENIZER = ROOT / "models/baseline"
LONGBENCH = ["narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "musique", "gov_report", "qmsum",
             "multi_news", "trec", "triviaqa", "samsum", "passage_count", "passage_retrieval_en", "lcc", "repobench-p",
             "lsht", "passage_retrieval_zh"]
INFINITE = ["passkey", "number_string", "kv_retrieval", "longbook_sum_eng", "longbook_choice_eng", "longbook_qa_eng",
            "longbook_qa_chn", "longdialogue_qa_eng", "math_find", "math_calc", "code_run", "code_debug"]
REASONING = " \u00a0Because $Q$ says so,\nit is $C_B$ {x}.\n"  # a first answer of LongBench v2's chain of thought
CUT = {"longbench": 61, "longbench2": 75, "infinitebench": 53}  # tokens: odd, so that the sides differ

WORDS = "the boat left Oslo {a} before it was dawn, and nobody saw a light. 中文 é 😀 İ of a red door\u00a0near 7".split(" ")


def prose(r, low, high):
    return "".join(r.choice(WORDS) + r.choice([" ", " ", " ", "\n", "  "]) for _ in range(r.randint(low, high)))


def synthetic():
    """The release: {path: text}."""
    r = random.Random(1)
    files, lines = {}, lambda rows: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    only_context = ("gov_report", "multi_news", "passage_count", "lcc")
    files["LongBench/config/dataset2prompt.json"] = json.dumps(
        {name: f"Set {i}. {{{{kept}}}}\n\n{{context}}\n\n" + ("Sum up:" if name in only_context else "Ask: {input}\nSay: ")
         for i, name in enumerate(LONGBENCH)})
    files["LongBench/config/dataset2maxlen.json"] = json.dumps({name: 32 if i % 2 else 64 for i, name in enumerate(LONGBENCH)})
    for name in LONGBENCH:
        answer = {"passage_retrieval_en": "Paragraph 3", "passage_retrieval_zh": "段落3", "passage_count": "7"}.get(name, "Oslo")
        rows = [{"input": prose(r, 0, 9), "context": prose(r, 5, 20 if i else 70), "answers": [answer, "left"][: 1 + i % 2 * ("retrieval" not in name)],
                 "length": [3999, 4000, 8000][i], "dataset": name, "language": "en",
                 "all_classes": ["Oslo", "left"] if name in ("trec", "lsht") else None, "_id": str(i)} for i in range(3)]
        files[f"LongBench/data/{name}.jsonl"] = lines(rows)
        files[f"LongBench/data/{name}_e.jsonl"] = lines(rows)
    files["v2/prompts/0shot.txt"] = "Read.\n$DOC$\nAsk: $Q$\n(A) $C_A$\n(B) $C_B$\n(C) $C_C$\n(D) $C_D$\nSay it."
    files["v2/prompts/0shot_no_context.txt"] = "Ask: $Q$\n(A) $C_A$\n(B) $C_B$\n(C) $C_C$\n(D) $C_D$\nSay it."
    choices = "Ask: $Q$\n(A) $C_A$\n(B) $C_B$\n(C) $C_C$\n(D) $C_D$\nThink:"
    files["v2/prompts/0shot_cot.txt"], files["v2/prompts/0shot_cot_ans.txt"] = "Read.\n$DOC$\n" + choices, choices + " $COT$\nSay it."
    files["v2/answers.jsonl"] = lines({"row_id": f"r{i}", "answer": REASONING} for i in range(6))
    rows = [{"_id": f"r{i}", "domain": "d", "sub_domain": "s", "difficulty": ["easy", "hard"][i % 2],
             "length": ["short", "medium", "long"][i % 3], "question": f" Which {i}? ", "choice_A": "\u3000one", "choice_B": "two $C_C$",
             "choice_C": "three\n", "choice_D": "four", "answer": "ABCD"[i % 4],
             "context": "\n" + prose(r, 5, 60) + (" $Q$ " if i % 2 else "") + " "} for i in range(6)]
    files["v2/data.json"] = json.dumps(rows)
    tasks = {f"qa{i}": {"instruction": f"Facts {i}.", "examples": "<example>\nx {y}\n</example>", "post_prompt": "One word’s all.\n"} for i in range(1, 21)}
    files["babilong/prompts.py"] = (
        "TASK_TEMPLATE = '{instruction}\\n\\n{examples}\\n\\n{post_prompt}'\nUSER_TEMPLATE = '<context>\\n{context}\\n</context>\\n\\nQuestion: {question}'\n"
        "DEFAULT_TEMPLATE = f'{TASK_TEMPLATE}\\n\\n{USER_TEMPLATE}'\n\nDEFAULT_PROMPTS = {\n    # in upstream's form\n"
        + "".join(f"    {name!r}: {{\n        'instruction':\n            'Facts '\n            {(text['instruction'][6:])!r},\n        'examples':\n            {text['examples']!r},\n"
                  f"        \"post_prompt\": {json.dumps(text['post_prompt'], ensure_ascii=False)}\n    }},\n" for name, text in tasks.items()) + "}\n")
    files["babilong/metrics.py"] = "TASK_LABELS = {" + ",\n               ".join(f"{name!r}: ['office', 'garden']" for name in tasks) + "\n               }\n"
    for name in tasks:
        for length in ("0k", "4k"):
            files[f"rows/{name}/{length}.json"] = json.dumps(
                [{"input": "\n " + prose(r, 5, 12), "question": "Where is {it}? ", "target": "office"} for _ in range(2)], ensure_ascii=False)
    slots = {"code_run": "{func}|{context}|{func_call}", "math_find": "{prefix}|{context}|{input}", "longbook_sum_eng": "Sum\n{context}",
             "code_debug": "{context}\nA {OPTION_A} B {OPTION_B} C {OPTION_C} D {OPTION_D}:", "longdialogue_qa_eng": "Who?\n{context}\n",
             "longbook_choice_eng": "{context} {question} A {OPTION_A} B {OPTION_B} C {OPTION_C} D {OPTION_D}:", "math_calc": "{context} ="}
    for name in ("longbook_qa_eng", "longbook_qa_chn"):
        slots[name] = "{context}\nQ: {question}" + (" 答：" if name.endswith("chn") else "")
    body = "".join(f"    {name!r}: {slots.get(name, 'Find.  {context} {input}')!r},  # noqa\n" for name in INFINITE)
    files["infinite/src/prompt.py"] = f"yarn_mistral_templates = {{\n    # \"old\": \"x\",\n{body}}}\n\ngpt4_templates = {{\n{body}    \"end\": \"a\" + \"b\"\n}}\n"
    for name in INFINITE:
        question = {"code_run": "Call func_x(1), then func_12(-7) now.", "math_find": "You see. The Largest number of\nThe second of of them of"}.get(name, prose(r, 0, 5))
        answer = {"math_find": [3], "math_calc": [1, 2], "code_run": [4], "code_debug": ["f"], "longbook_choice_eng": ["g", "B"], "kv_retrieval": "k"}.get(name, ["Oslo"])
        files[f"infinite/rows/{name}.jsonl"] = lines({"id": i, "context": prose(r, 5, 30 if i else 70), "input": question, "answer": answer,
                                                      "options": ["f", "g", "h", "i"]} for i in range(2))
    for task, template in {"path_traversal": "{city_context}\n{src_city} to {dst_city}?\n<Route>\n", "html_to_tsv": "{html_str}|{task_topic}|{task_description}{filtering_instruction}|{tsv_header}{{x}}",
                           "tom_tracking": "{story}\n{question}\n"}.items():
        files[f"longproc/data/{task}/prompts.yaml"] = "USER_PROMPT: |-\n  " + template.replace("\n", "\n  ") + "\n  end: {{}}\n"
        for size in ("0.5k", "2k", "8k"):
            row = {"context_nl": prose(r, 5, 20), "question_repr": ["Oslo", "Rome"], "answer_nl": "From Oslo.\n", "task_id": 1, "website_id": "w", "task_topic": "boats",
                   "task_description": "all", "gt": "A\tB\n1\t2", "tsv_header": "A\tB", "filtering_instruction": "", "html_path": f"webpage/{size}.html",
                   "story_components": {"a": 1}, "story": prose(r, 5, 20), "question": "Where?", "solution": "- Ann is in Oslo"}
            files[f"longproc/data/{task}/{task}_{size}.json"] = json.dumps([row])
            if task == "html_to_tsv":
                files[f"longproc/data/html_to_tsv/webpage/{size}.html"] = f"<p>{prose(r, 3, 9)}</p>"
    return files


def write(files, folder):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def with_upstreams_texts(files, up):
    """The same release with upstream's own prompts."""
    files = dict(files)
    for file in ("dataset2prompt.json", "dataset2maxlen.json"):
        files[f"LongBench/config/{file}"] = (up / "LongBench/LongBench/config" / file).read_text("utf-8")
    for file in ("0shot.txt", "0shot_no_context.txt", "0shot_cot.txt", "0shot_cot_ans.txt"):
        files[f"v2/prompts/{file}"] = (up / "LongBench/prompts" / file).read_text("utf-8")
    for file in ("prompts.py", "metrics.py"):
        files[f"babilong/{file}"] = (up / "babilong/babilong" / file).read_text("utf-8")
    files["infinite/src/prompt.py"] = (up / "InfiniteBench/src/prompt.py").read_text("utf-8")
    for task in ("path_traversal", "html_to_tsv", "tom_tracking"):
        files[f"longproc/data/{task}/prompts.yaml"] = (up / "LongProc/data" / task / "prompts.yaml").read_text("utf-8")
    return files


def load(path, name, **stubs):
    with mock.patch.dict(sys.modules, {key.replace("__", "."): value for key, value in stubs.items()}):
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


class Row(list):
    """input_ids[0] of a tensor, whose slices are lists."""

    shape = (1, 0)


class TorchTokenizer:
    """A tokenizer that pred.py calls with return_tensors="pt", without torch; keeps the last text."""

    eos_token_id = 0

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, text, **_):
        self.text = text
        ids = Row([self.tokenizer(text).input_ids])
        encoded = type("Encoded", (dict,), {"input_ids": ids})()
        encoded.to = lambda device: encoded
        return encoded

    def encode(self, text, **_):
        return [0]  # of the newline that ends samsum's answers

    def decode(self, ids, **options):
        return self.tokenizer.decode(list(ids), **options)


def longbench(up, folder, tokenizer):
    stub = types.ModuleType("stub")
    stub.destroy_process_group = lambda: None
    torch = types.SimpleNamespace(device=lambda name: name, distributed=stub, multiprocessing=stub)
    names = ("AutoTokenizer", "LlamaTokenizer", "LlamaForCausalLM", "AutoModelForCausalLM")
    pred = load(up / "LongBench/LongBench/pred.py", "longbench_pred", torch=torch, torch__distributed=stub,
                torch__multiprocessing=stub, datasets=types.SimpleNamespace(load_dataset=None),
                tqdm=types.SimpleNamespace(tqdm=lambda x: x), transformers=types.SimpleNamespace(**dict.fromkeys(names)),
                llama_flash_attn_monkey_patch=types.SimpleNamespace(replace_llama_attn_with_flash_attn=None))
    wrapped, seen = TorchTokenizer(tokenizer), []

    class Model:
        def generate(self, **_):
            seen.append(wrapped.text)
            return [[]]

    pred.load_model_and_tokenizer = lambda *_: (Model(), wrapped)
    prompts = json.loads((folder / "LongBench/config/dataset2prompt.json").read_text("utf-8"))
    result = {}
    for limit in (CUT["longbench"], 10**6):
        for name in LONGBENCH:
            rows = [json.loads(line) for line in (folder / f"LongBench/data/{name}.jsonl").read_text("utf-8").splitlines()]
            seen.clear()
            with tempfile.NamedTemporaryFile("w") as out:
                pred.get_pred(0, 1, rows, limit, 1, prompts[name], name, None, "llama2", {"llama2": ""}, out.name)
            chat = seen[0].startswith("[INST]")
            texts = [text.removeprefix("[INST]").removesuffix("[/INST]") if chat else text for text in seen]
            result.setdefault(f"longbench_{name}", {"chat": chat})["cut" if limit < 10**6 else "whole"] = texts
    return result


def longbench2(up, folder, tokenizer, form="0shot"):
    """The prompts of a form; of the chain of thought those of both questions, in tasks of their own."""
    class Client:
        def __init__(self, **_):
            self.chat = types.SimpleNamespace(completions=types.SimpleNamespace(create=self.create))

        def create(self, messages, **_):
            seen.append(messages[0]["content"])
            return types.SimpleNamespace(choices=[types.SimpleNamespace(message=types.SimpleNamespace(content=REASONING))])

    seen, result, here = [], {}, os.getcwd()
    work = pathlib.Path(tempfile.mkdtemp())
    write({"config/model2path.json": '{"m": "m"}', "config/model2maxlen.json": '{"m": 1}'}, work)
    for file in (folder / "v2/prompts").iterdir():
        write({f"prompts/{file.name}": file.read_text("utf-8")}, work)
    write({"prompts/0shot_rag.txt": ""}, work)
    os.chdir(work)
    stub = types.ModuleType("stub")
    pred = load(up / "LongBench/pred.py", "longbench2_pred", datasets=types.SimpleNamespace(load_dataset=None),
                tqdm=types.SimpleNamespace(tqdm=lambda x: x), openai=types.SimpleNamespace(OpenAI=Client), tiktoken=stub,
                torch=types.SimpleNamespace(multiprocessing=stub), torch__multiprocessing=stub,
                transformers=types.SimpleNamespace(AutoTokenizer=types.SimpleNamespace(from_pretrained=lambda *_, **__: tokenizer)))
    os.chdir(here)
    for limit in (CUT["longbench2"], 10**6):
        pred.maxlen_map["m"] = limit
        for row in json.loads((folder / "v2/data.json").read_text("utf-8")):
            seen.clear()
            pred.get_pred([dict(row)], types.SimpleNamespace(model="m", rag=0, no_context=form == "no_context", cot=form == "cot"), io.StringIO())
            kind, prefix = "cut" if limit < 10**6 else "whole", "longbench2_reasoning" if form == "cot" else "longbench2"
            result.setdefault(f"{prefix}_{row['difficulty']}_{row['length']}", {"chat": True}).setdefault(kind, []).append(seen[0])
            if form == "cot":
                result.setdefault(f"longbench2_cot_{row['difficulty']}_{row['length']}", {"chat": True}).setdefault(kind, []).append(seen[1])
    return result


def babilong(up, folder, _):
    code = load(up / "babilong/babilong/prompts.py", "babilong_prompts")
    ours = load(folder / "babilong/prompts.py", "our_prompts")
    result = {}
    for name, texts in ours.DEFAULT_PROMPTS.items():
        for length in ("0k", "4k"):
            rows = json.loads((folder / f"rows/{name}/{length}.json").read_text("utf-8"))
            whole = [code.get_formatted_input(row["input"], row["question"], texts["examples"], texts["instruction"],
                                              texts["post_prompt"], template=ours.DEFAULT_TEMPLATE) for row in rows]
            result[f"babilong_{name}.{length}"] = {"chat": True, "whole": whole}
    return result


def infinitebench(up, folder, tokenizer):
    prompt = load(folder / "infinite/src/prompt.py", "prompt")
    for family in ("kimi", "claude2", "gpt4", "yarn_mistral"):
        if not hasattr(prompt, f"{family}_templates"):
            setattr(prompt, f"{family}_templates", {})
    code = load(up / "InfiniteBench/src/eval_utils.py", "infinite_utils", prompt=prompt, rouge=types.SimpleNamespace(Rouge=None), jieba=types.ModuleType("jieba"))
    result = {}
    for name in INFINITE:
        rows = [json.loads(line) for line in (folder / f"infinite/rows/{name}.jsonl").read_text("utf-8").splitlines()]
        whole = [code.create_prompt(dict(row), name, "yarn-mistral", folder) for row in rows]
        cut = [tokenizer.decode(code.truncate_input(tokenizer.encode(text), CUT["infinitebench"]), skip_special_tokens=True)
               if len(tokenizer.encode(text)) > CUT["infinitebench"] else text for text in whole]
        result[f"infinitebench_{name}"] = {"chat": False, "whole": whole, "cut": cut, "labels": [code.get_answer(row, name) for row in rows]}
    return result


def longproc(up, folder, _):
    sys.path.insert(0, str(up / "LongProc"))
    from longproc.longproc_data import load_longproc_data

    return {f"longproc_{name}": {"chat": True, "whole": [row["input_prompt"] for row in load_longproc_data(name, str(folder / "longproc/data"))[0]]}
            for name in (f"{task}_{size}" for task in ("path_traversal", "html_to_tsv", "tom_tracking") for size in ("0.5k", "2k", "8k"))}


def nolima(up, folder, _):
    """A run of upstream's tester on a needle and a book of ours; its files join the release."""
    asked, answers = [], iter(["It is Yuki."] * 99)

    class Connector:
        SYSTEM_PROMPT = ""

        def __init__(self, **_):
            pass

        def encode(self, text):
            return text.replace("\n", " \n ").split(" ")

        def decode(self, tokens):
            return " ".join(tokens) + " "

        def token_count(self, text):
            return len(self.encode(text))

        async def generate_response(self, user_prompt, **_):
            asked.append(user_prompt)
            return {"response": next(answers)}

    sys.path.insert(0, str(up / "NoLiMa"))
    tester = load(up / "NoLiMa/evaluation/async_evaluate.py", "nolima_evaluate", async_api_connector=types.SimpleNamespace(APIConnector=Connector),
                  jsonargparse=types.SimpleNamespace(ArgumentParser=None, ActionConfigFile=None), tqdm=types.SimpleNamespace(tqdm=lambda x: x))
    asyncio.set_event_loop(asyncio.new_event_loop())
    r, result = random.Random(2), {"nolima.120": {"chat": True, "whole": []}}
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        write({"book.txt": "\n".join(prose(r, 5, 15).replace("\n", " ").replace("{a}", "") for _ in range(60)), "m.json": '{"max_tokens": 9, "temperature": 0, "top_p": 1}'}, work)
        (work / "log").mkdir()
        with mock.patch("time.time", lambda: 1):
            for index, (needle, question, gold, characters) in enumerate([(" Actually, {CHAR} lives near Oslo. ", "Who has been to Norway?", "", '["Yuki", "Stuart"]'),
                                                                          (" Yuki lives near Oslo. ", "Who has been there?", '["Yuki"]', "")]):
                tester.NoLiMa_Tester(model_name="m", model_configs_dir=name, needle=needle, haystack_path=str(work / "book.txt"), results_dir=str(work / "results"),
                                     retrieval_question=question, system_prompt="", use_default_system_prompt=False, task_template="Snippet:\n{haystack}\nQuestion: {question}\n",
                                     context_length=120, document_depth_percent_intervals=4, gold_answers=gold, character_set=characters, test_name=f"t{index}",
                                     log_placements_dir=str(work / "log"), metric="contains", prevent_duplicate=False).evaluate()
        result["nolima.120"]["whole"] = asked
        made = sorted([*(work / "log").iterdir(), *(work / "results").iterdir()])
        # Without what differs from run to run.
        steady = lambda text: re.sub(r'"test_hash": "\w+"', '"test_hash": ""', text.replace(name, "work"))
        extra = {f"nolima/{path.relative_to(work)}": steady(path.read_text("utf-8")) for path in made}
    return result, extra


def main():
    from transformers import AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True, type=pathlib.Path)
    parser.add_argument("--check")
    arguments = parser.parse_args()
    up, tokenizer = arguments.upstream.resolve(), AutoTokenizer.from_pretrained(TOKENIZER)
    files = synthetic()
    if arguments.check:
        files = with_upstreams_texts(files, up)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(files, folder)
        prompts, extra = nolima(up, folder, tokenizer)
        files |= extra
        write(extra, folder)
        for make in (longbench, longbench2, babilong, infinitebench, longproc):
            prompts |= make(up, folder, tokenizer)
        no_context = {task: row["whole"] for task, row in longbench2(up, folder, tokenizer, "no_context").items()}
        chain = longbench2(up, folder, tokenizer, "cot")
        if not arguments.check:
            golden = {"files": files, "prompts": prompts, "no_context": no_context, "chain": chain, "cut_tokens": CUT}
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(golden, ensure_ascii=False, indent=0, sort_keys=True) + "\n")
            print(f"{len(files)} files, {sum(len(row['whole']) for row in prompts.values())} prompts, {OUT.stat().st_size} bytes")
            return
        sys.exit(check(arguments.check, folder, prompts | chain, no_context))


def check(program, folder, prompts, no_context):
    count = wrong = 0

    def compare(task, ours, expected):
        nonlocal count, wrong
        count += len(expected)
        differences = [(a, b) for a, b in zip(ours, expected) if a != b]
        wrong += len(differences) + abs(len(ours) - len(expected))
        for ours_text, theirs in differences[:2]:
            print(task, json.dumps(ours_text)[-300:], json.dumps(theirs)[-300:], sep="\n  ")

    for benchmark, source in {"longbench": "LongBench", "longbench2": "v2", "babilong": ".", "infinitebench": "infinite", "longproc": "longproc", "nolima": "nolima"}.items():
        for form in (["0shot", "no_context", "cot", "cot_answer"] if benchmark == "longbench2" else [""]):
            for kind in ("whole", "cut"):
                if kind == "cut" and (benchmark not in CUT or form == "no_context"):
                    continue
                out = folder / f"out_{benchmark}_{form}_{kind}"
                tokens = CUT[benchmark] if kind == "cut" else 900_000
                flags = [f"--prompt-tokens={tokens}", "--lengths=1000000"] if benchmark in CUT else []
                flags += [f"--form={form}"] if form else []
                flags += [f"--answers={folder / 'v2/answers.jsonl'}"] if form == "cot_answer" else []
                subprocess.run([program, "import-data", benchmark, str(folder / source), f"--out={out}", "--no-chat", *flags], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for suite in sorted(out.glob("*.yaml")):
                    run = subprocess.run([program, "samples", str(suite), f"--tokenizer={TOKENIZER}", "--format=jsonl"], check=True, capture_output=True)
                    ours = {}
                    for line in run.stdout.decode().splitlines():
                        row = json.loads(line)
                        ours.setdefault(row["task"], []).append(row["prompt"])
                    files = {json.loads(text.read_text().splitlines()[0])["prompt"]: text.stem for text in out.glob("rows/*.jsonl")}
                    for task, texts in ours.items():
                        names = [name for name in (task, *files.values()) if name in prompts and (name == task or kind == "whole" and texts[0] in files and files[texts[0]] == name)]
                        expected = no_context[task] if form == "no_context" else prompts[names[0]][kind]
                        compare(task, texts, expected)
    print(f"{count} prompts, {wrong} differences")
    return wrong != 0


main()
