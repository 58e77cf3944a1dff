"""Shows the events of a turn to one person: through the courier, or by the methods of an extension's channel.

Each presenter has `present`, which reads all events of the turn and returns the text that the person got.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from tailrace.deliveries import TurnState
from tailrace.delivery.presenting import present
from tailrace.errors import ExtensionFault
from tailrace.events import Error, Status, ToolStarted, TurnCancelled, TurnFailed
from tailrace.gateway.extension_call import call_extension
from tailrace.operations import Body, Post
from tailrace.ports import ChannelProvider
from tailrace.projector import TurnText
from tailrace.projector.wording import failure_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable

    from tailrace.delivery import Courier
    from tailrace.events import Event
    from tailrace.operations import Target
    from tailrace.ports import StreamingChannelProvider
    from tailrace.projector import ProjectorSettings

_log = logging.getLogger(__name__)

_CALL_S = 30.0
_SNAPSHOT_EVERY_S = 1.0


class Presenter(Protocol):
    """Shows one turn."""

    async def present(self, turn_id: str, events: AsyncIterable[Event]) -> str:
        """Show the events. Returns the text that the person got, with the error of a turn that failed."""
        ...


class AnswerReader:
    """Reads the events of a turn for their text. `text` has the error too, if the turn failed."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self.is_cancelled = False
        self._text = TurnText()

    @property
    def partial(self) -> str:
        """The text of the agent, without an error."""
        return self._text.text

    @property
    def text(self) -> str:
        """What people read: the text of the agent, and the error."""
        if self.failure is None:
            return self.partial
        return f"{self.partial}\n\n(Error: {self.failure})" if self.partial else f"(Error: {self.failure})"

    @property
    def end_state(self) -> TurnState:
        """How the turn ended."""
        if self.is_cancelled:
            return TurnState.CANCELLED
        return TurnState.DONE if self.failure is None else TurnState.FAILED

    def feed(self, event: Event) -> str:
        """Process an event. Returns the new text."""
        match event:
            case TurnFailed():
                self.failure = failure_text(event)
            case TurnCancelled():
                self.is_cancelled = True
            case _:
                pass
        return self._text.feed(event)

    async def reading(self, events: AsyncIterable[Event]) -> AsyncGenerator[Event, None]:
        """The same events, each of them read here first."""
        async for event in events:
            self.feed(event)
            yield event


class CourierPresenter:
    """Shows a turn by the projector, and sends it by the courier. `needs_text`: whether `present` returns the text.

    With `shows_typing=False` people see nothing before the answer, because no person waits for it.
    """

    def __init__(
        self,
        courier: Courier,
        target: Target,
        settings: ProjectorSettings,
        *,
        needs_text: Callable[[], bool],
        shows_typing: bool = True,
    ) -> None:
        self._courier = courier
        self._target = target
        self._settings = settings
        self._needs_text = needs_text
        self._shows_typing = shows_typing

    async def present(self, turn_id: str, events: AsyncIterable[Event]) -> str:
        """Begin the turn in the ledger and present it. A turn that has ended already is not shown again."""
        reader = AnswerReader()
        shown = reader.reading(events) if self._needs_text() else events
        turn = await self._courier.begin(turn_id, self._target)
        capabilities = self._courier.capabilities(self._target)
        if not self._shows_typing:
            capabilities = replace(capabilities, typing_s=None)
        await present(shown, turn, capabilities, self._settings, clock=self._courier.clock)
        return reader.text


class RecordedPresenter:
    """Sends the whole answer as one message of the courier, for channels that take only whole answers."""

    def __init__(self, courier: Courier, target: Target) -> None:
        self._courier = courier
        self._target = target

    async def present(self, turn_id: str, events: AsyncIterable[Event]) -> str:
        """Begin the turn in the ledger, read it, and send its text."""
        turn = await self._courier.begin(turn_id, self._target)
        try:
            if turn.is_finished:
                return ""
            reader, clock = AnswerReader(), self._courier.clock
            offered_at = clock.monotonic()
            async for _ in reader.reading(events):
                if (now := clock.monotonic()) - offered_at >= _SNAPSHOT_EVERY_S:
                    offered_at = now
                    turn.save_snapshot(reader.partial)
            posts = [Post(target=self._target, body=Body(text=reader.text))] if reader.text else []
            await turn.end(*posts, state=reader.end_state)
            return reader.text
        finally:
            turn.close()


