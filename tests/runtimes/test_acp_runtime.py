"""Agents of the Agent Client Protocol as processes: a real one plays scenes, and nothing of it is ever left."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sdk_streams import CUT_OFF, Turn, turn_of

from tailrace.errors import AgentNotFound
from tailrace.events import (
    Event,
    PlanItem,
    PlanUpdated,
    Status,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.acp import AcpOptions, AcpRuntime
from tailrace.runtimes.acp.agent import AcpAgent, RpcMessage
from tailrace.runtimes.permissions import HOW_TO_ALLOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.runtimes.permissions import Approver, Choice, Policy, Question

AGENT = Path(__file__).parent.parent / "agents" / "acp_agent.py"
PYTHON = Path(sys.executable).name
END = TurnCompleted(stop_reason="end_turn")
ANEW = "The agent starts a new conversation: "


class Scenes:
    """A place where agents play; every process that was one, or was started by one, is known by its number."""

    def __init__(self, place: Path) -> None:
        self.store, self.pids = place / "store", place / "pids"
        for folder in (self.store, self.pids):
            folder.mkdir()

    def runtime(
        self, *options: str, permissions: Policy = "deny", approver: Approver | None = None, **settings: Any
    ) -> AcpRuntime:
        env = {"STORE": str(self.store), "PIDS": str(self.pids)}
        command = (sys.executable, "-I", "-S", str(AGENT), *options)
        return AcpRuntime(command, permissions=permissions, approver=approver, options=AcpOptions(env=env, **settings))

    def left(self) -> list[int]:
        """Those of them who still run; the dead whom nobody has buried yet do not."""
        pids = [int(path.name) for path in self.pids.iterdir()]
        return [pid for pid in pids if _state(pid) not in {None, "Z", "X"}]


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


@pytest.fixture
def scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scenes]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    place = Scenes(tmp_path)
    yield place
    assert place.left() == []


async def collect(runtime: AcpRuntime, text: str, session: str = "") -> list[Event]:
    return [event async for event in runtime.run(Prompt(text=text, session_id=session))]


def play(runtime: AcpRuntime, *texts: str, session: str = "") -> list[Turn]:
    """Turns one after the other on one event loop, which is then ended."""

    async def all_of_them() -> list[list[Event]]:
        return [await collect(runtime, text, session) for text in texts]

    return [turn_from(events) for events in asyncio.run(all_of_them())]


def turn_from(events: list[Event]) -> Turn:
    assert isinstance(events[0], TurnStarted)
    return turn_of(events[1:])


def memories(turns: list[Turn]) -> list[tuple[int, str, list[str]]]:
    """What an agent knows in the scene `memory`: its number, its mode, and what it was told in this session."""
    found = []
    for turn in turns:
        pid, mode, said = "".join(turn.answer).split(" ", 2)
        found.append((int(pid), mode, json.loads(said)))
    return found


# What is said


def test_it_is_a_runtime_and_begins_a_turn_before_the_agent_is_there(scenes: Scenes) -> None:
    runtime = scenes.runtime("--silent=initialize")
    assert isinstance(runtime, Runtime)

    async def first() -> Event:
        async with aclosing(runtime.run(Prompt(text="hello", session_id="s"))) as events:
            return await anext(events)

    assert asyncio.run(first()) == TurnStarted(runtime="acp", session_id="s")
    assert list(scenes.pids.iterdir()) == []


def test_text_comes_piece_by_piece_as_it_was_said(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "hello")
    pieces = [TextDelta(text=character) for character in "Hello, wörld 👋🏽"]
    assert turn.events == [TurnStarted(turn_id="t"), *pieces, END]


def test_plans_tools_and_modes_are_told(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "work")
    assert PlanUpdated(items=(PlanItem(title="look", status="in_progress"),)) in turn.events
    assert [event.data for event in turn.events if isinstance(event, ToolOutput)] == ["a\n", "b\n"]
    assert (turn.tools, turn.calls[0].arguments, turn.calls[0].result) == ([("ls", False)], {"command": "ls"}, "a\nb\n")
    assert (turn.status, turn.answer, turn.terminal) == (["Mode: code"], ["Done."], END)


def test_a_subagent_speaks_under_its_call(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "subagent")
    assert TextDelta(text="Child here.", parent_tool_id="p") in turn.events
    assert ToolStarted(id="c", name="Bash", arguments={"command": "echo"}, parent_tool_id="p") in turn.events
    assert turn.answer[-1] == "Parent done."


def test_ten_thousand_pieces_and_a_line_of_megabytes_come_whole_while_stderr_floods(scenes: Scenes) -> None:
    many, big = play(scenes.runtime(), "many", "big")
    assert "".join(many.answer) == "x" * 10_000
    assert "".join(big.answer) == "x" * 3_000_000


def test_garbage_is_told_once_and_breaks_nothing(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "garbage")
    assert turn.answer == ["Hello"]
    assert [notice.partition(": ")[2][:14] for notice in turn.notices] == ['"npm warn old"', '{"sessionId": ']
    assert turn.terminal == END


def test_what_another_session_of_the_agent_says_is_not_heard(scenes: Scenes) -> None:
    [found] = play(scenes.runtime(), "others")
    assert found.answer == ["one two"]


def test_what_tools_say_after_the_end_is_heard_and_nothing_else(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "late")
    assert turn.events[-3:] == [END, ToolOutput(id="t", data="tick\n"), ToolFinished(id="t", result="slept")]
    assert turn.answer == ["Meanwhile."]


def test_a_tool_that_never_ends_does_not_keep_the_turn(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "never_finished")
    assert (turn.tools, turn.terminal) == ([("sleep", None)], END)


def test_files_are_not_ours_to_read_for_an_agent(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(permissions="allow"), "files")
    assert turn.answer == ["-32601"]


# How it ends


def failure(turn: Turn) -> tuple[str, str | None]:
    assert isinstance(turn.terminal, TurnFailed)
    return turn.terminal.message, turn.terminal.code


def test_an_end_that_is_no_success_is_seen_through(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "false_end")
    assert turn.answer == ["This will break"]
    assert failure(turn) == ("the stream broke", "system_error")


def test_an_error_fails_the_turn_and_what_was_said_stands(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "refused")
    assert turn.answer == ["Half an ans"]
    assert failure(turn) == ("Internal error: Overloaded", "internal_error")


def test_an_agent_that_cancels_by_itself_has_cancelled(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "cancels_itself")
    assert isinstance(turn.terminal, TurnCancelled)


def test_a_crash_in_the_middle_is_told_with_the_last_words(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "crash")
    assert turn.answer == ["About to "]
    assert turn.tools == [("sleep", None)]
    assert failure(turn) == ("scenes exited with code 3: Traceback out of luck", CUT_OFF)


def test_a_child_neither_keeps_the_turn_nor_stays(scenes: Scenes) -> None:
    async def and_look() -> list[int]:
        turn = await collect(scenes.runtime(), "child")
        assert turn[-1] == END
        return scenes.left()

    assert asyncio.run(and_look()) == []
    assert len(list(scenes.pids.iterdir())) == 2


def test_a_child_that_holds_the_output_of_a_crashed_agent_is_ended_too(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "orphan")
    assert failure(turn) == ("scenes exited with code 0", CUT_OFF)
    assert len(list(scenes.pids.iterdir())) == 2


# Cancelling


def leave(runtime: AcpRuntime, text: str, at: type[Event], session: str = "") -> None:
    """Close the run at the first event of a kind."""

    async def run() -> None:
        async with aclosing(runtime.run(Prompt(text=text, session_id=session))) as events:
            async for event in events:
                if isinstance(event, at):
                    break

    asyncio.run(run())


def test_leaving_tells_the_agent_to_stop_and_nothing_is_left_when_that_returns(scenes: Scenes) -> None:
    async def run() -> list[int]:
        async with aclosing(scenes.runtime().run(Prompt(text="cancel", session_id="s"))) as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
        return scenes.left()

    assert asyncio.run(run()) == []
    assert (scenes.store / "cancelled").exists()


def test_an_agent_that_is_deaf_to_everything_is_killed(scenes: Scenes) -> None:
    async def run() -> list[int]:
        async with aclosing(scenes.runtime("--deaf").run(Prompt(text="deaf"))) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        return scenes.left()

    assert asyncio.run(run()) == []


def test_an_agent_that_reads_nothing_any_more_is_not_waited_for() -> None:
    async def run() -> None:
        agent = AcpAgent((sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"))
        await agent.start()
        asked = RpcMessage(id=1, method="session/request_permission")
        telling = asyncio.create_task(agent.prompt("x" * 1_000_000))
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(60):
                await agent.cancel_requests([asked])
                await agent.cancel()
        finally:
            telling.cancel()
            await agent.close()

    asyncio.run(run())


def test_a_task_that_is_cancelled_leaves_nobody(scenes: Scenes) -> None:
    async def run() -> list[int]:
        begun = asyncio.Event()

        async def consume() -> None:
            async with aclosing(scenes.runtime().run(Prompt(text="cancel"))) as events:
                async for event in events:
                    if isinstance(event, ToolStarted):
                        begun.set()

        consuming = asyncio.create_task(consume())
        await begun.wait()
        consuming.cancel()
        await asyncio.wait({consuming})
        assert consuming.cancelled()
        return scenes.left()

    assert asyncio.run(run()) == []
    assert (scenes.store / "cancelled").exists()


def test_one_who_leaves_while_the_agent_is_silent_leaves_nobody(scenes: Scenes) -> None:
    async def run() -> None:
        async with aclosing(scenes.runtime("--silent=session/new").run(Prompt(text="hello"))) as events:
            await anext(events)
            await asyncio.wait_for(anext(events), 0.3)

    with pytest.raises(TimeoutError):
        asyncio.run(run())


def test_a_session_that_was_cancelled_goes_on(scenes: Scenes) -> None:
    runtime = scenes.runtime("--load")
    leave(runtime, "cancel", ToolStarted, session="s")
    assert [said for _, _, said in memories(play(runtime, "memory", session="s"))] == [["cancel", "memory"]]


# Permissions


class Person:
    """Answers questions by the name of a choice, and remembers them; some are kept waiting, or cannot be put."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.asked: list[str] = []
        self.waits = asyncio.Event()
        self.cancelled = 0

    async def ask(self, question: Question) -> Choice | None:
        self.asked.append(question.title)
        name = self.names.pop(0)
        if name == "wait":
            self.waits.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if name == "raise":
            raise ConnectionError("no line to the person")
        return next((choice for choice in question.choices if choice.name == name), None)


