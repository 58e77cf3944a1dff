"""The real command lines of agents, each with its own home and with the scripted model as its only network address.

`make test-runtimes` installs them into the environment of the tests. Updates, telemetry and downloads are switched off.
Every process that is started for a `Place` has its mark in the environment, and so have all its children. So a process
that is left over is found, wherever it went.
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
from tailrace.testing.scripted_scenarios import Call, Delegate, Shell, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.ports import Runtime
    from tailrace.testing.scripted_model import ScriptedModel

_BIN = Path(sys.prefix) / "agents" / "node_modules" / ".bin"
_MARK = "TAILRACE_TEST"


def command(name: str) -> str:
    """The path of a command that npm has installed."""
    return str(_BIN / name)


def command_but_for(word: str, name: str, folder: str) -> str:
    """An older version of the command, which does not know this subcommand."""
    without = Path(folder, f"{name}-without-{word}")
    without.write_text(
        f'#!/bin/sh\n[ "$1" != {word} ] || {{ echo "unrecognized subcommand" >&2; exit 2; }}\n'
        f'exec "{command(name)}" "$@"\n'
    )
    without.chmod(0o700)
    return str(without)


def claude_command() -> str:
    """The path of the command that the SDK carries."""
    import claude_agent_sdk  # noqa: PLC0415  # only the environment of the commands has it

    return str(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")


@dataclass
class Place:
    """The home and the working directory of an agent in one test."""

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
        # Other addresses go through a proxy that does not exist.
        no_proxy = "http://127.0.0.1:9"
        closed = {"HTTP_PROXY": no_proxy, "HTTPS_PROXY": no_proxy, "NO_PROXY": "127.0.0.1,localhost"}
        return {"HOME": home, "PATH": path, _MARK: self.mark, **own, **closed, **variables}

    def let_a_minute_pass(self) -> None:
        """Age the sessions of gemini: it overwrites a session that continues within the minute of its start."""
        for kept in list(self.root.rglob("chats/session-*")):
            kept.rename(kept.with_name(re.sub(r"\d\d-\d\d(?=-\w+\.)", "00-00", kept.name)))

    def claude(self) -> dict[str, str]:
        """The environment of `claude`, and of programs that run it."""
        return self._env(
            ANTHROPIC_BASE_URL=self.model.url,
            ANTHROPIC_API_KEY="nobody-checks-it",
            CLAUDE_CONFIG_DIR=str(self._folder("claude")),
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CODE_MAX_RETRIES="1",
            DISABLE_AUTOUPDATER="1",
            IS_SANDBOX="1",  # allows to run as root in a container
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
        """The environment of `opencode`, with its settings. It may do what `permissions` does not name."""
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
        """All processes that were started here and still run."""
        return list(self._running().values())

    def wait_until_all_are_gone(self, *, but: int | None = None) -> None:
        """Wait until every process that was started here has ended, except the one with this pid."""
        while left := {number: line for number, line in self._running().items() if number != but}:
            for process, line in left.items():
                with suppress(ProcessLookupError):
                    end = os.pidfd_open(process)
                    assert select([end], [], [], LIMIT_S)[0], f"{line} lives on"
                    os.close(end)

    def _running(self) -> dict[int, str]:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or belongs to another user
                if f"{_MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = line.decode(errors="replace")
        return found


def cancel_in_tool(runtime: Runtime, place: Place) -> None:
    """Cancel the reader of a turn while a command of the agent runs. No process may be left."""

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
    """Add a scenario `work` whose command never ends. The event is set when the command runs."""
    pipe = place.root / "begun"
    os.mkfifo(pipe)
    # `true` is last, because a shell replaces itself by its last command, and is not found in that moment.
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


def let_it_make_a_file(place: Place, agent: str, path: str) -> None:
    """Add a scenario `ask`: the agent runs `touch`. Codex wants to do that outside its sandbox."""
    wanted = {"cmd": f"touch {path}", "sandbox_permissions": "require_escalated", "justification": "May I?"}
    call = Call("exec_command", wanted) if agent == "codex" else Shell(f"touch {path}")
    place.model.scenarios["ask"] = ((say("I make a file."), call), (say("That is that."),))


def let_codex_delegate(place: Place) -> None:
    """The scenario `subagent` for codex. Its parent does not wait for a subagent, so here it waits for a pipe."""
    pipe = Path(place.work, "done")
    os.mkfifo(pipe)
    place.model.scenarios["subagent"] = (
        (say("I delegate."), Delegate("[[scenario:child]] Do the work of a child.")),
        (Shell(f"cat {pipe}"),),
        (say("The parent is done."),),
    )
    place.model.scenarios["child"] = (
        (say("The child speaks."), Shell("echo a child works")),
        (say("The child has a result."), Shell(f"echo done > {pipe}")),
        (say("Nothing more."),),
    )
