"""A process of its own in which turns that were sent are held against what another way would have made of them.

What a way does there touches nobody: it has a process, a time and an amount of memory that can be taken from it, the
lowest priority, nothing of our environment but the paths of modules, and no pipe but the two through which events come
and a comparison goes. `SandboxProcess` is our end, and blocks: it is for a thread. `main` is the other one.
"""

from __future__ import annotations

import base64
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from tailrace.errors import ContractViolation, UsageError
from tailrace.events import Event, encode_event
from tailrace.operations import Target
from tailrace.shadow.comparison import Account, Comparison, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.shadow.replay import Variant

_LONGEST_ANSWER = 1_000_000
_KEPT = ("PATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT")
_REAPED_S = 5.0


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was sent: where, and what came of it."""

    target: Target
    ours: Account
    tolerance_s: float


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How it differs, or why nobody can tell."""

    comparison: Comparison | None = None
    given_up: str = ""


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """The line that begins a question; so many lines of events follow."""

    question: Question
    events: int


class _Heard(msgspec.Struct, frozen=True, array_like=True):
    at: float
    event: Event


class SandboxProcess:
    """Asks the process, which is started when it is needed, and anew after one that failed or was late."""

    def __init__(self, way: Variant, *, within_s: float, memory_mb: int) -> None:
        try:
            self._way = base64.b64encode(pickle.dumps(way)) + b"\n"
        except Exception as error:
            raise UsageError(
                f"the shadow's way cannot be handed to its process: {error}. "
                "Let what makes its projector be a class or a function of a module."
            ) from error
        self._within_s = within_s
        self._limits = [f"{within_s}", f"{memory_mb * 1_048_576}"]
        self._process: subprocess.Popen[bytes] | None = None
        self._changing = threading.Lock()
        self._asking = threading.Lock()
        self._is_closed = False

    def examine(self, question: Question, events: Sequence[tuple[float, Event]]) -> Answer:
        """Have it compared; takes no longer than it may. Never raises for what the other way does."""
        with self._asking:
            return self._examine(question, events)

    def _examine(self, question: Question, events: Sequence[tuple[float, Event]]) -> Answer:
        is_late = threading.Event()
        try:
            process = self._started()
            if process is None:
                return Answer(given_up="the shadow was closed")
            timer = threading.Timer(self._within_s, _end_late, (process, is_late))
            timer.daemon = True
            timer.start()
            try:
                answer = _ask(process, question, events)
            finally:
                timer.cancel()
        except (OSError, ValueError, RuntimeError, ContractViolation, msgspec.MsgspecError) as error:
            answer = Answer(given_up=str(error) or type(error).__name__)
        if is_late.is_set():
            answer = Answer(given_up=f"it took longer than {self._within_s:g} s")
        if answer.given_up:
            self._end()
        return answer

    def close(self) -> None:
        """End the process, whatever it is at. Whoever asks it is answered at once, and so is who asks later."""
        with self._changing:
            self._is_closed = True
            process = self._process
        if process is not None:
            _kill(process)
        # Whoever asks it now hears that it has ended, and lets go of it.
        if self._asking.acquire(timeout=_REAPED_S):
            self._asking.release()
            self._end()

    def _started(self) -> subprocess.Popen[bytes] | None:
        with self._changing:
            if self._is_closed or self._process is not None:
                return None if self._is_closed else self._process
            paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
            kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
            self._process = subprocess.Popen(  # noqa: S603 -- our own module
                [sys.executable, "-P", "-m", __name__, *self._limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**kept, "PYTHONPATH": paths},
                start_new_session=True,
            )
            assert self._process.stdin is not None, "it was asked for"
            self._process.stdin.write(self._way)
            return self._process

    def _end(self) -> None:
        with self._changing:
            process, self._process = self._process, None
        if process is not None:
            _kill(process)
            _reap(process)


def _ask(process: subprocess.Popen[bytes], question: Question, events: Sequence[tuple[float, Event]]) -> Answer:
    assert process.stdin is not None, "it was asked for"
    assert process.stdout is not None, "it was asked for"
    process.stdin.write(msgspec.json.encode(_Asked(question, len(events))) + b"\n")
    for at, event in events:
        # One by one: whoever else wants to run in this process shall not wait for all of them.
        process.stdin.write(b"[%r,%s]\n" % (at, encode_event(event)))
    process.stdin.flush()
    line = process.stdout.readline(_LONGEST_ANSWER)
    if not line.endswith(b"\n"):
        return Answer(given_up="its process ended, or said too much")
    return msgspec.json.decode(line, type=Answer)


def _end_late(process: subprocess.Popen[bytes], is_late: threading.Event) -> None:
    is_late.set()
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End it together with all that it started."""
    if process.returncode is not None:
        return  # it was waited for: its number may be somebody else's by now
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _reap(process: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(_REAPED_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def main(within_s: float, memory_bytes: int) -> None:
    """Answer questions until there are no more. The first line is the way, pickled by whoever started this."""
    questions, answers = _pipes()
    _humble(memory_bytes)
    pickled = questions.readline()
    while line := questions.readline():
        # Also where nobody is left to end it, it ends.
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, within_s + 1)
        answer = _answer(pickled, line, questions)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def _answer(pickled: bytes, line: bytes, questions: IO[bytes]) -> Answer:
    try:
        asked = msgspec.json.decode(line, type=_Asked)
        heard = msgspec.json.Decoder(_Heard)
        lines = [heard.decode(questions.readline()) for _ in range(asked.events)]
        way: Variant = pickle.loads(base64.b64decode(pickled))  # noqa: S301 -- written by the process that started this one
        theirs = way.account([(each.at, each.event) for each in lines], asked.question.target)
        found = compare(asked.question.ours, theirs, tolerance_s=asked.question.tolerance_s)
        return Answer(comparison=found)
    except Exception as error:  # noqa: BLE001 -- a shadow may be anything
        return Answer(given_up=f"{type(error).__name__}: {error}"[:1000].rstrip(": "))


def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The two ends, for us alone: what the other way reads or prints goes nowhere."""
    pipes = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    return os.fdopen(pipes[0], "rb"), os.fdopen(pipes[1], "wb")


def _humble(memory_bytes: int) -> None:
    if hasattr(os, "nice"):
        os.nice(10)
    try:
        import resource  # noqa: PLC0415 -- not everywhere there is one
    except ImportError:
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
