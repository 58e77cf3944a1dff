"""An installed package with a channel type `ferry` that has settings, and a simulator of its platform."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from command_runs import TIMEOUT_S, Done
from pseudo_terminal import TAILRACE

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "123456789:canary-that-must-not-be-shown-at-al"
MODULE = """
import asyncio, msgspec, sys
from tailrace.capabilities import TELEGRAM
from tailrace.errors import AccessLost
from tailrace.operations import Receipt
from tailrace.ports import Finding
from tailrace.secret import SecretText

class Ferry:
    capabilities = TELEGRAM

    class Settings(msgspec.Struct, frozen=True, kw_only=True):
        token: SecretText
        harbour: str = "north"

    def __init__(self, *, token, harbour="north", name="ferry"):
        if harbour == "closed":
            raise ValueError(f"no such harbour for {token}")
        self.name, self._token, self._harbour = name, token, harbour

    async def start(self, inbox): pass
    async def stop(self): print("stopped", self.name, file=sys.stderr)
    async def wait_closed(self): pass

    async def post(self, post, *, key):
        print(f"{self.name} at {self._harbour} got {post.body.text}")
        return Receipt(message_id="1")

    async def check(self):
        if self._harbour == "revoked":
            raise AccessLost("the token was revoked: get a new one")
        if self._harbour == "broken":
            raise KeyError(self._token)
        good = Finding(ok=True, text=f"the token is valid in the harbour {self._harbour}")
        lack = Finding(ok=False, text=f"the right to post is missing: switch it on for {self._token}")
        return [good, lack] if self._harbour == "strict" else [good]

class FerrySimulator:
    def __init__(self, *, port):
        self._port = port

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", self._port)
        self.url = "http://127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]
        self.environment = {"FERRY_BASE": self.url, "FERRY_TOKEN": "a b"}
        return self

    async def __aexit__(self, *_):
        self._server.close()
        print("closed", file=sys.stderr)

    async def _answer(self, reader, writer):
        await reader.readuntil(b"\\r\\n\\r\\n")
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\npage")
        writer.close()
"""
ENTRY_POINTS = (
    "[tailrace.channels]\nferry = ferry_package:Ferry\n[tailrace.simulators]\nferry = ferry_package:FerrySimulator\n"
)


class FerryFolder:
    """A folder with settings where the package is installed, and the commands that are run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        package = folder / "site" / "ferry-1.0.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: ferry\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text(ENTRY_POINTS)
        (folder / "site" / "ferry_package.py").write_text(MODULE)
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "site"),
            "XDG_DATA_HOME": str(folder),
            "FERRY_TOKEN": TOKEN,
        }

    def write(self, toml: str) -> None:
        (self.folder / "tailrace.toml").write_text(toml, encoding="utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [TAILRACE, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, given: str = "") -> Done:
        process = self.start(*arguments)
        out, err = process.communicate(given, timeout=TIMEOUT_S)
        return Done(process.returncode, out, err)
