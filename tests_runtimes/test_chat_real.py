"""`tailrace chat` with the real command lines of agents, as a person at a terminal meets it; the model is scripted.

Needs: claude-agent-sdk==0.2.182; npm @agentclientprotocol/claude-agent-acp@0.99.1 @agentclientprotocol/codex-acp@2.6.0
@google/gemini-cli@0.61.0 @openai/codex@0.166.0 opencode-ai@1.18.33
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_lines import claude_command, command, let_codex_delegate
from playing import LIMIT_S
from talking import Talk, talk, without_remarks

from pseudo_terminal import TAILRACE
from tailrace.testing.scripted_scenarios import Call, Fail, Refuse, Scenario, Shell, say, think

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from command_lines import Place

    Change = Callable[[dict[str, str]], None]

MY_APP = """
from claude_agent_sdk import ClaudeAgentOptions

agent = ClaudeAgentOptions()
"""
TOKEN = "a-token-that-nobody-is-to-read-4711"
KEYS = ("ANTHROPIC_API_KEY", "SCRIPTED_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@dataclass(frozen=True)
class Agent:
    """One that people talk to: its name for `tailrace chat`, whose words it has, and how it looks."""

    named: str
    kin: str
    shell: str = ""
    choices: tuple[str, ...] = ()
    asks: str = "{command}"
    refused: str = ""
    thinks: tuple[str, ...] = ()
    sees_failures: bool = True  # that a command failed by its exit code
    asks_for: str = ""  # what its call is named while it asks, where that is not as ever

    def call(self, command: str) -> str:
        """How it names a call of its shell."""
        return f"{self.shell}: {command}" if self.shell else command


CLAUDE = Agent(
    "claude",
    "claude",
    "Bash",
    ("Allow", "Always allow Bash({command} *)", "Deny"),
    "Claude wants to use Bash\n    {command}",
    "✗ Bash: {command} (T) · The person did not allow this.",
)
CODEX = Agent(
    "codex",
    "codex",
    "shell",
    ("Allow", "Allow for this session", "Deny"),
    "Run {command}\n    /bin/bash -lc '{command}'",
    "✗ shell: {command} (T) · declined",
)
GEMINI = Agent(
    "gemini",
    "gemini",
    "",
    ("Allow for this session", "Allow", "Reject"),
    refused="– {command} (not finished)",
    thinks=("Thinking",),
    sees_failures=False,
)
OPENCODE = Agent(
    "opencode",
    "opencode",
    "bash",
    ("Allow", "Allow always", "Deny"),
    "bash {command}",
    "✗ bash: {command} (T) · The user rejected permission to use this specific tool call",
)
MINE = Agent("my_app:agent", "claude", "Bash", CLAUDE.choices, CLAUDE.asks, CLAUDE.refused)
ACP_CLAUDE = Agent(
    "acp:claude-agent-acp",
    "claude",
    "Bash",
    ("Yes", "No"),
    refused="✗ Bash: {command} (T) · User refused permission to run tool",
)
ACP_CODEX = Agent(
    "acp:codex-acp",
    "codex",
    "exec_command",
    (
        "Yes, proceed",
        "Yes, and don't ask again for commands that start with `{command}`",
        "No, and tell Codex what to do differently",
    ),
    refused="cancelled",
    asks_for="{command}: {command}",
)
ACP_GEMINI = Agent(
    "acp:gemini --acp", "gemini", "", GEMINI.choices, refused=GEMINI.refused, thinks=GEMINI.thinks, sees_failures=False
)
ACP_OPENCODE = Agent(
    "acp:opencode acp",
    "opencode",
    "bash",
    ("Allow once", "Always allow", "Reject"),
    refused=OPENCODE.refused,
    sees_failures=False,
)
ALL_BUT_ACP_GEMINI = (CLAUDE, CODEX, GEMINI, OPENCODE, MINE, ACP_CLAUDE, ACP_CODEX, ACP_OPENCODE)
AGENTS = (*ALL_BUT_ACP_GEMINI, ACP_GEMINI)


def each(*agents: Agent) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", agents, ids=lambda agent: agent.named)


def environment(place: Place, agent: Agent) -> dict[str, str]:
    """Where the agent finds the scripted model; whatever reaches beyond it, it has to ask for."""
    env = {
        "claude": place.claude,
        "codex": lambda: place.codex(approval_policy="on-request", sandbox_mode="read-only"),
        "gemini": place.gemini,
        "opencode": lambda: place.opencode(bash="ask"),
    }[agent.kin]()
    folders = (str(Path(claude_command()).parent), str(Path(command("codex")).parent), env["PATH"])
    return {**env, "PATH": os.pathsep.join(folders), "GEMINI_MODEL": "gemini-2.5-flash", "WORKER_TOKEN": TOKEN}


@pytest.fixture
def chat(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Talk]]:
    """`tailrace chat`, until the person leaves at the end of the test."""
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    (Path(place.work) / "my_app.py").write_text(MY_APP)
    with ExitStack() as open_:

        def start(agent: Agent, *options: str, change: Change = lambda _: None, columns: int = 130) -> Talk:
            env = environment(place, agent)
            change(env)
            return open_.enter_context(talk(agent.named, *options, cwd=Path(place.work), env=env, columns=columns))

        yield start
    place.wait_until_all_are_gone()


def stopped(talk: Talk, place: Place) -> list[str]:
    """Ctrl-C, and what stands then; of the agent no process is left, only `tailrace chat` itself."""
    shown = talk.stops()
    place.wait_until_all_are_gone(but=talk.person.process.pid)
    return shown


@each(*AGENTS)
def test_thoughts_tools_and_answers_look_the_same_whoever_says_them(
    chat: Callable[..., Talk], place: Place, agent: Agent
) -> None:
    talk = chat(agent, "--permissions", "allow")
    place.model.scenarios["all"] = (
        (think("I should ", "run something."), say("Let me ", "look."), Shell("echo the tool speaks")),
        (
            think("Now I ", "know."),
            say("Two at once."),
            Shell("echo first", "a"),
            Shell("echo second", "another"),
        ),
        (say("Trying it."), Shell("echo on its way; echo went wrong >&2; exit 3")),
        (say("It went wrong."),),
    )
    shown = without_remarks(talk.answer("[[scenario:all]]"))
    (failed,) = [line for line in shown if "exit 3" in line]
    first, second = (f"✓ {agent.call(f'echo {which}')} (T)" for which in ("first", "second"))
    # Blank lines around what it says and thinks, and none between its calls, of which either may end first.
    looks = [
        [
            *agent.thinks,
            "I should run something.",
            "",
            "Let me look.",
            "",
            f"✓ {agent.call('echo the tool speaks')} (T)",
            "",
            *agent.thinks,
            "Now I know.",
            "",
            "Two at once.",
            "",
            *both,
            "",
            "Trying it.",
            "",
            failed,
            "",
            "It went wrong.",
        ]
        for both in ((first, second), (second, first))
    ]
    assert shown in looks
    if agent.sees_failures:
        assert failed.startswith(f"✗ {agent.call('echo on its way; echo went wrong >&2; exit 3')} (T) · ")
        assert "went wrong" in failed.rpartition("·")[2]
    assert talk.colours("I should run something.") == talk.colours("Now I know.") == {"dim"}
    assert talk.colours("Let me look.") == {"default"}
    assert without_remarks(talk.answer("[[scenario:recall]]")) == ["Before this: all."]


def asking_to_make(agent: Agent) -> Scenario:
    wanted = {"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "May I?"}
    call = Call("exec_command", wanted) if agent.kin == "codex" else Shell("touch made")
    return ((say("I make a file."), call), (say("That is that."),))


@each(*AGENTS)
def test_what_it_asks_is_decided_at_the_terminal(chat: Callable[..., Talk], place: Place, agent: Agent) -> None:
    made = Path(place.work) / "made"
    place.model.scenarios["ask"] = asking_to_make(agent)
    # This agent of codex's asks itself what it may do, unless it begins in another mode.
    talk = chat(agent, change=lambda env: env.update(INITIAL_AGENT_MODE="read-only"))
    call = agent.asks_for.format(command="touch made") or agent.call("touch made")
    for key, outcome in (("n", agent.refused.format(command="touch made")), ("y", f"✓ {call} (T)")):
        talk.begin("[[scenario:ask]]")
        talk.chooses(key)
        shown = without_remarks(talk.ended())
        told = ["I make a file.", "", f"◌ {call}", ""]
        # What claude-agent-acp asks may overtake what it says.
        assert shown[:4] == told or (agent is ACP_CLAUDE and shown[:4] == told[2:] + told[:2])
        choices = [f"  {number}  {choice}" for number, choice in enumerate(agent.choices, 1)]
        question = "\n".join([f"? {agent.asks}", *choices]).format(command="touch made").split("\n")
        end = 4 + len(question)
        assert shown[4 : end + 1] == [*question, f"  1-{len(choices)}, y, n: {key}"]
        assert any(line.startswith(outcome) for line in shown[end + 1 :])
        assert made.exists() == (key == "y")


def at_work(talk: Talk, place: Place) -> None:
    """Let the agent run a command that never ends, until it runs."""
    pipe = place.root / "begun"
    os.mkfifo(pipe)
    # Not the last command of the shell, which would become it and be nobody for a moment.
    work = Shell(f"echo begun > {pipe}; sleep 600; true")
    place.model.scenarios["work"] = ((say("This takes long."), work), (say("!"),))
    talk.begin("[[scenario:work]]")
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    assert select.select([end], [], [], LIMIT_S)[0], "the command was never run"
    os.close(end)
    talk.person.sees("◌")


@each(CLAUDE, CODEX, GEMINI, OPENCODE, MINE)
def test_a_stop_in_the_middle_of_a_text_leaves_what_was_said(
    chat: Callable[..., Talk], place: Place, agent: Agent
) -> None:
    talk = chat(agent)
    talk.begin("[[scenario:stall]]")
    talk.person.sees("Before the silence")
    assert without_remarks(stopped(talk, place)) == ["Before the silence", "", "cancelled"]
    assert talk.colours("cancelled") == {"dim"}


@each(*ALL_BUT_ACP_GEMINI)  # at a terminal `gemini` is run with --acp as well
def test_a_stop_ends_the_tool_and_the_session_goes_on(chat: Callable[..., Talk], place: Place, agent: Agent) -> None:
    talk = chat(agent, "--permissions", "allow", change=lambda env: env.update(INITIAL_AGENT_MODE="agent-full-access"))
    at_work(talk, place)
    *said, tool, end = without_remarks(stopped(talk, place))
    assert said == ["This takes long.", ""]
    assert re.fullmatch(rf"– {agent.shell}.*echo begun.* \(not finished\)", tool)
    assert end == "cancelled"
    place.let_a_minute_pass()
    assert talk.answer("[[scenario:recall]]")[-1] == "Before this: work."


class Mending(dict[str, Scenario]):
    """Scenarios of which `again` fails the first time it is asked for, and never after."""

    def __init__(self, scenarios: dict[str, Scenario], *, failing: Scenario, whole: Scenario) -> None:
        super().__init__(scenarios, again=whole)
        self._failing: Scenario | None = failing

    def get(self, name: str, *otherwise: Any) -> Any:
        if name == "again" and self._failing is not None:
            failing, self._failing = self._failing, None
            return failing
        return super().get(name, *otherwise)


@each(CLAUDE, CODEX, GEMINI)
def test_a_second_try_stands_below_a_remark_that_takes_the_first_back(
    chat: Callable[..., Talk], place: Place, agent: Agent
) -> None:
    place.model.scenarios = Mending(
        place.model.scenarios,
        failing=((say("This is going ", "to break"), Fail()),),
        whole=((say("This is going ", "to break, ", "but it holds."),),),
    )
    talk = chat(agent)
    shown = without_remarks(talk.answer("[[scenario:again]]"))
    assert shown[:2] == ["This is going to break", ""]
    assert shown[2].startswith("↩ the last text is withdrawn")
    assert shown[-2:] == ["", "This is going to break, but it holds."]
    assert talk.colours("↩") == {"dim"}
    assert sum(line.startswith("This is going") for line in shown) == 2


def test_opencode_asks_its_model_again_and_says_so(chat: Callable[..., Talk], place: Place) -> None:
    place.model.scenarios["again"] = ((say("This is going ", "to break"), Fail()),)
    talk = chat(OPENCODE)
    talk.begin("[[scenario:again]]")
    talk.person.sees("· Asking the model again: the scripted model fails here")
    place.model.scenarios["again"] = ((say("This is ", "whole."),),)
    shown = talk.ended()
    assert shown[:3] == [
        "This is going to break",
        "",
        "↩ the last text is withdrawn: the scripted model fails here",
    ]
    assert shown[-2:] == ["", "This is whole."]


@each(*ALL_BUT_ACP_GEMINI)  # at a terminal `gemini` is run with --acp as well
def test_a_failure_is_told_once_in_red_and_the_session_goes_on(chat: Callable[..., Talk], agent: Agent) -> None:
    talk = chat(agent)
    shown = talk.answer("[[scenario:http400]]")
    assert shown[-1].startswith("failed: ")
    assert "the scripted model refuses this request" in shown[-1]
    assert talk.colours("failed: ") == {"red"}
    if agent.kin in {"claude", "codex"}:  # the others take seconds for a turn; of them the stops show that they go on
        assert without_remarks(talk.answer("[[scenario:hello]]")) == ["Hello from the scripted model."]


@each(CLAUDE, CODEX)
def test_what_was_said_before_a_failure_stands(chat: Callable[..., Talk], agent: Agent) -> None:
    shown = chat(agent).answer("[[scenario:errmid]]")
    end = next(number for number, line in enumerate(shown) if line.startswith("failed: "))
    assert shown[end - 2 : end] == ["This is going to break", ""]
    assert "the scripted model fails here" in shown[end]


def without_key(env: dict[str, str]) -> None:
    for key in KEYS:
        env.pop(key, None)


def without_provider(env: dict[str, str]) -> None:
    path = Path(env["OPENCODE_CONFIG"])
    settings = json.loads(path.read_text())
    del settings["provider"]
    path.write_text(json.dumps({**settings, "model": "anthropic/claude-of-nobody", "small_model": "anthropic/none"}))


def known(_: dict[str, str]) -> None:
    """There is a key; the model answers it with 401."""


@pytest.mark.parametrize(
    ("agent", "change", "words", "advice"),
    [
        (CLAUDE, without_key, "Not logged in · Please run /login", "log in with /login, or set ANTHROPIC_API_KEY"),
        (MINE, without_key, "Not logged in · Please run /login", "log in with /login, or set ANTHROPIC_API_KEY"),
        (CODEX, known, "unexpected status 401 Unauthorized: you are nobody", "Log in with: codex login"),
        (GEMINI, without_key, "Gemini API key is missing", "Run gemini once and log in, or set GEMINI_API_KEY"),
        (OPENCODE, without_provider, "Model not found", "opencode auth login"),
        (OPENCODE, known, "you are nobody", "Log in with: opencode auth login"),
    ],
    ids=lambda value: value.named if isinstance(value, Agent) else getattr(value, "__name__", ""),
)
def test_whoever_is_not_logged_in_reads_how_to(
    chat: Callable[..., Talk],
    place: Place,
    agent: Agent,
    change: Change,
    words: str,
    advice: str,
) -> None:
    place.model.scenarios["nobody"] = ((Refuse(401, "you are nobody"),),)
    shown = chat(agent, change=change).answer("[[scenario:nobody]]")
    begin = next(number for number, line in enumerate(shown) if line.startswith("failed: "))
    told = " ".join(line.strip() for line in shown[begin:])
    assert words in told
    assert advice in told
    assert told.count("failed:") == 1


@each(CLAUDE, MINE, CODEX, OPENCODE, ACP_CLAUDE)
def test_a_subagent_stands_under_its_call(chat: Callable[..., Talk], place: Place, agent: Agent) -> None:
    if agent.kin == "codex":
        let_codex_delegate(place)
    shown = without_remarks(chat(agent, "--permissions", "allow").answer("[[scenario:subagent]]"))
    assert shown[:2] == ["I delegate.", ""]
    assert shown[2][:2] in {"◌ ", "✓ "}
    assert [line for line in shown if line and line[0] not in " ◌✓↳"][-1] == "The parent is done."
    said = ["  │ The child speaks.", f"  ✓ {agent.shell}: echo a child works (T)", "  │ The child has a result."]
    told_of = [line for line in shown if line in said]
    assert told_of == (said[1:2] if agent is ACP_CLAUDE else said)


@each(CLAUDE, CODEX)
def test_a_narrow_window_and_one_that_gets_narrower(chat: Callable[..., Talk], place: Place, agent: Agent) -> None:
    talk = chat(agent, "--permissions", "allow", columns=60)
    wide = "for name in a b c; do echo a line about $name that is wider than the window; done; exit 7"
    place.model.scenarios["wide"] = ((say("Wide things come."), Shell(wide)), (say("That was wide."),))
    shown = talk.answer("[[scenario:big]]")
    assert shown[-5:] == ["A lot comes.", "", f"✓ {agent.call('seq 1 2000')} (T)", "", "That was a lot."]
    at_work(talk, place)
    talk.person.resize(40, 60)
    assert stopped(talk, place)[-1] == "cancelled"
    shown = talk.answer("[[scenario:wide]]")
    assert (shown[:2], shown[3:]) == (["Wide things come.", ""], ["", "That was wide."])
    assert re.fullmatch(rf"✗ {agent.shell}: for .*… \(T\) · .*…", shown[2])
    assert len(shown[2].replace("(T)", "(0.0s)")) < 40


def test_what_is_recorded_can_be_read_on_and_holds_no_secret(
    chat: Callable[..., Talk], place: Place, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    place.model.scenarios["tell"] = (
        (say("I look ", "for it."), Shell("echo it is $WORKER_TOKEN")),
        (say("It is ", TOKEN[:9], TOKEN[9:], ", I think."),),
    )
    talk = chat(CLAUDE, "--permissions", "allow", "--record", str(records))
    assert talk.answer("[[scenario:tell]]")[-1] == f"It is {TOKEN}, I think."
    talk.begin("[[scenario:stall]]")
    talk.person.sees("Before the silence")
    stopped(talk, place)
    turns = sorted(records.iterdir())
    assert len(turns) == 2
    assert not any(TOKEN in turn.read_text() for turn in turns)

    def tailrace(*words: str, said: str = "") -> str:
        done = subprocess.run([TAILRACE, *words], input=said, capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stdout

    seen = tailrace("preview", str(turns[0]), "--channel", "slack")
    assert "It is [left out], I think." in seen
    assert "2 turns" in tailrace("shadow", "--replay", str(records), "--shadow-presentation", "blocks")
    delivered = tailrace("deliver", "--channel", "terminal", "--to", "me", said=turns[0].read_text())
    assert delivered == "I look for it.\n\nIt is [left out], I think.\n"
