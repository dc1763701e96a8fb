"""Prints measures of the structure of a checkout's C++ sources: sizes, casts, include cycles and repeated code.

    python3 recipes/structure.py [DIRECTORY]     # a git checkout; this one by default

- An include cycle is a set of units (X.h with X.cc) that include one another, tests and fakes excluded: at least one include of
  it points from a part to the whole, or sideways and back.
- Repeated code: runs of six or more lines that occur in two places, equal to the letter, or in shape (equal after every
  identifier, number and string is replaced by a placeholder). A run counts once for each pair of files.
"""

import collections
import pathlib
import re
import subprocess
import sys

RUN = 6
TEST_ONLY = re.compile(r"_test\.cc$|_bench\.cc$|^tests/|testing|fixture|fake")
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\b[A-Za-z_]\w*\b|\b\d[\w.\']*')


def includes(texts):
    edges = collections.defaultdict(set)
    for path, text in texts.items():
        if path.endswith(".cu") or TEST_ONLY.search(path):
            continue
        unit = path.rsplit(".", 1)[0]
        edges[unit] |= {name for name in re.findall(r'^#include "([^"]+)\.h"', text, re.M) if name != unit}
    return edges


def reached(edges, start):
    seen, stack = set(), [start]
    while stack:
        for unit in edges.get(stack.pop(), ()):
            if unit not in seen:
                seen.add(unit)
                stack.append(unit)
    return seen


def cycles(edges):
    closure = {unit: reached(edges, unit) for unit in edges}
    groups = {frozenset(other for other in closure[unit] if unit in closure.get(other, ())) for unit in edges
              if unit in closure[unit]}
    return [(sorted(group), sum(len(edges[unit] & group) for unit in group)) for group in groups]


def repeated_pairs(texts, shape):
    places = collections.defaultdict(set)
    for path, text in texts.items():
        lines = [line.strip() for line in text.splitlines()]
        lines = [WORD.sub("w", line) if shape else line for line in lines if line and not line.startswith(("//", "#include"))]
        for i in range(len(lines) - RUN + 1):
            window = tuple(lines[i:i + RUN])
            if sum(len(line) > 4 for line in window) == RUN:  # closing braces do not count
                places[window].add(path)
    return len({pair for paths in places.values() if 2 <= len(paths) <= 8
                for pair in [(a, b) for a in paths for b in paths if a < b]})


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.h", "*.cc", "*.cu"], capture_output=True, text=True, check=True)
    texts = {path: (root / path).read_text() for path in listed.stdout.split()}
    line_count = sum(text.count("\n") for text in texts.values())
    cast_count = sum(text.count("static_cast<") for text in texts.values())
    found = cycles(includes(texts))
    print(f"files {len(texts)}, lines {line_count}, casts {cast_count} ({1000 * cast_count / line_count:.1f} per 1,000 lines)")
    print(f"include cycles {len(found)}, units in them {sum(len(units) for units, _ in found)}, "
          f"includes between those {sum(count for _, count in found)}")
    for units, count in sorted(found, key=lambda item: -item[1]):
        print(f"  {count} includes: {' '.join(units)}")
    for name, shape in (("to the letter", False), ("in shape", True)):
        count = repeated_pairs(texts, shape)
        print(f"pairs of files with {RUN} equal lines {name}: {count} ({1000 * count / line_count:.2f} per 1,000 lines)")


if __name__ == "__main__":
    main()
