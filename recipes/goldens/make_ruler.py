"""Write eval_tasks/ruler/testdata: stand-ins for what RULER's scripts read, and the rows that NVIDIA's own scripts make of them.

The scripts are run from a copy of a checkout of NVIDIA/RULER. Prompts, needles, word lists, essays, questions and the
parameters of the sentence splitter are replaced by the stand-ins, which this script invents: none of upstream's texts is
in the repository. With --real the prompts, needles and word lists stay upstream's, and only digests of the rows are kept.
With --long the lengths are 8K to 128K, two rows each, of which digests are kept.

    python3 -m venv V && V/bin/pip install wonderwords==3.0.1 nltk==3.9.1 numpy scipy tqdm pyyaml tenacity transformers llama-index-core
    V/bin/python recipes/goldens/make_ruler.py --checkout=RULER [--real | --long]
    V/bin/python recipes/goldens/make_ruler.py --sentences      # and again with nltk==3.10.4
"""

import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "eval_tasks/ruler/testdata"
DATA = OUT / "data"
JSON = "RULER/scripts/data/synthetic/json"
BASELINE, GPT2 = "models/baseline", "tests/testdata/goldens/tokenizers/gpt2"
TASKS = ["niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3",
         "niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe", "qa_1", "qa_2"]
ESSAYS = ["niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multivalue", "niah_multiquery"]

CONSTANTS = '''# Stand-ins for upstream's prompts: the same slots, other words.
TASKS = {
    'niah': {
        'tokens_to_generate': 128,
        'template': """Some secret {type_needle_v} are in this text. Keep them; questions about the {type_needle_v} follow.\\n{context}\\nWhich are all the secret {type_needle_v} of {query}?""",
        'answer_prefix': """ The secret {type_needle_v} of {query} are"""
    },

    'variable_tracking': {
        'tokens_to_generate': 30,
        'template': """Follow the chain(s) of variables in this text.\\n\\n{context}\\nQuestion: Which variables have the value {query}?""",
        'answer_prefix': """ Answer: By the text, {num_v} variables have the value {query}: """
    },

    'common_words_extraction': {
        'tokens_to_generate': 120,
        'template': """A list of words follows, some of them often.\\n{context}\\nQuestion: Which 10 are most common?""",
        'answer_prefix': """ Answer: The top 10 words are:"""
    },

    'freq_words_extraction' : {
        'tokens_to_generate': 50,
        'template': """Count the coded words. {context}\\nQuestion: Ignore the dots '....'. Which three are most frequent?""",
        'answer_prefix': """ Answer: By the text, the three are:"""
    },

    'qa': {
        'tokens_to_generate': 32,
        'template': """Answer from these documents alone.\\n\\n{context}\\n\\nQuestion: {query}""",
        'answer_prefix': """ Answer:""",
    },
}
'''
TEMPLATES = '''# Stand-ins: two forms of chat prompts.
Templates = {
    'base': "{task_template}",

    'brackets': "[ASK] {task_template} [END]",

    'some-chat': "Some answers are all short.\\nUSER: {task_template} ASSISTANT:",
}
'''
NEEDLE = "One secret {type_needle_v} of {key} is this: {value}."
NOISE = "Grass is green. Here we go again."
DOCUMENT = "Document {i}:\n{document}"

PLAIN = [word for word in (ROOT / "eval_tasks/tasks/lexicon.txt").read_text().split("\n") if word.isalpha()]  # a token each


def words_of(draw, count):
    found = []
    while len(found) < count:
        word = "".join(draw.choice(PLAIN) for _ in range(draw.choice([1, 2])))
        if word.lower() not in found:
            found.append(word.lower())
    return found


