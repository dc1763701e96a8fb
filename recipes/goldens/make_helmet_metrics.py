"""Write eval_tasks/helmet/testdata/metrics.json: what HELMET's own scoring functions say on thousands of nasty outputs.

Run where upstream's checkout and its requirements are (datasets, rouge-score, nltk, pytrec-eval-terrier, torch,
transformers); nothing of it is stored. Inputs are drawn by random.Random from the tables below, which C++ can draw too,
so the file holds, for every block of cases, one digest of the doubles and texts that upstream returned.

    python recipes/goldens/make_helmet_metrics.py --checkout=HELMET
"""

import argparse
import hashlib
import json
import pathlib
import random
import struct
import sys
import types

OUT = pathlib.Path(__file__).resolve().parents[2] / "eval_tasks/helmet/testdata/metrics.json"
BLOCK = 50

WORDS = """the a an running dogs happily barked flies died dying skies news generously nationally geology rationalize
conditional agreed agree feed plastered motoring sing conflated hopping falling hissing failing filing happy sky enjoy
relational valenci digitizer conformabli radicalli differentli vileli analogousli vietnamization predication operator
feudalism decisiveness hopefulness callousness formaliti sensitiviti sensibiliti triplicate formative electriciti
electrical hopeful goodness revival allowance inference airliner gyroscopic adjustable defensible irritant replacement
adjustment dependent adoption homologou communism activate angulariti effective bowdlerize probate rate cease controll
roll analogy fully sensibility howe proceed innings tying tied ties cries owed ow ed ing by yes no noanswer 7 42 1,000
it is not in what we saw then there was one more thing to be told about her brother and his wife""".split()
UNICODE = ["Σ", "ΟΔΟΣ", "İ", "ı", "ß", "é", "e\u0301", "\u212a", "\u017f", "’", "“", "—", "…", "٣", "²", "Ⅳ", "½", "中文", "Ж",
           "😀", "\u200b", "\u00ad", "ﬁ", "Å", "ǅ"]
SPACES = [" ", " ", " ", " ", " ", "  ", "\n", "\n", "\t", "\u00a0", "\u2009", "\x1f", "\x85", "\r\n", "\u2028"]
MARKS = [".", ",", "-", "_", "!", "'", "\"", "(", ")", "*", ":", "; "]
TEXT = WORDS + [w.capitalize() for w in WORDS[:40]] + [" "] * 150 + UNICODE + SPACES * 2 + MARKS * 2
ANSWERISH = ["Answer:", "answer: ", "ANSWER :", "An\u017fwer:", "The answer: ", "Answer:\n", "\nAnswer:", "Answer: Answer: "]
KEYISH = ["Corresponding value:", "corresponding value: ", "CORRESPONDİNG VALUE:", "correspondıng value:", "Key: x\n"]
LABELISH = ["label:", "Label: ", "label:\n", "LABEL:label:", "label :", "the label: "]
SUMMARYISH = ["Summary:", "summary: ", "\u017fummary:", "Summary:\n\n", "SUMMARY: Summary:"]
RANKS = ["1", "2", "3", "7", "12", "30", "٣", "4٤", "²", " > ", " > ", " > ", ">", "\n>\u00a0", " >  ", "[ID: ", "]", "ID", "iD: ", ":",
         ", ", "Ranking: ", "Doc", " ", "\n", "İD", "id"]
CITES = ["[1]", "[12]", " [3]", " [4][5]", "[٣]", " [", "[x]", "] ", " |", "<|im_end|>", "\n\n", "\n", ". ", ", ", ", ", ",", "."]

