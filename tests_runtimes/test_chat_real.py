"""`tailrace chat` at a terminal with the real command lines of agents and a scripted model.

Needs: claude-agent-sdk==0.2.182; npm @agentclientprotocol/claude-agent-acp@0.99.1 @google/gemini-cli@0.61.0
@openai/codex@0.166.0 opencode-ai@1.18.33
"""

from __future__ import annotations

import os
import re
import select
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_lines import claude_command, command, let_it_make_a_file
from playing import LIMIT_S
from talking import Talk, talk, without_notices

from tailrace.testing.scripted_scenarios import Shell, say, think

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from command_lines import Place


MY_APP = """
from claude_agent_sdk import ClaudeAgentOptions

agent = ClaudeAgentOptions()
"""
KEYS = ("ANTHROPIC_API_KEY", "SCRIPTED_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@dataclass(frozen=True)
class Agent:
    """An agent: its name for `tailrace chat`, the command behind it, and how its turns look at the terminal."""

    named: str
    command: str
    shell: str = ""
    choices: tuple[str, ...] = ()
    asks: str = "{command}"
    refused: str = ""
    thinks: tuple[str, ...] = ()
    sees_failures: bool = True  # whether it reports the exit code of a command as a failure

    def call(self, command: str) -> str:
        """The line of a call of its shell, without the mark."""
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
AGENTS = (CLAUDE, CODEX, GEMINI, OPENCODE, MINE, ACP_CLAUDE)


def each(*agents: Agent) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", agents, ids=lambda agent: agent.named)


def environment(place: Place, agent: Agent) -> dict[str, str]:
    """The environment with the scripted model. The agent must ask for everything beyond reading."""
    env = {
        "claude": place.claude,
        "codex": lambda: place.codex(approval_policy="on-request", sandbox_mode="read-only"),
        "gemini": place.gemini,
        "opencode": lambda: place.opencode(bash="ask"),
    }[agent.command]()
    folders = (str(Path(claude_command()).parent), str(Path(command("codex")).parent), env["PATH"])
    return {**env, "PATH": os.pathsep.join(folders), "GEMINI_MODEL": "gemini-2.5-flash"}


@pytest.fixture
def chat(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Talk]]:
    """Starts `tailrace chat`; the person leaves at the end of the test."""
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    (Path(place.work) / "my_app.py").write_text(MY_APP)
    with ExitStack() as open_:

        def start(agent: Agent, *options: str) -> Talk:
            env = environment(place, agent)
            return open_.enter_context(talk(agent.named, *options, cwd=Path(place.work), env=env))

        yield start
    place.wait_until_all_are_gone()


def stopped(talk: Talk, place: Place) -> list[str]:
    """Press Ctrl-C. Returns the lines shown then; no process of the agent may be left."""
    shown = talk.stops()
    place.wait_until_all_are_gone(but=talk.person.process.pid)
    return shown


@each(*AGENTS)
def test_every_agent_looks_the_same(chat: Callable[..., Talk], place: Place, agent: Agent) -> None:
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
    shown = without_notices(talk.answer("[[scenario:all]]"))
    (failed,) = [line for line in shown if "exit 3" in line]
    first, second = (f"✓ {agent.call(f'echo {which}')} (T)" for which in ("first", "second"))
    # Blank lines around texts and reasoning, but none between calls. Either call may end first.
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
    assert without_notices(talk.answer("[[scenario:recall]]")) == ["Before this: all."]


@each(*AGENTS)
def test_a_question_is_decided_at_the_terminal(chat: Callable[..., Talk], place: Place, agent: Agent) -> None:
    made = Path(place.work) / "made"
    let_it_make_a_file(place, agent.command, "made")
    talk = chat(agent)
    call = agent.call("touch made")
    for key, outcome in (("n", agent.refused.format(command="touch made")), ("y", f"✓ {call} (T)")):
        talk.begin("[[scenario:ask]]")
        talk.chooses(key)
        shown = without_notices(talk.ended())
        begun = ["I make a file.", "", f"◌ {call}", ""]
        # The question of claude-agent-acp may come before its text.
        assert shown[:4] == begun or (agent is ACP_CLAUDE and shown[:4] == begun[2:] + begun[:2])
        choices = [f"  {number}  {choice}" for number, choice in enumerate(agent.choices, 1)]
        question = "\n".join([f"? {agent.asks}", *choices]).format(command="touch made").split("\n")
        end = 4 + len(question)
        assert shown[4 : end + 1] == [*question, f"  1-{len(choices)}, y, n: {key}"]
        assert any(line.startswith(outcome) for line in shown[end + 1 :])
        assert made.exists() == (key == "y")


def at_work(talk: Talk, place: Place) -> None:
    """Start a command of the agent that never ends, and wait until it runs."""
    pipe = place.root / "begun"
    os.mkfifo(pipe)
    # `true` is last, because a shell replaces itself by its last command, and is not found in that moment.
    work = Shell(f"echo begun > {pipe}; sleep 600; true")
    place.model.scenarios["work"] = ((say("This takes long."), work), (say("!"),))
    talk.begin("[[scenario:work]]")
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    assert select.select([end], [], [], LIMIT_S)[0], "the command was never run"
    os.close(end)
    talk.person.sees("◌")


@each(*AGENTS)
def test_a_stop_ends_the_tool_and_the_session_continues(chat: Callable[..., Talk], place: Place, agent: Agent) -> None:
    talk = chat(agent, "--permissions", "allow")
    at_work(talk, place)
    *said, tool, end = without_notices(stopped(talk, place))
    assert said == ["This takes long.", ""]
    assert re.fullmatch(rf"– {agent.shell}.*echo begun.* \(not finished\)", tool)
    assert end == "cancelled"
    place.let_a_minute_pass()
    assert talk.answer("[[scenario:recall]]")[-1] == "Before this: work."
