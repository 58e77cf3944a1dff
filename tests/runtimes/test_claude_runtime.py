"""Claude Code as a process: what it is asked, what it remembers, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.contract import checked
from tailrace.events import Event, Notice, Status, TextDelta, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.claude import ClaudeRuntime
from tailrace.runtimes.claude.runtime import InputCloser
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from tailrace.runtimes.permissions import Choice, Policy, Question

COMMAND = Path(__file__).parent / "stand_ins" / "claude_command.py"
HELLO_SESSION = "e77349bd-ba6e-48cf-a338-73b3401fb591"
FLAGS = ["-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose"]


def claude(folder: Path, deed: str, **options: Any) -> ClaudeRuntime:
    command = (sys.executable, str(COMMAND), str(folder), deed)
    return ClaudeRuntime(command, sessions=folder / "sessions", **options)


def play(runtime: Runtime, text: str = "hello", **fields: str) -> list[Event]:
    async def collect() -> list[Event]:
        prompt = Prompt(text=text, **fields)
        return [event async for event in checked(runtime.run(prompt), turn_id="t")]

    return asyncio.run(collect())


def asked(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "asked").read_text(encoding="utf-8").splitlines()]


def resumed(folder: Path) -> list[list[str]]:
    """What each run was told beyond what every run is told."""
    return [run["arguments"][len(FLAGS) :] for run in asked(folder)]


def said(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_the_answer_comes_piece_by_piece_and_the_turn_completes(tmp_path: Path) -> None:
    events = play(claude(tmp_path, "claude_cli_hello"))
    assert events[0] == TurnStarted(turn_id="t", runtime="claude", session_id=HELLO_SESSION)
    assert [event.text for event in events if isinstance(event, TextDelta)] == [
        "Hello",
        " from",
        " the fake",
        " model.",
    ]
    assert isinstance(events[-1], TurnCompleted)


@pytest.mark.parametrize("text", ["hello", "", "--help", "two\nlines\n", "日本語 " * 30_000, "\ud800 alone"])
def test_any_prompt_is_given_as_it_is_and_never_as_an_option(text: str, tmp_path: Path) -> None:
    play(claude(tmp_path, "claude_cli_hello", env={"MOOD": "good"}), text)
    heard = text.replace("\ud800", "?") + "\n"
    assert asked(tmp_path) == [{"arguments": FLAGS, "prompt": heard, "mood": "good"}]


def test_a_session_goes_on_with_its_conversation_and_no_other(tmp_path: Path) -> None:
    runtime = claude(tmp_path, "claude_cli_hello")
    for session in ("one", "one", "two", ""):
        play(runtime, session_id=session)
    again = ["--resume", HELLO_SESSION]
    assert resumed(tmp_path) == [[], again, [], []]


def test_a_restart_forgets_no_conversation(tmp_path: Path) -> None:
    for _ in range(2):
        play(claude(tmp_path, "claude_cli_hello"), session_id="one")
    assert resumed(tmp_path) == [[], ["--resume", HELLO_SESSION]]


def test_a_place_without_a_session_has_a_conversation_of_its_own(tmp_path: Path) -> None:
    runtime = claude(tmp_path, "claude_cli_hello")
    for place in ("here", "there", "here"):
        play(runtime, conversation=place)
    assert resumed(tmp_path) == [[], [], ["--resume", HELLO_SESSION]]


def test_a_conversation_that_is_not_there_any_more_is_begun_anew(tmp_path: Path) -> None:
    play(claude(tmp_path, "claude_cli_tool"), session_id="one")
    forgetful = claude(tmp_path, "forgets")
    events = play(forgetful, session_id="one")
    assert (said(events), type(events[-1])) == ("Hello from the fake model.", TurnCompleted)
    play(forgetful, session_id="one")
    old, new = ["--resume", "49af1d15-32cd-4b05-a22d-a865e328dce9"], ["--resume", HELLO_SESSION]
    assert resumed(tmp_path) == [[], old, [], new, []]


def test_a_turn_that_failed_is_part_of_the_conversation(tmp_path: Path) -> None:
    runtime = claude(tmp_path, "claude_cli_http400")
    for _ in range(2):
        assert isinstance(play(runtime, session_id="one")[-1], TurnFailed)
    assert [run[:1] for run in resumed(tmp_path)] == [[], ["--resume"]]


def test_one_that_refuses_to_start_says_why(tmp_path: Path) -> None:
    failed = play(claude(tmp_path, "refuses"), session_id="one")[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.message.endswith(
        "exited with code 1: error: unknown option '--verbose'. This version of claude does not know it. "
        "Update with npm install -g @anthropic-ai/claude-code@latest"
    )
    assert failed.code == "unknown_version"


def test_one_that_dies_leaves_what_it_said(tmp_path: Path) -> None:
    events = play(claude(tmp_path, "dies"))
    assert said(events) == "Let me check."
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].message.endswith("was ended by signal 9")


def test_a_command_that_is_not_installed_is_told_with_how_to_install_it(tmp_path: Path) -> None:
    runtime = ClaudeRuntime(("no-such-claude",), sessions=tmp_path)
    message = "there is no command 'no-such-claude'. Install Claude Code with: npm install -g @anthropic-ai/claude-code"
    assert play(runtime)[1:] == [TurnFailed(message=message, code="not_found")]


class Person:
    """Answers a question with the choice of that kind, or never; remembers what was asked."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.asked: list[Question] = []
        self.waits = asyncio.Event()

    async def ask(self, question: Question) -> Choice | None:
        self.asked.append(question)
        if self._kind == "never":
            self.waits.set()
            await asyncio.Event().wait()
        return next((choice for choice in question.choices if choice.kind == self._kind), None)


