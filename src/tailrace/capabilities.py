"""The capabilities of a channel, as data: size of a message, rate limits, and when a send may be repeated.

A channel declares one `Capabilities`, and all other code reads it. This module only holds the values. The tables of the
platforms are at the end, with the sources of their values. `unverified` lists the values that are in no primary source.
If a send got no answer, only the declared `idempotency` decides what happens next:

    keyed        the platform recognises a message by its key, for some time: send the message again
    readback     the platform can be asked whether a message with that key exists: ask, then decide
    repeatable   a second call changes nothing, as with any edit: repeat the call
    unkeyed      there is no way to find out: notify the user, or send again and record that this may be a double
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class Keyed(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="keyed"):
    """For `window_s` seconds after the first call, the platform drops further messages with the same key.

    `scope` says who must send the second message (the same device, the same bot account). A message with the same key
    from another sender is a new message for the platform.
    """

    window_s: float
    scope: str = ""


class Readback(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="readback"):
    """The platform can be asked whether it has a message with a certain key.

    If the platform does not show the message `visible_within_s` after the call, the message never arrived.
    """

    visible_within_s: float = msgspec.field(name="settle_s", default=0.0)  # ledgers use that name


class Repeatable(msgspec.Struct, frozen=True, tag_field="kind", tag="repeatable"):
    """A call can safely be repeated, because a second call changes nothing."""


class Unkeyed(msgspec.Struct, frozen=True, tag_field="kind", tag="unkeyed"):
    """After a send without an answer it is impossible to find out whether the message arrived."""


Idempotency: TypeAlias = Keyed | Readback | Repeatable | Unkeyed


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """At most `calls` calls in `per_s` seconds, all at once or spread over that time."""

    calls: int
    per_s: float


class EditRules(msgspec.Struct, frozen=True, kw_only=True):
    """The channel can edit its messages. These are the rules for edits.

    While an answer grows, its message is edited at most every `every_s` seconds (`every_s_in_groups` in a group), so
    that some of the rate limit is left for new messages. `notifies`: people get a notification for an edit too.
    """

    every_s: float
    every_s_in_groups: float | None = None
    notifies: bool = False


class DraftRules(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="drafts"):
    """The platform can show a draft: a text that people see before it is a message.

    A draft can only be replaced as a whole, at most every `every_s` seconds, and vanishes after `lifetime_s`.
    `in_groups`: groups can show drafts too, not only private chats.
    """

    lifetime_s: float
    every_s: float
    in_groups: bool = False


class StreamRules(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="streams"):
    """The platform has streams: open messages to which text can be appended, at most every `every_s` seconds.

    The platform closes a stream after `lifetime_s`; None means never. One call appends at most `per_call`, counted in
    the `unit` of the channel. `tasks`: the platform shows tasks and their status beside the text. `in_threads_only`:
    only threads have streams.
    """

    every_s: float
    lifetime_s: float | None = None
    per_call: int | None = None
    tasks: bool = False
    in_threads_only: bool = False


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of one channel. None and False mean: the channel has no such capability or limit.

    `limit` is the size of a rendered message in `unit`. A message with more than `lines` lines is cut too, because
    people read two shorter messages more easily. After `deadline_s` the outcome of a call counts as unknown. Sends and
    edits of a chat share `per_chat`, in a group `per_group` too; all chats share `overall`. The platform shows a typing
    sign for `typing_s` seconds after the call. `presentation` is used if the settings name none. `unverified` names the
    fields with a value that is in no primary source.
    """

    idempotency: Idempotency
    limit: int = 4096
    unit: Literal["code_points", "utf16", "utf8_bytes"] = "code_points"
    lines: int | None = None
    caption_limit: int | None = None
    dialect: str = "markdown"
    deadline_s: float = 30.0
    per_chat: Rate | None = None
    per_group: Rate | None = None
    overall: Rate | None = None
    edits: EditRules | None = None
    deletes: bool = False
    native: DraftRules | StreamRules | None = None
    typing_s: float | None = None
    threads: bool = False
    presentation: Literal["tokens", "live", "native", "processing", "parts", "blocks", "final"] = "final"
    unverified: frozenset[str] = frozenset()


