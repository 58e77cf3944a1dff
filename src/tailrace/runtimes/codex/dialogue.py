"""The talk with `codex app-server`: JSON-RPC, one message a line, in both directions.

Owns what is said to the server and when: who we are, which thread to go on with, the prompt, an interruption, and the
answers to what it asks. What it tells of the turn is the translator's. The server's requests count from 0, and it
leaves out which version of JSON-RPC it speaks.

Pure: `feed` what it writes, send it what `outgoing` gives, put the `questions` to whoever decides.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.runtimes.codex.items import unwrapped
from tailrace.runtimes.codex.translator import CodexTranslator
from tailrace.runtimes.permissions import Choice, Question
from tailrace.runtimes.surrogates import decode_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events import Event

_NO_SUCH_METHOD = -32601
_CLIENT = {"name": "tailrace", "title": "tailrace", "version": version("tailrace")}


class _RpcError(msgspec.Struct):
    message: str = ""


class _Message(msgspec.Struct):
    """A request, a notification or an answer: what it is shows in what it has."""

    id: int | str | None = None
    method: str | None = None
    params: Any = None
    result: Any = None
    error: _RpcError | None = None


_decoder = msgspec.json.Decoder(_Message)


class _Thread(msgspec.Struct):
    id: str


class _ThreadOpened(msgspec.Struct):
    thread: _Thread


class _TurnBegun(msgspec.Struct):
    turn: _Thread


class Asked(msgspec.Struct, frozen=True):
    """A question of the server's, and the request that it came with."""

    id: int | str
    method: str
    params: dict[str, Any]
    question: Question


