"""What of a text is for people: thinking in tags and silent replies, however the text is cut into pieces."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tailrace.projector.speech_filter import FilteredText, SpeechFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Told(NamedTuple):
    """What people were told by a turn at its end, and whether it was silent."""

    text: str
    reasoning: str = ""
    silent: bool = False


def told(*blocks: Iterable[str], silent: tuple[str, ...] = ("NO_REPLY",)) -> Told:
    """The blocks of a turn, each in its pieces, heard and put together as who shows them does."""
    hearing = SpeechFilter(silent)
    shown: list[str] = []
    reasoning = ""
    for number, block in enumerate(blocks, start=1):
        shown.append("")
        end = hearing.close if number == len(blocks) else hearing.end_block
        for heard in (*map(hearing.feed, block), end()):
            if heard.retract:
                reasoning += heard.reasoning_in(shown[-1])
                shown[-1] = ""
            shown[-1] += heard.text
            reasoning += heard.reasoning
    return Told("|".join(shown), reasoning, hearing.is_silent)


def cut(text: str, cuts: Sequence[int]) -> list[str]:
    return [text[a:b] for a, b in itertools.pairwise([0, *sorted(cuts), len(text)])]


def in_every_cut(text: str, *, silent: tuple[str, ...] = ("NO_REPLY",)) -> Told:
    """One block, told the same whole, character by character and cut in two anywhere."""
    whole = told([text], silent=silent)
    assert told(list(text), silent=silent) == whole
    for place in range(len(text) + 1):
        assert told(cut(text, [place]), silent=silent) == whole
    return whole


def shown_on_the_way(text: str) -> set[str]:
    """All that stood before people's eyes while the text came character by character."""
    hearing = SpeechFilter()
    seen = [""]
    for heard in (*map(hearing.feed, text), hearing.close()):
        seen.append(("" if heard.retract else seen[-1]) + heard.text)
    return set(seen)


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("<think>plan</think>Hello", "Hello", "plan"),
        ("<think>plan</think>\n\n Hello\n", "Hello\n", "plan"),
        ("<thinking>plan</thinking>Hello", "Hello", "plan"),
        ("<THINK>plan</Think>Hello", "Hello", "plan"),
        (" \n\t  <think>plan</think>Hello", " \n\t  Hello", "plan"),
        ("Hello\n<think>plan</think>you", "Hello\nyou", "plan"),
        ("Hello\n   <think>plan</think>\nyou", "Hello\n\nyou", "plan"),
        ("Hello\r\n<think>plan</think>you", "Hello\r\nyou", "plan"),
        ("<think>a</think><think>b</think>Hello", "Hello", "ab"),
        ("<think>a</think>\n<thinking>b</thinking>\nHello", "Hello", "ab"),
        ("<think>a </thinking> b</think>Hello", "Hello", "a </thinking> b"),
        ("<think>a\n```\nb</think>Hello", "Hello", "a\n```\nb"),
        ("<think>a `</think>Hello", "Hello", "a `"),
        ("<think>a </thi</think>Hello", "Hello", "a </thi"),
        ("<think>a <</think>Hello", "Hello", "a <"),
        ("<think></think>Hello", "Hello", ""),
        ("Hi\nNO_REPLY\n<think>plan</think>\nHello", "Hi\nNO_REPLY\n\nHello", "plan"),
    ],
)
def test_thinking_in_tags_is_reasoning_and_never_in_the_answer(text: str, answer: str, reasoning: str) -> None:
    assert in_every_cut(text) == Told(answer, reasoning)
    assert not any("think" in seen.lower() or "plan" in seen for seen in shown_on_the_way(text))


