"""The results of `Projector.next`: an operation, a time to ask again, or `IDLE` until an event or outcome comes."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from tailrace.operations import Operation


class WaitUntil(msgspec.Struct, frozen=True):
    """Ask again at that time, or after the next event or outcome."""

    at: float


class Idle(enum.Enum):
    """Ask again after the next event or outcome."""

    IDLE = "idle"


IDLE = Idle.IDLE

NextAction: TypeAlias = Operation | WaitUntil | Idle
