"""codex as a process: what it is told, what it remembers, what it may do, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli_streams import METADATA, is_running

from tailrace.contract import checked
from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    Status,
    TextDelta,
    ToolFinished,
    ToolOutput,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.codex import CodexRuntime

if TYPE_CHECKING:
    from tailrace.runtimes.permissions import Choice, Question

COMMAND = Path(__file__).parent / "stand_ins" / "codex_command.py"
TOOL_THREAD = "01a1e052-d8ce-75c1-b680-4b4a59737ef9"
EXEC_THREAD = "01a1e052-1001-7d12-b3b2-99b490d8d2a5"
EXEC = ["exec", "--json", "--skip-git-repo-check"]


def codex(folder: Path, deed: str, **options: Any) -> CodexRuntime:
    command = (sys.executable, str(COMMAND), str(folder), deed)
    return CodexRuntime(command, sessions=folder / "sessions", **options)


def play(runtime: Runtime, text: str = "hello", **fields: str) -> list[Event]:
    async def collect() -> list[Event]:
        prompt = Prompt(text=text, **fields)
        return [event async for event in checked(runtime.run(prompt), turn_id="t")]

    return asyncio.run(collect())


def asked(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "asked").read_text(encoding="utf-8").splitlines()]


def threads(folder: Path) -> list[tuple[str, str | None]]:
    """How each turn began its thread."""
    beginnings = {"thread/start", "thread/resume"}
    return [
        (told["method"], told["params"].get("threadId")) for told in asked(folder) if told.get("method") in beginnings
    ]


def said(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_the_answer_comes_piece_by_piece_and_the_turn_completes(tmp_path: Path) -> None:
    events = play(codex(tmp_path, "codex_app_tool", cwd=str(tmp_path)), session_id="one")
    assert events[:2] == [TurnStarted(turn_id="t", runtime="codex", session_id="one"), Notice(text=METADATA)]
    assert said(events) == "Let me check.The tool said hi."
    assert events[-1] == TurnCompleted(text="The tool said hi.")
    initialize, _, start, turn = asked(tmp_path)
    assert initialize["params"]["clientInfo"]["name"] == "tailrace"
    assert start["params"] == {"cwd": str(tmp_path)}
    assert turn["params"] == {"threadId": TOOL_THREAD, "input": [{"type": "text", "text": "hello"}]}


@pytest.mark.parametrize("text", ["", "--help", "two\nlines\n", "日本語 " * 30_000, "\ud800 alone"])
def test_any_prompt_is_given_as_it_is(text: str, tmp_path: Path) -> None:
    play(codex(tmp_path, "codex_app_tool"), text)
    assert asked(tmp_path)[3]["params"]["input"][0]["text"] == text.replace("\ud800", "?")


def test_a_session_goes_on_with_its_thread_also_after_a_restart(tmp_path: Path) -> None:
    for session in ("one", "one", "two", ""):
        play(codex(tmp_path, "codex_app_tool"), session_id=session)
    new, again = ("thread/start", None), ("thread/resume", TOOL_THREAD)
    assert threads(tmp_path) == [new, again, new, new]


def test_a_thread_that_is_not_there_any_more_is_begun_anew_and_that_is_said(tmp_path: Path) -> None:
    play(codex(tmp_path, "codex_app_tool"), session_id="one")
    events = play(codex(tmp_path, "forgets"), session_id="one")
    assert Notice(text="codex starts a new conversation: no rollout found") in events
    assert isinstance(events[-1], TurnCompleted)
    assert [method for method, _ in threads(tmp_path)] == ["thread/start", "thread/resume", "thread/start"]


# What it may do


class Person:
    """Somebody who chooses the same whatever they are asked."""

    def __init__(self, kind: str | None) -> None:
        self.kind = kind
        self.titles: list[str] = []

    async def ask(self, question: Question) -> Choice | None:
        self.titles.append(question.title)
        if self.kind == "raises":
            raise RuntimeError("nobody is there")
        return next((choice for choice in question.choices if choice.kind == self.kind), None)


@pytest.mark.parametrize(
    ("options", "decision"),
    [
        ({"permissions": "allow"}, "accept"),
        ({"permissions": "deny"}, "decline"),
        ({}, "decline"),
        ({"permissions": "deny", "approver": Person("allow_once")}, "decline"),
        ({"approver": Person("allow_once")}, "accept"),
        ({"approver": Person("allow_always")}, "acceptForSession"),
        ({"approver": Person("reject_once")}, "decline"),
        ({"approver": Person(None)}, "decline"),
        ({"approver": Person("raises")}, "decline"),
    ],
)
def test_what_it_asks_for_is_decided_by_the_policy_or_by_a_person(
    options: dict[str, Any], decision: str, tmp_path: Path
) -> None:
    events = play(codex(tmp_path, "codex_app_approval_accept", **options))
    assert {"jsonrpc": "2.0", "id": 0, "result": {"decision": decision}} in asked(tmp_path)
    assert isinstance(events[-1], TurnCompleted)
    remarks = [event.text for event in events if isinstance(event, Notice | Status) and "echo to-out" in event.text]
    command = "Run echo to-out; echo to-err >&2; exit 3"
    if options.get("permissions") == "allow":
        assert remarks == []
    elif "approver" in options and "permissions" not in options:
        unasked = f"Not allowed, because nobody could be asked: {command} (nobody is there)"
        assert remarks[0] == f"Waiting for permission: {command}"
        assert remarks[1:] == ([unasked] if options["approver"].kind == "raises" else [])
    else:
        assert remarks[0].startswith(f"Not allowed: {command}.")


class Silent:
    """Somebody who never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.is_withdrawn = False

    async def ask(self, question: Question) -> Choice | None:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_withdrawn = True
        return question.allowing()


