"""What Claude asks while it works: may this tool be used, or which of these does the person want.

The command writes such a request as a line among the others and waits for a line in return; the SDK calls a function
for the same. Owns what a request asks in our words, and what is answered in theirs. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.runtimes.permissions import Choice, Question
from tailrace.runtimes.surrogates import decode_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_ONCE = Choice(id="once", name="Allow", kind="allow_once")
_ALWAYS, _NEVER = "always", Choice(id="deny", name="Deny", kind="reject_once")
_DENIED = "The person did not allow this."
# Claude's own way to ask the person, whose answers go back as arguments of the tool.
_QUESTION_TOOL = "AskUserQuestion"
_NONE = Choice(id="none", name="None of these", kind="reject_once")
_UNANSWERED = "The person chose none of these. Ask in your answer instead, or decide by yourself."
_NOBODY = "Nobody can choose from a list here. Ask in your answer instead, or decide by yourself."


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that Claude wants to use, as the command and the SDK tell of it."""

    tool_name: str
    input: dict[str, Any] = {}
    permission_suggestions: list[Any] | None = None
    title: str | None = None
    description: str | None = None


class _Request(msgspec.Struct, tag="control_request"):
    request_id: str
    request: dict[str, Any]


_decoder = msgspec.json.Decoder(_Request)


class Asked(msgspec.Struct, frozen=True):
    """A request, by its id, and the tool that it is about; None where it asks for something else."""

    id: str
    tool: ToolRequest | None


def asked_in(line: bytes) -> Asked | None:
    """The request that a line is; None for any other line."""
    if b'"control_request"' not in line:
        return None
    try:
        message = decode_line(line, _decoder)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    try:
        is_tool = message.request.get("subtype") == "can_use_tool"
        return Asked(message.request_id, msgspec.convert(message.request, ToolRequest) if is_tool else None)
    except msgspec.ValidationError:
        return Asked(message.request_id, None)


class _Option(msgspec.Struct):
    label: str
    description: str = ""


class _Choosing(msgspec.Struct):
    question: str
    options: list[_Option]


class _Questions(msgspec.Struct):
    questions: list[_Choosing]


def is_for_a_person(tool: ToolRequest) -> bool:
    """Whether only a person can answer it: nothing is to be allowed, something is to be known."""
    return tool.tool_name == _QUESTION_TOOL


def questions_of(tool: ToolRequest, *, has_person: bool) -> list[Question]:
    """What is to be decided, one after the other; none for what only a person could answer, and nobody is there."""
    if is_for_a_person(tool):
        asked = _asked_of_a_person(tool) if has_person else []
        return [Question(title=each.question, choices=(*map(_answer, each.options), _NONE)) for each in asked]
    always = _rule(tool)
    choices = (_ONCE, *((Choice(id=_ALWAYS, name=_named(always), kind="allow_always"),) if always else ()), _NEVER)
    title = tool.title or f"Claude wants to use {tool.tool_name}"
    return [Question(title=title, arguments=tool.input, choices=choices)]


def _asked_of_a_person(tool: ToolRequest) -> list[_Choosing]:
    try:
        return msgspec.convert(tool.input, _Questions).questions
    except msgspec.ValidationError:
        return []


def _answer(option: _Option) -> Choice:
    name = f"{option.label}: {option.description}" if option.description else option.label
    return Choice(id=option.label, name=name, kind="answer")


def is_settled(questions: Sequence[Question], choices: Sequence[Choice | None]) -> bool:
    """Whether nothing is left to ask: everything was answered, or something was not."""
    last = choices[-1]
    return len(choices) == len(questions) or last is None or last.kind.startswith("reject")


def decision(tool: ToolRequest, choices: Sequence[Choice | None]) -> dict[str, Any]:
    """What was decided, in Claude's words; nothing chosen denies it."""
    last = choices[-1] if choices else None
    if last is None or last.kind.startswith("reject"):
        return {"behavior": "deny", "message": _refusal(last) if is_for_a_person(tool) else _DENIED}
    allowed: dict[str, Any] = {"behavior": "allow", "updatedInput": tool.input}
    if is_for_a_person(tool):
        pairs = zip(_asked_of_a_person(tool), choices, strict=True)
        answers = {asked.question: choice.id for asked, choice in pairs if choice is not None}
        allowed["updatedInput"] = {**tool.input, "answers": answers}
    elif last.id == _ALWAYS and (rule := _rule(tool)) is not None:
        allowed["updatedPermissions"] = [rule]
    return allowed


def _refusal(choice: Choice | None) -> str:
    return _NOBODY if choice is None else _UNANSWERED


def response(request_id: str, decided: dict[str, Any] | None) -> bytes:
    """The line that answers a request; None for one that nobody here understands."""
    answer = (
        {"subtype": "error", "request_id": request_id, "error": "this is not known here"}
        if decided is None
        else {"subtype": "success", "request_id": request_id, "response": decided}
    )
    return msgspec.json.encode({"type": "control_response", "response": answer})


def spoken(text: str) -> dict[str, Any]:
    """What the person says, as a line of `--input-format stream-json`."""
    message = {"role": "user", "content": text}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}


def _rule(tool: ToolRequest) -> dict[str, Any] | None:
    """The rule that Claude suggests to keep for this tool, if there is one that allows no more than is said."""
    for suggestion in tool.permission_suggestions or ():
        match suggestion:
            case {"type": "addRules", "behavior": "allow", "rules": [{"toolName": str()}]}:
                return dict(suggestion)
            case _:
                pass
    return None


def _named(rule: dict[str, Any]) -> str:
    (allowed,) = rule["rules"]
    what = allowed.get("ruleContent")
    return f"Always allow {allowed['toolName']}({what})" if what else f"Always allow {allowed['toolName']}"
