#!/usr/bin/env python3
"""Draws the intervals of the pages in docs/ as figures: the numbers are those of the pages' own tables, so that a figure cannot have others.

    recipes/study_figures.py             # writes all figures of study_figures.toml
    recipes/study_figures.py --check     # exit 1 where a file differs from what its page gives

A cell is read as "1.72 (1.56 to 1.91)", "-0.04 [-0.07, -0.01]", "+0.34 ± 0.04" or "3.23 or more", which is an arrow. Standard library only.
"""

import dataclasses
import html
import math
import pathlib
import re
import sys
import tomllib
from typing import Any

from emergence.chart import COLORS, ticks
from flags import parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLAN = pathlib.Path(__file__).with_suffix(".toml")
WIDTH, LEFT, RIGHT, ROW, BAR = 760, 250, 150, 26, 12  # RIGHT: the numbers; BAR: between bars of one row
LOG_TICKS = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 5, 8)
NUMBER = r"[-+]?\d+(?:\.\d+)?"
RANGE = re.compile(rf"({NUMBER}) [(\[]({NUMBER})(?: to |, )({NUMBER})[)\]]")
SPREAD = re.compile(rf"({NUMBER}) ± ({NUMBER})")
BOUND = re.compile(rf"({NUMBER}) or more")


@dataclasses.dataclass(frozen=True)
class Bar:
    """From low to high around value; without a value an arrow from low on. `text` is what the page has."""

    low: float
    high: float | None
    value: float | None
    text: str


@dataclasses.dataclass(frozen=True)
class Row:
    label: str
    bars: tuple[Bar | None, ...]  # by column


def bar_of(cell: str) -> Bar | None:
    if found := RANGE.search(cell):
        value, low, high = map(float, found.groups())
        return Bar(low, high, value, found[0])
    if found := SPREAD.search(cell):
        value, half = map(float, found.groups())
        return Bar(value - half, value + half, value, found[0])
    if found := BOUND.search(cell):
        return Bar(float(found[1]), None, None, found[0])
    return None


def cells_of(line: str) -> list[str]:
    return [cell.strip().replace("`", "").replace("**", "") for cell in line.strip().strip("|").split("|")]


