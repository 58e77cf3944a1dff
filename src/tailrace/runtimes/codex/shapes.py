"""The output of codex as far as it is used: the notifications of `app-server`, the lines of `exec`, and items.

This module owns their fields; the translators own their meaning. Only fields that are used are named, so that changes
of other fields do no harm.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _FileChange(msgspec.Struct):
    path: str
    kind: Any = None
    diff: str = ""


class _Todo(msgspec.Struct):
    """A step of the agent's plan, as `codex exec` reports it."""

    text: str
    completed: bool = False


class _Error(msgspec.Struct):
    """An error: one sentence for people."""

    message: str


class CodexItem(msgspec.Struct, rename="camel"):
    """An item of a turn: a message, reasoning, a plan or a tool call. The type decides which fields are set."""

    type: str
    id: str
    text: str = ""
    summary: list[str] = []
    content: list[Any] = []
    command: str = ""
    aggregated_output: str | None = None
    exit_code: int | None = None
    status: str | None = None
    changes: list[_FileChange] = []
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: _Error | None = None
    content_items: Any = None
    success: bool | None = None
    prompt: str | None = None
    receiver_thread_ids: list[str] = []
    query: str = ""
    path: str = ""
    items: list[_Todo] = []
    message: str = ""


class CodexFailure(msgspec.Struct, rename="camel"):
    """The failure of a turn, or of one model call that may be tried again."""

    message: str
    codex_error_info: str | dict[str, Any] | None = None
    additional_details: str | None = None

    @property
    def code(self) -> str | None:
        """The kind of failure, if it has one."""
        info = self.codex_error_info
        kind = next(iter(info), None) if isinstance(info, dict) else info
        return None if kind == "other" else kind

    @property
    def status_code(self) -> int | None:
        """The HTTP status of the failure, if it has one."""
        info = self.codex_error_info
        kinds = info.values() if isinstance(info, dict) else ()
        codes = [kind.get("httpStatusCode") for kind in kinds if isinstance(kind, dict)]
        return next((code for code in codes if isinstance(code, int)), None)


# The notifications of `app-server`


class CodexNotification(msgspec.Struct, kw_only=True, rename="camel"):
    """The base of all notifications. `thread_id` is the thread that a notification is about, if it names one."""

    thread_id: str | None = None


class ItemDelta(CodexNotification, kw_only=True, rename="camel"):
    """The next piece of an item that grows."""

    item_id: str
    delta: str = ""
    message: str = ""


class ItemNotification(CodexNotification, kw_only=True, rename="camel"):
    """An item starts or is complete."""

    item: CodexItem


class ErrorNotification(CodexNotification, kw_only=True, rename="camel"):
    """Something failed. With `will_retry`, codex asks the model again."""

    error: CodexFailure
    will_retry: bool = False


class _Turn(msgspec.Struct, rename="camel"):
    status: str
    error: CodexFailure | None = None
    items: list[CodexItem] = []


class TurnNotification(CodexNotification, kw_only=True, rename="camel"):
    """A turn has started or ended."""

    turn: _Turn


class _Usage(msgspec.Struct, rename="camel"):
    """Numbers of tokens. Cached tokens and reasoning tokens are included."""

    input_tokens: int
    output_tokens: int


class _ThreadUsage(msgspec.Struct):
    """The tokens of a thread. Only those of its last model call are read."""

    last: _Usage


class UsageNotification(CodexNotification, kw_only=True, rename="camel"):
    """A model call is complete and has used these tokens."""

    token_usage: _ThreadUsage


class WarningNotification(CodexNotification, kw_only=True, rename="camel"):
    """codex warns the user."""

    message: str = ""
    summary: str = ""


class ReroutedNotification(CodexNotification, kw_only=True, rename="camel"):
    """codex uses another model from now on."""

    to_model: str


class _PlanStep(msgspec.Struct):
    step: str
    status: str


class PlanNotification(CodexNotification, kw_only=True, rename="camel"):
    """The agent's plan has changed; `plan` has all its steps."""

    plan: list[_PlanStep]


# The lines of `exec`


class _ExecUsage(msgspec.Struct):
    """The tokens that were used since the thread started."""

    input_tokens: int
    output_tokens: int


class ExecLine(msgspec.Struct):
    """A line of `exec --json`."""

    type: str
    thread_id: str = ""
    item: dict[str, Any] | None = None
    message: str = ""
    error: _Error | None = None
    usage: _ExecUsage | None = None
