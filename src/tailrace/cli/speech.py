"""What a turn says on one channel, as operations: text in parts that fit it, media, and errors after what was said.

Events in the order of the contract go in, posts come out as soon as they are certain. The same events give the same
operations, however fast they come: that is what makes a turn one that can be resumed. Tools and reasoning are not said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from tailrace.markdown import Part, Splitter, split
from tailrace.operations import Post, PostMedia

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.operations import Durable, Target

# After these a text block is another one.
_BREAKS_TEXT = (ReasoningDelta, ToolStarted, Notice, ModelChanged, ConfigReloaded)


class Speech:
    """One turn for one place, within what its channel can do."""

    def __init__(self, target: Target, capabilities: Capabilities) -> None:
        self._target = target
        self._limits = capabilities
        self._buffer = TextBuffer(lambda: Splitter(capabilities.limit, capabilities.unit, capabilities.dialect))
        self._media_seen: set[str] = set()
        self._has_posted = False

    @property
    def has_begun(self) -> bool:
        """Whether there is anything that the turn says, sent or still held back."""
        return self._has_posted or self._buffer.has_text

    def feed(self, event: Event) -> list[Durable]:
        """What is certain to be said now that this event came."""
        if isinstance(event, _BREAKS_TEXT):
            self._buffer.end_block()
        said = self._said(event)
        self._has_posted = self._has_posted or bool(said)
        return said

    def _said(self, event: Event) -> list[Durable]:
        buffer = self._buffer
        match event:
            case TextDelta():
                parts = buffer.feed(event.text)
            case BlockFinal():
                parts = buffer.finish_block(event.text)
            case TextRetracted():
                parts = buffer.retract(event.scope)
            case TurnCompleted() if event.text and not buffer.has_text:
                parts = buffer.feed(event.text) + buffer.close()
            case ToolFinished() | TurnCompleted() | TurnCancelled():
                parts = buffer.close()
            case Media():
                return self._media(event)
            case Error() | TurnFailed():
                return self._error(event)
            case _:
                return []
        return self._posts(parts)

    def _posts(self, parts: list[Part]) -> list[Durable]:
        return [Post(target=self._target, body=part.body) for part in parts]

    def _media(self, media: Media) -> list[Durable]:
        places = {place for place in (media.url, media.path) if place}
        if not places or places & self._media_seen:
            return []
        self._media_seen |= places
        shown = PostMedia(target=self._target, url=media.url, path=media.path, mime=media.mime, caption=media.caption)
        return [*self._posts(self._buffer.close()), shown]

    def _error(self, event: Error | TurnFailed) -> list[Durable]:
        text = f"⚠️ {event.message} [{event.code}]" if event.code else f"⚠️ {event.message}"
        limits = self._limits
        parts = split(text, limits.limit, unit=limits.unit, dialect=limits.dialect)
        return self._posts(self._buffer.close() + parts)
