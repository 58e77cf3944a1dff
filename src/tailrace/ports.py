"""The protocols that runtimes, channels and ledgers implement, and the values passed to them.

A port is one small protocol. What only some channels can do is a protocol of its own, checked with `isinstance`; there
are no flags. The docstrings are the contract: an implementation must do what they say.
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
    """A user's message to an agent.

    `conversation` names the chat or thread of the answer. `session_id` names the agent's memory of it: the same
    conversation can start a new session.
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
    """A channel of an extension that shows a finished answer in its own way."""

    name: str

    async def send_to_user(self, user_id: str, text: str) -> None:
        """Show the whole answer to the user. Raises an error if that failed."""
        ...


@runtime_checkable
class StreamingChannelProvider(Protocol):
    """A channel of an extension that shows an answer in its own way while it is written.

    The calls of one turn: `on_stream_start` once, then chunks and statuses in the order in which they happen, then
    `on_stream_end` once with the full text, also if the turn failed or was cancelled.
    """

    name: str

    async def on_stream_start(self, user_id: str) -> None:
        """A turn starts."""
        ...

    async def on_stream_chunk(self, user_id: str, chunk: str) -> None:
        """Show the next piece of the answer, as it is."""
        ...

    async def on_stream_status(self, user_id: str, status: str) -> None:
        """Show what the agent is doing now, in place of the status before."""
        ...

    async def on_stream_end(self, user_id: str, full_text: str) -> None:
        """The turn has ended; `full_text` is the whole answer."""
        ...


class Clock(Protocol):
    """The time. `wall` is for what outlives a process, and may jump; `monotonic` is for waiting."""

    def wall(self) -> float:
        """Seconds since 1970, by the clock that people set."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment. Never goes back."""
        ...


class Inbox(Protocol):
    """The receiver of incoming messages. A channel gets it in `start`."""

    async def receive(self, inbound: Inbound) -> str:
        """Record a message and return the id of its turn. The same event again gives the same turn.

        The channel may acknowledge the message to its platform only after this has returned. Raises
        `LedgerUnavailable` if the message was not recorded; the platform then sends it again.
        """
        ...


@runtime_checkable
class Channel(Protocol):
    """A chat platform: performs one operation per call. It knows nothing of turns, retries or records.

    A method that fails raises a `ChannelFault` by what is known: `SendRefused` (the platform refused, do not try
    again), `NotSent` (surely not sent, may work later), `MaybeSent` (may have been sent). Any other exception counts as
    `MaybeSent`. A call may be cancelled at any await. A channel must not retry and must not wait for rate limits: the
    sender does both. What only some channels can do is in the protocols below.
    """

    name: str
    capabilities: Capabilities

    async def start(self, inbox: Inbox) -> None:
        """Connect. Returns when messages can be sent, and raises an error if that is not possible."""
        ...

    async def stop(self) -> None:
        """Disconnect. May be called twice, and without `start`."""
        ...

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:
        """Send a new message.

        If the platform recognises repeated calls by a key, pass `key` to it: at most 25 characters, all of them
        letters, digits, `-` or `_`. A retry of the same message has the same key. Without a key the call is not
        idempotent.
        """
        ...


@runtime_checkable
class Edits(Protocol):
    """A channel that can edit its messages."""

    async def edit(self, target: Target, message_id: str, body: Body) -> Receipt:
        """Replace the body of a message. Idempotent: if the message has this body already, that is success.

        Raises `SendRefused(gone=True)` if the message does not exist any more.
        """
        ...


@runtime_checkable
class Deletes(Protocol):
    """A channel that can delete its messages."""

    async def delete(self, target: Target, message_id: str) -> Receipt:
        """Delete a message. Idempotent: if it does not exist any more, that is success."""
        ...


@runtime_checkable
class ShowsTyping(Protocol):
    """A channel that can show a typing indicator."""

    async def typing(self, target: Target) -> None:
        """Show the indicator for as long as the platform does by itself."""
        ...


@runtime_checkable
class SendsMedia(Protocol):
    """A channel that can send pictures, sounds and files."""

    async def post_media(self, target: Target, media: PostMedia, *, key: str) -> Receipt:
        """Send the file as a new message with its caption. `key` as in `post`."""
        ...


@runtime_checkable
class StreamsNatively(Protocol):
    """A channel whose platform has streams: messages to which text can be appended."""

    async def open_stream(self, target: Target, body: Body, *, key: str) -> Receipt:
        """Start a message. The receipt's id is the id of the stream. `key` as in `post`."""
        ...

    async def append_stream(self, target: Target, stream_id: str, text: str, tasks: tuple[Task, ...] = ()) -> None:
        """Append text, and show the current state of these tasks. Not idempotent: a second call appends again."""
        ...

    async def close_stream(self, target: Target, stream_id: str, body: Body, tasks: tuple[Task, ...] = ()) -> Receipt:
        """Close the stream as a message with this body. Idempotent: a closed stream gets the body by an edit.

        Raises `SendRefused(gone=True)` if the message does not exist any more.
        """
        ...


