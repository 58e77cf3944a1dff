"""Decides what one chat shows of one turn, over time: takes events and the time, returns operations."""

from tailrace.projector.next_action import IDLE, Idle, NextAction, WaitUntil
from tailrace.projector.presentation import Presentation, ProjectorSettings
from tailrace.projector.projector import Projector
from tailrace.projector.resuming import restored_messages
from tailrace.projector.turn_text import TurnText

__all__ = [
    "IDLE",
    "Idle",
    "NextAction",
    "Presentation",
    "Projector",
    "ProjectorSettings",
    "TurnText",
    "WaitUntil",
    "restored_messages",
]
