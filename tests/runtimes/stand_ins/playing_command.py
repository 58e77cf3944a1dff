"""Stands in for the command of any agent: plays the native events it is given, as that agent would bring them.

Its own arguments, before those of the runtime: a folder with the scripts, a file per turn that is named by its number,
and which agent it is. A script holds a value per line; the last one is played for ever. `stall` in a script is
done, everything else is written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any


def next_script(folder: Path) -> list[Any]:
    """What to play now."""
    first, *others = sorted(folder.glob("[0-9]*"))
    script = [json.loads(line) for line in first.read_text(encoding="utf-8").splitlines()]
    if others:
        first.unlink()
    return script


def write_line(line: str) -> None:
    sys.stdout.buffer.write(line.encode() + b"\n")


def start_tool() -> None:
    """A child in our group that holds our output open, and would outlive us."""
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "600"])


def play(script: list[Any]) -> bool:
    """Write it all, or up to where it stalls; returns whether it did."""
    for native in script:
        if native == {"stall": True}:
            sys.stdout.buffer.flush()
            start_tool()
            return True
        write_line(native)
    sys.stdout.buffer.flush()
    return False


def lines(folder: Path) -> None:
    """Read the prompt, play the script, and end."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdin.buffer.read()
    if play(next_script(folder)):
        signal.pause()


def app_server(folder: Path) -> None:
    """The server of codex, which lives as long as its input."""
    answers = {
        "initialize": {},
        "thread/start": {"thread": {"id": "thread-1"}},
        "turn/start": {"turn": {"id": "turn-1"}},
        "turn/interrupt": {},
    }
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if "id" in asked:
            write_line(json.dumps({"id": asked["id"], "result": answers[asked["method"]]}))
            sys.stdout.buffer.flush()
        if asked["method"] == "turn/start":
            script = next_script(folder)
            if not play(script) and not any("turn/completed" in native for native in script):
                return


class AcpAgent:
    """An agent of the Agent Client Protocol; of a script `update`, `answer` and `refuse` are messages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stalls: int | None = None

    def send(self, **message: Any) -> None:
        write_line(json.dumps({"jsonrpc": "2.0", **message}))
        sys.stdout.buffer.flush()

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            asked = json.loads(line)
            match asked["method"]:
                case "initialize":
                    self.send(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
                case "session/new":
                    self.send(id=asked["id"], result={"sessionId": "session-1"})
                case "session/prompt":
                    self.play(asked["id"])
                case "session/cancel" if self.stalls is not None:
                    self.send(id=self.stalls, result={"stopReason": "cancelled"})

    def play(self, prompt: int) -> None:
        for native in next_script(self.folder):
            match native:
                case {"stall": True}:
                    start_tool()
                    self.stalls = prompt
                    return
                case {"update": update}:
                    params = {"sessionId": "session-1", "update": update}
                    write_line(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
                case {"answer": result}:
                    self.send(id=prompt, result=result)
                case {"refuse": error}:
                    self.send(id=prompt, error=error)
                    return
                case _:
                    write_line(native)
        sys.stdout.buffer.flush()
        if native != {"answer": {"stopReason": "end_turn"}}:
            sys.exit(0)


def opencode_server(folder: Path) -> None:
    """The server of opencode."""
    import base64  # noqa: PLC0415  # all of these are slow, and only this agent needs them
    import queue  # noqa: PLC0415
    from http.server import ThreadingHTTPServer  # noqa: PLC0415

    from opencode_command import Handler, Server  # noqa: PLC0415

    class Playing(Server):
        def __init__(self) -> None:
            ThreadingHTTPServer.__init__(self, ("127.0.0.1", 0), Handler)
            self.folder = str(folder / "notes")
            Path(self.folder).mkdir(exist_ok=True)
            self.action, self.session, self.command = "", "session-1", None
            self.connected: Any = {"type": "server.connected", "properties": {}}
            self.events: queue.Queue[Any] = queue.Queue()
            word = f"opencode:{os.environ['OPENCODE_SERVER_PASSWORD']}"
            self.word = f"Basic {base64.b64encode(word.encode()).decode()}"

        def prompted(self) -> None:
            script = next_script(folder)
            for native in script:
                if native == {"stall": True}:
                    start_tool()
                else:
                    self.events.put(native)
            if {"stall": True} not in script:
                self.events.put(None)

    server = Playing()
    write_line(f"opencode server listening on http://127.0.0.1:{server.server_port}")
    sys.stdout.buffer.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.serve_forever()


def main() -> int:
    folder, agent, *given = sys.argv[1:]
    match agent, given:
        case "codex-app", ["app-server", *_]:
            app_server(Path(folder))
        case "opencode-serve", ["serve", *_]:
            opencode_server(Path(folder))
        case "codex-exec", ["app-server", *_]:
            print("error: unrecognized subcommand 'app-server'", file=sys.stderr)
            return 2
        case "opencode-run", ["serve", *_]:
            print("Unknown command: serve", file=sys.stderr)
            return 1
        case "acp", _:
            AcpAgent(Path(folder)).serve()
        case _:
            lines(Path(folder))
    return 0


if __name__ == "__main__":
    threading.excepthook = lambda _: os._exit(1)
    sys.exit(main())