PIECES = {
    "text": TEXT,
    "answer": ANSWERISH,
    "key": KEYISH,
    "label": LABELISH,
    "summary": SUMMARYISH,
    "ranks": RANKS,
    "cites": CITES + TEXT[:60] + [" "] * 20,
}
# seed, kind, number of cases, pieces of the output, pieces of the prefix
KINDS = [
    (0, "calculate_metrics", 3000, "text", "answer"),
    (1, "default", 2000, "text", "answer"),
    (2, "json_kv", 1500, "text", "key"),
    (3, "icl", 1500, "text", "label"),
    (4, "infbench_choice", 2000, "text", "answer"),
    (5, "multi_lexsum", 1500, "text", "summary"),
    (6, "ruler", 2000, "text", "answer"),
    (7, "rerank", 3000, "ranks", "ranks"),
    (8, "alce_asqa", 2000, "cites", "answer"),
    (9, "alce_qampari", 2000, "cites", "answer"),
    (10, "parse_output", 3000, "text", "answer"),
    (11, "parse_rankings", 3000, "ranks", "ranks"),
    (12, "normalize_answer", 3000, "text", "answer"),
    (14, "porter", 20000, "text", "answer"),
]
SYLLABLES = "a e i o u y b c d f l m n r s t v w x z th str oo ea ll ss tt bl iz at io".split()
SUFFIXES = """s es ies sses ss ed eed ied ing y ational tional enci anci izer bli abli alli entli eli ousli ization ation ator
alism iveness fulness ousness aliti iviti biliti fulli logi icate ative alize iciti ical ful ness al ance ence er ic able
ible ant ement ment ent sion tion ion ou ism ate iti ous ive ize e ll""".split() + ["", ""]
MEASURES = ["exact_match", "f1", "substring_exact_match", "rougeL_f1", "rougeL_recall", "rougeLsum_f1", "rougeLsum_recall"]


def draw_text(rng, pieces, low, high):
    return "".join(rng.choices(pieces, k=rng.randint(low, high)))


def draw_output(rng, golds, pieces, prefixes):
    mode = rng.randint(0, 3)
    if mode == 0:
        return draw_text(rng, pieces, 0, 14)
    gold = golds[rng._randbelow(len(golds))]
    if mode == 1:
        before = draw_text(rng, pieces, 0, 3)
        return before + gold + draw_text(rng, pieces, 0, 3)
    if mode == 2:
        words = gold.split(" ")
        rng.shuffle(words)
        return draw_text(rng, pieces, 0, 4) + " ".join(words)
    before = draw_text(rng, prefixes, 1, 2)
    return before + gold + draw_text(rng, pieces, 0, 4)


def draw_case(kind, rng, pieces, prefixes):
    """The gold answer and the output of one case."""
    if kind == "porter":
        return None, draw_text(rng, SYLLABLES, 0, 4) + draw_text(rng, SUFFIXES, 1, 2)
    if kind in ("rerank", "parse_rankings"):
        labels = {}
        for _ in range(rng.randint(1, 12)):
            document = str(rng.randint(1, 40))
            labels[document] = rng.randint(0, 3)
        return labels, draw_text(rng, pieces, 0, 20)
    if kind in ("alce_asqa", "alce_qampari"):
        groups = []
        for _ in range(rng.randint(1, 8)):
            groups.append([draw_text(rng, PIECES["text"], 1, 2) for _ in range(rng.randint(1, 2))])
        flat = [alias for group in groups for alias in group]
        output = draw_output(rng, flat, pieces, prefixes)
        for _ in range(rng.randint(0, 6)):
            output += ", " + flat[rng._randbelow(len(flat))]
        return groups, output + draw_text(rng, pieces, 0, 2)
    golds = [draw_text(rng, PIECES["text"], 0, 8) for _ in range(rng.randint(1, 3))]
    if kind == "infbench_choice":
        letter = "ABCD"[rng._randbelow(4)]
        golds = [letter, letter + ". " + golds[0]]
    return golds, draw_output(rng, golds, pieces, prefixes)


