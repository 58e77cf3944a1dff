"""What a failed turn advises if the real command is not logged in, or does not know its model.

Needs: claude-agent-sdk==0.2.182 and the commands of npm
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from command_lines import Place, claude_command, command, command_but_for
from playing import play, terminal

from tailrace.events import TurnFailed
from tailrace.runtimes.claude import ClaudeRuntime
from tailrace.runtimes.codex import CodexRuntime
from tailrace.runtimes.gemini import GeminiRuntime
from tailrace.runtimes.opencode import OpencodeRuntime
from tailrace.testing.scripted_scenarios import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable

CLAUDE = "claude is not logged in. Run claude once and log in with /login, or set ANTHROPIC_API_KEY."
CODEX = "codex is not logged in. Log in with: codex login, or set the key that its settings name."
GEMINI = "gemini is not logged in. Run gemini once and log in, or set GEMINI_API_KEY."
OPENCODE = "opencode is not logged in. Log in with: opencode auth login, or name a provider in opencode.json."
REFUSED = HttpError(401, "who are you")


class Agent(NamedTuple):
    """An agent: how it is made for a working directory, its environment, its key there, and the advice."""

    make: Callable[[str, dict[str, str]], Any]
    env: Callable[[Place], dict[str, str]]
    key: str
    advice: str


def npm(kind: Callable[..., Any], name: str, without: str = "", **options: Any) -> Callable[[str, dict[str, str]], Any]:
    """Make a runtime with a command of npm, or with an older version that does not know a subcommand."""

    def make(cwd: str, env: dict[str, str]) -> Any:
        path = command_but_for(without, name, cwd) if without else command(name)
        return kind((path,), cwd=cwd, env=env, **options)

    return make


def claude(cwd: str, env: dict[str, str]) -> ClaudeRuntime:
    return ClaudeRuntime((claude_command(),), cwd=cwd, env=env)


AGENTS = {
    "claude": Agent(claude, Place.claude, "ANTHROPIC_API_KEY", CLAUDE),
    "codex": Agent(npm(CodexRuntime, "codex"), Place.codex, "SCRIPTED_KEY", CODEX),
    "codex exec": Agent(npm(CodexRuntime, "codex", "app-server"), Place.codex, "SCRIPTED_KEY", CODEX),
    "gemini": Agent(npm(GeminiRuntime, "gemini"), Place.gemini, "GEMINI_API_KEY", GEMINI),
    "gemini --acp": Agent(npm(GeminiRuntime, "gemini", permissions="allow"), Place.gemini, "GEMINI_API_KEY", GEMINI),
    "opencode": Agent(npm(OpencodeRuntime, "opencode"), Place.opencode, "", OPENCODE),
    "opencode run": Agent(npm(OpencodeRuntime, "opencode", "serve"), Place.opencode, "", OPENCODE),
}


def failed(agent: Agent, place: Place, scenario: str, env: dict[str, str]) -> TurnFailed:
    end = terminal(play(agent.make(place.work, env), f"[[scenario:{scenario}]]"))
    assert isinstance(end, TurnFailed)
    return end


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_a_key_that_the_provider_refuses_says_how_to_log_in(place: Place, name: str) -> None:
    place.model.scenarios["locked"] = ((REFUSED,),)
    agent = AGENTS[name]
    end = failed(agent, place, "locked", agent.env(place))
    assert REFUSED.message in end.message
    assert end.message.endswith(f". {agent.advice}")
    assert end.code == "not_logged_in"


@pytest.mark.parametrize("name", sorted(name for name, agent in AGENTS.items() if agent.key))
def test_a_missing_key_says_how_to_log_in(place: Place, name: str) -> None:
    agent = AGENTS[name]
    end = failed(agent, place, "hello", {k: value for k, value in agent.env(place).items() if k != agent.key})
    assert end.message.endswith(f". {agent.advice}")
    assert end.code == "not_logged_in"
    assert not place.model.requests


def test_a_model_that_opencode_does_not_know_is_named(place: Place) -> None:
    agent = AGENTS["opencode"]
    env = agent.env(place)
    settings = Path(env["OPENCODE_CONFIG"])
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model": "nobody/none"}))
    end = failed(agent, place, "hello", env)
    assert end.message.startswith("Model not found: nobody/none. opencode knows the models of providers that you log")
    assert end.code == "unknown_model"
