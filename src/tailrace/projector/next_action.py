"""What a projector answers besides operations: that there is nothing to do, or nothing before a certain time."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from tailrace.operations import Operation


class WaitUntil(msgspec.Struct, frozen=True):
    """Ask again at that time, or earlier if something happens."""

    at: float


class Idle(enum.Enum):
    """Ask again when something has happened."""

    IDLE = "idle"


IDLE = Idle.IDLE

NextAction: TypeAlias = Operation | WaitUntil | Idle
