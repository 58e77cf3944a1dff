"""opencode as a server of its own: what it is asked, remembers and may do, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli_streams import is_running

from tailrace.contract import checked
from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    Status,
    TextDelta,
    ToolOutput,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.opencode import OpencodeRuntime
from tailrace.runtimes.process import ProcessTimeouts

if TYPE_CHECKING:
    from tailrace.runtimes.permissions import Choice, Question

COMMAND = Path(__file__).parent / "stand_ins" / "opencode_command.py"
SESSION = "ses_e1fa059c3ffeOoHROEiawOJf6G"
RUN = ["run", "--format", "json", "--thinking"]
NEW = ["POST", "/session", {}]
ANEW = Notice(text="opencode starts a new conversation: the earlier one cannot be found.")


def opencode(folder: Path, deed: str, **options: Any) -> OpencodeRuntime:
    command = (sys.executable, str(COMMAND), str(folder), deed)
    return OpencodeRuntime(command, sessions=folder / "sessions", **options)


def play(runtime: Runtime, text: str = "hello", **fields: str) -> list[Event]:
    async def collect() -> list[Event]:
        prompt = Prompt(text=text, **fields)
        return [event async for event in checked(runtime.run(prompt), turn_id="t")]

    return asyncio.run(collect())


def asked(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "asked").read_text(encoding="utf-8").splitlines()]


def said(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_the_answer_comes_piece_by_piece_and_the_turn_completes(tmp_path: Path) -> None:
    events = play(opencode(tmp_path, "opencode_serve_tool"), session_id="one")
    assert events[0] == TurnStarted(turn_id="t", runtime="opencode", session_id="one")
    assert said(events) == "Let me check.The tool said hi."
    assert events[-1] == TurnCompleted(stop_reason="stop")
    prompt = {"parts": [{"type": "text", "text": "hello"}]}
    assert asked(tmp_path) == [NEW, ["POST", f"/session/{SESSION}/prompt_async", prompt]]


@pytest.mark.parametrize("text", ["", "--help", "two\nlines\n", "日本語 " * 30_000, "\ud800 alone"])
def test_any_prompt_is_given_as_it_is(text: str, tmp_path: Path) -> None:
    play(opencode(tmp_path, "opencode_serve_tool"), text)
    assert asked(tmp_path)[1][2]["parts"][0]["text"] == text.replace("\ud800", "?")


def test_a_session_goes_on_with_its_conversation_also_after_a_restart(tmp_path: Path) -> None:
    for session in ("one", "one", "two", ""):
        play(opencode(tmp_path, "opencode_serve_tool"), session_id=session)
    assert asked(tmp_path)[::2] == [NEW, ["GET", f"/session/{SESSION}", None], NEW, NEW]


def test_a_conversation_that_is_not_there_any_more_is_begun_anew_and_that_is_said(tmp_path: Path) -> None:
    play(opencode(tmp_path, "opencode_serve_longtool"), session_id="one")
    events = play(opencode(tmp_path, "forgets"), session_id="one")
    assert ANEW in events
    assert isinstance(events[-1], TurnCompleted)


# What it may do


class Person:
    """Somebody who chooses the same whatever they are asked."""

    def __init__(self, kind: str | None) -> None:
        self.kind = kind

    async def ask(self, question: Question) -> Choice | None:
        return next((choice for choice in question.choices if choice.kind == self.kind), None)


@pytest.mark.parametrize(
    ("options", "reply"),
    [
        ({"permissions": "allow"}, "once"),
        ({"permissions": "deny"}, "reject"),
        ({}, "reject"),
        ({"approver": Person("allow_once")}, "once"),
        ({"approver": Person("allow_always")}, "always"),
        ({"approver": Person(None)}, "reject"),
    ],
)
def test_what_it_asks_for_is_decided_by_the_policy_or_by_a_person(
    options: dict[str, Any], reply: str, tmp_path: Path
) -> None:
    events = play(opencode(tmp_path, "opencode_serve_permission", **options))
    method, path, answer = asked(tmp_path)[2]
    assert (method, path) == ("POST", "/permission/per_1ee0042f4001ZWuGQLzfVgYpuZ/reply")
    assert answer["reply"] == reply
    assert ("message" in answer) == (reply == "reject"), "without a word a denial would end the turn"
    assert isinstance(events[-1], TurnCompleted)
    remarks = [event.text for event in events if isinstance(event, Notice | Status)]
    if options.get("permissions") == "allow":
        assert remarks == []
    elif "approver" in options:
        assert remarks == ["Waiting for permission: bash echo tool-says-hi"]
    else:
        assert remarks[0].startswith("Not allowed: bash echo tool-says-hi.")


# How it ends


async def leave_at(runtime: Runtime, kind: type[Event], session: str = "one") -> None:
    async with aclosing(checked(runtime.run(Prompt(text="hello", session_id=session)), turn_id="t")) as events:
        async for event in events:
            if isinstance(event, kind):
                break


def test_leaving_in_the_middle_aborts_the_turn_and_leaves_nobody(tmp_path: Path) -> None:
    asyncio.run(leave_at(opencode(tmp_path, "stalls"), ToolOutput))
    assert asked(tmp_path)[-1][1].endswith("/abort")
    for process in (tmp_path / "running").read_text(encoding="utf-8").split():
        assert not is_running(int(process))


@pytest.mark.parametrize(
    ("deed", "why"),
    [
        ("dies", "was ended by signal 9"),
        ("dies with a word", "exited with code 3: panic: out of memory"),
        ("hangs up", "opencode: the connection was lost in the middle of the response."),
    ],
)
def test_one_that_dies_leaves_what_it_said_and_why(tmp_path: Path, deed: str, why: str) -> None:
    events = play(opencode(tmp_path, deed))
    assert said(events).startswith("Let me ")
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].message.endswith(why)
    assert events[-1].code == "cut_off"


def test_what_its_server_prints_beside_its_events_does_not_block_it(tmp_path: Path) -> None:
    assert isinstance(play(opencode(tmp_path, "chatters"))[-1], TurnCompleted)


def test_one_whose_server_lives_and_says_nothing_is_given_up(tmp_path: Path) -> None:
    runtime = opencode(tmp_path, "idles")
    runtime.timeouts = ProcessTimeouts(silence_timeout_s=3.0)  # which its start takes a part of
    failed = play(runtime)[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.message == "opencode was silent for 3 seconds and was stopped."


def test_a_command_that_is_not_installed_is_told_with_how_to_install_it(tmp_path: Path) -> None:
    message = "there is no command 'no-such-opencode'. Install opencode with: npm install -g opencode-ai"
    events = play(OpencodeRuntime(("no-such-opencode",), sessions=tmp_path))
    assert events[1:] == [TurnFailed(message=message, code="not_found")]


# Without a server


def test_without_a_server_it_is_run_and_that_is_said(tmp_path: Path) -> None:
    events = play(opencode(tmp_path, "old"), "say hello", session_id="one")
    assert Status(text="This opencode cannot run as a server: its answer comes block by block.") in events
    blocks = [event.text for event in events if isinstance(event, BlockFinal)]
    assert blocks == ["Let me check.", "The tool said hi."]
    assert events[-1] == TurnCompleted(stop_reason="stop")
    play(opencode(tmp_path, "old"), "--help", session_id="one")
    again = [*RUN, "--session", "ses_e1fab52b1ffeERd15J6vDynwpb"]
    assert asked(tmp_path) == [
        {"arguments": RUN, "prompt": "say hello\n"},
        {"arguments": again, "prompt": "--help\n"},
    ]


def test_without_a_server_a_conversation_that_is_gone_is_begun_anew_too(tmp_path: Path) -> None:
    for _ in range(2):
        events = play(opencode(tmp_path, "old and forgetful"), session_id="one")
    assert ANEW in events
    assert isinstance(events[-1], TurnCompleted)


def test_without_a_server_leaving_ends_it_and_the_command_that_it_runs(tmp_path: Path) -> None:
    asyncio.run(leave_at(opencode(tmp_path, "old and stalling"), BlockFinal))
    for process in (tmp_path / "running").read_text(encoding="utf-8").split():
        assert not is_running(int(process))
