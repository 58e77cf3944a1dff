"""The policy on links: no text names another address than the link's, and no target hides a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stable_strategies import texts
from tailrace.markdown.links import deceives, link_as_text, remove_bidi_overrides, scheme, visible_target


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://bank.com", "https://evil.com"),
        ("bank.com", "https://evil.com"),
        ("www.bank.com", "https://evil.com/www.bank.com"),
        ("log in at bank.com now", "https://evil.com/bank.com"),
        ("(bank.com)", "https://evil.com"),
        ("https://bank.com", "https://bank.com.evil.com"),
        ("https://bank.com", "https://bank.com@evil.com"),
        ("https://bank.com", "https://evil.com\\@bank.com"),
        ("bank.com", "https:evil.com/bank.com"),
        ("b\u200bank.com", "https://evil.com"),
        ("ba\u202enk.c\u2066om", "https://evil.com"),
        ("ｂａｎｋ．ｃｏｍ", "https://evil.com"),
        ("bank。com", "https://evil.com"),
        ("https://host/good", "https://host/bad"),
        ("boss@bank.com", "mailto:thief@bank.com"),
        ("boss@bank.com", "https://bank.com"),
        ("mailto:boss@bank.com", "mailto:thief@evil.com"),
    ],
)
def test_text_that_names_another_address_deceives(text: str, url: str) -> None:
    assert deceives(text, url)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("the docs", "https://docs.example.com"),
        ("https://bank.com", "https://bank.com"),
        ("bank.com", "https://www.Bank.com/"),
        ("www.bank.com/help", "http://bank.com/help/me?now#1"),
        ("bank.com.", "https://bank.com"),
        ("“bank.com”", "https://user:secret@bank.com"),
        ("bank.com:8080", "http://bank.com:8080/x"),
        ("boss@bank.com", "mailto:boss@bank.com"),
        ("boss@bank.com", "mailto:boss@bank.com?subject=x"),
        ("README.md", "https://example.com/blob/main/README.md"),
        ("asyncio.run()", "https://docs.python.org/3/library/asyncio.html"),
        ("What is new in 3.12, e.g. here", "https://docs.python.org/3/whatsnew"),
        ("v1.2.3", "https://example.com/releases"),
        ("", "https://example.com"),
        ("a", ""),
    ],
)
def test_text_that_names_no_other_address_does_not_deceive(text: str, url: str) -> None:
    assert not deceives(text, url)


names = st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,3})?\.(com|org)", fullmatch=True)
invisible = texts("\u200b\u200c\u200d\u2060\ufeff\u202a\u202e\u2066\u2069", max_size=3)


@given(names, names, invisible, st.sampled_from(("", "https://", "www.")))
def test_host_name_deceives_if_the_link_leads_elsewhere(named: str, led: str, unseen: str, before: str) -> None:
    text = before + named[:1] + unseen + named[1:]
    assert deceives(text, f"https://{led}/path") is (named != led)


@pytest.mark.parametrize(
    ("text", "url", "shown"),
    [
        ("a", "/u", "a (/u)"),
        ("http://a.b", "http://a.b", "http://a.b"),
        ("me@a.b", "mailto:me@a.b", "me@a.b"),
        ("a", "", "a"),
        (" ", "/u", "/u"),
    ],
)
def test_link_as_text_repeats_nothing(text: str, url: str, shown: str) -> None:
    assert link_as_text(text, url) == shown


def test_target_shows_every_character() -> None:
    assert visible_target("http://a.b/\u202ec d\u200b\x00é") == "http://a.b/%E2%80%AEc%20d%E2%80%8B%00é"


@given(texts())
def test_target_is_one_word(url: str) -> None:
    assert visible_target(url).split() == ([visible_target(url)] if url else [])


def test_bidi_overrides_are_removed() -> None:
    assert remove_bidi_overrides("a\u202a\u202b\u202c\u202d\u202eb\u2066\u2067\u2068\u2069c\u200d") == "abc\u200d"


@pytest.mark.parametrize(
    ("url", "name"),
    [("HTTPS://a", "https"), ("mailto:a@b", "mailto"), ("javascript:1", "javascript"), ("/a:b", ""), ("", "")],
)
def test_scheme_is_the_text_before_the_colon(url: str, name: str) -> None:
    assert scheme(url) == name
