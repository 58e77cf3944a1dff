"""Summarizes a turn in one line: all parts were delivered, or some are missing.

If some are missing, the line has the command that sends them again.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from tailrace.cli.delivery_format import one_line
from tailrace.deliveries import OPEN, UNDELIVERED, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.deliveries import Delivery

_FEW = 3
_VERDICTS: list[tuple[set[State], str]] = [
    ({State.UNKNOWN}, "may be missing: it is not known whether it arrived"),
    ({State.FAILED}, "was refused"),
    ({State.DEAD}, "was given up"),
    ({State.CANCELLED}, "was left out"),
    ({State.AMBIGUOUS}, "may have arrived: the platform has to be asked"),
    ({State.PLANNED, State.SENDING, State.RETRY}, "is not sent yet"),
]


class TurnSummary(NamedTuple):
    """The summary of a turn as `text` for people.

    `is_complete`: every part was delivered. `is_open`: some parts are not finished, and the turn can be resumed.
    """

    is_complete: bool
    is_open: bool
    text: str


def summarize(parts: Sequence[Delivery], conversation: str, *, ledger: str, is_ended: bool) -> TurnSummary:
    """Summarize the deliveries of a turn, its parts. `ledger` is the argument `--ledger PATH` for a suggested command.

    `is_ended`: the events of the turn were read to their end, so no part follows.
    """
    missing = [part for part in parts if part.state is not State.DELIVERED]
    chat = one_line(conversation)
    if not missing:
        text = f"{_count(len(parts))} delivered to {chat}"
        if not parts:
            text = f"nothing was sent to {chat}" + (": the answer is empty" if is_ended else " yet")
        doubled = [part for part in parts if part.may_be_double]
        text += f"; may be there twice: {_numbers(doubled)}" if doubled else ""
        return TurnSummary(is_complete=True, is_open=False, text=text)
    groups = [([part for part in missing if part.state in states], verdict) for states, verdict in _VERDICTS]
    text = f"of {_count(len(parts))} to {chat}, " + "; ".join(
        f"{'part' if len(group) == 1 else 'each of parts'} {_numbers(group)} {verdict}"
        for group, verdict in groups
        if group
    )
    if final := [part for part in missing if part.state not in OPEN]:
        send = "Look in the chat, then send" if any(part.state is State.UNKNOWN for part in final) else "Send"
        text += f". {send} again what is missing: tailrace deliveries resend {_arguments(final)}{ledger}"
    return TurnSummary(is_complete=False, is_open=len(final) < len(missing), text=text)


def _arguments(parts: list[Delivery]) -> str:
    """The arguments that name these parts in a command line: their ids, or the option `--turn` if there are many."""
    if len(parts) > _FEW and all(part.state in UNDELIVERED for part in parts):
        return f"--turn {shlex.quote(parts[0].turn_id)}"
    return shlex.join(part.id for part in parts)


def _numbers(parts: list[Delivery]) -> str:
    """The numbers of these parts as text, such as `1, 3 to 5`."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(abs(part.ordinal) for part in parts):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges)


def _count(number: int) -> str:
    return "1 part" if number == 1 else f"{number} parts"
