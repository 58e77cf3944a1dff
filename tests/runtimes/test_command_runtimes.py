"""What all runtimes with a command do alike: prompts, conversations, permissions, and leaving nothing behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from command_agents import Person, is_running, leave_at, notes, play, runtime_of, text_of

from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    Status,
    TextDelta,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.runtimes.process import ProcessTimeouts

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.runtimes.permissions import Policy

RECORDINGS = {
    "claude": "claude_cli_tool",
    "codex": "codex_app_tool",
    "gemini": "gemini_cli_tool",
    "opencode": "opencode_serve_tool",
}
CONVERSATIONS = {
    "claude": "49af1d15-32cd-4b05-a22d-a865e328dce9",
    "codex": "01a1e052-d8ce-75c1-b680-4b4a59737ef9",
    "gemini": "cf20d1bd-d87a-4019-83d2-b7ea454bc738",
    "opencode": "ses_e1fa059c3ffeOoHROEiawOJf6G",
}
every_agent = pytest.mark.parametrize("agent", RECORDINGS)


def prompts(agent: str, folder: Path) -> list[str]:
    """The prompts that the stand-in was given."""
    match agent:
        case "codex":
            turns = [note["params"] for note in notes(folder) if note.get("method") == "turn/start"]
            return [params["input"][0]["text"] for params in turns]
        case "opencode":
            return [body["parts"][0]["text"] for _, path, body in notes(folder) if path.endswith("/prompt_async")]
        case _:
            return [note["prompt"].removesuffix("\n") for note in notes(folder)]


def resumed(agent: str, folder: Path) -> list[str | None]:
    """The conversation that each turn tried to resume, None for a new one."""
    match agent:
        case "codex":
            starts = {"thread/start", "thread/resume"}
            return [note["params"].get("threadId") for note in notes(folder) if note.get("method") in starts]
        case "opencode":
            opened = [path.split("/")[2:] for _, path, _ in notes(folder) if len(path.split("/")) < 4]
            return [session[0] if session else None for session in opened]
        case _:
            runs = [note["arguments"] for note in notes(folder)]
            return [run[run.index("--resume") + 1] if "--resume" in run else None for run in runs]


@every_agent
def test_turn_starts_streams_its_text_and_completes(agent: str, tmp_path: Path) -> None:
    events = play(runtime_of(agent, tmp_path, RECORDINGS[agent]), session_id="one")
    session = CONVERSATIONS[agent] if agent == "claude" else "one"
    assert events[0] == TurnStarted(turn_id="t", runtime=agent, session_id=session)
    assert text_of(events) == "Let me check.The tool said hi."
    assert isinstance(events[-1], TurnCompleted)


@pytest.mark.parametrize("text", ["", "--help\ntwo lines " + "日本語 " * 30_000 + "\ud800 alone"], ids=["empty", "odd"])
@every_agent
def test_prompt_reaches_the_agent_unchanged(agent: str, text: str, tmp_path: Path) -> None:
    play(runtime_of(agent, tmp_path, RECORDINGS[agent]), text)
    assert prompts(agent, tmp_path) == [text.replace("\ud800", "?")]


@every_agent
def test_session_resumes_its_conversation_also_after_a_restart(agent: str, tmp_path: Path) -> None:
    for session in ("one", "one", "two", ""):
        play(runtime_of(agent, tmp_path, RECORDINGS[agent]), session_id=session)
    assert resumed(agent, tmp_path) == [None, CONVERSATIONS[agent], None, None]


@pytest.mark.parametrize(
    ("agent", "action", "notices"),
    [
        ("claude", "forgets", []),
        ("codex", "forgets", ["codex starts a new conversation: no rollout found"]),
        ("codex", "old and forgetful", ["codex starts a new conversation: the earlier one cannot be found."]),
        ("gemini", "forgets", ["gemini starts a new conversation: the earlier one cannot be found."]),
        ("opencode", "forgets", ["opencode starts a new conversation: the earlier one cannot be found."]),
        ("opencode", "old and forgetful", ["opencode starts a new conversation: the earlier one cannot be found."]),
    ],
)
def test_lost_conversation_is_replaced_by_a_new_one(
    agent: str, action: str, notices: list[str], tmp_path: Path
) -> None:
    known = {"opencode": "opencode_serve_longtool"}.get(agent, RECORDINGS[agent])  # of another session than `forgets`
    play(runtime_of(agent, tmp_path, action if action.startswith("old") else known), session_id="one")
    events = play(runtime_of(agent, tmp_path, action), session_id="one")
    assert [event.text for event in events if isinstance(event, Notice) and "new conversation" in event.text] == notices
    assert isinstance(events[-1], TurnCompleted)


@pytest.mark.parametrize(
    ("agent", "action", "text", "reason"),
    [
        ("claude", "dies", "Let me check.", "was ended by signal 9"),
        ("codex", "dies", "Let me ", "was ended by signal 9"),
        ("gemini", "dies", "Let me check.", "was ended by signal 9"),
        ("opencode", "dies", "Let me ", "was ended by signal 9"),
        ("opencode", "dies with an error", "Let me ", "exited with code 3: panic: out of memory"),
        ("opencode", "hangs up", "Let me ", "the connection was lost in the middle of the response."),
    ],
)
def test_agent_that_dies_keeps_its_text_and_says_why(
    agent: str, action: str, text: str, reason: str, tmp_path: Path
) -> None:
    runtime = runtime_of(agent, tmp_path, action)
    runtime.timeouts = ProcessTimeouts(exit_timeout_s=0.3)
    events = play(runtime)
    assert text_of(events).startswith(text)
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].message.endswith(reason)
    assert events[-1].code == "cut_off"


@pytest.mark.parametrize(
    ("agent", "action", "kind"),
    [
        ("claude", "stalls", TextDelta),
        ("codex", "stalls", ToolOutput),
        ("gemini", "stalls", ToolStarted),
        ("opencode", "stalls", ToolOutput),
        ("opencode", "old and stalling", BlockFinal),
    ],
)
def test_leaving_a_turn_ends_the_agent_and_its_tools(
    agent: str, action: str, kind: type[Event], tmp_path: Path
) -> None:
    asyncio.run(leave_at(runtime_of(agent, tmp_path, action), kind))
    for process in (tmp_path / "running").read_text(encoding="utf-8").split():
        assert not is_running(int(process))
    last = notes(tmp_path)[-1]
    if (agent, action) == ("codex", "stalls"):
        assert last["method"] == "turn/interrupt"
    if (agent, action) == ("opencode", "stalls"):
        assert last[1].endswith("/abort")
    if agent != "opencode":
        play(runtime_of(agent, tmp_path, RECORDINGS[agent]), session_id="one")
        assert resumed(agent, tmp_path)[-1] is not None, "a turn that was stopped can be continued"


# Permissions

TOUCH = {"command": "touch made.txt"}
RULE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "touch made.txt"}],
    "behavior": "allow",
    "destination": "localSettings",
}
ALLOWED = {"behavior": "allow", "updatedInput": TOUCH}
DENIED = {"behavior": "deny", "message": "The person did not allow this."}
REJECTED = {"reply": "reject", "message": "This is not allowed here. Continue without it."}
TITLES = {
    "claude": "Claude wants to use Bash",
    "codex": "Run echo to-out; echo to-err >&2; exit 3",
    "opencode": "bash echo tool-says-hi",
}
ASKING = {"claude": "asks", "codex": "codex_app_approval_accept", "opencode": "opencode_serve_permission"}


def decision(agent: str, folder: Path) -> Any:
    """The response to the request for permission."""
    match agent:
        case "claude":
            return notes(folder)[0]["answer"]["response"]["response"]
        case "codex":
            [response] = [note["result"]["decision"] for note in notes(folder) if note.get("id") == 0]
            return response
        case _:
            method, path, body = notes(folder)[2]
            assert (method, path) == ("POST", "/permission/per_1ee0042f4001ZWuGQLzfVgYpuZ/reply")
            return body


@pytest.mark.parametrize(
    ("agent", "policy", "kind", "expected"),
    [
        ("claude", "allow", "", ALLOWED),
        ("claude", "ask", "allow_always", {**ALLOWED, "updatedPermissions": [RULE]}),
        ("claude", "ask", "reject_once", DENIED),
        ("codex", "deny", "allow_once", "decline"),
        ("codex", "ask", "", "decline"),
        ("codex", "ask", "allow_once", "accept"),
        ("codex", "ask", "allow_always", "acceptForSession"),
        ("codex", "ask", "raises", "decline"),
        ("opencode", "deny", "", REJECTED),
        ("opencode", "ask", "allow_once", {"reply": "once"}),
        ("opencode", "ask", "allow_always", {"reply": "always"}),
        ("opencode", "ask", "none of them", REJECTED),
    ],
)
def test_permission_is_decided_by_the_policy_or_the_person(
    agent: str, policy: Policy, kind: str, expected: Any, tmp_path: Path
) -> None:
    person = Person(kind) if kind else None
    events = play(runtime_of(agent, tmp_path, ASKING[agent], permissions=policy, approver=person))
    assert decision(agent, tmp_path) == expected
    assert isinstance(events[-1], TurnCompleted)
    title = TITLES[agent]
    shown = [event.text for event in events if isinstance(event, Notice | Status) and title in event.text]
    if policy == "allow":
        assert shown == []
    elif policy == "ask" and person is not None:
        not_asked = [f"Not allowed, because the question could not be asked: {title} (no line to the person)"]
        assert shown == [f"Waiting for permission: {title}", *(not_asked if kind == "raises" else [])]
        assert [question.title for question in person.questions] == [title]
    else:
        assert shown[0].startswith(f"Not allowed: {title}.")


@pytest.mark.parametrize("agent", ASKING)
def test_open_question_is_withdrawn_when_the_turn_is_left(agent: str, tmp_path: Path) -> None:
    async def leave() -> None:
        person = Person("never")
        await leave_at(runtime_of(agent, tmp_path, ASKING[agent], approver=person), Status, person=person)
        assert person.is_withdrawn
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(leave())
