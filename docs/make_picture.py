#!/usr/bin/env python
"""Draws docs/chat.svg: the demo in a real terminal, as far as its first screenful.

PYTHONPATH=tests .venv/bin/python docs/make_picture.py > docs/chat.svg
"""

from __future__ import annotations

import os
import sys
import tempfile
from itertools import groupby
from xml.sax.saxutils import escape

from pseudo_terminal import CTRL_D, TAILRACE, Person

COLUMNS, ROWS = 80, 80
LAST_LINE = "```python"
CELL_WIDTH, LINE_HEIGHT, FONT_SIZE = 8.4, 19, 14
FONTS = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
MARGIN, TOP = 20, 52
COLORS = {"default": "#d8dee9", "dim": "#8f98a8", "red": "#e0707a"}


def watch_the_demo() -> list[list[tuple[str, str]]]:
    """The lines of the screen after a turn, each as runs of text and the name of their colour."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"XDG_DATA_HOME": home}
        with Person(TAILRACE, "chat", columns=COLUMNS, rows=ROWS, env=environment) as person:
            person.is_prompted()
            person.type("hello, what can you do?\r")
            person.sees("carry next?")
            person.is_prompted()
            person.type(CTRL_D)
            person.leaves()
            last = person.lines().index(LAST_LINE)
            rows = [[person.screen.buffer[y][x] for x in range(COLUMNS)] for y in range(last)]
    return [
        [("".join(char.data for char in run), color) for color, run in groupby(row, lambda char: char.fg)]
        for row in rows
    ]


def draw(lines: list[list[tuple[str, str]]]) -> str:
    """The lines as an SVG that needs nothing but a monospaced font."""
    while lines and not "".join(text for text, _ in lines[-1]).strip():
        lines.pop()
    width = round(COLUMNS * CELL_WIDTH + 2 * MARGIN)
    height = TOP + len(lines) * LINE_HEIGHT + MARGIN
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        "<title>tailrace chat: the demo agent in a terminal</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#20242c"/>',
        *(f'<circle cx="{24 + 20 * n}" cy="22" r="6" fill="#4a5160"/>' for n in range(3)),
        f'<g font-family="{FONTS}" font-size="{FONT_SIZE}">',
    ]
    for row, runs in enumerate(lines):
        column = 0
        for text, color in runs:
            if text.strip():
                x, y = MARGIN + column * CELL_WIDTH, TOP + row * LINE_HEIGHT
                shown = text.rstrip()
                drawn.append(
                    f'<text x="{x:.1f}" y="{y}" fill="{COLORS[color]}" xml:space="preserve" '
                    f'textLength="{len(shown) * CELL_WIDTH:.1f}">{escape(shown)}</text>'
                )
            column += len(text)
    return "\n".join([*drawn, "</g>", "</svg>", ""])


if __name__ == "__main__":
    os.environ.pop("NO_COLOR", None)
    sys.stdout.write(draw(watch_the_demo()))
