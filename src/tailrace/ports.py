"""The protocols that runtimes and channels implement, and the values passed to them.

A port is one small protocol. What only some channels can do has a protocol of its own, and callers check it with
`isinstance`; there are no flags. The docstrings are the contract: an implementation must do what they say.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from tailrace.capabilities import Capabilities
from tailrace.events import Event
from tailrace.inbound import Attachment, ButtonPress, Inbound
from tailrace.operations import (
    AppendStream,
    CloseStream,
    Delete,
    Draft,
    Edit,
    OpenStream,
    Post,
    PostMedia,
    Receipt,
    Target,
    Typing,
)


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A user's message to an agent.

    `conversation` names the chat or thread that gets the answer. `session_id` names what the agent remembers: one
    conversation can have several sessions, one after the other.
    """

    text: str
    session_id: str = ""
    user_id: str = ""
    conversation: str = ""


@runtime_checkable
class Runtime(Protocol):
    """An agent: one prompt in, the events of one turn out.

    `run` does nothing until it is iterated. Closing the iterator cancels the turn; all resources of the turn
    (processes, connections) are released before the close returns. The events need not follow the turn grammar: every
    caller passes them through `tailrace.contract.checked`.
    """

    name: str

    def run(self, prompt: Prompt) -> AsyncIterator[Event]:
        """Start a turn and yield its events in the order in which they happen."""
        ...


@runtime_checkable
class ChannelProvider(Protocol):
    """A channel of an extension that gets the whole answer at once, and shows it in its own way."""

    name: str

    async def send_to_user(self, user_id: str, text: str) -> None:
        """Show the whole answer to the user. Raises an error if that failed."""
        ...


@runtime_checkable
class StreamingChannelProvider(Protocol):
    """A channel of an extension that shows an answer in its own way while the answer is being written.

    The calls of one turn: `on_stream_start` once, then chunks and statuses in the order in which they happen, then
    `on_stream_end` once with the full text, also if the turn failed or was cancelled.
    """

    name: str

    async def on_stream_start(self, user_id: str) -> None:
        """Called once when a turn starts, before all other calls of the turn."""
        ...

    async def on_stream_chunk(self, user_id: str, chunk: str) -> None:
        """Show the next piece of the answer. It may end anywhere, also within a word."""
        ...

    async def on_stream_status(self, user_id: str, status: str) -> None:
        """Show what the agent is doing now, in place of the status before."""
        ...

    async def on_stream_end(self, user_id: str, full_text: str) -> None:
        """The turn has ended; `full_text` is the whole answer."""
        ...


class Clock(Protocol):
    """Two clocks. `wall` is for times that are stored, and may jump; `monotonic` is for waiting, and never jumps."""

    def wall(self) -> float:
        """Seconds since 1970, by the clock that people set."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment. Never goes back, and also counts the time while the machine sleeps."""
        ...


class Inbox(Protocol):
    """Takes the messages and button presses of people. `Channel.start` passes the inbox to the channel."""

    async def receive(self, inbound: Inbound) -> None:
        """Record an event. If the event is recorded already, nothing changes.

        The channel acknowledges the event to its platform only after this method has returned. Raises
        `LedgerUnavailable` if the event was not recorded; the platform then sends the event again.
        """
        ...


@runtime_checkable
class Channel(Protocol):
    """A chat platform: performs one operation per call. It knows nothing of turns, retries or records.

    A method that fails raises the `ChannelFault` that says what is known: `SendRefused` (the platform refused; do not
    try again), `NotSent` (certainly not sent; may work later), `MaybeSent` (may have been sent), `AccessLost`
    (certainly not sent; works again when an operator has restored the access). Any other exception counts as
    `MaybeSent`. A call may be cancelled at any await. A channel must not retry and must not wait for rate limits: the
    sender does both. What only some channels can do is in the protocols below.

    `capabilities` says what the account can do. A channel that asks its platform for them sets them in `start`.
    """

    name: str
    capabilities: Capabilities

    async def start(self, inbox: Inbox) -> None:
        """Connect. Returns when messages can be sent, and raises an error if that is not possible."""
        ...

    async def stop(self) -> None:
        """Disconnect. May be called twice, and without `start`."""
        ...

    async def wait_closed(self) -> None:
        """Wait until the connection has ended for good. Returns after `stop`; otherwise raises the reason.

        If a connection is lost only for a while, the channel itself connects again, with a backoff.
        """
        ...

    async def post(self, post: Post, *, key: str) -> Receipt:
        """Send a new message.

        If the platform recognises repeated calls by a key, pass `key` to it: at most 25 characters, all of them
        letters, digits, `-` or `_`. A retry of the same message has the same key. If the platform knows no keys, a
        second call sends a second message.
        """
        ...


@runtime_checkable
class StartsToSend(Protocol):
    """A channel that can connect only to send, without receiving the events of people.

    Some platforms give each event to one process only. So a process that only sends must not take events away from the
    process that handles them.
    """

    async def start_to_send(self) -> None:
        """Connect as `start` does, but take no events: they stay for the process that receives them."""
        ...


@runtime_checkable
class ProvesLife(Protocol):
    """A channel that knows when its platform has last proved that the connection works.

    Only an answer of the platform is a proof: a poll that returned, a ping that was answered.
    """

    @property
    def alive_at(self) -> float:
        """The time of the last proof, by the clock of the event loop; minus infinity before the first one."""
        ...

    @property
    def proof_every_s(self) -> float:
        """The longest time between two proofs while the connection works, in seconds."""
        ...


