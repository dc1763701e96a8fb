"""Write tokenizer/unicode_class_runs.cc: which characters the tokenizers library takes for letters, numbers, spaces,
marks, punctuation; tokenizer/lowercase_ranges.cc: what it lowers; and tokenizer/newer_characters.cc: the categories of
characters that its regex engine knows and Unicode 14, which this script's Python and Debian's PCRE2 follow, does not.

The library mixes several Unicode versions (its regex engine's, Rust's, the regex crate's), so the classes are asked of
the library itself, character by character, instead of being read from a Unicode release.

    python recipes/goldens/make_unicode_classes.py
"""

import itertools
import pathlib
import unicodedata

import charsmap
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tokenizer"
POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
LETTER, NUMBER, SPACE, NUMERIC, WORD, INERT, MARK, PUNCTUATION, CONTROL, NONSPACING, JOINING = (1 << i for i in range(11))


def by_regex(pattern):
    """Points that the pattern matches: the ones a Split that removes matches takes away."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    kept = {ord(c) for piece, _ in split.pre_tokenize_str("".join(map(chr, POINTS))) for c in piece}
    return {p for p in POINTS if p not in kept}


def numeric():
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str("a".join(map(chr, POINTS)))
    return {ord(piece) for piece, _ in pieces if len(piece) == 1 and piece != "a"}


def word():
    """A single-word token is not recognised right after a word character."""
    tokenizer = Tokenizer(models.BPE({"u": 0, "\n": 1}, [], unk_token="u"))
    tokenizer.add_tokens([AddedToken("QQ", single_word=True, normalized=False)])
    points = [p for p in POINTS if chr(p) != "Q"]
    encoding = tokenizer.encode("".join(chr(p) + "QQ\n" for p in points))
    found = {start for token, (start, _) in zip(encoding.ids, encoding.offsets) if token == 2}
    return {p for i, p in enumerate(points) if i * 4 + 1 not in found} | {ord("Q")}


def inert():
    """Points that newer Unicode releases normalize (or may) and the library, whose tables are older, does not."""
    forms = [getattr(normalizers, form)() for form in ("NFC", "NFD", "NFKC", "NFKD")]
    parts = [d.split() for d in map(unicodedata.decomposition, map(chr, POINTS))]
    pairs = [chr(int(a, 16)) + chr(int(b, 16)) for a, b in (p for p in parts if len(p) == 2 and p[0][0] != "<")]
    seconds = {ord(pair[1]) for pair in pairs}
    jamo = {*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    composing = {ord(c) for pair in pairs if len(forms[0].normalize_str(pair)) == 1 for c in pair} | jamo
    found = set()
    for point in POINTS:
        c = chr(point)
        new = unicodedata.combining(c) or unicodedata.decomposition(c) or point in seconds
        if point in composing or (not new and unicodedata.category(c) != "Cn"):
            continue
        # Left alone, and a border between marks of the highest and the lowest class, which would else change places.
        if all(form.normalize_str(f"\u0345{c}\u0334") == f"\u0345{c}\u0334" for form in forms):
            found.add(point)
    return found


def by_normalizer(normalizer, before="", gives=""):
    """Points that the normalizer, given `before` and the point, turns into `gives`."""
    return {p for p in POINTS if normalizer.normalize_str(before + chr(p)) == gives}


def bert(**on):
    return normalizers.BertNormalizer(**(dict.fromkeys(["clean_text", "handle_chinese_chars", "strip_accents", "lowercase"], False) | on))


def write_lowercase():
    """Runs of points with one distance to their lower case; every second point of alphabets that alternate."""
    lower = normalizers.Lowercase()
    pairs = [(p, lower.normalize_str(chr(p))) for p in POINTS]
    several = {p: text for p, text in pairs if len(text) != 1}
    assert several == {0x130: "i\u0307"}, several
    ranges = []
    for point, text in pairs:
        distance = ord(text) - point if point not in several else 0
        if distance == 0:
            continue
        last = ranges[-1] if ranges else None
        step = point - last[1] if last else 0
        if last and last[3] == distance and step <= 2 and step in (last[2], last[2] or step):
            last[1], last[2] = point, step
        else:
            ranges.append([point, point, 0, distance])
    rows = [f"{{{first:#x}, {last:#x}, {max(step, 1)}, {distance}}}," for first, last, step, distance in ranges]
    write("lowercase_ranges.cc", "LowercaseRange kLowercaseRanges", "kLowercaseRangeCount", rows)


def write_newer():
    assert unicodedata.unidata_version == "14.0.0"
    categories = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Han".split()
    newer = []
    for category in categories:
        known = {p for p in POINTS if unicodedata.category(chr(p)) in ([category] if category != "Han" else categories)}
        newer += [[p, p, category] for p in sorted(by_regex(rf"\p{{{category}}}") - known)]
    ranges = []
    for first, last, category in newer:
        if ranges and ranges[-1][1] == first - 1 and ranges[-1][2] == category:
            ranges[-1][1] = last
        else:
            ranges.append([first, last, category])
    rows = [f'{{{first:#x}, {last:#x}, "{category}"}},' for first, last, category in ranges]
    write("newer_characters.cc", "NewerCharacters kNewerCharacters", "kNewerCharactersCount", rows)


def write(name, array, count, rows):
    lines, line = [], "   "
    for row in rows:
        if len(line) + len(row) + 1 > 120:
            lines.append(line)
            line = "   "
        line += " " + row
    lines.append(line)
    variable = array.split()[1]
    (OUT / name).write_text(
        "// Written by recipes/goldens/make_unicode_classes.py; do not edit.\n"
        "// clang-format off\n"
        '#include "tokenizer/unicode_classes.h"\n\nnamespace varifocal {\n\n'
        f"const {array}[] = {{\n" + "\n".join(lines) + "\n};\n"
        f"const int {count} = sizeof({variable}) / sizeof({variable}[0]);\n\n"
        "}  // namespace varifocal\n"
    )
    print(f"{len(rows)} rows in {name}")


def main():
    space = by_regex(r"\s")
    control = by_normalizer(bert(clean_text=True))
    assert space - control == by_normalizer(bert(clean_text=True), gives=" ")
    bits = dict.fromkeys(POINTS, 0)
    for flag, members in (
        (LETTER, by_regex(r"\p{L}")),
        (NUMBER, by_regex(r"\p{N}")),
        (SPACE, space),
        (NUMERIC, numeric()),
        (WORD, word()),
        (INERT, inert()),
        (MARK, by_normalizer(normalizers.StripAccents())),
        (PUNCTUATION, {ord(c) for c, _ in pre_tokenizers.Punctuation("isolated").pre_tokenize_str("a".join(map(chr, POINTS))) if len(c) == 1 and c != "a"}),
        (CONTROL, control),
        (NONSPACING, by_normalizer(bert(strip_accents=True))),
        (JOINING, by_normalizer(normalizers.Precompiled(charsmap.build({"a": "X"})), before="a", gives="X")),
    ):
        for point in members:
            bits[point] |= flag
    runs = itertools.groupby(bits.get(point, 0) for point in range(0x110000))
    rows = [f"{len(list(points))},{value}," for value, points in runs]
    write("unicode_class_runs.cc", "uint32_t kUnicodeClassRuns", "kUnicodeClassRunsSize", rows)
    write_lowercase()
    write_newer()


if __name__ == "__main__":
    main()
