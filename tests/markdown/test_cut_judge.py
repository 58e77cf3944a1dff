"""The checks of the laws: correct parts pass, and each kind of wrong cut breaks its law."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cutting_laws.foreign import Defects, judge_texts
from cutting_laws.laws import judge
from cutting_laws.prose import expected_slices
from cutting_laws.structure import check_meaning, is_tame
from tailrace.markdown import Part
from tailrace.operations import Body


def piece(own: str, seam: str = "", *, opened: str = "", closed: str = "", lead: str = "") -> Part:
    text = opened + own + closed
    return Part(text=text, body=Body(text=text), size=len(text), opened=opened, closed=closed, seam=seam, lead=lead)


CODE = "```py\none = 1\n\n  two = 2\n```"
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"
CODE_END = piece("  two = 2\n```", opened="```py\n")


def test_correct_parts_break_no_law() -> None:
    source = f"  Some **bold words** here.\n\n{CODE}\n\n{TABLE}\n"
    parts = [
        piece("Some **bold", " ", lead="  ", closed="**"),
        piece("words** here.", "\n\n", opened="**"),
        piece("```py\none = 1\n\n", closed="```"),
        piece("  two = 2\n```", "\n\n", opened="```py\n"),
        piece("| a | b |\n|---|---|\n| 1 | 2 |", "\n"),
        piece("| 3 | 4 |", "\n", opened="| a | b |\n|---|---|\n"),
    ]
    assert check_meaning(source, parts) == []
    assert [breach for breach in judge(source, parts, 40) if breach.law != "boundary"] == []


def laws_broken(source: str, parts: list[Part], limit: int) -> set[str]:
    return {breach.law for breach in judge(source, parts, limit)}


@pytest.mark.parametrize(
    ("source", "parts", "limit", "law"),
    [
        ("abcdef", [piece("abcdef")], 5, "fit"),
        ("abc", [replace(piece("abc"), size=2)], 5, "fit"),
        ("abc def", [piece("abc"), piece("def")], 5, "lossless"),
        ("abc def", [piece("abc", " d"), piece("ef")], 5, "lossless"),
        ("abc", [piece("abc", closed="(1/2)")], 9, "lossless"),
        ("abc", [], 9, "lossless"),
        ("  ", [piece("  ")], 9, "progress"),
        ("a b", [piece("a", closed=" "), piece(" ", opened="*"), piece("b")], 9, "progress"),
        ("👍🏽👍🏽", [piece("👍🏽👍"), piece("🏽")], 3, "graphemes"),
        ("a\r\nb", [piece("a\r", "\n"), piece("b")], 3, "graphemes"),
        (CODE, [piece("```py\none = 1", "\n\n", closed="\n```"), CODE_END], 26, "lossless"),
        (CODE, [piece("```py\none = 1\n\n"), CODE_END], 26, "balanced"),
        (CODE, [piece("```py\none = 1\n\n  two = 2\n", closed="```"), piece("```", opened="```\n")], 28, "boundary"),
        (CODE, [piece(CODE[:20], closed="\n```"), piece(" = 2\n```", opened="```py\n")], 26, "boundary"),
        (TABLE, [piece(TABLE[:29], "\n"), piece("| 3 | 4 |")], 42, "balanced"),
        (TABLE, [piece(TABLE[:19], "\n"), piece(TABLE[20:], opened=TABLE[:20])], 42, "boundary"),
        ("see [the mill](/u) now", [piece("see [the", " "), piece("mill](/u) now")], 20, "boundary"),
        ("see `the mill` now", [piece("see `the", " "), piece("mill` now")], 20, "boundary"),
        ("words before it\n\n- one\n  two", [piece("words before it\n\n- one", "\n  "), piece("two")], 30, "boundary"),
    ],
)
def test_wrong_cut_breaks_its_law(source: str, parts: list[Part], limit: int, law: str) -> None:
    assert law in laws_broken(source, parts, limit)


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("so **bold words** here", [piece("so **bold", " "), piece("words** here")]),
        ("born in 1986. A year", [piece("born in", " "), piece("1986. A year")]),
        ("one\n\n    code", [piece("one", "\n\n    "), piece("code")]),
        ("> ```\n> a\n> b\n> ```", [piece("> ```\n> a\n", closed="> ```"), piece("> b\n> ```")]),
        ("```\na\nb\n```", [piece("```\na", closed="\n```"), piece("\nb\n```", opened="```\n")]),
        ("```py\na\nb\n```", [piece("```py\na\n", closed="```"), piece("b\n```", opened="```\n")]),
        ("one # two", [piece("one", " "), piece("# two")]),
    ],
)
def test_changed_meaning_is_found(source: str, parts: list[Part]) -> None:
    assert [breach.law for breach in check_meaning(source, parts)][:1] == ["meaning"]


def test_only_closed_and_small_constructs_are_tame() -> None:
    assert is_tame("**bold** `code` x_y [link](/u)\n\n```\nx\n```", 80)
    assert not is_tame("**bold", 80)
    assert not is_tame("[a link that is long](/and/goes/on)", 80)
    assert not is_tame("<div>\n*x*\n</div>", 80)


def test_expected_slices_follow_the_order_of_boundaries() -> None:
    assert expected_slices("One two. Three four five six", 20) == ["One two.", "Three four five six"]
    assert expected_slices("One two\nthree. Four five", 20) == ["One two", "three. Four five"]
    assert expected_slices("One two\n\nthree\nfour five six", 20) == ["One two", "three\nfour five six"]
    assert expected_slices("A. " + "b" * 12, 10) == ["A. bbbbbbb", "bbbbb"]
    assert expected_slices("a\n\n\nb", 4) == ["a", "b"]


def test_parts_of_any_splitter_can_be_judged() -> None:
    source = f"Words.\n\n{CODE}\n\n{TABLE}\n\n👍🏽👍🏽👍🏽"
    assert judge_texts(source, [source], 100) == Defects(0, 0, 0, 0, 0)
    cut = ["Words.\n\n```py\none = 1", "two = 2\n```", TABLE[:30], "| 3 | 4 |\n\n👍🏽👍", "🏽👍🏽"]
    assert judge_texts(source, cut, 29) == Defects(1, 2, 1, 1, 0)
    assert judge_texts(source, [CODE], 100).lost_text > 0
