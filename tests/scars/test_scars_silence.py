"""Silent replies that were shown elsewhere, and answers that went on after a stop.

A turn is stopped by its `TurnCancelled`; how an agent is stopped is tested elsewhere.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scar_chat import (
    ANSWER,
    CHATS,
    HERE,
    PARAGRAPHS,
    SAMPLES,
    THREAD,
    Chat,
    Script,
    cases,
    chats,
    in_chat,
    limits_of,
    pieces,
    present_turn,
    presented,
)

from tailrace.capabilities import Capabilities
from tailrace.deliveries import TurnState
from tailrace.events import TextDelta, ToolFinished, ToolOutput, ToolStarted, TurnCancelled
from tailrace.operations import Target
from tailrace.projector import Presentation
from tailrace.testing.faults import Delayed, Fault, NoAnswer, Refuse, Rule, ServerError, TooMany

# The samples, and the channels that are no chat platforms.
EVERYWHERE = (*SAMPLES, ("terminal", "tokens"), ("web", "tokens"), ("telegram_rich", "live"))
WORD = "NO_REPLY"
BASH = ToolStarted(id="1", name="bash", arguments={"command": "ls"})


@pytest.mark.parametrize(("channel", "presentation"), EVERYWHERE)
def test_scar_34_silent_word_cut_anywhere_leaves_no_trace(channel: str, presentation: Presentation) -> None:
    for at in range(len(WORD) + 1):
        # Each pause is longer than the one after which a message begins with however little text.
        script: Script = [0.5, TextDelta(text=WORD[:at]), 1.6, TextDelta(text=WORD[at:]), 1.6]
        chat = present_turn(script, limits_of(channel), target=THREAD, presentation=presentation)
        assert list(chat.ever_shown()) == []
        assert set(chat.platform.counts) <= {"typing"}


@pytest.mark.parametrize(("channel", "presentation"), EVERYWHERE)
@pytest.mark.parametrize("text", [WORD, ANSWER], ids=["silent", "answer"])
def test_scar_34_typing_ends_with_the_turn(channel: str, presentation: Presentation, text: str) -> None:
    ended: list[float] = []

    async def main(chat: Chat) -> None:
        await chat.present([20.0, text], presentation=presentation)
        ended.append(chat.clock.monotonic())

    chat = in_chat(main, limits_of(channel), target=THREAD)
    assert all(at <= ended[0] for at in chat.call_times("typing"))
    if chat.limits.typing_s is not None:
        assert chat.call_times("typing"), "it is shown while people see nothing else"


def stop_turn(
    script: Script, limits: Capabilities, *faults: Rule, target: Target = HERE, **settings: Any
) -> tuple[Chat, list[str], float]:
    """Cancel a turn behind its script. Returns the chat, the messages posted after that, and the seconds to its end."""
    times: list[float] = []

    async def main(chat: Chat) -> None:
        chat.fail(*faults)
        turn = asyncio.create_task(chat.present([*script, TurnCancelled(reason="enough")], **settings))
        await asyncio.sleep(length_of(script))
        times.append(chat.clock.monotonic())
        await turn
        times.append(chat.clock.monotonic())
        assert await chat.turn_state() is TurnState.CANCELLED

    chat = in_chat(main, limits, target=target)
    return chat, posted_after(chat, times[0]), times[1] - times[0]


def length_of(script: Script) -> float:
    """The duration of the script in seconds."""
    texts = sum(0.03 * len(pieces(line)) for line in script if isinstance(line, str))
    return texts + sum(line for line in script if isinstance(line, int | float))


def posted_after(chat: Chat, at: float) -> list[str]:
    return [message.text for message in chat.history if message.at > at]


HALF = ANSWER[:500]


@chats
@pytest.mark.parametrize(("kind", "pause_s"), [("post", 0.0), ("edit", 3.0)])
def test_scar_35_stop_during_a_call_posts_nothing_new(channel: str, kind: str, pause_s: float) -> None:
    chat, posted, took = stop_turn([HALF, pause_s], limits_of(channel), Rule(kind=kind, fault=Delayed(by_s=4.5)))
    begun = next(call.at for call in chat.platform.calls if call.fault)
    assert begun < length_of([HALF, pause_s]) < begun + 4.5
    assert posted == []
    assert chat.texts == [HALF]
    assert took < 6.0


@chats
def test_scar_35_stop_in_a_human_delay_posts_nothing_new(channel: str) -> None:
    settings: dict[str, Any] = {"presentation": "blocks", "block_characters": 10, "human_delay_s": 10.0}
    chat, posted, took = stop_turn([ANSWER], limits_of(channel), **settings)
    assert posted == []
    assert chat.texts == PARAGRAPHS[:1]
    assert took < 1.0


# The script before the stop, the faults of its calls, and the settings.
STOPS: dict[str, tuple[Script, list[Rule], dict[str, Any]]] = {
    "between two calls": ([HALF], [], {}),
    "a live edit waits": ([HALF], [Rule(kind="edit", fault=TooMany(30.0))], {"presentation": "live"}),
    "a first message waits": ([HALF], [Rule(kind=kind, fault=TooMany(30.0)) for kind in ("post", "open_stream")], {}),
    "before the first word": ([BASH, 3.0], [], {}),
}


@presented()
@pytest.mark.parametrize("name", STOPS)
def test_scar_35_stop_at_any_time_posts_nothing_new(channel: str, presentation: Presentation, name: str) -> None:
    script, faults, settings = STOPS[name]
    settings = {"presentation": presentation, **settings}
    chat, posted, took = stop_turn(script, limits_of(channel), *faults, target=THREAD, **settings)
    assert posted == []
    assert HALF.startswith("".join(chat.texts).partition("🔧")[0])
    assert not any("⏳" in text for text in chat.texts)
    assert took < 36.0 if name == "a live edit waits" else took < 6.0


FAULTS = [Refuse(400, "no"), NoAnswer(), NoAnswer(applied=False), ServerError(), TooMany(9.0)]


@pytest.mark.parametrize(("channel", "fault"), cases(CHATS, FAULTS))
@pytest.mark.parametrize("kind", ["edit", "delete"])
def test_scar_35_failing_last_call_after_a_stop_does_no_harm(channel: str, kind: str, fault: Fault) -> None:
    async def main(chat: Chat) -> None:
        script: Script = [HALF if kind == "edit" else BASH, 6.0, TurnCancelled(reason="enough")]
        turn = asyncio.create_task(chat.present(script))
        await asyncio.sleep(length_of(script) - 0.2)
        assert chat.texts
        chat.fail(Rule(kind=kind, fault=fault))
        await turn
        assert chat.platform.script.unspent == ()

    assert posted_after(in_chat(main, limits_of(channel)), length_of([HALF, 6.0])) == []


@chats
def test_scar_35_late_tool_output_is_not_shown_after_a_stop(channel: str) -> None:
    late: Script = [TurnCancelled(reason="enough"), 2.0, ToolOutput(data="late", id="1"), ToolFinished(id="1")]
    assert present_turn([HALF, BASH, 3.0, *late], limits_of(channel)).texts == [HALF]
