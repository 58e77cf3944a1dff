"""What SDKs hand over as plain values, and what sessions remember in files."""

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
from tailrace.events import TurnFailed
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


def test_objects_become_their_fields_and_what_json_cannot_carry_what_it_says_of_itself() -> None:
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
def test_arguments_are_the_json_that_they_hold(arguments: Any, expected: Any) -> None:
    assert json_or_text(arguments) == expected


def test_a_value_is_read_as_text_and_a_remark_is_the_one_text_in_it() -> None:
    assert [as_text(value) for value in ("so", ["so"], None)] == ["so", '["so"]', "null"]
    assert [status_text(value) for value in ("so", {"it is": "so"}, {"a": 1, "b": 2})] == ["so", "so", '{"a":1,"b":2}']


def test_a_failure_says_what_people_can_use() -> None:
    error = TimeoutError()
    assert failure_from(error).message == "TimeoutError"
    refused = RuntimeError("no")
    refused.status_code = 429  # type: ignore[attr-defined]  # as clients of HTTP services put it there
    found = failure_from(refused)
    assert (found.kind, found.message, found.status_code) == ("RuntimeError", "no", 429)


def test_an_sdk_that_is_not_there_names_the_extra() -> None:
    with pytest.raises(UsageError, match=r"needs the package 'no_such_sdk'.*pip install 'tailrace\[some\]'"):
        load_sdk("no_such_sdk", extra="some")
    assert load_sdk("json", extra="some").dumps(1) == "1"


def test_a_session_is_named_by_its_id_or_by_the_place() -> None:
    assert session_of(Prompt(text="", session_id="s", conversation="c")) == "s"
    assert session_of(Prompt(text="", conversation="c")) == "c"
    assert session_of(Prompt(text="")) == ""


def test_sessions_are_kept_apart_and_only_their_owner_may_read_them(tmp_path: Path) -> None:
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


def test_a_private_file_keeps_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    private_file(path).write_text("kept")
    assert private_file(path).read_text() == "kept"


def test_sessions_lie_where_the_platform_keeps_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert sessions_directory() == tmp_path / "tailrace" / "sessions"


class Graph:
    """Neither an agent nor a compiled graph."""


@pytest.mark.parametrize(
    ("make", "agent", "message"),
    [
        (PydanticAIRuntime, 42, "pydantic-ai runs an agent of Pydantic AI, and was given an object of type int."),
        (PydanticAIRuntime, Graph, "pydantic-ai runs an agent of Pydantic AI, and was given the class Graph."),
        (
            PydanticAIRuntime,
            Graph(),
            "pydantic-ai runs an agent of Pydantic AI, and was given an object of type Graph.",
        ),
        (
            LangGraphRuntime,
            None,
            "langgraph runs a compiled graph of LangGraph, and was given an object of type NoneType.",
        ),
        (
            LangGraphRuntime,
            Graph(),
            "langgraph runs a compiled graph of LangGraph, and was given an object of type Graph.",
        ),
    ],
)
def test_a_framework_object_of_the_wrong_type_is_a_failed_turn_that_says_so(
    make: Callable[[object], Runtime], agent: object, message: str
) -> None:
    async def turn() -> list[Event]:
        return [event async for event in make(agent).run(Prompt(text="hello"))]

    failed = TurnFailed(message=f"{message} Give it one that is made.", code="wrong_type")
    assert asyncio.run(turn())[1:] == [failed]
