"""The log of `tailrace run` and `tailrace serve`: one line for each message, JSON unless a person watches a terminal.

Each line has the conversation, the turn and the delivery that it is about. Secrets are removed from every value. Texts
of messages are never logged, except with `--debug`.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog

from tailrace.channels.terminal.visible import visible
from tailrace.log_context import named
from tailrace.redaction import Redaction

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from typing import TextIO

    Line = MutableMapping[str, Any]

_FIRST = ("time", "level", "logger", "event")


@contextmanager
def logging_to(stream: TextIO | None = None, *, debug: bool = False) -> Iterator[None]:
    """Write the log to `stream`, by default standard error, until the block ends. With `debug`, write everything."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(is_watched=stream.isatty(), debug=debug))
    root, ours = logging.getLogger(), logging.getLogger("tailrace")
    before = ours.level
    ours.setLevel(logging.DEBUG if debug else logging.INFO)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        ours.setLevel(before)


def _formatter(*, is_watched: bool, debug: bool) -> logging.Formatter:
    redaction = Redaction(os.environ)

    def redact(_logger: object, _method: str, line: Line) -> Line:
        return {name: redaction.value(value) for name, value in line.items()}

    def describe_error(_logger: object, _method: str, line: Line) -> Line:
        error = _error_of(line.pop("exc_info", None))
        if error is not None:
            line["error"] = f"{type(error).__name__}: {error}"
            if debug or not is_watched:
                line["traceback"] = "".join(traceback.format_exception(error))
        return line

    render = _human_line if is_watched else structlog.processors.JSONRenderer(ensure_ascii=False)
    clock = structlog.processors.TimeStamper(fmt="%H:%M:%S" if is_watched else "iso", utc=not is_watched, key="time")
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[clock, structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, _add_names],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            describe_error,
            redact,
            _in_order,
            render,
        ],
    )


def _add_names(_logger: object, _method: str, line: Line) -> Line:
    return {**line, **named()}


def _in_order(_logger: object, _method: str, line: Line) -> Line:
    """What a reader looks for first stands first."""
    return {name: line[name] for name in (*_FIRST, *(name for name in line if name not in _FIRST))}


def _human_line(_logger: object, _method: str, line: Line) -> str:
    """One line for a person; only a traceback takes more."""
    time, level, _, event = (str(line.pop(name)) for name in _FIRST)
    trace, error = line.pop("traceback", ""), line.pop("error", "")
    text = f"{event} ({error})" if error and error not in event else event
    names = " ".join(f"{name}={value}" for name, value in line.items())
    shown = f"{time} {level:<8} {text}  {names}".rstrip().replace("\n", " ⏎ ")
    return f"{visible(shown)}\n{visible(trace)}".rstrip()


def _error_of(exc_info: object) -> BaseException | None:
    match exc_info:
        case BaseException():
            return exc_info
        case (_, BaseException() as error, _):
            return error
        case _:
            return None
