"""What a line of the log is about: the conversation, the turn and the delivery that the current task works on.

The code that works on one of them names it here. The log of `tailrace run` and `tailrace serve` adds the names to each
line, so that a message need not repeat them. This is not `structlog.contextvars`, because importing structlog takes
longer than importing `tailrace`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES: ContextVar[Mapping[str, str] | None] = ContextVar("tailrace_log_context", default=None)


@contextmanager
def log_context(**names: str) -> Iterator[None]:
    """Add these names to each line that the block writes, also in tasks that it starts. "" removes a name."""
    token = _NAMES.set({**named(), **names})
    try:
        yield
    finally:
        _NAMES.reset(token)


def named() -> dict[str, str]:
    """The names for a line that is written now."""
    return {name: value for name, value in (_NAMES.get() or {}).items() if value}
