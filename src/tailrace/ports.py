"""What the edges provide: the protocols a runtime, a channel and a ledger fulfil, and what passes between them.

A port is one small shape. What only some channels can do is a protocol of its own, found by `isinstance`;
there are no flags. The docstrings are the contract an implementation is held to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from tailrace.capabilities import Capabilities
from tailrace.deliveries import Delivery, Inbound, OpenConversation, Query, Snapshot, Turn, TurnState
from tailrace.events import Event
from tailrace.operations import Body, PostMedia, Receipt, Target, Task


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said, and to whom the answer belongs.

    `conversation` names the place (a chat, a thread); `session_id` names the agent's memory, which may be begun
    anew in the same place.
    """

    text: str
    session_id: str = ""
    user_id: str = ""
    conversation: str = ""


@runtime_checkable
class Runtime(Protocol):
    """An agent: one prompt in, one turn of events out.

    `run` does nothing until it is iterated. Closing the iterator cancels the run, and whatever the run holds (a
    process, a connection) is released before the close returns. The stream need not obey the grammar: every
    caller passes it through `tailrace.contract.checked`.
    """

    name: str

    def run(self, prompt: Prompt) -> AsyncIterator[Event]:
        """Begin a turn and yield its events in the order they happened."""
        ...


@runtime_checkable
class ChannelProvider(Protocol):
    """A channel that presents a finished answer on its own."""

    name: str

    async def send_to_user(self, user_id: str, text: str) -> None:
        """Show the whole answer to the user. Raises where it could not be shown."""
        ...


@runtime_checkable
class StreamingChannelProvider(Protocol):
    """A channel that presents an answer on its own while it comes.

    For one turn: `on_stream_start` once, then chunks and statuses in the order they happened, then
    `on_stream_end` once with the full text, also when the turn failed or was cancelled.
    """

    name: str

    async def on_stream_start(self, user_id: str) -> None:
        """A turn begins."""
        ...

    async def on_stream_chunk(self, user_id: str, chunk: str) -> None:
        """A further piece of the answer, to be shown as it is."""
        ...

    async def on_stream_status(self, user_id: str, status: str) -> None:
        """What the agent is at; replaces the status shown before."""
        ...

    async def on_stream_end(self, user_id: str, full_text: str) -> None:
        """The turn is over; `full_text` is all that was said."""
        ...