HOW = f" {HOW_TO_ALLOW}"


@pytest.mark.parametrize("permissions", ["deny", "ask"])
def test_nothing_is_allowed_unless_somebody_says_so_and_how_is_told(scenes: Scenes, permissions: Policy) -> None:
    (turn,) = play(scenes.runtime(permissions=permissions), "permission")
    assert turn.answer == ["{'outcome': 'selected', 'optionId': 'no'}"]
    assert turn.notices == [f"Not allowed: rm -rf 0.{HOW}"]


def test_how_to_allow_is_told_once(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "permissions")
    assert turn.notices == [f"Not allowed: rm -rf 0.{HOW}", "Not allowed: rm -rf 1."]


def test_what_is_allowed_is_allowed_once(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(permissions="allow"), "permission")
    assert turn.answer == ["{'outcome': 'selected', 'optionId': 'yes'}"]
    assert turn.notices == []


def test_where_there_is_no_way_to_say_no_the_request_is_cancelled(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(), "one_sided")
    assert turn.answer == ["{'outcome': 'cancelled'}"]


@pytest.mark.parametrize(("said", "answered"), [("Always", "always"), ("Yes", "yes"), ("No", "no"), ("nothing", "no")])
def test_a_person_who_is_asked_decides(scenes: Scenes, said: str, answered: str) -> None:
    person = Person(said)
    (turn,) = play(scenes.runtime(permissions="ask", approver=person), "permission")
    assert turn.answer == [f"{{'outcome': 'selected', 'optionId': '{answered}'}}"]
    assert person.asked == ["rm -rf 0"]
    assert turn.status == ["Waiting for permission: rm -rf 0"]
    assert turn.notices == []


