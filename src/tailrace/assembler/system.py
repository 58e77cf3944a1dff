"""Routes what the system says while no turn is open.

While a turn is open such a remark is an event of the turn and goes through the fold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.chunks import Message, SystemChunk, SystemEvent

if TYPE_CHECKING:
    from collections.abc import Callable


def apply_system_event(messages: list[Message], event: SystemEvent, id_factory: Callable[[], str] | None = None) -> str:
    """Add the remark to the conversation and return the id of the message that holds it now.

    That is the last message if it is the system's, else a new one, whose id `id_factory` makes. Without a
    factory the id is new among `messages` only; whoever keeps messages elsewhere too gives one.
    """
    chunk = SystemChunk(kind=event.kind, text=event.text)
    if messages and messages[-1].role == "system":
        messages[-1].chunks.append(chunk)
    else:
        new_id = id_factory() if id_factory is not None else _unused_id(messages)
        messages.append(Message(id=new_id, role="system", chunks=[chunk]))
    return messages[-1].id


def _unused_id(messages: list[Message]) -> str:
    """An id that no message has; counted and not drawn, because this room draws no randomness."""
    taken = {message.id for message in messages}
    number = len(messages) + 1
    while (candidate := f"system-{number}") in taken:
        number += 1
    return candidate