def nested(function, name, **cells):
    """A function defined inside `function`, with its free variables given."""
    code = next(c for c in function.__code__.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
    closure = tuple(types.CellType(cells[n]) for n in code.co_freevars)
    return types.FunctionType(code, function.__globals__, name, None, closure)


def reference(checkout):
    sys.path.insert(0, str(checkout))
    import data
    import eval_alce
    import utils
    from nltk.stem.porter import PorterStemmer

    stemmer = PorterStemmer()

    def processed(post_process):
        def run(output, gold):
            values, others = post_process({"output": output}, {"answer": gold})
            return [values[m] for m in MEASURES] + [others["parsed_output"]]

        return run

    def ruler(output, gold):
        values, others = nested(data.load_ruler, "post_process")({"output": output}, {"answer": gold})
        return [values["ruler_recall"]]

    def rerank(output, gold):
        depths = [k for k in [1, 5, 10, 20, 50, 100, 200, 500, 1000] if k <= len(gold)]
        post_process = nested(data.load_msmarco_rerank, "post_process", k_values=depths)
        values, _ = post_process({"output": output}, {"qid": "q", "qrel": [[d, str(l)] for d, l in gold.items()]})
        names = [f"{m}@{k}" for k in depths for m in ("NDCG", "MAP", "Recall", "P")]
        return [values[n] for n in names] + [values["MRR"], values["num_preds"]]

    def plain(output):
        import re

        return utils.remove_citations(re.sub(r"\n+", " ", output).replace("<|im_end|>", ""))

    def asqa(output, gold):
        item = {"output": plain(output), "qa_pairs": [{"short_answers": g} for g in gold]}
        em, hit = eval_alce.compute_str_em([item])
        loc = [eval_alce.exact_presence(g, item["output"]) for g in gold]
        assert abs(em - 100 * sum(loc) / len(loc)) < 1e-9
        return [sum(loc) / len(loc), hit / 100, eval_alce.compute_len([item])]

    def qampari(output, gold):
        item = {"output": plain(output), "answers": gold}
        values = eval_alce.compute_qampari_f1([item])
        return [values["num_preds"]] + [
            round(values[n] / 100, 12) for n in ("qampari_prec", "qampari_rec", "qampari_rec_top5", "qampari_f1", "qampari_f1_top5")
        ]

    return {
        "calculate_metrics": lambda o, g: [utils.calculate_metrics(o, g)[m] for m in MEASURES],
        "default": processed(data.default_post_process),
        "json_kv": processed(nested(data.load_json_kv, "post_process")),
        "icl": processed(nested(data.load_icl, "post_process", system_template="label:")),
        "infbench_choice": processed(nested(data.load_infbench, "choice_post_process")),
        "multi_lexsum": processed(nested(data.load_multi_lexsum, "post_process", system_template="Summary:")),
        "ruler": ruler,
        "rerank": rerank,
        "alce_asqa": asqa,
        "alce_qampari": qampari,
        "parse_output": lambda o, g: [utils.parse_output(o)],
        "parse_rankings": lambda o, g: [x for pair in utils.parse_rankings(o).items() for x in pair],
        "normalize_answer": lambda o, g: [utils.normalize_answer(o)],
        "porter": lambda o, g: [stemmer.stem(o)],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkout", type=pathlib.Path, required=True)
    score = reference(parser.parse_args().checkout)
    rows = []
    for seed, kind, count, pieces, prefixes in KINDS:
        rng = random.Random(seed)
        digests, hashed, sums = [], hashlib.sha256(), 0.0
        for i in range(count):
            gold, output = draw_case(kind, rng, PIECES[pieces], PIECES[prefixes])
            for value in score[kind](output, gold):
                if isinstance(value, str):
                    hashed.update(value.encode() + b"\0")
                else:
                    hashed.update(struct.pack("<d", float(value)))
                    sums += float(value)
            if (i + 1) % BLOCK == 0:
                digests.append(hashed.hexdigest()[:16])
                hashed = hashlib.sha256()
        rows.append({"kind": kind, "seed": seed, "count": count, "pieces": pieces, "prefixes": prefixes, "digests": digests})
        print(kind, count, f"mean of all values {sums / count:.3f}")
    golden = {"block": BLOCK, "pieces": PIECES, "syllables": SYLLABLES, "suffixes": SUFFIXES, "kinds": rows}
    OUT.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
