"""The channels to a simulated platform, over a socket and in this process: same operations, same errors."""

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
from tailrace.errors import ChannelFault, MaybeSent, NotSent, SendRefused, UsageError
from tailrace.operations import Body, PostMedia, Receipt, Target, Task
from tailrace.ports import (
    Channel,
    Deletes,
    Edits,
    Inbox,
    ReadsBack,
    SendsMedia,
    ShowsDrafts,
    ShowsTyping,
    StreamsNatively,
)
from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    Late,
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

    from tailrace.deliveries import Inbound
    from tailrace.testing.simulated import InProcessChannel
    from tailrace.testing.wire import PlatformMessage

HERE = Target(channel="simulated", chat="here", thread="7")
ONE = Body(text="one")
KINDS = ["keyed", "readback", "repeatable", "unkeyed"]
TASK = Task(id="1", title="read")
DONE = Task(id="1", title="read", status="complete")

# A fault, the error that the caller gets, and whether people see the message.
TRANSLATIONS: list[tuple[Fault, ChannelFault, bool]] = [
    (Refuse(), SendRefused("the bot was blocked"), False),
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


class NoInbox:
    async def receive(self, inbound: Inbound) -> str:
        raise AssertionError(f"this channel has no inbound messages: {inbound}")


INBOX: Inbox = NoInbox()


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


async def use_every_operation(channel: Channel) -> Receipt | None:
    """Leaves one edited message, one that was a stream, one with a picture, and one that is deleted."""
    assert isinstance(channel, Edits)
    assert isinstance(channel, Deletes)
    assert isinstance(channel, ShowsTyping)
    assert isinstance(channel, SendsMedia)
    assert isinstance(channel, StreamsNatively)
    assert isinstance(channel, ShowsDrafts)
    await channel.start(INBOX)
    await channel.typing(HERE)
    await channel.draft(HERE, 7, Body(text="o"))
    with pytest.raises(SendRefused, match="private chats"):
        await channel.draft(msgspec.structs.replace(HERE, group=True), 7, Body(text="o"))
    posted = await channel.post(HERE, ONE, key="k1")
    assert await channel.edit(HERE, posted.message_id, Body(text="two")) == posted
    assert await channel.edit(HERE, posted.message_id, Body(text="two")) == posted, "not modified is edited"
    stream = await channel.open_stream(HERE, Body(text="a"), key="k2")
    await channel.append_stream(HERE, stream.message_id, "b", (TASK,))
    assert await channel.close_stream(HERE, stream.message_id, Body(text="abc"), (DONE,)) == stream
    media = PostMedia(target=HERE, url="x:picture", caption="look")
    shown = await channel.post_media(HERE, media, key="k3")
    gone = await channel.post(HERE, Body(text="gone"), key="k4")
    assert await channel.delete(HERE, gone.message_id) == await channel.delete(HERE, gone.message_id) == gone
    with pytest.raises(SendRefused) as refusal:
        await channel.edit(HERE, gone.message_id, Body(text="back"))
    assert refusal.value.gone
    await channel.stop()
    if not isinstance(channel, ReadsBack):
        return None
    assert await channel.find(HERE, "nobody") is None
    assert await channel.find(HERE, "k3") == shown
    return await channel.find(HERE, "k1")


SEEN = [
    ("two", 1, False, "", ()),
    ("abc", 0, False, "", (DONE,)),
    ("look", 0, False, "x:picture", ()),
    ("gone", 0, True, "", ()),
]


def parts_of(history: list[PlatformMessage]) -> list[tuple[object, ...]]:
    return [(message.text, message.edits, message.deleted, message.media, message.tasks) for message in history]


def test_every_operation_over_the_socket(platform: PlatformProcess) -> None:
    found = asyncio.run(use_every_operation(simulated_channel(platform.address)))
    history = platform.history("here")
    assert parts_of(history) == SEEN
    assert found == Receipt(message_id=history[0].message_id)
    assert {message.thread for message in history} == {"7"}
    assert platform.texts("here") == ["two", "abc", "look"]
    assert platform.account().complaints == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_in_this_process(kind: str) -> None:
    platform = SimulatedPlatform(capabilities_of(kind))

    async def main(simulation: Simulation) -> Receipt | None:
        return await use_every_operation(in_process_channel(platform, simulation.clock, request_s=0.1, answer_s=0.2))

    found = run(main)
    assert parts_of(platform.history()) == SEEN
    assert (found is not None) is (kind == "readback")


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_platform_with_readback_has_a_channel_that_reads_back(kind: str) -> None:
    address = SimulatorAddress(port=1, capabilities=capabilities_of(kind))
    assert isinstance(simulated_channel(address), Channel)
    assert isinstance(simulated_channel(address), ReadsBack) is (kind == "readback")


def description_of(error: ChannelFault) -> tuple[object, ...]:
    return type(error), str(error), getattr(error, "retry_after", None), getattr(error, "everywhere", None)


@pytest.mark.parametrize(("fault", "error", "seen"), TRANSLATIONS)
def test_each_fault_becomes_an_error_of_channels(
    platform: PlatformProcess, fault: Fault, error: ChannelFault, seen: bool
) -> None:
    platform.add_faults(fault)
    with pytest.raises(ChannelFault) as over_socket:
        asyncio.run(simulated_channel(platform.address).post(HERE, ONE, key="k"))
    assert description_of(over_socket.value) == description_of(error)
    assert platform.texts("here") == ["one"] * seen

    near = SimulatedPlatform(capabilities_of("readback"))
    near.script.add(fault)

    async def main(simulation: Simulation) -> None:
        await in_process_channel(near, simulation.clock).post(HERE, ONE, key="k")

    with pytest.raises(ChannelFault) as in_process:
        run(main)
    assert description_of(in_process.value) == description_of(error)
    assert near.texts("here") == ["one"] * seen


def test_a_call_to_a_closed_port_is_not_sent_and_the_port_can_open_again(platform: PlatformProcess) -> None:
    channel = simulated_channel(platform.address)

    async def main() -> None:
        platform.close_port()
        for attempt in (channel.start(INBOX), channel.post(HERE, ONE, key="k")):
            with pytest.raises(NotSent, match="could not be reached"):
                await attempt
        platform.open_port()
        await channel.start(INBOX)
        await channel.post(HERE, Body(text="two"), key="k")

    asyncio.run(main())
    assert platform.texts("here") == ["two"]


def test_only_in_this_process_a_fault_can_refuse_the_connection(platform: PlatformProcess) -> None:
    with pytest.raises(ValueError, match="close the port"):
        platform.add_faults(Unreachable())
    near = SimulatedPlatform(capabilities_of("unkeyed"))
    near.script.add(Unreachable())

    async def main(simulation: Simulation) -> None:
        await in_process_channel(near, simulation.clock).post(HERE, ONE, key="k")

    with pytest.raises(NotSent, match="could not be reached"):
        run(main)


@pytest.mark.parametrize(("fault", "seen"), [(NoAnswer(), True), (NoAnswer(applied=False), False)])
def test_a_call_without_an_answer_can_be_cancelled(platform: PlatformProcess, fault: Fault, seen: bool) -> None:
    platform.add_faults(fault)

    async def main() -> None:
        call = asyncio.create_task(simulated_channel(platform.address).post(HERE, ONE, key="k"))
        await asyncio.to_thread(platform.wait, calls=1)
        assert not call.done()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert platform.texts("here") == ["one"] * seen


def test_the_process_can_wait_for_a_late_message(platform: PlatformProcess) -> None:
    platform.add_faults(Late(0.05, answered=True))
    asyncio.run(simulated_channel(platform.address).post(HERE, ONE, key="k"))
    assert [message.text for message in platform.wait(messages=1, chat="here").messages] == ["one"]


def test_a_delayed_answer_does_not_delay_other_calls(platform: PlatformProcess) -> None:
    platform.add_faults(Delayed(0.05))
    channel = simulated_channel(platform.address)

    async def main() -> None:
        slow = asyncio.create_task(channel.post(HERE, Body(text="slow"), key="k1"))
        await asyncio.to_thread(platform.wait, calls=1)
        await channel.post(HERE, Body(text="quick"), key="k2")
        await slow

    asyncio.run(main())
    assert platform.texts("here") == ["slow", "quick"]


def test_a_delayed_answer_comes_after_later_ones() -> None:
    async def main(simulation: Simulation) -> list[str]:
        channel = channel_in(simulation, Delayed(10.0))
        answered: list[str] = []

        async def post(text: str) -> None:
            await channel.post(HERE, Body(text=text), key=text)
            answered.append(text)

        await asyncio.gather(post("slow"), post("quick"))
        assert channel.platform.texts("here") == ["slow", "quick"]
        return answered

    assert run(main) == ["quick", "slow"]


def test_the_process_applies_rules_and_counts_calls(platform: PlatformProcess) -> None:
    platform.add_faults(Rule(fault=Refuse(), kind="typing"), Rule(fault=TooMany(), chat="elsewhere"))
    channel = simulated_channel(platform.address)

    async def main() -> None:
        await channel.post(HERE, Body(text="x"), key="k")
        with pytest.raises(SendRefused):
            await channel.typing(HERE)

    asyncio.run(main())
    account = platform.account()
    assert account.counts == {"post": 1, "typing": 1}
    assert [(call.kind, call.key, call.fault) for call in account.calls] == [
        ("post", "k", ""),
        ("typing", "", "refuse"),
    ]
    assert [rule.chat for rule in account.unspent] == ["elsewhere"]


def test_the_platform_and_not_the_socket_limits_a_text() -> None:
    capabilities = Capabilities(idempotency=capabilities_of("keyed").idempotency, limit=300_000)
    with PlatformProcess(capabilities, refuses_pace=True, seed=7, slack_s=0.1) as platform:
        channel = simulated_channel(platform.address)
        asyncio.run(channel.post(HERE, Body(text="x" * 300_000), key="k"))
        with pytest.raises(SendRefused, match="too long"):
            asyncio.run(channel.post(HERE, Body(text="x" * 300_001), key="k2"))
        account = platform.account()
    assert [len(message.text) for message in account.messages] == [300_000]
    assert [complaint.about for complaint in account.complaints] == ["size"]


def test_the_process_enforces_the_rate() -> None:
    with PlatformProcess(
        capabilities_of("unkeyed", per_chat=Rate(calls=1, per_s=3600.0)), refuses_pace=True
    ) as platform:
        channel = simulated_channel(platform.address)
        asyncio.run(channel.post(HERE, ONE, key="k"))
        with pytest.raises(NotSent) as refusal:
            asyncio.run(channel.post(HERE, Body(text="two"), key="k"))
    assert refusal.value.retry_after is not None
    assert 0.0 < refusal.value.retry_after <= 3600.0


def test_the_process_ends_with_its_input_and_on_sigterm() -> None:
    command = [sys.executable, "-m", "tailrace.testing.platform_process", "--kind", "keyed:5"]
    for end in ("input", "signal"):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            ports = msgspec.json.decode(process.stdout.readline(), type=dict[str, int])
            with socket.create_connection(("127.0.0.1", ports["port"])) as connection:
                connection.sendall(b'{"operation": {"do": "typing", "target": {"channel": "s", "chat": "c"}}}\n')
                assert connection.makefile().readline() == '{"answer":"done","message_id":""}\n'
                # The connection is still open: it does not keep the process.
                if end == "input":
                    process.stdin.close()
                else:
                    os.kill(process.pid, signal.SIGTERM)
                assert process.wait(20) == 0


def test_a_process_finds_its_platform_by_the_environment(platform: PlatformProcess) -> None:
    program = """
import asyncio
from tailrace.operations import Body, Target
from tailrace.testing.simulated import simulated_channel
asyncio.run(simulated_channel().post(Target(channel="simulated", chat="here"), Body(text="hello"), key="k"))
"""
    environment = {**os.environ, **platform.environment}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=30)
    assert platform.texts("here") == ["hello"]


