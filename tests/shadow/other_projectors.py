"""Projectors that a shadow may be given: others than ours, and such as do what a projector must not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeGuard

from tailrace.operations import Body, Delivered, Durable, Edit, Operation, Post, Receipt
from tailrace.projector import Projector, WaitUntil

if TYPE_CHECKING:
    from tailrace.events import Event
    from tailrace.projector import NextAction


class Shouting(Projector):
    """Writes everything in capitals."""

    def next(self, now: float) -> NextAction:
        action = super().next(now)
        if isinstance(action, Post):
            loud = Post(target=action.target, body=Body(text=action.body.text.upper()))
            self.receipt(action, Delivered(Receipt(message_id="1")), now)
            return loud
        return action

    def is_durable(self, operation: Operation) -> TypeGuard[Durable]:
        return isinstance(operation, Post)


class FailsToFeed(Projector):
    def feed(self, event: Event, now: float) -> NoReturn:
        raise LookupError(f"unknown event {type(event).__name__} at {now}")


class EditsNothing(Projector):
    """Changes a message that is not there."""

    def next(self, now: float) -> NextAction:
        action = super().next(now)
        if isinstance(action, Post):
            return Edit(target=action.target, message_id="none", body=Body(text="x"))
        return action


class Hangs(Projector):
    def next(self, *_: object) -> NextAction:
        while True:
            pass


class CannotBeStopped(Projector):
    """Hangs, and catches whatever is raised in it, until `released`."""

    released = False

    def next(self, *_: object) -> NextAction:
        while not CannotBeStopped.released:
            try:
                while not CannotBeStopped.released:
                    pass
            except BaseException:  # noqa: BLE001 -- that is the point
                pass
        raise RuntimeError("released")


class WaitsForThePast(Projector):
    def next(self, now: float) -> NextAction:
        return WaitUntil(now - 1.0)


class Floods(Projector):
    """Always has one more message."""

    def next(self, *_: object) -> NextAction:
        return Post(target=self._target, body=Body(text="and another thing " * 100))
