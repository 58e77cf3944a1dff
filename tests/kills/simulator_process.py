"""The simulator of a platform in its own process, `tailrace simulate NAME`, controlled like a `PlatformProcess`.

All turns go to one private chat, at the pace of the platform.
"""

from __future__ import annotations

import http.client
import shlex
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from pseudo_terminal import TAILRACE
from tailrace.operations import Body
from tailrace.testing.faults import Fault, Rule
from tailrace.testing.platforms.api_server import ApiCall
from tailrace.testing.platforms.visible import SeenChat, SeenMessage
from tailrace.testing.wire import Complaint, PlatformMessage, PlatformReport

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

_TIMEOUT_S = 30.0
_VARIABLES = {"slack": 3, "telegram": 2}
"""How many environment variables each simulator prints."""
_ALLOWED = frozenset({"", "not_modified", "ratelimited", "too_many_requests"})
"""A final edit may change nothing, which Telegram refuses, and the channel takes as success. On a busy machine a call
may arrive so late that the next one comes too early; the pace is tested in virtual time.
"""


class SimulatorProcess:
    """The process and its only chat. Used by `with`."""

    def __init__(self, platform: str, chat: str) -> None:
        self._platform = platform
        self._chat = chat
        self._known_calls = 0
        self._counts: Counter[str] = Counter()
        self._complaints: list[Complaint] = []
        self._cleared_message = "0"

    def __enter__(self) -> Self:
        command = [TAILRACE, "simulate", self._platform]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None, "the process was started with a pipe"
        self._address = self._process.stdout.readline().rpartition("/")[2].strip()
        exports = [self._process.stdout.readline().removeprefix("export ") for _ in range(_VARIABLES[self._platform])]
        self.environment = dict(shlex.split(line)[0].split("=", 1) for line in exports)
        tokens = [value for name, value in self.environment.items() if name.endswith("TOKEN")]
        self.secrets = [token.rpartition(":")[2].encode() for token in tokens]  # before the colon is the id of a bot
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        assert self._process.stdout is not None, "the process was started with a pipe"
        self._process.stdout.close()
        self._process.wait(_TIMEOUT_S)

    def add_faults(self, *rules: Rule | Fault) -> None:
        """Add rules after the existing ones."""
        self._ask("POST", "faults", msgspec.json.encode(rules), msgspec.Raw)

    def clear_faults(self) -> None:
        """Remove all rules."""
        self._ask("DELETE", "faults", b"", msgspec.Raw)

    def clear(self) -> None:
        """Look at no message any more that is there now."""
        self.account()
        self._counts.clear()
        self._complaints.clear()
        ids = [str(message.id) for message in self._seen()]
        self._cleared_message = max(ids, key=float, default=self._cleared_message)

    def history(self, chat: str | None = None) -> list[PlatformMessage]:
        """The messages of the bot, in their order."""
        assert chat in {None, self._chat}, "there is one chat"
        return [
            PlatformMessage(
                message_id=str(message.id),
                chat=self._chat,
                body=Body(text=message.text),
                at=message.at,
                edits=len(message.edits),
                deleted=message.deleted_at is not None,
            )
            for message in self._seen()
        ]

    def texts(self, chat: str) -> list[str]:
        """The texts that a person sees now."""
        return [message.text for message in self.history(chat) if not message.deleted]

    def account(self) -> PlatformReport:
        """How many calls of each method there were since `clear`, and what was refused."""
        new = self._ask("GET", f"calls?after={self._known_calls}", b"", list[ApiCall])
        self._known_calls += len(new)
        self._counts.update(call.method for call in new)
        self._complaints += [
            Complaint(about="size", chat=call.chat, at=call.at, detail=call.rule)
            for call in new
            if call.rule not in _ALLOWED
        ]
        return PlatformReport(counts=dict(self._counts), complaints=list(self._complaints))

    def _seen(self) -> tuple[SeenMessage, ...]:
        path = f"history?chat={self._chat}&after={self._cleared_message}"
        return self._ask("GET", path, b"", list[SeenChat])[0].messages

    def _ask(self, method: str, path: str, body: bytes, kind: type[T]) -> T:
        connection = http.client.HTTPConnection(self._address, timeout=_TIMEOUT_S)
        try:
            connection.request(method, f"/simulator/{path}", body or None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, content
        return msgspec.json.decode(content, type=kind)
