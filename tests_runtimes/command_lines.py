"""The real command lines of agents, each in a home of its own, with the scripted model and with nothing else to reach.

`make test-runtimes` installs them into the environment that the tests run in. What an agent would fetch, report or
update on its own is switched off. Every process that is started for a `Place` carries its mark, and so do its children,
wherever they went: that is how nobody can be left behind unseen.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import TYPE_CHECKING
from uuid import uuid4

from playing import LIMIT_S, in_time

from tailrace.ports import Prompt
from tailrace.testing.scripted_scenarios import Delegate, Shell, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.ports import Runtime
    from tailrace.runtimes.permissions import Choice, Question
    from tailrace.testing.scripted_model import ScriptedModel

_BIN = Path(sys.prefix) / "agents" / "node_modules" / ".bin"
_MARK = "TAILRACE_TEST"


def command(name: str) -> str:
    """Where a command of npm's is."""
    return str(_BIN / name)


def command_but_for(word: str, name: str, folder: str) -> str:
    """The same command as it was before it knew that word."""
    without = Path(folder, f"{name}-without-{word}")
    without.write_text(
        f'#!/bin/sh\n[ "$1" != {word} ] || {{ echo "unrecognized subcommand" >&2; exit 2; }}\n'
        f'exec "{command(name)}" "$@"\n'
    )
    without.chmod(0o700)
    return str(without)


def claude_command() -> str:
    """Where the command is that the SDK brings along."""
    import claude_agent_sdk  # noqa: PLC0415  # only the environment of the commands has it

    return str(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")


@dataclass
class Place:
    """Where an agent lives and works in one test."""

    root: Path
    model: ScriptedModel
    mark: str = field(default_factory=lambda: uuid4().hex)

    @property
    def work(self) -> str:
        """The directory that the agent works in."""
        return str(self._folder("work"))

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _env(self, **variables: str) -> dict[str, str]:
        home = str(self._folder("home"))
        own = {f"XDG_{kind}_HOME": f"{home}/.{kind.lower()}" for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # Whoever wants more than this machine asks a port where nobody is.
        nobody = "http://127.0.0.1:9"
        closed = {"HTTP_PROXY": nobody, "HTTPS_PROXY": nobody, "NO_PROXY": "127.0.0.1,localhost"}
        return {"HOME": home, "PATH": path, _MARK: self.mark, **own, **closed, **variables}

    def let_a_minute_pass(self) -> None:
        """For gemini, which writes over a session that is taken up again in the minute in which it was begun."""
        for kept in list(self.root.rglob("chats/session-*")):
            kept.rename(kept.with_name(re.sub(r"\d\d-\d\d(?=-\w+\.)", "00-00", kept.name)))

    def claude(self) -> dict[str, str]:
        """The environment of `claude`, and of whatever runs it."""
        return self._env(
            ANTHROPIC_BASE_URL=self.model.url,
            ANTHROPIC_API_KEY="nobody-checks-it",
            CLAUDE_CONFIG_DIR=str(self._folder("claude")),
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CODE_MAX_RETRIES="1",
            DISABLE_AUTOUPDATER="1",
            IS_SANDBOX="1",  # it may be the superuser of a container
        )

    def codex(self, *, approval_policy: str = "never", sandbox_mode: str = "danger-full-access") -> dict[str, str]:
        """The environment of `codex`, with its settings."""
        home = self._folder("codex")
        settings = f"""
            model = "scripted"
            model_provider = "scripted"
            model_reasoning_summary = "detailed"
            approval_policy = "{approval_policy}"
            approvals_reviewer = "user"
            sandbox_mode = "{sandbox_mode}"
            check_for_update_on_startup = false
            [analytics]
            enabled = false
            [model_providers.scripted]
            name = "scripted"
            base_url = "{self.model.url}/v1"
            env_key = "SCRIPTED_KEY"
            wire_api = "responses"
            request_max_retries = 1
            stream_max_retries = 1
        """
        (home / "config.toml").write_text("\n".join(line.strip() for line in settings.splitlines()))
        return self._env(CODEX_HOME=str(home), SCRIPTED_KEY="nobody-checks-it")

    def gemini(self) -> dict[str, str]:
        """The environment of `gemini`, with its settings."""
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }
        folder = self._folder("home") / ".gemini"
        folder.mkdir(exist_ok=True)
        (folder / "settings.json").write_text(json.dumps(settings))
        return self._env(
            GEMINI_API_KEY="nobody-checks-it",
            GOOGLE_GEMINI_BASE_URL=self.model.url,
            GEMINI_CLI_TRUST_WORKSPACE="true",
        )

    def opencode(self, **permissions: str) -> dict[str, str]:
        """The environment of `opencode`, with its settings; what is not said it may do."""
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "nobody-checks-it"},
            "models": {"scripted": {"name": "scripted", "reasoning": True, "tool_call": True}},
        }
        settings = {
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "provider": {"scripted": provider},
            "permission": permissions,
            "autoupdate": False,
            "share": "disabled",
        }
        path = self._folder("home") / "opencode.json"
        path.write_text(json.dumps(settings))
        off = ("MODELS_FETCH", "AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD")
        return self._env(OPENCODE_CONFIG=str(path), **{f"OPENCODE_DISABLE_{what}": "1" for what in off})

    def processes(self) -> list[str]:
        """All processes that were started here and still run, whoever's children they are."""
        return list(self._running().values())

    def wait_until_all_are_gone(self, *, but: int | None = None) -> None:
        """Wait for the end of every process that was started here, but for the one of that number."""
        while left := {number: line for number, line in self._running().items() if number != but}:
            for process, line in left.items():
                with suppress(ProcessLookupError):
                    end = os.pidfd_open(process)
                    assert select([end], [], [], LIMIT_S)[0], f"{line} lives on"
                    os.close(end)

    def _running(self) -> dict[int, str]:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or is somebody else's
                if f"{_MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = line.decode(errors="replace")
        return found


