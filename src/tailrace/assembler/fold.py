"""The fold: a function that applies one event at a time to the chunks of a message.

The chunks are the whole state, so a caller can continue with any list of chunks. `tests/vectors/fold.json` has events
with the chunks that they must give, so that a fold in another language can be tested too. `tailrace.contract` owns
which event may follow which; the fold accepts any sequence, also one that the contract would refuse.

Only the last chunk can be open, so that new text continues it. A text block is open until it is sealed, a thinking
chunk until it has metadata. The agent and its subagents may write into one block. The block remembers who wrote what,
so that a sender corrects or retracts only its own text. Only the agent's retraction of the whole turn also removes text
of subagents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tailrace.chunks import (
    MANY_PIECES,
    Chunk,
    ErrorChunk,
    ShellOutput,
    SystemChunk,
    TextChunk,
    ThinkingChunk,
    ToolBatchChunk,
    ToolCall,
    join_small_pieces,
)
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Event,
    ModelChanged,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def append_event_to_chunks(chunks: list[Chunk], event: Event) -> None:
    """Apply one event to the chunks, in place. A long text before the event does not make this slower."""
    if type(event) is TextDelta and event.parent_tool_id is None:
        # Nearly every event is text for the open block, and only an open block has a `tail`: so this one attempt
        # replaces all checks.
        try:
            tail = chunks[-1].tail  # type: ignore[union-attr]  # `except` handles a chunk without a tail
        except (IndexError, AttributeError):
            _text_delta(chunks, event)
            return
        tail.append(event.text)
        if len(tail) > MANY_PIECES:
            join_small_pieces(tail)
        return
    fold = _FOLDS.get(type(event))
    if fold is not None:
        fold(chunks, event)


def _text_delta(chunks: list[Chunk], event: TextDelta) -> None:
    last = chunks[-1] if chunks else None
    if isinstance(last, TextChunk) and last.is_open_to(event.parent_tool_id):
        last.append(event.text, event.parent_tool_id)
    else:
        chunks.append(_block(event.text, event.parent_tool_id))


def _block_final(chunks: list[Chunk], event: BlockFinal) -> None:
    sender = event.parent_tool_id
    blocks = _open_blocks(chunks, sender)
    if not blocks and event.text:
        blocks = [_block(event.text, sender)]
        chunks += blocks
    elif blocks and event.text is not None:
        # Chunks of other senders may have split the text into several blocks. The first block gets the whole text.
        for nth, block in enumerate(blocks):
            block.replace(sender, event.text if nth == 0 else "")
            if not block.text:
                # A block without text is removed.
                del chunks[next(index for index in reversed(range(len(chunks))) if chunks[index] is block)]
    for block in blocks:
        if block.has_text_of(sender):
            block.seal(sender)


def _open_blocks(chunks: list[Chunk], sender: str | None) -> list[TextChunk]:
    """The blocks at the end of the chunks that have text of the sender and are still open to it, in order.

    A chunk that is not text, such as a tool call, ends the search.
    """
    found: list[TextChunk] = []
    for chunk in reversed(chunks):
        if not isinstance(chunk, TextChunk):
            break
        if chunk.has_text_of(sender):
            if not chunk.is_open_to(sender):
                break
            found.insert(0, chunk)
    return found


def _text_retracted(chunks: list[Chunk], event: TextRetracted) -> None:
    sender = event.parent_tool_id
    if event.scope == "turn" and sender is None:
        chunks[:] = [chunk for chunk in chunks if type(chunk) is not TextChunk]
        return
    first = 0
    if event.scope == "block":
        first = next((n + 1 for n in reversed(range(len(chunks))) if type(chunks[n]) is not TextChunk), 0)
    chunks[first:] = [
        chunk for chunk in chunks[first:] if not (type(chunk) is TextChunk and _remove_text_of(chunk, sender))
    ]


def _remove_text_of(block: TextChunk, sender: str | None) -> bool:
    """Remove the text of a sender from a block. Returns True if the block is empty afterwards."""
    if not block.has_text_of(sender):
        return False
    block.replace(sender, "")
    return not block.text


def _reasoning_delta(chunks: list[Chunk], event: ReasoningDelta) -> None:
    last = chunks[-1] if chunks else None
    if isinstance(last, ThinkingChunk) and last.metadata is UNSET:
        last.grow(event.text)
    else:
        chunks.append(ThinkingChunk(text=event.text))


def _reasoning_end(chunks: list[Chunk], event: ReasoningEnd) -> None:
    if event.metadata is None:
        return
    for chunk in reversed(chunks):
        if isinstance(chunk, ThinkingChunk):
            if chunk.metadata is UNSET:
                chunk.metadata = event.metadata
            return


def _tool_started(chunks: list[Chunk], event: ToolStarted) -> None:
    call = ToolCall(id=event.id, name=event.name, arguments=event.arguments)
    last = chunks[-1] if chunks else None
    if isinstance(last, ToolBatchChunk):
        last.calls.append(call)
    else:
        chunks.append(ToolBatchChunk(calls=[call]))


def _tool_input(chunks: list[Chunk], event: ToolInput) -> None:
    call = _newest_call(chunks, event.id)
    if call is not None:
        call.arguments = event.arguments


def _tool_output(chunks: list[Chunk], event: ToolOutput) -> None:
    call = _newest_call(chunks, event.id)
    if call is None:
        return
    if call.shell_output is UNSET:
        call.shell_output = ShellOutput()
    call.shell_output.grow(event.stream, event.data)


def _tool_finished(chunks: list[Chunk], event: ToolFinished) -> None:
    call = _newest_call(chunks, event.id)
    if call is not None:
        call.result = event.result
        call.is_error = event.is_error


def _error(chunks: list[Chunk], event: Error | TurnFailed) -> None:
    chunks.append(ErrorChunk(message=event.message, status_code=event.status_code))


def _notice(chunks: list[Chunk], event: Notice) -> None:
    chunks.append(SystemChunk(kind="notice", text=event.text))


def _model_changed(chunks: list[Chunk], event: ModelChanged) -> None:
    chunks.append(SystemChunk(kind="model-changed", text=f"Switched to {event.model_id} ({event.key_id})"))


def _config_reloaded(chunks: list[Chunk], _event: ConfigReloaded) -> None:
    chunks.append(SystemChunk(kind="config-reload", text="Configuration reloaded"))


def _turn_completed(chunks: list[Chunk], event: TurnCompleted) -> None:
    # Text of a subagent does not count, because it is not the answer.
    if event.text and not any(type(chunk) is TextChunk and chunk.text and chunk.has_text_of(None) for chunk in chunks):
        append_event_to_chunks(chunks, TextDelta(text=event.text))


# The effect of each event. An event that is not in the table changes no chunk.
_FOLDS: dict[type, Callable[[list[Chunk], Any], None]] = {
    TextDelta: _text_delta,
    BlockFinal: _block_final,
    TextRetracted: _text_retracted,
    ReasoningDelta: _reasoning_delta,
    ReasoningEnd: _reasoning_end,
    ToolStarted: _tool_started,
    ToolInput: _tool_input,
    ToolOutput: _tool_output,
    ToolFinished: _tool_finished,
    Error: _error,
    TurnFailed: _error,
    Notice: _notice,
    ModelChanged: _model_changed,
    ConfigReloaded: _config_reloaded,
    TurnCompleted: _turn_completed,
}


def _block(text: str, sender: str | None) -> TextChunk:
    """A new text block that begins with this text of the sender."""
    if sender is None:
        return TextChunk(text=text)
    block = TextChunk(text="")
    block.append(text, sender)
    return block


def _newest_call(chunks: list[Chunk], call_id: str | None) -> ToolCall | None:
    """The newest tool call with that id; if `call_id` is None, the newest call of all. Runtimes may use an id again."""
    for chunk in reversed(chunks):
        if isinstance(chunk, ToolBatchChunk):
            for call in reversed(chunk.calls):
                if call_id is None or call.id == call_id:
                    return call
    return None
