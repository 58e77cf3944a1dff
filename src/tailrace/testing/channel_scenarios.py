"""What the tests in the contract of a channel use: the setup that you write, sample events, and checks.

The tests are in `channel_contract`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from tailrace.capabilities import Capabilities
from tailrace.errors import AccessLost, ChannelFault, LedgerUnavailable, MaybeSent, NotSent, SendRefused
from tailrace.inbound import Attachment, ButtonPress, Inbound, InboundMessage, InboundNotice, Sender
from tailrace.operations import Body, Post, Receipt, Target
from tailrace.ports import DiffersByChat

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tailrace.ports import Channel, Inbox

Failure: TypeAlias = Literal["refused", "rate_limited", "no_connection", "reset", "access_lost", "no_answer", "closed"]

# The error that a call must raise, for each kind of failure. For the other kinds the channel itself raises none.
FAULTS: dict[Failure, type[ChannelFault]] = {
    "refused": SendRefused,
    "rate_limited": NotSent,
    "no_connection": NotSent,
    "reset": MaybeSent,
    "access_lost": AccessLost,
}
RETRY_AFTER_S = 3600.0
FILE = b"the content of every attachment"
PRIVATE = "PRIVATE-TEXT-OF-THE-MESSAGE"
TEXTS = (
    "👩‍👩‍👧‍👦 🇫🇷 👍🏽 e\u0301 क्षि",
    "עברית and العربية \u2067isolated\u2069 \u200e",
    "a\tb\x07\x1b[31mred\x7f",
    "  two\n\n\n  lines, <b>&amp;</b> *_`~|\\ @all #1 https://example.org/?a=b&c",
)
_FILE_NAME = "../../etc/\u202epasswd"
_PERSON = Sender(id="7", name="C:\\Ann / ..\\")


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """What a person sees in the chat beside the texts. None: the setup cannot tell.

    `buttons` are the labels below all messages, `commands` the names in the menu of the bot.
    """

    buttons: tuple[str, ...] | None = None
    reactions: tuple[str, ...] | None = None
    drafts: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None


class ChannelSetup:
    """The channel under test, and the platform behind it. Subclass it and implement the methods for your platform."""

    target: Target
    """A chat where the account may write; in a thread, if the platform has streams only there."""

    secret = ""
    """The token of the account, which no error may contain."""

    timeout_s = 10.0
    """How long a test may take before it fails. Set a higher value if calls wait for a rate limit."""

    async def channel(self) -> Channel:
        """Create a new channel to the platform, not started. All channels of a setup have the same account."""
        raise NotImplementedError

    async def texts(self) -> list[str]:
        """The texts that a person sees in the chat, in their order."""
        raise NotImplementedError

    async def signs(self) -> Signs:
        """What the person sees beside the texts, as far as the setup can tell."""
        return Signs()

    def shown(self, text: str) -> str:
        """The text as the platform shows it. Override this if the platform changes texts."""
        return text

    async def calls(self) -> int | None:
        """The number of operations that the platform was asked for. None if it does not count them."""
        return None

    async def fail(self, failure: Failure) -> bool:  # noqa: ARG002  for subclasses
        """Let the next call fail in this way. Returns False if the platform cannot fail in this way.

        `rate_limited`: the platform asks for a wait of `RETRY_AFTER_S`. `reset`: it ends the connection after it has
        read the request. `no_answer`: it reads the request and never answers. `closed`: it ends the connection of a
        started channel for good, for example because the token was revoked.
        """
        return False

    async def act(self, inbound: Inbound) -> bool:  # noqa: ARG002  for subclasses
        """Let a person do what `inbound` says. Returns False if the channel does not receive this kind of event.

        The channel may then report other ids, because the platform chooses them. The content of an attachment is
        `FILE`.
        """
        return False

    async def close(self) -> None:
        """Release everything. Called once, at the end of a test."""


class RecordingInbox:
    """An inbox that keeps the events. Its first calls, as many as `failures` says, raise `LedgerUnavailable`."""

    def __init__(self, failures: int = 0) -> None:
        self.received: list[Inbound] = []
        self.attempts = 0
        self._failures = failures
        self._changed = asyncio.Condition()

    async def receive(self, inbound: Inbound) -> None:
        """Keep the event, or raise `LedgerUnavailable` if this is one of the first `failures` calls."""
        async with self._changed:
            self.attempts += 1
            self._changed.notify_all()
            if self.attempts <= self._failures:
                raise LedgerUnavailable("the disk is full")
            self.received.append(inbound)

    async def wait(self, events: int = 0, *, attempts: int = 0) -> None:
        """Wait until `events` events were kept and `receive` was called `attempts` times."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.received) >= events and self.attempts >= attempts)


class _HasSetup(Protocol):
    """A test class that creates the setup."""

    def setup_in(self, folder: Path) -> ChannelSetup:
        """Create the setup of one test."""
        ...


def scenario(play: Callable[[Any, ChannelSetup], Awaitable[None]]) -> Callable[[_HasSetup, Path], None]:
    """Decorate a test method, so that pytest calls it with a new setup and with a timeout."""

    def test(self: _HasSetup, tmp_path: Path) -> None:
        async def run_test() -> None:
            setup = self.setup_in(tmp_path)
            try:
                async with asyncio.timeout(setup.timeout_s):
                    await play(self, setup)
            except TimeoutError as error:
                raise AssertionError(
                    f"not done after {setup.timeout_s:g} s: a channel must not wait or hang"
                ) from error
            finally:
                await setup.close()

        asyncio.run(run_test())

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


