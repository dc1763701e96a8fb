"""Write eval_tasks/testdata/text_metrics.json: text metrics by their Python definition, on pairs chosen to be nasty.

The definition is the one HELMET inherits from SQuAD's evaluation: lower, drop ASCII punctuation, drop articles, squeeze
white space; the best over the gold answers. Pairs mix scripts, cases with special rules (final sigma, dotted I, sharp s),
combining marks next to articles, exotic spaces, empty texts, and random mixtures of all these from a fixed seed.

    python recipes/make_metric_goldens.py
"""

import collections
import json
import pathlib
import random
import re
import string

OUT = pathlib.Path(__file__).resolve().parent.parent / "eval_tasks/testdata/text_metrics.json"


def normalize(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(prediction, gold):
    p, g = normalize(prediction), normalize(gold)
    if p != g and ({p, g} & {"yes", "no", "noanswer"}):
        return 0.0
    shared = sum((collections.Counter(p.split()) & collections.Counter(g.split())).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(p.split()), shared / len(g.split())
    return 2 * precision * recall / (precision + recall)


def scores(prediction, gold):
    p = normalize(prediction)
    return {
        "exact_match": float(any(normalize(g) == p for g in gold)),
        "substring_exact_match": float(any(normalize(g) in p for g in gold)),
        "token_f1": max(f1(prediction, g) for g in gold),
    }


HAND = [
    ("Don Shula was the coach", ["Don Shula"]),
    ("yes it is", ["yes"]),
    ("yes", ["Yes."]),
    ("No", ["noanswer", "no"]),
    ("foo bar foo", ["foo foo"]),
    ("", ["A"]),
    ("the", [""]),
    ("A. The whale", ["whale"]),
    ("U.S.A.", ["usa"]),
    ("an_a the-end", ["ana theend"]),
    ("the’s", ["’s"]),
    ("ΟΔΟΣ ΣΑΣ. ΣΣ'Σ Σ", ["οδος σας σσς σ"]),
    ("İstanbul I ı", ["i̇stanbul i ı"]),
    ("STRASSE Straße ẞ", ["strasse straße ß"]),
    ("thé a\u0301 the\u0301 é", ["thé ´"]),
    ("a1 1a a一 the٣ a\u00b2", ["a1"]),
    ("one\u00a0two\u2003three\u3000four\u200bfive\x1csix", ["one two three four five six"]),
    ("tab\tnew\nline\r\x0b\x0c", ["tab new line"]),
    ("the the an a A AN", ["", "x"]),
    ("ǅ ǆ Ǆ Ⅷ ⓐ Ⓐ", ["ǆ ǆ ǆ ⅷ ⓐ ⓐ"]),
    ("Привет, МИР! ЁЖ", ["привет мир ёж"]),
    ("日本語、テキスト。", ["日本語"]),
    ("😀 the 😀a an😀", ["😀"]),
    ("50%", ["50 %", "50"]),
    ("$1,000.00", ["100000"]),
    ("well-known fact", ["well known fact"]),
    ("theatre another anthem", ["atre"]),
    ("\ufeffstart", ["start"]),
]

PIECES = (
    ["a", "an", "the", "A", "The", "THE", "yes", "no", "noanswer", "able", "arid", "Attic", "Σ", "ΑΣ", "σς", "İ", "ı", "ß"]
    + ["é", "e\u0301", "\u0301", "ʼ", "’", "'", ".", ",", "-", "_", "!", "¿", "“", "—", "…", "7", "42", "٣", "²", "Ⅳ", "½"]
    + ["一", "中文", "ñ", "Ñ", "Ж", "ж", "ا", "ש", "😀", "\u200d", "\u200b", "\u00ad"]
    + [" ", " ", " ", " ", "  ", "\u00a0", "\u2009", "\u3000", "\t", "\n", "\x1f", "\x85"]
)


def main():
    rng = random.Random(20261121)
    pairs = list(HAND)
    for _ in range(600):
        gold = ["".join(rng.choices(PIECES, k=rng.randint(0, 7))) for _ in range(rng.randint(1, 3))]
        kind = rng.random()
        prediction = "".join(rng.choices(PIECES, k=rng.randint(0, 9)))
        if kind < 0.4:
            prediction = rng.choice(PIECES) + rng.choice(gold).upper() + rng.choice(PIECES)
        elif kind < 0.6:
            words = rng.choice(gold).split()
            rng.shuffle(words)
            prediction = " ".join(words + rng.choices(PIECES, k=2))
        pairs.append((prediction, gold))
    rows = [{"prediction": p, "gold": g, "normalized": normalize(p), **scores(p, g)} for p, g in pairs]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    OUT.write_text(f"[\n{lines}\n]\n")
    print(f"{len(rows)} pairs; exact {sum(r['exact_match'] for r in rows):.0f}, "
          f"substring {sum(r['substring_exact_match'] for r in rows):.0f}")


if __name__ == "__main__":
    main()