class CodexDialogue:
    """One turn with the server. `thread_id` is the thread to go on with, and then the one it is."""

    def __init__(
        self, text: str, *, thread_id: str = "", cwd: str | None = None, warned: set[str] | None = None
    ) -> None:
        self.thread_id = thread_id
        self.has_answered = False
        self.translator = CodexTranslator(warned)
        self._text = text.encode(errors="replace").decode()
        self._place = {} if cwd is None else {"cwd": cwd}
        self._turn_id = ""
        self._awaited: dict[int, Callable[[_Message], list[Event]]] = {}
        self._requests = 0
        self._outgoing: list[bytes] = []
        self._questions: list[Asked] = []
        self._ask("initialize", {"clientInfo": _CLIENT}, self._initialized)

    def outgoing(self) -> list[bytes]:
        """What is to be sent now, a line each."""
        lines, self._outgoing = self._outgoing, []
        return lines

    def questions(self) -> list[Asked]:
        """What the server wants to be allowed, to be answered by `answer`."""
        asked, self._questions = self._questions, []
        return asked

    def feed(self, line: bytes) -> list[Event]:
        """One line of the server's."""
        try:
            message = decode_line(line, _decoder)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self.translator.wonder("line", line.decode(errors="replace"))
        if message.method is not None and message.id is not None:
            return self._requested(message.id, message.method, message.params)
        if message.method is not None:
            return self.translator.feed(message.method, message.params)
        awaited = self._awaited.pop(message.id, None) if isinstance(message.id, int) else None
        if awaited is None:
            return []
        self.has_answered = True
        try:
            return awaited(message)
        except msgspec.ValidationError as error:
            return self.translator.fail(f"codex answered what is not understood: {error}")

    def interrupt(self) -> None:
        """Ask that the turn be stopped, if there is one to stop."""
        if self._turn_id and not self.translator.is_over:
            self._ask("turn/interrupt", {"threadId": self.thread_id, "turnId": self._turn_id}, lambda _: [])

    def answer(self, asked: Asked, choice: Choice | None) -> None:
        """What was decided; nothing chosen denies it."""
        allowed = choice is not None and choice.kind.startswith("allow")
        if asked.method == "item/permissions/requestApproval":
            result: Any = {"permissions": asked.params.get("permissions", {}) if allowed else {}}
        elif asked.method == "mcpServer/elicitation/request":
            result = {"action": "accept", "content": {}} if allowed else {"action": "decline"}
        else:
            denied = asked.question.denying()
            chosen = choice or denied
            assert chosen is not None, "every question can be denied"
            result = {"decision": chosen.id}
        self._send({"id": asked.id, "result": result})

    # What we say

    def _send(self, message: dict[str, Any]) -> None:
        self._outgoing.append(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def _ask(self, method: str, params: dict[str, Any], then: Callable[[_Message], list[Event]]) -> None:
        self._requests += 1
        self._awaited[self._requests] = then
        self._send({"id": self._requests, "method": method, "params": params})

    def _initialized(self, answer: _Message) -> list[Event]:
        if answer.error is not None:
            return self.translator.fail(answer.error.message)
        self._send({"method": "initialized"})
        if self.thread_id:
            self._ask("thread/resume", {"threadId": self.thread_id, **self._place}, self._resumed)
        else:
            self._ask("thread/start", self._place, self._opened)
        return []

    def _resumed(self, answer: _Message) -> list[Event]:
        if answer.error is None:
            return self._opened(answer)
        self._ask("thread/start", self._place, self._opened)
        return self.translator.remark(f"codex begins a new conversation: {answer.error.message}")

    def _opened(self, answer: _Message) -> list[Event]:
        if answer.error is not None:
            return self.translator.fail(answer.error.message)
        self.thread_id = self.translator.thread_id = msgspec.convert(answer.result, _ThreadOpened).thread.id
        prompt = {"type": "text", "text": self._text}
        self._ask("turn/start", {"threadId": self.thread_id, "input": [prompt]}, self._begun)
        return []

    def _begun(self, answer: _Message) -> list[Event]:
        if answer.error is not None:
            return self.translator.fail(answer.error.message)
        self._turn_id = msgspec.convert(answer.result, _TurnBegun).turn.id
        return []

    # What the server asks

    def _requested(self, request: int | str, method: str, params: Any) -> list[Event]:
        params = params if isinstance(params, dict) else {}
        question = _question(method, params)
        if question is not None:
            self._questions.append(Asked(request, method, params, question))
        elif method == "item/tool/requestUserInput":
            self._send({"id": request, "result": {"answers": {}}})
        elif method == "item/tool/call":
            self._send({"id": request, "result": {"contentItems": [], "success": False}})
        else:
            self._send({"id": request, "error": {"code": _NO_SUCH_METHOD, "message": f"{method} is not known here"}})
        return []


def _question(method: str, params: dict[str, Any]) -> Question | None:
    """What a request asks to be allowed; None for one that asks for something else."""
    reason = params.get("reason") or params.get("message")
    command = params.get("command")
    match method:
        case "item/commandExecution/requestApproval":
            title = f"Run {unwrapped(command)}" if isinstance(command, str) else reason or "Run a command"
        case "execCommandApproval":
            title = f"Run {' '.join(map(str, command))}" if isinstance(command, list) else reason or "Run a command"
        case "item/fileChange/requestApproval" | "applyPatchApproval":
            title = reason or "Change files"
        case "item/permissions/requestApproval":
            title = reason or "Have further permissions"
        case "mcpServer/elicitation/request" if not _form(params):
            title = reason or "Go on"
        case "mcpServer/elicitation/request":
            return Question(title=str(reason or "Fill in a form"), arguments=params, choices=_choices("decline")[-1:])
        case _:
            return None
    is_old = method in {"execCommandApproval", "applyPatchApproval"}
    choices = _choices("denied", "approved", "approved_for_session") if is_old else _choices("decline")
    return Question(title=str(title), arguments=params, choices=choices)


def _choices(deny: str, once: str = "accept", always: str = "acceptForSession") -> tuple[Choice, ...]:
    return (
        Choice(id=once, name="Allow", kind="allow_once"),
        Choice(id=always, name="Allow for this session", kind="allow_always"),
        Choice(id=deny, name="Deny", kind="reject_once"),
    )


def _form(params: dict[str, Any]) -> Any:
    """What would have to be filled in to agree."""
    schema = params.get("requestedSchema")
    return schema.get("properties") if isinstance(schema, dict) else schema or params.get("url")
