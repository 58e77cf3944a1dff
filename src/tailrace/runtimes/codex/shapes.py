"""The output of codex that is used: the notifications of `app-server`, the lines of `exec`, and items.

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
    """A step of a plan, in `exec`."""

    text: str
    completed: bool = False


class _Error(msgspec.Struct):
    """An error, as a sentence."""

    message: str


class CodexItem(msgspec.Struct, rename="camel"):
    """Any part of a turn; which fields count depends on the type."""

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
    """The failure of a turn, or of one try of the model."""

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
    """The base of all notifications: the thread, which any of them may name."""

    thread_id: str | None = None


class ItemDelta(CodexNotification, kw_only=True, rename="camel"):
    """A piece of an item."""

    item_id: str
    delta: str = ""
    message: str = ""


class ItemNotification(CodexNotification, kw_only=True, rename="camel"):
    """An item starts or is complete."""

    item: CodexItem


class ErrorNotification(CodexNotification, kw_only=True, rename="camel"):
    """Something failed. The model may be asked again."""

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
    """The tokens that were used, cached and reasoning tokens included."""

    input_tokens: int
    output_tokens: int


class _ThreadUsage(msgspec.Struct):
    """The tokens of the last model call."""

    last: _Usage


class UsageNotification(CodexNotification, kw_only=True, rename="camel"):
    """A model call is complete."""

    token_usage: _ThreadUsage


class WarningNotification(CodexNotification, kw_only=True, rename="camel"):
    """A warning."""

    message: str = ""
    summary: str = ""


class ReroutedNotification(CodexNotification, kw_only=True, rename="camel"):
    """Another model answers."""

    to_model: str


class _PlanStep(msgspec.Struct):
    step: str
    status: str


class PlanNotification(CodexNotification, kw_only=True, rename="camel"):
    """The current plan."""

    plan: list[_PlanStep]


# The lines of `exec`


class _ExecUsage(msgspec.Struct):
    """The tokens used since the thread started."""

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
