"""Agents of the Agent Client Protocol as processes: a real one plays scenes, and no process of it is ever left."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_agents import ACP_AGENT, Person, is_running, leave_at
from turns import CUT_OFF, Turn, turn_of

from tailrace.errors import AgentNotFound
from tailrace.events import (
    Event,
    Status,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.acp import AcpOptions, AcpRuntime
from tailrace.runtimes.acp.agent import AcpAgent, RpcMessage
from tailrace.runtimes.permissions import HOW_TO_ALLOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.runtimes.permissions import Approver, Choice, Policy, Question

PYTHON = Path(sys.executable).name
END = TurnCompleted(stop_reason="end_turn")
NEW_CONVERSATION = "The agent starts a new conversation: "


class Scenes:
    """Where agents play; every process that was one, or was started by one, is known by its id."""

    def __init__(self, folder: Path) -> None:
        self.store, self.pids = folder / "store", folder / "pids"
        self.store.mkdir()
        self.pids.mkdir()

    def runtime(
        self, *options: str, permissions: Policy = "deny", approver: Approver | None = None, **settings: Any
    ) -> AcpRuntime:
        env = {"STORE": str(self.store), "PIDS": str(self.pids)}
        command = (sys.executable, "-I", "-S", str(ACP_AGENT), *options)
        return AcpRuntime(command, permissions=permissions, approver=approver, options=AcpOptions(env=env, **settings))

    def started(self) -> list[int]:
        return [int(path.name) for path in self.pids.iterdir()]

    def left(self) -> list[int]:
        """The processes that still run."""
        return [pid for pid in self.started() if is_running(pid)]


@pytest.fixture
def scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scenes]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    made = Scenes(tmp_path)
    yield made
    assert made.left() == []


async def collect(runtime: AcpRuntime, text: str, session: str = "") -> list[Event]:
    return [event async for event in runtime.run(Prompt(text=text, session_id=session))]


def play(runtime: AcpRuntime, *texts: str, session: str = "") -> list[Turn]:
    """Turns one after the other on one event loop, which then ends."""

    async def all_of_them() -> list[list[Event]]:
        return [await collect(runtime, text, session) for text in texts]

    return [turn_of(events) for events in asyncio.run(all_of_them())]


def memories(turns: list[Turn]) -> list[tuple[int, str, list[str]]]:
    """What an agent knows in the scene `memory`: its process id, its mode, and the prompts of its session."""
    found = []
    for turn in turns:
        pid, mode, prompts = "".join(turn.answer).split(" ", 2)
        found.append((int(pid), mode, json.loads(prompts)))
    return found


def failure(turn: Turn) -> tuple[str, str | None]:
    assert isinstance(turn.terminal, TurnFailed)
    return turn.terminal.message, turn.terminal.code


# Messages


def test_turn_starts_before_the_agent_is_started(scenes: Scenes) -> None:
    runtime = scenes.runtime("--silent=initialize")
    assert isinstance(runtime, Runtime)

    async def first() -> Event:
        async with aclosing(runtime.run(Prompt(text="hello", session_id="s"))) as events:
            return await anext(events)

    assert asyncio.run(first()) == TurnStarted(runtime="acp", session_id="s")
    assert scenes.started() == []


def test_garbage_is_reported_once_per_kind_and_breaks_nothing(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "garbage")
    assert turn.answer == ["Hello"]
    assert [notice.partition(": ")[2][:14] for notice in turn.notices] == ['"npm warn old"', '{"sessionId": ']
    assert turn.terminal == END


def test_messages_of_other_sessions_are_ignored(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "others")
    assert turn.answer == ["one two"]


def test_after_the_end_only_tools_are_received(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "late")
    assert turn.events[-3:] == [END, ToolOutput(id="t", data="tick\n"), ToolFinished(id="t", result="slept")]
    assert turn.answer == ["Meanwhile."]


def test_tool_that_never_ends_does_not_keep_the_turn(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "never_finished")
    assert (turn.tools, turn.terminal) == ([("sleep", None)], END)


def test_agent_may_not_read_files_through_us(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(permissions="allow"), "files")
    assert turn.answer == ["-32601"]


# Leaving


def leave(scenes: Scenes, runtime: AcpRuntime, text: str, at: type[Event]) -> list[int]:
    """Close a turn at the first event of a kind; the processes that still run when that returns."""

    async def run() -> list[int]:
        await leave_at(runtime, at, text=text)
        return scenes.left()

    return asyncio.run(run())


def test_session_can_be_continued_after_a_cancelled_turn(scenes: Scenes) -> None:
    runtime = scenes.runtime("--load")
    assert leave(scenes, runtime, "cancel", ToolStarted) == []
    assert (scenes.store / "cancelled").exists()
    assert [prompts for _, _, prompts in memories(play(runtime, "memory", session="one"))] == [["cancel", "memory"]]


def test_agent_that_ignores_everything_is_killed(scenes: Scenes) -> None:
    assert leave(scenes, scenes.runtime("--deaf"), "deaf", TextDelta) == []


def test_agent_that_reads_nothing_any_more_is_not_waited_for() -> None:
    async def run() -> None:
        agent = AcpAgent((sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"))
        await agent.start()
        request = RpcMessage(id=1, method="session/request_permission")
        prompting = asyncio.create_task(agent.prompt("x" * 1_000_000))
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(60):
                await agent.cancel_requests([request])
                await agent.cancel()
        finally:
            prompting.cancel()
            await agent.close()

    asyncio.run(run())


def test_leaving_before_the_session_is_open_leaves_no_process(scenes: Scenes) -> None:
    async def run() -> None:
        async with aclosing(scenes.runtime("--silent=session/new").run(Prompt(text="hello"))) as events:
            await anext(events)
            await asyncio.wait_for(anext(events), 0.3)

    with pytest.raises(TimeoutError):
        asyncio.run(run())


# Permissions


NOT_ALLOWED = [f"Not allowed: rm -rf 0. {HOW_TO_ALLOW}"]


@pytest.mark.parametrize(
    ("permissions", "reply", "option"),
    [("deny", "", "no"), ("allow", "", "yes"), ("ask", "Always", "always"), ("ask", "Yes", "yes"), ("ask", "No", "no")],
)
def test_permission_is_decided_by_the_policy_or_the_person(
    scenes: Scenes, permissions: Policy, reply: str, option: str
) -> None:
    person = Person(reply) if reply else None
    (turn,) = play(scenes.runtime(permissions=permissions, approver=person), "permission")
    assert turn.answer == [f"{{'outcome': 'selected', 'optionId': '{option}'}}"]
    assert turn.notices == (NOT_ALLOWED if permissions == "deny" else [])
    assert turn.status == (["Waiting for permission: rm -rf 0"] if person else [])


def test_request_without_a_way_to_deny_is_cancelled(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "one_sided")
    assert turn.answer == ["{'outcome': 'cancelled'}"]


def test_messages_are_received_while_the_person_thinks(scenes: Scenes) -> None:
    async def run() -> list[Event]:
        is_working = asyncio.Event()

        class Slow:
            async def ask(self, question: Question) -> Choice | None:
                await is_working.wait()
                return question.allowing() if question.title == "rm -rf 0" else question.denying()

        received: list[Event] = []
        runtime = scenes.runtime(permissions="ask", approver=Slow())
        async with aclosing(runtime.run(Prompt(text="permissions"))) as events:
            async for event in events:
                received.append(event)
                if event == TextDelta(text="working"):
                    is_working.set()
        return received

    assert turn_of(asyncio.run(run())).answer == ["working ['yes', 'no']"]


def test_open_question_is_withdrawn_when_the_turn_ends(scenes: Scenes) -> None:
    person = Person("never")
    runtime = scenes.runtime(permissions="ask", approver=person)
    turns = play(runtime, "impatient", "withdrawn", session="s")
    assert person.is_withdrawn
    assert [turn.answer for turn in turns] == [["never mind"], ["{'outcome': 'cancelled'}"]]


def test_open_question_is_withdrawn_when_the_turn_is_left(scenes: Scenes) -> None:
    person = Person("never")

    async def run() -> None:
        await leave_at(scenes.runtime(permissions="ask", approver=person), Status, person=person, text="permission")
        assert person.is_withdrawn

    asyncio.run(run())


# Sessions


def test_each_conversation_keeps_an_agent_of_its_own(scenes: Scenes) -> None:
    runtime = scenes.runtime()

    async def run() -> list[list[Event]]:
        return [await collect(runtime, "memory", session) for session in ("a", "b", "a")]

    first, other, again = memories([turn_of(events) for events in asyncio.run(run())])
    assert first[0] == again[0] != other[0]
    assert (first[2], other[2], again[2]) == (["memory"], ["memory"], ["memory", "memory"])


def test_leaving_at_the_end_of_a_turn_keeps_the_agent(scenes: Scenes) -> None:
    runtime = scenes.runtime()

    async def run() -> list[Event]:
        async with aclosing(runtime.run(Prompt(text="never_finished", conversation="c"))) as events:
            async for event in events:
                if event == END:
                    break
        return [event async for event in runtime.run(Prompt(text="memory", conversation="c"))]

    assert memories([turn_of(asyncio.run(run()))])[0][2] == ["never_finished", "memory"]


def test_prompt_without_a_conversation_keeps_nothing(scenes: Scenes) -> None:
    async def run() -> list[list[Event]]:
        events = []
        for _ in range(2):
            events.append(await collect(scenes.runtime("--load"), "memory"))
            assert scenes.left() == []
        return events

    turns = [turn_of(events) for events in asyncio.run(run())]
    assert [prompts for _, _, prompts in memories(turns)] == [["memory"]] * 2


@pytest.mark.parametrize("option", ["--load", "--resume"])
@pytest.mark.parametrize("runtimes", ["two runtimes", "one runtime on two loops", "one that keeps no agent"])
def test_session_is_resumed_by_a_new_agent_without_its_history(scenes: Scenes, option: str, runtimes: str) -> None:
    retention_s = 0.0 if runtimes == "one that keeps no agent" else 300.0
    first = scenes.runtime(option, retention_s=retention_s)
    second = scenes.runtime(option) if runtimes == "two runtimes" else first
    turns = [turn for runtime in (first, second) for turn in play(runtime, "memory", session="s")]
    (pid, _, _), (other_pid, _, prompts) = memories(turns)
    assert pid != other_pid
    assert prompts == ["memory", "memory"]
    assert [turn.notices for turn in turns] == [[], []]


def test_sessions_belong_to_a_command_and_a_directory(scenes: Scenes, tmp_path: Path) -> None:
    agents = [("--load",), ("--load", "--other")]
    runtimes = [*(scenes.runtime(*options) for options in agents), scenes.runtime("--load", cwd=str(tmp_path))]
    turns = [turn for runtime in runtimes for turn in play(runtime, "memory", session="s")]
    assert [prompts for _, _, prompts in memories(turns)] == [["memory"]] * 3
    assert [turn.notices for turn in turns] == [[]] * 3


@pytest.mark.parametrize("options", [("--long",), ("--late",), ("--long", "--late")], ids=" ".join)
def test_history_is_skipped_also_if_it_is_long_or_late(scenes: Scenes, options: tuple[str, ...]) -> None:
    turns = play(scenes.runtime("--load", *options, retention_s=0), *["hello"] * 3, session="s")
    assert [turn.answer for turn in turns] == [["Hello, wörld 👋🏽"]] * 3


def test_messages_between_turns_are_dropped(scenes: Scenes) -> None:
    _, second = play(scenes.runtime(), "stale", "withdrawn", session="s")
    assert second.answer == ["{'outcome': 'cancelled'}"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "scenes cannot resume sessions"),
        (("--load", "--refuse=session/load"), "scenes refused: Internal error: no"),
    ],
    ids=["unable", "refuses"],
)
def test_session_that_cannot_be_resumed_is_replaced(scenes: Scenes, options: Sequence[str], reason: str) -> None:
    first, second = play(scenes.runtime(*options, retention_s=0), "memory", "memory", session="s")
    assert (first.notices, second.notices) == ([], [f"{NEW_CONVERSATION}{reason}"])
    assert memories([second])[0][2] == ["memory"]


def test_agent_that_exited_between_turns_is_started_again(scenes: Scenes) -> None:
    turns = play(scenes.runtime("--load"), "exits_after", "memory", session="s")
    assert turns[0].answer == ["Bye."]
    assert memories(turns[1:])[0][2] == ["exits_after", "memory"]


async def gone(pid: int) -> None:
    """Wait until a process has exited."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    exited = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, exited.set)
    try:
        await exited.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