@pytest.mark.parametrize(
    "text",
    [
        "Write <think>plan</think> and go on",
        "Write `<think>` and `</think>`.",
        "`a</think>` and `</think>` are code",
        "and so is ``b`c</think>``",
        "    <think> in the middle",
        "    <think>\n    </think> x",
        "> <think>a</think>",
        "```\n<think>a</think>\n```\nb",
        "```py\n<think>\n</think>\n",
        "~~~~\n<think>\n~~~\n</think>\n~~~~\n",
        "   ````\n<think>\n```\n</think>\n    ````\n</think>\n   ````` \t\n",
        "```\n<think>\n``` not the end\n</think>\n```\n",
        "```\na</think>\nb </think>\n```\n",
        "`a </think>\nb`",
        "~~~ a `info` b\n<think>\n~~~\n",
        "<thin>a</thin>",
        "<thinks>a</thinks>",
        "< think>a</ think>",
        "<thin\N{KELVIN SIGN}>a",
        "a < b > c </thin",
        "The tag </think> ends it, and so does '</think>'.",
        "It is </think>, I think.",
    ],
)
def test_a_tag_in_code_or_in_the_middle_of_a_line_is_text(text: str) -> None:
    assert in_every_cut(f"Well:\n{text}") == Told(f"Well:\n{text}")


@pytest.mark.parametrize(
    "code",
    [
        "```\ncode\n```\n",
        "~~~\n```\n~~~~\n",
        "``` a`b\n",
        "x ```\n",
        "    ```\n",
        "``\n",
        "~~\n",
        "```\n```\n",
        "NO_REPLY ```\n",
    ],
)
def test_behind_what_opens_no_code_or_has_closed_it_a_tag_counts(code: str) -> None:
    assert in_every_cut(f"x\n{code}<think>plan</think>Hello") == Told(f"x\n{code}Hello", "plan")


def test_a_code_span_ends_with_its_line_so_that_a_lone_backtick_hides_no_tag() -> None:
    assert in_every_cut("It`s\n<think>plan</think>so") == Told("It`s\nso", "plan")


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("plan\n</think>\n\nHello", "Hello", "plan\n"),
        ("plan</think>Hello", "Hello", "plan"),
        ("plan.</think> Hello", "Hello", "plan."),
        ("plan. </think>\nHello", "Hello", "plan. "),
        ("plan </thinking>  \r\nHello", "Hello", "plan "),
        ("a\n```\nb\n```\nc\n\n  </THINK>Hello", "Hello", "a\n```\nb\n```\nc\n\n  "),
        ("Say `</think>` at last.</think>Hello", "Hello", "Say `</think>` at last."),
        ("Say `a</think>` at last.</think>Hello", "Say `a</think>` at last.</think>Hello", ""),
        ("Say `</think>` at last.\nSo.</think>Hello", "Hello", "Say `</think>` at last.\nSo."),
        ("Say </think> at last.</think>Hello", "Hello", "Say </think> at last."),
        ("</think>Hello", "Hello", ""),
        (" \n</think>\n</think>\nHello", "Hello", " \n"),
        ("NO\n</think>Hello", "Hello", "NO\n"),
        ("NO_REPLY\n</think>Hello", "Hello", "NO_REPLY\n"),
        ("plan</think>\n<think>more</think>\nHello", "Hello", "planmore"),
        ("plan\n</think>Hello</think>you", "Hello</think>you", "plan\n"),
        ("plan</think>\nHello\n</think>\nyou", "Hello\n\nyou", "plan"),
        ("<think>plan</think>Hello\n</think>you", "Hello\nyou", "plan"),
        ("Write <think> so\n</think>\nHello", "Write <think> so\n\nHello", ""),
        ("plan</think>", "", "plan"),
        ("plan </think>", "", "plan "),
        ("plan\n</think>", "", "plan\n"),
    ],
)
def test_a_closing_tag_without_an_opener_makes_reasoning_of_all_before_it(
    text: str, answer: str, reasoning: str
) -> None:
    assert in_every_cut(text) == Told(answer, reasoning)


