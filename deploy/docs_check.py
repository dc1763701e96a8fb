#!/usr/bin/env python3
"""Checks the documents: a named reader, short sentences, links that resolve.

    deploy/docs_check.py                  # every page; exit 1 with one line per finding
    deploy/docs_check.py docs/focus.md    # these pages or directories alone
    deploy/docs_check.py --table          # words, longest sentence and longest line of each page, in words

The first paragraph of a page names its reader: it begins with "For". No sentence has more than 30 words; code,
tables, headings and items that are only links are not sentences, and inline code counts as one word. Relative links
and their anchors resolve, and so do paths of pages in inline code. No figure comes from a program that was not kept.
Some pages have a limit of words. docs/notebook/ is a record: entries up to 2026-11-30 are held to links alone. Numbered
decisions need no reader of their own; docs/decisions/README.md names him. Its index has each record once, and each
number is a record's or listed as missing. A figure of README's findings is one of docs/findings.md.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "models/README.md", "docs/**/*.md",
         "recipes/**/*.md", "client/python/README.md"]
MAX_WORDS = 30
PAGE_LIMITS = [(re.compile(r"docs/findings\.md"), 800), (re.compile(r"docs/studies/.*"), 800)]
ABBREVIATIONS = ("e.g.", "i.e.", "cf.", "vs.", "etc.", "approx.", "No.", "Fig.", "Eq.", "al.")


@dataclasses.dataclass
class Page:
    """One page: its text without code blocks, as blocks of prose with the line at which each starts."""

    words: int
    longest_line: int
    sentences: list[tuple[int, str]]
    first_paragraph: str
    links: list[tuple[int, str]]
    anchors: set[str]
    forbidden: list[int]


def word_count(text: str) -> int:
    return sum(1 for word in text.split() if any(c.isalnum() for c in word))


def plain(text: str) -> str:
    """Markdown without marks: a link is its text, inline code is one word."""
    text = re.sub(r"(`+)(.+?)\1", "Code", text)
    text = re.sub(r"!\[([^\]]*)\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"<[^<>\s][^<>]*>", "", text)


def split_sentences(block: str) -> list[str]:
    sentences, start = [], 0
    for end in re.finditer(r"[.!?][)\"'*_\]]*\s+(?=[\"'(*_\[]*[A-Z0-9]|\*\*)", block):
        if block[start:end.end()].split()[-1].lstrip("(*_[") in ABBREVIATIONS:
            continue
        sentences.append(block[start:end.end()].strip())
        start = end.end()
    sentences.append(block[start:].strip())
    return [s for s in sentences if s]


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", "")).strip().lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text))


def only_links(block: str) -> bool:
    return "](" in block and word_count(re.sub(r"\[[^\]]*\]\([^)]*\)", "", block)) <= 3


def read_page(text: str) -> Page:
    page = Page(0, 0, [], "", [], set(), [])
    blocks: list[tuple[int, list[str]]] = []
    is_open = in_fence = in_comment = in_indented = False
    previous_blank, in_list = True, False
    for number, line in enumerate(text.splitlines(), 1):
        page.words += word_count(line)
        page.longest_line = max(page.longest_line, word_count(line))
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")):
            in_fence, is_open = not in_fence, False
            continue
        if in_fence:
            continue
        if stripped.startswith("<!--") or in_comment:
            in_comment, is_open = "-->" not in stripped, False
            continue
        item = re.match(r"\s*(?:[-*+]|\d+[.)])\s+(.*)", line)
        if line.startswith("    ") and not item and stripped and not in_list and (previous_blank or in_indented):
            in_indented, is_open, previous_blank = True, False, False
            continue
        in_indented = in_indented and not stripped
        previous_blank = not stripped
        without_code = re.sub(r"(`+)(.+?)\1", "", line)
        page.links += [(number, link) for link in re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", without_code)]
        page.links += [(number, "/" + path) for path in re.findall(r"`((?:docs|recipes|models)/[\w./-]+\.md)`", line)]
        if re.search(r"\bnot kept\b", line):
            page.forbidden.append(number)
        if line.startswith("#"):
            page.anchors.add(slug(line.lstrip("#")))
            is_open = in_list = False
        elif not stripped or stripped.startswith("|"):
            is_open = False
        elif item:
            blocks.append((number, [item.group(1)]))
            is_open = in_list = True
        elif is_open:
            blocks[-1][1].append(stripped)
        else:
            blocks.append((number, [stripped.lstrip("> ")]))
            is_open, in_list = True, in_list and line.startswith(" ")
    for number, lines in blocks:
        block = " ".join(lines)
        if not page.first_paragraph and plain(block).strip():
            page.first_paragraph = plain(block).strip()
        if not only_links(block):
            page.sentences += [(number, sentence) for sentence in split_sentences(plain(block))]
    return page


def check_links(page: Page, path: pathlib.Path, anchors_of: dict[pathlib.Path, set[str]]) -> list[tuple[int, str]]:
    findings = []
    for number, link in page.links:
        is_record = link.startswith("/") and path.parent == ROOT / "docs/notebook"
        if is_record or re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / name[1:] if name.startswith("/") else path.parent / name) if name else path
        if not target.exists():
            findings.append((number, f"{link.lstrip('/')} does not exist"))
        elif anchor and target.suffix == ".md":
            target = target.resolve()
            if target not in anchors_of:
                anchors_of[target] = read_page(target.read_text()).anchors
            if anchor not in anchors_of[target]:
                findings.append((number, f"{link}: no such heading"))
    return findings


def is_old_record(name: str) -> bool:
    entry = re.fullmatch(r"docs/notebook/(?:(\d{4}-\d\d-\d\d)-.*|decisions_history)\.md", name)
    return entry is not None and (entry[1] or "") <= "2026-11-30"


def check_index(text: str, files: set[int]) -> list[tuple[int, str]]:
    """Of docs/decisions/README.md: rows of records, and the indented list of numbers without one."""
    index, _, missing = text.partition("## Missing numbers")
    rows = [int(n) for n in re.findall(r"(?m)^\| (\d+) \|", index)]
    absent: set[int] = set()
    for low, high in re.findall(r"(\d+)(?: to (\d+))?", " ".join(re.findall(r"(?m)^    (\d.*)$", missing))):
        absent |= set(range(int(low), int(high or low) + 1))
    findings = [f"{n} has {rows.count(n)} rows" for n in sorted(files | set(rows)) if rows.count(n) != (n in files)]
    numbers = set(range(1, max(files, default=0) + 1))
    findings += [f"{n} is neither a record nor listed as missing" for n in sorted(numbers - files - absent)]
    return [(1, finding) for finding in findings + [f"{n} is listed as missing" for n in sorted(absent & files)]]


def check_figures(readme: str, findings: str) -> list[tuple[int, str]]:
    """Decimal fractions of the rows that README repeats."""
    rows = readme.partition("## What it found")[2].partition("\n## ")[0]
    number = r"\d+\.\d+"
    return [(1, f"{n} is no figure of docs/findings.md") for n in sorted(set(re.findall(number, rows)) - set(re.findall(number, findings)))]


def check_text(page: Page, name: str) -> list[tuple[int, str]]:
    if is_old_record(name):
        return []
    findings = []
    if not page.first_paragraph.startswith("For ") and not re.match(r"docs/decisions/\d", name):
        findings.append((1, 'the first paragraph does not name its reader ("For ...")'))
    for number, sentence in page.sentences:
        if word_count(sentence) > MAX_WORDS:
            findings.append((number, f"{word_count(sentence)} words: {sentence[:90]}"))
    findings += [(number, '"not kept": give the command, or drop the figure') for number in page.forbidden]
    findings += [(1, f"{page.words} words; the limit of this page is {limit}")
                 for pattern, limit in PAGE_LIMITS if pattern.fullmatch(name) and page.words > limit]
    return findings


def self_test() -> None:
    """Each rule finds its fault in a small page, and nothing in a page without fault."""
    long_sentence = "One " + "word " * 30 + "too long."
    good = f"# T\n\nFor users. Short, e.g. this `a b c`.\n\n    {long_sentence}\n\n| {long_sentence} |\n\n## A head\n"
    assert not check_text(read_page(good), "docs/x.md"), check_text(read_page(good), "docs/x.md")
    assert "a-head" in read_page(good).anchors
    for bad in ("# T\n\nUsers.\n", f"# T\n\nFor users.\n\n- {long_sentence}\n", "# T\n\nFor users, not kept.\n"):
        assert len(check_text(read_page(bad), "docs/x.md")) == 1, bad
        assert not check_text(read_page(bad), "docs/notebook/2026-11-30-x.md"), bad
        assert check_text(read_page(bad), "docs/notebook/2026-12-01-x.md"), bad
    page = read_page("# T\n\nFor [a](no_such.md), [b](#t), [c](#u), `docs/no_such.md`.\n")
    assert len(check_links(page, ROOT / "README.md", {(ROOT / "README.md").resolve(): {"t"}})) == 3
    index = "| 1 | a |\n| 4 | b |\n## Missing numbers\n\n    2 to 3\n"
    assert not check_index(index, {1, 4}), check_index(index, {1, 4})
    for files in ({1}, {1, 4, 5}, {1, 3, 4}, {1, 4, 6}):
        assert check_index(index, files), files
    assert not check_figures("## What it found\n0.25\n## B\n0.5\n", "0.25")
    assert check_figures("## What it found\n0.25\n", "0.2")
    assert len(split_sentences("An interval. It is 0.5 wide, e.g. Is it? `x` is.")) == 2


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("paths", nargs="*", help="pages or directories; every page where none is given")
    parser.add_argument("--table", action="store_true", help="print the sizes of the pages")
    arguments = parser.parse_args()
    self_test()
    pages = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)
                    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)})
    if arguments.paths:
        wanted = [pathlib.Path(p).resolve() for p in arguments.paths]
        pages = [page for page in pages if any(page == w or w in page.parents for w in wanted)]
    decisions = {int(path.name[:4]) for path in (ROOT / "docs/decisions").glob("[0-9]*.md")}
    count = 0
    anchors_of: dict[pathlib.Path, set[str]] = {}
    if arguments.table:
        print("| page | words | longest sentence | longest line |\n| --- | ---: | ---: | ---: |")
    for path in pages:
        name, page = str(path.relative_to(ROOT)), read_page(path.read_text())
        if arguments.table:
            longest = max((word_count(s) for _, s in page.sentences), default=0)
            print(f"| {name} | {page.words:,} | {longest} | {page.longest_line} |")
            continue
        found = check_text(page, name) + check_links(page, path, anchors_of)
        if name == "docs/decisions/README.md":
            found += check_index(path.read_text(), decisions)
        if name == "README.md":
            found += check_figures(path.read_text(), (ROOT / "docs/findings.md").read_text())
        for number, finding in sorted(found):
            print(f"{name}:{number}: {finding}")
            count += 1
    if not arguments.table:
        print(f"{len(pages)} pages, {count} findings", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
