"""A channel and the simulated Telegram behind it, for the contract suite and for tests of their own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.channels.telegram import BotSettings, TelegramChannel
from tailrace.channels.telegram.client import MethodCall, TelegramClient
from tailrace.inbound import ButtonPress, Inbound, InboundMessage, InboundNotice
from tailrace.operations import Target
from tailrace.testing.channel_scenarios import FILE, RETRY_AFTER_S, ChannelSetup, Failure, RecordingInbox, Signs
from tailrace.testing.faults import Fault, LoseAccess, NoAnswer, Refuse, Reset, TooMany
from tailrace.testing.platforms.page import conversation
from tailrace.testing.platforms.telegram import (
    ChangeBotStatus,
    PressButton,
    SendFile,
    TelegramSettings,
    TelegramSimulator,
    WriteMessage,
)
from tailrace.testing.platforms.telegram.entities import FormattedText, finished
from tailrace.testing.platforms.telegram.world import TelegramUser
from tailrace.testing.platforms.visible import as_text
from token_canary import CANARY, shown_pages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tailrace.ports import Channel, Inbox

TOKEN = f"7000001:{CANARY}"
PERSON = TelegramUser(7, "C:\\Ann / ..\\")
HERE = Target(channel="telegram", chat="7")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + (4).to_bytes(4, "big") * 2
FREE = TelegramSettings(enforces_pace=False)

FAULTS: dict[Failure, Fault] = {
    "refused": Refuse(400, "the chat is odd"),
    "rate_limited": TooMany(RETRY_AFTER_S),
    "reset": Reset(),
    "access_lost": LoseAccess(),
    "no_answer": NoAnswer(),
}


class WatchedSimulator(TelegramSimulator):
    """A simulator whose pages are kept at its end."""

    async def __aexit__(self, *reason: Any) -> None:  # noqa: PYI036 -- passed on
        for chat in self.world.chats:
            seen = self.seen(chat)
            shown_pages.append(("page", conversation(seen, ())))
            shown_pages.append(("history", as_text(seen) + msgspec.json.encode(seen).decode()))
        shown_pages.append(("calls", msgspec.json.encode(self.calls).decode()))
        await super().__aexit__(*reason)


def simulator(settings: TelegramSettings = FREE, **more: Any) -> TelegramSimulator:
    """A simulator with the chat of one more person, which is its first."""
    found = WatchedSimulator(token=TOKEN, settings=settings, **more)
    chats = dict(found.world.chats)
    found.world.chats.clear()
    found.world.add_chat(PERSON.id, "private", PERSON.first_name, PERSON)
    found.world.chats.update(chats)
    return found


@asynccontextmanager
async def running(
    telegram: TelegramSimulator, inbox: Inbox | None = None, **settings: Any
) -> AsyncIterator[TelegramChannel]:
    """A started channel to this simulator."""
    channel = TelegramChannel(token=TOKEN, api_base=telegram.url, **settings)
    await channel.start(inbox or RecordingInbox())
    try:
        yield channel
    finally:
        await channel.stop()


def with_simulator(play: Callable[[TelegramSimulator], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test that plays with a simulator without rate limits."""

    def test() -> None:
        async def run() -> None:
            async with asyncio.timeout(30), simulator() as telegram:
                await play(telegram)

        asyncio.run(run())

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


async def steal_updates(telegram: TelegramSimulator) -> None:
    """Poll with the same token, as another program would, until the channel is told."""
    rival = TelegramClient(BotSettings(token=TOKEN, api_base=telegram.url))
    while not any(call.method == "getUpdates" and call.status == 409 for call in telegram.calls):
        await rival.call(MethodCall("getUpdates", {"timeout": 0}), list[Any])
    await rival.close()


class TelegramSetup(ChannelSetup):
    """The private chat of a person, without rate limits."""

    target = HERE
    secret = TOKEN

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._simulator: TelegramSimulator | None = None

    async def telegram(self) -> TelegramSimulator:
        if self._simulator is None:
            self._simulator = await simulator().__aenter__()
            files = self._simulator.world.files
            files["https://example.org/a.png"] = self._simulator.world.store("a.png", PNG, is_photo=True)
        return self._simulator

    async def close(self) -> None:
        if self._simulator is not None:
            await self._simulator.__aexit__(None, None, None)

    async def channel(self) -> Channel:
        return TelegramChannel(token=TOKEN, api_base=(await self.telegram()).url, **self._settings)

    async def texts(self) -> list[str]:
        return (await self.telegram()).texts(PERSON.id)

    async def signs(self) -> Signs:
        chat = (await self.telegram()).seen(PERSON.id)
        return Signs(
            buttons=tuple(button.text for message in chat.messages for row in message.buttons for button in row),
            reactions=tuple(emoji for message in chat.messages for emoji in message.reactions),
            drafts=tuple(draft.text for draft in chat.drafts),
            commands=tuple(name for name, _ in chat.commands),
        )

    def shown(self, text: str) -> str:
        return finished(FormattedText(text), entity_limit=100).text

    async def calls(self) -> int:
        return sum(call.method not in ("getUpdates", "getMe") for call in (await self.telegram()).calls)

    async def fail(self, failure: Failure) -> bool:
        telegram = await self.telegram()
        if failure == "closed":
            await steal_updates(telegram)
        elif failure in FAULTS:
            telegram.add_faults(FAULTS[failure])
        return failure == "closed" or failure in FAULTS

    async def act(self, inbound: Inbound) -> bool:
        telegram = await self.telegram()
        match inbound:
            case InboundMessage(attachments=(attachment,)):
                await telegram.act(SendFile(name=attachment.name, content=FILE, caption=inbound.text))
            case InboundMessage():
                await telegram.act(WriteMessage(text=inbound.text))
            case ButtonPress():
                message = telegram.world.chats[PERSON.id].messages[int(inbound.message_id)]
                rows = (message.content.keyboard or {})["inline_keyboard"]
                [label] = [b["text"] for row in rows for b in row if b["callback_data"] == inbound.value]
                await telegram.act(PressButton(button=label, message_id=message.message_id))
            case InboundNotice():
                await telegram.act(ChangeBotStatus(status="kicked"))
        return True
