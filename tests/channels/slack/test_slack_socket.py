"""Socket Mode: lost, replaced and refused sockets, and frames that no Slack would send."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from slack_setup import CHAT, QUICK, channel_to, running, simulator, with_simulator

from tailrace.channels.slack.socket_mode import DEAD_S
from tailrace.errors import AccessLost, UsageError
from tailrace.inbound import InboundMessage
from tailrace.ports import ProvesLife
from tailrace.testing.channel_scenarios import RecordingInbox
from tailrace.testing.faults import RepeatUpdates, Rule, ServerError, Unreachable
from tailrace.testing.platforms.slack import SlackSimulator, WriteInSlack
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    from tailrace.testing.virtual_time import Simulation

OPEN = "apps.connections.open"


def opened(slack: SlackSimulator) -> int:
    """How often a socket was asked for."""
    return sum(call.method == OPEN for call in slack.calls)


def is_replaced(slack: SlackSimulator, sockets: int) -> bool:
    return opened(slack) == sockets and slack.connections >= 1


def texts(inbox: RecordingInbox) -> list[str]:
    return [each.text for each in inbox.received if isinstance(each, InboundMessage)]


@with_simulator
async def test_a_new_socket_takes_over_when_slack_asks_for_it(slack: SlackSimulator) -> None:
    inbox = RecordingInbox()
    async with running(slack, inbox):
        for number in range(3):
            await slack.disconnect("refresh_requested")
            await slack.wait_until(partial(is_replaced, slack, number + 2))
            await slack.act(WriteInSlack(chat=CHAT, text=str(number)))
            await inbox.wait(number + 1)
    assert texts(inbox) == ["0", "1", "2"]


@with_simulator
async def test_a_socket_that_cannot_be_opened_is_tried_again(slack: SlackSimulator) -> None:
    inbox = RecordingInbox()
    slack.add_faults(Rule(fault=Unreachable(), kind=OPEN), Rule(fault=ServerError(500), kind=OPEN))
    async with running(slack, inbox):
        await slack.act(WriteInSlack(chat=CHAT, text="hello"))
        await inbox.wait(1)
    assert opened(slack) == 3


@with_simulator
async def test_a_refused_socket_token_is_an_error_of_the_start(slack: SlackSimulator) -> None:
    slack.world.socket_mode = False
    with pytest.raises(AccessLost, match="Socket Mode is off: switch it on"):
        await channel_to(slack).start(RecordingInbox())
    with pytest.raises(AccessLost, match="does not accept the token"):
        await channel_to(slack, app_token="xapp-another").start(RecordingInbox())
    with pytest.raises(UsageError, match="can receive nothing: set app_token"):
        await channel_to(slack, app_token="").start(RecordingInbox())


@with_simulator
async def test_a_revoked_token_pauses_the_channel_until_it_is_valid_again(slack: SlackSimulator) -> None:
    async with running(slack) as channel:
        await slack.revoke_token()
        await slack.disconnect("link_disabled")
        await slack.wait_until(lambda: slack.calls[-1].rule == "token_revoked")
        closed = asyncio.create_task(channel.wait_closed())
        await asyncio.sleep(0)
        assert not closed.done(), "the channel waits for a valid token"
        closed.cancel()


ENVELOPE = {"envelope_id": "e1", "type": "events_api"}


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "no JSON",
        "[" * 5000,
        '{"type": 5}',
        '{"type": "events_api", "envelope_id": {}}',
        '{"type": "hello"}',
        json.dumps({**ENVELOPE, "payload": {"type": "event_callback", "event": {"type": "message", "ts": []}}}),
        json.dumps({**ENVELOPE, "payload": 5}),
        json.dumps({**ENVELOPE, "type": "unknown", "payload": {}}),
        '{"envelope_id": "e1", "type": "events_api", "payload": ' + "[" * 5000 + "]" * 5000 + "}",
        json.dumps({**ENVELOPE, "payload": {"text": "x" * 2_000_000}}),
    ],
    ids=lambda frame: frame[:40],
)
def test_a_strange_frame_is_skipped(frame: str) -> None:
    async def play() -> None:
        inbox = RecordingInbox()
        async with asyncio.timeout(30), simulator(QUICK) as slack, running(slack, inbox):
            await slack.send_frame(frame)
            await slack.act(WriteInSlack(chat=CHAT, text="hello"))
            await inbox.wait(1)
            assert texts(inbox)[0] == "hello"

    asyncio.run(play())


@with_simulator
async def test_a_repeated_event_has_the_same_event_id(slack: SlackSimulator) -> None:
    inbox = RecordingInbox()
    slack.add_faults(Rule(fault=RepeatUpdates(), kind="socket"))
    async with running(slack, inbox):
        await slack.act(WriteInSlack(chat=CHAT, text="hello"))
        await inbox.wait(2)
    assert len({event.event_id for event in inbox.received}) == 1


@with_simulator
async def test_an_error_of_the_inbox_ends_the_connection(slack: SlackSimulator) -> None:
    class BrokenInbox(RecordingInbox):
        async def receive(self, inbound: object) -> None:
            raise ValueError(f"no place for {type(inbound).__name__}")

    async with running(slack, BrokenInbox()) as channel:
        await slack.act(WriteInSlack(chat=CHAT, text="hello"))
        with pytest.raises(ValueError, match="no place for InboundMessage"):
            await channel.wait_closed()


def test_an_idle_socket_proves_again_and_again_that_it_works() -> None:
    async def scene(simulation: Simulation) -> None:
        async with simulator(clock=simulation.clock.wall) as slack, running(slack) as channel:
            assert isinstance(channel, ProvesLife)
            ages = []
            for _ in range(200):
                await asyncio.sleep(1)
                ages.append(asyncio.get_running_loop().time() - channel.alive_at)
            assert 5 < max(ages) <= channel.proof_every_s == DEAD_S
            assert opened(slack) == 1

    run(scene, sockets=True)
