"""The client of `codex app-server`: JSON-RPC, one message a line, in both directions.

This module owns the messages to the server and their order: the handshake, the thread to resume, the prompt, an
interruption, and the responses to the server's requests. The translator reads the notifications. The server numbers its
requests from 0 and omits the `jsonrpc` field.

Pure: call `feed` with each line of the server, send the lines that `take_outgoing` returns, and `answer` the requests
that `take_approval_requests` returns.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.runtimes.codex.items import without_shell
from tailrace.runtimes.codex.translator import CodexTranslator
from tailrace.runtimes.permissions import Choice, Question
from tailrace.surrogates import decode_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events import Event

_NO_SUCH_METHOD = -32601
_CLIENT = {"name": "tailrace", "title": "tailrace", "version": version("tailrace")}


class _RpcError(msgspec.Struct):
    message: str = ""


class _RpcMessage(msgspec.Struct):
    """A JSON-RPC message. A request has a method and an id, a notification only a method, a response only an id."""

    id: int | str | None = None
    method: str | None = None
    params: Any = None
    result: Any = None
    error: _RpcError | None = None


_decoder = msgspec.json.Decoder(_RpcMessage)


class _Named(msgspec.Struct):
    id: str


class _ThreadResult(msgspec.Struct):
    thread: _Named


class _TurnResult(msgspec.Struct):
    turn: _Named


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A request of the server for approval, and the question that it asks."""

    id: int | str
    method: str
    params: dict[str, Any]
    question: Question


class CodexClient:
    """One turn with the server. `thread_id` is at first the thread to resume, then the thread of this turn."""

    def __init__(
        self, text: str, *, thread_id: str = "", cwd: str | None = None, warned: set[str] | None = None
    ) -> None:
        self.thread_id = thread_id
        self.has_responded = False
        self.translator = CodexTranslator(warned)
        self._text = text.encode(errors="replace").decode()
        self._cwd_params = {} if cwd is None else {"cwd": cwd}
        self._turn_id = ""
        self._response_handlers: dict[int, Callable[[_RpcMessage], list[Event]]] = {}
        self._request_count = 0
        self._outgoing: list[bytes] = []
        self._approval_requests: list[ApprovalRequest] = []
        self._request("initialize", {"clientInfo": _CLIENT}, self._initialized)

    def take_outgoing(self) -> list[bytes]:
        """Return the lines to send now."""
        lines, self._outgoing = self._outgoing, []
        return lines

    def take_approval_requests(self) -> list[ApprovalRequest]:
        """Return the requests for approval that came since the last call. `answer` responds to them."""
        requests, self._approval_requests = self._approval_requests, []
        return requests

    def feed(self, line: bytes) -> list[Event]:
        """Handle one line of the server."""
        try:
            message = decode_line(line, _decoder)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self.translator.unknown("line", line.decode(errors="replace"))
        if message.method is not None and message.id is not None:
            return self._server_request(message.id, message.method, message.params)
        if message.method is not None:
            return self.translator.feed(message.method, message.params)
        handler = self._response_handlers.pop(message.id, None) if isinstance(message.id, int) else None
        if handler is None:
            return []
        self.has_responded = True
        try:
            return handler(message)
        except msgspec.ValidationError as error:
            return self.translator.fail(f"codex sent a response that cannot be read: {error}")

    def interrupt(self) -> None:
        """Ask the server to stop the turn, if one runs."""
        if self._turn_id and not self.translator.turn.is_finished:
            self._request("turn/interrupt", {"threadId": self.thread_id, "turnId": self._turn_id}, lambda _: [])

    def answer(self, request: ApprovalRequest, choice: Choice | None) -> None:
        """Respond to a request for approval. If `choice` is None, the request is denied."""
        allowed = choice is not None and choice.kind.startswith("allow")
        if request.method == "item/permissions/requestApproval":
            result: Any = {"permissions": request.params.get("permissions", {}) if allowed else {}}
        elif request.method == "mcpServer/elicitation/request":
            result = {"action": "accept", "content": {}} if allowed else {"action": "decline"}
        else:
            denied = request.question.denying()
            chosen = choice or denied
            assert chosen is not None, "every question can be denied"
            result = {"decision": chosen.id}
        self._send({"id": request.id, "result": result})

    # Requests to the server

    def _send(self, message: dict[str, Any]) -> None:
        self._outgoing.append(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def _request(self, method: str, params: dict[str, Any], handler: Callable[[_RpcMessage], list[Event]]) -> None:
        self._request_count += 1
        self._response_handlers[self._request_count] = handler
        self._send({"id": self._request_count, "method": method, "params": params})

    def _initialized(self, answer: _RpcMessage) -> list[Event]:
        if answer.error is not None:
            return self.translator.fail(answer.error.message)
        self._send({"method": "initialized"})
        if self.thread_id:
            self._request("thread/resume", {"threadId": self.thread_id, **self._cwd_params}, self._thread_resumed)
        else:
            self._request("thread/start", self._cwd_params, self._thread_opened)
        return []

    def _thread_resumed(self, answer: _RpcMessage) -> list[Event]:
        if answer.error is None:
            return self._thread_opened(answer)
        self._request("thread/start", self._cwd_params, self._thread_opened)
        return self.translator.notice(f"codex starts a new conversation: {answer.error.message}")

    def _thread_opened(self, answer: _RpcMessage) -> list[Event]:
        if answer.error is not None:
            return self.translator.fail(answer.error.message)
        self.thread_id = self.translator.thread_id = msgspec.convert(answer.result, _ThreadResult).thread.id
        prompt = {"type": "text", "text": self._text}
        self._request("turn/start", {"threadId": self.thread_id, "input": [prompt]}, self._turn_started)
        return []

    def _turn_started(self, answer: _RpcMessage) -> list[Event]:
        if answer.error is not None:
            return self.translator.fail(answer.error.message)
        self._turn_id = msgspec.convert(answer.result, _TurnResult).turn.id
        return []

    # Requests of the server

    def _server_request(self, request_id: int | str, method: str, params: Any) -> list[Event]:
        params = params if isinstance(params, dict) else {}
        question = _question(method, params)
        if question is not None:
            self._approval_requests.append(ApprovalRequest(request_id, method, params, question))
        elif method == "item/tool/requestUserInput":
            self._send({"id": request_id, "result": {"answers": {}}})
        elif method == "item/tool/call":
            self._send({"id": request_id, "result": {"contentItems": [], "success": False}})
        else:
            self._send({"id": request_id, "error": {"code": _NO_SUCH_METHOD, "message": f"{method} is not supported"}})
        return []


def _question(method: str, params: dict[str, Any]) -> Question | None:
    """The question that a request for approval asks; None for any other request."""
    reason = params.get("reason") or params.get("message")
    command = params.get("command")
    match method:
        case "item/commandExecution/requestApproval":
            title = f"Run {without_shell(command)}" if isinstance(command, str) else reason or "Run a command"
        case "execCommandApproval":
            title = f"Run {' '.join(map(str, command))}" if isinstance(command, list) else reason or "Run a command"
        case "item/fileChange/requestApproval" | "applyPatchApproval":
            title = reason or "Change files"
        case "item/permissions/requestApproval":
            title = reason or "Have further permissions"
        case "mcpServer/elicitation/request" if not _required_fields(params):
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


def _required_fields(params: dict[str, Any]) -> Any:
    """What the server wants from the user: the fields of a form, or the address of a page to visit."""
    schema = params.get("requestedSchema")
    return schema.get("properties") if isinstance(schema, dict) else schema or params.get("url")
