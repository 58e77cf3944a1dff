"""Laws 3 and 7 as far as the parts alone show: fences, tables, links, code lines, blocks that should have moved.

`judge` checks what holds for any text at any limit. It leaves out what the laws allow: a wrapper larger than half of
the limit, a row or a line that fits no part. `check_meaning` compares character by character, for texts whose inline
constructs, headings, rows and wrappers are all well below the limit.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

import pyromark

from cutting_laws.parts import Breach, LocatedPart, locate, measure
from cutting_laws.reading import OPTIONS, Block, Glyph, Reading, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.markdown import Part


def judge(source: str, parts: Sequence[Part], limit: int, unit: str, dialect: str) -> list[Breach]:
    """Every breach of laws 3 and 7 that needs no assumption about the text."""
    checks = _Checks(source, parts, limit, unit)
    if dialect != "markdown":
        return [*checks.blank_slices()]  # the rendered size of a wrapper depends on the dialect
    return [
        *checks.blank_slices(),
        *checks.consumed_in_code(),
        *checks.open_fences(),
        *checks.stranded_closers(),
        *checks.cut_code_lines(),
        *checks.cut_inlines(),
        *checks.tables(),
        *checks.not_moved(),
    ]


class _Checks:
    """One source, its parts and their readings."""

    def __init__(self, source: str, parts: Sequence[Part], limit: int, unit: str) -> None:
        self.source = source
        self.limit = limit
        self.unit = unit
        self.placed = locate(parts)
        self.reading = read(source)
        self.readings = [read(part.text) for part in parts]

    def size(self, text: str) -> int:
        return measure(text, self.unit)

    def prefix(self, block: Block) -> str:
        """What is before the block on its first line: quote marks, list markers, indentation."""
        return self.source[self.source.rfind("\n", 0, block.start) + 1 : block.start]

    def wrapper(self, block: Block) -> int:
        """The largest size of what repeats the block: its first line and a closing line, or its header."""
        prefix = self.prefix(block)
        if block.kind == "table":
            return self.size(prefix + block.opener)
        return self.size(f"{prefix}{block.opener}{block.info} \n{prefix}{block.opener}\n")

    def bare_wrapper(self, block: Block) -> int:
        """The same for a fence without its info string. Indented code is wrapped in its indentation."""
        return self.wrapper(block._replace(info=""))

    def is_repeated(self, block: Block) -> bool:
        """Whether the wrapper is so small that it must be repeated."""
        return 2 * self.bare_wrapper(block) <= self.limit

    def is_bulky(self, block: Block) -> bool:
        """Whether the block, or what repeats it, comes near the limit."""
        match block.kind:
            case "link" | "code_span" | "heading" | "rule":
                bulk = self.size(self.source[block.start : block.end])
            case "table":
                rows = self.source[block.start : block.end].splitlines()
                bulk = max(self.wrapper(block), *(self.size(self.prefix(block) + row) for row in rows))
            case "fence":
                bulk = self.wrapper(block)
            case _:
                bulk = self.size(self.prefix(block))
        return 3 * bulk > self.limit

    def borders_in(self, block: Block) -> Iterator[tuple[LocatedPart, LocatedPart]]:
        """The pairs of neighbouring parts between which the block is cut."""
        for here, following in itertools.pairwise(self.placed):
            if block.start < here.end and following.start < block.end:
                yield here, following

    def blank_slices(self) -> Iterator[Breach]:
        """Only inside code may a part hold nothing but whitespace of the source."""
        bodies = [block.body for block in self.reading.of("fence", "indented")]
        for number, _, start, end in self.placed:
            inside_code = any(first <= start < last for first, last in bodies)
            if not self.source[start:end].strip() and not inside_code:
                yield Breach("progress", number, "the part holds nothing but whitespace of the source")

    def consumed_in_code(self) -> Iterator[Breach]:
        """No seam takes anything from the content of a code block."""
        for block in self.reading.of("fence", "indented"):
            if not self.is_repeated(block):
                continue
            first, last = block.body
            if block.kind == "indented":
                last = first + len(self.source[first:last].rstrip())
            for here, following in self.borders_in(block):
                if here.end < last and following.start > here.end and max(here.end, first) < following.start:
                    taken = self.source[here.end : following.start]
                    yield Breach("lossless", here.number, f"the seam {taken!r} is part of the code")

    def open_fences(self) -> Iterator[Breach]:
        """No part ends inside a fence of its own."""
        for (index, part, start, _), reading in zip(self.placed, self.readings, strict=True):
            for block in reading.of("fence"):
                if block.closed or block.end < len(part.text.rstrip()):
                    continue
                prefix = part.text[part.text.rfind("\n", 0, block.start) + 1 : block.start]
                if 2 * self.size(f"{prefix}{block.opener}\n{prefix}{block.opener}\n") > self.limit:
                    continue
                at = max(start, start + block.start - len(part.opened))
                here = [own for own in self.reading.of("fence") if own.start <= at <= own.end]
                let_go = any(
                    not self.is_repeated(own) or (not own.closed and own.depth and own.end < len(self.source))
                    for own in here
                )
                # A line that is no fence is reopened as one if the backtick that shows this comes after the lookahead.
                # Like any fence that is never closed, it then ends with its container.
                shown_too_late = not here and block.depth and block.start < len(part.opened)
                if not let_go and not shown_too_late:
                    yield Breach("balanced", index, f"the fence {part.text[block.start : block.start + 20]!r} is open")

    def stranded_closers(self) -> Iterator[Breach]:
        """A closing fence is never alone at the start of a part."""
        for block in self.reading.of("fence"):
            if not block.closed or not self.is_repeated(block):
                continue
            for here, following in self.borders_in(block):
                if following.start >= block.body[1] and here.end <= block.body[1]:
                    yield Breach("boundary", following.number, "the closing fence is alone at the start")

    def cut_code_lines(self) -> Iterator[Breach]:
        """Code is cut at a line end, unless the line fits no part."""
        for block in self.reading.of("fence"):
            if not self.is_repeated(block):
                continue
            for here, following in self.borders_in(block):
                cut = here.end
                if not block.body[0] < cut < block.body[1] or self.source[cut - 1] in "\r\n":
                    continue
                line_start = max(self.source.rfind("\n", 0, cut) + 1, block.body[0])
                line_end = self.source.find("\n", cut)
                line = self.source[line_start : line_end if line_end >= 0 else len(self.source)]
                added = self.size(following.part.opened + here.part.closed + self.prefix(block))
                if self.size(line) + max(added, self.bare_wrapper(block)) + 2 <= self.limit:
                    yield Breach("boundary", here.number, f"the code line {line!r} is cut though it fits a part")

    def cut_inlines(self) -> Iterator[Breach]:
        """A link or a code span is cut only if it fits no part alone.

        After a code span that fits none, its paragraph is plain text, whose backticks may pair differently.
        """
        literal_until = 0
        for block in self.reading.of("link", "code_span"):
            text = self.source[block.start : block.end]
            if block.kind == "code_span" and self.size(text) + 8 * block.styles > self.limit // (1 + block.depth):
                paragraph_end = self.source.find("\n\n", block.end)
                literal_until = paragraph_end if paragraph_end >= 0 else len(self.source)
            if block.start < literal_until or self.looks_like_fence(block):
                continue
            room = self.limit // 2 if block.depth else self.limit
            reads_as_fence = text.startswith("```") and "\n" in text  # alone it would be a fence
            if block.in_table or reads_as_fence or self.size(text) + 8 * block.styles > room:
                continue
            for here, following in self.borders_in(block):
                if self.size(text + here.part.closed + following.part.opened) <= room:
                    yield Breach("boundary", here.number, f"{text!r} is cut")

    def looks_like_fence(self, block: Block) -> bool:
        """Whether the line before the span begins like a fence, and no part has room for the line with the span.

        Only a later backtick shows that such a line is no fence. A part without one would be a code block, so the line
        is cut inside the backticks that it begins with, and the others pair differently.
        """
        start = self.source.rfind("\n", 0, block.start) + 1
        begins_like_fence = self.source[start : block.start].lstrip(" >-+*.)0123456789").startswith("```")
        return begins_like_fence and self.size(self.source[start : block.end]) > self.limit

    def tables(self) -> Iterator[Breach]:
        """Rows keep their header, a header keeps a row, and what is repeated is the table's own header."""
        for table in self.reading.of("table"):
            rows = self.source[table.body[0] : table.end].splitlines()
            wrapper = self.wrapper(table)
            longest = max((self.size(self.prefix(table) + row) for row in rows), default=0)
            if 2 * wrapper > self.limit or wrapper + longest + 8 * (1 + table.depth) > self.limit:
                continue
            yield from self._headers(table)
            wanted = {glyph.at: glyph for glyph in self.reading.glyphs if table.start <= glyph.at < table.end}
            for index, start, glyph in self._own_glyphs():
                own = wanted.get(start)
                if own and own.kind in ("cell", "head_cell") and glyph.kind != own.kind:
                    yield Breach("balanced", index, f"{glyph.char!r} at {start} is a {own.kind} no more")
                    break

    def _headers(self, table: Block) -> Iterator[Breach]:
        head = [glyph.char for glyph in self.reading.glyphs if table.start <= glyph.at < table.body[0]]
        for here, following in self.borders_in(table):
            if here.end <= table.body[0] < table.end:
                yield Breach("boundary", here.number, "the table's header is alone")
            opened = len(following.part.opened)
            repeated = [
                glyph.char
                for glyph in self.readings[following.number].glyphs
                if glyph.at < opened and glyph.kind in ("head_cell", "code_span")
            ]
            if repeated != head:
                yield Breach("balanced", following.number, "the rows do not carry the header of their table")

    def _own_glyphs(self) -> Iterator[tuple[int, int, Glyph]]:
        for placed, reading in zip(self.placed, self.readings, strict=True):
            for glyph in source_glyphs(placed, reading):
                yield placed.number, glyph.at, glyph

    def not_moved(self) -> Iterator[Breach]:
        """A block that fits a part moves whole if the part before it is then at least a third full."""
        for block in self.reading.of("fence", "table", "item"):
            text = self.source[block.start : block.end].rstrip()
            end = block.start + len(text)
            if self.size(self.prefix(block) + text) + 10 + 8 * block.depth > self.limit:
                continue
            if block.kind == "fence" and (not block.closed or not self.is_repeated(block)):
                continue
            for here, _ in self.borders_in(block._replace(end=end)):
                before = self.source[here.start : max(block.start, here.start)]
                kept = before[: max(0, len(before) - len(self.prefix(block)))].rstrip()
                third_full = 3 * self.size(kept) >= self.limit
                if here.start <= block.start and (third_full or (not kept and block.kind != "item")):
                    yield Breach(
                        "boundary", here.number, f"the {block.kind} {text[:30]!r} is cut though it fits a part"
                    )


