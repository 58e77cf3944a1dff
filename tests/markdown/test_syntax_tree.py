"""The syntax tree: its nodes, what it keeps as written, and its limited depth."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from strategies import documents, raw_texts

from example_counts import examples
from tailrace.markdown.parsing import parse, parse_whole
from tailrace.markdown.syntax_tree import (
    Block,
    CodeBlock,
    CodeSpan,
    Definition,
    Emphasis,
    HardBreak,
    Heading,
    HtmlBlock,
    Image,
    Inline,
    InlineHtml,
    Link,
    List,
    Paragraph,
    Quote,
    SoftBreak,
    Strike,
    Strong,
    Table,
    Text,
    ThematicBreak,
    are_tight,
    visible_text,
)

B = TypeVar("B")


def only(source: str, kind: type[B]) -> B:
    (block,) = parse(source)
    assert isinstance(block, kind)
    return block


def inlines_of(source: str) -> tuple[Inline, ...]:
    return only(source, Paragraph).inlines


@pytest.mark.parametrize(
    ("source", "inlines"),
    [
        ("a \\* b &amp; [c", (Text("a * b & [c"),)),
        ("`x  y`", (CodeSpan("x  y"),)),
        ("*a **b***", (Emphasis((Text("a "), Strong((Text("b"),)))),)),
        ("~~a~~", (Strike((Text("a"),)),)),
        ("[a *b*](/u 'title')", (Link("/u", "title", (Text("a "), Emphasis((Text("b"),)))),)),
        ("![a *b*](/i)", (Image("/i", "", (Text("a "), Emphasis((Text("b"),)))),)),
        ("<http://a.b>", (Link("http://a.b", "", (Text("http://a.b"),)),)),
        ("<me@a.b>", (Link("mailto:me@a.b", "", (Text("me@a.b"),)),)),
        ("a\nb  \nc", (Text("a"), SoftBreak(), Text("b"), HardBreak(), Text("c"))),
        ("List<T> x", (Text("List"), InlineHtml("<T>"), Text(" x"))),
    ],
)
def test_inlines(source: str, inlines: tuple[Inline, ...]) -> None:
    assert inlines_of(source) == inlines


def test_visible_text_ofinlines_of() -> None:
    assert visible_text(inlines_of("a **b** [c *d*](/u) ![e](/i) `f` <g>\nh")) == "a b c d e f <g>\nh"


@pytest.mark.parametrize(
    ("source", "block"),
    [
        ("### a", Heading(3, (Text("a"),))),
        ("a\n---", Heading(2, (Text("a"),))),
        ("```py run\nx\n\n  y\n```", CodeBlock("x\n\n  y\n", "py run")),
        ("```\nx", CodeBlock("x")),
        ("***", ThematicBreak()),
        ("<div>\nx\n</div>", HtmlBlock("<div>\nx\n</div>")),
        ("> a", Quote((Paragraph((Text("a"),)),))),
        ("[a]: /u 't'", Definition("[a]: /u 't'")),
    ],
)
def test_blocks(source: str, block: Block) -> None:
    assert parse(source) == (block,)


def test_language_is_the_first_word_of_the_info_string() -> None:
    languages = [
        block.language for block in parse("``` py run\n```\n~~~\n~~~\n\n    x") if isinstance(block, CodeBlock)
    ]
    assert languages == ["py", "", ""]


def test_list_has_numbers_tasks_and_tightness() -> None:
    tight, loose = only("3. a\n4. [x] b\n5. [ ] c\n6.", List), only("- a\n\n- b", List)
    assert (tight.first, tight.tight, [item.done for item in tight.items]) == (3, True, [None, True, False, None])
    assert (loose.first, loose.tight) == (None, False)
    assert tight.items[3].blocks == ()


def test_text_and_lists_of_a_tight_item_are_tight() -> None:
    text, nested, code = only("- a\n  - b\n  ```\n  c\n  ```", List).items[0].blocks
    assert are_tight(text, nested)
    assert not are_tight(nested, code)
    assert not are_tight(*parse("a\n- b"))


def test_table_has_alignments_and_equal_rows() -> None:
    table = only("|a|b|c|d|\n|-|:-|:-:|-:|\n|x|", Table)
    assert table.alignments == ("none", "left", "center", "right")
    assert [len(row) for row in (table.header, *table.rows)] == [4, 4]


@pytest.mark.parametrize("rest", ["c", "c | d", "**c**"])
def test_cells_without_a_column_are_kept_as_written(rest: str) -> None:
    (row,) = only(f"| a |\n|---|\n| b | {rest} |", Table).rows
    assert row == ((Text("b"),), (Text(rest),))


@pytest.mark.parametrize("reference", ["[a]", "[a][]", "[*b*][a]", "![b][a]"])
def test_references_and_definitions_are_kept_as_written(reference: str) -> None:
    paragraph, definition = parse(f"see {reference} there\n\n[a]: /u\n[c]: /v")
    assert isinstance(paragraph, Paragraph)
    assert paragraph.inlines == (Text(f"see {reference} there"),)
    assert isinstance(definition, Definition)
    assert definition.text == "[a]: /u\n[c]: /v"


@pytest.mark.parametrize(
    "source",
    ["> [a]: /u\n>\n> b", "- [a]: /u\n- b", "- b\n\n  [a]: /u", "# b\n[a]: /u", "[a]: /u\n***", "> b\n\n[a]: /u"],
)
def test_definitions_are_found_in_every_container(source: str) -> None:
    assert repr(parse(source)).count("Definition(text='[a]: /u')") == 1


@pytest.mark.parametrize("source", ["a\r\n<b\r\nc>\r\n[d\r\ne][f]\r\n\r\n[f]: /u\r\n[g]: /v", "<div>\r\n\r\n<p>\r\n"])
def test_line_ends_are_line_feeds(source: str) -> None:
    assert "\\r" not in msgspec.json.encode(parse(source)).decode()


def test_bidi_overrides_are_removed_from_links_and_visible_in_targets() -> None:
    link, _, image = inlines_of("[a\u202eb **c\u2066**](/u\u202e) ![d\u202a](/i\u200b)")
    assert link == Link("/u%E2%80%AE", "", (Text("ab "), Strong((Text("c"),))))
    assert image == Image("/i%E2%80%8B", "", (Text("d"),))


@pytest.mark.parametrize("mark", ["> ", "- ", "1. ", ">", "* > "])
def test_blocks_nested_too_deeply_are_kept_as_written(mark: str) -> None:
    source = mark * 3000 + "end"
    depth, blocks = 0, parse(source)
    while blocks and not isinstance(block := blocks[0], Paragraph):
        depth += 1
        assert isinstance(block, Quote | List)
        blocks = block.blocks if isinstance(block, Quote) else block.items[0].blocks
    assert depth < 30
    assert isinstance(block, Paragraph)
    assert visible_text(block.inlines).endswith(mark + "end")


@pytest.mark.parametrize(
    ("opened", "closed"), [("*a **b ", "c** d*"), ("![", "](u)"), ("*a ", "*"), ("~~a *b ", "* ~~"), ("[", "](u)")]
)
def test_styles_nested_too_deeply_are_kept_as_written(opened: str, closed: str) -> None:
    inlines = inlines_of(opened * 3000 + "x" + closed * 3000)
    assert "x" in visible_text(inlines)  # and no RecursionError


@settings(max_examples=examples(100, search=1000))
@given(raw_texts() | documents())
def test_cached_pieces_parse_like_the_whole_text(source: str) -> None:
    assert parse(source) == parse_whole(source)
