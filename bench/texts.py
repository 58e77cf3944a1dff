"""Mixed Markdown of any length: the same text in every run, with every construct that agents write."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS = (
    *("water", "wheel", "millrace", "sluice", "gate", "stone", "mortar", "beam", "gear", "axle", "flow"),
    *("weir", "bank", "river", "valley", "grain", "flour", "miller", "turns", "lifts", "holds"),
    *("carries", "wears", "breaks", "mends", "slowly", "quickly", "again", "before", "after", "under"),
    *("over", "every", "other", "small", "large", "wooden", "iron", "the", "a", "of", "and", "with"),
    *("from", "into"),
)
_CJK = (
    "水車は川の流れで回る。",
    "石臼が穀物を挽き、粉になる。",
    "磨坊在河边，水流不停。",
    "방앗간의 물레방아.",
)
_EMOJI = ("👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "🏳️‍🌈", "👩🏿‍🚀", "🌊", "⚙️")


def mixed(size: int) -> str:
    """At least `size` characters of headings, prose, lists, code, tables and quotes."""
    chance = random.Random(7)
    kinds: tuple[Callable[[random.Random], str], ...] = (
        *(_paragraph, _paragraph, _paragraph, _heading, _list, _nested_list, _table, _code, _quote, _cjk),
        *(_paragraph, _links),
    )
    blocks = [_long_code(chance), _long_table(chance), _emoji_run(chance)] if size >= 50_000 else []
    length = sum(map(len, blocks))
    while length < size:
        block = chance.choice(kinds)(chance)
        blocks.append(block)
        length += len(block) + 2
    chance.shuffle(blocks)
    return "\n\n".join(blocks)


def paragraph(size: int) -> str:
    """One paragraph of about this many characters."""
    return _repeated(_paragraph(random.Random(1)) + " ", size)


def code(size: int) -> str:
    """One fenced code block of about this many characters."""
    return "```python\n" + _repeated(_code_lines(random.Random(2), 40), size) + "```\n"


def table(size: int) -> str:
    """One table of about this many characters."""
    rows = "".join(_row(random.Random(3 + seed)) for seed in range(40))
    return "| part | state | note |\n|---|:-:|---|\n" + _repeated(rows, size)


def _repeated(unit: str, size: int) -> str:
    return unit * (size // len(unit) + 1)


def _words(chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(least, most)))


def _sentence(chance: random.Random) -> str:
    words = _words(chance, 4, 14).split()
    style = chance.random()
    if style < 0.15:
        at = chance.randrange(len(words))
        mark = chance.choice(("**", "*", "`", "~~"))
        words[at] = f"{mark}{words[at]}{mark}"
    elif style < 0.2:
        words[0] = f"**{words[0]}"
        words[-1] += "**"
    return " ".join(words).capitalize() + chance.choice((".", ".", ".", "!", "?"))


def _paragraph(chance: random.Random) -> str:
    glue = chance.choice((" ", " ", "\n"))
    return glue.join(_sentence(chance) for _ in range(chance.randint(2, 7)))


def _heading(chance: random.Random) -> str:
    return "#" * chance.randint(1, 4) + " " + _words(chance, 2, 5).capitalize()


def _list(chance: random.Random) -> str:
    marks = chance.choice((("- ",), ("1. ", "2. ", "3. ", "4. "), ("- [ ] ", "- [x] "), ("* ",)))
    return "\n".join(marks[n % len(marks)] + _sentence(chance) for n in range(chance.randint(2, 7)))


def _nested_list(chance: random.Random) -> str:
    lines = []
    for number in range(1, chance.randint(2, 4)):
        lines.append(f"{number}. {_sentence(chance)}")
        lines.extend(f"   - {_sentence(chance)}" for _ in range(chance.randint(1, 3)))
        if chance.random() < 0.5:
            lines += ["", *(f"   {line}" for line in _code(chance).split("\n")), ""]
    return "\n".join(lines).rstrip()


def _row(chance: random.Random) -> str:
    state = chance.choice(("ok", "**worn**", "`new`"))
    return f"| {_words(chance, 1, 3)} | {state} | {_words(chance, 2, 6)} |\n"


def _table(chance: random.Random, rows: int = 0) -> str:
    head = f"| {_words(chance, 1, 1)} | {_words(chance, 1, 2)} | note |\n|---|:-:|---|\n"
    return (head + "".join(_row(chance) for _ in range(rows or chance.randint(2, 8)))).rstrip()


def _code_lines(chance: random.Random, count: int) -> str:
    lines = []
    for _ in range(count):
        indent = "    " * chance.randint(0, 3)
        lines.append(f"{indent}{'_'.join(chance.choices(_WORDS, k=2))} = {chance.randint(0, 9999)}")
        if chance.random() < 0.1:
            lines.append("")
    return "\n".join(lines) + "\n"


def _code(chance: random.Random, lines: int = 0) -> str:
    marker = chance.choice(("```", "```", "~~~", "````"))
    info = chance.choice(("python", "rust", "", "sh"))
    return f"{marker}{info}\n{_code_lines(chance, lines or chance.randint(2, 12))}{marker}"


def _quote(chance: random.Random) -> str:
    text = _paragraph(chance) if chance.random() < 0.6 else _code(chance)
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _cjk(chance: random.Random) -> str:
    return "".join(chance.choices(_CJK, k=chance.randint(3, 9))) + chance.choice(_EMOJI)


def _links(chance: random.Random) -> str:
    links = (f"[{_words(chance, 1, 3)}](https://mill.example/{chance.randint(1, 999)})" for _ in range(4))
    return " ".join(f"{_sentence(chance)} {link}" for link in links) + " " + chance.choice(_EMOJI)


def _long_code(chance: random.Random) -> str:
    return _code(chance, lines=300)


def _long_table(chance: random.Random) -> str:
    return _table(chance, rows=150)


def _emoji_run(chance: random.Random) -> str:
    return "".join(chance.choices(_EMOJI, k=1_500))