def test_text_that_was_shown_is_taken_back_and_told_as_reasoning() -> None:
    hearing = SpeechFilter()
    assert hearing.feed("I should greet") == FilteredText("I should greet")
    assert hearing.feed(".\n</th") == FilteredText(".\n")
    taken_back = hearing.feed("ink>\nHello")
    assert taken_back == FilteredText("Hello", retract=True)
    assert taken_back.reasoning_in("I should greet.\n") == "I should greet.\n"
    assert hearing.feed(" you") == FilteredText(" you")
    assert hearing.close() == FilteredText()


def test_empty_pieces_change_nothing() -> None:
    empty = [""] * 20
    assert told([*empty, "pl", *empty, "an</thi", *empty, "nk>", *empty, "NO", *empty, "!"]) == Told("NO!", "plan")


def test_nothing_is_taken_back_where_nothing_was_given_out() -> None:
    assert SpeechFilter().feed("plan</think>Hello") == FilteredText("Hello", "plan")


def test_only_the_block_of_a_closing_tag_is_taken_back() -> None:
    assert told(["Let me look."], ["pl", "an\n</think>\nFound."]) == Told("Let me look.|Found.", "plan\n")


def test_in_a_later_block_a_closing_tag_counts_at_the_start_of_a_line_only() -> None:
    assert told(["Let me look."], ["It says</think>so"]) == Told("Let me look.|It says</think>so")
    assert told(["Let me look."], ["It says </think>\nso"]) == Told("Let me look.|It says </think>\nso")
    assert told(["<think>plan</think>"], ["more</think>Found."]) == Told("|Found.", "planmore")


def test_a_thought_ends_with_its_block_and_may_be_closed_in_the_next() -> None:
    assert told(["Hi\n<think>plan"], ["Found."]) == Told("Hi\n|Found.", "plan")
    assert told(["Hi\n<think>pl"], ["an</think>Found."]) == Told("Hi\n|Found.", "plan")


def test_code_may_begin_behind_a_thought() -> None:
    assert in_every_cut("<think>a</think>```\n<think>") == Told("```\n<think>", "a")


def test_code_ends_with_its_block() -> None:
    assert told(["```\na"], ["<think>plan</think>Found."]) == Told("```\na|Found.", "plan")


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("<think>Hello", "Hello", "Hello"),
        ("\n<think>\nHello </th", "Hello </th", "\nHello </th"),
        ("<think><think>\n<thinking>Hello", "Hello", "<think>\n<thinking>Hello"),
        ("<think>plan\n</thinking>\nHello", "Hello", "plan\n</thinking>\nHello"),
        ("<think>plan </thinking>", "", "plan </thinking>"),
        ("<think>Hello\nNO_REPLY", "Hello\n", "Hello\nNO_REPLY"),
        ("Hello\n<think>plan", "Hello\n", "plan"),
        ("<think>a</think>\n<think>Hello", "Hello", "aHello"),
        ("<think>a</think>Hi\n<think>plan", "Hi\n", "aplan"),
        ("<think>a</think>", "", "a"),
        ("<think>", "", ""),
        ("<think> \n", "", " \n"),
    ],
)
def test_what_was_never_closed_is_the_answer_where_there_is_no_other(text: str, answer: str, reasoning: str) -> None:
    told_text, told_reasoning, silent = in_every_cut(text)
    assert (told_text.lstrip(), told_reasoning, silent) == (answer, reasoning, False)


def test_thoughts_of_several_blocks_that_were_never_closed_are_one_answer() -> None:
    assert told(["<think>Hello."], ["<think>Done."]) == Told("|Hello.\n\nDone.", "Hello.Done.")
    assert told(["<think>Hello."], ["Done."]) == Told("|Done.", "Hello.")
    assert told(["<think>Hello."], ["NO_REPLY"]) == Told("|", "Hello.", silent=True)


def test_any_number_of_openers_is_no_trouble() -> None:
    many = "<think></thinking>" * 3000
    assert told([many + "Hello"]) == Told("", (many + "Hello").removeprefix("<think>"))