TELEGRAM = Capabilities(
    idempotency=Unkeyed(),  # bots cannot set the platform's random_id
    limit=4096,  # counted after the entities are parsed
    unit="code_points",  # but the offsets of the entities count UTF-16 units
    caption_limit=1024,
    dialect="telegram",
    per_chat=Rate(calls=1, per_s=1.0),
    per_group=Rate(calls=20, per_s=60.0),
    overall=Rate(calls=30, per_s=1.0),
    # Two edits per second got the answer 429 and waits of 30 to 137 s: this is a quarter of that rate. Edits count like
    # sends.
    edits=EditRules(every_s=2.0, every_s_in_groups=4.0),
    deletes=True,
    native=DraftRules(lifetime_s=30.0, every_s=1.0),  # private chats only
    typing_s=5.0,
    threads=True,
    presentation="live",
    unverified=frozenset({"edits.notifies", "edits.every_s", "native.every_s", "deletes"}),
)

# A message as a document with headings, lists and tables: sendRichMessage, sendRichMessageDraft, and editMessageText
# with rich_message. It is also limited to 500 blocks, 16 levels and 20 columns: see `markdown.telegram_rich`.
TELEGRAM_RICH = msgspec.structs.replace(
    TELEGRAM,
    limit=32_768,  # of the text without its markup
    dialect="telegram_rich",
    unverified=TELEGRAM.unverified | {"unit"},  # the documentation says "UTF-8 characters"
)

SLACK = Capabilities(
    idempotency=Readback(visible_within_s=2.0),  # by the metadata of the message; apps cannot use client_msg_id
    limit=12_000,  # for markdown_text in each call
    unit="code_points",
    dialect="slack",
    per_chat=Rate(calls=1, per_s=1.0),
    overall=Rate(calls=50, per_s=60.0),  # tier 3, the tier of chat.update
    edits=EditRules(every_s=1.5),
    deletes=True,
    # startStream is tier 2, appendStream tier 4. A stream ended 306 s after its start, although text was appended.
    native=StreamRules(every_s=1.0, lifetime_s=300.0, per_call=12_000, tasks=True, in_threads_only=True),
    typing_s=120.0,
    threads=True,
    presentation="live",
    unverified=frozenset(
        {"unit", "idempotency.visible_within_s", "edits.notifies", "native.lifetime_s", "native.every_s"}
    ),
)

DISCORD = Capabilities(
    idempotency=Keyed(window_s=120.0, scope="author"),  # nonce with enforce_nonce: "the past few minutes"
    limit=2000,
    unit="code_points",
    lines=60,  # clients fold taller messages on a phone
    dialect="discord",
    per_chat=Rate(calls=5, per_s=5.0),  # the answer's headers name the limit; most channels had this one
    overall=Rate(calls=50, per_s=1.0),
    edits=EditRules(every_s=1.2),
    deletes=True,
    typing_s=10.0,
    threads=True,
    presentation="live",
    unverified=frozenset({"idempotency.window_s", "lines", "per_chat", "edits.notifies", "edits.every_s"}),
)

MATRIX = Capabilities(
    idempotency=Keyed(window_s=86_400.0, scope="device"),  # txnId; Synapse keeps it for 24 h, also over a restart
    # An event is at most 65,536 bytes, and an edit carries text and HTML twice: see `markdown.matrix`.
    limit=7_500,
    unit="utf8_bytes",
    dialect="matrix",
    overall=Rate(calls=10, per_s=50.0),  # Synapse's rc_message: 0.2 per second for a user, 10 at once
    edits=EditRules(every_s=5.0),
    deletes=True,
    typing_s=30.0,  # the client may choose it
    threads=True,
    presentation="live",
    unverified=frozenset({"edits.every_s"}),
)

TERMINAL = Capabilities(
    idempotency=Unkeyed(),
    limit=1_000_000,
    dialect="markdown",
    native=StreamRules(every_s=0.0, tasks=True),
    presentation="tokens",
)

WEB = Capabilities(
    idempotency=Keyed(window_s=86_400.0, scope="stream"),  # our event ids; a client gets those after its Last-Event-ID
    limit=1_000_000,
    dialect="html",
    edits=EditRules(every_s=0.05),
    deletes=True,
    native=StreamRules(every_s=0.0, tasks=True),
    threads=True,
    presentation="tokens",
)

CHANNELS: dict[str, Capabilities] = {
    "telegram": TELEGRAM,
    "telegram_rich": TELEGRAM_RICH,
    "slack": SLACK,
    "discord": DISCORD,
    "matrix": MATRIX,
    "web": WEB,
    "terminal": TERMINAL,
}
"""Each platform's table, by the name of its channel."""
