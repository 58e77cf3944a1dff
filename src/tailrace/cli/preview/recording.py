"""A recorded turn: lines of JSON in, events with their times out.

A line is an event, or an event with the second it came at: `{"at": 1.25, "event": {"type": "text_delta", …}}`. What has
no time comes a moment after the line before it, as a model speaks. The events have passed the contract; a line that has
not is named by its number, since whoever made the recording can mend it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from tailrace.contract import checked
from tailrace.errors import ContractViolation, Diagnostic, UsageError
from tailrace.events import Event, decode_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

Turn: TypeAlias = list[tuple[float, Event]]
"""The events of one turn in order, each with the seconds since the first."""

_FORM = '{"at": 1.25, "event": {...}}'
_OF_ANOTHER_TURN = frozenset(("after_terminal", "second_terminal", "turn_already_started"))


class _Timed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that carries its time."""

    at: float
    event: dict[str, Any]


class _Line(NamedTuple):
    number: int
    at: float
    event: Event


def recorded(place: str, *, rate: float) -> Turn:
    """The turn of a file, or of standard input for `-`; lines without a time come so many in a second."""
    if place == "-":
        if sys.stdin.isatty():
            print("reading events from the keyboard, one JSON object per line; Ctrl-D ends them", file=sys.stderr)
        return turn_of(sys.stdin.buffer.read(), name="standard input", rate=rate)
    try:
        return turn_of(Path(place).read_bytes(), name=place, rate=rate)
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {place!r}: name one with the events of a turn, - for standard input, or demo"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{place!r} cannot be read: {error.strerror}. Name a file with the events of a turn."
        ) from error


def turn_of(recording: bytes, *, name: str, rate: float) -> Turn:
    """The turn that a recording of that name holds.

    Raises `UsageError` for the first line that is no event, or is out of order.
    """
    lines = list(_lines(recording, name=name, pause=1 / rate))
    if not lines:
        raise UsageError(f"{name} holds no events: give it one JSON object per line, as `tailrace chat --json` writes")
    return asyncio.run(_in_order(lines, name=name))


def _lines(recording: bytes, *, name: str, pause: float) -> Iterator[_Line]:
    first: float | None = None
    before = -pause
    for number, line in enumerate(recording.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            at, event = _read(line)
        except ContractViolation as violation:
            raise _refusal(name, number, violation.diagnostic) from violation
        except msgspec.ValidationError as error:
            raise UsageError(f"line {number} of {name}: {error}. With its time, an event is {_FORM}.") from error
        if first is None:
            first = at or 0.0
        now = before + pause if at is None else at - first
        if now < before:
            raise UsageError(
                f"line {number} of {name}: its time is {before - now:g} s before that of the line above it. "
                "Times are seconds that count up."
            )
        before = now
        yield _Line(number, now, event)


def _read(line: bytes) -> tuple[float | None, Event]:
    """The time where there is one, and the event."""
    try:
        decoded = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None, decode_event(line)  # which says what is wrong with it
    if isinstance(decoded, dict) and "type" not in decoded and ("at" in decoded or "event" in decoded):
        timed = msgspec.convert(decoded, _Timed)
        return timed.at, decode_event(timed.event)
    return None, decode_event(line)


async def _in_order(lines: Iterable[_Line], *, name: str) -> Turn:
    """The events as the contract gives them on, with what it supplies."""
    number, now = 0, 0.0
    refused: list[UsageError] = []

    async def events() -> AsyncGenerator[Event, None]:
        nonlocal number, now
        for number, now, event in lines:  # noqa: B007 -- they say where whoever reads this is
            yield event

    def refuse(diagnostic: Diagnostic) -> None:
        refused.append(_refusal(name, number, diagnostic))

    turn = [(now, event) async for event in checked(events(), turn_id="preview", on_diagnostic=refuse)]
    if refused:
        raise refused[0]
    return turn


def _refusal(name: str, number: int, diagnostic: Diagnostic) -> UsageError:
    of_another = diagnostic.code in _OF_ANOTHER_TURN
    advice = " A preview is of one turn: leave out what belongs to another." if of_another else ""
    return UsageError(f"line {number} of {name}: {diagnostic.message} [{diagnostic.code}]{advice}")
