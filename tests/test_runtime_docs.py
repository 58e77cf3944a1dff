"""The pages on runtimes are correct: each runtime has one, with all its options and error codes, and its examples run.

Examples that start a command find a stand-in, which plays a recording. Examples of SDKs run in `tests_runtimes`; here
their names and options are checked.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pseudo_terminal import TAILRACE
from tailrace.plugins import SCHEMES, known, load
from tailrace.runtimes.acp import AcpOptions
from tailrace.runtimes.function import FunctionRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "runtimes").glob("*.md"))}
SHARED = {"claude-sdk": "claude", "demo": "functions"}
DESCRIBED: dict[str, list[Callable[..., Any]]] = {"acp": [AcpOptions], "functions": [FunctionRuntime]}
for runtime in known("runtime"):
    DESCRIBED.setdefault(SHARED.get(runtime, runtime), []).append(load("runtime", runtime))
INSTALLED = ("claude", "codex", "gemini", "opencode")  # with a command that the runtime names if it is missing
SECTIONS = ("**Sessions", "**What it may do", "**A stop**", "## When something is wrong")

RUNTIMES = ROOT / "src" / "tailrace" / "runtimes"
ADDRESSES = {"agui", "vercel"}

TESTS = ROOT / "tests"
STAND_INS = TESTS / "runtimes" / "stand_ins"
COMMANDS = {
    "claude": (STAND_INS / "claude_command.py", "claude_cli_tool"),
    "codex": (STAND_INS / "codex_command.py", "codex_app_tool"),
    "gemini": (STAND_INS / "gemini_command.py", "gemini_cli_tool"),
    "opencode": (STAND_INS / "opencode_command.py", "opencode_serve_tool"),
    "claude-agent-acp": (TESTS / "agents" / "acp_agent.py", ""),
}
ANSWER = ["Let me check.", "The tool said hi."]


def examples(page: str) -> dict[str, str]:
    """The programs of a page by the names of their files."""
    programs = re.findall(r"(?ms)^```python\n(# (\w+)\.py\b.*?)^```$", PAGES[page])
    assert len(programs) == PAGES[page].count("```python"), "each starts with the name of its file"
    return {name: program for program, name in programs}


EXAMPLES = {name: program for page in PAGES for name, program in examples(page).items() if name != "my_agent"}
PROGRAMS = [(page, name, program) for page in PAGES for name, program in examples(page).items()]
every_page = pytest.mark.parametrize("page", sorted(PAGES))


def table(page: str, name: str) -> set[str]:
    """The options in the table of that name."""
    found = re.search(rf"(?m)^\| `{name}` \| \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGES[page])
    assert found is not None, f"docs/runtimes/{page}.md has no table of {name}"
    return set(re.findall(r"(?m)^\| `(\w+)` \|", found[1]))


def commands(page: str) -> list[list[str]]:
    """The shell commands of a page, each as a list of words."""
    lines = "".join(re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGES[page])).splitlines()
    return [shlex.split(line, comments=True) for line in lines]


def agents(page: str) -> list[str]:
    return [words[2] for words in commands(page) if words[:2] == ["tailrace", "chat"]]


# The text


def test_every_runtime_has_a_page_and_every_page_a_runtime() -> None:
    assert {SHARED.get(name, name) for name in known("runtime")} == PAGES.keys()


@every_page
def test_every_option_is_on_the_page_and_no_other(page: str) -> None:
    for made in DESCRIBED[page]:
        assert table(page, made.__name__) == {*inspect.signature(made).parameters}


@every_page
def test_every_page_has_its_sections_an_agent_and_an_example(page: str) -> None:
    headings = ("## How it works", *SECTIONS[1:]) if page == "functions" else SECTIONS
    assert [heading for heading in headings if heading not in PAGES[page]] == []
    assert agents(page)
    assert examples(page)


@pytest.mark.parametrize("page", sorted(PAGES.keys() - {"functions"}))
def test_every_error_code_of_a_runtime_is_on_its_page(page: str) -> None:
    shared = ("turn_translation.py", *(("http.py", "endpoint.py") if page in ADDRESSES else ()))
    places = [*(RUNTIMES / page.replace("-", "_")).glob("*.py"), *(RUNTIMES / name for name in shared)]
    codes = {code for path in places for code in codes_in(ast.parse(path.read_text(encoding="utf-8")))}
    assert "cut_off" in codes
    assert codes - set(re.findall(r"`(\w+)`", PAGES[page].partition("## When something is wrong")[2])) == set()


def codes_in(tree: ast.Module) -> Iterator[str]:
    """The error codes of a module: where it makes failures, and in its table."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                yield code
            case ast.Call(func=ast.Attribute(value=ast.Name(id="_CODES")), args=[_, ast.Constant(value=str(code))]):
                yield code
            case ast.Assign(targets=[ast.Name(id="_CODES")], value=ast.Dict(values=values)):
                yield from (str(ast.literal_eval(value)) for value in values)


@pytest.mark.parametrize("page", INSTALLED)
def test_page_installs_a_command_as_its_runtime_says(page: str) -> None:
    advice = importlib.import_module(f"tailrace.runtimes.{page}.runtime")._MISSING.partition(": ")[2]
    assert shlex.split(advice) in commands(page)


@pytest.mark.parametrize("name", sorted(name for name in known("runtime") if "-" in name or name == "langgraph"))
def test_page_names_the_extra(name: str) -> None:
    extra = {"claude-sdk": "claude"}.get(name, name)
    assert f".venv/bin/pip install -e '.[{extra}]'" in PAGES[SHARED.get(name, name)]


