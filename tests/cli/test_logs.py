"""The log of the gateway, on a terminal and elsewhere."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest

from tailrace.cli.logs import logging_to
from tailrace.log_context import log_context

LOG = logging.getLogger("tailrace.example")
TOKEN = "70000010:" + "A" * 35


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def broken() -> None:
    try:
        int(TOKEN)
    except ValueError:
        LOG.exception("a call failed")


def test_a_person_reads_one_line_for_each_message() -> None:
    terminal = Terminal()
    with logging_to(terminal), log_context(conversation="telegram:7", turn="t1"):
        LOG.warning("two\nlines and \x1b[31m a colour")
        broken()
        LOG.debug("not shown")
    first, second = terminal.getvalue().splitlines()
    assert first[8:] == " warning  two ⏎ lines and ␛[31m a colour  conversation=telegram:7 turn=t1"
    failed = "a call failed (ValueError: invalid literal for int() with base 10: '[redacted]')"
    assert second[8:] == f" error    {failed}  conversation=telegram:7 turn=t1"


def test_debug_shows_tracebacks_and_debug_messages() -> None:
    terminal = Terminal()
    with logging_to(terminal, debug=True):
        LOG.debug("shown")
        broken()
    assert "debug    shown" in terminal.getvalue()
    assert "Traceback (most recent call last)" in terminal.getvalue()
    assert TOKEN not in terminal.getvalue()


def test_elsewhere_each_line_is_json() -> None:
    stream = io.StringIO()
    with logging_to(stream), log_context(turn="t1"):
        LOG.info('a "quoted" token=%s', "abcd1234efgh")
        broken()
        logging.getLogger("another.library").info("not shown")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert list(first) == ["time", "level", "logger", "event", "turn"]
    assert (first["level"], first["logger"], first["turn"]) == ("info", "tailrace.example", "t1")
    assert first["event"] == 'a "quoted" token=[redacted]'
    assert second["error"] == "ValueError: invalid literal for int() with base 10: '[redacted]'"
    assert second["traceback"].startswith("Traceback")


def test_secrets_of_the_environment_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_KEY", "not-a-usual-secret")
    stream = io.StringIO()
    with logging_to(stream), log_context(turn="not-a-usual-secret"):
        LOG.warning("sent not-a-usual-secret")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["turn"]) == ("sent [redacted]", "[redacted]")


def test_a_task_has_the_names_of_the_block_that_started_it() -> None:
    stream = io.StringIO()

    async def write(text: str) -> None:
        await asyncio.sleep(0)
        LOG.warning(text)

    async def main() -> None:
        with log_context(conversation="c", turn="t1"):
            first = asyncio.create_task(write("first"))
            with log_context(turn="", delivery="d"):
                second = asyncio.create_task(write("second"))
        await write("third")
        await asyncio.gather(first, second)

    with logging_to(stream):
        asyncio.run(main())
    lines = {line["event"]: line for line in map(json.loads, stream.getvalue().splitlines())}
    names = {
        text: {name: line.get(name) for name in ("conversation", "turn", "delivery")} for text, line in lines.items()
    }
    assert names == {
        "first": {"conversation": "c", "turn": "t1", "delivery": None},
        "second": {"conversation": "c", "turn": None, "delivery": "d"},
        "third": {"conversation": None, "turn": None, "delivery": None},
    }


def test_after_the_block_nothing_is_written() -> None:
    stream = io.StringIO()
    with logging_to(stream):
        pass
    LOG.warning("too late")
    assert stream.getvalue() == ""
    assert logging.getLogger("tailrace").level == logging.NOTSET
