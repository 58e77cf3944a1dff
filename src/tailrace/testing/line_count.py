"""Counts the lines that the interpreter runs, as a measure of work.

Unlike a time, the count is the same on every machine, so tests can compare it. It does not count the work inside a
built-in function, such as joining a long text, or the work of the event loop.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Self

_LOOP = str(Path(asyncio.__file__).parent)


class LineCount:
    """Counts the lines that this thread runs inside the `with` block, in `lines`."""

    def __init__(self) -> None:
        self.lines = 0

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return None if frame.f_code.co_filename.startswith(_LOOP) else self._line

    def _line(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.lines += 1
        return self._line
