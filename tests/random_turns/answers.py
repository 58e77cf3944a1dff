"""What agents of a simulation say: whole turns of every shape, in which each text tells whose it is.

A text is `turn|part|what it says`: so everything that is seen can be led back to what was to be said. The same answer
said again is the same operations in the same order, as far as what became of the first of them is the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import msgspec

from tailrace.deliveries import OPEN
from tailrace.operations import AppendStream, Body, CloseStream, Edit, OpenStream, Post, PostMedia, Target, Typing

if TYPE_CHECKING:
    import random

    from tailrace.deliveries import Delivery
    from tailrace.delivery import OpenTurn


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn says: how, in how many parts, and whether it is said again after a crash."""

    turn_id: str
    target: Target
    shape: Literal["posts", "live", "stream", "media"]
    parts: int
    is_said_again: bool

    def text(self, part: int, says: str = "whole") -> Body:
        """A text that tells whose it is."""
        return Body(text=f"{self.turn_id}|{part}|{says}")


class Stopped(Exception):
    """The process is drained: the rest of the turn is said by the next."""


async def say(turn: OpenTurn, answer: Answer, source: random.Random) -> None:
    """Say all of it. Raises `Stopped` where the courier was drained before it was said."""
    match answer.shape:
        case "posts":
            await _say_posts(turn, answer, source)
        case "media":
            media = PostMedia(target=answer.target, url="https://example.org/picture", caption=answer.text(1).text)
            _ended(await turn.end(media, Post(target=answer.target, body=answer.text(2))))
        case "live":
            await _say_live(turn, answer, source)
        case "stream":
            await _say_stream(turn, answer, source)


async def _say_posts(turn: OpenTurn, answer: Answer, source: random.Random) -> None:
    posts = [Post(target=answer.target, body=answer.text(part)) for part in range(1, answer.parts + 2)]
    for post in posts[:-2]:
        _ended(await turn.send(post))
        await asyncio.sleep(source.random())
    _ended(await turn.end(*posts[-2:]))


async def _say_live(turn: OpenTurn, answer: Answer, source: random.Random) -> None:
    target = answer.target
    [shown] = _ended(await turn.send(Post(target=target, body=answer.text(1, "begun"))))
    if shown.receipt is None:
        _ended(await turn.end(Post(target=target, body=answer.text(2))))
        return
    live = shown.receipt.message_id
    for more in range(answer.parts):
        so_far = answer.text(1, f"and {more}")
        turn.show(Edit(target=target, message_id=live, body=so_far))
        turn.show(Typing(target=target))
        turn.save_snapshot(so_far.text, live)
        await asyncio.sleep(source.random() * 2)
    _ended(await turn.end(Edit(target=target, message_id=live, body=answer.text(1))))


async def _say_stream(turn: OpenTurn, answer: Answer, source: random.Random) -> None:
    target = answer.target
    [shown] = _ended(await turn.send(OpenStream(target=target, body=answer.text(1, "begun"))))
    if shown.receipt is None:
        _ended(await turn.end(Post(target=target, body=answer.text(2))))
        return
    stream = shown.receipt.message_id
    for _ in range(answer.parts):
        turn.show(AppendStream(target=target, stream_id=stream, text=" more"))
        await asyncio.sleep(source.random())
    _ended(await turn.end(CloseStream(target=target, stream_id=stream, body=answer.text(1))))


def _ended(deliveries: list[Delivery]) -> list[Delivery]:
    if any(delivery.state in OPEN for delivery in deliveries):
        raise Stopped
    return deliveries
