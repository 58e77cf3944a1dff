from __future__ import annotations

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
    assert isinstance(plugins.load_agent("demo"), Runtime)
    with pytest.raises(AgentNotFound):
        plugins.load_agent("nowhere:nothing")
    with pytest.raises(PluginNotFound, match="For an agent of your own write module:function"):
        plugins.load_agent("nowhere")


def test_importing_tailrace_imports_no_plugin_and_no_command() -> None:
    check = (
        "import sys, tailrace\n"
        "rooms = ('tailrace.plugins', 'tailrace.channels.', 'tailrace.cli', 'typer', 'rich')\n"
        "print([name for name in sys.modules if name.startswith(rooms)])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("module", "name", "runtime"),
    [
        ("agents.agent", "Agent", "openai-agents"),
        ("pydantic_ai.agent.abstract", "AbstractAgent", "pydantic-ai"),
        ("langgraph.pregel.main", "Pregel", "langgraph"),
    ],
)
def test_an_agent_of_a_framework_is_known_by_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, runtime: str
) -> None:
    monkeypatch.chdir(tmp_path)
    own = f"a_{runtime.replace('-', '_')}"
    (tmp_path / f"{own}.py").write_text(
        f"made = type({name!r}, (), {{'__module__': {module!r}}})\nagent = type('Own', (made,), {{}})()\n"
    )
    found = plugins.load_agent(f"{own}:agent")
    assert type(found) is plugins.load("runtime", runtime)


@pytest.mark.parametrize(
    ("agent", "runtime"),
    [
        ("acp:some-agent --stdio", "acp"),
        ("agui+https://example.org/run", "agui"),
        ("vercel+http://localhost/chat", "vercel"),
    ],
)
def test_an_agent_is_named_by_what_it_speaks_and_where(agent: str, runtime: str) -> None:
    assert type(plugins.load_agent(agent)) is plugins.load("runtime", runtime)


@pytest.mark.parametrize("agent", ["acp:", "agui+", "vercel+ "])
def test_a_scheme_without_an_agent_is_said(agent: str) -> None:
    with pytest.raises(UsageError, match="names no agent"):
        plugins.load_agent(agent)


def test_what_is_no_agent_is_told_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_plain_module.py").write_text("agent = 42\n")
    with pytest.raises(AgentNotFound, match=r"an object of type int.*acp:COMMAND.*LangGraph"):
        plugins.load_agent("a_plain_module:agent")


def test_a_bare_address_is_asked_what_it_speaks() -> None:
    with pytest.raises(UsageError, match=r"write agui\+https://example.org or vercel\+https://example.org"):
        plugins.load_agent("https://example.org")
