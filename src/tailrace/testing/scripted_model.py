"""A model on this machine with scripted answers, to run agents without a network.

    with ScriptedModel() as model:
        subprocess.run(["claude", "-p", "[[scenario:tool]]"], env={"ANTHROPIC_BASE_URL": model.url, ...})

    python -m tailrace.testing.scripted_model --port 8080

It listens on 127.0.0.1 only. Its APIs are Anthropic's Messages, OpenAI's Responses and Chat Completions, and Google's
generateContent. The prompt names the scenario as `[[scenario:NAME]]`; if there are several, the last one counts.

This file has the connections. `tailrace.testing.scripted_scenarios` has the scenarios, `scripted_answers` chooses the
answer, and each API has a file that writes it in its format.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from tailrace.testing.scripted_answers import Api, Pause, answer_to
from tailrace.testing.scripted_anthropic import Anthropic
from tailrace.testing.scripted_chat import Chat
from tailrace.testing.scripted_gemini import Gemini
from tailrace.testing.scripted_responses import Responses
from tailrace.testing.scripted_scenarios import SCENARIOS, Disconnect, Fail, HttpError, Scenario, Stall

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from tailrace.testing.scripted_answers import Answer, Piece

_HOST = "127.0.0.1"
_APIS: dict[str, Api] = {
    "/messages": Anthropic(),
    "/responses": Responses(),
    "/chat/completions": Chat(),
    ":streamGenerateContent": Gemini(),
    ":generateContent": Gemini(),
}
_TOKENS = {"input_tokens": 42, "totalTokens": 42}
_MODELS = {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tailrace"}]}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request, and its answer: the name of the scenario, and the number of the answer in it (`turn`, from 0)."""

    api: str
    path: str
    scenario: str
    turn: int
    body: dict[str, Any]


class ScriptedModel:
    """The HTTP server of the model.

    It runs in threads while the `with` block runs; at the end all connections are closed.

    `scenarios` are added to the built-in ones, or replace those with the same name. `unmarked` is the scenario for
    prompts that name none. `pace_s` is the time between two pieces of an answer. `requests` has all requests in order.
    """

    def __init__(
        self,
        scenarios: Mapping[str, Scenario] | None = None,
        *,
        unmarked: str = "",
        port: int = 0,
        pace_s: float = 0.0,
    ) -> None:
        self.scenarios = {**SCENARIOS, **(scenarios or {})}
        self.unmarked = unmarked
        self.pace_s = pace_s
        self.requests: list[Asked] = []
        self._keeping = threading.Lock()
        self._server = _Server((_HOST, port), self)
        self.port: int = self._server.server_address[1]
        self.url = f"http://{_HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()

    def asked(self, scenario: str) -> list[Asked]:
        """The requests that were answered from this scenario."""
        return [asked for asked in self.requests if asked.scenario == scenario]

    def answer(self, api: Api, path: str, body: dict[str, Any]) -> Answer:
        """Choose the answer to a request, and add the request to `requests`."""
        with self._keeping:
            request = api.parse(body)
            answer = answer_to(request, self.scenarios, number=len(self.requests) + 1, unmarked=self.unmarked)
            asked = Asked(api=api.name, path=path, scenario=answer.scenario, turn=answer.turn, body=body)
            self.requests.append(asked)
        return answer


class _Server(ThreadingHTTPServer):
    """The HTTP server. Every connection has its own thread."""

    daemon_threads = False

    def __init__(self, address: tuple[str, int], model: ScriptedModel) -> None:
        super().__init__(address, _Connection)
        self.model = model
        self._open: set[socket.socket] = set()
        self._opening = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._opening:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._opening:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Close every connection, even if an answer is not finished."""
        with self._opening:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the other side was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client may close the connection at any time, and many tests do. That is not an error.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    """One connection: reads requests and sends the scripted answers."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        """Answer a client that only checks whether the server runs."""
        self._send_head(200, {"Content-Length": "0"})

    def do_GET(self) -> None:
        """Send the list of models. Some clients ask for it first."""
        is_list = self.path.partition("?")[0].endswith("/models")
        self._send_json(*((200, _MODELS) if is_list else (404, {"error": {"message": "there is nothing here"}})))

    def do_POST(self) -> None:
        """Answer a request for an answer of the model, or for the number of tokens in a text."""
        body = self._body()
        path = self.path.partition("?")[0]
        api = next((api for end, api in _APIS.items() if path.endswith(end)), None)
        if api is None:
            is_count = path.endswith(("/count_tokens", ":countTokens"))
            self._send_json(200, _TOKENS if is_count else {})
            return
        if path.endswith(":streamGenerateContent"):
            body["stream"] = True
        answer = self.server.model.answer(api, path, body)
        if answer.refusal is not None:
            self._send_json(answer.refusal.status, api.refusal(answer.refusal))
        elif answer.request.is_streamed:
            self._send_stream(api.stream(answer))
        else:
            self._send_whole(api, answer)

    def _body(self) -> dict[str, Any]:
        content = b""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            decoded = json.loads(content or b"{}")
        except ValueError:
            return {}
        return decoded if isinstance(decoded, dict) else {}

    def _send_head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_json(self, status: int, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self._send_head(status, {"Content-Type": "application/json", "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _send_whole(self, api: Api, answer: Answer) -> None:
        """Send an answer without streaming. If the answer fails in the middle, no text of it is sent."""
        for move in answer.moves:
            match move:
                case Stall() | Disconnect():
                    self._break_off(move)
                case Fail():
                    self._send_json(500, api.refusal(HttpError(500, move.message)))
                    return
        self._send_json(200, api.whole(answer))

    def _break_off(self, how: Stall | Disconnect) -> NoReturn:
        if isinstance(how, Stall):
            self.connection.recv(1)
        raise ConnectionAbortedError("the script ends the connection here, or the client has left")

    def _send_stream(self, pieces: Iterator[Piece]) -> None:
        """Send each piece as an HTTP chunk, so that a client can see whether an answer is complete."""
        self._send_head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for piece in pieces:
            match piece:
                case bytes():
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    time.sleep(self.server.model.pace_s)
                case Pause():
                    time.sleep(piece.seconds)
                case Stall() | Disconnect():
                    self._break_off(piece)
        self.wfile.write(b"0\r\n\r\n")


def main() -> None:
    """Run the model as a program, to try an agent by hand: `python -m tailrace.testing.scripted_model`."""
    parser = argparse.ArgumentParser(prog="python -m tailrace.testing.scripted_model")
    parser.add_argument("--port", type=int, default=0, help="where to listen; any free port if it is left out")
    parser.add_argument("--pace", type=float, default=0.03, help="seconds between two pieces of an answer")
    parser.add_argument("--unmarked", default="hello", help="the scenario for prompts that name none")
    asked = parser.parse_args()
    with ScriptedModel(port=asked.port, pace_s=asked.pace, unmarked=asked.unmarked) as model:
        sys.stdout.write(f"{model.url}\nscenarios: {', '.join(model.scenarios)}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


if __name__ == "__main__":
    main()
