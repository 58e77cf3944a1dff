"""The one fold: what each event does to the chunks of a message.

The chunks are all the state there is, so whoever holds a list can fold on, and the browser runs the same fold
(`tests/vectors/fold.json` holds both to the same answers). Which event may follow which is for
`tailrace.contract` to say; any sequence of events folds, also one the contract would refuse.

An open text block is a last chunk that is text and not sealed; whoever speaks goes on in it. Who said what of a
block is remembered beside it: what one speaker says, corrects and takes back comes out as if nobody else spoke, however
they interrupt each other. Only the agent's retraction of the turn takes back what its subagents said. An open thinking
chunk is a last chunk that is thinking and has no metadata yet. Nothing else is ever open.
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
    settle,
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
    """Fold one event into the chunks, in place; what text is already there does not add to the cost."""
    if type(event) is TextDelta and event.parent_tool_id is None:
        # Nearly every event is a piece for the open block, and only an open block has a `tail`: this one
        # attempt asks all there is to ask.
        try:
            tail = chunks[-1].tail  # type: ignore[union-attr]  # a chunk without is the case below
        except (IndexError, AttributeError):
            _text_delta(chunks, event)
            return
        tail.append(event.text)
        if len(tail) > MANY_PIECES:
            settle(tail)
        return
    fold = _FOLDS.get(type(event))
    if fold is not None:
        fold(chunks, event)


def _text_delta(chunks: list[Chunk], event: TextDelta) -> None:
    last = chunks[-1] if chunks else None
    if isinstance(last, TextChunk) and last.is_open_to(event.parent_tool_id):
        last.say(event.text, event.parent_tool_id)
    else:
        chunks.append(_block(event.text, event.parent_tool_id))


def _block_final(chunks: list[Chunk], event: BlockFinal) -> None:
    speaker = event.parent_tool_id
    blocks = _open_blocks(chunks, speaker)
    if not blocks and event.text:
        blocks = [_block(event.text, speaker)]
        chunks += blocks
    elif blocks and event.text is not None:
        # One that others interrupted is whole again where it began.
        for nth, block in enumerate(blocks):
            block.correct(speaker, event.text if nth == 0 else "")
            if not block.text:
                # A chunk of nothing is none.
                del chunks[next(at for at in reversed(range(len(chunks))) if chunks[at] is block)]
    for block in blocks:
        if block.speaks(speaker):
            block.seal(speaker)


def _open_blocks(chunks: list[Chunk], speaker: str | None) -> list[TextChunk]:
    """What one speaker is at, in order: the blocks since the last other chunk that the speaker is not done with."""
    found: list[TextChunk] = []
    for chunk in reversed(chunks):
        if not isinstance(chunk, TextChunk):
            break
        if chunk.speaks(speaker):
            if not chunk.is_open_to(speaker):
                break
            found.insert(0, chunk)
    return found


def _text_retracted(chunks: list[Chunk], event: TextRetracted) -> None:
    speaker = event.parent_tool_id
    if event.scope == "turn" and speaker is None:
        chunks[:] = [chunk for chunk in chunks if type(chunk) is not TextChunk]
        return
    first = 0
    if event.scope == "block":
        first = next((at + 1 for at in reversed(range(len(chunks))) if type(chunks[at]) is not TextChunk), 0)
    chunks[first:] = [
        chunk for chunk in chunks[first:] if not (type(chunk) is TextChunk and _is_emptied(chunk, speaker))
    ]


def _is_emptied(block: TextChunk, speaker: str | None) -> bool:
    """Take back what one said in a block; whether nothing is left of it."""
    if not block.speaks(speaker):
        return False
    block.correct(speaker, "")
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
    # What a subagent said is not the answer.
    if event.text and not any(type(chunk) is TextChunk and chunk.text and chunk.speaks(None) for chunk in chunks):
        append_event_to_chunks(chunks, TextDelta(text=event.text))


# The table of effects beside text; an event that is not in it does nothing to the chunks.
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


def _block(text: str, speaker: str | None) -> TextChunk:
    """A block that somebody begins."""
    if speaker is None:
        return TextChunk(text=text)
    block = TextChunk(text="")
    block.say(text, speaker)
    return block


def _newest_call(chunks: list[Chunk], call_id: str | None) -> ToolCall | None:
    """The newest call with that id, because runtimes use ids again; without an id the newest call of all."""
    for chunk in reversed(chunks):
        if isinstance(chunk, ToolBatchChunk):
            for call in reversed(chunk.calls):
                if call_id is None or call.id == call_id:
                    return call
    return None