async def turn_in_loop(runtime: AcpRuntime, text: str, session: str) -> Turn:
    events = await collect(runtime, text, session)
    return await asyncio.to_thread(turn_of, events)


def test_idle_agent_is_ended_after_its_retention(scenes: Scenes) -> None:
    async def run() -> None:
        runtime = scenes.runtime(retention_s=0.2)
        ((pid, _, _),) = memories([await turn_in_loop(runtime, "memory", "s")])
        await gone(pid)

    asyncio.run(run())


def test_only_a_few_agents_are_kept_and_the_oldest_goes_first(scenes: Scenes) -> None:
    async def run() -> None:
        runtime = scenes.runtime("--load")
        turns = [await turn_in_loop(runtime, "memory", str(n)) for n in range(9)]
        pids = [pid for pid, _, _ in memories(turns)]
        await gone(pids[0])
        assert sorted(scenes.left()) == sorted(pids[1:])
        await runtime.aclose()
        assert scenes.left() == []

    asyncio.run(run())


def test_kept_agent_ends_with_the_event_loop(scenes: Scenes) -> None:
    play(scenes.runtime(), "child", session="s")
    assert len(scenes.started()) == 2


def test_session_that_cannot_be_stored_is_reported(
    scenes: Scenes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    (turn,) = play(scenes.runtime(), "hello", session="s")
    assert turn.terminal == END
    assert turn.notices[0].startswith("The conversation cannot be remembered: ")


# Opening a session

WAYS = "Log in with its own command first, or choose a way with auth: key, web"


@pytest.mark.parametrize(
    ("option", "message", "code"),
    [
        ("--auth", f"scenes refused: Authentication required. {WAYS}", "auth_required"),
        ("--refuse=initialize", f"{PYTHON} refused: Internal error: no", "internal_error"),
        ("--refuse=session/new", "scenes refused: Internal error: no", "internal_error"),
        ("--refuse=session/set_mode", "scenes refused: Internal error: no", "internal_error"),
        ("--version=2", f"{PYTHON} speaks version 2 of the protocol, not 1", "malformed"),
        ("--exit", f"{PYTHON} exited with code 1: no licence", CUT_OFF),
    ],
)
def test_session_that_cannot_be_opened_fails_the_turn(scenes: Scenes, option: str, message: str, code: str) -> None:
    (turn,) = play(scenes.runtime(option, mode="plan"), "hello")
    assert failure(turn) == (message, code)
    assert turn.answer == []


def test_login_method_and_mode_are_set(scenes: Scenes) -> None:
    ((_, mode, _),) = memories(play(scenes.runtime("--auth", auth="key", mode="plan"), "memory"))
    assert mode == "plan"


def test_program_that_echoes_its_input_is_no_agent() -> None:
    (turn,) = play(AcpRuntime("cat"), "hello")
    assert failure(turn) == ("cat refused: no initialize here", "not_supported")


@pytest.mark.parametrize(("command", "message"), [("", "names no command"), ("a 'b", "is not a valid command")])
def test_invalid_command_is_refused(command: str, message: str) -> None:
    with pytest.raises(AgentNotFound, match=message):
        AcpRuntime(command)
