#!/usr/bin/env python3
"""Holds a server with the OpenAI API against the native engine on the same checkpoint: one line of a table for each check.

    endpoint_servers.py vllm --python=VENV/bin/python --model=DIR --out=OUT [--checks=NAME,..] [--bin=DIR] [--in-flight=N]
    endpoint_servers.py llama.cpp --python=VENV/bin/python --gguf=FILE --model=DIR --out=OUT ..
    endpoint_servers.py http://HOST:PORT/v1 --model=DIR --out=OUT ..

Starts vLLM or llama.cpp's server (the package xllamacpp) with that Python, or asks one that runs. It serves DIR, a Hugging
Face directory with tokenizer.json, for the chat API also with chat_format.json (recipes/chat_format.py); FILE is DIR as
`bench_llama_cpp.py convert` writes it. Databases are kept in OUT, so an interrupted run continues. Checks:

greedy, chat       the same texts over the completions and the chat API, natively and by the server
scores             log-likelihoods of choices and of gold answers; chat_scores over the chat API
top_k, min_p       at temperature 2 with one token left: the greedy texts
drawn              four drawn answers to a question, with all filters; and the same texts when they are drawn again
think, think_text  a model that thinks (python -m thinking), thinking on and off, over the chat API and as completions
forced             the end of a block forced after 14 tokens, as completions
members            what one reply of the chat API has, thinking on and off: members of the message, usage, log-probabilities

Programs are looked for in build/release/bin, or in --bin. Standard library only.
"""

import collections
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

from flags import parser_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECALL = "name: endpoint_{name}\nseed: 3\nlengths: [512, 1024]\nsamples: 12\ntasks: [{{kind: recall_kv{form}}}, {{kind: rag_facts{form}}}]\n"
SCORES = """name: endpoint_scores
seed: 3
lengths: [512, 1024]
samples: 8
tasks:
  - kind: recall_kv
  - {kind: longqa_story, name: story_choice, parameters: {format: multiple_choice}}
"""
DRAWN = ["--epochs=4", "--sampling-temperature=1", "--top-k=20", "--top-p=0.95", "--min-p=0.05", "--limit=4"]
ANSWERS = """SELECT v.name, c.task, c.context_length, s.question_id, coalesce(s.epoch, 0), g.answer_raw, s.prompt_token_count,
  g.thinking_state, g.thinking_token_count, g.attempt_count, g.error_code, sc.value
FROM generations g JOIN cells c USING (cell_id) JOIN variants v USING (variant_id) JOIN samples s USING (sample_id)
JOIN task_metrics m ON m.job_id = v.job_id AND m.task = c.task AND m.metric_index = 0
LEFT JOIN scores sc ON sc.generation_id = g.generation_id AND sc.metric = m.metric"""
LIKELIHOODS = """WITH l AS (SELECT v.name, c.task, g.sample_id, j.key, json_extract(j.value, '$.log_likelihood') AS value
  FROM generations g JOIN cells c USING (cell_id) JOIN variants v USING (variant_id), json_each(g.log_likelihoods_json) j)
SELECT count(*), max(abs(n.value - e.value)) FROM l n JOIN l e USING (sample_id, key) WHERE n.name = 'native' AND e.name = 'server'"""
Answer = collections.namedtuple("Answer", "text prompt_tokens state thinking_tokens attempts error value")


LLAMA_CPP = """import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.model_alias, params.port = sys.argv[1], {sys.argv[2]}, int(sys.argv[3])
params.n_ctx, params.n_parallel, params.enable_reasoning = 4096, 1, 1
params.cache_type_k = params.cache_type_v = 0  # f32, as the native engine
server = xllamacpp.Server(params)
time.sleep(86400)
"""


class Refused(Exception):
    """The program's own sentence."""


def vllm_command(arguments):
    command = ["env", "VLLM_CPU_KVCACHE_SPACE=1", "HF_HUB_OFFLINE=1", arguments.python, "-m", "vllm.entrypoints.openai.api_server", f"--model={arguments.model}"]
    command += [f"--served-model-name={arguments.model.name}", "--dtype=float32", "--host=127.0.0.1", f"--port={arguments.port}", "--enforce-eager"]
    command += ["--max-model-len=4096", "--max-num-seqs=8"]
    chat_format = arguments.model / "chat_format.json"
    if chat_format.exists() and "thinking" in json.loads(chat_format.read_text()):
        command.append("--reasoning-parser=qwen3")
    return command


