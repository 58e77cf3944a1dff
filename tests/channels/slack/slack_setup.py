"""A channel and the simulated Slack behind it, for the contract suite and for tests of their own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from html import unescape
from typing import TYPE_CHECKING, Any

from tailrace.channels.slack import SlackChannel
from tailrace.inbound import ButtonPress, Inbound, InboundMessage, InboundNotice
from tailrace.operations import Target
from tailrace.testing.channel_scenarios import FILE, RETRY_AFTER_S, ChannelSetup, Failure, RecordingInbox, Signs
from tailrace.testing.faults import Fault, LoseAccess, NoAnswer, Refuse, Reset, TooMany
from tailrace.testing.platforms.slack import (
    ChangeBotMembership,
    PressInSlack,
    SendFileInSlack,
    SlackSettings,
    SlackSimulator,
    WriteInSlack,
)
from tailrace.testing.platforms.slack.world import SlackContent, SlackUser
from token_canary import CANARY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tailrace.ports import Channel, Inbox

TOKEN, APP_TOKEN = f"xoxb-{CANARY}", f"xapp-{CANARY}"
PERSON = SlackUser("U7", "C:\\Ann / ..\\")
CHAT = "C7"
QUICK = SlackSettings(enforces_pace=False, ack_s=0.2, retries_s=(0.2,) * 50)

FAULTS: dict[Failure, Fault] = {
    "refused": Refuse(200, "the chat is odd"),
    "rate_limited": TooMany(RETRY_AFTER_S),
    "reset": Reset(),
    "access_lost": LoseAccess(),
    "no_answer": NoAnswer(),
}


def simulator(settings: SlackSettings = QUICK, **more: Any) -> SlackSimulator:
    """A simulator with the channel of one more person, which is its first chat."""
    found = SlackSimulator(token=TOKEN, app_token=APP_TOKEN, settings=settings, **more)
    chats = dict(found.world.chats)
    found.world.chats.clear()
    found.world.add_chat(CHAT, "channel", "seven", PERSON)
    found.world.chats.update(chats)
    return found


def channel_to(slack: SlackSimulator, **settings: Any) -> SlackChannel:
    """A channel that receives over a socket, not started."""
    given = {"bot_token": TOKEN, "app_token": APP_TOKEN, "api_base": slack.api_base, "clock": slack.clock}
    return SlackChannel(**{**given, **settings})


@asynccontextmanager
async def running(slack: SlackSimulator, inbox: Inbox | None = None, **settings: Any) -> AsyncIterator[SlackChannel]:
    """A started channel to this simulator. With a socket, it is connected."""
    channel = channel_to(slack, **settings)
    await channel.start(inbox or RecordingInbox())
    if slack.world.socket_mode:
        await slack.wait_until(lambda: slack.connections > 0)
    try:
        yield channel
    finally:
        await channel.stop()


def with_simulator(play: Callable[[SlackSimulator], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test that plays with a simulator without rate limits."""

    def test() -> None:
        async def run() -> None:
            async with asyncio.timeout(30), simulator() as slack:
                await play(slack)

        asyncio.run(run())

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


class SlackSetup(ChannelSetup):
    """A thread in a channel, without rate limits."""

    secret = TOKEN

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._simulator = simulator()
        self._is_open = False
        world = self._simulator.world
        content = SlackContent(text="go")
        root = world.new_message(world.chats[CHAT], PERSON, content, self._simulator.clock())
        self.target = Target(channel="slack", chat=CHAT, thread=root.ts, group=True)

    async def slack(self) -> SlackSimulator:
        if not self._is_open:
            await self._simulator.__aenter__()
            self._is_open = True
        return self._simulator

    async def close(self) -> None:
        if self._is_open:
            await self._simulator.__aexit__(None, None, None)

    async def channel(self) -> Channel:
        return channel_to(await self.slack(), **self._settings)

    async def texts(self) -> list[str]:
        return (await self.slack()).texts(CHAT)

    async def signs(self) -> Signs:
        chat = (await self.slack()).seen(CHAT)
        return Signs(
            buttons=tuple(button.text for message in chat.messages for row in message.buttons for button in row),
            reactions=tuple(emoji for message in chat.messages for emoji in message.reactions),
        )

    def shown(self, text: str) -> str:
        return unescape(text)

    async def calls(self) -> int:
        uncounted = ("apps.connections.open", "auth.test", "users.info")
        return sum(call.method not in uncounted for call in (await self.slack()).calls)

    async def fail(self, failure: Failure) -> bool:
        if failure not in FAULTS:
            return False
        (await self.slack()).add_faults(FAULTS[failure])
        return True

    async def act(self, inbound: Inbound) -> bool:
        slack, thread = await self.slack(), inbound.target.thread
        match inbound:
            case InboundMessage(attachments=(attachment,)):
                await slack.act(SendFileInSlack(name=attachment.name, content=FILE, text=inbound.text, thread=thread))
            case InboundMessage():
                await slack.act(WriteInSlack(text=inbound.text, thread=thread))
            case ButtonPress():
                blocks = slack.world.chats[CHAT].messages[inbound.message_id].content.blocks
                [label] = [
                    element["text"]["text"]
                    for block in blocks
                    for element in block.get("elements", [])
                    if element["value"] == inbound.value
                ]
                await slack.act(PressInSlack(button=label, message_id=inbound.message_id))
            case InboundNotice():
                await slack.act(ChangeBotMembership(is_member=False))
        return True