@runtime_checkable
class ShowsDrafts(Protocol):
    """A channel whose platform shows drafts: text that is not a message yet."""

    async def draft(self, target: Target, draft_id: int, body: Body) -> None:
        """Show the draft in place of what the same draft showed before. The platform removes it after a while."""
        ...


@runtime_checkable
class ReadsBack(Protocol):
    """A channel that can look up what it has sent."""

    async def find(self, target: Target, key: str) -> Receipt | None:
        """Look up the message with this key. Returns None only if it surely does not exist.

        Raises an error if that cannot be found out; the caller asks again later.
        """
        ...


class Ledger(Protocol):
    """The durable record: which deliveries were decided, and what is known of their arrival.

    - **Durable.** A coroutine that changes something returns after the change is safe against loss of power.
    - **Atomic.** A coroutine that raises has changed nothing, with two exceptions: after `LedgerLost` the result is
      unknown and the process must end; and a cancelled call still makes a change that was submitted.
    - **Ordered.** Calls take effect in the order in which they were made, awaited or not.
    - **Owned.** There is one owner, the writer. Each opening has a higher `epoch` than all before. Rows carry the epoch
      of their owner, and a change of a row that has changed since the caller read it raises `Fenced`.

    `LedgerUnavailable` means that the same call may work later.
    """

    epoch: int

    async def accept(self, inbound: Inbound) -> str:
        """Record an incoming event and its turn (`accepted`) in one step. Returns the id of the turn.

        Idempotent: a known event (same channel, account and event id) changes nothing and gives its first turn.
        """
        ...

    async def begin(self, turn: Turn) -> Turn:
        """Set a turn to `running`, owned by this owner. Creates it if it is new; counts the attempt.

        A turn that has ended is returned unchanged: nothing is left to send.
        """
        ...

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """Save the current text of a running turn of this owner: with the next change, at the latest in two seconds.

        The latest snapshot wins. One that cannot be saved is dropped without an error.
        """
        ...

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """End a turn and record its last deliveries in one step. Returns those as `plan` does.

        `turn` is the turn as the caller last saw it. Raises `Fenced` if it has ended or another owner has it. A turn of
        an older epoch can be ended: that is how interrupted turns are closed.
        """
        ...

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record new deliveries in their order, all or none. Returns each as it is recorded now.

        Idempotent: a known delivery (same turn and ordinal) is returned as it is recorded, whoever owns it. Raises
        `TurnMismatch` if it is known with another fingerprint. The first delivery may be passed as `sending`: it is
        recorded so if it is new and no earlier delivery of its conversation is open, and as `planned` otherwise.
        """
        ...

    async def move(self, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """Replace rows by their next states, each as (last seen, next), all or none. Returns the next states.

        Each change must be one of `EDGES`. Raises `Fenced` if a row is not as last seen (owner, state, attempt), or if
        it would become `sending` while an earlier delivery of its conversation is open. The deliveries in `plan` are
        recorded right behind the row of the first move, for notices and replacements; known ones are skipped.
        """
        ...

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        """Take over the first open deliveries of a conversation and return them in order.

        Rows of an older epoch change as `deliveries.adopted` says. Stops before a row whose state is unknown, because a
        newer version wrote it: that row and all behind it wait.
        """
        ...

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """Conversations with open deliveries, sorted by name, starting behind the name `after`."""
        ...

    async def interrupted_turns(self, *, state: TurnState = TurnState.RUNNING, limit: int = 256) -> list[Turn]:
        """Turns in that open state (`running` or `accepted`) whose owner is gone: those of an older epoch."""
        ...

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """Deliveries that match, newest first, starting behind the position `after`."""
        ...

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """Delete up to `limit` final deliveries that match, with their ended turns and events. Returns how many.

        With `bodies` the rows stay and only their content is deleted. Open deliveries are never touched.
        """
        ...

    async def close(self) -> None:
        """Write what was submitted, then close. May be called twice."""
        ...


@runtime_checkable
class ProcessingMessages(Protocol):
    """A place that can show a processing message: one message per turn, with its tools and the text so far.

    Each method may be a plain function or a coroutine function. One call is made at a time. A method that fails raises;
    it is called again later, with the text of that time.
    """

    def create_processing_message(self, source_id: str, text: str, metadata: Any) -> str | Awaitable[str]:
        """Send the message and return its id. `metadata` is what the caller passed for this turn."""
        ...

    def update_processing_message(
        self, source_id: str, message_id: str, text: str, metadata: Any
    ) -> Awaitable[None] | None:
        """Replace the whole text of the message."""
        ...
