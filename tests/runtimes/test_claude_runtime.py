"""What only the runtime of Claude Code does: its options, its questions to a person, and when its input is closed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from command_agents import Person, notes, play, runtime_of

from tailrace.events import Event, Notice, Status, TextDelta, TurnCompleted, TurnFailed
from tailrace.runtimes.claude.control import ToolRequest, permission_result, questions_of
from tailrace.runtimes.claude.runtime import InputCloser
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.runtimes.permissions import Policy

FLAGS = ["-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose"]


def claude(folder: Path, action: str, **options: Any) -> list[Event]:
    return play(runtime_of("claude", folder, action, **options), "do\nit")


def response(folder: Path) -> dict[str, Any]:
    """The response to Claude's request."""
    found: dict[str, Any] = notes(folder)[0]["answer"]["response"]
    return found


@pytest.mark.parametrize("permissions", ["ask", "deny"])
def test_claude_gets_no_option_to_ask_without_an_approver(tmp_path: Path, permissions: Policy) -> None:
    events = claude(tmp_path, "claude_cli_hello", permissions=permissions, env={"MOOD": "good"})
    assert notes(tmp_path) == [{"arguments": FLAGS, "prompt": "do\nit\n", "mood": "good"}]
    assert len([event for event in events if isinstance(event, TextDelta)]) == 4


def test_question_shows_the_command_and_its_choices(tmp_path: Path) -> None:
    person = Person("allow_once")
    claude(tmp_path, "asks", approver=person)
    (question,) = person.questions
    assert (question.title, question.subject) == ("Claude wants to use Bash", "touch made.txt")
    assert [choice.name for choice in question.choices] == ["Allow", "Always allow Bash(touch made.txt)", "Deny"]
    (note,) = notes(tmp_path)
    assert note["prompt"]["message"] == {"role": "user", "content": "do\nit"}
    assert note["answer"]["response"]["request_id"] == "r"
    assert note["rest"] == "", "its input ends with its answer"


def test_person_answers_claudes_own_questions(tmp_path: Path) -> None:
    person = Person("answer")
    events = claude(tmp_path, "asks a question", approver=person)
    assert [question.title for question in person.questions] == ["Which colour?", "Which size?"]
    assert [choice.name for choice in person.questions[0].choices] == ["Red: like a rose", "Blue", "None of these"]
    assert Status(text="Waiting for an answer: Which colour?") in events
    result = response(tmp_path)["response"]
    assert result["behavior"] == "allow"
    assert result["updatedInput"]["answers"] == {"Which colour?": "Red", "Which size?": "Small"}
    assert len(result["updatedInput"]["questions"]) == 2


@pytest.mark.parametrize(
    ("action", "permissions", "person", "asked", "message"),
    [
        ("asks a question", "ask", Person("reject_once"), 1, "The person chose none of these."),
        ("asks a question", "allow", None, 0, "No person can choose from a list here."),
        ("asks badly", "ask", Person("answer"), 0, "No person can choose from a list here."),
    ],
    ids=["none chosen", "no person", "malformed"],
)
def test_unanswered_question_is_denied(  # a row of the table
    tmp_path: Path, action: str, permissions: Policy, person: Person | None, asked: int, message: str
) -> None:
    events = claude(tmp_path, action, permissions=permissions, approver=person)
    assert len(person.questions if person else []) == asked
    notice = Notice(text="Claude asked a question that could not be answered here.")
    assert (notice in events) == (asked == 0)
    result = response(tmp_path)["response"]
    assert result["behavior"] == "deny"
    assert result["message"].startswith(message)


def test_unknown_request_gets_an_error_response(tmp_path: Path) -> None:
    events = claude(tmp_path, "asks something unknown", permissions="allow")
    assert response(tmp_path)["subtype"] == "error"
    assert isinstance(events[-1], TurnCompleted)


def test_failed_turn_is_part_of_the_conversation(tmp_path: Path) -> None:
    for _ in range(2):
        turn = play(runtime_of("claude", tmp_path, "claude_cli_http400"), session_id="one")
        assert isinstance(turn[-1], TurnFailed)
    assert ["--resume" in note["arguments"] for note in notes(tmp_path)] == [False, True]


def test_input_stays_open_for_background_results() -> None:
    async def look(_: Simulation) -> list[str]:
        happened: list[str] = []
        closer = InputCloser(lambda: happened.append("closed"))
        seen: Any = SimpleNamespace(answer_state="may continue")
        closer.update(seen)
        await asyncio.sleep(9)
        seen.answer_state = ""
        closer.update(seen)
        await asyncio.sleep(60)
        happened.append("answered again")
        seen.answer_state = "may continue"
        closer.update(seen)
        await asyncio.sleep(11)
        return happened

    assert run(look) == ["answered again", "closed"]


# Requests as questions

BASH, READ = {"toolName": "Bash", "ruleContent": "ls:*"}, {"toolName": "Read"}
RULE = {"type": "addRules", "behavior": "allow", "destination": "session", "rules": [BASH]}


def tool_with(*suggestions: Any) -> ToolRequest:
    return ToolRequest(tool_name="Bash", input={"command": "ls"}, permission_suggestions=list(suggestions))


def test_rule_for_one_tool_can_be_stored() -> None:
    tool = tool_with({"type": "setMode", "mode": "acceptEdits"}, RULE)
    [question] = questions_of(tool, has_person=True)
    _once, always, _never = question.choices
    assert always.name == "Always allow Bash(ls:*)"
    assert permission_result(tool, [always])["updatedPermissions"] == [RULE]


@pytest.mark.parametrize(
    "rule",
    [
        {**RULE, "rules": [BASH, READ]},
        {**RULE, "rules": []},
        {**RULE, "rules": [{"toolName": 7}]},
        {**RULE, "behavior": "deny"},
        {"type": "setMode", "mode": "bypassPermissions", "rules": [BASH], "behavior": "allow"},
        "always",
    ],
)
def test_rule_that_would_allow_more_than_its_label_cannot(rule: Any) -> None:
    [question] = questions_of(tool_with(rule), has_person=True)
    assert [choice.kind for choice in question.choices] == ["allow_once", "reject_once"]
