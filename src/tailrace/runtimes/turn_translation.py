"""The rules that every runtime's stream is told by, whatever it calls things.

A translator knows one runtime's events and tells them here in common words; what comes back are the canonical events.
It keeps what all runtimes get wrong in their own way out of the translators:

- **Deltas win.** The final text of a block that was streamed closes it, and corrects it where it differs; it is
  never said a second time. A block that was not streamed is said by its final.
- **A block is known by the key the translator gives it**: the model call it belongs to, its place there and its kind,
  never by a provider's id alone.
- **Snapshots become differences**; one that does not continue what was said replaces it.
- **Text of a failed try is taken back** before it is said again; what a completed model call said before it stands.
- **A block that something interrupts goes on behind it**; what it said before stands.
- **Tools are known by their call**, over model calls and resumed runs. Results may come before the input is final,
  after later text, after the end, and without a beginning.
- **There is one end**: a cancellation that was asked for, else a failure, else what the runtime said, else the end of
  the stream, which is a failure.

Pure: no time, no input or output. One narration is one turn.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any, TypeAlias

from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.runtimes.provider_errors import provider_error_text

Key: TypeAlias = Hashable
_RAW = 500  # characters of an unknown event that are kept for whoever looks
# By what events call themselves, whoever's they are.
_CALLED = ("type", "subtype", "method", "event", "event_kind", "part_kind", "name")
_MOST_KINDS = 20


class _Stretch:
    """What a block said before something else came; `stands` once its model call is complete."""

    __slots__ = ("pieces", "stands")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.stands = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class _Block:
    """A block of text. Only the last of its stretches can still be changed, and only while the block is open."""

    __slots__ = ("is_final", "is_open", "stretches")

    def __init__(self) -> None:
        self.stretches: list[_Stretch] = []
        self.is_open = False
        self.is_final = False

    @property
    def last(self) -> _Stretch:
        return self.stretches[-1]

    @property
    def before(self) -> str:
        return "".join(stretch.text for stretch in self.stretches[:-1])

    @property
    def whole(self) -> str:
        return "".join(stretch.text for stretch in self.stretches)

    def close(self, *, is_final: bool) -> None:
        self.is_open = False
        self.is_final = is_final


class TurnTranslation:
    """One turn of one runtime, told in common words; every method returns the events that follow from it."""

    def __init__(self, runtime: str) -> None:
        self.runtime = runtime
        self._blocks: dict[Key, _Block] = {}
        self._current: dict[str | None, Key] = {}  # the open block of whoever speaks: the agent, or a subagent
        self._runs: dict[str | None, list[_Stretch]] = {}  # what each of them said since something else came
        self._thoughts: dict[str | None, bool] = {}  # of those whose last word was a thought: whether it is over
        self._tools: dict[str, bool] = {}  # whether each call is finished
        self._makers: dict[str, str | None] = {}  # who made each call, whoever else is said to tell of it
        self._outputs: dict[str, str] = {}
        self._unheard_of: set[Hashable] = set()  # kinds of unknown events that were told
        self._failure: TurnFailed | None = None
        self._completion: TurnCompleted | None = None
        self.is_over = False

    # Text

    def text(self, key: Key, piece: str, *, parent: str | None = None) -> list[Event]:
        """A further piece of a block."""
        if not piece:
            return []
        events, block = self._turn_to(key, parent)
        block.last.pieces.append(piece)
        return [*events, TextDelta(text=piece, parent_tool_id=parent)]

    def snapshot(self, key: Key, whole: str, *, parent: str | None = None) -> list[Event]:
        """All that a block says so far: what is new of it is said; where it says something else, that replaces it."""
        known = self._blocks.get(key)
        said = known.whole if known is not None else ""
        if whole.startswith(said):
            return self.text(key, whole[len(said) :], parent=parent)
        assert known is not None, "an empty text is continued by every other"
        before = known.before
        if not known.is_open or not whole.startswith(before):
            return []  # what was said before something else cannot be said otherwise
        known.last.pieces = []
        return [
            *self._retract(parent, "the runtime said it otherwise"),
            *self.text(key, whole.removeprefix(before), parent=parent),
        ]

    def final(self, key: Key, whole: str | None = None, *, parent: str | None = None) -> list[Event]:
        """A block is complete, and says this where it is told."""
        known = self._blocks.get(key)
        if known is None:
            if not whole:
                return []
            events, block = self._turn_to(key, parent)
            block.last.pieces.append(whole)
            self._close(key, parent)
            return [*events, BlockFinal(text=whole, parent_tool_id=parent)]
        if not known.is_open:
            known.is_final = True
            return []
        before = known.before
        rest = whole.removeprefix(before) if whole is not None and whole.startswith(before) else None
        differs = rest is not None and rest != known.last.text
        if rest is not None:
            known.last.pieces = [rest]
        self._close(key, parent)
        return [BlockFinal(text=rest if differs else None, parent_tool_id=parent)]

    def retry(self, reason: str, *, parent: str | None = None) -> list[Event]:
        """The model is asked again: what it said since something else came is said again, or something else is."""
        key = self._current.pop(parent, None)
        if key is not None:
            self._blocks[key].close(is_final=True)
        run = self._runs.get(parent, [])
        has_spoken = False
        while run and not run[-1].stands:
            failed = run.pop()
            has_spoken = has_spoken or bool(failed.pieces)
            failed.pieces = []
        return self._retract(parent, reason) if has_spoken else []

    def settle(self, *, parent: str | None = None) -> None:
        """A model call is complete: what was said stands, whatever becomes of the next call."""
        for stretch in reversed(self._runs.get(parent, [])):
            if stretch.stands:
                break  # and so does all that was said before it
            stretch.stands = True

    def _retract(self, parent: str | None, reason: str) -> list[Event]:
        """Take back all that was said since something else came, and say again what of it was not emptied."""
        return [
            TextRetracted(reason=reason, parent_tool_id=parent),
            *(
                BlockFinal(text=stretch.text, parent_tool_id=parent)
                for stretch in self._runs.get(parent, [])
                if stretch.pieces
            ),
        ]

    def retract_turn(self, reason: str) -> list[Event]:
        """Nothing of what the turn said may stand."""
        for block in self._blocks.values():
            block.close(is_final=True)
        self._current.clear()
        self._runs.clear()
        return [TextRetracted(reason=reason, scope="turn")]

    def _turn_to(self, key: Key, parent: str | None) -> tuple[list[Event], _Block]:
        """Let the block be the one that is spoken in; another one that was is closed."""
        before = self._current.get(parent)
        self._thoughts.pop(parent, None)
        block = self._blocks.get(key)
        if block is None or block.is_final:
            block = self._blocks[key] = _Block()
        if not block.is_open:
            block.is_open = True
            block.stretches.append(_Stretch())
            self._runs.setdefault(parent, []).append(block.last)
        events = self._apart_from_subagents(parent)
        self._current[parent] = key
        if before is None or before == key or not self._blocks[before].is_open:
            return events, block
        self._blocks[before].close(is_final=False)
        return [*events, BlockFinal(parent_tool_id=parent)], block

    def _apart_from_subagents(self, parent: str | None) -> list[Event]:
        """What a subagent was saying ends where somebody else speaks, or one would run into the other.

        The agent's own sentence is not broken by a subagent that speaks meanwhile.
        """
        interrupted = [who for who in self._current if who is not None and who != parent]
        for who in interrupted:
            self._blocks[self._current.pop(who)].close(is_final=False)
        return [BlockFinal(parent_tool_id=who) for who in interrupted]

    def _close(self, key: Key, parent: str | None) -> None:
        self._blocks[key].close(is_final=True)
        if self._current.get(parent) == key:
            del self._current[parent]

    # Reasoning

    def reasoning(self, piece: str, *, parent: str | None = None) -> list[Event]:
        """A piece of what the agent thinks."""
        is_another = self._thoughts.get(parent, False)
        self._interrupt(parent)
        if not piece:
            return []
        self._thoughts[parent] = False
        # Without the break it would run into the thought before.
        return [ReasoningDelta(text=f"\n\n{piece}" if is_another else piece, parent_tool_id=parent)]

    def reasoning_end(self, metadata: Any = None, *, parent: str | None = None) -> list[Event]:
        """A thought is over; `metadata` is the provider's own, and is kept as it is."""
        if metadata is not None:
            self._thoughts.pop(parent, None)  # it is sealed: the next one is apart
        elif parent in self._thoughts:
            self._thoughts[parent] = True
        return [ReasoningEnd(metadata=metadata, parent_tool_id=parent)]

    def _interrupt(self, parent: str | None) -> None:
        """Something else than text came: for the fold the open block ends there."""
        self._thoughts.pop(parent, None)
        self._runs.pop(parent, None)
        key = self._current.pop(parent, None)
        if key is not None:
            self._blocks[key].close(is_final=False)

    # Tools

    def tool(self, call: str, name: str, arguments: Any = None, *, parent: str | None = None) -> list[Event]:
        """A call begins, or more is known of one that has: an input that is told now replaces what it was."""
        if call in self._tools and not self._tools[call]:
            maker = self._makers[call]
            return [] if arguments is None else [ToolInput(id=call, arguments=arguments, parent_tool_id=maker)]
        self._interrupt(parent)
        self._tools[call] = False
        self._makers[call] = parent
        self._outputs.pop(call, None)
        return [ToolStarted(id=call, name=name or "tool", arguments=arguments, parent_tool_id=parent)]

    @property
    def has_open_tools(self) -> bool:
        """Whether a call has not answered yet."""
        return not all(self._tools.values())

    def knows(self, call: str) -> bool:
        """Whether a call of that id has begun and is not finished."""
        return self._tools.get(call) is False

    def output(self, call: str, data: str) -> list[Event]:
        """More of what a tool prints."""
        if not data or call not in self._tools:
            return []
        return [ToolOutput(id=call, data=data, parent_tool_id=self._makers.get(call))]

    def output_snapshot(self, call: str, whole: str) -> list[Event]:
        """All that a tool has printed so far."""
        said = self._outputs.get(call, "")
        if not whole.startswith(said):
            return []  # what was printed cannot be printed otherwise; the result says what counts
        self._outputs[call] = whole
        return self.output(call, whole[len(said) :])

    def result(
        self, call: str, result: Any, *, is_error: bool = False, name: str = "", parent: str | None = None
    ) -> list[Event]:
        """What a tool gave back; of a call that nobody told of it is the beginning, too."""
        if self._tools.get(call):
            return []
        begun = [] if call in self._tools or self.is_over else self.tool(call, name, parent=parent)
        self._tools[call] = True
        maker = self._makers.get(call, parent)
        return [*begun, ToolFinished(id=call, result=result, is_error=is_error, parent_tool_id=maker)]

    # Remarks

    def notice(self, text: str, *, parent: str | None = None) -> list[Event]:
        """A remark of the system, in the middle of whatever is said."""
        self._interrupt(parent)
        return [Notice(text=text, parent_tool_id=parent)]

    def unknown(self, event: Any, *, kind: Hashable = None) -> list[Event]:
        """An event that the translator does not know; it is kept for whoever looks.

        It is told once of each kind, or an agent that prints its log among its events would drown its answer.
        """
        kind = _kind_of(event) if kind is None else kind
        if self.is_over or kind in self._unheard_of or len(self._unheard_of) == _MOST_KINDS:
            return []
        self._unheard_of.add(kind)
        try:
            raw = json.dumps(event, ensure_ascii=False, default=repr)
        except (TypeError, ValueError):
            raw = repr(event)
        except RecursionError:
            raw = "too deep to be shown"
        return self.notice(f"{self.runtime} said something unknown: {raw[:_RAW]}")

    # The end

    def fail(self, message: str, *, code: str | None = None, status_code: int | None = None) -> None:
        """The turn has failed, however its stream ends; the first reason counts."""
        if self._failure is None:
            reason, status = provider_error_text(message or "it did not say why")
            self._failure = TurnFailed(message=reason, code=code, status_code=status_code or status)

    def complete(self, *, text: str | None = None, stop_reason: str = "") -> None:
        """The runtime says that the turn is complete; whether it is, is told by `end`."""
        self._completion = TurnCompleted(text=text or None, stop_reason=stop_reason)

    def end(self, *, cancelled: bool = False) -> list[Event]:
        """The stream is over: the one end of the turn."""
        if self.is_over:
            return []
        self.is_over = True
        if cancelled:
            return [TurnCancelled()]
        if self._failure is not None:
            return [self._failure]
        if self._completion is not None:
            return [self._completion]
        return [TurnFailed(message=f"{self.runtime} ended without saying that it was done", code="cut_off")]


def _kind_of(event: Any) -> Hashable:
    """What an unknown event calls itself; one that does not is known by what it is."""
    names: list[str] = []
    match event:
        case dict():
            names = [event[name] for name in _CALLED if isinstance(event.get(name), str)] or sorted(map(str, event))
        case list() | tuple():
            names = [part for part in event if isinstance(part, str)]
    return type(event), *names