def test_a_question_that_nobody_answers_is_withdrawn_when_the_turn_is_left(tmp_path: Path) -> None:
    async def leave() -> bool:
        person = Silent()
        runtime = codex(tmp_path, "codex_app_approval_accept", approver=person)
        async with aclosing(runtime.run(Prompt(text="hello"))) as events:
            async for event in events:
                if isinstance(event, Status):
                    await person.asked.wait()
                    break
        return person.is_withdrawn

    assert asyncio.run(leave())


# How it ends


def test_leaving_in_the_middle_interrupts_the_turn_and_leaves_nobody(tmp_path: Path) -> None:
    async def leave() -> None:
        runtime = codex(tmp_path, "stalls")
        async with aclosing(runtime.run(Prompt(text="hello", session_id="one"))) as events:
            async for event in events:
                if isinstance(event, ToolOutput):
                    break

    asyncio.run(leave())
    assert asked(tmp_path)[-1]["method"] == "turn/interrupt"
    for process in (tmp_path / "running").read_text(encoding="utf-8").split():
        assert not is_running(int(process))
    play(codex(tmp_path, "codex_app_tool"), session_id="one")
    assert threads(tmp_path)[-1][0] == "thread/resume", "what was stopped can be gone on with"


def test_one_that_dies_leaves_what_it_said(tmp_path: Path) -> None:
    events = play(codex(tmp_path, "dies"))
    assert said(events) == "Let me "
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].message.endswith("was ended by signal 9")
    assert events[-1].code == "cut_off"


def test_one_that_refuses_to_start_says_why(tmp_path: Path) -> None:
    *_, failed = play(codex(tmp_path, "misconfigured"))
    assert isinstance(failed, TurnFailed)
    assert failed.message.endswith("exited with code 1: Error: approval_policy is not understood")
    assert not (tmp_path / "asked").exists(), "another way of starting it would come to the same"


def test_a_command_that_is_not_installed_is_told_with_how_to_install_it(tmp_path: Path) -> None:
    message = "there is no command 'no-such-codex'. Install codex with: npm install -g @openai/codex"
    events = play(CodexRuntime(("no-such-codex",), sessions=tmp_path))
    assert events[1:] == [TurnFailed(message=message, code="not_found")]


def test_the_end_of_the_turn_is_the_end_though_the_server_stays(tmp_path: Path) -> None:
    events = play(codex(tmp_path, "codex_app_toolfail"))
    assert [event.is_error for event in events if isinstance(event, ToolFinished)] == [True]
    assert isinstance(events[-1], TurnCompleted)


# Without a server


def test_without_a_server_it_is_executed_and_that_is_said(tmp_path: Path) -> None:
    events = play(codex(tmp_path, "old"), "say hello", session_id="one")
    assert Status(text="This codex has no app-server: its answer comes block by block.") in events
    assert [event.text for event in events if isinstance(event, BlockFinal)] == ["Hello from the fake model."]
    assert isinstance(events[-1], TurnCompleted)
    play(codex(tmp_path, "old"), "--help", session_id="one")
    assert asked(tmp_path) == [
        {"arguments": [*EXEC, "-"], "prompt": "say hello\n"},
        {"arguments": [*EXEC, "resume", EXEC_THREAD, "-"], "prompt": "--help\n"},
    ]


def test_without_a_server_a_thread_that_is_gone_is_begun_anew_too(tmp_path: Path) -> None:
    for _ in range(2):
        events = play(codex(tmp_path, "old and forgetful"), session_id="one")
    assert Notice(text="codex starts a new conversation: the earlier one cannot be found.") in events
    assert isinstance(events[-1], TurnCompleted)
