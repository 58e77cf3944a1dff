"""The spool: a file is copied until it is sent, and a missing file does not block the text around it."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delivery_setup import OnlySends
from full_spool import LARGEST

from tailrace.capabilities import Capabilities, Unkeyed
from tailrace.deliveries import Policy, State, plan
from tailrace.delivery import Courier, Spool
from tailrace.errors import NotSent, TurnMismatch
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Body, Post, PostMedia, Receipt, Target

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery

HERE = Target(channel="album", chat="here")


class MediaChannel(OnlySends):
    """A channel that takes files and reads them. It refuses the first `refuses` of them."""

    name = "album"
    capabilities = Capabilities(idempotency=Unkeyed())

    def __init__(self, refuses: int = 0) -> None:
        self.shown: list[str] = []
        self._refuses = refuses

    async def post(self, post: Post, *, key: str) -> Receipt:
        assert (post.target, bool(key)) == (HERE, True)
        self.shown.append(post.body.text)
        return Receipt(message_id=str(len(self.shown)))

    async def post_media(self, media: PostMedia, *, key: str) -> Receipt:
        assert (media.target, bool(key)) == (HERE, True)
        if self._refuses:
            self._refuses -= 1
            raise NotSent("not yet", retry_after=0.0)
        assert media.path is not None
        with open(media.path, encoding="utf-8") as file:  # noqa: ASYNC230, PTH123  a small file
            self.shown.append(file.read())
        return Receipt(message_id=str(len(self.shown)))


def media(path: Path) -> PostMedia:
    return PostMedia(target=HERE, path=str(path), mime="text/plain")


def text(says: str) -> Post:
    return Post(target=HERE, body=Body(text=says))


def states(deliveries: list[Delivery]) -> list[State]:
    return [delivery.state for delivery in deliveries]


def test_a_deleted_file_is_sent_from_its_copy(tmp_path: Path) -> None:
    async def scene() -> None:
        channel, picture, kept = MediaChannel(refuses=1), tmp_path / "../picture", tmp_path / "spool"
        picture.write_text("a picture")
        courier = Courier(MemoryLedger(), spool=Spool(kept))
        courier.connect(channel)
        turn = await courier.begin("../../t", HERE)
        [planned] = await turn._plan((media(picture),))
        picture.unlink()
        [copy] = kept.iterdir()
        assert copy.stat().st_mode & 0o777 == 0o600
        assert kept.stat().st_mode & 0o777 == 0o700
        assert states(await courier.deliver(turn.turn, [planned])) == [State.DELIVERED]
        await courier.drain()
        assert channel.shown == ["a picture"]
        assert list(kept.iterdir()) == []

    asyncio.run(scene())


def test_a_resumed_turn_makes_no_second_copy_and_refuses_another_file(tmp_path: Path) -> None:
    async def scene() -> None:
        channel, kept = MediaChannel(), tmp_path / "spool"
        first, moved, other = tmp_path / "first", tmp_path / "moved", tmp_path / "other"
        first.write_text("a picture")
        moved.write_text("a picture")
        other.write_text("another")
        courier = Courier(MemoryLedger(), spool=Spool(kept))
        courier.connect(channel)
        for path in (first, moved):
            turn = await courier.begin("t", HERE)
            await turn.send(media(path))
        assert channel.shown == ["a picture"]
        assert list(kept.iterdir()) == []
        turn = await courier.begin("t", HERE)
        with pytest.raises(TurnMismatch):
            await turn.send(media(other))
        assert channel.shown == ["a picture"]
        await courier.drain()

    asyncio.run(scene())


@pytest.mark.parametrize("why", ["gone", "no place"])
def test_row_15_without_a_copy_only_the_file_fails(why: str, tmp_path: Path) -> None:
    async def scene() -> None:
        channel, picture, kept = MediaChannel(), tmp_path / "picture", tmp_path / "spool"
        if why == "no place":
            picture.write_text("a picture")
            kept.write_text("no directory")
        courier = Courier(MemoryLedger(), spool=Spool(kept))
        courier.connect(channel)
        turn = await courier.begin("t", HERE)
        ended = await turn.end(media(picture), text("after"))
        assert states(ended) == [State.FAILED, State.DELIVERED]
        assert "could not be copied" in ended[0].error
        assert os.fspath(tmp_path) not in ended[0].error
        assert channel.shown == ["⚠️ Part 1 of this answer is missing.", "after"]
        await courier.drain()

    asyncio.run(scene())


def test_row_15_on_a_full_disk_only_the_file_fails(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"." * (2 * LARGEST))
    program = Path(__file__).with_name("full_spool.py")
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, check=True)
    shown, told = done.stdout.split("delivered: ", 1)
    assert "before" in shown
    assert "Part 2 of this answer is missing" in shown
    assert "after" in shown
    assert told.splitlines()[1:] == [
        "failed: the file could not be copied: File too large",
        "delivered: ",
    ]
    assert list((tmp_path / "spool").iterdir()) == []


def test_the_copy_of_a_refused_file_is_kept_until_it_is_pruned(tmp_path: Path) -> None:
    async def scene() -> None:
        class NoMedia(OnlySends):
            """A channel that takes no files."""

            name = "album"
            post = channel.post

        kept, picture = tmp_path / "spool", tmp_path / "picture"
        picture.write_text("a picture")
        spool = Spool(kept)
        courier = Courier(MemoryLedger(), spool=spool)
        courier.connect(NoMedia())
        turn = await courier.begin("t", HERE)
        assert states(await turn.end(media(picture))) == [State.FAILED]
        [copy] = kept.iterdir()
        assert copy.read_text() == "a picture"
        made = copy.stat().st_mtime
        await spool.prune(made - 1)
        assert list(kept.iterdir()) == [copy]
        await spool.prune(made + 1)
        assert list(kept.iterdir()) == []
        await courier.drain()

    channel = MediaChannel()
    asyncio.run(scene())


def test_a_turn_with_a_deleted_file_can_be_resumed(tmp_path: Path) -> None:
    async def scene() -> None:
        channel, picture, ledger = MediaChannel(), tmp_path / "picture", MemoryLedger()
        picture.write_text("a picture")
        for _ in range(2):
            courier = Courier(ledger, spool=Spool(tmp_path / "spool"))
            courier.connect(channel)
            turn = await courier.begin("t", HERE)
            assert states(await turn.send(media(picture), text("after"))) == [State.DELIVERED] * 2
            await courier.drain()
            picture.unlink(missing_ok=True)
            ledger = ledger.reopen()
        assert channel.shown == ["a picture", "after"]

    asyncio.run(scene())


def test_a_copy_and_its_name_are_on_disk_before_its_row_is_recorded(tmp_path: Path) -> None:
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        os.fsync(descriptor)
        synced.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    picture = tmp_path / "picture"
    picture.write_text("a picture")
    new = plan(media(picture), turn_id="t", ordinal=1, policy=Policy(idempotency=Unkeyed()), now=0.0)
    asyncio.run(Spool(tmp_path / "spool", sync=sync).copy_file(new))
    assert synced == ["file", "directory"]
