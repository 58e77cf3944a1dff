from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tailrace import plugins
from tailrace.channels.terminal import TerminalChannel
from tailrace.errors import AgentNotFound, PluginNotFound, UsageError
from tailrace.ports import Runtime
from tailrace.runtimes.demo import DemoRuntime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package installed beside tailrace, some of whose plugins cannot be imported."""
    (tmp_path / "harbour_good.py").write_text("class Ferry:\n    name = 'ferry'\n")
    (tmp_path / "harbour_poor.py").write_text("import a_module_nobody_has\n")
    (tmp_path / "harbour_broken.py").write_text("raise ValueError('the tide is out')\n")
    info = tmp_path / "harbour-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: harbour\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tailrace.channels]\n"
        "ferry = harbour_good:Ferry\n"
        "poor = harbour_poor:Raft\n"
        "extra = harbour_poor:Raft [oars]\n"
        "broken = harbour_broken:Wreck\n"
        "absent = harbour_good:Nobody\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_built_in_plugins_come_through_the_same_door() -> None:
    assert plugins.load("channel", "terminal") is TerminalChannel
    assert plugins.load("runtime", "demo") is DemoRuntime


@pytest.mark.usefixtures("package")
def test_an_installed_package_adds_channels() -> None:
    assert {"ferry", "terminal"} <= set(plugins.known("channel"))
    assert plugins.load("channel", "ferry")().name == "ferry"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PluginNotFound, match="Did you mean 'terminal'") as caught:
        plugins.load("channel", "terminl")
    assert "terminal" in caught.value.known
    assert "terminal" in str(caught.value)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("extra", r"needs the module 'a_module_nobody_has'. Install it with: pip install 'harbour\[oars\]'"),
        ("poor", "of harbour needs the module 'a_module_nobody_has', which is not installed"),
        ("broken", "of harbour cannot be imported: ValueError: the tide is out"),
        ("absent", "of harbour cannot be imported: AttributeError"),
    ],
)
def test_a_plugin_that_cannot_be_imported_says_what_to_do(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plugins.load("channel", name)


def test_an_agent_is_a_runtime_by_name_or_a_function_by_path() -> None:
    assert isinstance(plugins.find_agent("demo").runtime, Runtime)
    with pytest.raises(AgentNotFound):
        plugins.find_agent("nowhere:nothing")
    message = "there is no agent 'clade'. Did you mean 'claude'? For what an agent can be: tailrace chat --help"
    with pytest.raises(PluginNotFound, match=re.escape(message)):
        plugins.find_agent("clade")
    with pytest.raises(AgentNotFound, match="'acp' alone names no agent: missing a required argument: 'command'"):
        plugins.find_agent("acp")


def test_importing_tailrace_imports_no_plugin_and_no_command() -> None:
    check = (
        "import sys, tailrace\n"
        "rooms = ('tailrace.plugins', 'tailrace.channels.', 'tailrace.cli', 'typer', 'rich')\n"
        "print([name for name in sys.modules if name.startswith(rooms)])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


OWN_AGENT = """
class Agent:
    __module__, name = "agents.agent", "mine"
    async def run(self, prompt):
        yield ""
agent = Agent()
"""


def made(module: str, name: str, *, of: str = "agent = type('Own', (made,), {})()") -> str:
    """The source of a module that holds something of a class which is defined elsewhere."""
    return f"made = type({name!r}, (), {{'__module__': {module!r}}})\n{of}\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Write a module of this source, and give its name, which no other test has."""
    monkeypatch.chdir(tmp_path)

    def write(source: str) -> str:
        name = f"a_module_{abs(hash(request.node.nodeid))}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


