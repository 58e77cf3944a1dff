"""Adds system events, such as "another model answers now", to a conversation while no turn is open.

During a turn, the fold adds them like all other events.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tailrace.chunks import Message, SystemChunk, SystemEvent

if TYPE_CHECKING:
    from collections.abc import Callable


def _random_id() -> str:
    return str(uuid.uuid4())


def apply_system_event(messages: list[Message], event: SystemEvent, id_factory: Callable[[], str] = _random_id) -> str:
    """Add a system event to the conversation. Returns the id of the message that holds it.

    If the last message has the role `system`, the event becomes a further chunk of it. Otherwise a new message is
    added, with an id from `id_factory`.
    """
    chunk = SystemChunk(kind=event.kind, text=event.text)
    if messages and messages[-1].role == "system":
        messages[-1].chunks.append(chunk)
    else:
        messages.append(Message(id=id_factory(), role="system", chunks=[chunk]))
    return messages[-1].id
