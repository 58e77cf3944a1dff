"""Rewrites the short "chunk" events of AG-UI as the start, content and end events for which they are an abbreviation.

The first chunk names the message or tool call that it starts. The next chunks may leave the name out. Any other event
of the same speaker (the agent or a subagent) ends the message or call. A character may be cut in half between two
pieces of text; the halves are joined. Null fields are dropped. Nothing else changes: a malformed event is passed on,
and the translator reports it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.surrogates import SurrogateJoiner


class _EventTypes(msgspec.Struct, frozen=True):
    """The start, content and end events for one kind of chunk, and the name of the field with the id."""

    id: str
    start: str
    content: str
    end: str


_CHUNKS = {
    "TEXT_MESSAGE_CHUNK": _EventTypes("messageId", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
    "REASONING_MESSAGE_CHUNK": _EventTypes(
        "messageId", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"
    ),
    "TOOL_CALL_CHUNK": _EventTypes("toolCallId", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"),
}
_ENDS_ALL = {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT"}
_ENDS_NOTHING = {"RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "REASONING_ENCRYPTED_VALUE", "SUBAGENT_STARTED"}


class _OpenItem(msgspec.Struct):
    """A message or tool call that came in chunks and has not ended: its event types, its speaker and its id."""

    types: _EventTypes
    speaker: str | None
    id: str


class ChunkExpander:
    """Rewrites the chunk events of one stream. Call `feed` with each event in order."""

    def __init__(self) -> None:
        self._open: list[_OpenItem] = []
        self._joiner = SurrogateJoiner()

    def feed(self, event: Any) -> list[Any]:
        """Take an event.

        Returns the end events of the items that it ends, then the event itself, rewritten if it is a chunk.
        """
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str):
            return [event]
        given = {name: value for name, value in event.items() if value is not None}
        if kind in _CHUNKS:
            return self._expand(_CHUNKS[kind], given)
        if isinstance(given.get("delta"), str):
            given["delta"] = self._joiner.join(given.get("messageId") or given.get("toolCallId"), given["delta"])
        return [*self._end_events(kind, given.get("subagentRunId")), given] if self._open else [given]

    def _expand(self, types: _EventTypes, chunk: dict[str, Any]) -> list[Any]:
        named, delta, speaker = chunk.get(types.id), chunk.get("delta", ""), chunk.get("subagentRunId")
        item = self._find_open(types, named, speaker)
        item_id = item.id if item is not None else named
        if not isinstance(item_id, str) or not isinstance(delta, str):
            return [chunk]
        speaker = item.speaker if item is not None else speaker
        events: list[Any] = []
        if item is None:
            events += self._end_events(types.start, speaker)
            self._open.append(_OpenItem(types, speaker, item_id))
            events.append({**chunk, "type": types.start})
        if piece := self._joiner.join(item_id, delta):
            events.append({"type": types.content, types.id: item_id, "delta": piece, **_spoken_by(speaker)})
        return events

    def _find_open(self, types: _EventTypes, named: Any, speaker: Any) -> _OpenItem | None:
        """The open item that a chunk continues; None if it starts a new one.

        That is the item with the id that the chunk names. Without an id it is the item of the same speaker, or the only
        one.
        """
        candidates = [item for item in self._open if item.types is types]
        if named is not None:
            return next((item for item in candidates if item.id == named), None)
        own = [item for item in candidates if item.speaker == speaker]
        if own or speaker is not None:
            return own[0] if own else None
        return candidates[0] if len(candidates) == 1 else None

    def _end_events(self, kind: str, speaker: Any) -> list[Any]:
        """Close the items that an event of this type and speaker ends. Returns their end events."""
        if not self._open or kind in _ENDS_NOTHING:
            return []
        ended = [item for item in self._open if kind in _ENDS_ALL or item.speaker == speaker]
        self._open = [item for item in self._open if item not in ended]
        return [{"type": item.types.end, item.types.id: item.id, **_spoken_by(item.speaker)} for item in ended]


def _spoken_by(speaker: str | None) -> dict[str, str]:
    return {} if speaker is None else {"subagentRunId": speaker}
