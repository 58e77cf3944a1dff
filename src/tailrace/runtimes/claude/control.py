"""Claude's requests during a turn: for permission to use a tool, or for the user's choice between answers.

The command `claude` writes such a request as one of its output lines and waits for a line in return; the SDK calls a
function instead. This module converts requests to questions, and choices to responses. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.runtimes.permissions import Choice, Question
from tailrace.surrogates import decode_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_ONCE = Choice(id="once", name="Allow", kind="allow_once")
_ALWAYS, _NEVER = "always", Choice(id="deny", name="Deny", kind="reject_once")
_DENIED = "The person did not allow this."
# The tool with which Claude asks the user. Claude gets the answers as arguments of the tool.
_QUESTION_TOOL = "AskUserQuestion"
_NONE_OF_THESE = Choice(id="none", name="None of these", kind="reject_once")
_UNANSWERED = "The person chose none of these. Ask in your answer instead, or decide by yourself."
_NO_PERSON = "No person can choose from a list here. Ask in your answer instead, or decide by yourself."


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that Claude asks to use, in the fields that the command and the SDK have in common."""

    tool_name: str
    input: dict[str, Any] = {}
    permission_suggestions: list[Any] | None = None
    title: str | None = None
    description: str | None = None


class _Request(msgspec.Struct, tag="control_request"):
    request_id: str
    request: dict[str, Any]


_decoder = msgspec.json.Decoder(_Request)


class ControlRequest(msgspec.Struct, frozen=True):
    """A request of the command `claude`: its id, and the tool that needs permission.

    `tool` is None for any other request.
    """

    id: str
    tool: ToolRequest | None


def parse_request(line: bytes) -> ControlRequest | None:
    """Parse a line as a request; None for any other line."""
    if b'"control_request"' not in line:
        return None
    try:
        message = decode_line(line, _decoder)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    try:
        is_tool = message.request.get("subtype") == "can_use_tool"
        return ControlRequest(message.request_id, msgspec.convert(message.request, ToolRequest) if is_tool else None)
    except msgspec.ValidationError:
        return ControlRequest(message.request_id, None)


class _Option(msgspec.Struct):
    label: str
    description: str = ""


class _UserQuestion(msgspec.Struct):
    question: str
    options: list[_Option]


class _Questions(msgspec.Struct):
    questions: list[_UserQuestion]


def needs_person(tool: ToolRequest) -> bool:
    """Whether only a person can answer: the tool asks the user a question, so permission alone is no answer."""
    return tool.tool_name == _QUESTION_TOOL


def questions_of(tool: ToolRequest, *, has_person: bool) -> list[Question]:
    """The questions to decide, in order. Empty if only a person can answer but no person can be asked."""
    if needs_person(tool):
        asked = _user_questions(tool) if has_person else []
        return [
            Question(title=one.question, choices=(*map(_answer_choice, one.options), _NONE_OF_THESE)) for one in asked
        ]
    always = _suggested_rule(tool)
    choices = (_ONCE, *((Choice(id=_ALWAYS, name=_rule_label(always), kind="allow_always"),) if always else ()), _NEVER)
    title = tool.title or f"Claude wants to use {tool.tool_name}"
    return [Question(title=title, arguments=tool.input, choices=choices)]


def _user_questions(tool: ToolRequest) -> list[_UserQuestion]:
    try:
        return msgspec.convert(tool.input, _Questions).questions
    except msgspec.ValidationError:
        return []


def _answer_choice(option: _Option) -> Choice:
    name = f"{option.label}: {option.description}" if option.description else option.label
    return Choice(id=option.label, name=name, kind="answer")


def is_decided(questions: Sequence[Question], choices: Sequence[Choice | None]) -> bool:
    """Whether no further question must be asked: every question has an answer, or one was denied."""
    last = choices[-1]
    return len(choices) == len(questions) or last is None or last.kind.startswith("reject")


def permission_result(tool: ToolRequest, choices: Sequence[Choice | None]) -> dict[str, Any]:
    """The decision in Claude's format. Without a choice, the tool is denied."""
    last = choices[-1] if choices else None
    if last is None or last.kind.startswith("reject"):
        return {"behavior": "deny", "message": _denial_message(last) if needs_person(tool) else _DENIED}
    allowed: dict[str, Any] = {"behavior": "allow", "updatedInput": tool.input}
    if needs_person(tool):
        pairs = zip(_user_questions(tool), choices, strict=True)
        answers = {question.question: choice.id for question, choice in pairs if choice is not None}
        allowed["updatedInput"] = {**tool.input, "answers": answers}
    elif last.id == _ALWAYS and (rule := _suggested_rule(tool)) is not None:
        allowed["updatedPermissions"] = [rule]
    return allowed


def _denial_message(choice: Choice | None) -> str:
    return _NO_PERSON if choice is None else _UNANSWERED


def control_response(request_id: str, result: dict[str, Any] | None) -> bytes:
    """The line that answers a request. If `result` is None, the line says that the request is unknown."""
    answer = (
        {"subtype": "error", "request_id": request_id, "error": "unknown request"}
        if result is None
        else {"subtype": "success", "request_id": request_id, "response": result}
    )
    return msgspec.json.encode({"type": "control_response", "response": answer})


def user_message(text: str) -> dict[str, Any]:
    """The user's prompt as a line of `--input-format stream-json`."""
    message = {"role": "user", "content": text}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}


def _suggested_rule(tool: ToolRequest) -> dict[str, Any] | None:
    """The permission rule that Claude suggests to store. None if the rule allows more than its label says."""
    for suggestion in tool.permission_suggestions or ():
        match suggestion:
            case {"type": "addRules", "behavior": "allow", "rules": [{"toolName": str()}]}:
                return dict(suggestion)
            case _:
                pass
    return None


def _rule_label(rule: dict[str, Any]) -> str:
    (allowed,) = rule["rules"]
    content = allowed.get("ruleContent")
    return f"Always allow {allowed['toolName']}({content})" if content else f"Always allow {allowed['toolName']}"
