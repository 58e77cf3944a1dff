"""The results of `Projector.next`: an operation, a time to ask again, or `IDLE` until an event or outcome comes."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from tailrace.operations import Operation


class WaitUntil(msgspec.Struct, frozen=True):
    """Nothing to do now: call `Projector.next` again at that time, or after the next event or outcome."""

    at: float


class Idle(enum.Enum):
    """Nothing to do now: call `Projector.next` again after the next event or outcome."""

    IDLE = "idle"


IDLE = Idle.IDLE

NextAction: TypeAlias = Operation | WaitUntil | Idle
