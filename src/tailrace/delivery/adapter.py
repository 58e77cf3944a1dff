"""The delivery adapter: the events of one turn go in, replies come out through four callbacks.

It is for programs that send messages themselves. It owns the order (buffered text goes out before a tool result, a
medium or an error) and decides which callback gets which reply. `tailrace.markdown` cuts the text, and
`tailrace.contract` defines a turn. The adapter sends nothing and keeps nothing between turns.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tailrace.contract import ADAPTER_FAULTS, checked
from tailrace.delivery.buffer import TextBuffer
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Event,
    Media,
    ModelChanged,
    Notice,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.markdown import Part, Splitter
from tailrace.projector.wording import failure_text
from tailrace.redaction import redact

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

_log = logging.getLogger(__name__)


class DeliveryAdapterOptions(msgspec.Struct, frozen=True):
    """Where the adapter cuts the text of a turn into replies.

    A reply has at most `chunk_limit` characters. With `flush_at_paragraphs`, a reply also ends at each blank line
    outside code.
    """

    chunk_limit: int = 4000
    flush_at_paragraphs: bool = False

    def __post_init__(self) -> None:
        if self.chunk_limit < 1:
            raise ValueError(f"chunk_limit is {self.chunk_limit}; it must be at least 1")


class ReplyPayload(msgspec.Struct):
    """One reply of a turn. `delivered` becomes true when a callback has taken the reply without raising an error."""

    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()
    delivered: bool = False


Callback: TypeAlias = Callable[[ReplyPayload], Awaitable[None]]


class BridgeCallbacks(msgspec.Struct, frozen=True):
    """The callbacks for replies. Each is an async callable that takes a `ReplyPayload`, or None."""

    on_partial_reply: Callback | None = None
    on_block_reply: Callback | None = None
    on_tool_result: Callback | None = None
    on_thinking: Callback | None = None


class DeliveryAdapter:
    """Turns the events of a turn into replies. One adapter may process several turns at the same time."""

    def __init__(self, options: DeliveryAdapterOptions | None = None) -> None:
        self._options = options or DeliveryAdapterOptions()

    async def process(
        self, events: AsyncIterable[Event | str], callbacks: BridgeCallbacks | None = None
    ) -> list[ReplyPayload]:
        """Call the callbacks with the replies of one turn. Returns its text, media and error replies in order.

        A string counts as a text delta. If `events` has only strings, the turn is complete when they end; otherwise it
        needs a terminal event. A callback that raises does not stop the turn: its payload keeps `delivered=False`.
        """
        turn = _Turn(self._options, callbacks or BridgeCallbacks())
        buffer = turn.buffer
        pieces, feed, sealed = buffer.pieces, buffer.splitter.feed, buffer.sealed
        async with aclosing(checked(_as_events(events), turn_id="")) as stream:
            async for event in stream:
                # A fast path, because nearly every event is a text delta. `TextBuffer` describes it.
                if type(event) is TextDelta and not sealed:
                    if text := event.text:
                        pieces.append(text)
                        if parts := feed(text):
                            buffer.record_given(parts)
                            await turn.reply_with(parts)
                else:
                    await turn.handle(event)
                    pieces, feed, sealed = buffer.pieces, buffer.splitter.feed, buffer.sealed
        return turn.payloads


async def _as_events(items: AsyncIterable[Event | str]) -> AsyncGenerator[Event, None]:
    """Wrap strings in text deltas, and complete a turn that consists of strings alone."""
    has_strings = has_events = False
    source = aiter(items)
    try:
        async for item in source:
            # Nearly every item is a text delta, and `type` is faster than `isinstance`.
            if type(item) is TextDelta or not isinstance(item, str):
                has_events = True
                yield item
            else:
                has_strings = True
                yield TextDelta(text=item)
        if has_strings and not has_events:
            yield TurnCompleted()
    finally:
        if (aclose := getattr(source, "aclose", None)) is not None:
            await aclose()


class _Turn:
    """The state of one turn: the buffered text and the replies so far."""

    def __init__(self, options: DeliveryAdapterOptions, callbacks: BridgeCallbacks) -> None:
        self.payloads: list[ReplyPayload] = []
        self.buffer = TextBuffer(lambda: Splitter(options.chunk_limit, at_paragraphs=options.flush_at_paragraphs))
        self._callbacks = callbacks
        self._tool_names: dict[str, str] = {}
        self._media_seen: set[str] = set()

    async def handle(self, event: Event) -> None:
        """Process an event. Most text deltas do not come here, because `process` handles them itself."""
        if type(event) in _ENDS_BLOCK:
            self.buffer.end_block()
        match event:
            case TextDelta():
                await self.reply_with(self.buffer.feed(event.text))
            case BlockFinal():
                await self.reply_with(self.buffer.finish_block(event.text))
            case TextRetracted():
                await self.reply_with(self.buffer.retract(event.scope))
            case ReasoningDelta():
                await self._call("on_thinking", ReplyPayload(text=event.text))
            case ToolStarted():
                self._tool_names[event.id] = event.name
            case ToolFinished():
                await self._tool_result(event)
            case Media():
                await self._media(event)
            case Error() | TurnFailed():
                await self._fail(event)
            case TurnCompleted() | TurnCancelled():
                await self._finish(event)
            case _:
                pass

    async def reply_with(self, parts: list[Part]) -> None:
        """Give parts of the text to `on_partial_reply`."""
        for part in parts:
            await self._reply("on_partial_reply", ReplyPayload(text=part.text))

    async def _tool_result(self, event: ToolFinished) -> None:
        await self.reply_with(self.buffer.close())
        text = _result_text(self._tool_names.get(event.id), event.result)
        await self._call("on_tool_result", ReplyPayload(text=text, is_error=event.is_error))

    async def _media(self, media: Media) -> None:
        sources = {source for source in (media.url, media.path) if source}
        if not sources or sources & self._media_seen:
            return
        self._media_seen |= sources
        await self.reply_with(self.buffer.close())
        await self._reply("on_block_reply", ReplyPayload(text=media.caption, media=(media,)))

    async def _fail(self, event: Error | TurnFailed) -> None:
        await self.reply_with(self.buffer.close())
        if event.code in ADAPTER_FAULTS:
            _log.warning("the turn failed: %s [%s]", redact(event.message), event.code)
            text = f"{failure_text(event)} [{event.code}]"
        else:
            text = failure_text(event)
        await self._reply("on_block_reply", ReplyPayload(text=text, is_error=True))

    async def _finish(self, event: TurnCompleted | TurnCancelled) -> None:
        if isinstance(event, TurnCompleted) and event.text and not self.buffer.has_text:
            await self.reply_with(self.buffer.feed(event.text))
        parts = self.buffer.close()
        await self.reply_with(parts[:-1])
        for last in parts[-1:]:
            await self._reply("on_block_reply", ReplyPayload(text=last.text))

    async def _reply(self, name: str, payload: ReplyPayload) -> None:
        self.payloads.append(payload)
        await self._call(name, payload)

    async def _call(self, name: str, payload: ReplyPayload) -> None:
        callback: Callback | None = getattr(self._callbacks, name)
        if callback is None:
            return
        try:
            await callback(payload)
        except Exception as error:  # noqa: BLE001  # code of the caller, which must not stop the turn
            reason = f"{type(error).__name__}: {redact(str(error))}"
            _log.warning("%s raised %s; the reply counts as not delivered", name, reason)
        else:
            payload.delivered = True


# After these a new text block starts, as in `tailrace.assembler`. Events that flush the text start one anyway.
_ENDS_BLOCK = frozenset({ReasoningDelta, ToolStarted, Notice, ModelChanged, ConfigReloaded})


def _result_text(name: str | None, result: Any) -> str:
    """Format a tool result for users: the tool's name, then the result as text or as JSON."""
    if isinstance(result, str):
        text = result
    else:
        text = json.dumps(msgspec.to_builtins(result, str_keys=True), ensure_ascii=False)
    if not name:
        return text
    if not text:
        return name
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"
