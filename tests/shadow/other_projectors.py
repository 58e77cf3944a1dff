"""Projectors as a shadow may have them: others than ours, and such as do what a projector must not.

They are made in the shadow's own process, by their names in this module.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tailrace.operations import Body, Delivered, Edit, Post, Receipt
from tailrace.projector import Projector, WaitUntil

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.events import Event
    from tailrace.operations import Operation, Outcome, Target
    from tailrace.projector import NextAction, ProjectorSettings


class _AsOurs:
    """Ours, of which the others differ in one thing."""

    def __init__(self, target: Target, capabilities: Capabilities, settings: ProjectorSettings) -> None:
        self.target = target
        self._ours = Projector(target, capabilities, settings)

    def feed(self, event: Event, now: float) -> None:
        self._ours.feed(event, now)

    def close(self, now: float) -> None:
        self._ours.close(now)

    def receipt(self, operation: Operation, outcome: Outcome, now: float) -> None:
        self._ours.receipt(operation, outcome, now)

    def next(self, now: float) -> NextAction:
        return self._ours.next(now)

    def is_durable(self, operation: Operation) -> bool:
        return self._ours.is_durable(operation)


class Shouting(_AsOurs):
    """Says everything in capitals; and prints, which is nobody's business."""

    def next(self, now: float) -> NextAction:
        print("not for anybody's eyes", flush=True)
        step = self._ours.next(now)
        if isinstance(step, Post):
            loud = Post(target=step.target, body=Body(text=step.body.text.upper()))
            self._ours.receipt(step, Delivered(Receipt(message_id="1")), now)
            return loud
        return step

    def is_durable(self, operation: Operation) -> bool:
        return isinstance(operation, Post)


def not_to_be_made(*_: object) -> NoReturn:
    raise ConnectionError("there is no such projector")


def takes_nothing() -> None:
    """Is called with more than it takes."""


class FailsToListen(_AsOurs):
    def feed(self, event: Event, now: float) -> NoReturn:
        raise LookupError(f"never heard of {type(event).__name__} at {now}")


class FailsToAnswer(_AsOurs):
    def next(self, now: float) -> NoReturn:
        raise ArithmeticError(f"nothing at {now}")


class EditsNothing(_AsOurs):
    """Changes a message that is not there."""

    def next(self, now: float) -> NextAction:
        step = self._ours.next(now)
        return Edit(target=self.target, message_id="none", body=Body(text="x")) if isinstance(step, Post) else step


class Hangs(_AsOurs):
    def next(self, *_: object) -> NextAction:
        while True:
            pass


class WaitsForThePast(_AsOurs):
    def next(self, now: float) -> NextAction:
        return WaitUntil(now - 1.0)


class Floods(_AsOurs):
    """Has always one more thing to say."""

    def next(self, *_: object) -> NextAction:
        return Post(target=self.target, body=Body(text="and another thing " * 100))

    def is_durable(self, *_: object) -> bool:
        return True


class Devours(_AsOurs):
    """Takes all memory there is."""

    def feed(self, *_: object) -> None:
        self.taken = [bytearray(64_000_000)]
        while True:
            self.taken.append(bytearray(64_000_000))


class Leaves(_AsOurs):
    """Ends its process."""

    def feed(self, *_: object) -> NoReturn:
        os._exit(3)


class TellsItsEnvironment(_AsOurs):
    def feed(self, *_: object) -> NoReturn:
        raise RuntimeError(" ".join(sorted(os.environ)))


def leaves_a_child(place: str, *_: object) -> NoReturn:
    """Starts a process that would go on for ever and has the pipe open as well, says so, and hangs."""
    _start_a_child(place)
    while True:
        pass


def leaves_a_child_and_goes(place: str, *_: object) -> NoReturn:
    """The same, and ends."""
    _start_a_child(place)
    os._exit(0)


def _start_a_child(place: str) -> None:
    pipe = os.open(place, os.O_WRONLY)
    subprocess.Popen([sys.executable, "-c", "import signal\nwhile True: signal.pause()"], pass_fds=[pipe])
    os.write(pipe, b"here")


def hangs_with_a_pipe(place: str, *_: object) -> NoReturn:
    """Opens the pipe, says so, and hangs."""
    os.write(os.open(place, os.O_WRONLY), b"here")
    while True:
        pass


def fails_once(place: str, target: Target, capabilities: Capabilities, settings: ProjectorSettings) -> Projector:
    """Fails the first time, in whichever process."""
    if not Path(place).exists():
        Path(place).touch()
        raise RuntimeError("not yet")
    return Projector(target, capabilities, settings)
