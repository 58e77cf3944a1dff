"""Claude through its SDK: a stand-in of the package plays what the real one was recorded to send."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_agents import Person, play
from recorded_turns import lines_of

from tailrace.errors import UsageError
from tailrace.events import Status, TextDelta, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt
from tailrace.runtimes.claude import ClaudeSdkRuntime, ClaudeTranslator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.runtimes.permissions import Choice, Question

PACKAGE = "claude_agent_sdk"
SESSION = "484bf1db-6d0f-48f5-b796-3e8f2265e504"


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "stand_ins"))
    import claude_agent_sdk  # noqa: PLC0415  # it is there only within this fixture

    yield claude_agent_sdk
    del sys.modules[PACKAGE]


def test_sdk_gives_the_same_events_as_the_command(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions()
    events = play(ClaudeSdkRuntime(options, sessions=tmp_path))
    translator = ClaudeTranslator("claude-sdk")
    lines = lines_of("claude_sdk_tool")
    assert events[1:] == [*(event for line in lines for event in translator.feed(line)), *translator.end()][1:]
    assert events[0] == TurnStarted(turn_id="t", runtime="claude-sdk", session_id=SESSION)
    assert options.notes == ["hello", "disconnected"]


def test_session_resumes_its_conversation_in_pieces(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions()
    runtime = ClaudeSdkRuntime(options, sessions=tmp_path)
    for session in ("one", "one", "two"):
        play(runtime, session_id=session)
    play(ClaudeSdkRuntime(options, sessions=tmp_path), session_id="one")
    assert [run.resume for run in options.runs] == [None, SESSION, None, SESSION]
    assert all(run.include_partial_messages for run in options.runs)
    assert not options.include_partial_messages, "what belongs to the caller is left as it is"


def test_permission_is_decided_by_the_person(sdk: Any, tmp_path: Path) -> None:
    rule = [sdk.PermissionUpdate(sdk.RULE)]
    for kind, expected in (
        ("allow_once", sdk.PermissionResultAllow()),
        ("allow_always", sdk.PermissionResultAllow(updated_permissions=rule)),
        ("reject_once", sdk.PermissionResultDeny(message="The person did not allow this.")),
    ):
        options = sdk.ClaudeAgentOptions(asks="yes")
        events = play(ClaudeSdkRuntime(options, approver=Person(kind), sessions=tmp_path))
        assert options.decided == [expected]
        assert Status(text="Waiting for permission: Claude wants to use Bash") in events
        assert isinstance(events[-1], TurnCompleted)


def test_leaving_at_a_question_denies_it_before_the_interrupt(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions(asks="yes")

    async def leave() -> None:
        runtime = ClaudeSdkRuntime(options, approver=Person("never"), sessions=tmp_path)
        async with aclosing(runtime.run(Prompt(text="hello"))) as events:
            async for event in events:
                if isinstance(event, Status):
                    break

    asyncio.run(leave())
    assert options.decided == [sdk.PermissionResultDeny(message="The person did not allow this.")]
    assert options.notes == ["hello", "interrupted", "disconnected"]


def test_silent_sdk_is_given_up(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions(stalls_after=1)
    runtime = ClaudeSdkRuntime(options, sessions=tmp_path)
    runtime.silence_timeout_s = 0.05
    end = play(runtime)[-1]
    assert end == TurnFailed(message="claude was silent for 0.05 seconds and was stopped.", code="cut_off")
    assert options.notes == ["hello", "interrupted", "disconnected"]


def test_silence_is_allowed_while_a_person_is_asked(sdk: Any, tmp_path: Path) -> None:
    silence_timeout_s = 0.05

    class Slow:
        async def ask(self, question: Question) -> Choice | None:
            await asyncio.sleep(3 * silence_timeout_s)
            return question.allowing()

    options = sdk.ClaudeAgentOptions(asks="yes")
    runtime = ClaudeSdkRuntime(options, approver=Slow(), sessions=tmp_path)
    runtime.silence_timeout_s = silence_timeout_s
    assert isinstance(play(runtime)[-1], TurnCompleted)
    assert options.decided == [sdk.PermissionResultAllow()]


def test_options_with_their_own_permissions_keep_them(sdk: Any, tmp_path: Path) -> None:
    async def own(*_: object) -> str:
        return "mine"

    options = sdk.ClaudeAgentOptions(asks="yes", can_use_tool=own)
    play(ClaudeSdkRuntime(options, permissions="allow", sessions=tmp_path))
    assert options.decided == ["mine"]
    options = sdk.ClaudeAgentOptions(asks="yes", permission_prompt_tool_name="mine")
    play(ClaudeSdkRuntime(options, permissions="allow", sessions=tmp_path))
    assert options.decided == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ends_after": 20, "raises": "the command is broken"}, "the command is broken"),
        ({"faults": ["refuses"]}, "it refuses such options"),
        ({"faults": ["parts badly"]}, ""),
        ({"raises": "the command returned an error result"}, ""),
    ],
    ids=["in the middle", "at once", "at the disconnect", "behind a result"],
)
def test_sdk_error_fails_the_turn_only_before_the_result(
    sdk: Any, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    options = sdk.ClaudeAgentOptions(**settings)
    end = play(ClaudeSdkRuntime(options, sessions=tmp_path))[-1]
    if message:
        assert end == TurnFailed(message=message, code="cut_off")
    else:
        assert isinstance(end, TurnCompleted)
    assert options.notes in ([], ["hello", "disconnected"])


@pytest.mark.parametrize("by_another_task", [False, True])
def test_leaving_in_the_middle_interrupts_and_disconnects(sdk: Any, tmp_path: Path, by_another_task: bool) -> None:
    options = sdk.ClaudeAgentOptions(stalls_after=20)

    async def leave() -> None:
        events = ClaudeSdkRuntime(options, sessions=tmp_path).run(Prompt(text="hello"))
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await (asyncio.create_task(events.aclose()) if by_another_task else events.aclose())
        assert options.notes == ["hello", "interrupted", "disconnected"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(leave())


def test_missing_sdk_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install -e '\.\[claude\]'"):
        ClaudeSdkRuntime()


def test_value_that_is_not_options_fails_the_turn(sdk: Any, tmp_path: Path) -> None:
    message = "claude-sdk runs options of the Claude Agent SDK, but it was given an object of type"
    for wrong in (Path(), sdk.PermissionUpdate({})):
        failed = play(ClaudeSdkRuntime(wrong, sessions=tmp_path))[-1]
        assert isinstance(failed, TurnFailed)
        assert failed.message == f"{message} {type(wrong).__name__}."
        assert failed.code == "wrong_type"