@asynccontextmanager
async def started(setup: ChannelSetup, inbox: Inbox | None = None) -> AsyncIterator[Channel]:
    """A channel that is started, and stopped at the end of the block."""
    channel = await setup.channel()
    await channel.start(inbox or RecordingInbox())
    try:
        yield channel
    finally:
        await channel.stop()


async def post(channel: Channel, setup: ChannelSetup, text: str, *, key: str = "") -> str:
    """Send a text and return the id of its message. The default key depends on the text."""
    body = Body(text=text)
    return id_of(await channel.post(Post(target=setup.target, body=body), key=key or f"key-{text[:8].strip()}"))


def id_of(receipt: Receipt) -> str:
    """Check that a receipt has an id, and return the id."""
    assert isinstance(receipt, Receipt), f"the result must be a Receipt, not {receipt!r}"
    assert isinstance(receipt.message_id, str), f"the id must be text, not {receipt.message_id!r}"
    assert receipt.message_id, "the id must not be empty"
    return receipt.message_id


async def fault_of(call: Awaitable[object]) -> ChannelFault:
    """Await a call that must fail, and return the error that it raises."""
    try:
        result = await call
    except ChannelFault as fault:
        return fault
    except Exception as error:
        raise AssertionError(f"a channel raises a ChannelFault, not {error!r}") from error
    raise AssertionError(f"the call must raise a ChannelFault, but it returned {result!r}")


def check_fault(fault: ChannelFault, setup: ChannelSetup, text: str) -> None:
    """Check that the text of an error may be shown to people: it has neither the secret nor the text of the message."""
    shown = f"{fault} {fault!r}"
    assert str(fault).strip(), "a fault must say what happened"
    assert text not in shown, "a fault must not contain the text of the message"
    assert not setup.secret or setup.secret not in shown, "a fault must not contain the token"


def check_gone(fault: ChannelFault) -> None:
    """Check that an error says that the message does not exist any more."""
    assert isinstance(fault, SendRefused), f"a message that is gone is SendRefused, not {fault!r}"
    assert fault.gone, "a message that is gone is SendRefused with gone=True"


async def check_signs(setup: ChannelSetup, kind: str, *expected: str) -> None:
    """Check the buttons, reactions, drafts or commands that a person sees, if the setup can tell."""
    seen = getattr(await setup.signs(), kind)
    assert seen is None or seen == expected, f"the {kind} must be {expected}, and people see {seen}"


def check_inbound(received: Inbound, sent: Inbound) -> None:
    """Check that a received event is valid and says what the person did."""
    try:
        again = msgspec.json.decode(msgspec.json.encode(received), type=Inbound)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise AssertionError(f"the event has a field of a wrong type ({error}): {received!r}") from error
    assert again == received, f"the event has a field of a wrong type: {received!r}"
    assert received.event_id, "the event has no id"
    assert type(received) is type(sent), f"{sent!r} arrived as {received!r}"
    assert _content(received) == _content(sent), f"{sent!r} arrived as {received!r}"


def _content(event: Inbound) -> tuple[object, ...]:
    """The parts of an event that the platform does not choose."""
    place = event.channel, event.target.channel, event.target.chat
    match event:
        case InboundMessage():
            return *place, event.text, event.sender.name, [attachment.name for attachment in event.attachments]
        case ButtonPress():
            return *place, event.value, event.sender.name
        case InboundNotice():
            return *place, event.kind, event.moved_to


def events_of_people(channel: Channel, target: Target) -> list[Inbound]:
    """Events that a person may cause; the first message has a file."""
    attachment = Attachment(id="file-1", name=_FILE_NAME, mime="text/plain", size=len(FILE))
    with_file = InboundMessage(
        channel=channel.name,
        event_id="1",
        target=target,
        text="look",
        sender=_PERSON,
        attachments=(attachment,),
        message_id="1",
    )
    messages = [
        replace(with_file, event_id=str(number), message_id=str(number), text=text, attachments=())
        for number, text in enumerate(TEXTS, start=2)
    ]
    notice = InboundNotice(channel=channel.name, event_id="9", target=target, kind="removed")
    return [with_file, *messages, notice]


def press(channel: Channel, target: Target, value: str, message_id: str) -> ButtonPress:
    """A press of the button with this value."""
    return ButtonPress(
        channel=channel.name,
        event_id=f"press-{value}",
        target=target,
        value=value,
        sender=_PERSON,
        message_id=message_id,
    )


def capabilities_in(channel: Channel, target: Target) -> Capabilities:
    """What the channel can do in this chat."""
    capabilities = channel.capabilities_of(target) if isinstance(channel, DiffersByChat) else channel.capabilities
    assert isinstance(capabilities, Capabilities), f"capabilities must be a value of that type, not {capabilities!r}"
    return capabilities


def text_of_size(size: int, unit: str) -> str:
    """A text of exactly `size` units: characters, UTF-16 units or bytes, as `unit` says."""
    of_emoji = {"code_points": 1, "utf16": 2, "utf8_bytes": 4}[unit]
    return "😀" * (size // of_emoji) + "x" * (size % of_emoji)


async def let_run(steps: int = 12) -> None:
    """Let other tasks run for `steps` rounds of the event loop."""
    for _ in range(steps):
        await asyncio.sleep(0)