@pytest.mark.parametrize(
    ("source", "runtime", "words"),
    [
        (made("agents.agent", "Agent"), "openai-agents", "an agent of the OpenAI Agents SDK"),
        (made("pydantic_ai.agent.abstract", "AbstractAgent"), "pydantic-ai", "an agent of Pydantic AI"),
        (made("langgraph.pregel.main", "Pregel"), "langgraph", "a compiled graph of LangGraph"),
        (
            "async def agent(question: 'RunAgentInput'):\n    yield {}",
            "agui",
            "a function that yields AG-UI events",
        ),
        ("agent = 'agui+http://localhost/run'", "agui", "agui+http://localhost/run, an endpoint that speaks AG-UI"),
        (
            "agent = 'acp:some-agent --stdio'",
            "acp",
            "acp:some-agent --stdio, an agent of the Agent Client Protocol",
        ),
    ],
)
def test_an_object_is_known_for_what_it_is(module: Callable[[str], str], source: str, runtime: str, words: str) -> None:
    found = plugins.find_agent(f"{module(source)}:agent")
    assert type(found.runtime) is plugins.load("runtime", runtime)
    assert found.description == words


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("async def agent(prompt):\n    yield ''", "an async generator function"),
        ("class A:\n    name = 'a'\n    async def run(self, prompt):\n        yield ''\nagent = A()", "a runtime"),
        (OWN_AGENT, "a runtime"),
    ],
)
def test_an_agent_of_ones_own_is_known_too(module: Callable[[str], str], source: str, words: str) -> None:
    assert plugins.find_agent(f"{module(source)}:agent").description == words


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            made("agents.agent", "Agent", of="class agent(made): pass"),
            r"is the class of an agent of the OpenAI Agents SDK, not one that is made of it: write agent = agent\(…\)",
        ),
        (
            made("langgraph.graph.state", "StateGraph"),
            r"is a graph of LangGraph that is not compiled: write graph = builder.compile\(\) and name that",
        ),
        (made("claude_agent_sdk.client", "ClaudeSDKClient"), "name its ClaudeAgentOptions"),
        (made("strands.agent.agent", "Agent"), r"is an agent of Strands: serve it by AG-UI.*agui\+URL"),
        (made("google.adk.agents.base_agent", "BaseAgent"), "is an agent of Google's ADK: serve it by AG-UI"),
        (made("starlette.applications", "Starlette"), r"is a web application: start it.*agui\+URL or vercel\+URL"),
        ("async def agent(scope, receive, send): pass", "is a web application"),
        ("agent = 'my-agent'", r"is a text that names no agent. Write acp:COMMAND, agui\+URL or vercel\+URL"),
        ("agent = 'http://localhost/run'", r"does not say which protocol it speaks: write agui\+http"),
        ("async def agent(prompt): return 1", "a coroutine function: it returns where it should yield"),
        ("agent = 42", r"an object of type int.*For what an agent can be: tailrace chat --help"),
        (made("agents.mine", "Agent"), "an object of type Own"),
    ],
)
def test_what_is_nearly_an_agent_is_told_what_it_is(module: Callable[[str], str], source: str, said: str) -> None:
    with pytest.raises((AgentNotFound, UsageError), match=said):
        plugins.find_agent(f"{module(source)}:agent")


def test_a_coroutine_that_was_called_already_is_told(module: Callable[[str], str]) -> None:
    name = module("async def answer(): pass\nagent = answer()\nagent.close()")
    with pytest.raises(AgentNotFound, match="a coroutine that was called already"):
        plugins.find_agent(f"{name}:agent")


@pytest.mark.parametrize(
    ("agent", "taken"),
    [
        ("claude", {"permissions", "asks"}),
        ("codex", {"permissions", "asks"}),
        ("gemini", {"permissions", "asks"}),
        ("opencode", {"permissions", "asks"}),
        ("acp:some-agent", {"permissions", "asks"}),
        ("demo", {"pause"}),
        ("agui+http://localhost", set()),
    ],
)
def test_an_agent_takes_the_options_it_has_a_parameter_for(agent: str, taken: set[str]) -> None:
    options = {"permissions": "allow", "approver": None, "pause": None}
    assert plugins.find_agent(agent, options).taken == taken


@pytest.mark.parametrize("name", ["agents.agent Agent", "pydantic_ai.agent AbstractAgent"])
def test_an_agent_of_a_framework_takes_the_same_options(module: Callable[[str], str], name: str) -> None:
    path = f"{module(made(*name.split()))}:agent"
    assert plugins.find_agent(path, {"permissions": "deny", "asks": None}).taken == {"permissions", "asks"}


@pytest.mark.parametrize(
    ("agent", "runtime"),
    [
        ("acp:some-agent --stdio", "acp"),
        ("agui+https://example.org/run", "agui"),
        ("vercel+http://localhost/chat", "vercel"),
    ],
)
def test_an_agent_is_named_by_what_it_speaks_and_where(agent: str, runtime: str) -> None:
    assert type(plugins.find_agent(agent).runtime) is plugins.load("runtime", runtime)


@pytest.mark.parametrize("agent", ["acp:", "agui+", "vercel+ "])
def test_a_scheme_without_an_agent_is_said(agent: str) -> None:
    with pytest.raises(UsageError, match="names no agent"):
        plugins.find_agent(agent)


def test_a_bare_address_is_asked_what_it_speaks() -> None:
    with pytest.raises(UsageError, match=r"write agui\+https://example.org or vercel\+https://example.org"):
        plugins.find_agent("https://example.org")