def test_a_person_who_cannot_be_reached_has_not_allowed_it(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime(permissions="ask", approver=Person("raise")), "permission")
    assert turn.answer == ["{'outcome': 'selected', 'optionId': 'no'}"]
    assert turn.notices == [
        "Not allowed, because nobody could be asked: rm -rf 0 (no line to the person)",
    ]


def test_the_agent_is_heard_while_the_person_thinks(scenes: Scenes) -> None:
    async def run() -> list[Event]:
        heard = asyncio.Event()

        class Slow:
            async def ask(self, question: Question) -> Choice | None:
                await heard.wait()
                return question.allowing() if question.title == "rm -rf 0" else question.denying()

        events: list[Event] = []
        runtime = scenes.runtime(permissions="ask", approver=Slow())
        async with aclosing(runtime.run(Prompt(text="permissions"))) as told:
            async for event in told:
                events.append(event)
                if event == TextDelta(text="working"):
                    heard.set()
        return events

    assert turn_from(asyncio.run(run())).answer == ["working ['yes', 'no']"]


def test_a_question_that_needs_no_answer_any_more_is_withdrawn(scenes: Scenes) -> None:
    person = Person("wait")
    runtime = scenes.runtime(permissions="ask", approver=person)

    async def run() -> list[list[Event]]:
        events = [await collect(runtime, text, "s") for text in ("impatient", "withdrawn")]
        assert person.cancelled == 1
        return events

    turns = [turn_from(events) for events in asyncio.run(run())]
    assert [turn.answer for turn in turns] == [["never mind"], ["{'outcome': 'cancelled'}"]]


