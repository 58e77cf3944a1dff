"""Silence where it is wished: silent replies that were seen elsewhere, and answers that went on after a stop.

A stop is shown from the moment that the turn is cancelled: who asks for it, and how the agent is stopped, is not here.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from chat_room import CHATS, HERE, PRESENTATIONS, THREAD, ChatRoom, Script, carried, in_a_room, limits_of, pieces

from tailrace.capabilities import CHANNELS, Capabilities
from tailrace.deliveries import TurnState
from tailrace.events import TextDelta, ToolFinished, ToolOutput, ToolStarted, TurnCancelled
from tailrace.markdown import render
from tailrace.operations import Target
from tailrace.projector import Presentation
from tailrace.testing.faults import Delayed, Fault, NoAnswer, Refuse, Rule, ServerError, TooMany

chats = pytest.mark.parametrize("channel", CHATS)
everywhere = pytest.mark.parametrize("channel", CHANNELS)
presented = pytest.mark.parametrize("presentation", PRESENTATIONS)

TOKEN = "NO_REPLY"
SENTENCES = [f"Sentence {number} of the answer says a thing of its own." for number in range(24)]
ANSWER = "\n\n".join(" ".join(SENTENCES[at : at + 3]) for at in range(0, 24, 3))


@everywhere
@presented
def test_scar_34_a_silent_token_leaves_no_trace_wherever_it_is_cut(channel: str, presentation: Presentation) -> None:
    for at in range(len(TOKEN) + 1):
        # Each pause is longer than the one after which a message is begun, however little there is to read.
        script: Script = [0.5, TextDelta(text=TOKEN[:at]), 1.6, TextDelta(text=TOKEN[at:]), 1.6]
        room = carried(script, limits_of(channel), target=THREAD, presentation=presentation)
        assert list(room.ever_seen()) == []
        assert set(room.platform.counts) <= {"typing"}


@everywhere
@pytest.mark.parametrize("text", ["NO_REPLY\n", " NO_REPLY", "**NO_REPLY**", '"NO_REPLY".', "\n\nNO_REPLY\n\n"])
def test_scar_34_a_silent_token_leaves_no_trace_however_it_is_dressed(channel: str, text: str) -> None:
    script: Script = [ToolStarted(id="1", name="bash"), 0.5, ToolFinished(id="1"), text]
    room = carried(script, limits_of(channel), target=THREAD, length=1)
    assert room.texts == []
    assert not any("NO" in seen for seen in room.ever_seen())


@everywhere
@presented
@pytest.mark.parametrize(
    "text", ["No.", "NO", "NO_REPL", "NO_REPLY is what I say then.", "Nobody answered me.", "`NO_REPLY`", "N"]
)
def test_scar_34_an_answer_that_only_begins_like_the_token_is_given(
    channel: str, presentation: Presentation, text: str
) -> None:
    room = carried([text], limits_of(channel), target=THREAD, length=1, presentation=presentation)
    [message] = room.messages
    assert message.body == render(text, room.limits.dialect)


@everywhere
def test_scar_34_a_token_behind_an_answer_is_left_out_of_it(channel: str) -> None:
    room = carried(["Here is the answer that you asked for.\n\n", TOKEN], limits_of(channel), target=THREAD, length=1)
    assert "Here is the answer that you asked for." in room.texts[0]
    assert len(room.texts) == 1
    assert not any("NO_" in seen for seen in room.ever_seen())


@everywhere
@presented
@pytest.mark.parametrize("text", [TOKEN, ANSWER])
def test_scar_34_nobody_is_shown_as_typing_once_the_turn_is_over(
    channel: str, presentation: Presentation, text: str
) -> None:
    ended: list[float] = []

    async def main(room: ChatRoom) -> None:
        await room.carry([20.0, text], presentation=presentation)
        ended.append(room.clock.monotonic())

    room = in_a_room(main, limits_of(channel), target=THREAD)
    assert all(at <= ended[0] for at in room.times("typing"))
    if room.limits.typing_s is not None:
        assert room.times("typing"), "it is shown as long as people see nothing else"


def stopped(
    script: Script, limits: Capabilities, *faults: Rule, target: Target = HERE, **settings: Any
) -> tuple[ChatRoom, float, float]:
    """The room after a turn that was stopped behind its script; when it was, and how long it took to be over."""
    times: list[float] = []

    async def main(room: ChatRoom) -> None:
        room.fail(*faults)
        carrying = asyncio.create_task(room.carry([*script, TurnCancelled(reason="enough")], **settings))
        await asyncio.sleep(length_of(script))
        times.append(room.clock.monotonic())
        await carrying
        times.append(room.clock.monotonic())
        assert await room.state_of() is TurnState.CANCELLED

    room = in_a_room(main, limits, target=target)
    return room, times[0], times[1] - times[0]


def length_of(script: Script) -> float:
    """How many seconds the script takes."""
    said = sum(0.03 * len(pieces(line)) for line in script if isinstance(line, str))
    return said + sum(line for line in script if isinstance(line, int | float))


def posted_after(room: ChatRoom, at: float) -> list[str]:
    """The messages that came after that time."""
    return [message.text for message in room.history if message.at > at]


HALF = ANSWER[:500]


@chats
@pytest.mark.parametrize(("kind", "pause_s"), [("post", 0.0), ("edit", 3.0)])
def test_scar_35_a_stop_during_a_call_is_followed_by_nothing_new(channel: str, kind: str, pause_s: float) -> None:
    room, at, took = stopped([HALF, pause_s], limits_of(channel), Rule(kind=kind, fault=Delayed(by_s=4.5)))
    begun = next(call.at for call in room.platform.calls if call.fault)
    assert begun < at < begun + 4.5
    assert posted_after(room, at) == []
    assert room.texts == [HALF]
    assert took < 6.0


@chats
@presented
def test_scar_35_a_stop_between_calls_is_over_at_once_and_followed_by_nothing_new(
    channel: str, presentation: Presentation
) -> None:
    room, at, took = stopped([HALF], limits_of(channel), target=THREAD, presentation=presentation)
    assert posted_after(room, at) == []
    assert HALF.startswith("".join(room.texts))
    assert took < 6.0


@chats
def test_scar_35_a_stop_in_a_human_delay_is_followed_by_nothing_new(channel: str) -> None:
    wished: dict[str, Any] = {"presentation": "blocks", "block_characters": 10, "human_delay_s": 10.0}
    room, at, took = stopped([ANSWER], limits_of(channel), **wished)
    assert posted_after(room, at) == []
    assert room.texts == [ANSWER.split("\n\n")[0]]
    assert took < 1.0


@chats
def test_scar_35_a_stop_while_an_edit_waits_for_its_time_says_nothing_that_was_not_said_before(channel: str) -> None:
    room, at, _took = stopped([HALF], limits_of(channel), Rule(kind="edit", fault=TooMany(30.0)))
    assert posted_after(room, at) == []
    assert room.texts == [HALF]


@chats
@pytest.mark.parametrize("presentation", ["live", "native", "blocks"])
def test_scar_35_a_stop_while_a_message_waits_for_its_time_keeps_it_from_coming(
    channel: str, presentation: Presentation
) -> None:
    faults = [Rule(kind=kind, fault=TooMany(30.0)) for kind in ("post", "open_stream")]
    room, at, took = stopped([HALF], limits_of(channel), *faults, target=THREAD, presentation=presentation)
    assert posted_after(room, at) == [], "nobody saw it before the stop, and nobody wants it after"
    assert took < 6.0


@chats
@pytest.mark.parametrize("presentation", ["live", "native", "processing"])
def test_scar_35_a_stop_before_the_first_word_leaves_no_message(channel: str, presentation: Presentation) -> None:
    script: Script = [ToolStarted(id="1", name="bash", arguments={"command": "ls"}), 3.0]
    room, at, took = stopped(script, limits_of(channel), target=THREAD, presentation=presentation)
    assert posted_after(room, at) == []
    assert not any("⏳" in text for text in room.texts)
    assert took < 6.0


@chats
@pytest.mark.parametrize("fault", [Refuse(400, "no"), NoAnswer(), NoAnswer(applied=False), ServerError(), TooMany(9.0)])
@pytest.mark.parametrize("kind", ["edit", "delete"])
def test_scar_35_what_fails_when_things_are_put_in_order_after_a_stop_does_no_harm(
    channel: str, kind: str, fault: Fault
) -> None:
    async def main(room: ChatRoom) -> None:
        tool = ToolStarted(id="1", name="bash", arguments={"command": "ls"})
        script: Script = [HALF if kind == "edit" else tool, 6.0, TurnCancelled(reason="enough")]
        carrying = asyncio.create_task(room.carry(script))
        await asyncio.sleep(length_of(script) - 0.2)
        assert room.texts
        room.fail(Rule(kind=kind, fault=fault))
        await carrying
        assert room.platform.script.unspent == ()

    room = in_a_room(main, limits_of(channel))
    assert posted_after(room, length_of([HALF, 6.0])) == []


@chats
def test_scar_35_late_output_of_a_tool_is_not_seen_after_a_stop(channel: str) -> None:
    script: Script = [HALF, ToolStarted(id="1", name="bash", arguments={"command": "ls"}), 3.0]
    late: Script = [TurnCancelled(reason="enough"), 2.0, ToolOutput(data="late", id="1"), ToolFinished(id="1")]
    room = carried([*script, *late], limits_of(channel))
    assert room.texts == [HALF]
