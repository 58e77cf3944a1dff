"""Extensions in a gateway that runs: channels, what a context can do, and code that fails or hangs."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from delivery_setup import in_virtual_time

from gateway.gateway_setup import GatewaySetup
from tailrace.deliveries import Query, State
from tailrace.errors import NotSent, RuntimeFault, UsageError
from tailrace.gateway.extensions import BrokenExtension, Extension, ExtensionChannelSettings
from tailrace.runtimes.function import FunctionRuntime
from tailrace.testing.simulated import InProcessChannel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tailrace.gateway.extension_context import ExtensionContext
    from tailrace.ports import Prompt
    from tailrace.testing.virtual_time import Simulation

BEGUN = "I begin with this answer now. "


class Basic:
    """Records its calls. The method in `wrong` fails in the way that `how` says."""

    def __init__(self, *, wrong: str = "", how: str = "raises") -> None:
        self.calls: list[tuple[str, ...]] = []
        self.wrong = wrong
        self.how = how

    async def note(self, *call: str) -> None:
        self.calls.append(call)
        if call[0] == self.wrong:
            await fail(self.how)

    async def initialize(self, context: ExtensionContext) -> None:
        self.context = context
        await self.note("initialize")

    async def start(self) -> None:
        await self.note("start")

    async def stop(self) -> None:
        await self.note("stop")


class Whole(Basic):
    async def send_to_user(self, user_id: str, text: str) -> None:
        await self.note("send_to_user", user_id, text)


class Streaming(Basic):
    async def on_stream_start(self, user_id: str) -> None:
        await self.note("on_stream_start", user_id)

    async def on_stream_chunk(self, user_id: str, chunk: str) -> None:
        await self.note("on_stream_chunk", user_id, chunk)

    async def on_stream_status(self, user_id: str, status: str) -> None:
        await self.note("on_stream_status", user_id, status)

    async def on_stream_end(self, user_id: str, full_text: str) -> None:
        await self.note("on_stream_end", user_id, full_text)


class Both(Streaming, Whole):
    pass


async def fail(how: str) -> None:
    match how:
        case "raises":
            raise RuntimeError("this part is broken")
        case "is away":
            raise NotSent("the user is not connected")
        case "exits":
            sys.exit(3)
        case "is cancelled":
            raise asyncio.CancelledError
        case "hangs":
            await asyncio.Event().wait()
        case "ignores its end":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(1000)


def extension(found: Any, name: str = "own", **config: Any) -> Extension:
    known = {key: value for key, value in config.items() if key in ExtensionChannelSettings.__struct_fields__}
    settings = ExtensionChannelSettings(**{"allow": ("*",), **known})
    make: Callable[[], Any] = found if isinstance(found, type) else lambda: found
    return Extension(name=name, make=make, config=config, settings=settings, agent_id="main", presentation=None)


def setup_with(simulation: Simulation, *extensions: Extension | BrokenExtension) -> GatewaySetup:
    setup = GatewaySetup(simulation)
    setup.extensions = list(extensions)
    return setup


async def until_ready(setup: GatewaySetup, *names: str) -> None:
    await setup.until(lambda: {f"ready: {name}" for name in names} <= set(setup.lines))


@in_virtual_time
async def test_a_plain_channel_is_served(simulation: Simulation) -> None:
    found = Whole()
    setup = setup_with(simulation, extension(found))
    async with setup.running():
        await until_ready(setup, "own")
        await found.context.handle_user_message("hello", "7")
        await setup.until(lambda: len(found.calls) == 3)
    assert found.calls == [("initialize",), ("start",), ("send_to_user", "7", "ok: hello"), ("stop",)]
    assert found.name == "own"  # type: ignore[attr-defined]  # the gateway has set it
    assert setup.agent.prompts[0].conversation == "own:7"
    assert setup.agent.prompts[0].user_id == "7"


@in_virtual_time
async def test_a_streaming_channel_gets_the_four_calls(simulation: Simulation) -> None:
    found = Streaming()
    setup = setup_with(simulation, extension(found))
    async with setup.running():
        await until_ready(setup, "own")
        await found.context.handle_user_message("slow", "7")
        await setup.until(lambda: ("on_stream_chunk", "7", BEGUN) in found.calls)
        setup.agent.go_on.set()
        await setup.until(lambda: ("on_stream_end", "7", f"{BEGUN}ok: slow") in found.calls)
    assert [call[0] for call in found.calls] == [
        *("initialize", "start", "on_stream_start", "on_stream_chunk", "on_stream_chunk", "on_stream_end", "stop")
    ]
    assert not await setup.ledger.accepted_turns()
    assert not await setup.ledger.interrupted_turns()


@in_virtual_time
async def test_a_streaming_channel_can_ask_for_whole_answers(simulation: Simulation) -> None:
    found = Both()
    setup = setup_with(simulation, extension(found, streaming_enabled=False))
    async with setup.running():
        await until_ready(setup, "own")
        await found.context.handle_user_message("hello", "7")
        await setup.until(lambda: ("send_to_user", "7", "ok: hello") in found.calls)


@pytest.mark.parametrize("kind", [Whole, Streaming])
def test_a_turn_that_a_crash_has_cut_is_closed_and_the_next_is_answered(kind: type[Basic]) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        first, second = kind(), kind()
        setup = setup_with(simulation, extension(first))
        async with setup.running():
            await until_ready(setup, "own")
            await first.context.handle_user_message("slow", "7")
            await first.context.handle_user_message("next", "7")
            await setup.until(lambda: bool(setup.agent.prompts))
            await asyncio.sleep(5)
            await setup.crash()
        setup.extensions = [extension(second)]
        async with setup.running():
            await setup.until(lambda: second.calls[-1:] != [] and second.calls[-1][-1] == "ok: next")
        ends = [call[-1] for call in second.calls if call[0] in ("send_to_user", "on_stream_end")]
        assert any("interrupted" in text for text in ends)
        assert [prompt.text for prompt in setup.agent.prompts] == ["slow", "next"]

    scene()


@in_virtual_time
async def test_a_channel_with_the_native_port_is_served_like_a_built_in_one(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)

    class Native(InProcessChannel):
        name = "native"

        async def initialize(self, context: ExtensionContext) -> None:
            self.context = context

    found = Native(setup.platform, setup.clock, request_s=0.05, answer_s=0.05)
    setup.extensions = [extension(found)]
    async with setup.running():
        await until_ready(setup, "native")
        await found.context.handle_user_message("slow", "99")
        await setup.until(lambda: setup.texts("99") == [BEGUN.strip()])  # a live message
        setup.agent.go_on.set()
        await setup.read(f"{BEGUN}ok: slow", chat="99")


@in_virtual_time
async def test_people_are_admitted_by_the_allow_list_of_the_extension(simulation: Simulation) -> None:
    found = Whole()
    setup = setup_with(simulation, extension(found, allow=("7",)))
    async with setup.running():
        await until_ready(setup, "own")
        await found.context.handle_user_message("hello", "8")
        await setup.until(lambda: len(found.calls) == 3)
        await found.context.handle_user_message("hello", "7")
        await setup.until(lambda: len(found.calls) == 4)
    assert "tailrace access approve" in found.calls[2][2]
    assert found.calls[2][1] == "8"
    assert found.calls[3] == ("send_to_user", "7", "ok: hello")


@in_virtual_time
async def test_words_and_the_queue_work_in_an_extension(simulation: Simulation) -> None:
    found = Streaming()
    setup = setup_with(simulation, extension(found))
    async with setup.running():
        await until_ready(setup, "own")
        await found.context.handle_user_message("slow", "7")
        await setup.until(lambda: ("on_stream_chunk", "7", BEGUN) in found.calls)
        await found.context.handle_user_message("second", "7")
        await found.context.handle_user_message("/stop", "7")
        await setup.until(lambda: ("on_stream_end", "7", "ok: second") in found.calls)
    ends = [call[2] for call in found.calls if call[0] == "on_stream_end"]
    assert ends[0] == BEGUN
    assert ends[1].startswith("Stopped.")


@in_virtual_time
async def test_a_proactive_extension_asks_the_agent_in_its_own_conversation(simulation: Simulation) -> None:
    found = Basic()
    setup = setup_with(simulation, extension(found))
    chunks: list[str] = []
    async with setup.running():
        await setup.until(lambda: ("start",) in found.calls)
        assert await found.context.invoke_agent("one") == "ok: one"
        assert await found.context.invoke_agent_streamed("two", chunks.append) == "ok: two"
        with pytest.raises(RuntimeFault, match="the agent is broken"):
            await found.context.invoke_agent("fail")
        setup.say("hello")
        await setup.read("ok: hello")
    assert chunks == ["ok: two"]
    assert {prompt.conversation for prompt in setup.agent.prompts} == {"extension:own", "simulated:7"}
    assert len({prompt.session_id for prompt in setup.agent.prompts[:3]}) == 1
    assert found.calls == [("initialize",), ("start",), ("stop",)]


@in_virtual_time
async def test_an_extension_follows_what_is_said_on_all_channels(simulation: Simulation) -> None:
    found, events = Basic(), list[tuple[str, str]]()
    setup = setup_with(simulation, extension(found))

    async def follow(event: dict[str, Any]) -> None:
        events.append((event["text"], event["user_id"]))

    async with setup.running():
        await setup.until(lambda: ("start",) in found.calls)
        found.context.subscribe("user_message", follow)
        found.context.subscribe("agent_response", follow)
        with pytest.raises(UsageError, match="user_message or agent_response"):
            found.context.subscribe("other", follow)  # type: ignore[arg-type]  # a wrong name
        setup.say("hello")
        await setup.until(lambda: events == [("hello", "7"), ("ok: hello", "7")])


@in_virtual_time
async def test_the_configuration_has_the_keys_that_all_channels_have(simulation: Simulation) -> None:
    found = Basic()
    setup = setup_with(simulation, extension(found, stream_min_chunk_chars=5, place="here"))
    async with setup.running():
        await setup.until(lambda: ("start",) in found.calls)
    get = found.context.get_config
    assert (get("place"), get("missing"), get("missing", 3)) == ("here", None, 3)
    assert (get("stream_min_chunk_chars"), get("stream_edit_interval_ms"), get("polling_timeout")) == (5, 500, 30)
    assert (get("polling_timeout", 60), get("streaming_enabled")) == (60, True)
    assert found.context.logger.name == "tailrace.extension.own"


@in_virtual_time
async def test_wrong_values_are_errors_that_name_the_extension(simulation: Simulation) -> None:
    proactive, channel = Basic(), Whole()
    setup = setup_with(simulation, extension(proactive, "proactive"), extension(channel, "channel"))
    async with setup.running():
        await until_ready(setup, "channel")
        with pytest.raises(UsageError, match="the extension proactive is not served as a channel: it needs send_to_"):
            await proactive.context.handle_user_message("hello", "7")
        for text, user_id, message in [
            (7, "7", "the extension channel passed int as text: pass a string"),
            ("hello", 7, "the extension channel passed int as user_id: pass a string"),
            ("hello", "", "the extension channel passed an empty user_id"),
        ]:
            with pytest.raises(UsageError, match=message):
                await channel.context.handle_user_message(text, user_id)  # type: ignore[arg-type]  # wrong values
        with pytest.raises(UsageError, match="the extension channel passed NoneType as prompt: pass a string"):
            await channel.context.invoke_agent(None)  # type: ignore[arg-type]  # a wrong value


FAILURES = ["raises", "exits", "is cancelled", "hangs", "ignores its end"]


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("method", ["initialize", "start", "stop"])
def test_an_extension_that_fails_is_named_and_the_others_go_on(method: str, how: str) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        wrong, good = Basic(wrong=method, how=how), Whole()
        setup = setup_with(simulation, extension(wrong, "wrong"), extension(good, "good"))
        async with setup.running():
            setup.say("hello")
            await setup.read("ok: hello")
            await until_ready(setup, "good")
            await asyncio.sleep(60)
            await good.context.handle_user_message("hello", "7")
            await setup.until(lambda: good.calls[-1][-1] == "ok: hello")
        named = [line for line in setup.lines if "the extension wrong" in line]
        assert len(named) == (0 if method == "stop" else 1)
        assert all(f"wrong: {method} " in line and line.endswith("the gateway runs without it") for line in named)
        assert ("stop",) in good.calls

    scene()


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("method", ["send_to_user", "on_stream_start", "on_stream_chunk", "on_stream_end"])
def test_a_channel_that_fails_does_not_disturb_the_others(
    method: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        wrong = (Whole if method == "send_to_user" else Streaming)(wrong=method, how=how)
        setup = setup_with(simulation, extension(wrong, "wrong"))
        async with setup.running():
            await until_ready(setup, "wrong")
            await wrong.context.handle_user_message("hello", "7")
            setup.say("hello")
            await setup.read("ok: hello")
            await setup.until(lambda: f"the extension wrong: {method} " in caplog.text, within_s=120)
            await asyncio.sleep(120)
            wrong.wrong = ""
            await wrong.context.handle_user_message("again", "7")
            await setup.until(lambda: wrong.calls[-1][-1] == "ok: again", within_s=600)
        assert not await setup.ledger.accepted_turns()

    with caplog.at_level(logging.WARNING):
        scene()


@in_virtual_time
async def test_a_channel_that_hangs_gets_no_further_pieces_but_the_end(simulation: Simulation) -> None:
    found = Streaming(wrong="on_stream_chunk", how="hangs")
    setup = setup_with(simulation, extension(found))

    async def wordy(_: Prompt) -> AsyncIterator[str]:
        for _number in range(100):
            yield "word "

    setup.runtime = FunctionRuntime(wordy, name="wordy")  # type: ignore[arg-type]  # an async generator is one
    async with setup.running():
        await until_ready(setup, "own")
        await found.context.handle_user_message("hello", "7")
        await setup.until(lambda: ("on_stream_end", "7", "word " * 100) in found.calls)
    assert [call[0] for call in found.calls].count("on_stream_chunk") == 1


@in_virtual_time
async def test_an_end_that_could_not_be_shown_is_delivered_whole(simulation: Simulation) -> None:
    found = Both(wrong="on_stream_end")
    setup = setup_with(simulation, extension(found))
    async with setup.running():
        await until_ready(setup, "own")
        await found.context.handle_user_message("hello", "7")
        await setup.until(lambda: ("send_to_user", "7", "ok: hello") in found.calls)
        await asyncio.sleep(60)
    assert [row.state for row in await setup.ledger.find(Query())] == [State.DELIVERED]


@in_virtual_time
async def test_a_channel_can_say_that_an_answer_was_certainly_not_sent(simulation: Simulation) -> None:
    found = Whole(wrong="send_to_user", how="is away")
    setup = setup_with(simulation, extension(found))
    async with setup.running():
        await until_ready(setup, "own")
        await found.context.handle_user_message("hello", "7")
        await setup.until(lambda: found.calls.count(("send_to_user", "7", "ok: hello")) == 3)
        found.wrong = ""
        await setup.until(lambda: found.calls.count(("send_to_user", "7", "ok: hello")) == 4, within_s=600)
        await asyncio.sleep(600)
    assert [call for call in found.calls if call[0] == "send_to_user"] == [("send_to_user", "7", "ok: hello")] * 4


@in_virtual_time
async def test_a_channel_that_cannot_start_is_started_again(simulation: Simulation) -> None:
    found = Whole(wrong="start")
    setup = setup_with(simulation, extension(found))
    async with setup.running():
        await setup.until(lambda: found.calls.count(("start",)) == 3)
        found.wrong = ""
        await found.context.handle_user_message("hello", "7")
        await setup.until(lambda: found.calls[-1][-1] == "ok: hello")
    assert "ready: own" in setup.lines


@pytest.mark.parametrize("how", FAILURES)
def test_a_handler_that_fails_delays_no_answer(how: str, caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        found = Basic(wrong="follow", how=how)
        setup = setup_with(simulation, extension(found))

        async def follow(event: dict[str, Any]) -> None:
            await found.note("follow", event["text"])

        async with setup.running():
            await setup.until(lambda: ("start",) in found.calls)
            found.context.subscribe("user_message", follow)
            began = setup.clock.monotonic()
            setup.say("hello")
            await setup.read("ok: hello")
            assert setup.clock.monotonic() - began < 3
            await setup.until(lambda: "the extension own: follow " in caplog.text)

    scene()


@in_virtual_time
async def test_what_cannot_be_created_and_second_names_get_one_line(simulation: Simulation) -> None:
    class Raises:
        def __init__(self) -> None:
            raise RuntimeError("no\nkey")

    class Exits:
        def __init__(self) -> None:
            sys.exit(3)

    class WrongName:
        name = "not a name"

    class Taken(Basic):
        name = "simulated"

    first, second = Whole(), Whole()
    setup = setup_with(
        simulation,
        BrokenExtension("absent", "there is no module main"),
        *(extension(kind, kind.__name__) for kind in (Raises, Exits, WrongName, Taken)),
        *(extension(each) for each in (first, second)),
    )
    async with setup.running():
        await until_ready(setup, "own", "simulated")
        await first.context.handle_user_message("hello", "7")
        await setup.until(lambda: first.calls[-1][-1] == "ok: hello")
    assert second.calls == []
    assert [line for line in setup.lines if "extension" in line] == [
        f"the extension {problem}; the gateway runs without it"
        for problem in (
            "absent cannot be loaded: there is no module main",
            "Raises cannot be created: RuntimeError: no key",
            "Exits cannot be created: SystemExit: 3",
            "WrongName has a wrong name: use letters, digits, - and _",
            "simulated has the name of another extension or channel",
            "own has the name of another extension or channel",
        )
    ]