def sentence(draw, words):
    """Prose with what sentence splitters stumble over."""
    parts = [draw.choice(words) if draw.random() < 0.04 else draw.choice(PLAIN) for _ in range(draw.randint(4, 13))]
    for i in range(1, len(parts) - 1):
        roll = draw.random()
        if roll < 0.03:
            parts[i] = draw.choice(["Dr.", "Mr.", "e.g.", "U.S.", "vs.", "J.", "No. 5", "etc.", "p.m.", "co-op.", "X. Bako"])
        elif roll < 0.05:
            parts[i] = draw.choice(["3.14", "1,200", "-7.5", "12.", "in 1995.", "$4.50"])
        elif roll < 0.08:
            parts[i] = draw.choice(['"' + parts[i] + '"', "(" + parts[i] + ".)", "[" + parts[i] + "]", parts[i] + "...", parts[i] + " ...",
                                    parts[i] + "--" + parts[i], parts[i] + ",", parts[i] + ";", "\u201c" + parts[i] + ".\u201d", "caf\u00e9",
                                    "\u0130stanbul", "{" + parts[i] + "}", "'tis", ". . ."])
        elif roll < 0.10:
            parts[i] = parts[i].capitalize()
    text = " ".join(parts)
    text = (text[0].upper() + text[1:]) if draw.random() < 0.9 else text
    return text + draw.choice([".", ".", ".", ".", ".", "?", "!", '."', ".)", "?!", "...", "!!!", ".'", ". --", ".[3]"])


def make_data():
    draw = random.Random(7)
    shutil.rmtree(DATA, ignore_errors=True)
    for folder in ("wonderwords", "punkt_tab/english", JSON):
        (DATA / folder).mkdir(parents=True)
    scripts = DATA / "RULER/scripts/data"
    (scripts / "synthetic/constants.py").write_text(CONSTANTS)
    (scripts / "template.py").write_text(TEMPLATES)
    needle, noise = f"needle = {json.dumps(NEEDLE)}\n", f"    haystack = {json.dumps(NOISE)}\n"
    (scripts / "synthetic/niah.py").write_text("# Stand-in: the two texts that are read from this file.\n" + needle + noise)
    (scripts / "synthetic/variable_tracking.py").write_text("# Stand-in: the text that is read from this file.\n" + noise)
    (scripts / "synthetic/qa.py").write_text("# Stand-in: the text that is read from this file.\nDOCUMENT_PROMPT = " + json.dumps(DOCUMENT) + "\n")

    words = words_of(draw, 900)
    nouns = words[:300] + ["ATM", "CD", "known-how", "z\u00e9bu"] + words[:3]
    adjectives = ["well", "well-known", "well-known-by", "Early", "\u00e9lan"] + words[300:420]
    verbs = words[400:520]
    for name, items in (("noun", nouns), ("adjective", adjectives), ("verb", verbs)):
        (DATA / f"wonderwords/{name}list.txt").write_text("".join(item + " \n" for item in items), encoding="utf-8")
    english = words_of(draw, 4400)
    keys = [f"{i:x}" for i in range(len(english))]
    draw.shuffle(keys)
    (DATA / JSON / "english_words.json").write_text(json.dumps(dict(zip(keys, english)), separators=(",", ":")))

    prose = [sentence(draw, words) for _ in range(170)]
    essay = "".join(s + draw.choice([" ", " ", " ", "\n", "\n\n", "  ", "\u00a0 "]) for s in prose)
    (DATA / JSON / "PaulGrahamEssays.json").write_text(json.dumps({"text": essay}))
    paragraph = lambda low, high: " ".join(sentence(draw, words) for _ in range(draw.randint(low, high)))
    articles = []
    for title in range(7):
        paragraphs = []
        for _ in range(draw.randint(3, 12)):
            text = paragraph(1, 4)
            qas = [{"question": f"What is {draw.choice(words)} {{of}} {draw.choice(words)}?", "is_impossible": draw.random() < 0.3,
                    "answers": [{"text": draw.choice(text.split())} for _ in range(draw.randint(1, 4))]} for _ in range(3)]
            paragraphs.append({"context": text, "qas": qas})
        articles.append({"title": f"Article {title}", "paragraphs": paragraphs})
    articles[2]["paragraphs"].append(dict(articles[2]["paragraphs"][0]))  # the same paragraph twice
    (DATA / JSON / "squad.json").write_text(json.dumps({"version": "v2.0", "data": articles}))
    pool = [[draw.choice(words).capitalize(), [sentence(draw, words) + " " for _ in range(draw.randint(1, 3))]] for _ in range(70)]
    hotpot = [{"question": f"Who of {draw.choice(words)} and {draw.choice(words)}?", "answer": draw.choice(["yes", "no", draw.choice(words)]),
               "context": draw.sample(pool, draw.choice([10, 10, 10, 7]))} for _ in range(14)]
    (DATA / JSON / "hotpotqa.json").write_text(json.dumps(hotpot))

    folder = DATA / "punkt_tab/english"
    (folder / "abbrev_types.txt").write_text("\n".join(["dr", "mr", "e.g", "u.s", "vs", "etc", "p.m", "op"]) + "\n")
    (folder / "collocations.tab").write_text("##number##\tinternational\nj\t" + words[5] + "\n")
    (folder / "sent_starters.txt").write_text("\n".join([words[8], words[9], "he", "in"]) + "\n")
    contexts = [f"{word}\t{draw.choice([2, 4, 8, 16, 32, 36, 46, 96, 110])}" for word in words[:60] + [w.lower() for w in PLAIN[::3]] + ["known-how", "in", "caf\u00e9"]]
    (folder / "ortho_context.tab").write_text("\n".join(contexts) + "\n", encoding="utf-8")