TOUCH = {"command": "touch made.txt"}
RULE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "touch made.txt"}],
    "behavior": "allow",
    "destination": "localSettings",
}
ALLOWED = {"behavior": "allow", "updatedInput": TOUCH}
DENIED = {"behavior": "deny", "message": "The person did not allow this."}


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("allow_once", ALLOWED),
        ("allow_always", {**ALLOWED, "updatedPermissions": [RULE]}),
        ("reject_once", DENIED),
        ("none of them", DENIED),
    ],
)
def test_a_person_decides_what_it_may_do(tmp_path: Path, kind: str, answer: object) -> None:
    person = Person(kind)
    events = play(claude(tmp_path, "asks", approver=person), "do\nit")
    (question,) = person.asked
    assert (question.title, question.subject) == ("Claude wants to use Bash", "touch made.txt")
    assert [choice.name for choice in question.choices] == ["Allow", "Always allow Bash(touch made.txt)", "Deny"]
    assert Status(text="Waiting for permission: Claude wants to use Bash") in events
    assert isinstance(events[-1], TurnCompleted)
    (heard,) = asked(tmp_path)
    assert heard["prompt"]["message"] == {"role": "user", "content": "do\nit"}
    assert heard["answer"]["response"] == {"subtype": "success", "request_id": "r", "response": answer}
    assert heard["rest"] == "", "its input ends with its answer"


def test_everything_is_allowed_by_the_policy_without_a_word(tmp_path: Path) -> None:
    events = play(claude(tmp_path, "asks", permissions="allow"))
    assert asked(tmp_path)[0]["answer"]["response"]["response"] == ALLOWED
    assert not any(isinstance(event, Status | Notice) for event in events)


@pytest.mark.parametrize("permissions", ["ask", "deny"])
def test_where_nobody_is_asked_it_is_not_told_how_to_ask(tmp_path: Path, permissions: Policy) -> None:
    play(claude(tmp_path, "claude_cli_hello", permissions=permissions))
    assert asked(tmp_path)[0]["arguments"] == FLAGS


