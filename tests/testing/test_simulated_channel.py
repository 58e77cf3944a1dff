"""The channels to a simulated platform, over TCP and in this process, and how they translate what can go wrong."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from tailrace.capabilities import Capabilities, Rate
from tailrace.errors import AccessLost, ChannelFault, MaybeSent, NotSent, SendRefused, UsageError
from tailrace.inbound import ButtonPress, Inbound, InboundMessage, InboundNotice, Sender
from tailrace.operations import (
    AppendStream,
    Body,
    Button,
    CloseStream,
    Delete,
    Draft,
    Edit,
    OpenStream,
    Post,
    PostMedia,
    Receipt,
    Target,
    Task,
    Typing,
)
from tailrace.ports import Channel, ReadsBack
from tailrace.testing.channel_scenarios import RecordingInbox
from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    Late,
    LoseAccess,
    NoAnswer,
    Refuse,
    Reset,
    Rule,
    ServerError,
    TooMany,
    Unreachable,
)
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.platform_process import PlatformProcess
from tailrace.testing.simulated import SimulatorAddress, in_process_channel, simulated_channel
from tailrace.testing.virtual_time import Deadlock, Simulation, VirtualClock, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.testing.simulated import InProcessChannel, SimulatedChannel
    from tailrace.testing.wire import PlatformMessage

HERE = Target(channel="simulated", chat="here", thread="7")
TASK = Task(id="1", title="read")
DONE = Task(id="1", title="read", status="complete")
TWO = Body(text="two", buttons=(Button(label="Yes", value="y"),))
PRESS = ButtonPress(channel="simulated", event_id="e2", target=HERE, value="y", sender=Sender(id="1"))
EVENTS: list[Inbound] = [
    InboundMessage(channel="simulated", event_id="e1", target=HERE, text="hello"),
    PRESS,
    InboundNotice(channel="simulated", event_id="e3", target=HERE, kind="removed"),
]

# A fault, what the caller gets, and whether people see the message.
TRANSLATIONS: list[tuple[Fault, ChannelFault, bool]] = [
    (Refuse(), SendRefused("the bot was blocked"), False),
    (LoseAccess(), AccessLost("the bot was removed from the chat"), False),
    (LoseAccess(everywhere=True), AccessLost("the token was revoked", everywhere=True), False),
    (TooMany(), NotSent("too many requests"), False),
    (TooMany(30.0, everywhere=True), NotSent("too many requests", retry_after=30.0, everywhere=True), False),
    (TooMany(1e9), NotSent("too many requests", retry_after=1e9), False),
    (TooMany("soon"), NotSent("too many requests"), False),
    (ServerError(), NotSent("the platform has a problem"), False),
    (ServerError(500), MaybeSent("the platform has a problem"), False),
    (ServerError(502, applied=True), MaybeSent("the platform has a problem"), True),
    (Reset(), MaybeSent("the connection was reset before the answer came"), True),
    (Reset(applied=False), MaybeSent("the connection was reset before the answer came"), False),
    (Cut(), MaybeSent("the answer was cut"), True),
    (Cut(applied=False), MaybeSent("the answer was cut"), False),
]


async def send(channel: Channel, text: str, key: str = "k") -> Receipt:
    return await channel.post(Post(target=HERE, body=Body(text=text)), key=key)


@pytest.fixture(scope="module")
def process() -> Iterator[PlatformProcess]:
    with PlatformProcess("readback") as started:
        yield started


@pytest.fixture
def platform(process: PlatformProcess) -> PlatformProcess:
    process.clear_faults()
    process.clear()
    process.open_port()
    return process


async def use_every_power(channel: SimulatedChannel | InProcessChannel) -> Receipt | None:
    """Leave one edited message, one that was a stream, one with a picture, and one that is deleted."""
    await channel.typing(Typing(target=HERE))
    await channel.draft(Draft(target=HERE, draft_id=7, body=Body(text="o")))
    posted = await channel.post(Post(target=HERE, body=Body(text="one"), reply_to="question"), key="k1")
    assert await channel.edit(Edit(target=HERE, message_id=posted.message_id, body=TWO)) == posted
    stream = await channel.open_stream(OpenStream(target=HERE, body=Body(text="a")), key="k2")
    id_ = stream.message_id
    await channel.append_stream(AppendStream(target=HERE, stream_id=id_, text="b", tasks=(TASK,)))
    closing = CloseStream(target=HERE, stream_id=id_, body=Body(text="abc"), tasks=(DONE,))
    assert await channel.close_stream(closing) == stream
    await channel.post_media(PostMedia(target=HERE, url="x:picture", caption="look"), key="k3")
    gone = await send(channel, "gone", "k4")
    assert await channel.delete(Delete(target=HERE, message_id=gone.message_id)) == gone
    await channel.acknowledge(PRESS, "taken")
    return await channel.find(HERE, "k1", 0.0) if isinstance(channel, ReadsBack) else None


SEEN = [
    ("two", 1, False, "", (), "question"),
    ("abc", 0, False, "", (DONE,), None),
    ("look", 0, False, "x:picture", (), None),
    ("gone", 0, True, "", (), None),
]


def shown(history: list[PlatformMessage]) -> list[tuple[object, ...]]:
    return [(one.text, one.edits, one.deleted, one.media, one.tasks, one.reply_to) for one in history]


def test_every_power_over_tcp(platform: PlatformProcess) -> None:
    found = asyncio.run(use_every_power(simulated_channel(platform.address)))
    history = platform.history("here")
    assert shown(history) == SEEN
    assert found == Receipt(message_id=history[0].message_id)
    assert history[0].body == TWO
    assert {message.thread for message in history} == {"7"}
    assert platform.texts("here") == ["two", "abc", "look"]
    report = platform.account()
    assert [(shown.event_id, shown.text) for shown in report.acknowledged] == [("e2", "taken")]
    assert report.complaints == []


def test_connection_that_is_lost_for_a_while_is_made_again(platform: PlatformProcess) -> None:
    inbox = RecordingInbox()

    async def main() -> None:
        channel = simulated_channel(platform.address)
        await channel.start(inbox)
        await asyncio.to_thread(platform.add_inbound, EVENTS[0])
        await inbox.wait(1)
        await asyncio.to_thread(platform.close_port)
        await asyncio.to_thread(platform.add_inbound, *EVENTS[1:])  # an open poll gets at most the first of them
        await asyncio.to_thread(platform.open_port)
        await inbox.wait(len(EVENTS))
        await channel.stop()

    asyncio.run(main())
    assert inbox.received == EVENTS
    assert platform.account().counts == {}, "polls are not counted, because they run in the background"


@pytest.mark.parametrize("kind", ["keyed", "readback", "repeatable", "unkeyed"])
def test_only_the_channel_of_a_platform_that_looks_up_keys_reads_back(kind: str) -> None:
    address = SimulatorAddress(port=1, capabilities=capabilities_of(kind))
    assert isinstance(simulated_channel(address), Channel)
    assert isinstance(simulated_channel(address), ReadsBack) is (kind == "readback")


def content(error: ChannelFault) -> tuple[object, ...]:
    return type(error), str(error), getattr(error, "retry_after", None), getattr(error, "everywhere", None)


@pytest.mark.parametrize(("fault", "error", "seen"), TRANSLATIONS)
def test_faults_are_translated(platform: PlatformProcess, fault: Fault, error: ChannelFault, seen: bool) -> None:
    platform.add_faults(fault)
    with pytest.raises(ChannelFault) as over_tcp:
        asyncio.run(send(simulated_channel(platform.address), "one"))
    assert content(over_tcp.value) == content(error)
    assert platform.texts("here") == ["one"] * seen

    near = SimulatedPlatform(capabilities_of("readback"))
    near.script.add(fault)

    async def main(simulation: Simulation) -> None:
        await send(in_process_channel(near, simulation.clock), "one")

    with pytest.raises(ChannelFault) as in_process:
        run(main)
    assert content(in_process.value) == content(error)
    assert near.texts("here") == ["one"] * seen


def test_closed_port_is_surely_not_sent_and_opens_again_as_the_same(platform: PlatformProcess) -> None:
    channel = simulated_channel(platform.address)

    async def main() -> None:
        platform.close_port()
        for attempt in (channel.start(RecordingInbox()), send(channel, "one")):
            with pytest.raises(NotSent, match="could not be reached"):
                await attempt
        platform.open_port()
        await send(channel, "two")

    asyncio.run(main())
    assert platform.texts("here") == ["two"]


def test_unreachable_platform_is_a_fault_only_in_this_process(platform: PlatformProcess) -> None:
    with pytest.raises(ValueError, match="use close_port"):
        platform.add_faults(Unreachable())
    near = SimulatedPlatform(capabilities_of("unkeyed"))
    near.script.add(Unreachable())

    async def main(simulation: Simulation) -> None:
        await send(in_process_channel(near, simulation.clock), "one")

    with pytest.raises(NotSent, match="could not be reached"):
        run(main)


@pytest.mark.parametrize(("fault", "seen"), [(NoAnswer(), True), (NoAnswer(applied=False), False)])
def test_call_without_an_answer_can_be_cancelled(platform: PlatformProcess, fault: Fault, seen: bool) -> None:
    platform.add_faults(fault)

    async def main() -> None:
        call = asyncio.create_task(send(simulated_channel(platform.address), "one"))
        await asyncio.to_thread(platform.wait, calls=1)
        assert not call.done()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert platform.texts("here") == ["one"] * seen


def test_wait_returns_when_a_late_message_is_visible(platform: PlatformProcess) -> None:
    platform.add_faults(Late(0.05, answered=True))
    asyncio.run(send(simulated_channel(platform.address), "one"))
    assert [message.text for message in platform.wait(messages=1, chat="here").messages] == ["one"]


def test_delayed_answer_delays_no_other_call(platform: PlatformProcess) -> None:
    platform.add_faults(Delayed(0.05))
    channel = simulated_channel(platform.address)

    async def main() -> None:
        slow = asyncio.create_task(send(channel, "slow", "k1"))
        await asyncio.to_thread(platform.wait, calls=1)
        await send(channel, "quick", "k2")
        await slow

    asyncio.run(main())
    assert platform.texts("here") == ["slow", "quick"]


def test_answers_come_out_of_order_if_one_is_delayed() -> None:
    async def main(simulation: Simulation) -> list[str]:
        channel = channel_in(simulation, Delayed(10.0))
        answered: list[str] = []

        async def send_one(text: str) -> None:
            await send(channel, text, text)
            answered.append(text)

        await asyncio.gather(send_one("slow"), send_one("quick"))
        assert channel.platform.texts("here") == ["slow", "quick"]
        return answered

    assert run(main) == ["quick", "slow"]


def test_rules_and_counts_of_the_process(platform: PlatformProcess) -> None:
    platform.add_faults(Rule(fault=Refuse(), kind="typing"), Rule(fault=TooMany(), chat="elsewhere"))
    channel = simulated_channel(platform.address)

    async def main() -> None:
        await send(channel, "x")
        with pytest.raises(SendRefused):
            await channel.typing(Typing(target=HERE))

    asyncio.run(main())
    report = platform.account()
    assert report.counts == {"post": 1, "typing": 1}
    assert [(call.kind, call.key, call.fault) for call in report.calls] == [
        ("post", "k", ""),
        ("typing", "", "refuse"),
    ]
    assert [rule.chat for rule in report.unspent] == ["elsewhere"]


def test_big_body_passes_the_socket_and_a_bigger_one_is_refused_by_the_platform() -> None:
    capabilities = Capabilities(idempotency=capabilities_of("keyed").idempotency, limit=300_000)
    with PlatformProcess(capabilities, enforces_rates=True, seed=7, slack_s=0.1) as platform:
        channel = simulated_channel(platform.address)
        asyncio.run(send(channel, "x" * 300_000))
        with pytest.raises(SendRefused, match="too long"):
            asyncio.run(send(channel, "x" * 300_001, "k2"))
        report = platform.account()
    assert [len(message.text) for message in report.messages] == [300_000]
    assert [complaint.about for complaint in report.complaints] == ["size"]


def test_process_refuses_calls_above_the_rates() -> None:
    with PlatformProcess(
        capabilities_of("unkeyed", per_chat=Rate(calls=1, per_s=3600.0)), enforces_rates=True
    ) as platform:
        channel = simulated_channel(platform.address)
        asyncio.run(send(channel, "one"))
        with pytest.raises(NotSent) as refusal:
            asyncio.run(send(channel, "two"))
    assert refusal.value.retry_after is not None
    assert 0.0 < refusal.value.retry_after <= 3600.0


def test_process_ends_with_its_input_and_on_sigterm() -> None:
    command = [sys.executable, "-m", "tailrace.testing.platform_process", "--kind", "keyed:5"]
    for end in ("input", "signal"):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            ports = msgspec.json.decode(process.stdout.readline(), type=dict[str, int])
            with socket.create_connection(("127.0.0.1", ports["port"])) as connection:
                connection.sendall(
                    b'{"request": "call", "operation": {"do": "typing", "target": {"channel": "s", "chat": "c"}}}\n'
                )
                assert connection.makefile().readline() == '{"answer":"done","message_id":""}\n'
                # The connection is still open: it does not keep the process alive.
                if end == "input":
                    process.stdin.close()
                else:
                    os.kill(process.pid, signal.SIGTERM)
                assert process.wait(20) == 0


def test_channel_reads_its_address_from_the_environment(platform: PlatformProcess) -> None:
    program = """