def test_a_question_is_withdrawn_when_the_turn_is_left(scenes: Scenes) -> None:
    person = Person("wait")

    async def run() -> None:
        runtime = scenes.runtime(permissions="ask", approver=person)
        async with aclosing(runtime.run(Prompt(text="permission"))) as events:
            async for event in events:
                if isinstance(event, Status):
                    await person.waits.wait()
                    break
        assert person.cancelled == 1

    asyncio.run(run())


# Sessions


def test_a_conversation_keeps_its_agent_and_another_has_another(scenes: Scenes) -> None:
    runtime = scenes.runtime()

    async def run() -> list[list[Event]]:
        return [await collect(runtime, "memory", session) for session in ("a", "b", "a")]

    (first, _, said), (other, _, other_said), (again, _, more_said) = memories(
        [turn_from(events) for events in asyncio.run(run())]
    )
    assert first == again != other
    assert (said, other_said, more_said) == (["memory"], ["memory"], ["memory", "memory"])


def test_one_who_leaves_at_the_end_of_a_turn_leaves_the_agent_for_the_next(scenes: Scenes) -> None:
    runtime = scenes.runtime()

    async def run() -> list[Event]:
        async with aclosing(runtime.run(Prompt(text="never_finished", conversation="c"))) as events:
            async for event in events:
                if event == END:
                    break
        return [event async for event in runtime.run(Prompt(text="memory", conversation="c"))]

    assert memories([turn_from(asyncio.run(run()))])[0][2] == ["never_finished", "memory"]


def test_a_prompt_of_no_conversation_leaves_neither_agent_nor_memory(scenes: Scenes) -> None:
    async def run() -> list[list[Event]]:
        events = []
        for _ in range(2):
            events.append(await collect(scenes.runtime("--load"), "memory"))
            assert scenes.left() == []
        return events

    assert [said for _, _, said in memories([turn_from(events) for events in asyncio.run(run())])] == [["memory"]] * 2


@pytest.mark.parametrize("can", ["--load", "--resume"])
def test_a_session_is_taken_up_again_and_its_history_is_not_told_again(scenes: Scenes, can: str) -> None:
    turns = [*play(scenes.runtime(can), "memory", session="s"), *play(scenes.runtime(can), "memory", session="s")]
    (first, _, _), (second, _, said) = memories(turns)
    assert first != second
    assert said == ["memory", "memory"]
    assert [turn.notices for turn in turns] == [[], []]


def test_agents_do_not_take_up_the_sessions_of_others(scenes: Scenes, tmp_path: Path) -> None:
    runtimes = [
        scenes.runtime("--load"),
        scenes.runtime("--load", "--other"),
        scenes.runtime("--load", cwd=str(tmp_path)),
    ]
    turns = [turn for runtime in runtimes for turn in play(runtime, "memory", session="s")]
    assert [said for _, _, said in memories(turns)] == [["memory"]] * 3
    assert [turn.notices for turn in turns] == [[]] * 3


@pytest.mark.parametrize("options", [("--long",), ("--late",), ("--long", "--late")], ids=" ".join)
def test_a_history_of_any_length_is_passed_over_also_where_it_comes_late(
    scenes: Scenes, options: tuple[str, ...]
) -> None:
    turns = play(scenes.runtime("--load", *options, retention_s=0), *["hello"] * 3, session="s")
    assert [turn.answer for turn in turns] == [["Hello, wörld 👋🏽"]] * 3


def test_what_is_said_between_turns_belongs_to_none_and_what_is_asked_is_not_left_open(scenes: Scenes) -> None:
    _, second = play(scenes.runtime(), "stale", "withdrawn", session="s")
    assert second.answer == ["{'outcome': 'cancelled'}"]


def test_a_runtime_outlives_the_event_loop_that_its_agents_end_with(scenes: Scenes) -> None:
    runtime = scenes.runtime("--load")
    (first, _, _), (second, _, said) = memories(
        [*play(runtime, "memory", session="s"), *play(runtime, "memory", session="s")]
    )
    assert first != second
    assert said == ["memory", "memory"]


