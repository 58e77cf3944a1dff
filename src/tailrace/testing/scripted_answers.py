"""Chooses the answer of the scripted model to a request, in the same way for every API.

An API parses a request into a `ModelRequest`: the texts of the conversation, the offered tools, and the form of the
answer. `answer_to` finds the scenario that the newest marked prompt names (`[[scenario:NAME]]`), and counts the answers
after that prompt. The API then writes the `Answer` in its own format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from tailrace.testing.scripted_scenarios import (
    Call,
    Disconnect,
    Fail,
    HttpError,
    Move,
    Say,
    Scenario,
    Stall,
    Think,
    carried_out,
)

_MARK = re.compile(r"\[\[scenario:([a-z0-9_-]+)\]\]")
_PIECE = 12
_PLAIN: Scenario = ((Say(("Understood.",)),),)


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that is needed to choose the answer.

    `said` has the turns of the conversation in order: the text of a prompt, or None for an answer of the model.
    `groups` maps the name of a tool to the name of its group, if it is offered in a group.
    """

    said: list[str | None]
    tools: frozenset[str]
    groups: dict[str, str] = {}
    model: str
    is_streamed: bool
    with_thoughts: bool = True
    as_json: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen answer to a request: the moves to make, or the HTTP error to send instead (`refusal`)."""

    request: ModelRequest
    number: int
    scenario: str
    turn: int
    moves: tuple[Move, ...] = ()
    refusal: HttpError | None = None

    @property
    def text(self) -> str:
        """The whole text of the answer."""
        return "".join(piece for move in self.moves if isinstance(move, Say) for piece in move.pieces)

    def runs(self) -> Iterator[tuple[int, Move, bool]]:
        """Each move with its position, and whether it is complete: False if the answer breaks off after this move."""
        for index, move in enumerate(self.moves):
            after = self.moves[index + 1] if index + 1 < len(self.moves) else None
            yield index, move, not isinstance(after, Fail | Disconnect | Stall)


class Pause(msgspec.Struct, frozen=True):
    """Part of a stream: send nothing for some seconds."""

    seconds: float


# The pieces of a stream: bytes to send, and what happens to the connection between them.
Piece: TypeAlias = bytes | Stall | Disconnect | Pause


class Api(Protocol):
    """The API of a model provider: parses its requests and writes answers in its format."""

    name: str

    def parse(self, body: Mapping[str, Any]) -> ModelRequest:
        """Parse the body of a request."""
        ...

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The whole answer as one JSON object."""
        ...

    def stream(self, answer: Answer) -> Iterator[Piece]:
        """The answer as server-sent events."""
        ...

    def refusal(self, refuse: HttpError) -> dict[str, Any]:
        """The body of a response that refuses the request with an HTTP error."""
        ...


def answer_to(request: ModelRequest, scenarios: Mapping[str, Scenario], *, number: int, unmarked: str = "") -> Answer:
    """Choose the answer to a request.

    If no prompt names a scenario, `unmarked` is used, or a fixed text if that is empty.
    """
    marks = [(at, name) for at, text in enumerate(request.said) if text is not None for name in _MARK.findall(text)]
    begun, scenario = marks[-1] if marks else (0, unmarked)
    turn = sum(text is None for text in request.said[begun:])
    answers = scenarios.get(scenario, _PLAIN)
    steps = answers[min(turn, len(answers) - 1)]
    if isinstance(steps[0], HttpError):
        return Answer(request=request, number=number, scenario=scenario, turn=turn, refusal=steps[0])
    moves = [carried_out(step, request.tools, [name for at, name in marks if at < begun]) for step in steps]
    if not request.with_thoughts:
        moves = [move for move in moves if not isinstance(move, Think)]
    return Answer(request=request, number=number, scenario=scenario, turn=turn, moves=tuple(moves))


def event(value: Mapping[str, Any] | str, name: str = "") -> bytes:
    """Encode one server-sent event. `name` is its type."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def paced(say: Say, frames: Iterable[bytes]) -> Iterator[Piece]:
    """Yield the frames of a text. After each frame comes a pause, if the step has `every_s`."""
    for frame in frames:
        yield frame
        if say.every_s:
            yield Pause(say.every_s)


def arguments_of(call: Call) -> str:
    """The arguments of a tool call as the model writes them."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def in_pieces(text: str) -> list[str]:
    """Cut a text into small pieces, as a model sends it."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def text_of(content: Any) -> str:
    """The text of a message. Its content is a text, or a list of parts; parts without text count as empty."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