import asyncio
from tailrace.operations import Body, Post, Target
from tailrace.testing.simulated import simulated_channel
post = Post(target=Target(channel="simulated", chat="here"), body=Body(text="hi"))
asyncio.run(simulated_channel().post(post, key="k"))
"""
    environment = {**os.environ, **platform.environment}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=30)
    assert platform.texts("here") == ["hi"]


def test_channel_without_an_address_says_what_to_set() -> None:
    assert "TAILRACE_SIMULATOR" not in os.environ
    with pytest.raises(UsageError, match="TAILRACE_SIMULATOR"):
        simulated_channel()


def channel_in(simulation: Simulation, *rules: Rule | Fault, source: random.Random | None = None) -> InProcessChannel:
    platform = SimulatedPlatform(capabilities_of("unkeyed"))
    platform.script.add(*rules)
    return in_process_channel(platform, simulation.clock, request_s=1.0, answer_s=2.0, source=source)


def test_request_and_answer_in_this_process_take_time() -> None:
    async def main(simulation: Simulation) -> None:
        channel = channel_in(simulation, Rule(fault=Delayed(10.0), at=2))
        await send(channel, "one")
        assert (simulation.clock.monotonic(), channel.platform.history()[0].at) == (3.0, 1.0)
        await send(channel, "two")
        assert simulation.clock.monotonic() == 16.0

    run(main)


def test_latency_varies_with_the_seed() -> None:
    async def main(simulation: Simulation) -> float:
        channel = channel_in(simulation, source=simulation.source)
        await send(channel, "one")
        return simulation.clock.monotonic()

    times = [run(main, seed=seed) for seed in range(20)]
    assert len(set(times)) == 20
    assert all(1.5 <= taken <= 4.5 for taken in times)
    assert run(main, seed=3) == times[3]


def test_call_that_is_cancelled_before_it_arrives_is_not_performed() -> None:
    async def main(simulation: Simulation) -> list[int]:
        seen: list[int] = []
        for after_s in (0.5, 1.5):
            channel = channel_in(simulation)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(after_s):
                    await send(channel, "one")
            seen.append(len(channel.platform.history()))
        return seen

    assert run(main) == [0, 1]


def test_call_without_an_answer_in_this_process_waits_for_ever() -> None:
    async def main(simulation: Simulation) -> None:
        await send(channel_in(simulation, NoAnswer()), "one")

    with pytest.raises(Deadlock):
        run(main)


def test_platform_in_this_process_uses_the_monotonic_clock() -> None:
    async def main(simulation: Simulation) -> list[str]:
        clock: VirtualClock = simulation.clock
        channel = in_process_channel(SimulatedPlatform(capabilities_of("keyed:60")), clock)
        for text in ("one", "one", "one"):
            await send(channel, text)
            clock.jump(86_400.0)
            await asyncio.sleep(30.0)
        return channel.platform.texts("here")

    assert run(main) == ["one", "one"]