def test_an_agent_is_not_kept_where_that_is_not_wanted(scenes: Scenes) -> None:
    (first, _, _), (second, _, said) = memories(
        play(scenes.runtime("--load", retention_s=0), *["memory"] * 2, session="s")
    )
    assert first != second
    assert said == ["memory", "memory"]


def test_one_who_cannot_take_up_a_session_begins_anew_and_that_is_told(scenes: Scenes) -> None:
    first, second = play(scenes.runtime(retention_s=0), "memory", "memory", session="s")
    assert first.notices == []
    assert second.notices == [f"{ANEW}scenes cannot resume sessions"]
    assert memories([second])[0][2] == ["memory"]


def test_one_who_refuses_to_load_a_session_begins_anew_and_that_is_told(scenes: Scenes) -> None:
    options = ("--load", "--refuse=session/load")
    _, second = play(scenes.runtime(*options, retention_s=0), "memory", "memory", session="s")
    assert second.notices == [f"{ANEW}scenes refused: Internal error: no"]


def test_an_agent_that_exited_between_turns_is_started_again(scenes: Scenes) -> None:
    turns = play(scenes.runtime("--load"), "exits_after", "memory", session="s")
    assert turns[0].answer == ["Bye."]
    assert memories(turns[1:])[0][2] == ["exits_after", "memory"]


async def gone(pid: int) -> None:
    """Wait until a process has exited."""
    handle = os.pidfd_open(pid)
    exited = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, exited.set)
    try:
        await exited.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


def test_an_agent_that_nobody_talks_to_is_let_go(scenes: Scenes) -> None:
    async def run() -> None:
        runtime = scenes.runtime(retention_s=0.2)
        ((pid, _, _),) = memories([await turn_in_loop(runtime, "memory", "s")])
        await gone(pid)

    asyncio.run(run())


async def turn_in_loop(runtime: AcpRuntime, text: str, session: str) -> Turn:
    events = await collect(runtime, text, session)
    return await asyncio.to_thread(turn_from, events)


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


def test_an_agent_that_is_kept_ends_with_the_event_loop(scenes: Scenes) -> None:
    play(scenes.runtime(), "child", session="s")
    assert len(list(scenes.pids.iterdir())) == 2


def test_a_session_that_cannot_be_remembered_is_told_and_goes_on(
    scenes: Scenes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    (turn,) = play(scenes.runtime(), "hello", session="s")
    assert turn.terminal == END
    assert turn.notices[0].startswith("The conversation cannot be remembered: ")


# Opening a session


def test_an_agent_that_wants_a_login_is_told_with_the_ways_to_do_it(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime("--auth"), "hello")
    ways = "Log in with its own command first, or choose a way with auth: key, web"
    assert failure(turn) == (f"scenes refused: Authentication required. {ways}", "auth_required")


def test_a_way_to_log_in_and_a_mode_are_chosen(scenes: Scenes) -> None:
    ((_, mode, _),) = memories(play(scenes.runtime("--auth", auth="key", mode="plan"), "memory"))
    assert mode == "plan"


@pytest.mark.parametrize("method", ["initialize", "session/new", "session/set_mode"])
def test_what_is_refused_fails_the_turn_in_the_agents_words(scenes: Scenes, method: str) -> None:
    (turn,) = play(scenes.runtime(f"--refuse={method}", mode="plan"), "hello")
    who = PYTHON if method == "initialize" else "scenes"
    assert failure(turn) == (f"{who} refused: Internal error: no", "internal_error")
    assert turn.answer == []


def test_another_version_of_the_protocol_is_not_spoken(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime("--version=2"), "hello")
    assert failure(turn) == (f"{PYTHON} speaks version 2 of the protocol, not 1", "malformed")


def test_an_agent_that_exits_at_once_is_told_with_its_last_words(scenes: Scenes) -> None:
    (turn,) = play(scenes.runtime("--exit"), "hello")
    assert failure(turn) == (f"{PYTHON} exited with code 1: no licence", CUT_OFF)


def test_a_program_that_only_repeats_what_it_is_told_is_no_agent(scenes: Scenes) -> None:
    assert scenes.left() == []
    (turn,) = play(AcpRuntime("cat"), "hello")
    assert failure(turn) == ("cat refused: no initialize here", "not_supported")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "names no command"),
        ("a 'b", "is not a valid command"),
    ],
)
def test_a_command_that_is_none_is_told(command: str, said: str) -> None:
    def run() -> None:
        play(AcpRuntime(command), "hello")

    with pytest.raises(AgentNotFound, match=said):
        run()
