"""SDK objects as JSON values, and the files of sessions."""

from __future__ import annotations

import asyncio
import datetime
import enum
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.errors import UsageError
from tailrace.events import TurnFailed, TurnStarted
from tailrace.ports import Prompt
from tailrace.runtimes.langgraph import LangGraphRuntime
from tailrace.runtimes.pydantic_ai import PydanticAIRuntime
from tailrace.runtimes.sdk import as_text, failure_from, json_or_text, json_value, load_sdk, status_text
from tailrace.runtimes.sessions import SessionFiles, private_file, session_of, sessions_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.ports import Runtime


@dataclass
class Point:
    x: int
    on: Any = None


class Model:
    """Behaves like a model of Pydantic."""

    def model_dump(self, *, warnings: bool) -> dict[str, Any]:
        assert not warnings
        return {"point": Point(1), "thing": Thing()}


class Thing:
    def __str__(self) -> str:
        return "a thing"


class Colour(enum.Enum):
    RED = "red"


def test_sdk_objects_become_json_values() -> None:
    day = datetime.date(2026, 11, 18)
    assert json_value([Model(), {1: day}, Colour.RED, {"set"}]) == [
        {"point": {"x": 1, "on": None}, "thing": "a thing"},
        {"1": "2026-11-18"},
        "red",
        ["set"],
    ]
    assert json_value({("a", "b"): 1}) == "{('a', 'b'): 1}"
    endless: list[Any] = []
    endless.append(endless)
    assert json_value(endless) == "[[...]]"


@pytest.mark.parametrize(
    ("arguments", "expected"), [('{"a": 1}', {"a": 1}), ('{"a": ', '{"a": '), ("", None), ({"a": 1}, {"a": 1})]
)
def test_arguments_are_decoded_and_other_text_stays_text(arguments: Any, expected: Any) -> None:
    assert json_or_text(arguments) == expected


def test_a_value_as_text_and_as_a_status() -> None:
    assert [as_text(value) for value in ("so", ["so"], None)] == ["so", '["so"]', "null"]
    assert [status_text(value) for value in ("so", {"it is": "so"}, {"a": 1, "b": 2})] == ["so", "so", '{"a":1,"b":2}']


def test_a_failure_has_the_class_the_text_and_the_status() -> None:
    error = TimeoutError()
    assert failure_from(error).message == "TimeoutError"
    refused = RuntimeError("no")
    refused.status_code = 429  # type: ignore[attr-defined]  # as clients of HTTP services put it there
    found = failure_from(refused)
    assert (found.kind, found.message, found.status_code) == ("RuntimeError", "no", 429)


def test_a_missing_sdk_names_the_extra_to_install() -> None:
    with pytest.raises(UsageError, match=r"needs the package 'no_such_sdk'.*pip install -e '\.\[some\]'"):
        load_sdk("no_such_sdk", extra="some")
    assert load_sdk("json", extra="some").dumps(1) == "1"


def test_a_session_is_named_by_its_id_or_by_the_conversation() -> None:
    assert session_of(Prompt(text="", session_id="s", conversation="c")) == "s"
    assert session_of(Prompt(text="", conversation="c")) == "c"
    assert session_of(Prompt(text="")) == ""


def test_session_files_are_separate_and_private(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path / "sessions" / "some")
    before = os.umask(0)
    try:
        assert files.load("a/../b") is None
        files.save("a/../b", b"one")
        files.save("a/../b", b"two")
        files.save("\ud800", b"three")
    finally:
        os.umask(before)
    assert (files.load("a/../b"), files.load("\ud800")) == (b"two", b"three")
    kept = list((tmp_path / "sessions" / "some").iterdir())
    assert len(kept) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_a_private_file_that_exists_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    private_file(path).write_text("kept")
    assert private_file(path).read_text() == "kept"


def test_sessions_are_in_the_data_folder_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert sessions_directory() == tmp_path / "tailrace" / "sessions"


class Graph:
    """Neither an agent nor a compiled graph."""


@pytest.mark.parametrize(
    ("make", "agent", "found"),
    [
        (PydanticAIRuntime, 42, "an object of type int"),
        (PydanticAIRuntime, Graph, "the class Graph"),
        (PydanticAIRuntime, Graph(), "an object of type Graph"),
        (LangGraphRuntime, None, "an object of type NoneType"),
        (LangGraphRuntime, Graph(), "an object of type Graph"),
    ],
)
def test_an_object_of_the_wrong_type_is_a_failed_turn(
    make: Callable[[object], Runtime], agent: object, found: str
) -> None:
    async def turn() -> list[Event]:
        return [event async for event in make(agent).run(Prompt(text="hello"))]

    wanted = {PydanticAIRuntime: "an agent of Pydantic AI", LangGraphRuntime: "a compiled graph of LangGraph"}
    started, failed = asyncio.run(turn())
    assert isinstance(started, TurnStarted)
    message = f"{started.runtime} runs {wanted[type(make(agent))]}, but it was given {found}."
    assert failed == TurnFailed(message=message, code="wrong_type")