@every_page
def test_agents_of_a_page_exist(page: str) -> None:
    for agent in agents(page):
        module, _, found = agent.partition(":")
        if agent not in known("runtime") and not agent.startswith(tuple(SCHEMES)):
            program = examples(page)[module]
            assert re.search(rf"(?m)^(async def |def |){found}\b", program), f"{module} has no {found}"


@pytest.mark.parametrize("program", [pytest.param(text, id=f"{page}-{name}") for page, name, text in PROGRAMS])
def test_names_and_options_of_an_example_exist(program: str) -> None:
    tree = ast.parse(program)
    ours = dict(imported(tree))
    assert ours or "import" not in program.partition("def ")[0]
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id in ours:
            given = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
            inspect.signature(ours[call.func.id]).bind(*call.args, **given)


def imported(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """What a program imports from tailrace."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tailrace":
            for alias in node.names:
                yield alias.asname or alias.name, getattr(importlib.import_module(node.module or ""), alias.name)


# The examples


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with all examples and the stand-ins of commands."""
    for name, program in EXAMPLES.items():
        (tmp_path / f"{name}.py").write_text(program, encoding="utf-8")
    (tmp_path / "my_agent.py").write_text(examples("functions")["my_agent"], encoding="utf-8")
    (tmp_path / "bin").mkdir()
    for name, (stand_in, recording) in COMMANDS.items():
        given = [sys.executable, str(stand_in), *([str(tmp_path), recording] if recording else [])]
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {shlex.join(given)} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    return tmp_path


def run(place: Path, *words: str, given: str = "", is_quiet: bool = True, **env: str) -> str:
    """Run a program in that directory. Returns what it prints; a quiet one prints nothing to standard error."""
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    full_env = {**os.environ, "PATH": path, "XDG_DATA_HOME": str(place / "home"), **env}
    done = subprocess.run(words, cwd=place, input=given, capture_output=True, text=True, env=full_env, check=False)
    assert done.returncode == 0, done.stderr
    assert not (is_quiet and done.stderr)
    return done.stdout


@pytest.mark.parametrize(
    ("page", "example", "answer"),
    [*((page, f"ask_{page}", ANSWER) for page in INSTALLED), ("acp", "ask_acp", ["Hello, wörld 👋🏽"])],
)
def test_example_with_a_command_and_the_chat_print_the_answer(
    place: Path, page: str, example: str, answer: list[str]
) -> None:
    assert run(place, sys.executable, f"{example}.py").splitlines() == answer
    chat = run(place, TAILRACE, "chat", agents(page)[0], given="hello\n")
    assert [line for line in answer if line not in chat] == []


def test_example_of_the_claude_sdk_prints_the_answer(place: Path) -> None:
    path = os.pathsep.join(map(str, (STAND_INS, STAND_INS.parent, TESTS)))
    assert run(place, sys.executable, "ask_claude_sdk.py", PYTHONPATH=path).splitlines() == ANSWER


@pytest.mark.parametrize(
    ("page", "recording", "answer"),
    [("agui", "agui_langgraph_tool", ANSWER), ("vercel", "vercel7_ui_tool", ["Let me check.", "It is sunny."])],
)
def test_example_with_an_address_prints_the_answer(place: Path, page: str, recording: str, answer: list[str]) -> None:
    (address,) = set(re.findall(r"http://127\.0\.0\.1:\d+/[a-z/]+", PAGES[page]))
    response = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + recorded_stream(recording)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"POST /")
        writer.write(response)
        await writer.drain()
        writer.close()

    async def ask() -> str:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            here = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            program = EXAMPLES[f"ask_{page}"].replace(address, here)
            (place / f"ask_{page}.py").write_text(program, encoding="utf-8")
            return await asyncio.to_thread(run, place, sys.executable, f"ask_{page}.py")

    assert asyncio.run(ask()).splitlines() == answer


def recorded_stream(recording: str) -> bytes:
    """The body of a response that plays a recording."""
    stream = b""
    for line in (TESTS / "runtimes" / "recordings" / f"{recording}.ndjson").read_bytes().splitlines()[1:]:
        match msgspec.json.decode(line):
            case {"sse": str(text)}:
                stream += f"{text.strip()}\n\n".encode()
            case {"ev": event}:
                stream += b"data: " + msgspec.json.encode(event) + b"\n\n"
    return stream


@pytest.mark.parametrize("name", ["my_agui", "my_runtime"])
def test_example_without_an_sdk_prints_the_answer(place: Path, name: str) -> None:
    assert run(place, sys.executable, f"{name}.py") == "You said: hello\n"
    assert "You said: hello" in run(place, TAILRACE, "chat", f"{name}:agent", given="hello\n")


def test_examples_of_functions_answer(place: Path) -> None:
    # Strands was recorded with such events: each piece comes twice, once as text.
    events = [{"event": {"contentBlockDelta": {"delta": {"text": "Hi."}}}}, {"data": "Hi.", "delta": {"text": "Hi."}}]
    stand_in = f"class Agent:\n async def stream_async(self, _):\n  for event in {events}:\n   yield event\n"
    (place / "strands.py").write_text(stand_in, encoding="utf-8")
    assert run(place, TAILRACE, "chat", "my_strands:answer", given="hello\n").strip() == "Hi."
    (agent,) = agents("functions")
    assert "You wrote 5 characters." in run(place, TAILRACE, "chat", agent, given="hello\n")


def test_example_of_another_vocabulary_is_delivered(place: Path) -> None:
    lines = '{"type": "text", "text": "Hello."}\n{"type": "done"}\n'
    events = run(place, sys.executable, "to_events.py", given=lines)
    (command,) = (words for words in commands("functions") if "deliver" in words)
    deliver = command[command.index("deliver") :]
    assert run(place, TAILRACE, *deliver, given=events, is_quiet=False).strip() == "Hello."
