"""What the edges provide: the protocols a runtime and a channel fulfil, and what passes between them.

A port is one small shape. What only some channels can do is a protocol of its own, found by `isinstance`;
there are no flags. The docstrings are the contract an implementation is held to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

import msgspec

from tailrace.events import Event


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
