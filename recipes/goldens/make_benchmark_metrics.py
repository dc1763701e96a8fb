"""Write eval_tasks/testdata/benchmark_metrics.json and jieba.json: what the scorers of LongBench (v1, v2), BABILong, NoLiMa,
InfiniteBench and LongProc say on nasty outputs of our own, and MRCR's scorer as its card states it.

Upstream's own functions are called; nothing of upstream is stored. Needs Python 3.11 with rouge==1.0.1,
fuzzywuzzy==0.18.0, python-Levenshtein, jieba==0.42.1, rouge-score, pandas, pyyaml.

    python recipes/goldens/make_benchmark_metrics.py --upstream=DIR [--check=build/release/bin/varifocal --cases=400]

DIR holds the checkouts LongBench, NoLiMa, babilong, InfiniteBench, LongProc. With --check nothing is written: that many
cases of each metric are scored by `varifocal metric`, and every difference is shown.
"""

import argparse
import ast
import difflib
import hashlib
import importlib
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import types

TESTDATA = pathlib.Path(__file__).resolve().parents[2] / "eval_tasks/testdata"
OUT, JIEBA_OUT = TESTDATA / "benchmark_metrics.json", TESTDATA / "jieba.json"

WORDS = "the a an red door blue boat left harbour Oslo yes no not 7 42 1,000 12 key in of and was kitchen office".split()
NASTY = ["Σ", "ΟΔΟΣ", "İ", "ß", "é", "\u0301", "٣", "４", "²", "中文", "答案", "😀", "’", "“", "—", "\u00a0", "\x1f", "\u2028", "ﬁ"]
SPACES = [" "] * 8 + ["  ", "\n", "\n\n", "\t", "\r\n", ". ", ".", "..", ", ", ": "]


def words(r, low, high, more=()):
    pool = WORDS * 3 + NASTY + list(more) * 3
    return "".join(r.choice(pool) + r.choice(SPACES) for _ in range(r.randint(low, high)))


def around(r, golds, more=(), size=5):
    """An answer that often has a gold answer in it."""
    kind = r.randrange(5)
    if kind == 0:
        return words(r, 0, size, more)
    gold = r.choice(list(golds) or [""])
    if kind == 1:
        return gold
    if kind == 2:
        parts = gold.split(" ")
        r.shuffle(parts)
        return " ".join(parts)
    return words(r, 0, size if kind == 3 else 1, more) + gold + words(r, 0, 2, more)


def load(path, name, **stubs):
    for module, value in stubs.items():
        sys.modules[module.replace("__", ".")] = value
    sys.path.insert(0, str(path))
    module = importlib.import_module(name)
    sys.path.pop(0)
    return module


def one_function(path, name):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    code = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    scope = {"re": re}
    exec(compile(ast.Module([code], []), str(path), "exec"), scope)
    return scope[name]


class Rouge:
    """What `evaluate.load("rouge")` computes."""

    def compute(self, predictions, references, use_aggregator):
        from rouge_score import rouge_scorer

        scorer = rouge_scorer.RougeScorer(["rougeLsum"], use_stemmer=False)
        many = isinstance(references[0], list)
        score = (scorer.score_multi if many else scorer.score)(references[0], predictions[0])
        return {"rougeLsum": [score["rougeLsum"].fmeasure]}


HAN = "中文答案北京大学生活很好在南市长江桥的一是不"


def han(r, low, high):
    pool = list(HAN) * 3 + ["龘", "Oslo", "B超", "3.5%", "1.2.3", "c#", "-", "，", "。", " ", "\r\n", "\u3000", ".", "é", "٣", "A_b", "%"]
    return "".join(r.choice(pool) for _ in range(r.randint(low, high)))


