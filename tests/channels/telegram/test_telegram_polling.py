"""Long polling in virtual time: the offset, the backoff, and what ends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from tailrace.channels.telegram.errors import PollingConflict
from tailrace.channels.telegram.polling import poll
from tailrace.errors import AccessLost, LedgerClosed, LedgerUnavailable, MaybeSent, NotSent
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    from tailrace.channels.telegram.client import MethodCall, TelegramClient
    from tailrace.testing.virtual_time import Simulation


class ScriptedPolls:
    """Gives these answers to the polls, one after the other, and then none. It keeps the offsets and the times."""

    def __init__(self, *answers: list[bytes] | Exception) -> None:
        self._answers = list(answers)
        self.offsets: list[object] = []
        self.times: list[float] = []

    async def call(self, call: MethodCall, _kind: Any, **_more: Any) -> list[msgspec.Raw]:
        self.offsets.append(call.fields.get("offset"))
        self.times.append(asyncio.get_running_loop().time())
        if not self._answers:
            await asyncio.get_running_loop().create_future()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [msgspec.Raw(update) for update in answer]


class Recorder:
    """Keeps the updates. It fails for these, once each, with this error."""

    def __init__(self, error: Exception | None = None, fails_for: tuple[int, ...] = ()) -> None:
        self.received: list[int] = []
        self._error = error
        self._fails_for = set(fails_for)

    async def receive(self, update: msgspec.Raw) -> None:
        number = msgspec.json.decode(update)["update_id"]
        if self._error is not None and number in self._fails_for:
            self._fails_for.discard(number)
            raise self._error
        self.received.append(number)


def updates(*numbers: int) -> list[bytes]:
    return [b'{"update_id": %d, "message": {}}' % number for number in numbers]


def play(polls: ScriptedPolls, recorder: Recorder) -> None:
    """Poll for some hours of virtual time. Raises what ends it."""

    async def poll_for_hours(_: Simulation) -> None:
        client = cast("TelegramClient", polls)  # a poll makes nothing but calls
        polling = asyncio.create_task(poll(client, recorder.receive, timeout_s=30, jitter=lambda: 0.5))
        await asyncio.wait({polling}, timeout=10_000.0)
        if polling.done():
            await polling
        polling.cancel()
        await asyncio.wait({polling})

    run(poll_for_hours)


def test_the_offset_is_behind_what_was_recorded() -> None:
    polls, recorder = ScriptedPolls(updates(5, 6), updates(7)), Recorder()
    play(polls, recorder)
    assert recorder.received == [5, 6, 7]
    assert polls.offsets == [None, 7, 8]


def test_what_was_not_recorded_comes_again() -> None:
    recorder = Recorder(LedgerUnavailable("the disk is full"), fails_for=(6,))
    polls = ScriptedPolls(updates(5, 6, 7), updates(6, 7))
    play(polls, recorder)
    assert recorder.received == [5, 6, 7]
    assert polls.offsets == [None, 6, 8]
    assert polls.times == [0.0, 0.5, 0.5]


def test_updates_in_another_order_are_sorted() -> None:
    recorder = Recorder(LedgerUnavailable("the disk is full"), fails_for=(6,))
    polls = ScriptedPolls(updates(7, 6, 5), updates(7, 6))
    play(polls, recorder)
    assert recorder.received == [5, 6, 7]
    assert polls.offsets == [None, 6, 8]


def test_a_repeated_update_moves_nothing_back() -> None:
    polls, recorder = ScriptedPolls(updates(5, 6), updates(5, 6)), Recorder()
    play(polls, recorder)
    assert polls.offsets == [None, 7, 7]


def test_after_an_empty_answer_ids_may_begin_anywhere() -> None:
    polls, recorder = ScriptedPolls(updates(900), [], updates(3), updates(4)), Recorder()
    play(polls, recorder)
    assert recorder.received == [900, 3, 4]
    assert polls.offsets == [None, 901, None, 4, 5]


def test_an_update_without_an_id_is_left_out() -> None:
    polls, recorder = ScriptedPolls([b'{"message": {}}', b"7", *updates(5)]), Recorder()
    play(polls, recorder)
    assert recorder.received == [5]


def test_updates_without_any_id_are_asked_for_with_a_backoff() -> None:
    polls, recorder = ScriptedPolls([b"{}"], [b"{}", b"[]"], updates(5)), Recorder()
    play(polls, recorder)
    assert polls.times == [0.0, 0.5, 1.5, 1.5]
    assert recorder.received == [5]


def test_a_lost_connection_is_tried_again_with_a_backoff() -> None:
    lost = [NotSent("no connection"), MaybeSent("no answer")] * 5
    polls, recorder = ScriptedPolls(*lost, updates(5)), Recorder()
    play(polls, recorder)
    waits = [later - earlier for earlier, later in zip(polls.times, polls.times[1:], strict=False)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0, 0.0]
    assert recorder.received == [5]


def test_a_wait_that_telegram_asks_for_is_obeyed() -> None:
    polls = ScriptedPolls(NotSent("too often", retry_after=120.0), updates(5))
    play(polls, Recorder())
    assert polls.times == [0.0, 120.0, 120.0]


def test_a_revoked_token_is_tried_again_until_it_is_valid() -> None:
    revoked = AccessLost("the token was revoked", everywhere=True)
    polls, recorder = ScriptedPolls(revoked, revoked, updates(5)), Recorder()
    play(polls, recorder)
    assert polls.times == [0.0, 60.0, 120.0, 120.0]
    assert recorder.received == [5]


def test_another_poller_ends_it() -> None:
    with pytest.raises(PollingConflict, match="another program"):
        play(ScriptedPolls(PollingConflict("another program")), Recorder())


def test_an_inbox_that_is_closed_ends_it() -> None:
    with pytest.raises(LedgerClosed):
        play(ScriptedPolls(updates(5)), Recorder(LedgerClosed("closed"), fails_for=(5,)))