SILENT = [
    *("NO_REPLY", "**NO_REPLY**", "NO_REPLY.", "_NO_REPLY_", '"NO_REPLY!"', "(*NO_REPLY.*)", "«NO_REPLY»"),
    "***__NO_REPLY",
]
ORDINARY = [
    *("N", "NO", "NO_", "NO_REP", "No.", "NO.", "NORTH", "No reply", "no_reply", "NO, that is wrong.", "NO_REPLAY"),
    *("NO_REPLYx", "xNO_REPLY", "NO_REPLY_NOW", "NO_REPLY2", "NO_REPLY: because", "NO_REPLY, sorry", "NO_REPLY?"),
    *("NO_REPLY NO_REPLY", "NO_REPLY .", "NO_REPLY\nis what I say", "- NO_REPLY", "NO_REPLY......", "******NO_REPLY"),
    *("`NO_REPLY`", "**`NO_REPLY`**", "`NO_REPLY", "NO_REPLY`", "```\nNO_REPLY\n```", "~~~\nNO_REPLY"),
    *("I say NO_REPLY", "NO_REPLY<think>a", "*", "**", "**bold**", "'", "(", "<", "</", "<thi", "</thinking", "N\n"),
]


@pytest.mark.parametrize("before", ["", " ", "\n\n", "\t", "\r\n    "])
@pytest.mark.parametrize("after", ["", " ", "\n", "\r\n", " \t \n\n  "])
@pytest.mark.parametrize("token", SILENT)
def test_an_answer_of_a_token_alone_leaves_no_trace(before: str, token: str, after: str) -> None:
    text = before + token + after
    assert in_every_cut(text) == Told("", silent=True)
    assert shown_on_the_way(text) == {""}


@pytest.mark.parametrize("text", ORDINARY)
@pytest.mark.parametrize("before", ["", "\n ", "Well.\n", "Well.\n\n  "])
@pytest.mark.parametrize("after", ["", "\n", " \n\n"])
def test_an_answer_that_only_begins_like_a_token_is_told_whole(before: str, text: str, after: str) -> None:
    assert in_every_cut(before + text + after) == Told(before + text + after)


@pytest.mark.parametrize("after", ["", " ", "\n", "\r\n \n", "\nNO_REPLY", "\n\n *NO_REPLY* \n"])
@pytest.mark.parametrize("token", SILENT)
def test_a_token_in_the_last_line_is_left_out_and_never_shown(token: str, after: str) -> None:
    for before in ("Done.\n", "Done.\n\n   ", "NO.\n", "NO_REPLY\nDone.\n", "```\na\n```\n", "Done.\n<think>a</think>"):
        answer = before.removesuffix("   ").removesuffix("<think>a</think>")
        assert in_every_cut(before + token + after).text == answer
        assert all(seen == answer[: len(seen)] for seen in shown_on_the_way(before + token + after))


def test_a_token_that_stands_as_indented_code_is_text() -> None:
    assert in_every_cut("Done.\n\n    NO_REPLY") == Told("Done.\n\n    NO_REPLY")


def test_text_is_released_the_moment_it_can_be_no_token() -> None:
    hearing = SpeechFilter()
    given = [hearing.feed(character).text for character in "NO, that\nNO_REPLY\nis"]
    assert given == ["", "", "NO,", *" that\n", *[""] * 9, "NO_REPLY\ni", "s"]


def test_a_token_as_a_block_is_left_out_whatever_the_others_say() -> None:
    assert told(["NO_REPLY"], ["\n NO_REPLY\n"]) == Told("|", silent=True)
    assert told(["NO_REPLY"], ["Done."]) == Told("|Done.")
    assert told(["Look."], ["NO_REPLY"]) == Told("Look.|")
    assert told(["Look.\nNO_REPLY"], ["Done."]) == Told("Look.\n|Done.")
    assert told(["\n\n"], ["NO_REPLY"]) == Told("|", silent=True)
    assert told(["NO_REPLY\n"], ["<think>plan</think>"]) == Told("|", "plan", silent=True)


