"""Server-sent events: bytes in, frames out, as the WHATWG standard has them.

Lines end with CR, LF or CRLF, wherever the bytes are cut. Comments keep a connection alive and say nothing. Owns the
grammar and the bound on how long a frame may be. What its data means is for whoever asked, and so is asking again:
`retry_ms` is what the server wishes for that.

Pure: no time, no input or output. One decoder is one stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_FRAME = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_CUT = "the stream ended in the middle of an event."


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One event: its data, of what kind it is, and the id that was last told."""

    data: str
    event: str = "message"
    id: str = ""


class FrameDecoder:
    """`feed` what comes, and `close` at the end of the stream. Frames are the same however the bytes are cut."""

    def __init__(self, *, longest: int = LONGEST_FRAME) -> None:
        self._longest = longest
        self._partial: list[bytes] = []  # of the line that has not ended
        self._partial_size = 0
        self._is_after_cr = False
        self._is_at_start = True
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = ""
        self._id = ""
        self.retry_ms: int | None = None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with this; to be read to its end.

        Raises `RuntimeFault` for a frame that is too long, once those before it are read.
        """
        if self._is_after_cr and data[:1] == b"\n":
            data = data[1:]
            self._is_after_cr = False
        if not data:
            return
        self._is_after_cr = data.endswith(b"\r")
        for line in data.splitlines(keepends=True):
            piece = line.rstrip(b"\r\n")
            self._partial.append(piece)
            self._partial_size += len(piece)
            if self._data_size + self._partial_size > self._longest:
                raise RuntimeFault(f"the stream holds an event of more than {self._longest} bytes.")
            if len(piece) < len(line):
                yield from self._end_line()

    def close(self) -> None:
        """The stream has ended. Raises `RuntimeFault` if that was in the middle of a frame."""
        if self._partial or self._data:
            raise RuntimeFault(_CUT)

    def _end_line(self) -> Iterator[Frame]:
        line = b"".join(self._partial)
        self._partial, self._partial_size = [], 0
        if self._is_at_start:
            self._is_at_start = False
            line = line.removeprefix(_BOM)
        if line:
            self._take(line)
        else:
            yield from self._end_frame()

    def _take(self, line: bytes) -> None:
        """One field of a frame; a line that begins with a colon is a comment, and unknown fields mean nothing."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._data_size += len(line)
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry_ms = int(value)

    def _end_frame(self) -> Iterator[Frame]:
        data, event = self._data, self._event
        self._data, self._data_size, self._event = [], 0, ""
        if data:
            yield Frame(data=b"\n".join(data).decode(errors="replace"), event=event or "message", id=self._id)