class Clock(Protocol):
    """What time it is. Records and windows that outlive a process use `wall`, which may jump; waits use `monotonic`."""

    def wall(self) -> float:
        """Seconds since 1970, as people set it."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...


class Inbox(Protocol):
    """Where a channel hands in what people say."""

    async def receive(self, inbound: Inbound) -> str:
        """Take it, for good: returns its turn once it is recorded. The same event again gives the same turn.

        Only then may the platform be told that it was taken. Raises `LedgerUnavailable` where it was not.
        """
        ...


@runtime_checkable
class Channel(Protocol):
    """A place people read: performs one operation at a time and knows nothing of turns, retries or records.

    Whatever goes wrong in a call is a `ChannelFault`, by what is known of it: `SendRefused` (never), `NotSent` (surely
    not, maybe later), `MaybeSent` (perhaps). Anything else that is raised counts as perhaps. A call may be cancelled
    at any moment. What only some channels can do is a protocol below.
    """

    name: str
    capabilities: Capabilities

    async def start(self, inbox: Inbox) -> None:
        """Connect; returns once messages can be sent, and raises where they cannot."""
        ...

    async def stop(self) -> None:
        """Disconnect. Calling it twice, or without `start`, is harmless."""
        ...

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:
        """Show a new message. Where the platform takes a key it is given this one, of at most 25 safe characters."""
        ...


@runtime_checkable
class Edits(Protocol):
    """A channel whose messages can be changed."""

    async def edit(self, target: Target, message_id: str, body: Body) -> Receipt:
        """Let the message say `body`. One that says so already is edited; one that is not there is `gone`."""
        ...


@runtime_checkable
class Deletes(Protocol):
    """A channel whose messages can be taken away."""

    async def delete(self, target: Target, message_id: str) -> Receipt:
        """Take the message away. One that is gone already is deleted."""
        ...


@runtime_checkable
class ShowsTyping(Protocol):
    """A channel that can show that an answer is being written."""

    async def typing(self, target: Target) -> None:
        """Show it for as long as the platform does on its own."""
        ...


@runtime_checkable
class SendsMedia(Protocol):
    """A channel that takes pictures, sounds and files."""

    async def post_media(self, target: Target, media: PostMedia, *, key: str) -> Receipt:
        """Show it as a new message, with its caption; `key` as for `post`."""
        ...


@runtime_checkable
class StreamsNatively(Protocol):
    """A channel on which the platform itself lets a message grow."""

    async def open_stream(self, target: Target, body: Body, *, key: str) -> Receipt:
        """Begin a message; the receipt's id is the stream's. `key` as for `post`."""
        ...

    async def append_stream(self, target: Target, stream_id: str, text: str, tasks: tuple[Task, ...] = ()) -> None:
        """Add text at its end, and show the steps as they are now. Doing it twice adds the text twice."""
        ...

    async def close_stream(self, target: Target, stream_id: str, body: Body, tasks: tuple[Task, ...] = ()) -> Receipt:
        """End it, saying all of `body`. One that is closed already is set to say it."""
        ...


@runtime_checkable
class ShowsDrafts(Protocol):
    """A channel on which the platform shows what is being written before it is a message."""

    async def draft(self, target: Target, draft_id: int, body: Body) -> None:
        """Show it for a while, in place of what the same draft showed before."""
        ...


@runtime_checkable
class ReadsBack(Protocol):
    """A channel that can be asked what it has taken."""

    async def find(self, target: Target, key: str) -> Receipt | None:
        """The message posted with that key; None only where it is surely not there."""
        ...


class Ledger(Protocol):
    """The durable truth: what was decided to be said, and what is known to have arrived.

    Every coroutine that changes something returns only when the change would survive the loss of power, and has
    changed nothing where it raises; the two exceptions are `LedgerLost`, after which nobody knows and the process
    must end, and cancellation, after which a change that was handed in is still made. Calls made one after the
    other, awaited or not, are made in that order. `LedgerUnavailable` means: not now, and the same call may work
    later.

    One owner writes. Each opening has an `epoch` higher than all before; rows carry the epoch of who moves them,
    and a change whose row has moved on raises `Fenced`, whoever asks.
    """

    epoch: int

    async def accept(self, inbound: Inbound) -> str:
        """Record an event and the turn it begins (`accepted`), in one step; the turn's id.

        An event that is known (same channel, account and event id) changes nothing and gives the turn it began.
        """
        ...

    async def begin(self, turn: Turn) -> Turn:
        """The turn runs, from now on by this owner: made if nobody knows it, taken up again if it is open.

        Counts the attempt. A turn that is over is returned as it is: there is nothing left to say.
        """
        ...

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """Keep what an open turn of this owner has said so far, soon: with the next change, or within two seconds.

        The latest wins. A snapshot that cannot be kept is dropped; nobody waits for it.
        """
        ...

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """The turn is over, and `plan` is the last it says, in one step; returns those rows as `plan` does.

        `turn` is as the caller last saw it. Raises `Fenced` if it is over or was taken up by another owner. A turn of
        an older epoch can be ended: that is how an interrupted one is closed.
        """
        ...

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record deliveries in their order, all or none; returns each as it is recorded now.

        A name that is known already is not recorded again: its row is returned as it stands, whoever owns it. Known
        with another fingerprint it raises `TurnMismatch`. The first one may come as `sending`: it is recorded so if
        it is new and nothing open stands before it in its conversation, and as `planned` otherwise.
        """
        ...

    async def move(self, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """Replace rows by their next state, each as (last seen, next), all or none; returns the next ones.

        Every edge is one of `EDGES`. A row that is not as last seen (owner, state, attempt) raises `Fenced`, and so
        does entering `sending` while an earlier delivery of its conversation is open. `plan` are notices, recorded
        right after the row of the first move; a name that is known already is passed over.
        """
        ...

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        """The first open deliveries of a conversation in order, all of them this owner's from now on.

        Rows of an older epoch are adopted (see `deliveries.adopted`). It stops before a row in a state it does not
        know, which belongs to a newer version: what stands behind it waits as well.
        """
        ...

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """Conversations with open deliveries in the order of their names, from behind `after`."""
        ...

    async def interrupted_turns(self, *, state: TurnState = TurnState.RUNNING, limit: int = 256) -> list[Turn]:
        """Open turns in that state whose owner is gone, which is one of an older epoch: running, or only accepted."""
        ...

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """Deliveries that are meant, newest first, from behind the place `after`."""
        ...

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """Forget up to `limit` final deliveries that are meant, and turns and events that go with them; how many.

        With `bodies` their rows stay and only what they said is forgotten. Open ones are never touched.
        """
        ...

    async def close(self) -> None:
        """Write what was handed in, and let go. Calling it twice is harmless."""
        ...


@runtime_checkable
class ProcessingMessages(Protocol):
    """Where a processing message can be shown: one message per turn, with the tools and the text so far.

    Both may be plain functions or coroutine functions. They raise where the message could not be shown; the same is
    then asked for again, with what there is to say by then. One call is made at a time.
    """

    def create_processing_message(self, source_id: str, text: str, metadata: Any) -> str | Awaitable[str]:
        """Show a new message; its id. `metadata` is what the turn was started with, as it was given."""
        ...

    def update_processing_message(
        self, source_id: str, message_id: str, text: str, metadata: Any
    ) -> Awaitable[None] | None:
        """Let that message say `text` in place of all that it said."""
        ...
