"""Stands in for any agent's command, and misbehaves in one way until it is well; then it is the command behind `--`.

Its own arguments: a folder, in which a file `well` says that it is well and `pids` keeps who was started; and the
fault. What the runtime adds to them comes last.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LOCKED_OUT = {
    "claude": '{"type":"result","subtype":"success","is_error":true,"result":"Not logged in · Please run /login"}',
    "codex": "Error: unexpected status 401 Unauthorized: Missing bearer or basic authentication in header",
    "gemini": "Please set an Auth method in your settings.json or specify GEMINI_API_KEY",
    "opencode": "ProviderAuthError: no key is stored for this provider",
    "acp": "not used",
}


def child() -> None:
    """Start one who outlives us and holds our output open."""
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note(started.pid)


def note(process: int) -> None:
    with Path(sys.argv[1], "pids").open("a", encoding="utf-8") as pids:
        pids.write(f"{process}\n")


def write(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def misbehave(fault: str) -> int:
    match fault.split(" "):
        case ["garbage"]:
            write(b'\xff\xfe\x00 not a line\nnull\n[]\n{"type":5}\n{"half\n')
        case ["half_a_line"]:
            write(b'{"type":"' + b"x" * 20_000_000)
        case ["silence"]:
            time.sleep(600)
        case ["flood"]:
            for _ in range(2000):
                sys.stderr.write("x" * 1000 + "\n")
            print("the last words", file=sys.stderr)
            return 3
        case ["deaf"]:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(600)
        case ["closed"]:
            os.close(sys.stdout.fileno())
            time.sleep(600)
        case ["fork"]:
            child()
            return 4
        case ["locked_out", runtime]:
            print(LOCKED_OUT[runtime], file=sys.stdout if runtime == "claude" else sys.stderr)
            return 1
        case ["old"]:
            print(f"error: unexpected argument '{sys.argv[-1]}' found", file=sys.stderr)
            return 2
    return 0


def main() -> int:
    folder, fault, *rest = sys.argv[1:]
    if Path(folder, "well").exists():
        command = rest[rest.index("--") + 1 :]
        os.execv(command[0], command)
    note(os.getpid())
    return misbehave(fault)


if __name__ == "__main__":
    sys.exit(main())
