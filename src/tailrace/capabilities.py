"""What a channel can do, as data: how long a message may be, how often it may be sent, what makes repeating it safe.

A channel declares one `Capabilities`; everything else reads it. There is no code here that acts on the values.
How a send that got no answer is settled depends on the declared idempotency alone:

    keyed        the platform knows a message again by its key, within a window of time: send it again
    readback     the platform can be asked whether a message with that key is there: ask, then decide
    repeatable   doing it twice is doing it once, as with any edit: do it again
    unkeyed      nobody can tell: hold the part back and say so, or send it again, marked
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class Keyed(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="keyed"):
    """The platform drops a message whose key it has seen, for `window_s` seconds after the first try.

    `scope` names what the key is bound to besides the chat (a device, a bot account); a key is not trusted in
    another scope than the one it was first used in.
    """

    window_s: float
    scope: str = ""


class Readback(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="readback"):
    """The platform can be asked for a message by its key; what it does not show `settle_s` after a try never came."""

    settle_s: float = 0.0


class Repeatable(msgspec.Struct, frozen=True, tag_field="kind", tag="repeatable"):
    """Doing it again changes nothing."""


class Unkeyed(msgspec.Struct, frozen=True, tag_field="kind", tag="unkeyed"):
    """Whether a send without an answer arrived cannot be found out."""


Idempotency: TypeAlias = Keyed | Readback | Repeatable | Unkeyed


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """So many calls in so many seconds, spent at once or spread."""

    calls: int
    per_s: float


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What one channel can do.

    `limit` counts a rendered message in `unit`. `deadline_s` is how long one call may take before its outcome
    counts as ambiguous. Sends and edits of a chat share `per_chat`; all chats together share `overall`.
    """

    idempotency: Idempotency
    limit: int = 4096
    unit: Literal["code_points", "utf16", "utf8_bytes"] = "code_points"
    dialect: str = "markdown"
    deadline_s: float = 30.0
    per_chat: Rate | None = None
    overall: Rate | None = None
