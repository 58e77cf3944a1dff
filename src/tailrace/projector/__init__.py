"""A turn as it looks on one channel, over time: events and the clock in, operations out."""

from tailrace.projector.presentation import Presentation, ProjectorSettings
from tailrace.projector.projector import Projector
from tailrace.projector.resuming import sheets_of
from tailrace.projector.steps import IDLE, Idle, Step, WaitUntil

__all__ = ["IDLE", "Idle", "Presentation", "Projector", "ProjectorSettings", "Step", "WaitUntil", "sheets_of"]
