"""Growth as pictures: plain SVG, one line a kind, logarithmic sizes from left to right (PF-05)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Final, NamedTuple

WIDTH: Final = 640
HEIGHT: Final = 300
LEFT: Final = 56
BOTTOM: Final = 44
TOP: Final = 34
RIGHT: Final = 90
COLOURS: Final = ("#0b6e4f", "#b5460f", "#3a5a9b")
STYLE: Final = (
    "text{font:12px sans-serif;fill:#555}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}}"
    "line{stroke:#999;stroke-width:.5}"
)

Point = tuple[float, float]


class Picture(NamedTuple):
    """Lines over sizes: what the axes say and the points of each kind."""

    title: str
    across: str
    lines: Mapping[str, Sequence[Point]]


# tidy: a picture is drawn from top to bottom.
def drawn(picture: Picture) -> str:
    """The picture as the text of an SVG file; equal figures give equal bytes."""
    points = [point for line in picture.lines.values() for point in line]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    most = max(y for _, y in points) * 1.1
    span = max(log10(last / first), 1e-9)

    def place(x: float, y: float) -> Point:
        at = LEFT + log10(x / first) / span * (WIDTH - LEFT - RIGHT)
        return round(at, 1), round(HEIGHT - BOTTOM - y / most * (HEIGHT - BOTTOM - TOP), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{picture.title}</title><style>{STYLE}</style>",
        f'<text x="{LEFT}" y="18">{picture.title}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}">{picture.across}</text>',
    ]
    for part in (0, 0.25, 0.5, 0.75, 1):
        _, y = place(first, most * part)
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{most * part:.0f}</text>')
    for x in sorted({x for x, _ in points}):
        at, _ = place(x, 0)
        low = HEIGHT - BOTTOM + 16
        parts.append(f'<text x="{at}" y="{low}" text-anchor="middle">{x:,.0f}</text>')
    for (name, line), colour in zip(picture.lines.items(), COLOURS, strict=False):
        path = " ".join(f"{x},{y}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at, y = place(*line[-1])
        parts.append(f'<text x="{at + 6}" y="{y + 4}" style="fill:{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def pictures(scale: Mapping[str, Sequence[Mapping[str, object]]]) -> dict[str, Picture]:
    """The pictures of a run, by the name of their file."""
    sizes, opened = scale["sizes"], scale["intents"]

    def line(rows: Sequence[Mapping[str, object]], across: str, kind: str | None) -> list[Point]:
        return [(_number(row[across]), _number(_of(row, kind)["us"])) for row in rows]

    kinds = {kind: line(sizes, "cells", f"tick_{kind}") for kind in ("hot", "new", "cold")}
    return {
        "growth-cells.svg": Picture("microseconds of a tick", "cells", kinds),
        "growth-records.svg": Picture(
            "microseconds of a tick", "records", {"hot": line(sizes, "records", "tick_hot")}
        ),
        "growth-intents.svg": Picture(
            "microseconds of an order", "open intents", {"order": line(opened, "open", None)}
        ),
    }


def _of(row: Mapping[str, object], kind: str | None) -> Mapping[str, object]:
    held = row if kind is None else row[kind]
    assert isinstance(held, Mapping), "a row of a run"
    return held


def _number(value: object) -> float:
    assert isinstance(value, int | float), "a figure of a run"
    return float(value)