def test_a_person_answers_what_claude_wants_to_know(tmp_path: Path) -> None:
    person = Person("answer")
    events = play(claude(tmp_path, "asks a question", approver=person))
    assert [question.title for question in person.asked] == ["Which colour?", "Which size?"]
    assert [choice.name for choice in person.asked[0].choices] == ["Red: like a rose", "Blue", "None of these"]
    assert Status(text="Waiting for an answer: Which colour?") in events
    decided = asked(tmp_path)[0]["answer"]["response"]["response"]
    assert decided["behavior"] == "allow"
    assert decided["updatedInput"]["answers"] == {"Which colour?": "Red", "Which size?": "Small"}
    assert len(decided["updatedInput"]["questions"]) == 2


def test_a_person_who_wants_none_of_it_is_asked_no_further(tmp_path: Path) -> None:
    person = Person("reject_once")
    play(claude(tmp_path, "asks a question", approver=person))
    assert [question.title for question in person.asked] == ["Which colour?"]
    decided = asked(tmp_path)[0]["answer"]["response"]["response"]
    assert decided["behavior"] == "deny"
    assert decided["message"].startswith("The person chose none of these.")


@pytest.mark.parametrize(
    ("deed", "permissions", "person"), [("asks a question", "allow", None), ("asks a riddle", "ask", Person("answer"))]
)
def test_what_nobody_can_answer_is_declined_and_that_is_said(
    tmp_path: Path, deed: str, permissions: Policy, person: Person | None
) -> None:
    events = play(claude(tmp_path, deed, permissions=permissions, approver=person))
    assert Notice(text="Claude asked a question that nobody could answer.") in events
    decided = asked(tmp_path)[0]["answer"]["response"]["response"]
    assert decided["behavior"] == "deny"
    assert decided["message"].startswith("Nobody can choose from a list here.")


def test_a_request_of_another_kind_is_answered_that_it_is_not_known(tmp_path: Path) -> None:
    events = play(claude(tmp_path, "asks in tongues", permissions="allow"))
    assert asked(tmp_path)[0]["answer"]["response"]["subtype"] == "error"
    assert isinstance(events[-1], TurnCompleted)


def test_a_question_that_nobody_answers_is_withdrawn_when_the_turn_is_left(tmp_path: Path) -> None:
    async def leave() -> None:
        person = Person("never")
        async with aclosing(claude(tmp_path, "asks", approver=person).run(Prompt(text="hello"))) as events:
            async for event in events:
                if isinstance(event, Status):
                    await person.waits.wait()
                    break
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(leave())


def test_leaving_in_the_middle_ends_the_command_and_its_children(tmp_path: Path) -> None:
    runtime = claude(tmp_path, "stalls")

    async def leave() -> list[Event]:
        heard: list[Event] = []
        async with aclosing(runtime.run(Prompt(text="hello", session_id="one"))) as events:
            async for event in events:
                heard.append(event)
                if isinstance(event, TextDelta):
                    break
        return heard

    heard = asyncio.run(leave())
    assert said(heard) == "Let me "
    for process in (tmp_path / "running").read_text(encoding="utf-8").split():
        assert not is_running(int(process))
    play(claude(tmp_path, "claude_cli_hello"), session_id="one")
    assert resumed(tmp_path)[-1][0] == "--resume", "what was stopped can be gone on with"


def is_running(process: int) -> bool:
    """The dead whom nobody has buried yet do not run."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_claude_can_be_answered_as_long_as_it_goes_on_with_what_was_found_in_the_background() -> None:
    async def look(_: Simulation) -> list[str]:
        happened: list[str] = []
        ending = InputCloser(lambda: happened.append("closed"))
        seen: Any = SimpleNamespace(answer_state="may continue")
        ending.update(seen)
        await asyncio.sleep(9)
        seen.answer_state = ""
        ending.update(seen)
        await asyncio.sleep(60)
        happened.append("answered again")
        seen.answer_state = "may continue"
        ending.update(seen)
        await asyncio.sleep(11)
        return happened

    assert run(look) == ["answered again", "closed"]
