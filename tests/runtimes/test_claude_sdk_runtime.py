"""Claude through its SDK: a stand-in of the package plays what the real one was recorded to say."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from claude_streams import lines_of

from tailrace.contract import checked
from tailrace.errors import UsageError
from tailrace.events import Event, Status, TextDelta, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt, Runtime
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


def play(runtime: Runtime, **fields: str) -> list[Event]:
    async def collect() -> list[Event]:
        prompt = Prompt(text="hello", **fields)
        return [event async for event in checked(runtime.run(prompt), turn_id="t")]

    return asyncio.run(collect())


def test_it_tells_what_the_command_would_have_told(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions()
    events = play(ClaudeSdkRuntime(options, sessions=tmp_path))
    translator = ClaudeTranslator("claude-sdk")
    lines = lines_of("claude_sdk_tool")
    assert events[1:] == [*(event for line in lines for event in translator.feed(line)), *translator.end()][1:]
    assert events[0] == TurnStarted(turn_id="t", runtime="claude-sdk", session_id=SESSION)
    assert options.notes == ["hello", "disconnected"]


def test_it_asks_for_pieces_and_goes_on_with_the_conversation_of_its_session(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions()
    runtime = ClaudeSdkRuntime(options, sessions=tmp_path)
    for session in ("one", "one", "two"):
        play(runtime, session_id=session)
    play(ClaudeSdkRuntime(options, sessions=tmp_path), session_id="one")
    assert [run.resume for run in options.runs] == [None, SESSION, None, SESSION]
    assert all(run.include_partial_messages for run in options.runs)
    assert not options.include_partial_messages, "what belongs to the caller is left as it is"


class Person:
    """Chooses by kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def ask(self, question: Question) -> Choice | None:
        return next((choice for choice in question.choices if choice.kind == self._kind), None)


def test_a_person_decides_what_it_may_do(sdk: Any, tmp_path: Path) -> None:
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


def test_leaving_at_a_question_denies_it_before_claude_is_interrupted(sdk: Any, tmp_path: Path) -> None:
    class Thinker:
        async def ask(self, _: Question) -> Choice | None:
            await asyncio.Event().wait()
            return None

    options = sdk.ClaudeAgentOptions(asks="yes")

    async def leave() -> None:
        runtime = ClaudeSdkRuntime(options, approver=Thinker(), sessions=tmp_path)
        async with aclosing(runtime.run(Prompt(text="hello"))) as events:
            async for event in events:
                if isinstance(event, Status):
                    break

    asyncio.run(leave())
    assert options.decided == [sdk.PermissionResultDeny(message="The person did not allow this.")]
    assert options.notes == ["hello", "interrupted", "disconnected"]


def test_one_that_says_nothing_is_given_up(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions(stalls_after=1)
    runtime = ClaudeSdkRuntime(options, sessions=tmp_path)
    runtime.silence_timeout_s = 0.05
    end = play(runtime)[-1]
    assert end == TurnFailed(message="claude was silent for 0.05 seconds and was stopped.", code="cut_off")
    assert options.notes == ["hello", "interrupted", "disconnected"]


def test_silence_is_no_fault_while_a_person_is_asked(sdk: Any, tmp_path: Path) -> None:
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


def test_what_the_options_decide_is_left_to_them(sdk: Any, tmp_path: Path) -> None:
    async def own(*_: object) -> str:
        return "mine"

    options = sdk.ClaudeAgentOptions(asks="yes", can_use_tool=own)
    play(ClaudeSdkRuntime(options, permissions="allow", sessions=tmp_path))
    assert options.decided == ["mine"]
    options = sdk.ClaudeAgentOptions(asks="yes", permission_prompt_tool_name="mine")
    play(ClaudeSdkRuntime(options, permissions="allow", sessions=tmp_path))
    assert options.decided == []


def test_what_the_sdk_raises_is_why_the_turn_failed(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions(ends_after=20, raises="the command is broken")
    events = play(ClaudeSdkRuntime(options, sessions=tmp_path))
    assert events[-1] == TurnFailed(message="the command is broken", code="cut_off")
    assert options.notes == ["hello", "disconnected"]


@pytest.mark.usefixtures("sdk")
def test_options_of_another_kind_end_the_turn_with_what_they_are(tmp_path: Path) -> None:
    events = play(ClaudeSdkRuntime("a model's name", sessions=tmp_path))
    assert isinstance(events[-1], TurnFailed)
    assert (
        "claude-sdk runs options of the Claude Agent SDK, but it was given an object of type str" in events[-1].message
    )


def test_an_sdk_that_refuses_the_options_is_why_the_turn_failed(sdk: Any, tmp_path: Path) -> None:
    events = play(ClaudeSdkRuntime(sdk.ClaudeAgentOptions(faults=["refuses"]), sessions=tmp_path))
    assert events[-1] == TurnFailed(message="it refuses such options", code="cut_off")


def test_an_sdk_that_cannot_be_left_in_good_order_has_answered_all_the_same(sdk: Any, tmp_path: Path) -> None:
    events = play(ClaudeSdkRuntime(sdk.ClaudeAgentOptions(faults=["parts badly"]), sessions=tmp_path))
    assert isinstance(events[-1], TurnCompleted)


def test_what_the_sdk_raises_behind_a_result_changes_nothing(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions(raises="the command returned an error result")
    assert isinstance(play(ClaudeSdkRuntime(options, sessions=tmp_path))[-1], TurnCompleted)


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


def test_one_who_waits_for_the_next_event_and_is_cancelled_leaves_nothing_either(sdk: Any, tmp_path: Path) -> None:
    options = sdk.ClaudeAgentOptions(stalls_after=20)

    async def cancel() -> None:
        reached = asyncio.Event()

        async def read() -> None:
            async for event in ClaudeSdkRuntime(options, sessions=tmp_path).run(Prompt(text="hello")):
                if isinstance(event, TextDelta):
                    reached.set()

        reading = asyncio.create_task(read())
        await reached.wait()
        reading.cancel()
        await asyncio.wait({reading})
        assert options.notes == ["hello", "interrupted", "disconnected"]

    asyncio.run(cancel())


def test_without_the_sdk_it_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install -e '\.\[claude\]'"):
        ClaudeSdkRuntime()


def test_what_are_no_options_is_said_so(sdk: Any, tmp_path: Path) -> None:
    said = "claude-sdk runs options of the Claude Agent SDK, but it was given an object of type"
    for wrong in (Path(), sdk.PermissionUpdate({})):
        failed = play(ClaudeSdkRuntime(wrong, sessions=tmp_path))[-1]
        assert isinstance(failed, TurnFailed)
        assert failed.message == f"{said} {type(wrong).__name__}."
        assert failed.code == "wrong_type"
