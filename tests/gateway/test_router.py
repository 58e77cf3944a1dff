from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from async_test import async_test
from tailrace.capabilities import Capabilities, Keyed
from tailrace.delivery.sender_context import SystemClock
from tailrace.errors import RuntimeFault, UsageError
from tailrace.events import Event, Status, TextRetracted, ToolFinished, ToolStarted, TurnFailed
from tailrace.gateway import MessageRouter
from tailrace.ports import Channel, Prompt, StreamingChannelProvider
from tailrace.runtimes.function import FunctionRuntime
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import InProcessChannel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

UNLIMITED = Capabilities(idempotency=Keyed(window_s=60.0))


def agent(*items: Event | str, seen: list[Prompt] | None = None) -> FunctionRuntime:
    async def answer(prompt: Prompt) -> AsyncIterator[Event | str]:
        if seen is not None:
            seen.append(prompt)
        for item in items:
            yield item

    return FunctionRuntime(answer, name="test")  # type: ignore[arg-type]  # an async generator is one


class WholeChannel:
    name = "whole"

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    async def send_to_user(self, user_id: str, text: str) -> None:
        self.sent.append((user_id, text))


class StreamChannel:
    name = "stream"

    def __init__(self, fails: frozenset[str] = frozenset()) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.fails = fails

    def _note(self, *call: str) -> None:
        self.calls.append(call)
        if call[0] in self.fails:
            raise RuntimeError("this method fails")

    async def on_stream_start(self, user_id: str) -> None:
        self._note("start", user_id)

    async def on_stream_chunk(self, user_id: str, chunk: str) -> None:
        self._note("chunk", user_id, chunk)

    async def on_stream_status(self, user_id: str, status: str) -> None:
        self._note("status", user_id, status)

    async def on_stream_end(self, user_id: str, full_text: str) -> None:
        self._note("end", user_id, full_text)


class StreamAndWholeChannel(StreamChannel, WholeChannel):
    name = "both"

    def __init__(self, fails: frozenset[str] = frozenset()) -> None:
        StreamChannel.__init__(self, fails)
        WholeChannel.__init__(self)
        self.name = "both"


@async_test
async def test_an_answer_is_streamed_in_order_and_returned_whole() -> None:
    tool = ToolStarted(id="1", name="grep")
    router = MessageRouter(runtime=agent("Let me ", "look.", tool, ToolFinished(id="1"), "Found."))
    chunks: list[str] = []
    tools: list[str] = []
    answer = await router.invoke_agent_streamed("where?", chunks.append, tools.append)
    assert answer == "".join(chunks) == "Let me look.\n\nFound."
    assert tools == ["grep"]
    assert await router.invoke_agent("where?") == answer


@async_test
async def test_retracted_text_is_not_in_the_answer() -> None:
    router = MessageRouter(runtime=agent("wrong", TextRetracted(), "right"))
    assert await router.invoke_agent("?") == "right"


@async_test
async def test_without_a_runtime_a_line_says_so() -> None:
    router, channel = MessageRouter(), WholeChannel()
    await router.handle_user_message("hello", "7", channel)
    assert channel.sent == [("7", "(No agent configured.)")]
    assert await router.invoke_agent("hello") == "(No agent configured.)"


@async_test
async def test_a_failed_agent_raises_with_the_text_before_it() -> None:
    router = MessageRouter(runtime=agent("half", TurnFailed(message="quota")))
    with pytest.raises(RuntimeFault, match="quota") as caught:
        await router.invoke_agent("?")
    assert caught.value.partial == "half"


@async_test
async def test_a_streaming_channel_gets_the_four_calls() -> None:
    channel = StreamChannel()
    assert isinstance(channel, StreamingChannelProvider)
    router = MessageRouter(runtime=agent("Hi", ToolStarted(id="1", name="grep"), Status(text="Handoff to B"), "there"))
    await router.handle_user_message("hello", "7", channel)
    assert channel.calls == [
        ("start", "7"),
        ("chunk", "7", "Hi"),
        ("status", "7", "Using: grep"),
        ("status", "7", "Handoff to B"),
        ("chunk", "7", "\n\nthere"),
        ("end", "7", "Hi\n\nthere"),
    ]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (("half", TurnFailed(message="quota")), "half\n\n(Error: quota)"),
        ((TurnFailed(message="quota"),), "(Error: quota)"),
    ],
)
@async_test
async def test_a_failure_ends_the_text_on_both_kinds_of_channel(items: tuple[Event | str, ...], expected: str) -> None:
    streaming, whole, responses = StreamChannel(), WholeChannel(), list[str]()
    router = MessageRouter(runtime=agent(*items))
    router.subscribe("agent_response", lambda event: responses.append(event["text"]))
    await router.handle_user_message("?", "7", streaming)
    await router.handle_user_message("?", "7", whole)
    assert streaming.calls[-1] == ("end", "7", expected)
    assert whole.sent == [("7", expected)]
    assert responses == [expected, expected]