def make_copy(checkout, real, to):
    """A checkout whose inputs are the stand-ins, and the environment to run it in."""
    shutil.copytree(checkout / "scripts", to / "scripts")
    synthetic = to / "scripts/data/synthetic"
    for path in (DATA / JSON).iterdir():
        shutil.copy(path, synthetic / "json" / path.name)
    nltk = to / "nltk_data/tokenizers"
    (nltk / "punkt").mkdir(parents=True)
    environment = dict(os.environ, NLTK_DATA=str(nltk.parent), PYTHONHASHSEED="0", TOKENIZERS_PARALLELISM="false", PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    if real:
        package = pathlib.Path(importlib.util.find_spec("llama_index.core").origin).parent
        shutil.copytree(package / "_static/nltk_cache/tokenizers/punkt_tab", nltk / "punkt_tab")
        return environment
    shutil.copytree(DATA / "punkt_tab", nltk / "punkt_tab")
    shutil.copy(DATA / "RULER/scripts/data/synthetic/constants.py", synthetic / "constants.py")
    shutil.copy(DATA / "RULER/scripts/data/template.py", to / "scripts/data/template.py")

    def replace(name, pattern, value):
        text = (synthetic / name).read_text()
        text, count = re.subn(pattern, lambda m: m.group(1) + json.dumps(value), text, flags=re.M)
        assert count == 1, (name, pattern, count)
        (synthetic / name).write_text(text)

    replace("niah.py", r'^(needle = )".*"$', NEEDLE)
    replace("niah.py", r'^(    haystack = )".*"$', NOISE)
    replace("variable_tracking.py", r'^(    haystack = )".*"$', NOISE)
    replace("qa.py", r'^(DOCUMENT_PROMPT = )".*"$', DOCUMENT)
    stub = to / "stub/wonderwords"
    stub.mkdir(parents=True)
    shutil.copytree(DATA / "wonderwords", stub / "assets")
    source = pathlib.Path(importlib.util.find_spec("wonderwords").origin).parent / "random_word.py"
    reader = re.search(r"def _get_words_from_text_file.*?\n\n\n", source.read_text(), re.S).group(0)  # upstream's own reader
    (stub / "random_word.py").write_text(
        "import pathlib\nWordList = list\nassets = pathlib.Path(__file__).parent / 'assets'\n"
        "def _obtain_resource(folder, name):\n    return open(folder / name, encoding='utf-8')\n\n" + reader)
    (stub / "__init__.py").write_text("from . import random_word\n")
    environment["PYTHONPATH"] = str(stub.parent)
    return environment


def run(copy, environment, case, rows):
    save = copy / "saved"
    shutil.rmtree(save, ignore_errors=True)
    command = [sys.executable, str(copy / "scripts/data/prepare.py"), f"--save_dir={save}", "--task=" + case["task"],
               f"--tokenizer_path={ROOT / case['tokenizer']}", "--tokenizer_type=hf", f"--max_seq_length={case['length']}",
               f"--num_samples={rows}", f"--random_seed={case.get('seed', 42)}", "--model_template_type=" + case.get("template", "base")]
    if case.get("ns"):
        command.append("--prepare_for_ns")
    process = subprocess.Popen(command, env=environment, cwd=copy / "scripts/data", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=240 if case["length"] <= 4096 else 3600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a script that repeats for ever, and its shell
        return None
    path = save / case["task"] / "validation.jsonl"
    if not path.exists():
        raise SystemExit(f"{case}: {output[-3000:]}")
    token = re.search(r"--model_template_token (\d+)", output)
    if token:
        case["template_tokens"] = int(token.group(1))
    return [json.loads(line) for line in path.open()]


def make_scores(checkout):
    """What upstream's cleaning and scorers say of invented answers."""
    space = {}
    exec((checkout / "scripts/eval/synthetic/constants.py").read_text(), space)
    source = (checkout / "scripts/eval/evaluate.py").read_text()
    exec("import re\n" + re.search(r"def postprocess_pred.*?\n\n\n", source, re.S).group(0), space)
    draw = random.Random(11)
    pieces = ["7654321", "abc", "ABC", "\u0130stanbul", "\u03a3\u03a3", "\u1e9e", "Stra\u00dfe", "a b", "x\x07y", "\x1c", "\x85", "\n", "\t", "\u3000", "", ".", "caf\u00e9", "CAF\u00c9"]
    rows = []
    for _ in range(150):
        references = [draw.choice(pieces[:11] + pieces[15:]) + draw.choice(["", "", " ", "\x1d"]) for _ in range(draw.randint(1, 4))]
        answer = "".join(draw.choice(pieces + references) + draw.choice(["", " ", ", "]) for _ in range(draw.randint(0, 7)))
        clean = space["postprocess_pred"](answer, {})
        rows.append({"answer": answer, "references": references, "clean": clean, "all": space["string_match_all"]([clean], [references]), "part": space["string_match_part"]([clean], [references])})
    cleaned, references = [row["clean"] for row in rows], [row["references"] for row in rows]
    means = {"all": space["string_match_all"](cleaned, references), "part": space["string_match_part"](cleaned, references)}
    (OUT / "scores.json").write_text(json.dumps({"rows": rows, "means": means}, separators=(",", ":")) + "\n")


def make_sentences():
    """Where NLTK's splitter ends sentences of invented texts, with the stand-ins' parameters. Its rules changed in 3.10."""
    import nltk
    from nltk.tokenize import punkt

    draw = random.Random(13)
    splitter = punkt.PunktSentenceTokenizer(_params(punkt))
    known = [line.split("\t")[0] for line in (DATA / "punkt_tab/english/ortho_context.tab").read_text(encoding="utf-8").splitlines()]
    starters = (DATA / "punkt_tab/english/sent_starters.txt").read_text().split()
    marks = list(".?!.?!..,;:()[]{}\"'`-&#*@") + ["...", ". .", ". . .", "--", "---", "\u201c", "\u201d", "\u2019", "\u00ab", "\u00bb", "\u2026"]
    rows = []
    for _ in range(160):
        text = ""
        for _ in range(draw.randint(3, 28)):
            word = draw.choice([draw.choice(known), draw.choice(starters), draw.choice(PLAIN), draw.choice(["dr", "e.g", "u.s", "J", "i", "\u00c9", "co-op", "3", "1,200", "-7.5", "2nd", "_", "\u0660", "x.y"])])
            word = draw.choice([word, word, word.capitalize(), word.upper()])
            text += draw.choice(["", "", "", draw.choice(marks)]) + word + draw.choice(["", "", ".", ".", draw.choice(marks), draw.choice(marks) + draw.choice(marks)]) + draw.choice([" ", " ", " ", " ", "", "  "])
        text = " ".join(text.split())
        rows.append([text, splitter.tokenize(text)])
    name = "letters" if tuple(map(int, nltk.__version__.split(".")[:2])) < (3, 10) else "closing"
    path = OUT / f"sentences_{name}.json"
    path.write_text("[\n" + ",\n".join(json.dumps([text, [len(s.encode()) for s in found]], separators=(",", ":")) for text, found in rows) + "\n]\n")
    print(path, path.stat().st_size, "bytes, NLTK", nltk.__version__)


def _params(punkt):
    """As load_punkt_params does, from any folder."""
    params, folder = punkt.PunktParameters(), DATA / "punkt_tab/english"
    lines = lambda name: (folder / name).read_text(encoding="utf-8").splitlines()
    params.collocations = {tuple(line.split("\t")) for line in lines("collocations.tab")}
    params.sent_starters, params.abbrev_types = set(lines("sent_starters.txt")), set(lines("abbrev_types.txt"))
    for line in lines("ortho_context.tab"):
        params.ortho_context[line.split("\t")[0]] = int(line.split("\t")[1])
    return params


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkout", type=pathlib.Path)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--sentences", action="store_true", help="only what the installed NLTK makes of invented texts")
    parser.add_argument("--long", action="store_true", help="8K to 128K")
    parser.add_argument("--rows", type=int)
    options = parser.parse_args()
    options.rows = options.rows or (2 if options.long else 5)
    digests_alone = options.real or options.long
    if options.sentences:
        return make_sentences()
    if not digests_alone:
        make_data()
        make_scores(options.checkout)
    cases = [{"task": task, "tokenizer": BASELINE, "length": 2048 if length == 1024 and task in ESSAYS else length} for length in (1024, 4096) for task in TASKS]
    if options.long:
        kept = {(case["task"], case["length"]): case for case in json.loads((OUT / "long_rows.json").read_text())} if (OUT / "long_rows.json").exists() else {}
        cases = [kept.get((task, length), {"task": task, "tokenizer": BASELINE, "length": length}) for length in (8192, 131072, 32768, 65536, 16384) for task in TASKS
                 if task != "cwe" or length <= 16384]  # longer lists have more words than the stand-in for english_words.json
    if not digests_alone:
        cases += [{"task": task, "tokenizer": GPT2, "length": 4096 if task in ESSAYS else 2048} for task in TASKS]
        cases += [{"task": task, "tokenizer": BASELINE, "length": 2048, "template": template}
                  for template in ("brackets", "some-chat") for task in ("niah_single_2", "niah_multivalue", "vt", "cwe", "fwe", "qa_1")]
        cases += [{"task": task, "tokenizer": BASELINE, "length": 2048, "seed": 43} for task in ("niah_multiquery", "vt", "cwe", "fwe", "qa_2")]
        cases += [{"task": task, "tokenizer": BASELINE, "length": 1024, "ns": True, "template": "some-chat"} for task in ("niah_single_1", "vt", "cwe", "fwe", "qa_1")]
        cases.append({"task": "niah_single_2", "tokenizer": BASELINE, "length": 512})  # never ends
    done = []
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        environment = make_copy(options.checkout, options.real, copy)
        for case in cases:
            if "rows" in case:  # an interrupted run goes on
                done.append(case)
                continue
            rows = run(copy, environment, case, options.rows)
            if rows is None:
                print("never ends:", case, flush=True)
                if not digests_alone:
                    done.append(dict(case, rows=[]))
                continue
            case["rows"] = [{"input_sha256": hashlib.sha256(row["input"].encode()).hexdigest()[:16], "answer_prefix": row["answer_prefix"],
                             "outputs": row["outputs"], "length": row["length"]} for row in rows]
            if digests_alone:
                for row, kept in zip(rows, case["rows"]):
                    kept["answer_prefix"] = hashlib.sha256(row["answer_prefix"].encode()).hexdigest()[:16]
                    kept["outputs"] = hashlib.sha256("\n".join(row["outputs"]).encode()).hexdigest()[:16]
            elif case["length"] <= 2048 and case["tokenizer"] == BASELINE and not case.get("template") and not case.get("seed") and case["task"] in ("niah_multikey_1", "vt", "fwe"):
                case["rows"][0]["input"] = rows[0]["input"]
            done.append(case)
            print(case["task"], case["tokenizer"], case["length"], [row["length"] for row in rows], flush=True)
            if options.long:
                write(OUT / "long_rows.json", done)
    path = OUT / ("real_rows.json" if options.real else "long_rows.json" if options.long else "rows.json")
    write(path, done)
    print(path, path.stat().st_size, "bytes")


def write(path, done):
    path.write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in done) + "\n]\n")


if __name__ == "__main__":
    main()