@runtime_checkable
class Edits(Protocol):
    """A channel that can edit its messages."""

    async def edit(self, edit: Edit) -> Receipt:
        """Replace the body of a message. Idempotent: if the message already has this body, the edit succeeds.

        Raises `SendRefused(gone=True)` if the message does not exist any more.
        """
        ...


@runtime_checkable
class Deletes(Protocol):
    """A channel that can delete its messages."""

    async def delete(self, delete: Delete) -> Receipt:
        """Delete a message. Idempotent: if the message does not exist any more, the deletion succeeds."""
        ...


@runtime_checkable
class ShowsTyping(Protocol):
    """A channel that can show a typing indicator."""

    async def typing(self, typing: Typing) -> None:
        """Show the indicator once. The platform hides it after a while, so the caller repeats the call to keep it."""
        ...


@runtime_checkable
class SendsMedia(Protocol):
    """A channel that can send pictures, sounds and files."""

    async def post_media(self, media: PostMedia, *, key: str) -> Receipt:
        """Send the file as a new message with its caption. `key` is as in `Channel.post`."""
        ...


@runtime_checkable
class StreamsNatively(Protocol):
    """A channel that has streams: messages to which text can be appended."""

    async def open_stream(self, opening: OpenStream, *, key: str) -> Receipt:
        """Open a message to which text can be appended. The receipt's id is the id of the stream.

        `key` is as in `Channel.post`.
        """
        ...

    async def append_stream(self, appended: AppendStream) -> None:
        """Append text, and show the current state of these tasks. Not idempotent: a second call appends once more."""
        ...

    async def close_stream(self, closing: CloseStream) -> Receipt:
        """Close the stream; its message then has this body. Idempotent: if the stream is closed, edit the message.

        Raises `SendRefused(gone=True)` if the message does not exist any more.
        """
        ...


@runtime_checkable
class ShowsDrafts(Protocol):
    """A channel that can show drafts: text that is not a message yet."""

    async def draft(self, draft: Draft) -> None:
        """Show the draft. It replaces the earlier text of the same draft. The platform removes it after a while."""
        ...


@runtime_checkable
class ReadsBack(Protocol):
    """A channel that can look up a message that it has sent, to find out whether the message arrived."""

    async def find(self, target: Target, key: str, since: float) -> Receipt | None:
        """Look up the message with this key that was sent at `since` (seconds since 1970) or later.

        Returns None only if the message certainly does not exist. Raises an error if the channel cannot find that out;
        the caller asks again later.
        """
        ...


@runtime_checkable
class FetchesFiles(Protocol):
    """A channel that can load the files of inbound messages."""

    async def fetch(self, attachment: Attachment, path: Path, *, max_bytes: int) -> None:
        """Load the file into a new file at `path`.

        If the file has more than `max_bytes`, raises `SendRefused` and leaves no file at `path`.
        """
        ...


@runtime_checkable
class Checks(Protocol):
    """A channel that can check its account without sending anything, or a runtime that can check what it needs."""

    async def check(self) -> Sequence[Finding]:
        """Ask whether the token, the scopes and the settings, or the agent's command, suffice. Works before `start`."""
        ...


@runtime_checkable
class DiffersByChat(Protocol):
    """A channel with capabilities that depend on the chat: for example, groups have other limits than private chats."""

    def capabilities_of(self, target: Target) -> Capabilities:
        """What the channel can do in this chat. Answers at once, without a call to the platform."""
        ...


@runtime_checkable
class AsksByButtons(Protocol):
    """A channel that can show buttons below a message."""

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Show the person that the press was received, with a short text if the platform can show one."""
        ...


@runtime_checkable
class Reacts(Protocol):
    """A channel that can put a reaction on a message."""

    async def react(self, target: Target, message_id: str, emoji: str) -> None:
        """Put a reaction on the message, in place of our earlier reaction; "" only removes that one."""
        ...


class MenuCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that people can choose from a menu. `name` is without the slash: letters a-z, digits and _."""

    name: str
    description: str


@runtime_checkable
class ShowsCommands(Protocol):
    """A channel whose platform shows a menu of the bot's commands."""

    async def show_commands(self, commands: Sequence[MenuCommand]) -> None:
        """Show these commands in the menu, instead of the earlier ones; none removes the menu. Idempotent."""
        ...


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a check. If `ok` is false, `text` says what is missing and where to switch it on."""

    ok: bool
    text: str


@runtime_checkable
class ProcessingMessages(Protocol):
    """A chat that can show a processing message: one message per turn, with its tools and the text so far.

    Each method may be a plain function or a coroutine function. There is only one call at a time. If a method raises an
    error, it is called again later with the text that is current then.
    """

    def create_processing_message(self, source_id: str, text: str, metadata: Any) -> str | Awaitable[str]:
        """Send the message and return its id. `source_id` names the chat.

        `metadata` is the value that the caller passed for this turn, unchanged.
        """
        ...

    def update_processing_message(
        self, source_id: str, message_id: str, text: str, metadata: Any
    ) -> Awaitable[None] | None:
        """Replace the whole text of the message `message_id` in the chat `source_id`."""
        ...
