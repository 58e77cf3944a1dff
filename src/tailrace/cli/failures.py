"""How a command fails: one clear line on standard error, and an exit code that says whose turn it is.

0 is done, 1 is failed, 2 is wrong use. A traceback is shown to those who ask for it with `--debug`.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from tailrace.channels.terminal.visible import visible
from tailrace.errors import TailraceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DONE = 0
FAILED = 1
WRONG_USE = 2


@contextmanager
def errors_in_one_line(*, debug: bool = False) -> Iterator[None]:
    """Turn whatever is raised in the block into a line on standard error and an exit code."""
    try:
        yield
    except UsageError as error:
        _leave(error, str(error), WRONG_USE, debug=debug)
    except TailraceError as error:
        _leave(error, str(error), FAILED, debug=debug)
    except KeyboardInterrupt:
        sys.exit(FAILED)
    except BrokenPipeError:
        # Whoever read our output has left. Nothing may be flushed into the pipe when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as error:
        _leave(error, str(error), FAILED, debug=debug)
    except Exception as error:  # noqa: BLE001 -- the outermost handler: a mistake of ours is told like any other
        said = f"{type(error).__name__}: {error} (this should not happen; --debug shows where)"
        _leave(error, said, FAILED, debug=debug)


@contextmanager
def warnings_in_one_line(say: Callable[[str], None] | None = None, *, debug: bool = False) -> Iterator[None]:
    """Have what is logged as a warning or worse said in a line each, by `say` or on standard error."""
    told = _Told(say or _warn, debug=debug)
    root = logging.getLogger()
    root.addHandler(told)
    try:
        yield
    finally:
        root.removeHandler(told)


@contextmanager
def stray_warnings_in_one_line(say: Callable[[str], None] | None = None, *, debug: bool = False) -> Iterator[None]:
    """The same of what nobody else takes: an agent's module, and the SDK that it uses, may have a log of their own."""
    before, logging.lastResort = logging.lastResort, _Told(say or _warn, debug=debug, from_us=False)
    try:
        yield
    finally:
        logging.lastResort = before


class _Told(logging.Handler):
    def __init__(self, say: Callable[[str], None], *, debug: bool, from_us: bool = True) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._debug = debug
        self._begin = "tailrace: " if from_us else ""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        why = f" ({type(error).__name__}: {error})" if error is not None else ""
        self._say(f"{self._begin}{visible(record.getMessage() + why)}")
        if self._debug and error is not None:
            print_traceback(error)


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def print_traceback(error: BaseException) -> None:
    """Write the traceback to standard error, with foreign control characters in it made visible."""
    sys.stderr.write(visible("".join(traceback.format_exception(error))))


def _leave(error: Exception, message: str, exit_code: int, *, debug: bool) -> NoReturn:
    if debug:
        print_traceback(error)
    sys.stderr.write(f"tailrace: {visible(message)}\n")
    sys.exit(exit_code)
