"""What codex writes, as far as it is understood: the notifications of `app-server`, the lines of `exec`, and items.

Owns their shape. What they mean for a turn is for the translators to say. Only what is used is named, so that a field
that comes or goes elsewhere changes nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Change(msgspec.Struct):
    """A file that is changed."""

    path: str
    kind: Any = None
    diff: str = ""


class Todo(msgspec.Struct):
    """A step of a plan, as `exec` tells of it."""

    text: str
    completed: bool = False


class Complaint(msgspec.Struct):
    """What went wrong, in a sentence."""

    message: str


class Item(msgspec.Struct, rename="camel"):
    """Anything a turn consists of; which fields count depends on the type."""

    type: str
    id: str
    text: str = ""
    summary: list[str] = []
    content: list[Any] = []
    command: str = ""
    aggregated_output: str | None = None
    exit_code: int | None = None
    status: str | None = None
    changes: list[Change] = []
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: Complaint | None = None
    content_items: Any = None
    success: bool | None = None
    prompt: str | None = None
    receiver_thread_ids: list[str] = []
    query: str = ""
    path: str = ""
    items: list[Todo] = []
    message: str = ""


class Failure(msgspec.Struct, rename="camel"):
    """Why a turn, or a try of the model, failed."""

    message: str
    codex_error_info: str | dict[str, Any] | None = None
    additional_details: str | None = None

    @property
    def code(self) -> str | None:
        """What kind of failure it is, where it is of a kind."""
        info = self.codex_error_info
        kind = next(iter(info), None) if isinstance(info, dict) else info
        return None if kind == "other" else kind

    @property
    def status_code(self) -> int | None:
        """The HTTP status behind it."""
        info = self.codex_error_info
        kinds = info.values() if isinstance(info, dict) else ()
        codes = [kind.get("httpStatusCode") for kind in kinds if isinstance(kind, dict)]
        return next((code for code in codes if isinstance(code, int)), None)


# The notifications of `app-server`


class Said(msgspec.Struct, kw_only=True, rename="camel"):
    """What every notification may carry: whose it is."""

    thread_id: str | None = None


class Piece(Said, kw_only=True, rename="camel"):
    """More of an item."""

    item_id: str
    delta: str = ""
    message: str = ""


class ItemSaid(Said, kw_only=True, rename="camel"):
    """An item begins, or is complete."""

    item: Item


class ErrorSaid(Said, kw_only=True, rename="camel"):
    """Something failed; the model is asked again, or not."""

    error: Failure
    will_retry: bool = False


class Turn(msgspec.Struct, rename="camel"):
    """How a turn stands."""

    status: str
    error: Failure | None = None
    items: list[Item] = []


class TurnSaid(Said, kw_only=True, rename="camel"):
    """A turn is over."""

    turn: Turn


class Tokens(msgspec.Struct, rename="camel"):
    """What was spent; what was cached, and what was thought, counted in."""

    input_tokens: int
    output_tokens: int


class Spent(msgspec.Struct):
    """What was spent for the last model call."""

    last: Tokens


class UsageSaid(Said, kw_only=True, rename="camel"):
    """A model call is complete."""

    token_usage: Spent


class Remark(Said, kw_only=True, rename="camel"):
    """A warning."""

    message: str = ""
    summary: str = ""


class Rerouted(Said, kw_only=True, rename="camel"):
    """Another model answers."""

    to_model: str


class Step(msgspec.Struct):
    """A step of a plan."""

    step: str
    status: str


class PlanSaid(Said, kw_only=True, rename="camel"):
    """The plan as it stands."""

    plan: list[Step]


# The lines of `exec`


class Totals(msgspec.Struct):
    """What was spent since the thread began."""

    input_tokens: int
    output_tokens: int


class Line(msgspec.Struct):
    """A line of `exec --json`."""

    type: str
    thread_id: str = ""
    item: dict[str, Any] | None = None
    message: str = ""
    error: Complaint | None = None
    usage: Totals | None = None
