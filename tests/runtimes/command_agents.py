"""What the tests of runtimes with a command share: a stand-in of the command, a turn, and a person who is asked."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.contract import checked
from tailrace.events import Event, TextDelta
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.claude import ClaudeRuntime
from tailrace.runtimes.codex import CodexRuntime
from tailrace.runtimes.gemini import GeminiRuntime
from tailrace.runtimes.opencode import OpencodeRuntime

if TYPE_CHECKING:
    from tailrace.runtimes.permissions import Choice, Question

STAND_INS = Path(__file__).parent / "stand_ins"
ACP_AGENT = Path(__file__).parent.parent / "agents" / "acp_agent.py"
RUNTIMES: dict[str, Any] = {
    "claude": ClaudeRuntime,
    "codex": CodexRuntime,
    "gemini": GeminiRuntime,
    "opencode": OpencodeRuntime,
}


def stand_in(name: str, folder: Path, action: str) -> tuple[str, ...]:
    """The command of a stand-in, which keeps its notes in the folder."""
    return (sys.executable, str(STAND_INS / f"{name}_command.py"), str(folder), action)


def runtime_of(name: str, folder: Path, action: str, **options: Any) -> Any:
    return RUNTIMES[name](stand_in(name, folder, action), sessions=folder / "sessions", **options)


def play(runtime: Runtime, text: str = "hello", **fields: str) -> list[Event]:
    """The events of a whole turn, which must obey the grammar."""

    async def collect() -> list[Event]:
        prompt = Prompt(text=text, **fields)
        return [event async for event in checked(runtime.run(prompt), turn_id="t")]

    return asyncio.run(collect())


async def leave_at(runtime: Any, kind: type[Event], *, person: Person | None = None, text: str = "hello") -> None:
    """Close a turn at the first event of a kind, once the person is asked."""
    async with aclosing(runtime.run(Prompt(text=text, session_id="one"))) as events:
        async for event in events:
            if isinstance(event, kind):
                if person is not None:
                    await person.is_asked.wait()
                break


def notes(folder: Path) -> list[Any]:
    """What the stand-in was asked."""
    return [json.loads(line) for line in (folder / "asked").read_text(encoding="utf-8").splitlines()]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def is_running(process: int) -> bool:
    """Whether a process runs. One that is dead but not reaped does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Person:
    """Chooses by the kind or the name of a choice; or "never" answers, or "raises". Remembers the questions."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.questions: list[Question] = []
        self.is_asked = asyncio.Event()
        self.is_withdrawn = False

    async def ask(self, question: Question) -> Choice | None:
        self.questions.append(question)
        if self.kind == "raises":
            raise ConnectionError("no line to the person")
        if self.kind == "never":
            self.is_asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.is_withdrawn = True
        return next((choice for choice in question.choices if self.kind in {choice.kind, choice.name}), None)
