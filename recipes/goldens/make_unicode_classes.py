"""Write tokenizer/unicode_class_ranges.cc: which characters the tokenizers library takes for letters, numbers, spaces.

The library mixes several Unicode versions (its regex engine's, Rust's, the regex crate's), so the classes are asked of
the library itself, character by character, instead of being read from a Unicode release.

    python recipes/goldens/make_unicode_classes.py
"""

import pathlib
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tokenizer/unicode_class_ranges.cc"
POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
LETTER, NUMBER, SPACE, NUMERIC, WORD, INERT = 1, 2, 4, 8, 16, 32


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
    seconds = {int(parts[1], 16) for parts in map(str.split, map(unicodedata.decomposition, map(chr, POINTS))) if len(parts) == 2}
    forms = [getattr(normalizers, form)() for form in ("NFC", "NFD", "NFKC", "NFKD")]
    found = set()
    for point in POINTS:
        c = chr(point)
        new = unicodedata.combining(c) or unicodedata.decomposition(c) or point in seconds
        if not new and unicodedata.category(c) != "Cn":
            continue
        # Left alone, and a border between the marks before and behind it, which would change places across no border.
        if all(form.normalize_str(f"\u0323{c}\u0301\u0323") == f"\u0323{c}\u0323\u0301" for form in forms):
            found.add(point)
    return found


def main():
    bits = dict.fromkeys(POINTS, 0)
    for flag, members in (
        (LETTER, by_regex(r"\p{L}")),
        (NUMBER, by_regex(r"\p{N}")),
        (SPACE, by_regex(r"\s")),
        (NUMERIC, numeric()),
        (WORD, word()),
        (INERT, inert()),
    ):
        for point in members:
            bits[point] |= flag
    ranges = []
    for point in POINTS:
        if not bits[point]:
            continue
        if ranges and ranges[-1][1] == point - 1 and ranges[-1][2] == bits[point]:
            ranges[-1][1] = point
        else:
            ranges.append([point, point, bits[point]])
    lines, line = [], "   "
    for first, last, value in ranges:
        item = f" {{{first:#x}, {last:#x}, {value}}},"
        if len(line) + len(item) > 120:
            lines.append(line)
            line = "   "
        line += item
    lines.append(line)
    OUT.write_text(
        "// Written by recipes/goldens/make_unicode_classes.py; do not edit.\n"
        '#include "tokenizer/unicode_classes.h"\n\nnamespace varifocal {\n\n'
        "const UnicodeClassRange kUnicodeClassRanges[] = {\n" + "\n".join(lines) + "\n};\n"
        "const int kUnicodeClassRangeCount = sizeof(kUnicodeClassRanges) / sizeof(kUnicodeClassRanges[0]);\n\n"
        "}  // namespace varifocal\n"
    )
    print(f"{len(ranges)} ranges")


if __name__ == "__main__":
    main()