@pytest.mark.parametrize("method", ["start", "chunk", "status", "end"])
@async_test
async def test_a_channel_method_that_fails_does_not_stop_the_turn(method: str) -> None:
    channel = StreamAndWholeChannel(frozenset([method]))
    router = MessageRouter(runtime=agent("Hi", ToolStarted(id="1", name="grep")))
    await router.handle_user_message("hello", "7", channel)
    assert channel.calls[-1] == ("end", "7", "Hi")
    assert channel.sent == ([("7", "Hi")] if method == "end" else [])


@async_test
async def test_the_events_are_the_same_on_every_path() -> None:
    events: list[dict[str, object]] = []
    router = MessageRouter(runtime=agent("Hi"))
    router.subscribe("user_message", events.append)
    router.subscribe("agent_response", events.append)
    platform = SimulatedPlatform(UNLIMITED)
    for channel in (WholeChannel(), StreamChannel(), InProcessChannel(platform, SystemClock())):
        events.clear()
        await router.handle_user_message(" hello ", "7", channel)
        session_id = events[1].pop("session_id")
        assert events == [
            {"text": " hello ", "user_id": "7", "channel_id": channel.name},
            {"text": "Hi", "user_id": "7", "channel": channel.name, "agent_id": None},
        ]
        assert session_id
    await router.aclose()


@async_test
async def test_a_built_in_channel_is_served_by_the_projector() -> None:
    platform = SimulatedPlatform(UNLIMITED)
    channel = InProcessChannel(platform, SystemClock())
    assert isinstance(channel, Channel)
    router = MessageRouter(runtime=agent("One.\n\n", "Two."))
    await router.handle_user_message("hello", "7--12", channel)
    await router.aclose()
    [message] = platform.history("7")
    assert message.body.text == "One.\n\nTwo."


@async_test
async def test_the_middleware_gets_the_stripped_prompt() -> None:
    seen: list[Prompt] = []
    calls: list[tuple[str, str | None]] = []

    async def middleware(prompt: str, agent_id: str | None) -> str:
        calls.append((prompt, agent_id))
        return prompt.upper()

    router = MessageRouter(runtime=agent("x", seen=seen), invoke_middleware=middleware)
    await router.invoke_agent("  hello \n", agent_id="main")
    assert calls == [("hello", "main")]
    assert seen[0].text == "HELLO"


@async_test
async def test_a_long_pause_begins_a_new_session() -> None:
    now, seen = [0.0], list[Prompt]()
    router = MessageRouter(runtime=agent("x", seen=seen), session_timeout=10, clock=lambda: now[0])
    channel = WholeChannel()
    for at in (0.0, 9.0, 19.0, 30.0):
        now[0] = at
        await router.handle_user_message("hello", "7", channel)
    await router.handle_user_message("hello", "8", channel)
    sessions = [prompt.session_id for prompt in seen]
    assert sessions[0] == sessions[1] == sessions[2]
    assert len(set(sessions)) == 3
    assert seen[0].user_id == "7"
    assert seen[0].conversation == "whole:7"


@async_test
async def test_one_conversation_is_strictly_in_order_and_others_run_beside_it() -> None:
    started: list[str] = []
    gate = asyncio.Event()

    async def answer(prompt: Prompt) -> AsyncIterator[str]:
        started.append(prompt.text)
        if prompt.text == "slow":
            await gate.wait()
        yield prompt.text

    router, channel = MessageRouter(runtime=FunctionRuntime(answer, name="test")), StreamChannel()  # type: ignore[arg-type]
    slow = asyncio.create_task(router.handle_user_message("slow", "7", channel))
    await asyncio.sleep(0)
    second = asyncio.create_task(router.handle_user_message("second", "7", channel))
    await router.handle_user_message("other", "8", channel)
    assert "second" not in started
    assert ("end", "8", "other") in channel.calls
    gate.set()
    await asyncio.gather(slow, second)
    assert [call for call in channel.calls if call[1] == "7" and call[0] != "chunk"] == [
        ("start", "7"),
        ("end", "7", "slow"),
        ("start", "7"),
        ("end", "7", "second"),
    ]


@pytest.mark.parametrize("steps", range(8))
@async_test
async def test_a_cancelled_turn_ends_its_stream_and_frees_the_conversation(steps: int) -> None:
    router, channel = MessageRouter(runtime=agent("a", "b", "c")), StreamChannel()
    task = asyncio.create_task(router.handle_user_message("hello", "7", channel))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    channel.calls.clear()
    await router.handle_user_message("again", "7", channel)
    assert channel.calls[-1] == ("end", "7", "abc")


@async_test
async def test_a_handler_that_fails_disturbs_no_one() -> None:
    def handler(_: dict[str, object]) -> None:
        raise RuntimeError("the handler fails")

    router, channel = MessageRouter(runtime=agent("x")), WholeChannel()
    router.subscribe("user_message", handler)
    router.subscribe("agent_response", handler)
    await router.handle_user_message("hello", "7", channel)
    assert channel.sent == [("7", "x")]
    with pytest.raises(UsageError, match="user_message or agent_response"):
        router.subscribe("something", handler)  # type: ignore[arg-type]  # a wrong name


@async_test
async def test_a_registered_channel_is_found_by_its_name() -> None:
    router, channel = MessageRouter(), WholeChannel()
    router.register(channel)
    assert router.get_adapter("whole") is channel
    assert router.get_adapter("other") is None
