"""Text that is cut and carried: what people reported of it elsewhere, shown not to happen on any chat platform."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import regex
from chat_room import CHATS, PRESENTATIONS, THREAD, Script, carried, limits_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_bodies import covered, strong_in

from tailrace.events import BlockFinal, ReasoningDelta, TextDelta, ToolFinished, ToolStarted
from tailrace.markdown import join, render, split

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.markdown import Part
    from tailrace.projector import Presentation

chats = pytest.mark.parametrize("channel", CHATS)
presented = pytest.mark.parametrize("presentation", PRESENTATIONS)

SENTENCES = [f"Sentence {number} of the answer says a thing of its own." for number in range(60)]
PARAGRAPHS = "\n\n".join(" ".join(SENTENCES[at : at + 3]) for at in range(0, 60, 3))


def parts_of(source: str, limits: Capabilities) -> list[Part]:
    return split(source, limits.limit, unit=limits.unit, dialect=limits.dialect)


@chats
@presented
def test_scar_05_paragraphs_stay_apart_within_and_between_messages(channel: str, presentation: Presentation) -> None:
    room = carried([PARAGRAPHS], limits_of(channel, limit=700), length=30, presentation=presentation)
    blocks = [block for text in room.texts for block in text.split("\n\n")]
    assert blocks == PARAGRAPHS.split("\n\n")


@chats
@presented
@pytest.mark.parametrize(
    "text",
    [
        "水車は川の流れで回る。石臼が穀物を挽き、粉になる。磨坊在河边，水流不停。방앗간의 물레방아가 돌아간다.",
        "Look into /var/lib/backup/index.sqlite3-wal and https://a.example/path/to/thing?x=1111&y=22 please.",
        "Hmmmm... 1111 2222, aaaa bbbb!!!! ———— 哈哈哈哈哈 ha ha ha ha, no no no, that that is is.",
    ],
)
def test_scar_06_deltas_are_put_together_without_a_space_and_without_a_loss(
    channel: str, presentation: Presentation, text: str
) -> None:
    room = carried([text], limits_of(channel), length=1, presentation=presentation)
    assert [message.body for message in room.messages] == [render(text, channel)]


TABLE = "| step | took | result |\n|---|--:|---|\n" + "".join(
    f"| step number {number} | {number} s | done and checked {number} |\n" for number in range(60)
)


@chats
def test_scar_07_no_row_of_a_table_is_cut_and_none_stands_without_its_header(channel: str) -> None:
    limits = limits_of(channel, limit=900)
    live = carried([f"The steps:\n\n{TABLE}\nThat is all."], limits, length=40)
    for bodies in ([part.body for part in parts_of(TABLE, limits)], [message.body for message in live.messages]):
        assert len(bodies) >= 3
        seen = [body.html or body.text for body in bodies]
        rows = [number for text in seen for number in map(int, re.findall(r"step number (\d+)", text))]
        assert rows == list(range(60))
        for text in (text for text in seen if "step number" in text):
            first, last = (re.findall(r"step number (\d+)", text)[nth] for nth in (0, -1))
            assert 0 <= text.find("result") < text.find(f"done and checked {first}")
            assert text.find(f"done and checked {last}") > text.rfind(f"step number {last}")


LINK = "[the report number {0}](https://reports.example/2026/11/{0}/index.html?sort=date&page={0})"
LINKS = " and ".join(LINK.format(number) for number in range(40))
ADDRESSES = " and ".join(f"https://reports.example/2026/11/{number}/index.html" for number in range(40))


@chats
@pytest.mark.parametrize("source", [LINKS, ADDRESSES])
def test_scar_07_no_link_is_cut_and_no_message_begins_within_an_address(channel: str, source: str) -> None:
    room = carried([source], limits_of(channel, limit=300), length=10)
    assert len(room.messages) > 3
    found: list[str] = []
    for message in room.messages:
        body = message.body
        targets = " ".join(entity.url or "" for entity in body.entities)
        found += re.findall(r"reports\.example/2026/11/(\d+)/index\.html", f"{targets} {body.html or body.text}")
        assert not re.match(r"[a-z.]*example|/|\d+/|2026|index|page=", body.text)
    assert found == [str(number) for number in range(40)]


@chats
def test_scar_08_bold_across_a_border_is_bold_on_both_sides_and_never_refused(channel: str) -> None:
    words = [f"word{number}" for number in range(300)]
    source = f"Start **{' '.join(words)}** and end."
    limits = limits_of(channel, limit=600)
    live = carried([source], limits, length=20)
    for bodies in ([part.body for part in parts_of(source, limits)], [message.body for message in live.messages]):
        assert len(bodies) > 3
        assert " ".join(strong_in(channel, body) for body in bodies).split() == words


def test_scar_08_every_body_that_telegram_ever_gets_has_entities_it_takes() -> None:
    source = "Start **bold *both* ~~struck~~ `code` [link](https://a.example/b)** 👩🏿‍🚀 > *x* **y\n\nz** `a\n" * 9
    limits = limits_of("telegram", limit=300)
    room = carried([source], limits, length=1)
    versions = [version for message in room.history for version in room.platform.versions(message.message_id)]
    assert len(versions) > 8
    for version in versions:
        body = version.message.body
        spans = [(entity.offset, entity.offset + entity.length, entity.type) for entity in body.entities]
        assert all(covered(body, entity).strip() for entity in body.entities)
        for start, end, kind in spans:
            crossing = [other for other in spans if start < other[0] < end < other[1]]
            assert crossing == []
            within = [other for other in spans if kind == "code" and other[0] <= start and end <= other[1]]
            assert [other for other in within if other[2] in ("bold", "italic", "strikethrough")] == []


CLUSTERS = "👨‍👩‍👧‍👦👍🏽🇩🇪🇫🇷🏳️‍🌈👩🏿‍🚀क्षिe\u0301\u0302नमस्ते"


@chats
def test_scar_09_no_cluster_is_cut_wherever_the_border_falls(channel: str) -> None:
    whole = regex.findall(r"\X", CLUSTERS)
    for shift in range(24):
        source = "a" * shift + CLUSTERS * 6
        for part in split(source, 40, unit="utf8_bytes" if channel == "matrix" else "code_points", dialect=channel):
            letters = regex.findall(r"\X", part.body.text.replace("\u200b", "").lstrip("a"))
            assert set(letters) <= set(whole)


@chats
def test_scar_09_no_cluster_of_a_live_answer_is_cut_between_two_messages(channel: str) -> None:
    source = " ".join([CLUSTERS] * 40)
    room = carried([source], limits_of(channel, limit=300), length=1)
    assert len(room.messages) > 3
    shown = "".join(" ".join(room.texts).split())
    assert regex.findall(r"\X", shown) == regex.findall(r"\X", CLUSTERS) * 40


@chats
@pytest.mark.parametrize(
    "text",
    ["#", "---", "```\n```", "[](x)", "<!-- x -->", "**", "> ", "- ", "\\", "![](a)", "&nbsp;", "|a|\n|-|", "``` py"],
)
def test_scar_10_text_that_says_anything_is_a_message(channel: str, text: str) -> None:
    room = carried([text], limits_of(channel))
    assert len(room.texts) == 1
    assert room.texts[0].strip()


@chats
@settings(max_examples=12)
@given(cuts=st.lists(st.integers(1, 400), min_size=1, max_size=12))
def test_scar_11_messages_are_cut_alike_however_the_tokens_came(channel: str, cuts: list[int]) -> None:
    limits = limits_of(channel, limit=700)
    source = f"# Findings\n\n{PARAGRAPHS[:1500]}\n\n{TABLE[:900]}\n\n```py\nx = 1\n\nprint(x)\n```\n\n{LINKS[:700]}"
    script: list[str | float | TextDelta] = []
    at = 0
    for length in cuts:
        script += [TextDelta(text=source[at : at + length]), 0.3]
        at += length
    room = carried([*script, TextDelta(text=source[at:])], limits)
    if limits.lines is None:
        assert [message.body for message in room.messages] == [part.body for part in parts_of(source, limits)]
    else:
        whole = carried([TextDelta(text=source)], limits)
        assert [message.body for message in room.messages] == [message.body for message in whole.messages]


@chats
@pytest.mark.parametrize("length", [1, 7, 200])
def test_scar_11_no_block_ends_within_a_sentence(channel: str, length: int) -> None:
    room = carried([PARAGRAPHS], limits_of(channel), length=length, presentation="blocks", block_characters=20)
    assert room.texts == PARAGRAPHS.split("\n\n")


@chats
@presented
def test_scar_12_a_long_answer_is_split_and_never_truncated(channel: str, presentation: Presentation) -> None:
    answer = "\n\n".join(f"{number}. {PARAGRAPHS}" for number in range(11))
    room = carried([answer], limits_of(channel), target=THREAD, length=400, presentation=presentation)
    assert " ".join(room.texts).split() == answer.split()
    assert len(answer) > 30_000


@chats
@presented
@pytest.mark.parametrize("sealed", [False, True])
def test_scar_12_text_before_and_after_a_tool_is_not_glued_together(
    channel: str, presentation: Presentation, sealed: bool
) -> None:
    tool: Script = [
        ToolStarted(id="1", name="read", arguments={"path": "notes.md"}),
        2.0,
        ToolFinished(id="1", result="x"),
    ]
    before: Script = ["Let me look.", *([BlockFinal(text="Let me look.")] if sealed else [])]
    room = carried([*before, *tool, "Found it."], limits_of(channel), target=THREAD, presentation=presentation)
    shown = "\n\n".join(text for text in room.texts if "🔧" not in text)
    assert shown == "Let me look.\n\nFound it."
    assert not any("look.Found" in seen for seen in room.ever_seen())


@chats
@presented
@pytest.mark.parametrize("length", [1, 4, 1000])
@pytest.mark.parametrize("thought", ["<think>the secret plan</think>", "<thinking>\nthe secret plan\n</thinking>\n\n"])
def test_scar_13_what_is_only_thought_is_never_seen(
    channel: str, presentation: Presentation, length: int, thought: str
) -> None:
    script: Script = [
        f"{thought}Here is the answer.",
        2.0,
        ReasoningDelta(text="another secret plan"),
        2.0,
        "And more.",
    ]
    room = carried(script, limits_of(channel), target=THREAD, length=length, presentation=presentation)
    assert "\n\n".join(room.texts) == "Here is the answer.\n\nAnd more."
    assert not any("secret" in seen or "think" in seen for seen in room.ever_seen())


CALLS = (
    "Hello @everyone and @here, <!channel> <!here|x> <@U024BE7LH> <@123> <@&9> @room, <#C1|x>: &lt;!channel&gt; done."
)


def calls_somebody(channel: str, seen: str) -> bool:
    """Whether the platform would call people by this text."""
    match channel:
        case "discord":
            return re.search(r"@everyone|@here|<@[!&]?\d+>", seen) is not None
        case "slack":
            return re.search(r"<[!@#]", seen) is not None
        case "matrix":
            return "@room" in seen
        case _:
            return False  # names alone call nobody in Telegram: entities do, and a body has none for that


@chats
@presented
@pytest.mark.parametrize("length", [1, 3, 1000])
def test_scar_13_nobody_is_called_by_what_an_agent_says(channel: str, presentation: Presentation, length: int) -> None:
    script: Script = [CALLS, 3.0, "\n\n", CALLS]
    room = carried(script, limits_of(channel), target=THREAD, length=length, presentation=presentation)
    assert [seen for seen in room.ever_seen() if calls_somebody(channel, seen)] == []
    entities = {entity.type for message in room.messages for entity in message.body.entities}
    assert not entities & {"mention", "text_mention"}
    assert all("everyone" in text and "done." in text for text in room.texts)


@chats
@presented
def test_scar_13_nobody_is_called_by_the_name_or_the_arguments_of_a_tool(
    channel: str, presentation: Presentation
) -> None:
    script: Script = [
        ToolStarted(id="1", name="@everyone", arguments={"command": CALLS}),
        7.0,
        "Here is what came of it.",
    ]
    room = carried(script, limits_of(channel), target=THREAD, presentation=presentation)
    assert [seen for seen in room.ever_seen() if calls_somebody(channel, seen)] == []


def test_every_text_here_is_rebuilt_from_its_parts() -> None:
    for source in (PARAGRAPHS, TABLE, LINKS, ADDRESSES, CLUSTERS):
        assert join(split(source, 300)) == source
