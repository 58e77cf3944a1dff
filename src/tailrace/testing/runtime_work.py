"""How much work a piece of code is, counted and not timed: the lines that the interpreter runs for it.

A count does not depend on the machine, nor on who else uses it, so that it can be held to a law. What a built-in does
within one call, such as joining a long text, is not seen, and neither is the event loop's own work.
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


class Work:
    """Counts while it is entered, in this thread: `lines` is how many lines were run, wherever they stand."""

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