def source_glyphs(placed: LocatedPart, reading: Reading) -> Iterator[Glyph]:
    """The characters of a part that are the source's own, with their offsets in the source."""
    opened = len(placed.part.opened)
    own_end = len(placed.part.text) - len(placed.part.closed)
    for glyph in reading.glyphs:
        if opened <= glyph.at < own_end:
            yield glyph._replace(at=glyph.at - opened + placed.start)


def check_meaning(source: str, parts: Sequence[Part]) -> list[Breach]:
    """Law 3 character by character: every character means the same in its part as in the source.

    At the end of a part, a line end of code may be missing or added: the end of the part is one. Blank lines at the
    start or the end of a piece of indented code are in its slice but are not read as code there.
    """
    reading = read(source)
    indented = [block.body for block in reading.of("indented")]
    wanted: dict[int, list[Glyph]] = defaultdict(list)
    for glyph in reading.glyphs:
        wanted[glyph.at].append(glyph)
    breaches = []
    for placed in locate(parts):
        found: dict[int, list[Glyph]] = defaultdict(list)
        for glyph in source_glyphs(placed, read(placed.part.text)):
            found[glyph.at].append(glyph)
        if _doubles_line_end(placed, found, wanted):
            breaches.append(Breach("meaning", placed.number, "the cut before a line end of code adds a blank line"))
        here = sorted(at for at in {*wanted, *found} if placed.start <= at < placed.end)
        for at in here:
            expected = [glyph.meaning for glyph in wanted.get(at, [])]
            seen = [glyph.meaning for glyph in found.get(at, [])]
            if expected == seen or (at + 2 >= placed.end and _line_ends(expected) and _line_ends(seen)):
                continue
            # In a quote a blank line has the marks of the quote.
            at_edge = not source[placed.start : at].strip(" \t\r\n>") or not source[at : placed.end].strip(" \t\r\n>")
            if at_edge and not source[at].strip() and any(start <= at < end for start, end in indented):
                continue
            context = source[max(0, at - 15) : at + 15]
            breaches.append(
                Breach("meaning", placed.number, f"at {at} in {context!r}: {_said(expected)} became {_said(seen)}")
            )
            break
    return breaches