def test_a_channel_without_an_address_says_what_to_set() -> None:
    assert "TAILRACE_SIMULATOR" not in os.environ
    with pytest.raises(UsageError, match="TAILRACE_SIMULATOR"):
        simulated_channel()


def channel_in(simulation: Simulation, *rules: Rule | Fault, source: random.Random | None = None) -> InProcessChannel:
    platform = SimulatedPlatform(capabilities_of("unkeyed"))
    platform.script.add(*rules)
    return in_process_channel(platform, simulation.clock, request_s=1.0, answer_s=2.0, source=source)


def test_a_call_in_this_process_takes_time_there_and_back() -> None:
    async def main(simulation: Simulation) -> None:
        channel = channel_in(simulation, Rule(fault=Delayed(10.0), at=2))
        await channel.post(HERE, ONE, key="k")
        assert (simulation.clock.monotonic(), channel.platform.history()[0].at) == (3.0, 1.0)
        await channel.post(HERE, Body(text="two"), key="k")
        assert simulation.clock.monotonic() == 16.0

    run(main)


def test_the_time_of_a_call_varies_with_the_seed() -> None:
    async def main(simulation: Simulation) -> float:
        channel = channel_in(simulation, source=simulation.source)
        await channel.post(HERE, ONE, key="k")
        return simulation.clock.monotonic()

    times = [run(main, seed=seed) for seed in range(20)]
    assert len(set(times)) == 20
    assert all(1.5 <= taken <= 4.5 for taken in times)
    assert run(main, seed=3) == times[3]


def test_a_call_cancelled_before_it_arrives_has_no_effect() -> None:
    async def main(simulation: Simulation) -> list[int]:
        seen: list[int] = []
        for after_s in (0.5, 1.5):
            channel = channel_in(simulation)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(after_s):
                    await channel.post(HERE, ONE, key="k")
            seen.append(len(channel.platform.history()))
        return seen

    assert run(main) == [0, 1]


def test_a_call_without_an_answer_in_this_process_never_returns() -> None:
    async def main(simulation: Simulation) -> None:
        await channel_in(simulation, NoAnswer()).post(HERE, ONE, key="k")

    with pytest.raises(Deadlock):
        run(main)


def test_the_platform_in_this_process_uses_the_monotonic_clock() -> None:
    async def main(simulation: Simulation) -> list[str]:
        clock: VirtualClock = simulation.clock
        channel = in_process_channel(SimulatedPlatform(capabilities_of("keyed:60")), clock)
        for text in ("one", "one", "one"):
            await channel.post(HERE, Body(text=text), key="k")
            clock.jump(86_400.0)
            await asyncio.sleep(30.0)
        return channel.platform.texts("here")

    assert run(main) == ["one", "one"]