def small_jieba(r):
    """A dictionary and tables of ours, in the package's format."""
    words = {"".join(r.choice(HAN) for _ in range(r.choice([1, 2, 2, 2, 3, 4]))): r.randint(1, 900) for _ in range(120)}
    words |= {"B超": 3, "c#": 3, "大学": 500, "北京大学": 40}
    shown = lambda table: "P=" + repr(table).replace("}, ", "},\n ") + "\n"
    emit = {state: {c: -r.uniform(2, 12) for c in HAN if r.random() < 0.7} for state in "BEMS"}
    start = {"B": -0.3, "E": -3.14e100, "M": -3.14e100, "S": -1.4}
    trans = {"B": {"E": -0.5, "M": -0.9}, "E": {"B": -0.6, "S": -0.8}, "M": {"E": -0.3, "M": -1.3}, "S": {"B": -0.7, "S": -0.7}}
    return {"dict.txt": "".join(f"{word} {count} n\n" for word, count in words.items()), "finalseg/prob_start.py": shown(start),
            "finalseg/prob_trans.py": "from __future__ import unicode_literals\n" + shown(trans), "finalseg/prob_emit.py": ascii_source(shown(emit))}


def ascii_source(text):
    return "".join(c if ord(c) < 128 else f"\\u{ord(c):04x}" for c in text)


def jieba_goldens():
    """Cuts by jieba with that dictionary, and LongBench's two measures over them."""
    import jieba
    from jieba import finalseg

    r = random.Random(5)
    files = small_jieba(r)
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (pathlib.Path(folder) / path).parent.mkdir(exist_ok=True)
            (pathlib.Path(folder) / path).write_text(text, encoding="utf-8")
        cutter = jieba.Tokenizer(folder + "/dict.txt")
        cutter.tmp_dir = folder
        tables = {}
        for name in ("start", "trans", "emit"):
            exec(files[f"finalseg/prob_{name}.py"], tables)
            setattr(finalseg, f"{name}_P", tables["P"])
        whole, jieba.cut = jieba.cut, cutter.cut
        texts = [han(r, 0, 40) for _ in range(60)]
        cuts = [[text, list(cutter.cut(text, cut_all=False))] for text in texts]
        cases = []
        for metric, dataset in (("longbench/qa_f1_zh", "multifieldqa_zh"), ("longbench/rouge_zh", "vcsum")):
            for _ in range(20):
                golds = [han(r, 0, 20) for _ in range(r.randint(1, 2))]
                output = r.choice([han(r, 0, 20), golds[0] + han(r, 0, 4), golds[0][::-1]])
                cases.append([metric, output, golds, longbench_score(up[0], dataset, output, {"answers": golds})])
        jieba.cut = whole
        for name in ("start", "trans", "emit"):
            setattr(finalseg, f"{name}_P", importlib.import_module(f"jieba.finalseg.prob_{name}").P)
    return {"files": files, "cuts": cuts, "cases": cases}


