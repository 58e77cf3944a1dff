"""Stands in for the command `opencode`: serves the events of a recording, and notes what it was asked.

Its own arguments, before those of the runtime: a folder for the notes, and what to do, which is one of the words below
or the name of a recording of `serve`.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from recorded import lines, note, note_run, play, stall, start_tool

if TYPE_CHECKING:
    import subprocess

BROKEN = {"dies", "dies with an error", "hangs up"}
RECORDED = {"stalls": "opencode_serve_abort"} | dict.fromkeys(
    {*BROKEN, "idles", "forgets", "chatters"}, "opencode_serve_tool"
)
# After so many events a text is sent, or a tool has printed something.
STOPS_AFTER = {"idles": 19, "stalls": 24} | dict.fromkeys(BROKEN, 24)


class Server(ThreadingHTTPServer):
    """Sends the events of a recording once it is prompted."""

    daemon_threads = True

    def __init__(self, folder: str, action: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.action = action
        self.connected, *self.recorded = (json.loads(line)["ev"] for line in lines(RECORDED.get(action, action)))
        self.session = next(event["properties"]["sessionID"] for event in self.recorded)
        self.events: queue.Queue[Any] = queue.Queue()
        self.answered: queue.Queue[None] = queue.Queue()
        password = os.environ["OPENCODE_SERVER_PASSWORD"]
        self.word = f"Basic {base64.b64encode(f'opencode:{password}'.encode()).decode()}"
        self.command: subprocess.Popen[bytes] | None = None

    def prompted(self) -> None:
        if self.action == "stalls":
            self.command = start_tool(self.folder)
        if self.action == "chatters":
            print("x" * 1_000_000, flush=True)
        for event in self.recorded[: STOPS_AFTER.get(self.action)]:
            self.events.put(event)
            if event["type"] == "permission.asked":
                self.answered.get()
        if self.action in BROKEN:
            self.events.put(None)
        while self.action == "idles":
            self.events.put({"type": "server.heartbeat", "properties": {}})
            time.sleep(0.05)

    def aborted(self) -> None:
        if self.command is not None:
            self.command.kill()
            self.command.wait()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.take("GET")

    def do_POST(self) -> None:
        self.take("POST")

    def take(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        if self.headers.get("Authorization") != server.word:
            self.reply(401)
            return
        if self.path == "/event":
            self.stream()
            return
        note(server.folder, [method, self.path, json.loads(body) if body else None])
        match self.path.split("/")[1:]:
            case ["session"]:
                self.reply(200, {"id": server.session})
            case ["session", _] if server.action == "forgets":
                self.reply(404)
            case ["session", _, "prompt_async"]:
                self.reply(204)
                server.prompted()
            case ["session", _, "abort"]:
                server.aborted()
                self.reply(200, True)
            case ["permission" | "question", *_]:
                server.answered.put(None)
                self.reply(200, True)
            case _:
                self.reply(200, {"id": server.session})

    def reply(self, status: int, value: Any = None) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        event = self.server.connected
        while event is not None:
            frame = f"data: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
            self.wfile.flush()
            event = self.server.events.get()
        if self.server.action == "dies with an error":
            print("panic: out of memory", file=sys.stderr, flush=True)
            os._exit(3)
        if self.server.action != "hangs up":
            os.kill(os.getpid(), 9)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """The log is not read."""


def run(folder: str, action: str, given: list[str]) -> int:
    """What `opencode run` does."""
    note_run(folder, given)
    if "--session" in given and action == "old and forgetful":
        print("Error: Session not found", file=sys.stderr)
        return 1
    if action == "old and stalling":
        stall(folder, "opencode_run_tool", 3)
    play("opencode_run_tool")
    return 0


def main() -> int:
    folder, action, *given = sys.argv[1:]
    if given[0] == "run":
        return run(folder, action, given)
    if action.startswith("old"):
        print("Unknown command: serve", file=sys.stderr)
        return 1
    server = Server(folder, action)
    print(f"opencode server listening on http://127.0.0.1:{server.server_port}", flush=True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
