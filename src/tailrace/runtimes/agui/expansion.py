"""AG-UI has a long and a short form of everything that is streamed; here the short one becomes the long one.

A chunk is beginning, piece and end in one: the first names what it begins, the next ones need not, and whatever else is
said by the same speaker ends it. Halves of characters that were cut apart are joined, and what is null is left out.
Nothing else is changed: what is malformed goes on as it is, for the translator to say so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.runtimes.endpoint import SurrogateJoiner


class _Form(msgspec.Struct, frozen=True):
    """How the long form of a chunk is called, and what names the thing that it is a piece of."""

    id: str
    start: str
    piece: str
    end: str


_FORMS = {
    "TEXT_MESSAGE_CHUNK": _Form("messageId", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
    "REASONING_MESSAGE_CHUNK": _Form(
        "messageId", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"
    ),
    "TOOL_CALL_CHUNK": _Form("toolCallId", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"),
}
_ENDS_ALL = {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT"}
_ENDS_NOTHING = {"RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "REASONING_ENCRYPTED_VALUE", "SUBAGENT_STARTED"}


class _Open(msgspec.Struct):
    """Something that comes in chunks and has not ended: in which form, whose it is, and its id."""

    form: _Form
    lane: str | None
    id: str


class Expansion:
    """The events of one stream: `feed` each, in order, for what it is in the long form."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._seams = SurrogateJoiner()

    def feed(self, event: Any) -> list[Any]:
        """The event in the long form, and before it the ends of what it ends."""
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str):
            return [event]
        given = {name: value for name, value in event.items() if value is not None}
        if kind in _FORMS:
            return self._expand(_FORMS[kind], given)
        if isinstance(given.get("delta"), str):
            given["delta"] = self._seams.join(given.get("messageId") or given.get("toolCallId"), given["delta"])
        return [*self._ends(kind, given.get("subagentRunId")), given] if self._open else [given]

    def _expand(self, form: _Form, chunk: dict[str, Any]) -> list[Any]:
        named, delta, lane = chunk.get(form.id), chunk.get("delta", ""), chunk.get("subagentRunId")
        known = self._continued(form, named, lane)
        entity = known.id if known is not None else named
        if not isinstance(entity, str) or not isinstance(delta, str):
            return [chunk]
        lane = known.lane if known is not None else lane
        whose = {} if lane is None else {"subagentRunId": lane}
        events: list[Any] = []
        if known is None:
            events += self._ends(form.start, lane)
            self._open.append(_Open(form, lane, entity))
            events.append({**chunk, "type": form.start})
        if piece := self._seams.join(entity, delta):
            events.append({"type": form.piece, form.id: entity, "delta": piece, **whose})
        return events

    def _continued(self, form: _Form, named: Any, lane: Any) -> _Open | None:
        """What a chunk continues; one that says neither what nor whose, the agent's own or the only one there is."""
        candidates = [known for known in self._open if known.form is form]
        if named is not None:
            return next((known for known in candidates if known.id == named), None)
        own = [known for known in candidates if known.lane == lane]
        if own or lane is not None:
            return own[0] if own else None
        return candidates[0] if len(candidates) == 1 else None

    def _ends(self, kind: str, lane: Any) -> list[Any]:
        """The ends of whatever in chunks is over, now that this is said."""
        if not self._open or kind in _ENDS_NOTHING:
            return []
        ended = [known for known in self._open if kind in _ENDS_ALL or known.lane == lane]
        self._open = [known for known in self._open if known not in ended]
        return [
            {"type": known.form.end, known.form.id: known.id}
            | ({} if known.lane is None else {"subagentRunId": known.lane})
            for known in ended
        ]
