"""What came of a turn's parts, in one line: all there, or which are missing and what to do about them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from tailrace.cli.delivery_format import one_line
from tailrace.deliveries import OPEN, UNDELIVERED, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.deliveries import Delivery


_FEW = 3


class Reckoning(NamedTuple):
    """`is_complete`: every part was delivered. `is_open`: some were not finished, and can be gone on with."""

    is_complete: bool
    is_open: bool
    summary: str


def reckoned(parts: Sequence[Delivery], *, errand_place: str, ledger: str) -> Reckoning:
    """Count the parts; `ledger` is what a command needs to find them."""
    missing = [part for part in parts if part.state is not State.DELIVERED]
    unfinished = [part for part in missing if part.state in OPEN]
    left_out = [part for part in missing if part.state not in OPEN]
    where = one_line(errand_place)
    if not missing:
        said = f"{_count(len(parts))} delivered to {where}" if parts else f"nothing was said to {where}"
        doubled = [part for part in parts if part.may_be_double]
        said += f"; may be there twice: {_named(doubled)}" if doubled else ""
        return Reckoning(is_complete=True, is_open=False, summary=said)
    said = f"of {_count(len(parts))} to {where}, " + "; ".join(
        f"{_which(group)} {verdict}" for group, verdict in _groups(missing) if group
    )
    if left_out:
        look = "Look in the chat, then send" if any(part.state is State.UNKNOWN for part in left_out) else "Send"
        said += f". {look} again what is missing: tailrace deliveries resend {_meant(left_out)}{ledger}"
    return Reckoning(is_complete=False, is_open=bool(unfinished), summary=said)


def _groups(missing: list[Delivery]) -> list[tuple[list[Delivery], str]]:
    def among(*states: State) -> list[Delivery]:
        return [part for part in missing if part.state in states]

    return [
        (among(State.UNKNOWN), "may be missing: it is not known whether it arrived"),
        (among(State.FAILED), "was refused"),
        (among(State.DEAD), "was given up"),
        (among(State.CANCELLED, State.SUPERSEDED), "was left out"),
        (among(State.AMBIGUOUS), "may be there, which is not yet found out"),
        (among(State.PLANNED, State.SENDING, State.RETRY), "is not sent yet"),
    ]


def _meant(left_out: list[Delivery]) -> str:
    """How to name them on a command line: one by one while they are few."""
    if len(left_out) > _FEW and all(part.state in UNDELIVERED for part in left_out):
        return f"--turn {shlex.quote(left_out[0].turn_id)}"
    return shlex.join(part.id for part in left_out)


def _which(group: list[Delivery]) -> str:
    return f"{'part' if len(group) == 1 else 'each of parts'} {_named(group)}"


def _named(group: list[Delivery]) -> str:
    """The numbers of the parts, with neighbours drawn together."""
    spans: list[tuple[int, int]] = []
    for number in sorted(abs(part.ordinal) for part in group):
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans)


def _count(number: int) -> str:
    return "1 part" if number == 1 else f"{number} parts"