class ProviderPresenter:
    """Gives the whole answer to `send_to_user`."""

    def __init__(self, channel: ChannelProvider, user_id: str) -> None:
        self._channel = channel
        self._user_id = user_id

    async def present(self, turn_id: str, events: AsyncIterable[Event]) -> str:  # noqa: ARG002 -- the port has it
        """Read the turn, then send its text. An empty text is not sent."""
        reader = AnswerReader()
        async for _ in reader.reading(events):
            pass
        if reader.text:
            channel = self._channel
            try:
                await call_extension(channel.name, channel.send_to_user, self._user_id, reader.text, timeout_s=_CALL_S)
            except ExtensionFault as error:
                _log.warning("%s", error)
        return reader.text


class StreamingPresenter:
    """Calls the four streaming methods of a channel. A method that fails does not stop the turn.

    If a method does not return in time, no further pieces are shown: the call at the end has the whole text.
    """

    def __init__(self, channel: StreamingChannelProvider, user_id: str) -> None:
        self.reader = AnswerReader()
        self._channel = channel
        self._user_id = user_id
        self._hangs = False

    async def present(self, turn_id: str, events: AsyncIterable[Event]) -> str:  # noqa: ARG002 -- the port has it
        """Show the events as they come. Use a new presenter for each turn."""
        if not await self.stream(events) and self.reader.text and isinstance(self._channel, ChannelProvider):
            await self._call(self._channel.send_to_user, self.reader.text)
        return self.reader.text

    async def stream(self, events: AsyncIterable[Event]) -> bool:
        """Show the events as they come. Returns whether the channel has shown the end."""
        channel, reader = self._channel, self.reader
        try:
            await self._call(channel.on_stream_start)
            async for event in events:
                if (text := reader.feed(event)) and not self._hangs:
                    await self._call(channel.on_stream_chunk, text)
                if (status := _status_of(event)) is not None and not self._hangs:
                    await self._call(channel.on_stream_status, status)
        except BaseException:
            # Also if the caller was cancelled: a channel that has begun to show an answer gets its end.
            await asyncio.shield(self._call(channel.on_stream_end, reader.text))
            raise
        return await self._call(channel.on_stream_end, reader.text)

    async def _call(self, method: Callable[..., Awaitable[None]], *arguments: str) -> bool:
        """Call a method. Returns whether it worked; a failure is logged."""
        try:
            await call_extension(self._channel.name, method, self._user_id, *arguments, timeout_s=_CALL_S)
        except ExtensionFault as error:
            self._hangs = self._hangs or error.hangs
            _log.warning("%s", error)
            return False
        return True


class RecordedStreamingPresenter:
    """Lets a channel show a turn by its streaming methods, and records that the turn begins and ends.

    If the channel cannot show the end, the whole text is a delivery, where the channel can take one.
    """

    def __init__(self, courier: Courier, target: Target, channel: StreamingChannelProvider) -> None:
        self._courier = courier
        self._target = target
        self._channel = channel

    async def present(self, turn_id: str, events: AsyncIterable[Event]) -> str:
        """Begin the turn in the ledger and show it. After a crash, a line says that it was interrupted."""
        turn = await self._courier.begin(turn_id, self._target)
        try:
            if turn.is_finished:
                return ""
            streaming = StreamingPresenter(self._channel, self._target.chat)
            is_shown = await streaming.stream(events)
            reader, posts = streaming.reader, list[Post]()
            if not is_shown and reader.text and isinstance(self._channel, ChannelProvider):
                posts.append(Post(target=self._target, body=Body(text=reader.text)))
            await turn.end(*posts, state=reader.end_state)
            return reader.text
        finally:
            turn.close()


def _status_of(event: Event) -> str | None:
    """The status that people see for this event, if any."""
    match event:
        case ToolStarted(parent_tool_id=None):
            return f"Using: {event.name}"
        case Status(parent_tool_id=None):
            return event.text
        case Error(parent_tool_id=None):
            return f"⚠️ {failure_text(event)}"
        case _:
            return None
