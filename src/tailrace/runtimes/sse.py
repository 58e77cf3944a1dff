"""Decodes server-sent events, as the WHATWG standard defines them: bytes in, frames out. A frame is one event.

Lines end with CR, LF or CRLF, and the bytes may be cut anywhere, also inside a CRLF. Comments keep a connection alive
and have no content. This module owns the syntax and the limit on the size of a frame. The reader of the stream owns the
meaning of the data and decides whether to connect again; `retry_ms` is the delay that the server asks for.

Pure: no time, no input or output. One decoder is one stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FRAME_BYTES = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_CUT = "the stream ended in the middle of an event."


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One server-sent event: its data, its type, and the last id that the server sent."""

    data: str
    event: str = "message"
    id: str = ""


class FrameDecoder:
    """Decodes one stream: `feed` the bytes, and `close` at the end. The bytes may be cut anywhere."""

    def __init__(self, *, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._partial: list[bytes] = []  # the pieces of a line that is not complete yet
        self._partial_size = 0
        self._is_after_cr = False
        self._is_at_start = True
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = ""
        self._id = ""
        self.retry_ms: int | None = None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete. The iterator must be read to its end.

        Raises `RuntimeFault` for a frame that is too long, after the frames before it.
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
            if self._data_size + self._partial_size > self._max_bytes:
                raise RuntimeFault(f"the stream holds an event of more than {self._max_bytes} bytes.")
            if len(piece) < len(line):
                yield from self._end_line()

    def close(self) -> None:
        """End the stream. Raises `RuntimeFault` if it ends in the middle of a frame."""
        if self._partial or self._data:
            raise RuntimeFault(_CUT)

    def _end_line(self) -> Iterator[Frame]:
        line = b"".join(self._partial)
        self._partial, self._partial_size = [], 0
        if self._is_at_start:
            self._is_at_start = False
            line = line.removeprefix(_BOM)
        if line:
            self._read_field(line)
        else:
            yield from self._end_frame()

    def _read_field(self, line: bytes) -> None:
        """Read one field of a frame. A line that begins with a colon is a comment; unknown fields are ignored."""
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