def test_whitespace_that_begins_a_later_block_is_given_out_at_once() -> None:
    hearing = SpeechFilter()
    hearing.feed("Look.")
    hearing.end_block()
    assert hearing.feed("\n  ").text == "\n  "


def test_the_beginning_of_a_token_is_decided_at_the_end_of_its_block() -> None:
    assert told(["NO_REP"], ["LY"]) == Told("NO_REP|LY")
    assert told(["<thi"], ["nk>"]) == Told("<thi|nk>")


def test_whitespace_that_begins_a_turn_waits_over_blocks_for_what_it_leads_to() -> None:
    assert told([" \n"], [], ["\tDone."]) == Told("|| \n\tDone.")
    assert told([" \n"], []) == Told("| \n")


@pytest.mark.parametrize(
    "text", ["<think>a</think>NO_REPLY", "<think>a</think>\n**NO_REPLY**\n", "a\n</think>NO_REPLY"]
)
def test_a_token_behind_a_thought_is_silent(text: str) -> None:
    answer, reasoning, silent = in_every_cut(text)
    assert (answer, reasoning.strip(), silent) == ("", "a", True)


def test_a_token_in_a_thought_that_was_never_closed_is_silent() -> None:
    assert in_every_cut("<think>NO_REPLY") == Told("", "NO_REPLY", silent=True)


def test_nothing_said_is_not_a_silent_reply() -> None:
    assert told([]) == Told("")
    assert told([" \n"]) == Told(" \n")
    assert told(["<think>a</think>"]) == Told("", "a")


def test_tokens_are_what_they_are_said_to_be() -> None:
    tokens = ("HOLD", "HOLD ON", "[[quiet]]", " ", "<none/>", "`")
    for token in ("HOLD", "HOLD ON", "HOLD  ", "HOLD ON\n", "[[quiet]]", "*[[quiet]]*", "<none/>", "`"):
        assert in_every_cut(token, silent=tokens) == Told("", silent=True)
    for text in ("HOLD O", "HOLD OFF", "NO_REPLY", "[[quiet", "<none", "``"):
        assert in_every_cut(text, silent=tokens) == Told(text)


def test_without_tokens_nothing_is_silent_and_no_mark_waits() -> None:
    assert in_every_cut("NO_REPLY", silent=()) == Told("NO_REPLY")
    assert SpeechFilter(()).feed("**").text == "**"
    assert told([], silent=(" ",)) == Told("")


def test_a_block_that_was_retracted_is_forgotten() -> None:
    hearing = SpeechFilter()
    hearing.feed("\n```\nwrong <think>")
    hearing.reset_block()
    assert hearing.feed("<think>a</think>NO_REPLY") == FilteredText("", "a")
    assert hearing.close() == FilteredText()
    assert hearing.is_silent


@pytest.mark.parametrize("wrong", ["wrong", "NO_REPLY", "<think>wrong", "plan</think>", "wr\n</thi", "\n"])
def test_forgetting_a_block_leaves_nothing_of_it_and_all_before_it(wrong: str) -> None:
    for before, silent in (("Look.", False), ("NO_REPLY", True), ("", True)):
        hearing = SpeechFilter()
        hearing.feed(before)
        hearing.end_block()
        hearing.feed(wrong)
        hearing.reset_block()
        assert hearing.feed("\n</think>NO_REPLY") == FilteredText("", "\n")
        assert hearing.close() == FilteredText()
        assert hearing.is_silent is silent


def test_a_turn_that_was_retracted_is_forgotten() -> None:
    hearing = SpeechFilter()
    for wrong in ("Look.", "<think>wrong", "NO_REPLY", "it</think>so"):
        hearing.feed(wrong)
        hearing.end_block()
    hearing.reset_turn()
    assert hearing.close() == FilteredText()
    assert not hearing.is_silent
    hearing.reset_turn()
    assert hearing.feed("plan</think>Hello") == FilteredText("Hello", "plan")


