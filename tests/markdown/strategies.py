"""Hypothesis strategies for texts to cut: Markdown of every construct, raw text, and prose.

With `tame=True`, `documents` draws only documents whose meaning can be compared character by character: every inline
construct is closed, and there are no reference definitions and no HTML blocks. Like `stable_strategies`, all strategies
draw the same examples after every change of the code.
"""

from __future__ import annotations

from hypothesis import strategies as st

from stable_strategies import texts

Lines = list[str]

UNITS = ("code_points", "utf16", "utf8_bytes")

CLUSTERS = ("👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "👍🏽", "क्षि", "e\u0301\u0302", "🏳️‍🌈", "한국", "ก็", "1️⃣", "👩🏿‍🚀")
WORDS = (
    *("a", "of", "river", "stone,", "wheel", "mill-race", "water", "headrace", "x_y_z", "2024", "don't"),
    *("Then", "end.", "why?", "so!", "日本語", "水車。", "漢字かな交じり文", "ünïcode", "(see", "below)"),
)
NASTY = "*_~`[]()!<>#-+=|\\ \n\t09.&;a:\"'{}x/"


def raw_texts(max_size: int = 80) -> st.SearchStrategy[str]:
    """Text of Markdown's special characters, of tokens, and of any characters."""
    nasty = texts(NASTY, max_size=max_size)
    tokens = st.lists(st.sampled_from(_TOKENS), max_size=max_size // 3).map("".join)
    anything = texts(max_size=max_size)
    return st.one_of(nasty, tokens, tokens, anything)


_TOKENS = (
    *("\n", "\n\n", " ", "  \n", "\t", "\r\n", "    ", "> ", ">", "- ", "1. ", "10) ", "* ", "# ", "***\n"),
    *("===\n", "```", "````", "~~~", "```py\n", "\n```\n", "`", "``", "**", "*", "__", "_", "~~", "[", "]("),
    *("](u)", ")", "![", "|", "|-|-|\n", "| a | b |\n", "|--|\n", "<", "</b>", "<!--", "-->", "<div>\n"),
    *("<http://a.b>", "\\", "&amp;", "a", "word", "long" * 6, "日本", *CLUSTERS, "\u0301", "\u200d", "\x00"),
    *("\x1b[31m", "\u00a0", "\ufeff", "\u2028", "[r]: /u\n", "[r]", "- [ ] ", ":", ". ", "! ", "\ud800"),
)


def proses() -> st.SearchStrategy[str]:
    """Plain paragraphs: words, sentences, lines and blank lines without any Markdown."""
    word = st.sampled_from(("a", "of", "river", "stone", "wheel", "millrace", "w" * 17, "w" * 50))
    gap = st.sampled_from((" ", " ", " ", ". ", "! ", "\n", ".\n", "\n\n", ".\n\n", "  ", "\n\n\n"))
    return st.lists(st.tuples(word, gap), min_size=1, max_size=40).map(
        lambda pairs: "".join(word + gap for word, gap in pairs)
    )


def documents(*, tame: bool = False, max_blocks: int = 5) -> st.SearchStrategy[str]:
    """Whole documents of Markdown blocks."""
    blocks = st.lists(_blocks(tame=tame), min_size=1, max_size=max_blocks)
    ends = st.sampled_from(("\n", "\n", "\n", "\r\n"))
    tails = st.sampled_from(("", "\n", "\n\n  "))
    return st.builds(_document, blocks, ends, tails)


def _document(blocks: list[Lines], end: str, tail: str) -> str:
    return "\n\n".join("\n".join(block) for block in blocks).replace("\n", end) + tail


def words(max_size: int = 12) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from((*WORDS, *CLUSTERS)), min_size=1, max_size=max_size).map(" ".join)


_PLAIN_WORDS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
_SPANS = st.one_of(
    st.sampled_from(("`code`", "`` a ` b ``", "`x  y`", "``` q ```", "`[n](o)`", "`**`", "`日本`")),
    st.builds(
        "[{}]({})".format,
        _PLAIN_WORDS,
        st.sampled_from(("http://a.example/b", "/u", "<a b>", '/u "t i"', "#x_y", "http://a.example/(b)")),
    ),
    st.builds("![{}](/i.png)".format, _PLAIN_WORDS),
    st.sampled_from(("<http://a.example/b>", "\\*not\\*", "&amp;", "&#65;", "\\[x\\]", "1\\. x", "\\# x", "\\`")),
    st.sampled_from(("a  \nb", "1986. A", "- x", "+ y", "# z", "> q", "~~~ w", "=== u", "| v |", "1) t")),
)
_WILD_SPANS = st.sampled_from(
    (
        *("<b>", "</b>", "**open", "*", "_so", "~~cut", "`tick", "[half](", "[r]", "[r]: /u", "![", "\\\n"),
        "<a href='b c'>",
    )
)


def _inlines(*, tame: bool) -> st.SearchStrategy[str]:
    leaf = st.one_of(words(6), words(6), _SPANS) if tame else st.one_of(words(6), _SPANS, _WILD_SPANS)

    def styled(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(inner, min_size=1, max_size=4).map(" ".join)
        marks = st.sampled_from(("*", "**", "_", "__", "~~", "***"))
        return st.one_of(several, st.builds(lambda mark, text: f"{mark}{text}{mark}", marks, several))

    return st.recursive(leaf, styled, max_leaves=6)


def _paragraphs(*, tame: bool) -> st.SearchStrategy[Lines]:
    pieces = st.lists(_inlines(tame=tame), min_size=1, max_size=5)
    return st.builds(lambda texts, glue: glue.join(texts).split("\n"), pieces, st.sampled_from((" ", " ", "\n")))


def _fences() -> st.SearchStrategy[Lines]:
    line = st.sampled_from(
        (
            *("x = 1", "    deep", "", "", "\tfoo", "``` text", "``", "# no heading", "- no list", "日本" * 9),
            *("y" * 90, "> q"),
        )
    )

    def build(char: str, length: int, info: str, lines: Lines, *, closed: bool) -> Lines:
        marker = char * length
        inner = [line for line in lines if not (line.startswith("```") and length <= 3 and char == "`")]
        return [marker + info, *inner, *([marker] if closed else [])]

    return st.builds(
        build,
        st.sampled_from("`~"),
        st.integers(3, 6),
        st.sampled_from(("", "py", " rust title", "c++")),
        st.lists(line, max_size=9),
        closed=st.sampled_from((True, True, True, True, False)),
    )


def _tables() -> st.SearchStrategy[Lines]:
    cell = st.sampled_from(("a", "two words", "**b**", "`c`", "日本", "👍🏽", "", "[l](/u)", "x\\|y"))
    row = st.lists(cell, min_size=2, max_size=2).map(lambda cells: f"| {' | '.join(cells)} |")
    return st.builds(lambda head, rows: [head, "|---|:-:|", *rows], row, st.lists(row, max_size=8))


def _headings() -> st.SearchStrategy[Lines]:
    text = words(4).map(lambda words: words.replace("\n", " "))
    atx = st.builds(lambda level, words: ["#" * level + " " + words], st.integers(1, 6), text)
    setext = st.builds(lambda words, mark: [words, mark], text, st.sampled_from(("===", "---")))
    return st.one_of(atx, setext)


def _oddities() -> st.SearchStrategy[Lines]:
    return st.sampled_from(
        (
            *(["<div>", "*x*", "</div>"], ["<!-- a", "", "b -->"], ["[r]: /u 'title'"], ["w" * 130], ["水" * 90]),
            *(["a\x00b\x07c"], ["a\tb", "\u00a0\u2003c"], ["<pre>", "", "  x", "</pre>"]),
        )
    )


def _leaves(*, tame: bool) -> st.SearchStrategy[Lines]:
    indented = st.sampled_from((["    ind", "", "      more"], ["\ttab", "\tbed"], ["    one line"]))
    leaves = [_paragraphs(tame=tame), _paragraphs(tame=tame), _fences(), _tables(), _headings(), indented]
    rule = st.sampled_from((["***"], ["- - -"], ["___"]))
    return st.one_of(*leaves, rule) if tame else st.one_of(*leaves, rule, _oddities())


def _blocks(*, tame: bool) -> st.SearchStrategy[Lines]:
    def contained(inner: st.SearchStrategy[Lines]) -> st.SearchStrategy[Lines]:
        several = st.lists(inner, min_size=1, max_size=3)
        return st.one_of(st.builds(_quote, several), _lists(several))

    leaves = _leaves(tame=tame)
    return st.one_of(leaves, st.recursive(leaves, contained, max_leaves=5))


def _quote(blocks: list[Lines]) -> Lines:
    lines = [line for block in blocks for line in (*block, "")][:-1]
    return [f"> {line}" if line else ">" for line in lines]


def _lists(contents: st.SearchStrategy[list[Lines]]) -> st.SearchStrategy[Lines]:
    marker = st.sampled_from(("- ", "* ", "+  ", "1. ", "10) ", "-   ", "- [ ] ", "- [x] "))

    def build(mark: str, items: list[list[Lines]], extra: int, *, loose: bool) -> Lines:
        indent = " " * ((len(mark) if "[" not in mark else 2) + extra)
        lines: Lines = []
        for item in items:
            inner = [line for block in item for line in (*block, "")][:-1]
            lines += [mark + inner[0], *(indent + line if line else "" for line in inner[1:])]
            lines += [""] if loose else []
        return lines[:-1] if loose else lines

    extra = st.sampled_from((0, 0, 0, 1, 2))
    return st.builds(build, marker, st.lists(contents, min_size=1, max_size=3), extra, loose=st.booleans())
