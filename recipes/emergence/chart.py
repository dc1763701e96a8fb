"""Lines with intervals as one SVG, without packages; the same numbers give the same bytes."""

import dataclasses
import html
import math
from typing import Sequence

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 620, 340, 64, 34, 170, 46
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")


@dataclasses.dataclass(frozen=True)
class Point:
    """`low` and `high`: the ends of its interval, if it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Series:
    name: str
    points: Sequence[Point]
    dashed: bool = False
    dots: bool = True


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers from low to high."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [round(i * step, 12) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def lines(title: str, x_name: str, y_name: str, series: Sequence[Series], log_x: bool = False, x_ticks: Sequence[float] = ()) -> str:
    """Every x is a tick where none are given. A point's interval is a vertical bar."""
    points = [p for s in series for p in s.points]
    if not points:
        raise ValueError("a chart needs a point")
    place = math.log if log_x else float
    xs = sorted({*x_ticks, *(p.x for p in points)})
    ys = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    first, last = place(xs[0]), place(xs[-1])
    least, most = min(ys), max(ys)
    margin = 0.06 * (most - least) or 1.0
    least, most = least - margin, most + margin

    def across(x: float) -> float:
        return LEFT + 10 + (WIDTH - LEFT - RIGHT - 20) * ((place(x) - first) / (last - first) if last > first else 0.5)

    def down(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (most - y) / (most - least)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="18" font-size="13">{html.escape(title)}</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(x_name)}</text>',
           f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">{html.escape(y_name)}</text>']  # fmt: skip
    for y in ticks(least, most):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(y):.1f}" y2="{down(y):.1f}" stroke="{"#888" if y == 0 else "#ddd"}"/>'
                   f'<text x="{LEFT - 6}" y="{down(y) + 4:.1f}" text-anchor="end">{y:g}</text>')  # fmt: skip
    for x in x_ticks or xs:
        out.append(f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    drawn = 0  # a dashed line has the color of the one before it
    for i, s in enumerate(series):
        drawn += not s.dashed
        color, shift = COLORS[(drawn - 1) % len(COLORS)], 3 * (i - (len(series) - 1) / 2) if s.dots else 0.0  # bars of one x are side by side
        path = " ".join(f"{across(p.x) + shift:.1f},{down(p.y):.1f}" for p in s.points)
        dash = ' stroke-dasharray="5 3"' if s.dashed else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"{dash}/>')
        for p in s.points:
            x = across(p.x) + shift
            if p.low is not None and p.high is not None:
                out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{down(p.low):.1f}" y2="{down(p.high):.1f}" stroke="{color}"/>')
            if s.dots and not s.dashed:
                out.append(f'<circle cx="{x:.1f}" cy="{down(p.y):.1f}" r="2.5" fill="{color}"/>')
        y = TOP + 14 + 17 * i
        out.append(f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 32}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="2"{dash}/>'
                   f'<text x="{WIDTH - RIGHT + 38}" y="{y + 4}">{html.escape(s.name)}</text>')  # fmt: skip
    return "\n".join(out) + "\n</svg>\n"