def llama_cpp_command(arguments):
    return [arguments.python, "-c", LLAMA_CPP, str(arguments.gguf), arguments.model.name, str(arguments.port)]


COMMANDS = {"vllm": vllm_command, "llama.cpp": llama_cpp_command}


@contextlib.contextmanager
def served(arguments):
    """The URL of a server that answers."""
    if arguments.server not in COMMANDS:
        yield arguments.server
        return
    url = f"http://127.0.0.1:{arguments.port}/v1"
    with (arguments.out / "server.log").open("a") as log:
        server = subprocess.Popen(COMMANDS[arguments.server](arguments), stdout=log, stderr=log)
    try:
        while True:
            if server.poll() is not None:
                sys.exit(f"the server ended with exit code {server.returncode}; its last words are in {arguments.out}/server.log")
            try:
                urllib.request.urlopen(f"{url}/models").close()
                break
            except OSError:
                time.sleep(1)
        yield url
    finally:
        server.terminate()
        server.wait()


class Servers:
    def __init__(self, arguments):
        self.program = str(pathlib.Path(arguments.bin) / "varifocal")
        self.url, self.model, self.out, self.in_flight = arguments.url, arguments.model, arguments.out, arguments.in_flight

    def ask(self, path, body=None):
        """The server's own reply, without the program between."""
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{path}", data, {"content-type": "application/json"})) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise Refused(error.read().decode().strip()) from error

    def run(self, name, suite, *flags, api="completions", native=True):
        """Answers by side (native, server) and setting, then question: {("server", "@thinking=on"): {question: Answer}}."""
        file, database = self.out / f"{name}.yaml", self.out / f"{name}.db"
        file.write_text(suite)
        command = [self.program, "run", str(file), f"--db={database}", *flags,
                   f"--endpoint=server={self.url},api={api},tokenizer={self.model},in-flight={self.in_flight}"]  # fmt: skip
        if native:
            command.append(f"--model=native={self.model}")
        ran = subprocess.run(command, capture_output=True, text=True, cwd=self.model.parent)
        (self.out / f"{name}.log").write_text(" ".join(command) + "\n" + ran.stdout + ran.stderr)
        if ran.returncode != 0:
            raise Refused(ran.stderr.strip().splitlines()[-1].removeprefix("varifocal: "))
        answers = collections.defaultdict(dict)
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as rows:
            for variant, task, length, question, epoch, *rest in rows.execute(ANSWERS):
                side, at, setting = variant.partition("@")
                answers[side, at + setting][task, length, question, epoch] = Answer(*rest)
        return answers

    def query(self, name, sql):
        with sqlite3.connect(f"file:{self.out / name}.db?mode=ro", uri=True) as rows:
            return rows.execute(sql).fetchone()


def mean(answers):
    return sum(answer.value or 0 for answer in answers.values()) / len(answers)


def compared(answers):
    """One part for each setting."""
    parts = []
    for setting in sorted({setting for _, setting in answers}):
        ours, theirs = answers["native", setting], answers["server", setting]
        both = [(ours[question], theirs[question]) for question in ours if question in theirs]
        part = f"{sum(a.text == b.text for a, b in both)} of {len(ours)} texts, {sum(a.prompt_tokens == b.prompt_tokens for a, b in both)} prompt counts equal"
        part += f"; means {mean(ours):.3f}, {mean(theirs):.3f}"
        if any(a.state for a in ours.values()):
            states = sum(a.state == b.state for a, b in both)
            part += f"; {states} states and {sum(a.thinking_tokens == b.thinking_tokens for a, b in both)} counts of thinking equal"
        failed, again = sum(b.error is not None for b in theirs.values()), sum(b.attempts > 1 for b in theirs.values())
        part += (f"; {failed} failed" if failed else "") + (f"; {again} asked again" if again else "")
        parts.append((setting + ": " if setting else "") + part)
    return "; ".join(parts)


def greedy(servers):
    return compared(servers.run("greedy", RECALL.format(name="greedy", form="")))


def chat(servers):
    return compared(servers.run("chat", RECALL.format(name="chat", form=", chat: true"), api="chat"))


def chat_scores(servers):
    servers.run("chat_scores", RECALL.format(name="chat_scores", form=", chat: true"), "--score-gold", api="chat", native=False)
    return "not refused"


