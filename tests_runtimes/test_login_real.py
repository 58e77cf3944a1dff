"""What the real command lines say where nobody is logged in, or the model is none of theirs, and what we advise.

Needs: claude-agent-sdk==0.2.182 and the commands of npm
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from command_lines import claude_command, command, command_but_for
from playing import play, terminal

from tailrace.events import TurnFailed
from tailrace.runtimes.claude import ClaudeRuntime
from tailrace.runtimes.codex import CodexRuntime
from tailrace.runtimes.gemini import GeminiRuntime
from tailrace.runtimes.opencode import OpencodeRuntime
from tailrace.testing.scripted_scenarios import Refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from command_lines import Place

CLAUDE = "claude is not logged in. Run claude once and log in with /login, or set ANTHROPIC_API_KEY."
CODEX = "codex is not logged in. Log in with: codex login, or set the key that its settings name."
GEMINI = "gemini is not logged in. Run gemini once and log in, or set GEMINI_API_KEY."
OPENCODE = "opencode is not logged in. Log in with: opencode auth login, or name a provider in opencode.json."
REFUSED = Refuse(401, "who are you")


class Agent(NamedTuple):
    """An agent, how its settings look, where its key stands, and what is advised."""

    make: Callable[..., Any]
    settings: Callable[[Place], dict[str, str]]
    key: str
    advice: str


def _claude(**options: Any) -> ClaudeRuntime:
    return ClaudeRuntime((claude_command(),), **options)


def _codex(**options: Any) -> CodexRuntime:
    return CodexRuntime((command("codex"),), **options)


def _codex_exec(**options: Any) -> CodexRuntime:
    return CodexRuntime((command_but_for("app-server", "codex", options["cwd"]),), **options)


def _gemini(**options: Any) -> GeminiRuntime:
    return GeminiRuntime((command("gemini"),), **options)


def _gemini_acp(**options: Any) -> GeminiRuntime:
    return GeminiRuntime((command("gemini"),), permissions="allow", **options)


def _opencode(**options: Any) -> OpencodeRuntime:
    return OpencodeRuntime((command("opencode"),), **options)


def _opencode_run(**options: Any) -> OpencodeRuntime:
    return OpencodeRuntime((command_but_for("serve", "opencode", options["cwd"]),), **options)


AGENTS = {
    "claude": Agent(_claude, lambda place: place.claude(), "ANTHROPIC_API_KEY", CLAUDE),
    "codex": Agent(_codex, lambda place: place.codex(), "SCRIPTED_KEY", CODEX),
    "codex exec": Agent(_codex_exec, lambda place: place.codex(), "SCRIPTED_KEY", CODEX),
    "gemini": Agent(_gemini, lambda place: place.gemini(), "GEMINI_API_KEY", GEMINI),
    "gemini --acp": Agent(_gemini_acp, lambda place: place.gemini(), "GEMINI_API_KEY", GEMINI),
    "opencode": Agent(_opencode, lambda place: place.opencode(), "", OPENCODE),
    "opencode run": Agent(_opencode_run, lambda place: place.opencode(), "", OPENCODE),
}


def failed(agent: Agent, place: Place, scenario: str, env: dict[str, str]) -> TurnFailed:
    end = terminal(play(agent.make(env=env, cwd=place.work), f"[[scenario:{scenario}]]"))
    assert isinstance(end, TurnFailed)
    return end


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_one_that_its_provider_does_not_know_says_how_to_log_in(place: Place, name: str) -> None:
    place.model.scenarios["locked"] = ((REFUSED,),)
    agent = AGENTS[name]
    end = failed(agent, place, "locked", agent.settings(place))
    assert REFUSED.message in end.message
    assert end.message.endswith(f". {agent.advice}")
    assert end.code == "not_logged_in"


@pytest.mark.parametrize("name", sorted(name for name, agent in AGENTS.items() if agent.key))
def test_one_that_has_no_key_says_how_to_come_by_one(place: Place, name: str) -> None:
    agent = AGENTS[name]
    end = failed(agent, place, "hello", {k: value for k, value in agent.settings(place).items() if k != agent.key})
    assert end.message.endswith(f". {agent.advice}")
    assert end.code == "not_logged_in"
    assert not place.model.requests


def test_a_model_that_opencode_does_not_know_is_told_as_one(place: Place) -> None:
    agent = AGENTS["opencode"]
    env = agent.settings(place)
    settings = Path(env["OPENCODE_CONFIG"])
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model": "nobody/none"}))
    end = failed(agent, place, "hello", env)
    assert end.message.startswith("Model not found: nobody/none. opencode knows the models of providers that it")
    assert end.code == "unknown_model"
