"""The dialect `telegram`: its text and entities, none of which Telegram would refuse."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import documents, raw_texts
from test_hard_texts import DOCUMENTS
from test_spec_examples import EXAMPLES

from example_counts import examples
from tailrace.markdown import render
from tailrace.operations import Body, Entity

EMPTY = re.compile("[\x00- \xa0\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f\u2800\u3000\ufeff\ufffc]*")


def _covered(body: Body, entity: Entity) -> str:
    units = body.text.encode("utf-16-le")
    return units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le")


def _marked(source: str) -> list[tuple[str, str]]:
    """The entities with the text they mark; links by their target, code blocks by their language."""
    body = render(source, "telegram")
    return [(entity.url or entity.language or entity.type, _covered(body, entity)) for entity in body.entities]


def refusals(body: Body) -> list[str]:
    """What Telegram would refuse or change, by the source of its library."""
    found = []
    if EMPTY.fullmatch(body.text):
        found.append("message text is empty")
    if len(body.entities) > 100:
        found.append("more entities than are kept")
    end = len(body.text.encode("utf-16-le")) // 2
    for entity in body.entities:
        if entity.length < 1 or not 0 <= entity.offset <= entity.offset + entity.length <= end:
            found.append(f"{entity} is empty or beyond the text")
        elif _covered(body, entity) != _covered(body, entity).strip(" \n"):
            found.append(f"{entity} has whitespace at its edge")
        if entity.type == "text_link" and not _takes_link(entity.url or ""):
            found.append(f"{entity.url!r} is no link")
    return found + [f"{outer} around {inner}" for outer, inner in _crossing(body)]


def _takes_link(url: str) -> bool:
    found = re.fullmatch(r"(https?|tg)://([^/?#]*)(.*)", url, re.IGNORECASE)
    if found is None:
        return False
    if found[1].lower() == "tg":
        return re.fullmatch(r"[\w-]+", found[2], re.ASCII) is not None
    host, _, port = found[2].partition(":")
    return "." in host.strip(".") and host.isprintable() and "@" not in host and (not port or 0 < int(port) < 65536)


def _crossing(body: Body) -> list[tuple[Entity, Entity]]:
    """The pairs of entities that may not overlap as they do."""
    pairs = []
    for one, other in combinations(body.entities, 2):
        outer, inner = (one, other) if one.length >= other.length else (other, one)
        if max(one.offset, other.offset) >= min(one.offset + one.length, other.offset + other.length):
            continue
        within = outer.offset <= inner.offset and inner.offset + inner.length <= outer.offset + outer.length
        kinds = {outer.type, inner.type}
        code = bool(kinds & {"code", "pre"}) and outer.type != "blockquote"
        if not within or len(kinds) == 1 or code:
            pairs.append((outer, inner))
    return pairs


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("# Title\n\n**bold**, *em*, ~~old~~ and `code`", "Title\n\nbold, em, old and code"),
        ("- a\n- b\n  - c\n\n    d\n- [x] e\n- [ ] f", "• a\n• b\n\n  • c\n\n    d\n☑ e\n☐ f"),
        ("1. a\n2. b\n   - c\n3.", "1. a\n2. b\n   • c\n3."),
        ("3) [x] a", "3. ☑ a"),
        ("- - a\n  - b", "• • a\n  • b"),
        ("- a\n  b\n- c", "• a\n  b\n• c"),
        ("a\n\n***\nb", "a\n\n———\n\nb"),
        ("> a\n> > b\n> > c\n>\n> d", "a\n\n> b\n> c\n\nd"),
        ("> >\n>\n> a", "a"),
        ("- > a\n- ```\n  b\n  ```", "•\na\n•\nb"),
        ("![alt](https://a.b/i.png) ![](https://a.b/i.png)", "alt https://a.b/i.png"),
        ("List<T> &amp; \\*x\\*", "List<T> & *x*"),
        ("<div>\nx\n</div>\n\n[r]: /u", "<div>\nx\n</div>\n\n[r]: /u"),
        ("a ||b|| c", "a ||b|| c"),
        ("`@a` @a a@b.c https://x.y/@a", "@a @\u200ba a@b.c https://x.y/@a"),
        ("@**a** &#64;b [@c](https://x.y) [](@d) <@e>", "@\u200ba @\u200bb @\u200bc @\u200bd <@\u200be>"),
        ("@", "@"),
        ("a @ b", "a @ b"),
        # code keeps its indentation
        ("    a\n      b", "a\n  b"),
        ("```\n    a\n  b\n```", "\u00a0   a\n  b"),
        ("```\n\n\na\n\n```", "\u00a0\n\na"),
        ("```\n\ta\n\t\tb\n```", "\u00a0   a\n        b"),
        ("x\n\n```\n  a\n```", "x\n\n\u00a0 a"),
        # what would show nothing is shown as written
        *((source, source) for source in ("#", ">", "```\n```", "<!-- -->")),
    ],
)
def test_markdown_becomes_telegram_text(source: str, text: str) -> None:
    body = render(source, "telegram")
    assert (body.text, refusals(body)) == (text, [])


@pytest.mark.parametrize(
    ("source", "marked"),
    [
        ("# a *b* `c` d", [("bold", "a b"), ("italic", "b"), ("code", "c"), ("bold", "d")]),
        ("😀 **b 😀** *i*", [("bold", "b 😀"), ("italic", "i")]),
        ("***a*** ~~b~~", [("bold", "a"), ("italic", "a"), ("strikethrough", "b")]),
        ("**a **b** c**", [("bold", "a b c")]),
        ("[a **b** `c`](https://x.y)", [("https://x.y", "a b c"), ("bold", "b")]),
        ("*a [b](https://x.y) c*", [("italic", "a b c"), ("https://x.y", "b")]),
        ("**a `b`** c", [("bold", "a"), ("code", "b")]),
        ("> a **b**\n> > c", [("blockquote", "a b\n\n> c"), ("bold", "b")]),
        ("> ```\n> a\n> ```", [("blockquote", "a"), ("pre", "a")]),
        ("- **a\n  b**", [("bold", "a\n  b")]),
        ("```c++ x\na\n```", [("c++", "a")]),
        ("```{.x}\na\n```", [("pre", "a")]),
        ("**&#32;a&#32;** b", [("bold", "a")]),
        ("` `", []),
    ],
)
def test_styles_become_entities(source: str, marked: list[tuple[str, str]]) -> None:
    assert sorted(_marked(source)) == sorted(marked), "offsets count UTF-16 units"
    assert refusals(render(source, "telegram")) == []


@pytest.mark.parametrize("url", ["https://x.y", "http://x.y:8080/a?b#c", "tg://resolve?domain=x", "HTTPS://ü.de/(a)"])
def test_link_that_telegram_accepts_becomes_an_entity(url: str) -> None:
    body = render(f"[a]({url}) b", "telegram")
    assert body == Body(text="a b", entities=(Entity(type="text_link", offset=0, length=1, url=url),))


@pytest.mark.parametrize(
    "url",
    [
        *("/u", "#x", "ftp://x.y", "javascript:alert(1)", "mailto:me@x.y", "tel:+49", "http://localhost:3000", "x.y"),
        *("tg://user?id=1", "TG://user/?id=1", "tg:user?id=1", "tg://user#x?id=1"),
        *("http://x.y:0", "http://x.y:99999", "https://me@x.y", "http://[::1]/", "https://x", "tg://a.b", "http://"),
        "https://x.y/" + "a" * 3000,
    ],
)
def test_link_that_telegram_refuses_becomes_text(url: str) -> None:
    assert render(f"[a]({url}) b", "telegram") == Body(text=f"a ({url}) b")


@pytest.mark.parametrize("text", ["https://bank.com", "b\u200bank.com", "at bank.com", "**bank**.com", "`bank.com`"])
def test_deceptive_link_shows_its_target(text: str) -> None:
    body = render(f"[{text}](https://evil.com)", "telegram")
    assert body.text.endswith("bank.com (https://evil.com)".removeprefix("b" if "\u200b" in text else ""))
    assert not [entity for entity in body.entities if entity.url]


def test_link_around_an_image_shows_both_targets() -> None:
    assert render("[![](https://i.mg/a.svg)](https://x.y)", "telegram").text == "https://i.mg/a.svg (https://x.y)"
    assert render("[![a](https://i.mg/a.svg)](https://x.y)", "telegram") == Body(
        text="a (https://x.y)", entities=(Entity(type="text_link", offset=0, length=1, url="https://i.mg/a.svg"),)
    )


def test_table_that_fits_a_phone_has_columns() -> None:
    assert render("| a | b |\n|---|--:|\n| x | **1** |\n| 日本 | 22 |", "telegram") == Body(
        text="a      b\n----  --\nx      1\n日本  22", entities=(Entity(type="pre", offset=0, length=33),)
    )


def test_wide_table_becomes_labelled_lines() -> None:
    source = (
        "before\n\n| name | what it is good for |\n|---|---|\n| wheel | turns the *millstone* in the river |\n"
        "| [race](https://x.y) | |\n\nafter"
    )
    assert render(source, "telegram").text == (
        "before\n\nname: wheel\nwhat it is good for: turns the millstone in the river\n\n"
        "name: race\nwhat it is good for:\n\nafter"
    )
    assert ("https://x.y", "race") in _marked(source)
    assert ("italic", "millstone") in _marked(source)


def test_links_beyond_the_entity_limit_show_their_targets() -> None:
    body = render("\n".join(f"**b{number}** [l{number}](https://x.y/{number})" for number in range(120)), "telegram")
    assert refusals(body) == []
    for number in range(120):
        hidden = any(entity.url == f"https://x.y/{number}" for entity in body.entities)
        assert hidden or f"l{number} (https://x.y/{number})" in body.text


@settings(max_examples=examples(80, search=1000))
@given(st.one_of(raw_texts(), documents(), documents(max_blocks=12)))
@example("\ud800 **\ud800**")
@example("> **a\n> `b`** [c](https://x.y)")
def test_telegram_refuses_no_text(source: str) -> None:
    if source.strip():
        assert refusals(render(source, "telegram")) == []


def test_telegram_refuses_no_example() -> None:
    invisible = ("\u200b", "\u2800 \u200d", "\x00\x01", "- \ufeff\n", "**\u200b**", "\u3164\u200b")
    for source in (*EXAMPLES, *DOCUMENTS.values(), *invisible):
        if source.strip():
            assert (source, refusals(render(source, "telegram"))) == (source, [])