def cancel_in_tool(runtime: Runtime, place: Place) -> None:
    """Cancel whoever reads a turn while the agent's command runs: of the agent and the command nothing may be left."""

    async def read() -> None:
        async with aclosing(runtime.run(Prompt(text="[[scenario:work]] go", session_id="s"))) as events:
            async for _ in events:
                pass

    async def begin_and_cancel() -> None:
        with _signalled(place) as begun:
            reading, beginning = asyncio.create_task(read()), asyncio.create_task(begun.wait())
            await asyncio.wait({reading, beginning}, return_when=asyncio.FIRST_COMPLETED)
            assert begun.is_set(), "the command was never run"
            assert any("sleep 600" in line for line in place.processes())
            reading.cancel()
            await asyncio.wait({reading})
        assert reading.cancelled()
        assert place.processes() == []

    asyncio.run(in_time(begin_and_cancel()))


@contextmanager
def _signalled(place: Place) -> Iterator[asyncio.Event]:
    """A scenario `work`, whose command never ends; set when it runs."""
    pipe = place.root / "begun"
    os.mkfifo(pipe)
    # Not the last command of the shell, which would become it and be nobody for a moment.
    work = Shell(f"echo begun > {pipe}; sleep 600; true")
    place.model.scenarios["work"] = ((say("This takes long."), work), (say("!"),))
    begun = asyncio.Event()
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    asyncio.get_running_loop().add_reader(end, begun.set)
    try:
        yield begun
    finally:
        asyncio.get_running_loop().remove_reader(end)
        os.close(end)


def let_codex_delegate(place: Place) -> None:
    """The scenario `subagent` for codex, whose parent waits for no subagent unless it has something to wait for."""
    told = Path(place.work, "told")
    os.mkfifo(told)
    place.model.scenarios["subagent"] = (
        (say("I delegate."), Delegate("[[scenario:child]] Do the work of a child.")),
        (Shell(f"cat {told}"),),
        (say("The parent is done."),),
    )
    place.model.scenarios["child"] = (
        (say("The child speaks."), Shell("echo a child works")),
        (say("The child has a result."), Shell(f"echo done > {told}")),
        (say("Nothing more."),),
    )


class Answers:
    """A person who always answers the same, and remembers what was asked."""

    def __init__(self, *, allow: bool) -> None:
        self.allow = allow
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Choice | None:
        """Choose what reaches least far."""
        self.asked.append(question)
        return question.allowing() if self.allow else question.denying()


class Chooses:
    """A person who always takes the choice of that number, counted from 0, and remembers what was asked."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Choice | None:
        """Choose it."""
        self.asked.append(question)
        return question.choices[self._number]
