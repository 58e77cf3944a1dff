"""Plugins by entry point, and how the agent that a person names becomes a runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace import plugins
from tailrace.channels.terminal import TerminalChannel
from tailrace.errors import AgentNotFound, PluginNotFound, UsageError
from tailrace.runtimes.demo import DemoRuntime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with plugins, some of which cannot be imported."""
    (tmp_path / "harbour_good.py").write_text("class Ferry:\n    name = 'ferry'\n    Settings = dict\n")
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


def test_built_in_plugins_are_found_by_entry_point() -> None:
    assert plugins.load("channel", "terminal") is TerminalChannel
    assert plugins.load("runtime", "demo") is DemoRuntime


@pytest.mark.usefixtures("package")
def test_installed_package_adds_channels() -> None:
    assert {"ferry", "terminal"} <= set(plugins.known("channel"))
    assert plugins.load("channel", "ferry")().name == "ferry"


@pytest.mark.usefixtures("package")
def test_a_channel_that_breaks_the_rules_is_refused() -> None:
    with pytest.raises(UsageError, match="'ferry' has an attribute Settings that is no msgspec struct"):
        plugins.channel_settings("ferry")
    with pytest.raises(
        UsageError, match=r"'ferry' cannot send: it must have all members of `tailrace\.ports\.Channel`"
    ):
        plugins.make_channel("ferry", "ferry", {})
    with pytest.raises(UsageError, match=r"'support' cannot be created: TypeError: .*'name'"):
        plugins.make_channel("terminal", "support", {})


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PluginNotFound, match=r"Did you mean 'terminal'.*Installed: .*terminal") as caught:
        plugins.load("channel", "terminl")
    assert "terminal" in caught.value.known


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("extra", r"needs the module 'a_module_nobody_has'. Install it with: pip install 'harbour\[oars\]'"),
        ("poor", "of harbour needs the module 'a_module_nobody_has', which is not installed"),
        ("broken", "of harbour cannot be imported: ValueError: the tide is out"),
        ("absent", "of harbour cannot be imported: AttributeError"),
    ],
)
def test_plugin_that_cannot_be_imported_says_what_to_do(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plugins.load("channel", name)


def module_of(class_module: str, name: str, *, agent: str = "agent = type('Own', (base,), {})()") -> str:
    """The source of a module whose `agent` is made from a class with this module and name."""
    return f"base = type({name!r}, (), {{'__module__': {class_module!r}}})\n{agent}\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Write a module with this source. Returns its name, which no other test uses."""
    monkeypatch.chdir(tmp_path)

    def write(source: str) -> str:
        name = f"a_module_{abs(hash(request.node.nodeid))}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


ADDRESS, COMMAND = "agui+http://localhost/run", "acp:some-agent --stdio"
# The source of the module, the runtime of its `agent`, and its description.
RECOGNISED = {
    "openai-agents": (module_of("agents.agent", "Agent"), "openai-agents", "an agent of the OpenAI Agents SDK"),
    "pydantic-ai": (module_of("pydantic_ai.agent", "AbstractAgent"), "pydantic-ai", "an agent of Pydantic AI"),
    "langgraph": (module_of("langgraph.pregel.main", "Pregel"), "langgraph", "a compiled graph of LangGraph"),
    "agui": ("async def agent(x: 'RunAgentInput'):\n    yield {}", "agui", "a function that yields AG-UI events"),
    "address": (f"agent = {ADDRESS!r}", "agui", f"{ADDRESS}, an endpoint that speaks AG-UI"),
    "command": (f"agent = {COMMAND!r}", "acp", f"{COMMAND}, an agent of the Agent Client Protocol"),
}


@pytest.mark.parametrize(("source", "runtime", "description"), RECOGNISED.values(), ids=RECOGNISED)
def test_object_of_a_framework_gets_its_runtime(
    module: Callable[[str], str], source: str, runtime: str, description: str
) -> None:
    found = plugins.find_agent(f"{module(source)}:agent")
    assert type(found.runtime) is plugins.load("runtime", runtime)
    assert found.description == description


NAMED_LIKE_AN_SDK = """
class Agent:
    __module__, name = "agents.agent", "mine"
    async def run(self, prompt):
        yield ""
agent = Agent()
"""
OWN = {
    "function": ("async def agent(prompt):\n    yield ''", "an async generator function"),
    "runtime": (
        "class A:\n    name = 'a'\n    async def run(self, prompt):\n        yield ''\nagent = A()",
        "a runtime",
    ),
    "runtime named like an SDK": (NAMED_LIKE_AN_SDK, "a runtime"),
}


@pytest.mark.parametrize(("source", "description"), OWN.values(), ids=OWN)
def test_own_function_or_runtime_is_an_agent(module: Callable[[str], str], source: str, description: str) -> None:
    assert plugins.find_agent(f"{module(source)}:agent").description == description


MISTAKES = {
    "class": (
        module_of("agents.agent", "Agent", agent="class agent(base): pass"),
        r"is the class of an agent of the OpenAI Agents SDK, not an object of it: write agent = agent\(…\)",
    ),
    "uncompiled graph": (
        module_of("langgraph.graph.state", "StateGraph"),
        r"is a graph of LangGraph that is not compiled: write graph = builder.compile\(\) and name that",
    ),
    "claude client": (module_of("claude_agent_sdk.client", "ClaudeSDKClient"), "name its ClaudeAgentOptions"),
    "strands": (module_of("strands.agent.agent", "Agent"), r"is an agent of Strands: serve it over AG-UI.*agui\+URL"),
    "adk": (module_of("google.adk.agents.base_agent", "BaseAgent"), "is an agent of Google's ADK: serve it"),
    "starlette": (module_of("starlette.applications", "Starlette"), r"is a web application.*agui\+URL or vercel\+URL"),
    "asgi": ("async def agent(scope, receive, send): pass", "is a web application"),
    "text": ("agent = 'mine'", r"is a text that names no agent. Write acp:COMMAND, agui\+URL or vercel"),
    "bare address": ("agent = 'http://localhost'", r"does not say which protocol it speaks: write agui\+http"),
    "coroutine function": ("async def agent(prompt): return 1", "a coroutine function: it returns where"),
    "coroutine": ("async def f(): pass\nagent = f()\nagent.close()", "a coroutine that was called already"),
    "number": ("agent = 42", r"an object of type int.*For what an agent can be: tailrace chat --help"),
    "own class": (module_of("agents.mine", "Agent"), "an object of type Own"),
}


@pytest.mark.parametrize(("source", "message"), MISTAKES.values(), ids=MISTAKES)
def test_object_that_is_no_agent_says_what_to_name_instead(
    module: Callable[[str], str], source: str, message: str
) -> None:
    with pytest.raises((AgentNotFound, UsageError), match=message):
        plugins.find_agent(f"{module(source)}:agent")


ASKING = ("claude", "codex", "gemini", "opencode", "acp:some-agent")


@pytest.mark.parametrize(
    ("agent", "taken"),
    [
        *((agent, {"permissions", "approver"}) for agent in ASKING),
        ("demo", {"pause"}),
        ("agui+http://localhost", set()),
    ],
)
def test_agent_takes_the_options_that_its_runtime_has(agent: str, taken: set[str]) -> None:
    options = {"permissions": "allow", "approver": None, "pause": None}
    assert plugins.find_agent(agent, options).taken == taken


@pytest.mark.parametrize("name", ["agents.agent Agent", "pydantic_ai.agent AbstractAgent"])
def test_agent_of_a_framework_takes_the_same_options(module: Callable[[str], str], name: str) -> None:
    path = f"{module(module_of(*name.split()))}:agent"
    taken = plugins.find_agent(path, {"permissions": "deny", "approver": None}).taken
    assert taken == {"permissions", "approver"}


@pytest.mark.parametrize(
    ("agent", "runtime"),
    [
        ("demo", "demo"),
        ("acp:some-agent --stdio", "acp"),
        ("agui+https://example.org/run", "agui"),
        ("vercel+http://localhost/chat", "vercel"),
    ],
)
def test_agent_is_named_by_its_runtime_or_its_address(agent: str, runtime: str) -> None:
    assert type(plugins.find_agent(agent).runtime) is plugins.load("runtime", runtime)


@pytest.mark.parametrize(
    ("agent", "error", "message"),
    [
        ("clade", PluginNotFound, r"no agent 'clade'. Did you mean 'claude'\? For what .*: tailrace chat --help"),
        ("acp", AgentNotFound, "'acp' alone names no agent: missing a required argument: 'command'"),
        ("nowhere:nothing", AgentNotFound, "there is no module 'nowhere'"),
        ("acp:", UsageError, "names no agent"),
        ("agui+", UsageError, "names no agent"),
        ("vercel+ ", UsageError, "names no agent"),
        ("https://example.org", UsageError, r"write agui\+https://example.org or vercel\+https://example.org"),
    ],
)
def test_name_that_is_no_agent_says_what_to_write(agent: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plugins.find_agent(agent)
