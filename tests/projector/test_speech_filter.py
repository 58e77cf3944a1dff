"""The speech filter: reasoning in tags and silent replies, for every division of the text into pieces."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from example_counts import examples
from stable_strategies import integers
from tailrace.projector.speech_filter import FilteredText, SpeechFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Result(NamedTuple):
    """What a turn shows at its end: its blocks with `|` between them, its reasoning, and whether it was silent."""

    text: str
    reasoning: str = ""
    silent: bool = False


SILENT = Result("", silent=True)


def filtered(*blocks: Iterable[str], silent: tuple[str, ...] = ("NO_REPLY",)) -> Result:
    """The blocks of a turn, each in its pieces, filtered and put together."""
    speech = SpeechFilter(silent)
    shown: list[str] = []
    reasoning = ""
    for number, block in enumerate(blocks, start=1):
        shown.append("")
        end = speech.close if number == len(blocks) else speech.end_block
        for result in (*map(speech.feed, block), end()):
            if result.retract:
                reasoning += result.reasoning_in(shown[-1])
                shown[-1] = ""
            shown[-1] += result.text
            reasoning += result.reasoning
    return Result("|".join(shown), reasoning, speech.is_silent)


def cut(text: str, cuts: Sequence[int]) -> list[str]:
    return [text[a:b] for a, b in itertools.pairwise([0, *sorted(cuts), len(text)])]


def in_every_cut(text: str, *, silent: tuple[str, ...] = ("NO_REPLY",)) -> Result:
    """One block: the same result whole, character by character, and cut in two anywhere."""
    whole = filtered([text], silent=silent)
    assert filtered(list(text), silent=silent) == whole
    for at in range(len(text) + 1):
        assert filtered(cut(text, [at]), silent=silent) == whole
    return whole


def ever_shown(text: str) -> set[str]:
    """Every text that was shown while the block came character by character."""
    speech = SpeechFilter()
    shown = [""]
    for result in (*map(speech.feed, text), speech.close()):
        shown.append(("" if result.retract else shown[-1]) + result.text)
    return set(shown)


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("<think>plan</think>Hello", "Hello", "plan"),
        ("<thinking>plan</thinking>\n\n Hello\n", "Hello\n", "plan"),
        ("<THINK>plan</Think>Hello", "Hello", "plan"),
        (" \n\t  <think>plan</think>Hello", " \n\t  Hello", "plan"),
        ("Hello\n   <think>plan</think>\nyou", "Hello\n\nyou", "plan"),
        ("Hello\r\n<think>plan</think>you", "Hello\r\nyou", "plan"),
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
def test_scar_13_text_in_tags_is_reasoning_and_never_shown(text: str, answer: str, reasoning: str) -> None:
    assert in_every_cut(text) == Result(answer, reasoning)
    assert not any("think" in shown.lower() or "plan" in shown for shown in ever_shown(text))


@pytest.mark.parametrize(
    "text",
    [
        "Write <think>plan</think> and go on",
        "Write `<think>` and `</think>`.",
        "`a</think>` and `</think>` are code, and so is ``b`c</think>``",
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
        "<thin>a</thin> < think>a</ think>",
        "<thinks>a</thinks>",
        "<thin\N{KELVIN SIGN}>a",
        "a < b > c </thin",
        "The tag </think> ends it, and so does '</think>'.",
        "It is </think>, I think.",
    ],
)
def test_tag_in_code_or_within_a_line_is_text(text: str) -> None:
    assert in_every_cut(f"Well:\n{text}") == Result(f"Well:\n{text}")


NO_CODE = [
    "```\ncode\n```\n",
    "~~~\n```\n~~~~\n",
    "``` a`b\n",
    "x ```\n",
    "    ```\n",
    "~~\n",
    "NO_REPLY ```\n",
    "It`s\n",
]


@pytest.mark.parametrize("before", NO_CODE)
def test_tag_counts_behind_code_that_is_closed_or_was_never_open(before: str) -> None:
    assert in_every_cut(f"x\n{before}<think>plan</think>Hello") == Result(f"x\n{before}Hello", "plan")


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("plan\n</think>\n\nHello", "Hello", "plan\n"),
        ("plan</think>Hello", "Hello", "plan"),
        ("plan.</think> Hello", "Hello", "plan."),
        ("plan </thinking>  \r\nHello", "Hello", "plan "),
        ("a\n```\nb\n```\nc\n\n  </THINK>Hello", "Hello", "a\n```\nb\n```\nc\n\n  "),
        ("Say `</think>` at last.</think>Hello", "Hello", "Say `</think>` at last."),
        ("Say `a</think>` at last.</think>Hello", "Say `a</think>` at last.</think>Hello", ""),
        ("Say `</think>` at last.\nSo.</think>Hello", "Hello", "Say `</think>` at last.\nSo."),
        ("Say </think> at last.</think>Hello", "Hello", "Say </think> at last."),
        (" \n</think>\n</think>\nHello", "Hello", " \n"),
        ("NO_REPLY\n</think>Hello", "Hello", "NO_REPLY\n"),
        ("plan</think>\n<think>more</think>\nHello", "Hello", "planmore"),
        ("plan\n</think>Hello</think>you", "Hello</think>you", "plan\n"),
        ("plan</think>\nHello\n</think>\nyou", "Hello\n\nyou", "plan"),
        ("<think>plan</think>Hello\n</think>you", "Hello\nyou", "plan"),
        ("Write <think> so\n</think>\nHello", "Write <think> so\n\nHello", ""),
        ("plan</think>", "", "plan"),
        ("plan\n</think>", "", "plan\n"),
    ],
)
def test_text_before_a_closing_tag_alone_is_reasoning(text: str, answer: str, reasoning: str) -> None:
    assert in_every_cut(text) == Result(answer, reasoning)


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
        ("<think> \n", "", " \n"),
    ],
)
def test_reasoning_that_was_never_closed_can_be_the_answer(text: str, answer: str, reasoning: str) -> None:
    result = in_every_cut(text)
    assert (result.text.lstrip(), result.reasoning, result.silent) == (answer, reasoning, False)


MANY_TAGS = "<think></thinking>" * 3000


@pytest.mark.parametrize(
    ("blocks", "result"),
    [
        ((["Let me look."], ["pl", "an\n</think>\nFound."]), Result("Let me look.|Found.", "plan\n")),
        # In a later block a closing tag counts only at the start of a line.
        ((["Let me look."], ["It says</think>so"]), Result("Let me look.|It says</think>so")),
        ((["Let me look."], ["It says </think>\nso"]), Result("Let me look.|It says </think>\nso")),
        ((["<think>plan</think>"], ["more</think>Found."]), Result("|Found.", "planmore")),
        # Reasoning ends with its block; the tag that closes it may be in the next one.
        ((["Hi\n<think>plan"], ["Found."]), Result("Hi\n|Found.", "plan")),
        ((["Hi\n<think>pl"], ["an</think>Found."]), Result("Hi\n|Found.", "plan")),
        ((["```\na"], ["<think>plan</think>Found."]), Result("```\na|Found.", "plan")),
        ((["<think>a</think>```\n<think>"],), Result("```\n<think>", "a")),
        ((["<think>Hello."], ["<think>Done."]), Result("|Hello.\n\nDone.", "Hello.Done.")),
        ((["<think>Hello."], ["Done."]), Result("|Done.", "Hello.")),
        ((["<think>Hello."], ["NO_REPLY"]), Result("|", "Hello.", silent=True)),
        # A block that is a silent word is removed, whatever the others are.
        ((["NO_REPLY"], ["\n NO_REPLY\n"]), Result("|", silent=True)),
        ((["NO_REPLY"], ["Done."]), Result("|Done.")),
        ((["Look.\nNO_REPLY"], ["Done."]), Result("Look.\n|Done.")),
        ((["\n\n"], ["NO_REPLY"]), Result("|", silent=True)),
        ((["NO_REPLY\n"], ["<think>plan</think>"]), Result("|", "plan", silent=True)),
        # At the end of a block it is decided what was held back, except whitespace that begins the turn.
        ((["NO_REP"], ["LY"]), Result("NO_REP|LY")),
        ((["<thi"], ["nk>"]), Result("<thi|nk>")),
        (([" \n"], [], ["\tDone."]), Result("|| \n\tDone.")),
        (([" \n"], []), Result("| \n")),
        (([],), Result("")),
        ((["", "pl", "", "an</thi", "", "nk>", "", "NO", "", "!"],), Result("NO!", "plan")),
        (([MANY_TAGS],), Result("", MANY_TAGS.removeprefix("<think>"))),
    ],
)
def test_blocks_of_a_turn(blocks: tuple[list[str], ...], result: Result) -> None:
    assert filtered(*blocks) == result


def test_shown_text_is_retracted_and_returned_as_reasoning() -> None:
    speech = SpeechFilter()
    assert speech.feed("I should greet") == FilteredText("I should greet")
    assert speech.feed(".\n</th") == FilteredText(".\n")
    result = speech.feed("ink>\nHello")
    assert result == FilteredText("Hello", retract=True)
    assert result.reasoning_in("I should greet.\n") == "I should greet.\n"
    assert speech.feed(" you") == FilteredText(" you")
    assert speech.close() == FilteredText()
    assert SpeechFilter().feed("plan</think>Hello") == FilteredText("Hello", "plan"), "nothing was shown before"


BEFORE = ["", " ", "\n\n", "\t", "\r\n    "]
AFTER = ["", " ", "\n", "\r\n", " \t \n\n  ", "\nNO_REPLY", "\n\n *NO_REPLY* \n"]
DECORATED = [
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


@pytest.mark.parametrize("word", DECORATED)
def test_silent_word_alone_leaves_no_trace(word: str) -> None:
    for before, after in zip(itertools.cycle(BEFORE), AFTER, strict=False):
        assert in_every_cut(before + word + after) == SILENT
        assert ever_shown(before + word + after) == {""}


@pytest.mark.parametrize("text", ORDINARY)
def test_answer_that_only_begins_like_a_silent_word_is_text(text: str) -> None:
    for before, after in (("", "\n"), ("\n ", ""), ("Well.\n", " \n\n"), ("Well.\n\n  ", "")):
        assert in_every_cut(before + text + after) == Result(before + text + after)


@pytest.mark.parametrize("word", DECORATED)
def test_silent_word_in_the_last_line_is_removed_and_never_shown(word: str) -> None:
    befores = ["Done.\n", "Done.\n\n   ", "NO.\n", "NO_REPLY\nDone.\n", "```\na\n```\n", "Done.\n<think>a</think>"]
    for before, after in zip(befores, itertools.cycle(AFTER), strict=False):
        answer = before.removesuffix("   ").removesuffix("<think>a</think>")
        assert in_every_cut(before + word + after).text == answer
        assert all(shown == answer[: len(shown)] for shown in ever_shown(before + word + after))


@pytest.mark.parametrize("text", ["<think>a</think>NO_REPLY", "<think>a</think>\n**NO_REPLY**", "a\n</think>NO_REPLY"])
def test_silent_word_behind_reasoning_is_silent(text: str) -> None:
    result = in_every_cut(text)
    assert (result.text, result.reasoning.strip(), result.silent) == ("", "a", True)
    assert in_every_cut("<think>NO_REPLY") == Result("", "NO_REPLY", silent=True)
    assert in_every_cut("Done.\n\n    NO_REPLY").text.endswith("NO_REPLY"), "indented code is text"


def test_text_comes_out_as_soon_as_it_cannot_be_a_silent_word() -> None:
    speech = SpeechFilter()
    given = [speech.feed(character).text for character in "NO, that\nNO_REPLY\nis"]
    assert given == ["", "", "NO,", *" that\n", *[""] * 9, "NO_REPLY\ni", "s"]
    speech.end_block()
    assert speech.feed("\n  ").text == "\n  ", "whitespace waits only at the start of the turn"


def test_silent_words_are_a_setting() -> None:
    words = ("HOLD", "HOLD ON", "[[quiet]]", " ", "<none/>", "`")
    for text in ("HOLD", "HOLD ON", "HOLD  ", "HOLD ON\n", "[[quiet]]", "*[[quiet]]*", "<none/>", "`"):
        assert in_every_cut(text, silent=words) == SILENT
    for text in ("HOLD O", "HOLD OFF", "NO_REPLY", "[[quiet", "<none", "``"):
        assert in_every_cut(text, silent=words) == Result(text)
    assert in_every_cut("NO_REPLY", silent=()) == Result("NO_REPLY")
    assert SpeechFilter(()).feed("**").text == "**"
    assert filtered([], silent=(" ",)) == Result("")


@pytest.mark.parametrize("wrong", ["wrong", "\n```\nwrong <think>", "NO_REPLY", "plan</think>", "wr\n</thi", "\n"])
def test_reset_block_forgets_the_block_and_nothing_before_it(wrong: str) -> None:
    for before, silent in (("Look.", False), ("NO_REPLY", True), ("", True)):
        speech = SpeechFilter()
        speech.feed(before)
        speech.end_block()
        speech.feed(wrong)
        speech.reset_block()
        assert speech.feed("\n</think>NO_REPLY") == FilteredText("", "\n")
        assert speech.close() == FilteredText()
        assert speech.is_silent is silent


def test_reset_turn_forgets_everything() -> None:
    speech = SpeechFilter()
    for wrong in ("Look.", "<think>wrong", "NO_REPLY", "it</think>so"):
        speech.feed(wrong)
        speech.end_block()
    speech.reset_turn()
    assert speech.close() == FilteredText()
    assert not speech.is_silent
    speech.reset_turn()
    assert speech.feed("plan</think>Hello") == FilteredText("Hello", "plan")


FRAGMENTS = [
    *("<think>", "</think>", "<thinking>", "</thinking>", "<Think>", "<thi", "</", "nk>", "<", ">"),
    *("NO_REPLY", "NO", "_REPLY", "N", "*", "_", ".", "'", "`", "``", "```", "~~~", "```\n", "\n```\n"),
    *("\n", "\n\n", "\r\n", " ", "   ", "\t", "\u3000", "x", "word", "Ж", "👍"),
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
# Texts without a whole tag or silent word come out unchanged.
plain = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(
    lambda fragments: re.sub("think|NO_REPLY", "x", "".join(fragments), flags=re.IGNORECASE)
)


@settings(max_examples=examples(400, search=4000))
@given(st.lists(texts, min_size=1, max_size=3), st.data())
def test_result_does_not_depend_on_the_pieces(blocks: list[str], data: st.DataObject) -> None:
    whole = filtered(*([block] for block in blocks))
    assert filtered(*map(list, blocks)) == whole
    pieces = [cut(block, data.draw(st.lists(integers(0, len(block)), max_size=6))) for block in blocks]
    assert filtered(*pieces) == whole


TAG_BEGINNINGS = {tag[:length] for tag in ("<thinking>", "</thinking>") for length in range(len(tag))}


@settings(max_examples=examples(200, search=2000))
@given(plain)
@example("   ")
@example("\n<thi")
def test_text_without_tags_and_silent_words_comes_out_at_once(text: str) -> None:
    assert filtered(list(text)) == Result(text)
    speech = SpeechFilter()
    given = ""
    for length, character in enumerate(text, start=1):
        given += speech.feed(character).text
        waiting = text[:length].removeprefix(given)
        assert given + waiting == text[:length]
        begun = waiting.lstrip().lstrip("*_'")
        assert "NO_REPLY".startswith(begun) or begun.lower() in TAG_BEGINNINGS
        assert not given.strip() or "\n" not in waiting
    assert given + speech.feed("x").text == text + "x"


SILENT_LINES = ["NO_REPLY", "*NO_REPLY*", " NO_REPLY. "]
TEXT_LINES = ["text", "NO_REPLYx", "`NO_REPLY`", "NO"]


@settings(max_examples=examples(100, search=1000))
@given(st.lists(st.sampled_from([*SILENT_LINES, *TEXT_LINES, "", "  "]), min_size=1, max_size=8))
def test_silent_words_in_the_last_lines_are_removed(lines: list[str]) -> None:
    kept = len(lines)
    while kept and lines[kept - 1] not in TEXT_LINES:
        kept -= 1
    first = next((number for number in range(kept, len(lines)) if lines[number] in SILENT_LINES), None)
    expected = Result("\n".join(lines))
    if first is not None:
        expected = Result("".join(f"{line}\n" for line in lines[:first])) if kept else SILENT
    assert filtered(["\n".join(lines)]) == expected


visible = st.sampled_from(["said\n", "a > b `c`\n", "```\n<think>\n```\n"])


@settings(max_examples=examples(100, search=1000))
@given(st.lists(st.tuples(visible, st.sampled_from(["", "a", "b\n<", "`"])), max_size=6))
def test_answer_and_reasoning_are_separated(turn: list[tuple[str, str]]) -> None:
    text = "".join(f"{said}<think>{thought}</think>" for said, thought in turn)
    answer, reasoning = ("".join(part) for part in zip(*turn, strict=True)) if turn else ("", "")
    assert filtered([text]) == filtered(list(text)) == Result(answer, reasoning)


def test_reasoning_that_a_stop_cuts_is_no_answer() -> None:
    for is_cancelled, answer in ((False, "plan"), (True, "")):
        speech = SpeechFilter(("NO_REPLY",))
        assert speech.feed("<think>plan").text == ""
        assert speech.close(is_cancelled=is_cancelled).text == answer