def real_jieba_cases(count):
    """[metric, output, reference] with the installed package's own dictionary."""
    import jieba

    folder = pathlib.Path(jieba.__file__).parent
    digest = hashlib.sha256(b"".join((folder / path).read_bytes() for path in ("dict.txt", "finalseg/prob_start.py", "finalseg/prob_trans.py", "finalseg/prob_emit.py")))
    keys = [line.split(" ")[0] for line in (folder / "dict.txt").read_text("utf-8").splitlines()]
    r, cases = random.Random(6), []
    text = lambda: "".join(r.choice([r.choice(keys), r.choice(keys), r.choice(keys)[0], chr(r.randint(0x4E00, 0x9FD5)), han(r, 0, 3)]) for _ in range(r.randint(0, 25)))
    for metric in ("longbench/qa_f1_zh", "longbench/rouge_zh"):
        for _ in range(count):
            golds = [text() for _ in range(r.randint(1, 2))]
            cases.append([metric, r.choice([text(), golds[0] + text(), golds[0][: len(golds[0]) // 2] + text()]),
                          {"answers": golds, "jieba": str(folder), "jieba_sha256": digest.hexdigest()}])
    for answer in (986, 987, 988, 990):  # one call nearer to the limit than the English measure
        cases.append(["longbench/rouge_zh", " ".join(["x"] * answer), cases[-1][2] | {"answers": ["z"]}])
    return cases


def upstreams(root):
    longbench = load(root / "LongBench/LongBench", "eval")
    sys.modules["metrics"].__name__ = "longbench_metrics"
    del sys.modules["metrics"]
    infinite = load(root / "InfiniteBench/src", "compute_scores", evaluate=types.SimpleNamespace(load=lambda _: Rouge()),
                    args=types.SimpleNamespace(parse_args=None))
    babilong = load(root / "babilong/babilong", "metrics")
    longproc = load(root / "LongProc", "longproc.longproc_data")
    nolima = load(root / "NoLiMa/evaluation", "async_evaluate",
                  async_api_connector=types.SimpleNamespace(APIConnector=None),
                  jsonargparse=types.SimpleNamespace(ArgumentParser=None, ActionConfigFile=None),
                  data=types.ModuleType("data"), data__book_haystack=types.SimpleNamespace(BookHaystack=None))
    extract = one_function(root / "LongBench/pred.py", "extract_answer")
    return longbench, infinite, babilong, longproc, nolima, extract


def longbench_score(longbench, dataset, output, reference):
    """eval.py's loop, one frame deep as there: its depth decides where the package `rouge` ends with an error."""
    score = 0.0
    if reference.get("first_line"):
        output = output.lstrip("\n").split("\n")[0]
    for gold in reference["answers"]:
        score = max(score, longbench.dataset2metric[dataset](output, gold, all_classes=reference.get("all_classes")))
    return score


def grade_mrcr(response, answer, prefix):
    if not response.startswith(prefix):
        return 0
    return float(difflib.SequenceMatcher(None, response.removeprefix(prefix), answer.removeprefix(prefix)).ratio())


CLASSES = ["Date", "Number of something", "Number", "Other number", "Number of somethings", "City", "Other location"]
CODE = ["    return x", "x = foo(bar)", "# note", "// note", "```python", "if (a[i] > b) {", "", "self.value = value", "\n"]


def draw(metric, r):
    """(output, reference) of one case."""
    family, name = metric.split("/", 1)
    if family == "longbench":
        golds = [words(r, 0, 8).strip() for _ in range(r.randint(1, 3))]
        reference = {"answers": golds}
        if name == "classification":
            reference = {"answers": [r.choice(CLASSES)], "all_classes": r.sample(CLASSES, r.randint(2, 7))}
            return around(r, CLASSES, CLASSES), reference
        if name in ("count", "retrieval", "retrieval_zh"):
            number = str(r.choice([1, 3, 7, 12, "٣"]))
            form = {"count": "%s", "retrieval": "Paragraph %s", "retrieval_zh": "段落%s"}[name] % number
            more = [form, "Paragraph 3", "段落7", number, "12", "3", "012"]
            return around(r, [form, number], more), {"answers": [form + r.choice(["", " Paragraph 9", " 段落9"])]}
        if name.startswith("code_sim"):
            gold = r.choice(CODE[:2] + CODE[5:6] + CODE[7:8] + ["long = " + "abcdefghij, " * r.randint(15, 22)])
            lines = r.sample(CODE, r.randint(0, 4))
            edited = list(gold)
            for _ in range(r.randint(0, 6)):
                edited.insert(r.randint(0, len(edited)), r.choice("xyz (=.é"))
            lines.insert(r.randint(0, len(lines)), "".join(edited))
            return "\n" * r.randint(0, 2) + "\n".join(lines), {"answers": [gold] + ([""] if r.random() < 0.1 else [])}
        if r.random() < 0.3:
            reference["first_line"] = True
        return "\n" * r.randrange(2) + around(r, golds, size=12), reference
    if family == "longbench2":
        letter = r.choice("ABCD")
        parts = [f"The correct answer is ({letter})", f"The correct answer is {letter}", "The correct answer is **(B)**",
                 "The correct answer is Definitely", "the correct answer is (A)", "The correct answer is  (A)",
                 "The correct answer is (A) or (B)", "The correct answer is (E)", "The *correct* answer is C", "(D)", " "]
        return "".join(r.sample(parts, r.randint(0, 3))), {"answer": letter}
    if family == "babilong":
        labels = r.choice([["bathroom", "office", "Hallway"], ["no", "yes", "maybe"], ["apple", "football", "milk", "nothing"]])
        target = r.choice(labels + ["apple,milk", "no,x", "football,milk,apple"])
        question = r.choice(["Where is Mary?", "Is John in the office?", "What is MILK?"])
        more = labels + ["officer", "north", "know", "<context>", "<example>", "Question"]
        return around(r, labels + [target, target.upper()], more), {"target": target, "question": question, "labels": labels}
    if family == "nolima":
        gold = r.choice([["Yuki", "Stuart"], ["Yuki"], "Yuki", "Yu ki"])
        texts = [gold] if isinstance(gold, str) else gold
        return r.choice(["", "\n", " "]) + around(r, texts, texts + ["Y", "yuki"]) + r.choice(["", "\n", "\nYuki", "\nNo.", "\n1"]), {"gold_answers": gold}
    if family == "mrcr":
        prefix = r.choice(["aYooSG8CQg", "x"])
        gold = prefix + words(r, 5, 120)
        body = list(gold[len(prefix):])
        for _ in range(r.randint(0, 30)):
            body[r.randrange(len(body))] = r.choice(["", "q", "  ", "Zeta"])
        return r.choice([prefix, prefix, prefix, "", "\n" + prefix]) + "".join(body), {"answer": gold, "prefix": prefix}
    if family == "infinitebench":
        return draw_infinite(name, r)
    if name.startswith("html_to_tsv"):
        cells = ["red", "The Door", "7", "", "a \"b\"", "\"x\ty\"", "N/A", "é", "\"open"]
        table = lambda n: "\n".join("\t".join(r.choice(cells) for _ in range(r.choice([2, 2, 2, 2, 3]))) for _ in range(n))
        gold = "Name\tColour\n" + table(r.randint(1, 4))
        other = r.choice([gold, gold, "Name\tColour\n", "A\tA\n", "A\tB\tC\n", "Name\tColour\r\n"]) + r.choice(["", "\n" + table(2)])
        lines = other.split("\n")
        if r.random() < 0.4:
            lines.insert(r.randint(0, len(lines)), r.choice(["", "stray", "\r", "\"quoted\nover lines\"\tx"]))
        text = "\n".join(lines)
        return r.choice(["%s", "```tsv\n%s\n```", "Here:\n```tsv%s```\nend", "```tsv\n%s", "```tsv\n%s``` ```tsv x"]).replace("%s", text), {"reference_output": gold}
    if name.startswith("path_traversal"):
        gold = [f"From {a} take a bus to {b}." for a, b in zip("ABCDEF", "BCDEFG")][: r.randint(1, 6)]
        lines = [line if r.random() < 0.85 else line.lower() for line in gold] + ["more"] * r.randrange(2)
        lines = lines[: r.choice([1, 2, 9])]
        route = "\n".join(lines)
        form = r.choice(["<Route>\n%s\n</Route>", "<Route>%s</Route> x </Route>", "%s", "</Route><Route>%s", "x <Route> %s </Route>"])
        return form.replace("%s", route), {"reference_output": "\n".join(gold) + r.choice(["", "\n"])}
    gold = [f"- {n} {v} the cup is {w} the {p}." for n, v, w, p in
            zip(["Ann", "Bob", "Cy", "Di"], ["thinks", "believes", "knows", "thinks"], ["in", "on", "at", "in"], ["box", "Shelf", "red bin", "hall"])]
    gold = gold[: r.randint(1, 4)]
    lines = [r.choice([line, line, line.upper(), line.replace("the ", ""), line.replace("cup", "mug"), "  " + line, "-", "note"]) for line in gold]
    return r.choice(["", "Step 1:\n"]) + r.choice(["\n", "\r\n", "\n\n", "\x0b"]).join(lines + ["- Ed is sad"] * r.randrange(2)), {
        "reference_output": "# Beliefs\n" + "\n".join(gold)}


def draw_infinite(name, r):
    if name in ("passkey", "number_string"):
        label = r.choice(["71432", ["71432"], "0", ""])
        return around(r, ["71432", "Key 1: 71432", "071432"], ["71432", "٣"]), {"label": label}
    if name == "kv_retrieval":
        return around(r, ["ab-12", "{\"ab-12\"}", "x:ab-12."], ["ab-12"]), {"label": r.choice(["ab-12", ["ab-12"]])}
    if name == "longdialogue_qa_eng":
        return around(r, ["Ace", "ACE", "Strasse", "straße", "ﬁn"], ["ace.", "Ace:"]), {"label": r.choice([["ACE", "ACE R"], ["STRASSE"], ["FIN"], "ACE"])}
    if name == "code_run":
        forms = ["4", "+4", "-4", "1_000", "4.", "٤", "func: 4", "4__0", "_4", "004", "4a", ""]
        return around(r, forms, forms), {"label": r.choice([[4], 4, [-4], [1000], [4.0], ["4"]])}
    if name == "code_debug":
        forms = ["B.", "B:", "B", "answer is: B", "The answer is:B", "is: foo.bar", "correct option is: Option B", "answer: *B*", "foo.bar", "is:"]
        return around(r, forms, forms), {"label": ["foo.bar", "B"]}
    if name == "longbook_choice_eng":
        forms = ["B", "B. Bob", "Bob", "answer is: B", "answer is B", "option is Bob", "AB", "CD B", "E B", "answer:", "The Answer is B", "é"]
        return around(r, forms, forms), {"label": r.choice([["Bob", "B"], ["A way", "A"]])}
    if name == "longbook_qa_chn":
        golds = [r.choice(["中文答案", "答案，是《红楼》", "Oslo 答案", "the a"]) for _ in range(r.randint(1, 2))]
        return around(r, golds, ["答", "案", "中", "。", "《", "A"]), {"label": golds}
    if name == "math_find":
        return around(r, ["88", "The 88", "88.5", "0088", "٨٨", "8.8"], ["88", "3.5", "7"]), {"label": r.choice([[88], 88, [88.5], [3.5], [True]])}
    if name == "math_calc":
        label = [r.randrange(30) for _ in range(r.randint(1, 6))]
        said = [n if r.random() < 0.8 else n + 1 for n in label] + [1] * r.randrange(2)
        return r.choice(["%s", "Values: %s", "7 %s"]).replace("%s", str(said[: r.randint(0, 7)])), {"label": r.choice([label, [label]])}
    golds = [words(r, 1, 8 if name == "longbook_qa_eng" else 30) for _ in range(r.randint(1, 3))]
    return around(r, golds, size=20), {"label": golds if r.random() < 0.95 else golds[0]}


def score(metric, output, reference, up):
    longbench, infinite, babilong, longproc, nolima, extract = up
    family, name = metric.split("/", 1)
    if family == "longbench":
        from fuzzywuzzy import fuzz
        from fuzzywuzzy.StringMatcher import StringMatcher

        fuzz.SequenceMatcher = StringMatcher if name.endswith("levenshtein") else difflib.SequenceMatcher
        dataset = {"qa_f1": "qasper", "rouge": "qmsum", "classification": "trec", "count": "passage_count",
                   "qa_f1_zh": "multifieldqa_zh", "rouge_zh": "vcsum", "retrieval": "passage_retrieval_en", "retrieval_zh": "passage_retrieval_zh"}.get(name, "lcc")
        return longbench_score(longbench, dataset, output, reference)
    if family == "longbench2":
        return float(extract(output.strip()) == reference["answer"])
    if family == "babilong":
        return float(babilong.compare_answers(reference["target"], output, reference["question"], reference["labels"]))
    if family == "nolima":
        tester = types.SimpleNamespace(metric=name, gold_answers=reference["gold_answers"])
        return float(nolima.NoLiMa_Tester._evaluate_response(tester, output))
    if family == "mrcr":
        return grade_mrcr(output, reference["answer"], reference["prefix"])
    if family == "infinitebench":
        try:
            return infinite.get_score_one(output, reference["label"], name, "yarn-mistral")
        except ValueError:  # int("3.5"): upstream's program ends; ours is wrong
            return 0.0
    task, value = name.split("/")
    evaluate = {"path_traversal": longproc.eval_path_traversal, "html_to_tsv": longproc.eval_html_to_tsv,
                "tom_tracking": longproc.eval_tom_tracking}[task]
    return float(evaluate(output, reference)[0][value])


METRICS = ["longbench/" + n for n in ("qa_f1", "rouge", "classification", "count", "retrieval", "retrieval_zh",
                                      "code_sim_difflib", "code_sim_levenshtein")]
METRICS += ["longbench2/choice", "babilong/labels", "mrcr/ratio"]
METRICS += ["nolima/" + n for n in ("contains", "EM", "lastline_contains", "lastline_EM")]
METRICS += ["infinitebench/" + n for n in ("passkey", "number_string", "kv_retrieval", "longdialogue_qa_eng", "code_run",
                                           "code_debug", "longbook_choice_eng", "longbook_qa_eng", "longbook_qa_chn",
                                           "longbook_sum_eng", "math_find", "math_calc")]
METRICS += ["longproc/" + n for n in ("path_traversal/accuracy", "path_traversal/partial_accuracy", "tom_tracking/accuracy",
                                      "tom_tracking/partial_accuracy", "html_to_tsv/f1", "html_to_tsv/precision",
                                      "html_to_tsv/recall")]


def main_cases(count):
    cases = []
    for index, metric in enumerate(METRICS):
        r = random.Random(index)
        cases += [[metric, *draw(metric, r)] for _ in range(count)]
    # Where the package `rouge` is too deep for Python: words of the answer, then of both.
    for answer, gold in [(n, m) for n in (987, 988, 989, 991) for m in (1, 400)] + [(500, 488), (500, 489), (3, 1200)]:
        words_of = lambda letter, n: " ".join([letter] * n)
        cases.append(["longbench/rouge", words_of("x", answer) + " y", {"answers": ["y " + words_of("z", gold)]}])
        cases.append(["longbench/rouge", "y " + words_of("x", answer), {"answers": ["y " + words_of("z", gold)]}])
    return cases


def packed(value):
    """{"$repeat"} for the long runs of one word, which the test expands."""
    if isinstance(value, dict):
        return {key: packed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [packed(item) for item in value]
    if not isinstance(value, str) or len(value) < 600:
        return value
    parts, at = [], 0
    for run in re.finditer(r"(\S )\1{20,}", value):
        parts += [value[at : run.start()], {"$repeat": [run[1], (run.end() - run.start()) // 2]}]
        at = run.end()
    return {"$concat": [part for part in [*parts, value[at:]] if part != ""]} if parts else value


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--upstream", required=True, type=pathlib.Path)
parser.add_argument("--check")
parser.add_argument("--cases", type=int, default=24)
arguments = parser.parse_args()
up = upstreams(arguments.upstream.resolve())
import contextlib
import io

cases, values = main_cases(arguments.cases) + (real_jieba_cases(arguments.cases) if arguments.check else []), []
sink = io.StringIO()
for metric, output, reference in cases:
    # At the module's level, as eval.py scores: the recursion has to be as deep as there.
    with contextlib.redirect_stdout(sink):
        if metric.startswith("longbench/rouge"):
            values.append(longbench_score(up[0], "qmsum" if metric == "longbench/rouge" else "vcsum", output, reference))
        else:
            values.append(score(metric, output, reference, up))

if arguments.check:
    lines = "".join(json.dumps({"metric": m, "prediction": o, "gold": g}) + "\n" for m, o, g in cases)
    run = subprocess.run([arguments.check, "metric", "--jsonl=-", "--format=jsonl"], input=lines.encode(), capture_output=True)
    ours = [json.loads(line) for line in run.stdout.decode().splitlines()]
    wrong = [(case, value, line) for case, value, line in zip(cases, values, ours, strict=True) if line.get(case[0]) != value]
    for case, value, line in wrong[:20]:
        print(json.dumps([*case, {"upstream": value, "ours": line}], ensure_ascii=False)[:1500])
    print(f"{len(cases)} cases of {len(set(case[0] for case in cases))} metrics, {len(wrong)} differences")
    sys.exit(1 if wrong else 0)

rows = [json.dumps([m, packed(o), packed(g), v]) for (m, o, g), v in zip(cases, values, strict=True)]
OUT.write_text("[\n" + ",\n".join(rows) + "\n]\n")
JIEBA_OUT.write_text(json.dumps(jieba_goldens(), ensure_ascii=False, indent=0) + "\n")
print(f"{len(rows)} cases, {OUT.stat().st_size} bytes")