FRAGMENTS = [
    *("<think>", "</think>", "<thinking>", "</thinking>", "<Think>", "<thi", "</", "nk>", "<", ">"),
    *("NO_REPLY", "NO", "_REPLY", "N", "*", "_", ".", "'", "`", "``", "```", "~~~", "```\n", "\n```\n"),
    *("\n", "\n\n", "\r\n", " ", "   ", "\t", "\u3000", "x", "word", "Ж", "👍"),
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
# Texts without a whole tag or token, which are told as they are.
plain = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(
    lambda fragments: re.sub("think|NO_REPLY", "x", "".join(fragments), flags=re.IGNORECASE)
)


@settings(max_examples=1500)
@given(st.lists(texts, min_size=1, max_size=3), st.data())
def test_pieces_of_any_size_tell_the_same(blocks: list[str], data: st.DataObject) -> None:
    whole = told(*([block] for block in blocks))
    assert told(*map(list, blocks)) == whole
    pieces = [cut(block, data.draw(st.lists(st.integers(0, len(block)), max_size=6))) for block in blocks]
    assert told(*pieces) == whole


TAG_BEGINNINGS = {tag[:length] for tag in ("<thinking>", "</thinking>") for length in range(len(tag))}


@settings(max_examples=600)
@given(plain)
@example("   ")
@example("\n<thi")
def test_text_without_tag_and_token_is_told_byte_for_byte_and_at_once(text: str) -> None:
    assert told(list(text)) == Told(text)
    hearing = SpeechFilter()
    given = ""
    for length, character in enumerate(text, start=1):
        given += hearing.feed(character).text
        waiting = text[:length].removeprefix(given)
        assert given + waiting == text[:length]
        begun = waiting.lstrip().lstrip("*_'")
        assert "NO_REPLY".startswith(begun) or begun.lower() in TAG_BEGINNINGS
        assert not given.strip() or "\n" not in waiting
    assert given + hearing.feed("x").text == text + "x"


TOKEN_LINES = ["NO_REPLY", "*NO_REPLY*", " NO_REPLY. "]
TEXT_LINES = ["text", "NO_REPLYx", "`NO_REPLY`", "NO"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*TOKEN_LINES, *TEXT_LINES, "", "  "]), min_size=1, max_size=8))
def test_tokens_alone_in_the_last_lines_are_left_out(lines: list[str]) -> None:
    kept = len(lines)
    while kept and lines[kept - 1] not in TEXT_LINES:
        kept -= 1
    first = next((number for number in range(kept, len(lines)) if lines[number] in TOKEN_LINES), None)
    if first is None:
        assert told(["\n".join(lines)]) == Told("\n".join(lines))
    elif kept == 0:
        assert told(["\n".join(lines)]) == Told("", silent=True)
    else:
        assert told(["\n".join(lines)]) == Told("".join(f"{line}\n" for line in lines[:first]))


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["said\n", "a > b `c`\n", "```\n<think>\n```\n"]), st.sampled_from(["", "a", "b\n<", "`"])
        ),
        max_size=6,
    )
)
def test_what_is_said_and_what_is_thought_are_told_apart(turn: list[tuple[str, str]]) -> None:
    text = "".join(f"{said}<think>{thought}</think>" for said, thought in turn)
    answer, reasoning = ("".join(part) for part in zip(*turn, strict=True)) if turn else ("", "")
    assert told([text]) == told(list(text)) == Told(answer, reasoning)


HARD = [
    *("The answer has many words, and then some more.\n", "word ", "a > b ", " \n", "```\n", "NO_REPLY\n"),
    *("`a</think>` ", "a </think> b ", "<think>a</think>\n", "</think>\n"),
]


@pytest.mark.parametrize("repeated", HARD)
@pytest.mark.parametrize("beginning", ["", "x\n", "<think>"])
def test_long_texts_in_small_pieces_tell_the_same(repeated: str, beginning: str) -> None:
    text = beginning + repeated * (100_000 // len(repeated))
    assert told([text[at : at + 4] for at in range(0, len(text), 4)]) == told([text])
