"""Reads a recorded turn: lines of JSON become events with their times.

A line is an event, or an event with its time in seconds: `{"at": 1.25, "event": {"type": "text_delta", …}}`. Events
without a time follow each other at a fixed rate. The contract checks the events. Errors name the line number.
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
_OTHER_TURN = frozenset(("after_terminal", "second_terminal", "turn_already_started"))


class _TimedEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a recording: an event, and its time in seconds."""

    at: float
    event: dict[str, Any]


class _Line(NamedTuple):
    number: int
    at: float
    event: Event


def read_turn(source: str, *, rate: float) -> Turn:
    """Read a recorded turn from a file, or from standard input if the file is `-`.

    Events without a time get one: `rate` events come per second.
    """
    if source == "-":
        if sys.stdin.isatty():
            print("reading events from the keyboard, one JSON object per line; Ctrl-D ends them", file=sys.stderr)
        return parse_turn(sys.stdin.buffer.read(), name="standard input", rate=rate)
    try:
        return parse_turn(Path(source).read_bytes(), name=source, rate=rate)
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {source!r}: name one with the events of a turn, - for standard input, or demo"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{source!r} cannot be read: {error.strerror}. Name a file with the events of a turn."
        ) from error


def parse_turn(recording: bytes, *, name: str, rate: float) -> Turn:
    """Read a recorded turn from its lines of JSON. `name` says in error messages where the lines came from.

    Raises `UsageError` for the first line that is not an event or is out of order.
    """
    lines = list(_lines(recording, name=name, pause=1 / rate))
    if not lines:
        raise UsageError(f"{name} holds no events: give it one JSON object per line, as `tailrace chat --json` writes")
    return asyncio.run(_checked(lines, name=name))


def _lines(recording: bytes, *, name: str, pause: float) -> Iterator[_Line]:
    first: float | None = None
    before = -pause
    for number, line in enumerate(recording.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            at, event = _parse_line(line)
        except ContractViolation as violation:
            raise _bad_line(name, number, violation.diagnostic) from violation
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


def _parse_line(line: bytes) -> tuple[float | None, Event]:
    """Decode a line: the time of the event, or None if the line has no time, and the event."""
    try:
        decoded = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None, decode_event(line)  # raises an error that explains the problem
    if isinstance(decoded, dict) and "type" not in decoded and ("at" in decoded or "event" in decoded):
        timed = msgspec.convert(decoded, _TimedEvent)
        return timed.at, decode_event(timed.event)
    return None, decode_event(line)


async def _checked(lines: Iterable[_Line], *, name: str) -> Turn:
    """Let the contract check the events. The result includes the events that the contract adds."""
    number, now = 0, 0.0
    refused: list[UsageError] = []

    async def events() -> AsyncGenerator[Event, None]:
        nonlocal number, now
        for number, now, event in lines:  # noqa: B007 -- the functions around this one read where it is
            yield event

    def refuse(diagnostic: Diagnostic) -> None:
        refused.append(_bad_line(name, number, diagnostic))

    turn = [(now, event) async for event in checked(events(), turn_id="preview", on_diagnostic=refuse)]
    if refused:
        raise refused[0]
    return turn


def _bad_line(name: str, number: int, diagnostic: Diagnostic) -> UsageError:
    advice = " A preview is of one turn: remove the lines of other turns." if diagnostic.code in _OTHER_TURN else ""
    return UsageError(f"line {number} of {name}: {diagnostic.message} [{diagnostic.code}]{advice}")