def _doubles_line_end(placed: LocatedPart, found: dict[int, list[Glyph]], wanted: dict[int, list[Glyph]]) -> bool:
    last = max(found, default=-1)
    own_line_end = any(glyph.char == "\n" for glyph in found.get(last, []))
    in_code = any(glyph.kind == "code_block" for glyph in found.get(last, []))
    cut_before_it = not placed.part.seam and any(glyph.char == "\n" for glyph in wanted.get(placed.end, []))
    return in_code and not own_line_end and cut_before_it


def is_tame(source: str, limit: int, unit: str = "code_points") -> bool:
    """Whether `check_meaning` applies to this text: nothing in it comes near what the laws allow.

    Every link, code span, heading, row and wrapper is below a third of the limit. There are no HTML blocks and no
    reference definitions. No open marker could be taken for a style, a code span or a link. No style is inside itself:
    closed and opened again, its two markers would be one of another kind.
    """
    if _style_in_itself(source):
        return False
    checks = _Checks(source, (), limit, unit)
    if checks.reading.of("html", "definition") or any(map(checks.is_bulky, checks.reading.blocks)):
        return False
    if any(4 * sum(_MARKS[style] for style in glyph.styles) > limit for glyph in checks.reading.glyphs):
        return False  # the styles open at once, closed and reopened, would take more than half of a part
    return not any(
        glyph.char in "*_~`[]<" and glyph.kind in _INLINE_TEXT and _could_open(source, glyph.at)
        for glyph in checks.reading.glyphs
    )


def _style_in_itself(source: str) -> bool:
    around: list[str] = []
    for event in pyromark.events(source.encode("utf-8", "replace").decode(), options=OPTIONS):
        match event:
            case {"Start": "Emphasis" | "Strong" | "Strikethrough" as style}:
                if style in around:
                    return True
                around.append(style)
            case {"End": "Emphasis" | "Strong" | "Strikethrough"}:
                around.pop()
    return False


_MARKS = {"emphasis": 1, "strong": 2, "strikethrough": 2}
_INLINE_TEXT = ("text", "cell", "head_cell", "html")


def _could_open(source: str, at: int) -> bool:
    before, after = source[at - 1 : at], source[at + 1 : at + 2]
    inside_word = before.isalnum() and after.isalnum() and source[at] == "_"
    return before != "\\" and not after.isspace() and not inside_word and not source.startswith("~~~ ", at)


def _line_ends(meanings: Sequence[tuple[object, ...]]) -> bool:
    return all(meaning[0] == "\n" for meaning in meanings)


def _said(meanings: Sequence[tuple[object, ...]]) -> str:
    return " ".join("/".join(str(trait) for trait in meaning if trait) for meaning in meanings) or "nothing"
