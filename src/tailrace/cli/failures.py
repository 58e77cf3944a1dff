"""How a command fails: one clear line on standard error, and an exit code that says who must act.

0 is done, 1 is failed, 2 is wrong use. `--debug` shows the traceback.
"""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import tailrace
from tailrace.channels.terminal.visible import visible
from tailrace.errors import TailraceError, UsageError
from tailrace.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DONE = 0
FAILED = 1
WRONG_USE = 2

_OURS = str(Path(tailrace.__file__).parent)
_INSTALLED = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (_OURS, *_INSTALLED))


@contextmanager
def errors_in_one_line(*, debug: bool = False) -> Iterator[None]:
    """Turn any error that the block raises into one line on standard error and an exit code."""
    try:
        yield
    except UsageError as error:
        _exit(error, str(error), WRONG_USE, debug=debug)
    except TailraceError as error:
        _exit(error, str(error), FAILED, debug=debug)
    except KeyboardInterrupt:
        sys.exit(FAILED)
    except BrokenPipeError:
        # The program that reads our output has closed the pipe. The interpreter flushes the output when it exits, and
        # that would fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as error:
        _exit(error, str(error), FAILED, debug=debug)
    except Exception as error:  # noqa: BLE001 -- the outermost handler: a bug of ours is shown like any other failure
        message = f"{type(error).__name__}: {error} (a bug in tailrace; --debug shows where)"
        _exit(error, message, FAILED, debug=debug)


@contextmanager
def warnings_in_one_line(write: Callable[[str], None] | None = None, *, debug: bool = False) -> Iterator[None]:
    """Show each log record of level WARNING or above as one line: pass it to `write`, or print it to standard error."""
    handler = _OneLineHandler(write or _to_stderr, debug=debug)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


@contextmanager
def stray_warnings_in_one_line(write: Callable[[str], None] | None = None, *, debug: bool = False) -> Iterator[None]:
    """Show warnings as one line each, as `warnings_in_one_line` does, but only if their logger has no handler.

    Agents and SDKs may have handlers of their own: their warnings are left to them.
    """
    before, logging.lastResort = logging.lastResort, _OneLineHandler(write or _to_stderr, debug=debug, is_ours=False)
    try:
        yield
    finally:
        logging.lastResort = before


class _OneLineHandler(logging.Handler):
    def __init__(self, write: Callable[[str], None], *, debug: bool, is_ours: bool = True) -> None:
        super().__init__(logging.WARNING)
        self._write = write
        self._debug = debug
        self._prefix = "tailrace: " if is_ours else ""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = f" ({type(error).__name__}: {error})" if error is not None else ""
        self._write(f"{self._prefix}{visible(record.getMessage() + reason)}")
        if self._debug and error is not None:
            print_traceback(error)


def print_traceback(error: BaseException) -> None:
    """Write the traceback to standard error, without what looks like a secret, and with visible control characters."""
    sys.stderr.write(visible(redact("".join(traceback.format_exception(error)))))


def raised_at(error: BaseException) -> str:
    """The place where an error was raised, as `file.py:LINE`, to help the author of an agent.

    Lines of tailrace and of installed libraries are skipped; "" if no other line is left.
    """
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(path, line) for path, line in lines if not path.startswith((*_LIBRARIES, "<"))]
    return f"{Path(own[-1][0]).name}:{own[-1][1]}" if own else ""


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def _exit(error: Exception, message: str, exit_code: int, *, debug: bool) -> NoReturn:
    if debug:
        print_traceback(error)
    sys.stderr.write(f"tailrace: {visible(message)}\n")
    sys.exit(exit_code)
