"""The dialect `plain`: readable text where nothing renders Markdown."""

from __future__ import annotations

import pytest

from tailrace.markdown import render


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("# Title\n\n**bold**, *em*, ~~old~~ and `code`", "Title\n\nbold, em, old and code"),
        ("[a link](http://x.y) and <http://auto.z>", "a link (http://x.y) and http://auto.z"),
        ("![picture](i.png) [](/u) [http://a.b](http://a.b)", "picture (i.png) /u http://a.b"),
        ("<me@x.y>", "me@x.y"),
        ("a  \nb\nc", "a\nb\nc"),
        ("1. one\n2. two\n   - [x] done\n   - [ ] open", "1. one\n2. two\n   - [x] done\n   - [ ] open"),
        ("> quoted\n> more", "> quoted\n> more"),
        ("```py\nif x:\n    y\n\nz\n```", "if x:\n    y\n\nz"),
        ("| a | b |\n|---|---|\n| | [l](/u) |", "a | b\n | l (/u)"),
        ("&amp; \\*literal\\* List<String>", "& *literal* List<String>"),
        ("[see][ref] and [ref]\n\n[ref]: http://r.e 'T'", "[see][ref] and [ref]\n\n[ref]: http://r.e 'T'"),
        ("***", "---"),
        # what would show nothing is shown as written
        *((source, source) for source in ("#", "-", ">", "```\n```", "<!-- -->", "[a]: /x")),
    ],
)
def test_markup_becomes_readable_text(source: str, text: str) -> None:
    assert render(source, "plain").text == text


def test_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="use one of markdown, plain"):
        render("x", "wordperfect")
