"""Whole messages on a terminal: separated, made safe, and with an exact error where one could not be written."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from pathlib import Path

import pytest

from tailrace.channels.terminal import TerminalChannel
from tailrace.errors import MaybeSent, NotSent, SendRefused
from tailrace.events import TextDelta, TurnCompleted
from tailrace.operations import Body, Post, PostMedia, Receipt, Target
from tailrace.ports import Channel, SendsMedia, StreamingChannelProvider

ME = Target(channel="terminal", chat="me")


def posted(channel: TerminalChannel, *texts: str) -> list[Receipt]:
    async def post() -> list[Receipt]:
        return [await channel.post(Post(target=ME, body=Body(text=text)), key="k") for text in texts]

    return asyncio.run(post())


def test_terminal_is_a_channel() -> None:
    channel = TerminalChannel(io.StringIO(), io.StringIO())
    assert isinstance(channel, Channel)
    assert isinstance(channel, SendsMedia)
    assert isinstance(channel, StreamingChannelProvider)
    assert (channel.capabilities.limit, channel.capabilities.dialect) == (4096, "markdown")


def test_messages_are_visible_text_separated_by_a_blank_line() -> None:
    out = io.StringIO()
    channel = TerminalChannel(out, out)
    asyncio.run(channel.show(TextDelta(text="the answer")))
    asyncio.run(channel.show(TurnCompleted()))
    receipts = posted(channel, "one", "two\nlines\n", "a\x1b[2Jb\u202ec")
    assert out.getvalue() == "the answer\n\none\n\ntwo\nlines\n\na␛[2Jb\\u202ec\n"
    assert [receipt.message_id for receipt in receipts] == ["1", "2", "3"]


def test_media_are_named_and_the_receipt_says_so() -> None:
    out = io.StringIO()
    channel = TerminalChannel(out, out)
    media = PostMedia(target=ME, url="https://example.org/a.png", mime="image/png", caption="The mill")
    receipt = asyncio.run(channel.post_media(media, key="k"))
    assert out.getvalue() == "▸ The mill https://example.org/a.png image/png\n"
    assert receipt.degraded == "not shown, only named"


def test_message_is_written_out_before_its_receipt(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        posted(TerminalChannel(out, out), "there")
        assert (tmp_path / "out").read_text() == "there\n"


def test_message_to_an_output_that_was_closed_is_refused() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "w") as out, pytest.raises(SendRefused, match="the reader of the output has closed it"):
        posted(TerminalChannel(out, out), "too late")
    closed = io.StringIO()
    channel = TerminalChannel(closed, closed)
    closed.close()
    with pytest.raises(SendRefused, match="the output is closed"):
        posted(channel, "too late")


def test_message_that_the_reader_left_in_the_middle_of_may_be_sent() -> None:
    ours, theirs = os.pipe()

    def read_a_little_and_leave() -> None:
        os.read(ours, 10)
        os.close(ours)

    reader = threading.Thread(target=read_a_little_and_leave)
    reader.start()
    with os.fdopen(theirs, "w") as out, pytest.raises(MaybeSent, match="ended in the middle"):
        posted(TerminalChannel(out, out), "x" * 1_000_000)
    reader.join()


def test_full_disk_is_not_sent() -> None:
    with Path("/dev/full").open("w") as out, pytest.raises(NotSent, match="takes nothing now"):
        posted(TerminalChannel(out, out), "x")


def test_non_blocking_stream_gets_the_whole_message() -> None:
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    read = bytearray()

    def read_all() -> None:
        while data := os.read(ours, 4096):
            read.extend(data)

    reader = threading.Thread(target=read_all)
    with os.fdopen(theirs, "w") as out:
        reader.start()
        posted(TerminalChannel(out, out), "y" * 300_000)
    reader.join()
    os.close(ours)
    assert bytes(read) == b"y" * 300_000 + b"\n"