def tables_of(page: str) -> list[list[list[str]]]:
    """Rows of cells of each table; an empty first cell repeats the one above."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in page.splitlines():
        if line.startswith("|"):
            if not inside:
                tables.append([])
            row = cells_of(line)
            if set("".join(row)) - set("-: "):
                if not row[0] and tables[-1]:
                    row[0] = tables[-1][-1][0]
                tables[-1].append(row)
        inside = line.startswith("|")
    return tables


def rows_of(source: dict[str, Any]) -> list[Row]:
    """The rows that a source names, in its order, or all of its table that have an interval."""
    where = f"{source['page']}, table of {source['header']!r}"
    tables = [t for t in tables_of((ROOT / source["page"]).read_text()) if t[0][0] == source["header"] and set(source["columns"]) <= set(t[0])]
    if len(tables) != 1:
        raise ValueError(f"{where} and its columns: there are {len(tables)}")
    head, *body = tables[0]
    columns = [head.index(name) for name in source["columns"]]
    labels = [source.get("label", "{0}").format(*row) for row in body]
    if len(set(labels)) < len(labels):
        raise ValueError(f"{where} has rows of one label: {', '.join(map(repr, labels))}")
    labelled = dict(zip(labels, body))
    rows = []
    for name in source.get("rows", labelled):
        if name not in labelled:
            raise ValueError(f"{where} has no row {name!r} but {', '.join(map(repr, labelled))}")
        bars = tuple(bar_of(labelled[name][c]) for c in columns)
        if any(bars):
            rows.append(Row(source.get("names", {}).get(name, name), bars))
        elif "rows" in source:
            raise ValueError(f"{where}: row {name!r} has no interval")
    return rows


def axis(panel: dict[str, Any], rows: list[Row]) -> tuple[float, float]:
    """Of all bars and the reference, with a margin; for an arrow a quarter more."""
    bars = [b for r in rows for b in r.bars if b]
    place = math.log if panel.get("log") else float
    ends = [place(panel["reference"]), *(place(x) for b in bars for x in (b.low, b.high) if x is not None)]
    margin = 0.04 * (max(ends) - min(ends))
    return min(ends) - margin, max(ends) + (6 if any(b.high is None for b in bars) else 1) * margin


def drawn_panel(panel: dict[str, Any], top: float) -> tuple[list[str], float]:
    rows = [row for source in panel["tables"] for row in rows_of(source)]
    names = panel.get("series", [])
    place = math.log if panel.get("log") else float
    least, most = axis(panel, rows)

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place(x) - least) / (most - least)

    out = [f'<text x="12" y="{top + 14:.0f}" font-size="13" font-weight="bold">{html.escape(panel["title"])}</text>']
    top += 24
    for i, name in enumerate(names):
        x = LEFT + min(170, (WIDTH - LEFT) // len(names)) * i
        out.append(f'<line x1="{x}" x2="{x + 18}" y1="{top + 2:.0f}" y2="{top + 2:.0f}" stroke="{COLORS[i]}" stroke-width="3"/>'
                   f'<text x="{x + 24}" y="{top + 6:.0f}">{html.escape(name)}</text>')  # fmt: skip
    top += 18 if names else 0
    heights = [ROW + BAR * (sum(b is not None for b in row.bars) - 1) for row in rows]
    bottom = top + sum(heights)
    marks = [t for t in LOG_TICKS if least <= math.log(t) <= most] if panel.get("log") else ticks(least, most)
    for t in marks:
        out.append(f'<line x1="{across(t):.1f}" x2="{across(t):.1f}" y1="{top:.0f}" y2="{bottom:.0f}" stroke="#e4e4e4"/>'
                   f'<text x="{across(t):.1f}" y="{bottom + 15:.0f}" text-anchor="middle">{t:g}</text>')  # fmt: skip
    if "band" in panel:
        low, high = (across(x) for x in panel["band"])
        out.append(f'<rect x="{low:.1f}" width="{high - low:.1f}" y="{top:.0f}" height="{bottom - top:.0f}" fill="#000" fill-opacity="0.06"/>')
    zero = across(panel["reference"])
    out.append(f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="{top:.0f}" y2="{bottom:.0f}" stroke="#444"/>')
    for row, height in zip(rows, heights):
        bars = [(i, b) for i, b in enumerate(row.bars) if b]
        out.append(f'<text x="{LEFT - 12}" y="{top + height / 2 + 4:.1f}" text-anchor="end">{html.escape(row.label)}</text>')
        for at, (i, b) in enumerate(bars):
            y, color = top + height / 2 + BAR * (at - (len(bars) - 1) / 2), COLORS[i]
            end = WIDTH - RIGHT if b.high is None else across(b.high)
            out.append(f'<line x1="{across(b.low):.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{color}" stroke-width="2"/>')
            if b.value is None:
                out.append(f'<path d="M{end - 6:.1f} {y - 4:.1f} L{end:.1f} {y:.1f} L{end - 6:.1f} {y + 4:.1f}" fill="none" stroke="{color}" stroke-width="2"/>')
            else:
                out.append(f'<circle cx="{across(b.value):.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>')
            ink = color if names else "#444"
            out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{y + 3.5:.1f}" font-size="9.5" fill="{ink}">{html.escape(b.text)}</text>')
        top += height
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{bottom + 32:.0f}" text-anchor="middle" fill="#444">{html.escape(panel["axis"])}</text>')
    return out, bottom + 48


def drawn(figure: dict[str, Any]) -> str:
    parts: list[str] = []
    top = 6.0
    for panel in figure["panels"]:
        found, top = drawn_panel(panel, top)
        parts += found
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" font-family="sans-serif" font-size="12">',
                      f'<rect width="{WIDTH}" height="{top:.0f}" fill="white"/>', *parts, "</svg>"]) + "\n"  # fmt: skip


def main() -> int:
    options = parse(__doc__, check=dict(action="store_true", help="write nothing; exit 1 where a figure differs"))
    different = []
    try:
        for figure in tomllib.loads(PLAN.read_text())["figures"]:
            file, text = ROOT / figure["file"], drawn(figure)
            if options.check and (not file.exists() or file.read_text() != text):
                different.append(figure["file"])
            elif not options.check:
                file.write_text(text)
    except ValueError as error:
        print(f"study_figures.toml: {error}", file=sys.stderr)
        return 1
    if different:
        print(f"{', '.join(different)}: not what the page's table gives; run recipes/study_figures.py", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