def members(servers):
    question = json.loads((servers.model.parent / "rows.jsonl").open().readline())
    body = {"model": servers.ask("models")["data"][0]["id"], "temperature": 0, "max_completion_tokens": 40, "logprobs": True}
    body["messages"] = [{"role": "user", "content": f"{question['notes']}\n\nQuestion: {question['start']}"}]
    parts = []
    for setting, is_on in (("on", True), ("off", False)):
        reply = servers.ask("chat/completions", body | {"chat_template_kwargs": {"enable_thinking": is_on}})
        message, usage = reply["choices"][0]["message"], reply["usage"]
        has = ", ".join(f"{name} {message[name]!r}" for name in ("reasoning", "reasoning_content", "content") if message.get(name))
        logprobs = len((reply["choices"][0].get("logprobs") or {}).get("content") or [])
        parts.append(f"{setting}: {has}; usage {usage['prompt_tokens']} + {usage['completion_tokens']}, "
                     f"log-probabilities of {logprobs} new tokens")  # fmt: skip
    return "; ".join(parts)


def scores(servers):
    servers.run("scores", SCORES, "--score-gold")
    count, largest = servers.query("scores", LIKELIHOODS)
    return f"{count} log-likelihoods differ by at most {largest:.6f}"


def only_one_left(name, flag):
    def check(servers):
        suite = RECALL.format(name=name, form="")
        best = servers.run("greedy", RECALL.format(name="greedy", form=""))["server", ""]
        drawn = servers.run(name, suite, "--sampling-temperature=2", flag, native=False)["server", ""]
        return f"{sum(drawn[key].text == best[key].text for key in drawn)} of {len(drawn)} texts are the greedy ones"

    return check


def distinct(answers):
    texts = collections.defaultdict(set)
    for (*question, _), answer in answers.items():
        texts[tuple(question)].add(answer.text)
    return sum(map(len, texts.values())) / len(texts)


def drawn(servers):
    suite = RECALL.format(name="drawn", form="")
    first = servers.run("drawn", suite, *DRAWN)
    again = servers.run("drawn_again", suite, *DRAWN, native=False)["server", ""]
    ours, theirs = first["native", ""], first["server", ""]
    same = sum(theirs[key].text == again[key].text for key in again)
    return (f"{len(theirs)} answers, different texts a question {distinct(ours):.2f}, {distinct(theirs):.2f}; means {mean(ours):.3f}, {mean(theirs):.3f}; "
            f"drawn again, {same} are the same")  # fmt: skip


def thinking(name, api, *flags):
    def check(servers):
        suite = (servers.model.parent / "suite.yaml").read_text().replace("rows.jsonl", str(servers.model.parent / "rows.jsonl"))
        return compared(servers.run(name, suite, "--limit=48", *flags, api=api))

    return check


CHECKS = {
    "greedy": greedy,
    "scores": scores,
    "top_k": only_one_left("top_k", "--top-k=1"),
    "min_p": only_one_left("min_p", "--min-p=1"),
    "drawn": drawn,
    "chat": chat,
    "chat_scores": chat_scores,
    "think": thinking("think", "chat", "--thinking=on,off"),
    "think_text": thinking("think_text", "completions", "--thinking=on,off"),
    "forced": thinking("forced", "completions", "--thinking=on", "--thinking-tokens=14", "--force-thinking-end"),
    "members": members,
}


def main():
    resolved = lambda text: pathlib.Path(text).resolve()
    parser = parser_of(__doc__, {"server": dict(help=f"{', '.join(COMMANDS)}, or the URL of a server that runs")},
                       python=dict(help="of the environment that has the server"), gguf=dict(type=resolved), port=18440, model=resolved, out=resolved,
                       checks=dict(type=lambda text: text.split(","), default=list(CHECKS)), bin=ROOT / "build/release/bin", in_flight=1)  # fmt: skip
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.checks if name not in CHECKS]:
        parser.error(f"there is no check {unknown[0]}; there are {', '.join(CHECKS)}")
    if arguments.server in COMMANDS and (arguments.python is None or (arguments.server == "llama.cpp" and arguments.gguf is None)):
        parser.error("a server is started with --python, and llama.cpp's with --gguf too")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with served(arguments) as arguments.url:
        servers = Servers(arguments)
        for name in arguments.checks:
            try:
                result = CHECKS[name](servers)
            except Refused as refusal:
                result = f"refused: {refusal}"
            print(f"| {name} | {result} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
