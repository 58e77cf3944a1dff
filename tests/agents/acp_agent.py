"""An agent of the Agent Client Protocol that plays scenes: the first word of a prompt names the scene.

Plain JSON-RPC over standard input and output, with the standard library alone. Options on the command line say what
the agent can do; every process it is or starts writes its number into the directory `PIDS`.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = set(sys.argv[1:])
STORE = Path(os.environ.get("STORE", "."))
CHOICES = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def mark(pid: int) -> None:
    if "PIDS" in os.environ:
        (Path(os.environ["PIDS"]) / str(pid)).touch()


class Agent:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session = ""
        self.prompts: list[str] = []
        self.mode = "default"
        self.cancelled = threading.Event()
        self.leaves = False
        self.answers: dict[int, queue.Queue[Any]] = {}

    # The wire

    def write(self, line: bytes) -> None:
        with self.lock:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def update(self, kind: str, **fields: Any) -> None:
        params = {"sessionId": self.session, "update": {"sessionUpdate": kind, **fields}}
        self.send(method="session/update", params=params)

    def text(self, text: str, **fields: Any) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **fields)

    def begin(self, method: str, params: Any, number: int = 0) -> queue.Queue[Any]:
        self.answers[number] = queue.Queue()
        self.send(id=number, method=method, params=params)
        return self.answers[number]

    def ask(self, number: int = 0, *, choices: list[dict[str, str]] = CHOICES) -> queue.Queue[Any]:
        """Request permission for a call that was not reported before."""
        call = {"toolCallId": f"call-{number}", "title": f"rm -rf {number}", "kind": "execute"}
        params = {"sessionId": self.session, "toolCall": call, "options": choices}
        return self.begin("session/request_permission", params, number)

    # The protocol

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if self.leaves:
                continue
            if "method" not in message:
                self.answers[message["id"]].put(message)
            elif message["method"] == "session/cancel":
                self.cancelled.set()
            elif message["method"] == "session/prompt":
                threading.Thread(target=self.prompt, args=(message,), daemon=True).start()
            else:
                self.answer(message)

    def answer(self, message: Any) -> None:
        method, params = message["method"], message["params"]
        if f"--refuse={method}" in OPTIONS:
            self.send(id=message["id"], error={"code": -32603, "message": "Internal error", "data": {"details": "no"}})
        elif f"--silent={method}" in OPTIONS:
            return
        elif method == "initialize":
            self.send(id=message["id"], result=self.hello())
        elif method == "authenticate":
            OPTIONS.discard("--auth")
            self.send(id=message["id"], result={})
        elif method == "session/new" and "--auth" in OPTIONS:
            self.send(id=message["id"], error={"code": -32000, "message": "Authentication required"})
        elif method == "session/new":
            self.session = f"s{time.time_ns()}"
            self.send(id=message["id"], result={"sessionId": self.session})
        elif method in {"session/load", "session/resume"} and f"--{method[8:]}" in OPTIONS:
            self.session = params["sessionId"]
            self.prompts = json.loads((STORE / self.session).read_text())
            if "--late" in OPTIONS:
                self.send(id=message["id"], result={})
            times = 1000 if "--long" in OPTIONS else 1
            for prompt in self.prompts * times if method == "session/load" else []:
                self.update("user_message_chunk", content={"type": "text", "text": prompt})
                self.text(f"(history: {prompt})")
            if "--late" not in OPTIONS:
                self.send(id=message["id"], result={})
        elif method == "session/set_mode":
            self.mode = params["modeId"]
            self.send(id=message["id"], result={})

    def hello(self) -> Any:
        can: dict[str, Any] = {"loadSession": "--load" in OPTIONS}
        if "--resume" in OPTIONS:
            can["sessionCapabilities"] = {"resume": {}}
        version = 2 if "--version=2" in OPTIONS else 1
        ways = [{"id": "key", "name": "A key"}, {"id": "web", "name": "A web page"}]
        return {
            "protocolVersion": version,
            "agentCapabilities": can,
            "agentInfo": {"name": "scenes"},
            "authMethods": ways,
        }

    def prompt(self, message: Any) -> None:
        text = message["params"]["prompt"][0]["text"]
        self.prompts.append(text)
        (STORE / self.session).write_text(json.dumps(self.prompts))
        self.cancelled.clear()
        self.number = message["id"]
        play: Callable[[], Any] = getattr(self, f"scene_{text.split()[0]}")
        result = play()
        if result is not None:
            self.send(id=self.number, result={"stopReason": result})

    # The scenes

    def scene_others(self) -> str:
        """What a session that is not ours says comes in between."""
        self.text("one ")
        ours, self.session = self.session, "another"
        self.text("of another session ")
        self.session = ours
        self.text("two")
        return "end_turn"

    def scene_hello(self) -> str:
        for character in "Hello, wörld 👋🏽":
            self.text(character)
        return "end_turn"

    def scene_memory(self) -> str:
        self.text(f"{os.getpid()} {self.mode} {json.dumps(self.prompts)}")
        return "end_turn"

    def outcome(self, asked: queue.Queue[Any], number: int = 0) -> Any:
        """How a permission was answered; the call is over with that."""
        outcome = asked.get()["result"]["outcome"]
        self.update("tool_call_update", toolCallId=f"call-{number}", status="failed")
        return outcome

    def scene_permission(self) -> str:
        self.text(f"{self.outcome(self.ask())}")
        return "end_turn"

    def scene_permissions(self) -> str:
        asked = [self.ask(number) for number in (0, 1)]
        self.text("working")
        self.text(f" {[self.outcome(one, number).get('optionId') for number, one in enumerate(asked)]}")
        return "end_turn"

    def scene_talkative(self) -> str:
        """Goes on talking while a question is open, and then notes that it has."""
        asked = self.ask()
        while not (STORE / "asked").exists():
            time.sleep(0.01)
        for _ in range(20):
            self.text("blah ")
        (STORE / "talked").touch()
        self.text(f"{self.outcome(asked)}")
        return "end_turn"

    def scene_later(self) -> str:
        """Asks once the test allows it, not at once."""
        self.text("one moment ")
        while not (STORE / "asked").exists():
            time.sleep(0.01)
        return self.scene_permission()

    def scene_impatient(self) -> str:
        """The turn ends while a question is open."""
        self.open_question = self.ask()
        self.text("never mind")
        return "end_turn"

    def scene_withdrawn(self) -> str:
        """How that question was answered."""
        self.text(f"{self.open_question.get()['result']['outcome']}")
        return "end_turn"

    def scene_one_sided(self) -> str:
        self.text(f"{self.outcome(self.ask(choices=CHOICES[:2]))}")
        return "end_turn"

    def scene_files(self) -> str:
        answer = self.begin("fs/read_text_file", {"sessionId": self.session, "path": "/etc/passwd"})
        self.text(str(answer.get()["error"]["code"]))
        return "end_turn"

    def scene_cancel(self) -> str:
        self.update("tool_call", toolCallId="t", title="sleep", status="in_progress")
        self.cancelled.wait()
        (STORE / "cancelled").touch()
        return "cancelled"

    def scene_deaf(self) -> str:
        self.text("I go on.")
        return self.forever()

    def scene_garbage(self) -> str:
        self.text("Hel")
        for line in (b"npm warn old", b"42", b"[]", b"\xff\xfe", b'{"method": 7}', b'{"jsonrpc": "2.0"}', b"{" * 5000):
            self.write(line)
        self.send(id=99, result={"stopReason": "end_turn"})
        self.send(id=None, error={"code": -32700, "message": "Parse error"})
        self.send(method="_vendor/ping", params=None)
        self.update("from_the_future", x=1)
        self.text("lo")
        return "end_turn"

    def scene_late(self) -> None:
        self.update("tool_call", toolCallId="t", title="sleep", status="in_progress")
        self.text("Meanwhile.")
        self.send(id=self.number, result={"stopReason": "end_turn"})
        self.update("tool_call_update", toolCallId="t", _meta={"terminal_output_delta": {"data": "tick\n"}})
        self.text("too late")
        self.update("tool_call", toolCallId="u", title="too late")
        self.update("tool_call_update", toolCallId="t", status="completed", rawOutput="slept")

    def scene_stale(self) -> None:
        """Text and a request in the same write as the end of the turn."""
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "stale"}}
        asked = {"toolCall": {"toolCallId": "x"}, "options": CHOICES, "sessionId": self.session}
        self.answers[0] = self.open_question = queue.Queue()
        messages = [
            {"id": self.number, "result": {"stopReason": "end_turn"}},
            {"method": "session/update", "params": {"sessionId": self.session, "update": update}},
            {"id": 0, "method": "session/request_permission", "params": asked},
        ]
        self.write(b"\n".join(json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages))

    def scene_never_finished(self) -> str:
        self.update("tool_call", toolCallId="t", title="sleep", status="in_progress")
        return "end_turn"

    def scene_child(self) -> str:
        """A child in the same group holds our output open, and outlives us."""
        child = subprocess.Popen(("sleep", "600"))
        mark(child.pid)
        self.text("It sleeps.")
        return "end_turn"

    def scene_exits_after(self) -> None:
        """Done, and gone before the next prompt: a request sent meanwhile is not read."""
        self.leaves = True
        self.text("Bye.")
        self.send(id=self.number, result={"stopReason": "end_turn"})
        os._exit(0)

    def forever(self) -> str:
        time.sleep(600)
        return "end_turn"


if __name__ == "__main__":
    mark(os.getpid())
    if "--deaf" in OPTIONS:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--exit" in OPTIONS:
        sys.exit("no licence")
    Agent().serve()
    if "--deaf" in OPTIONS:
        time.sleep(600)
